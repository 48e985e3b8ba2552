import jax
import jax.numpy as jnp
import numpy as np

import oracle
from miwae.training._holdout import hold_out, score_held_out


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
    score = score_held_out(
        oracle.exact_autoencoder(model),
        *(jnp.asarray(a) for a in (x, remaining, held)),
        jax.random.key(0),
        4_000,
        32,
    )
    joint = oracle.log_prob(model, x, observed) - oracle.log_prob(model, x, remaining)
    mean, _ = oracle.conditional(model, x, remaining)
    # With exact weights both are plain means over 4,000 draws for each of 64 rows.
    np.testing.assert_allclose(score.log_density, joint.sum() / held.sum(), atol=0.02)
    np.testing.assert_allclose(score.error, ((x - mean)[held] ** 2).mean(), rtol=0.02)
