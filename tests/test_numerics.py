import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special

from miwae._numerics import (
    features_first,
    features_last,
    log1mexp,
    logmeanexp,
    masked_sum,
    softplus_inverse,
)


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_logmeanexp_is_the_log_of_the_mean(axis):
    a = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    expected = np.log(np.exp(a.astype(np.float64)).mean(axis))
    np.testing.assert_allclose(logmeanexp(jnp.asarray(a), axis), expected, rtol=1e-5, atol=1e-6)


def test_logmeanexp_moves_with_a_constant_far_outside_the_range_of_exp():
    a = jnp.array([[0.0, 1.0], [2.0, 3.0]])
    for shift in (-1e4, 1e4):
        # At 1e4 neighbouring floats lie 1e-3 apart.
        np.testing.assert_allclose(logmeanexp(a + shift), logmeanexp(a) + shift, atol=2e-3)


def test_logmeanexp_of_one_impossible_sample_is_the_mean_over_all():
    a = jnp.array([-jnp.inf, 0.0])
    np.testing.assert_allclose(logmeanexp(a), np.log(0.5), rtol=1e-6)


# From where the result is log(a) to where it is -exp(-a), and across the switch at log 2.
POINTS = np.array([1e-30, 1e-6, 0.1, 0.693, 0.694, 1.0, 10.0, 60.0], dtype=np.float32)


def test_log1mexp_is_accurate_at_both_ends():
    exact = np.log(-np.expm1(-POINTS.astype(np.float64)))
    exact[-2:] = np.log1p(-np.exp(-POINTS[-2:].astype(np.float64)))
    np.testing.assert_allclose(log1mexp(jnp.asarray(POINTS)), exact, rtol=1e-5)


def test_the_gradient_of_log1mexp_is_one_over_expm1():
    gradient = jax.vmap(jax.grad(log1mexp))(jnp.asarray(POINTS))
    np.testing.assert_allclose(gradient, 1 / np.expm1(POINTS.astype(np.float64)), rtol=1e-5)


def test_softplus_inverse_undoes_softplus():
    y = jnp.array([1e-6, 1e-3, 0.1, 1.0, 5.0, 50.0, 1e4])
    np.testing.assert_allclose(jax.nn.softplus(softplus_inverse(y)), y, rtol=1e-5)
    np.testing.assert_allclose(
        softplus_inverse(y), np.asarray(y, np.float64) + special.log1p(-np.exp(-np.float64(y))),
        rtol=1e-5, atol=1e-5,
    )  # fmt: skip


def test_masked_sum_leaves_out_what_was_not_observed():
    values = jnp.array([[1.0, 2.0, 4.0], [8.0, jnp.nan, 32.0]])
    observed = jnp.array([[True, False, True], [True, False, True]])
    np.testing.assert_array_equal(masked_sum(values, observed, axis=0), [9.0, 0.0, 36.0])
    np.testing.assert_array_equal(masked_sum(values, observed, axis=1), [5.0, 40.0])


def test_features_first_moves_the_last_axis_and_features_last_moves_it_back():
    a = jnp.arange(24.0).reshape(2, 3, 4)
    moved = features_first(a)
    assert moved.shape == (4, 2, 3)
    assert float(moved[3, 1, 2]) == float(a[1, 2, 3])
    np.testing.assert_array_equal(features_last(moved), a)
