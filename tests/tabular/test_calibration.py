"""Probabilities of categories, mixed with their shares as held-out cells ask for it."""

import jax.numpy as jnp
import numpy as np
import pytest

from miwae.columns import ColumnSchema, Schema
from miwae.columns.kinds import Coded
from miwae.tabular._calibration import Mixing, _part_of_shares, _with
from miwae.tabular._fitting import _empty_autoencoder
from miwae.tabular._held_out import HeldOut
from miwae.tabular._observation import TableModel
from tabular.small_tables import SMALL

RNG = np.random.default_rng(0)
LEVELS = slice(0, 3)
SHARES = np.array([0.6, 0.3, 0.1])


def held_out(codes, p):
    x = codes[:, None].astype(np.float32)
    held = np.ones(x.shape, dtype=bool)
    return HeldOut(x, held, p.astype(np.float32), np.zeros(x.shape), np.ones(x.shape))


def part(codes, p):
    return _part_of_shares([held_out(codes, p)], 0, LEVELS, SHARES)


def drawn(p):
    return (RNG.random(len(p))[:, None] > np.cumsum(p, axis=1)).sum(axis=1)


def test_certain_predictions_of_a_column_on_its_own_become_its_shares():
    p = RNG.dirichlet([0.3, 0.3, 0.3], size=300)
    assert part(RNG.choice(3, p=SHARES, size=300), p) > 0.9


def test_predictions_that_hold_are_left_as_they_are():
    p = RNG.dirichlet([0.3, 0.3, 0.3], size=300)
    assert part(drawn(p), p) < 0.1


def test_without_held_out_cells_half_of_a_prediction_are_the_shares():
    assert part(np.zeros(0, dtype=int), np.zeros((0, 3))) == pytest.approx(0.5)


def test_the_part_is_the_mean_of_its_posterior():
    """One cell, certain and right: the likelihood is `1 - a + a s`."""
    a, s = np.linspace(0, 1, 10_001), SHARES[0]
    likelihood = 1 - a + a * s
    expected = (a * likelihood).sum() / likelihood.sum()
    assert part(np.array([0]), np.array([[1.0, 0.0, 0.0]])) == pytest.approx(expected, abs=1e-4)


def test_a_model_gives_the_mixed_probabilities():
    kind = Coded(label="categorical", levels=("a", "b", "c"))
    schema = Schema((ColumnSchema(name="a", kind=kind, reason="", storage="text"),))
    model = TableModel.of(schema)
    before = _empty_autoencoder(model.observation, SMALL)
    after = _with(before, [Mixing(0, model.levels[0], SHARES, 0.25)], model)
    eta = jnp.asarray(RNG.normal(size=(2, 5, model.observation.n_parameters)))
    old, new = (a.generative.observation.parameters(eta).p for a in (before, after))
    real = slice(0, 3)
    mixed = 0.75 * np.asarray(old)[real] + 0.25 * SHARES[:, None, None]
    # Before, a thousandth came from equal shares.
    np.testing.assert_allclose(np.asarray(new)[real], mixed, atol=1e-3)
    np.testing.assert_allclose(np.asarray(new).sum(axis=0), 1.0, atol=1e-5)
