import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from miwae.kernels._student_t import (
    cosine_of_turns,
    log_gamma_ratio,
    softplus,
    standard_student_t,
    student_t_log_prob,
)

DFS = np.geomspace(2.0, 1e6, 300).astype(np.float32)


def test_the_log_gamma_ratio_is_right_to_single_precision():
    exact = special.gammaln((np.float64(DFS) + 1) / 2) - special.gammaln(np.float64(DFS) / 2)
    # The value crosses zero near 2.5: an absolute error of a few units in the last place of 1.
    np.testing.assert_allclose(log_gamma_ratio(jnp.asarray(DFS)), exact, rtol=5e-7, atol=5e-7)


def test_the_derivative_of_the_log_gamma_ratio_is_a_difference_of_digammas():
    df = np.float64(DFS[DFS < 1e3])  # beyond, the digammas cancel in double precision too
    exact = 0.5 * (special.digamma((df + 1) / 2) - special.digamma(df / 2))
    slope = jax.vmap(jax.grad(log_gamma_ratio))(jnp.asarray(df, dtype=jnp.float32))
    np.testing.assert_allclose(slope, exact, rtol=2e-5)


def test_softplus_and_its_slope_are_right_to_single_precision():
    a = np.linspace(-90, 90, 500).astype(np.float32)
    value, slope = jax.vmap(jax.value_and_grad(softplus))(jnp.asarray(a))
    np.testing.assert_allclose(value, np.logaddexp(a, 0.0), rtol=2e-7, atol=2e-7)
    np.testing.assert_allclose(slope, special.expit(a), rtol=1e-6, atol=1e-7)


def test_the_cosine_of_turns_is_right_to_single_precision():
    v = np.concatenate([np.arange(8) / 8, np.arange(10_000) / 10_000]).astype(np.float32)
    expected = np.cos(2 * np.pi * v.astype(np.float64))
    np.testing.assert_allclose(cosine_of_turns(jnp.asarray(v)), expected, atol=4e-7)


@pytest.mark.parametrize("df", [2.1, 5.0, 100.0, 1e6])
def test_the_density_is_that_of_scipy(df):
    t = np.concatenate([-np.geomspace(1e-3, 1e3, 20), [0.0], np.geomspace(1e-3, 1e3, 20)])
    t = t.astype(np.float32)
    # 0.5 (df + 1) log1p(t^2 / df) is as accurate as the float32 product it ends in.
    np.testing.assert_allclose(
        student_t_log_prob(jnp.asarray(t), jnp.asarray(df)), stats.t.logpdf(t, df), rtol=1e-5,
        atol=1e-5,
    )  # fmt: skip


def test_the_derivatives_of_the_density_are_those_of_each_operation():
    t, df = np.meshgrid([-30.0, -1.0, -1e-3, 0.0, 0.5, 3.0, 1e3], [2.1, 2.5, 5.0, 40.0, 1e3])
    square = t**2 / df
    by_t = -(df + 1) * t / (df + t**2)
    ratio = 0.5 * (special.digamma((df + 1) / 2) - special.digamma(df / 2) - 1 / df)
    by_df = ratio - 0.5 * np.log1p(square) + 0.5 * (df + 1) / (df + t**2) * square
    slopes = jax.grad(lambda t, df: student_t_log_prob(t, df).sum(), argnums=(0, 1))
    single = (jnp.asarray(a, dtype=jnp.float32) for a in (t, df))
    for slope, exact in zip(slopes(*single), (by_t, by_df), strict=True):
        np.testing.assert_allclose(slope, exact, rtol=2e-5, atol=2e-7)


N = 20_000


@pytest.mark.parametrize("df", [2.1, 4.0, 30.0, 1e5])
def test_draws_follow_the_density(df):
    drawn = standard_student_t(jax.random.key(0), jnp.asarray(df), (N,))
    assert stats.kstest(np.asarray(drawn, np.float64), stats.t(df).cdf).pvalue > 1e-4


def test_the_two_uniforms_are_not_used_up_in_the_sign_alone():
    # Bailey's draws are symmetric and independent over the cells.
    drawn = np.asarray(standard_student_t(jax.random.key(2), jnp.asarray(5.0), (2, N)), np.float64)
    signs, sizes = np.sign(drawn), np.abs(drawn) < np.median(np.abs(drawn))
    for a, b in ((signs[0], signs[1]), (sizes[0], sizes[1]), (signs[0], sizes[0])):
        assert abs(np.corrcoef(a, b)[0, 1]) < 5 / np.sqrt(N)


@pytest.mark.parametrize("df", [2.2, 4.0, 30.0])
def test_the_gradient_in_the_degrees_of_freedom_is_that_of_the_expectation(df):
    def slopes(df):
        def total(df):
            return jnp.sum(jnp.tanh(standard_student_t(jax.random.key(3), df, (N,))) ** 2)

        def each(df):
            return jnp.tanh(standard_student_t(jax.random.key(3), df, (N,))) ** 2

        # One parameter for each draw gives the gradient of each draw.
        own = jax.grad(lambda dfs: jnp.sum(each(dfs)))(jnp.full(N, df))
        return own, jax.grad(total)(df)

    own, total = slopes(jnp.asarray(df))
    np.testing.assert_allclose(total, own.sum(), rtol=1e-3)
    grid = np.linspace(-12.0, 12.0, 20_001)
    t, slope = np.sinh(grid), np.cosh(grid) * (grid[1] - grid[0])

    def expectation(df):
        return np.sum(stats.t.pdf(t, df) * np.tanh(t) ** 2 * slope)

    exact = (expectation(df + 1e-3) - expectation(df - 1e-3)) / 2e-3
    own = np.asarray(own, np.float64)
    error = own.std() / np.sqrt(N)
    assert abs(own.mean() - exact) <= 5 * error
    assert abs(exact) > 10 * error  # so that a gradient of zero would be noticed


def test_no_uniform_number_gives_a_gradient_that_is_not_finite(monkeypatch):
    # The ends of what `uniform` can return, and where the cosine is 0, 1 and -1.
    ends = jnp.array([0.0, 2.0**-23, 0.25, 0.5, 1 - 2.0**-23])
    pair = [(own * 2.0**32).astype(jnp.uint32) for own in (jnp.repeat(ends, 5), jnp.tile(ends, 5))]
    monkeypatch.setattr("miwae.kernels._student_t.pair_of_bits", lambda *_: pair)
    for df in (2.1, 10.0, 1e4):
        value, slope = jax.value_and_grad(
            lambda dfs: jnp.sum(standard_student_t(jax.random.key(0), dfs, (25,)))
        )(jnp.full(25, df))
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
