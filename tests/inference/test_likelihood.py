import jax
import numpy as np

import oracle
from miwae.inference._likelihood import log_likelihood

MODEL = oracle.linear_gaussian()
X, OBSERVED = oracle.simulate(MODEL, 20)
TRUTH = oracle.log_prob(MODEL, X, OBSERVED)


def test_the_estimate_agrees_with_the_closed_form():
    estimate = log_likelihood(
        oracle.wide_autoencoder(MODEL), X, OBSERVED, key=jax.random.key(0), n_samples=5_000
    )
    distance = (estimate.log_prob - TRUTH) / estimate.standard_error
    assert np.abs(distance).max() < 5
    assert 0.5 < np.sqrt(np.mean(distance**2)) < 1.6
    assert np.all(estimate.report.n_samples == 5_000)


def test_an_exact_proposal_needs_one_sample():
    estimate = log_likelihood(
        oracle.exact_autoencoder(MODEL), X, OBSERVED, key=jax.random.key(0), n_samples=1
    )
    np.testing.assert_allclose(estimate.log_prob, TRUTH, atol=2e-4)


def test_a_row_with_nothing_observed_is_certain():
    nothing = np.zeros_like(OBSERVED)
    estimate = log_likelihood(
        oracle.wide_autoencoder(MODEL), X, nothing, key=jax.random.key(0), n_samples=5_000
    )
    assert np.all(np.abs(estimate.log_prob) < 5 * estimate.standard_error)
