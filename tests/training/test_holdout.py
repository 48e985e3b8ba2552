import jax
import numpy as np

import oracle
from miwae._row_keys import row_keys
from miwae.training._holdout import Evaluation, hold_out


def test_held_out_cells_are_observed_ones_of_the_right_number():
    rng = np.random.default_rng(0)
    observed = rng.random((400, 10)) < 0.5
    observed[:, 0] = True
    held = hold_out(observed, 0.1, rng)
    assert not (held & ~observed).any()
    expected = 0.1 * observed.sum()
    assert abs(held.sum() - expected) < 5 * np.sqrt(expected)


def test_every_row_and_every_column_keeps_a_cell():
    rng = np.random.default_rng(0)
    observed = rng.random((60, 8)) < 0.25
    observed[np.arange(60), rng.integers(8, size=60)] = True
    held = hold_out(observed, 0.9, rng)
    remaining = observed & ~held
    assert remaining.any(axis=1).all()
    assert remaining.any(axis=0).all()
    assert held.any()


def test_scores_agree_with_the_closed_form():
    model = oracle.linear_gaussian()
    x, observed = oracle.simulate(model, 64, missing=0.1)
    held = hold_out(observed, 0.3, np.random.default_rng(1))
    remaining = observed & ~held
    keys = row_keys(jax.random.key(0), x, remaining)
    score = Evaluation(x, remaining, held, keys).score(oracle.exact_autoencoder(model), 4_000)
    joint = oracle.log_prob(model, x, observed) - oracle.log_prob(model, x, remaining)
    mean, _ = oracle.conditional(model, x, remaining)
    # With exact weights both are plain means over 4,000 draws for each of 64 rows.
    np.testing.assert_allclose(score.log_density, joint.sum() / held.sum(), atol=0.02)
    np.testing.assert_allclose(score.error, ((x - mean)[held] ** 2).mean(), rtol=0.02)
