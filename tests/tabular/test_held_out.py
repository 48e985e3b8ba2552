"""Predictions of held-out cells: the distribution functions belong to the densities."""

import jax.numpy as jnp
import numpy as np
import pytest

from miwae.model import Coded, MixedColumns, Stretch
from miwae.tabular._held_out import _distribution_functions

N_ROWS, N_SAMPLES = 5, 3
OBSERVATION = MixedColumns.of(
    [None, Stretch(1.0, 0.0, 1.0, 0.0, -9.0, 9.0)],
    [Coded("points", (-1.0, 0.5, 2.0), (0.2, 0.3, 0.5)), Coded("category", (0, 1), (0.5, 0.5))],
    1,
)
NUMBERS, CODED, _, _ = OBSERVATION.sizes
ETA = np.random.default_rng(0).normal(size=(N_SAMPLES, N_ROWS, OBSERVATION.n_parameters))
ETA = jnp.asarray(ETA.astype(np.float32))


def functions(place, value):
    """`P(X < value)` and `P(X <= value)` of one feature, at each sample and row."""
    x = np.zeros((N_ROWS, OBSERVATION.n_features), dtype=np.float32)
    held = np.zeros(x.shape, dtype=bool)
    x[:, place], held[:, place] = value, True
    parameters = type(OBSERVATION.parameters(ETA))(*map(np.asarray, OBSERVATION.parameters(ETA)))
    ((feature, rows, below, upto),) = _distribution_functions(OBSERVATION, parameters, x, held)
    assert (feature, rows.tolist()) == (place, list(range(N_ROWS)))
    return below, upto


def density(place, value):
    x = jnp.zeros((N_ROWS, OBSERVATION.n_features)).at[:, place].set(value)
    seen = jnp.zeros(x.shape, dtype=bool).at[:, place].set(True)
    return np.exp(OBSERVATION.log_prob(ETA, x, seen))


@pytest.mark.parametrize("place", [0, 1])
@pytest.mark.parametrize("value", [-1.5, 0.0, 0.7])
def test_the_slope_of_a_distribution_function_is_the_density(place, value):
    step = 1e-2
    (_, low), (_, high) = functions(place, value - step), functions(place, value + step)
    np.testing.assert_allclose((high - low) / (2 * step), density(place, value), 0.01, 1e-4)


def test_counts_and_levels_add_up_their_probabilities():
    for place, values in (
        (NUMBERS + CODED, range(5)),
        (NUMBERS, (-1.0, 0.5, 2.0)),
        (NUMBERS + 1, (0, 1)),
    ):
        total = np.zeros((N_SAMPLES, N_ROWS))
        for value in values:
            below, upto = functions(place, value)
            np.testing.assert_allclose(below, total, atol=1e-5)
            total += density(place, value)
            np.testing.assert_allclose(upto, total, atol=1e-5)
