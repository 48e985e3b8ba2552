"""The low-rank normal against dense matrices."""

from typing import Any

import jax.numpy as jnp
import numpy as np
from scipy import stats

from cases import N_FEATURES, N_ROWS, OBSERVATIONS, possible_rows
from miwae.model import Normal
from model.marginals import (
    N_CODES,
    N_DRAWS,
    OBSERVED,
    ROUNDING,
    draws,
    log_prob,
    mean_of,
    parameters,
    softplus,
)


def dense_low_rank(eta) -> Any:
    block = eta.astype(np.float64).reshape(-1, N_FEATURES)
    loadings = block[2:].T
    covariance = np.diag((0.1 + softplus(block[1])) ** 2) + loadings @ loadings.T
    return block[0], covariance


def test_the_low_rank_normal_has_the_marginal_of_the_observed_cells():
    observation = OBSERVATIONS["low_rank_normal"]()
    eta, x = parameters(observation), possible_rows("low_rank_normal")
    expected = np.zeros((N_CODES, N_ROWS))
    for k, b in np.ndindex(expected.shape):
        mean, covariance = dense_low_rank(eta[k, b])
        seen = OBSERVED[b]
        expected[k, b] = stats.multivariate_normal.logpdf(
            x[b, seen], mean[seen], covariance[np.ix_(seen, seen)]
        )
    actual = log_prob(observation, *map(jnp.asarray, (eta, x, OBSERVED)))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-4)


def test_the_low_rank_normal_has_the_conditional_of_the_missing_cells():
    seen = np.array([False, True, False, True])
    observation, eta, x, drawn = draws("low_rank_normal", seen)
    mean, covariance = dense_low_rank(eta[0, 0])
    gain = np.linalg.solve(covariance[np.ix_(seen, seen)], covariance[np.ix_(seen, ~seen)]).T
    expected_mean = mean[~seen] + gain @ (x[0, seen] - mean[seen])
    expected = covariance[np.ix_(~seen, ~seen)] - gain @ covariance[np.ix_(seen, ~seen)]
    actual = mean_of(observation, *map(jnp.asarray, (eta, x, seen[None])))[0, 0, ~seen]
    np.testing.assert_allclose(actual, expected_mean, rtol=1e-4, atol=1e-4)
    centred = drawn[:, ~seen] - expected_mean
    products = centred[:, :, None] * centred[:, None, :]
    error = products.std(0) / np.sqrt(N_DRAWS)
    assert (np.abs(products.mean(0) - expected) <= 5 * error).all()
    assert np.abs(expected[0, 1]) > 20 * error[0, 1]  # the correlation can be seen at all


def test_the_low_rank_normal_without_loadings_is_normal():
    wide = parameters(OBSERVATIONS["low_rank_normal"]())
    wide[..., 2 * N_FEATURES :] = 0.0
    x, observed = jnp.asarray(possible_rows("normal")), jnp.asarray(OBSERVED)
    np.testing.assert_allclose(
        log_prob(OBSERVATIONS["low_rank_normal"](), jnp.asarray(wide), x, observed),
        log_prob(Normal(N_FEATURES), jnp.asarray(wide[..., : 2 * N_FEATURES]), x, observed),
        **ROUNDING,
    )
