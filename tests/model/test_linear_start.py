"""The parameters with which a model starts, given the predictions of the linear core."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from cases import N_FEATURES, OBSERVATIONS
from miwae.model import Bernoulli, Categorical, Coded, Count, MixedColumns, Ordinal
from model.marginals import marginals


def parameters_at(observation, u, mean, noise):
    start = observation.linearise(jnp.asarray(mean), jnp.asarray(noise))
    return start.slope @ u + start.offset


NOISE = np.array([0.3, 0.5, 0.8, 1.2], dtype=np.float32)
AWAY = np.array([0.7, -1.1, 2.0, 0.2], dtype=np.float32)
ONE_ROW = (jnp.zeros((1, N_FEATURES)), jnp.zeros((1, N_FEATURES), dtype=bool))


@pytest.mark.parametrize("name", ["normal", "student_t", "positive", "low_rank_normal"])
def test_the_linear_start_of_numbers_has_their_mean_and_variance_everywhere(name):
    observation = OBSERVATIONS[name]()
    eta = np.asarray(parameters_at(observation, AWAY, np.zeros(4, np.float32), NOISE))
    cells = marginals(observation, eta)
    if name == "positive":  # linear-Gaussian in log x
        location = np.array([np.log(cell.median()) for cell in cells])
        variance = np.array([cell.args[0] ** 2 for cell in cells])
    else:
        location = np.array([cell.mean() for cell in cells])
        variance = np.array([cell.var() for cell in cells])
    np.testing.assert_allclose(location, AWAY, rtol=1e-5)
    # The low-rank part starts at loadings of 0.01, two of them: 2e-4 of variance on top.
    extra = 2e-4 if name == "low_rank_normal" else 0.0
    np.testing.assert_allclose(variance, NOISE + extra, rtol=1e-4)


def test_the_linear_start_of_binary_features_is_right_to_first_order():
    observation, p = Bernoulli(N_FEATURES), jnp.array([0.1, 0.4, 0.5, 0.9])

    @jax.jit
    def value(u):
        return observation.mean(parameters_at(observation, u, p, NOISE)[None, None], *ONE_ROW)[
            0, 0
        ]

    np.testing.assert_allclose(value(p), p, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.jacobian(value))(p), np.eye(N_FEATURES), atol=1e-5)


def test_the_linear_start_of_counts_is_right_to_first_order():
    observation, u0 = Count(N_FEATURES), jnp.log1p(jnp.array([0.5, 1.0, 4.0, 30.0]))

    @jax.jit
    def value(u):
        return jnp.log1p(
            observation.mean(parameters_at(observation, u, u0, NOISE)[None, None], *ONE_ROW)[0, 0]
        )

    np.testing.assert_allclose(value(u0), u0, rtol=1e-5)
    np.testing.assert_allclose(jax.jit(jax.jacobian(value))(u0), np.eye(N_FEATURES), atol=1e-5)


SHARES = [{-0.5: 0.8, 2.0: 0.2}, {-1.5: 0.25, 0.0: 0.5, 0.5: 0.05, 1.75: 0.2}]


def points_of(shares):
    """Columns of few values, all of them real, with levels that pad."""
    columns = [Coded("points", tuple(own), tuple(own.values())) for own in shares]
    return MixedColumns.of([], columns, 0)


def probabilities_at(observation, scores, noise):
    """Of each column's values, where the linear core predicts these scores with this noise."""
    n_columns, n_inputs = len(scores), observation.n_inputs
    u = jnp.zeros(n_inputs).at[:n_columns].set(scores)
    eta = parameters_at(observation, u, jnp.zeros(n_inputs), jnp.full(n_inputs, noise))
    p = observation.parameters(eta[None, None]).p[:, 0, 0]
    return [p[observation.levels.column == j] for j in range(n_columns)]


