import jax
import jax.numpy as jnp
import numpy as np
import pytest
from numpyro import distributions as dist
from scipy import stats

from miwae.model._distributions import StudentTDistribution

N = 20_000


def test_the_distribution_is_that_of_numpyro():
    df, loc, scale = (
        jnp.asarray(a) for a in ([2.5, 4.0, 30.0], [0.0, 1.0, -2.0], [0.1, 1.0, 3.0])
    )
    own, theirs = StudentTDistribution(df, loc, scale), dist.StudentT(df, loc, scale)
    value = jnp.array([0.3, -4.0, 2.0])
    np.testing.assert_allclose(own.log_prob(value), theirs.log_prob(value), rtol=1e-5)
    np.testing.assert_allclose(own.mean, theirs.mean)
    np.testing.assert_allclose(own.variance, theirs.variance, rtol=1e-6)
    assert own.batch_shape == theirs.batch_shape


def test_the_distribution_refuses_tails_without_a_variance():
    one = jnp.ones(())
    with pytest.raises(ValueError, match="df"):
        StudentTDistribution(jnp.asarray(1.5), one, one, validate_args=True)


def test_draws_of_the_distribution_are_moved_and_scaled():
    one = StudentTDistribution(jnp.asarray(4.0), jnp.asarray(3.0), jnp.asarray(0.5))
    drawn = np.asarray(one.sample(jax.random.key(1), (N,)), np.float64)
    assert stats.kstest(drawn, stats.t(4.0, 3.0, 0.5).cdf).pvalue > 1e-4
