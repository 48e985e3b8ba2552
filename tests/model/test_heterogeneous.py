"""Rows whose features are of several kinds."""

import jax.numpy as jnp
import numpy as np
import pytest

from cases import N_FEATURES, N_ROWS, possible_rows
from miwae.model import Count, Heterogeneous, Normal, Ordinal, Part
from model.marginals import N_CODES, OBSERVED, ROUNDING, log_prob, mean_of

# The same four columns (normal, count, ordinal, normal) in three orders.
ORDERS = {
    "by column": ((Normal(1), (0,)), (Count(1), (1,)), (Ordinal((3,)), (2,)), (Normal(1), (3,))),
    "backwards": ((Normal(1), (3,)), (Ordinal((3,)), (2,)), (Count(1), (1,)), (Normal(1), (0,))),
    "joined": ((Count(1), (1,)), (Normal(2), (3, 0)), (Ordinal((3,)), (2,))),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_heterogeneous_row_is_its_parts_in_any_order(order):
    rng = np.random.default_rng(0)
    x, observed = jnp.asarray(possible_rows("heterogeneous")), jnp.asarray(OBSERVED)
    # Parameters of each column: location and raw scale, or whatever the kind has two of.
    own = jnp.asarray(rng.normal(size=(N_FEATURES, N_CODES, N_ROWS, 2)).astype(np.float32))
    parts = tuple(Part(observation, columns) for observation, columns in ORDERS[order])
    joined = Heterogeneous(parts)
    eta = jnp.concatenate(
        [own[part.columns[0]] for part in parts]
        if order != "joined"
        else [own[1], own[3][..., :1], own[0][..., :1], own[3][..., 1:], own[0][..., 1:], own[2]],
        axis=-1,
    )
    terms, means = [], {}
    for observation, (column,) in ORDERS["by column"]:
        cell = x[:, column][:, None], observed[:, column][:, None]
        terms.append(log_prob(observation, own[column], *cell))
        means[column] = mean_of(observation, own[column], *cell)
    np.testing.assert_allclose(log_prob(joined, eta, x, observed), sum(terms), **ROUNDING)
    widths = [column for part in parts for column in part.columns]
    expected = jnp.concatenate([means[column] for column in widths], axis=-1)
    np.testing.assert_allclose(mean_of(joined, eta, x, observed), expected, **ROUNDING)