@pytest.mark.parametrize("noise", [0.03, 0.3, 0.8, 9.0])
def test_the_linear_start_of_numbers_with_few_values_follows_bayes_rule(noise):
    """With the shares as the prior, and the predictor normal around its regression on a value."""
    scores = np.array([0.7, -0.9], dtype=np.float32)
    found = probabilities_at(points_of(SHARES), scores, noise)
    for own, shares, u in zip(found, SHARES, scores, strict=True):
        v, p = np.array(list(shares)), np.array(list(shares.values()))
        v = (v - (p * v).sum()) / np.sqrt((p * v**2).sum() - (p * v).sum() ** 2)
        # A predictor without any relation tilts the shares, to first order.
        tilted = p * np.exp(u * v) if noise > 1 else p * bayes_factor(v, u, noise)
        expected = 0.999 * tilted / tilted.sum() + 0.001 * p
        np.testing.assert_allclose(np.asarray(own)[: len(v)], expected, rtol=1e-3, atol=1e-6)
        np.testing.assert_array_equal(np.asarray(own)[len(v) :], 0.0)


def bayes_factor(v, u, noise):
    explained = 1 - noise
    return stats.norm(explained * v, np.sqrt(explained * noise)).pdf(u)


def test_the_linear_start_of_categories_is_right_to_first_order():
    observation = Categorical((3,))
    p, noise = jnp.array([0.2, 0.5, 0.3]), jnp.ones(3)
    row = (jnp.zeros((1, 1)), jnp.zeros((1, 1), dtype=bool))

    @jax.jit
    def value(u):
        return observation.mean(parameters_at(observation, u, p, noise)[None, None], *row)[0, 0]

    np.testing.assert_allclose(value(p), p, rtol=1e-5)
    # Along directions that keep the sum of the probabilities at one.
    along = np.array([[1.0, -1.0, 0.0], [0.0, 1.0, -1.0]]).T
    np.testing.assert_allclose(
        np.asarray(jax.jit(jax.jacobian(value))(p)) @ along, along, atol=1e-5
    )


def test_the_linear_start_of_ordered_codes_has_their_frequencies():
    observation = Ordinal((2, 4))
    survival = jnp.array([0.3, 0.8, 0.0, 0.45, 0.0, 0.1])  # columns 0, 1, blocks of thresholds
    row = (jnp.zeros((1, 2)), jnp.zeros((1, 2), dtype=bool))

    @jax.jit
    def value(u):
        return observation.mean(
            parameters_at(observation, u, survival, jnp.ones(6))[None, None], *row
        )[0, 0]

    # Each gap is 1e-3 too wide on the scale of logits, of slope 1/4 at most.
    np.testing.assert_allclose(value(survival), survival, atol=1e-3)
    # A column follows its own predictor, in its direction, and no other column's.
    slope = np.asarray(jax.jit(jax.jacobian(value))(survival))
    assert (slope[np.ix_([1, 3, 5], [1, 3, 5])] > 0).all()
    assert slope[0, 0] > 0
    np.testing.assert_array_equal(slope[np.ix_([0], [1, 3, 5])], 0.0)
    np.testing.assert_array_equal(slope[np.ix_([1, 3, 5], [0, 2, 4])], 0.0)


@pytest.mark.parametrize("share", [1e-6, 1e-4, 0.02])
def test_the_linear_start_of_a_rare_value_is_not_steep(share):
    observation = points_of([{0.0: 1 - share, 1.0: share}])
    n = observation.n_inputs
    assert 1 < float(observation.linearise(jnp.zeros(n), jnp.ones(n)).slope.max()) < 30


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "ordinal"])
def test_the_linear_start_of_a_column_that_never_varies_is_finite(name):
    observation = OBSERVATIONS[name]()
    for value in (0.0, 1.0):
        start = observation.linearise(
            jnp.full(observation.n_inputs, value), jnp.full(observation.n_inputs, 0.01)
        )
        assert np.isfinite(start.slope).all()
        assert np.isfinite(start.offset).all()
