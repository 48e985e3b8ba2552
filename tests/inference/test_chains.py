import jax
import numpy as np
import pytest

import oracle
from miwae.errors import SettingsError
from miwae.inference._chains import gibbs

MODEL = oracle.linear_gaussian()
X, OBSERVED = oracle.simulate(MODEL, 10)
MEAN, COVARIANCE = oracle.conditional(MODEL, X, OBSERVED)
MISSING = ~OBSERVED
VARIANCE = np.diagonal(COVARIANCE, axis1=1, axis2=2)


def bias(autoencoder, scheme):
    """Distance of the chain's means and variances from the truth, in conditional deviations."""
    x = np.repeat(X, 200, axis=0)
    observed = np.repeat(OBSERVED, 200, axis=0)
    chain = gibbs(autoencoder, x, observed, key=jax.random.key(0), n_steps=120, scheme=scheme)
    draws = chain.x[60:].reshape(60, 10, 200, 4).astype(np.float64)
    means = draws.mean(axis=(0, 2))
    variances = draws.transpose(1, 0, 2, 3).reshape(10, -1, 4).var(axis=1)
    return (
        np.abs(means - MEAN)[MISSING] / np.sqrt(VARIANCE[MISSING]),
        np.abs(variances / np.where(MISSING, VARIANCE, 1.0) - 1)[MISSING],
        chain,
    )


# 200 independent chains: standard errors of 0.07 for means and 0.1 for variances, at most.
@pytest.mark.parametrize("scheme", ["pseudo-gibbs", "metropolis-within-gibbs"])
def test_with_the_exact_posterior_both_chains_have_the_right_limit(scheme):
    mean, variance, chain = bias(oracle.exact_autoencoder(MODEL), scheme)
    assert mean.max() < 0.28
    assert variance.max() < 0.4
    np.testing.assert_allclose(chain.acceptance, 1.0, atol=0.01)


def test_with_a_rough_proposal_only_metropolis_has_the_right_limit():
    rough = oracle.wide_autoencoder(MODEL, shift=0.6, widen=1.3)
    mean, variance, chain = bias(rough, "metropolis-within-gibbs")
    assert mean.max() < 0.28
    assert variance.max() < 0.4
    assert 0.1 < chain.acceptance.mean() < 0.9
    wrong_mean, _, _ = bias(rough, "pseudo-gibbs")
    assert wrong_mean.max() > 0.6


def test_observed_cells_stay():
    chain = gibbs(oracle.exact_autoencoder(MODEL), X, OBSERVED, key=jax.random.key(0), n_steps=3)
    assert np.array_equal(chain.x[:, OBSERVED], np.repeat(X[OBSERVED][None], 3, axis=0))


def test_unknown_schemes_are_refused():
    with pytest.raises(SettingsError, match="pseudo-gibbs or metropolis"):
        gibbs(
            oracle.exact_autoencoder(MODEL),
            X,
            OBSERVED,
            key=jax.random.key(0),
            n_steps=1,
            scheme="gibs",
        )
