"""The contract of observation models, over every case."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats

from cases import DEPENDENT_FEATURES, N_FEATURES, N_ROWS, OBSERVATIONS, SIZES, possible_rows
from miwae.errors import SettingsError
from miwae.model import (
    AbstractFactorized,
    Bernoulli,
    Categorical,
    Heterogeneous,
    Normal,
    Ordinal,
    Part,
)
from model.marginals import (
    N_CODES,
    N_DRAWS,
    OBSERVED,
    ROUNDING,
    draws,
    log_density,
    log_prob,
    marginals,
    mean_of,
    parameters,
)

EVERY = pytest.mark.parametrize("name", OBSERVATIONS)
FACTORISED = pytest.mark.parametrize(
    "name", [n for n in OBSERVATIONS if n not in DEPENDENT_FEATURES]
)


@FACTORISED
def test_log_prob_is_the_sum_of_the_densities_of_the_observed_cells(name):
    observation = OBSERVATIONS[name]()
    eta, x = parameters(observation), possible_rows(name)
    expected = np.zeros((N_CODES, N_ROWS))
    for k, b in np.ndindex(expected.shape):
        cells = marginals(observation, eta[k, b])
        expected[k, b] = sum(
            log_density(c, x[b, j]) for j, c in enumerate(cells) if OBSERVED[b, j]
        )
    actual = log_prob(observation, jnp.asarray(eta), jnp.asarray(x), jnp.asarray(OBSERVED))
    np.testing.assert_allclose(actual, expected, **ROUNDING)


@FACTORISED
def test_log_prob_adds_up_over_a_partition_of_the_cells(name):
    observation = OBSERVATIONS[name]()
    eta, x = jnp.asarray(parameters(observation)), jnp.asarray(possible_rows(name))
    whole = log_prob(observation, eta, x, jnp.ones(x.shape, dtype=bool))
    one = log_prob(observation, eta, x, jnp.asarray(OBSERVED))
    other = log_prob(observation, eta, x, jnp.asarray(~OBSERVED))
    np.testing.assert_allclose(one + other, whole, **ROUNDING)


@EVERY
def test_a_row_without_observed_cells_has_probability_one(name):
    observation = OBSERVATIONS[name]()
    eta, x = jnp.asarray(parameters(observation)), jnp.asarray(possible_rows(name))
    nothing = jnp.zeros(x.shape, dtype=bool)
    np.testing.assert_array_equal(log_prob(observation, eta, x, nothing), 0.0)


@EVERY
def test_missing_cells_cannot_be_read(name):
    observation = OBSERVATIONS[name]()
    eta, x = jnp.asarray(parameters(observation)), jnp.asarray(possible_rows(name))
    observed = jnp.asarray(OBSERVED)
    key = jax.random.key(0)

    @jax.jit
    def everything(x):
        def likelihood(eta):
            return observation.log_prob(eta, x, observed).sum()

        def mean(eta):
            return jnp.sum(observation.mean(eta, x, observed) ** 2)

        draw = observation.sample(eta, x, observed, key)
        values = observation.log_prob(eta, x, observed), observation.mean(eta, x, observed), draw
        return values, jax.grad(likelihood)(eta), jax.grad(mean)(eta)

    first, *others = (
        everything(jnp.where(observed, x, content)) for content in (0.0, jnp.nan, 1e9, -jnp.inf)
    )
    for leaf in jax.tree.leaves(first):
        assert np.isfinite(leaf).all()
    for other in others:
        jax.tree.map(np.testing.assert_array_equal, other, first)
    # The test can see: an observed cell does matter.
    moved = everything(jnp.where(observed, possible_rows(name, seed=3), jnp.nan))
    assert not np.array_equal(moved[0][0], first[0][0])


def grid_of(cell) -> tuple[np.ndarray, np.ndarray]:
    """Points and weights of a rule that integrates the densities below to 1e-5."""
    if isinstance(getattr(cell, "dist", None), stats.rv_continuous):
        u = np.linspace(-9.0, 9.0, 2001)
        positive = cell.support()[0] == 0
        x, slope = (np.exp(u), np.exp(u)) if positive else (np.sinh(u), np.cosh(u))
        return x, slope * (u[1] - u[0])
    codes = np.arange(2001.0)
    codes = codes[cell.pmf(codes) > 0] if cell.support()[1] < 2000 else codes
    # One shape for all columns and cases, so that one compilation serves: repeat with weight 0.
    padded = np.concatenate([codes, np.zeros(2001 - len(codes))])
    return padded, np.arange(2001) < len(codes)


@EVERY
def test_each_cell_has_total_probability_one(name):
    observation = OBSERVATIONS[name]()
    eta = parameters(observation)[:1, :1]
    for j, cell in enumerate(marginals(observation, eta[0, 0])):
        points, weights = grid_of(cell)
        x = np.tile(possible_rows(name, 1), (len(points), 1))
        x[:, j] = points
        only = np.tile(np.arange(N_FEATURES) == j, (len(points), 1))
        wide = np.tile(eta, (1, len(points), 1))
        density = np.exp(log_prob(observation, *map(jnp.asarray, (wide, x, only)))[0])
        np.testing.assert_allclose((density * weights).sum(), 1.0, rtol=2e-5)


@EVERY
def test_draws_follow_the_density(name):
    observation, eta, _, drawn = draws(name, np.zeros(N_FEATURES, dtype=bool))
    for j, cell in enumerate(marginals(observation, eta[0, 0])):
        own = drawn[:, j].astype(np.float64)
        if isinstance(getattr(cell, "dist", None), stats.rv_continuous):
            # One chance in 10,000 for each of the few columns, at a fixed seed.
            assert stats.kstest(own, cell.cdf).pvalue > 1e-4
        else:
            codes = np.arange(6.0)
            p = cell.pmf(codes)
            error = np.sqrt(p * (1 - p) / N_DRAWS)
            frequency = (own[:, None] == codes).mean(0)
            assert (np.abs(frequency - p) <= 5 * error).all()


@EVERY
def test_the_mean_of_the_statistics_of_draws_is_the_mean(name):
    seen = np.array([False, True, False, False])
    observation, eta, x, drawn = draws(name, seen)
    _, known = observation.statistics(jnp.asarray(x), jnp.asarray(seen[None]))
    missing = ~np.asarray(known[0])
    mean = np.asarray(
        mean_of(observation, *map(jnp.asarray, (eta, x, seen[None])))[0, 0], np.float64
    )
    every = jnp.ones(drawn.shape, dtype=bool)
    values = np.asarray(observation.statistics(jnp.asarray(drawn), every)[0], np.float64)
    error = values.std(0) / np.sqrt(N_DRAWS)
    # Indicators that are always 0 or always 1 have no error, but their mean is rounded.
    distance = np.abs(values.mean(0) - mean)[missing]
    assert (distance <= 5 * error[missing] + 1e-6).all()


@EVERY
def test_draws_are_possible_values(name):
    observation, _, _, drawn = draws(name, np.zeros(N_FEATURES, dtype=bool))
    assert np.asarray(observation.supports(jnp.asarray(drawn))).all()


@EVERY
def test_point_undoes_the_statistics_of_a_complete_row(name):
    observation, x = OBSERVATIONS[name](), jnp.asarray(possible_rows(name, 20))
    statistics, seen = observation.statistics(x, jnp.ones(x.shape, dtype=bool))
    assert bool(seen.all())
    # Stretching goes through exponentials and logarithms, which round; the others change nothing.
    rounding = 1e-4 if name == "columns_of_numbers" else 0.0
    np.testing.assert_allclose(
        observation.point(statistics), x, rtol=rounding, atol=rounding / 100
    )


@EVERY
def test_a_missing_cell_makes_just_its_own_inputs_and_statistics_missing(name):
    observation, x = OBSERVATIONS[name](), jnp.asarray(possible_rows(name))
    for view, width in (
        (observation.embed, observation.n_inputs),
        (observation.statistics, observation.n_statistics),
    ):
        values, seen = view(x, jnp.asarray(OBSERVED))
        assert values.shape == seen.shape == (N_ROWS, width)
        other = jnp.where(jnp.asarray(OBSERVED), x, jnp.asarray(possible_rows(name, seed=5)))
        changed = np.asarray(view(other, jnp.asarray(OBSERVED))[0] != values)
        assert not (changed & np.asarray(seen)).any()
        # A cell owns the same number of inputs whether it was observed or not.
        share = np.asarray(view(x, jnp.ones(x.shape, dtype=bool))[1]).sum(1)
        hidden = np.asarray(view(x, jnp.asarray(~OBSERVED))[1]).sum(1)
        np.testing.assert_array_equal(np.asarray(seen).sum(1) + hidden, share)


@EVERY
def test_gradients_survive_extreme_parameters(name):
    observation = OBSERVATIONS[name]()
    x, observed = jnp.asarray(possible_rows(name)), jnp.asarray(OBSERVED)

    @jax.jit
    def gradient(eta):
        return jax.grad(lambda eta: observation.log_prob(eta, x, observed).sum())(eta)

    signs = np.sign(parameters(observation, seed=4))
    for size in (0.0, 15.0, 60.0):
        assert np.isfinite(gradient(jnp.asarray(size * signs))).all(), size


SUPPORT = {
    "normal": ([-3.0, 0.0, 2.5], []),
    "student_t": ([-3.0, 0.0, 2.5], []),
    "positive": ([1e-6, 1.0, 7.5], [0.0, -1.0]),
    "low_rank_normal": ([-3.0, 0.0, 2.5], []),
    "bernoulli": ([0.0, 1.0], [-1.0, 0.5, 2.0]),
    "count": ([0.0, 1.0, 1000.0], [-1.0, 0.5]),
}


@pytest.mark.parametrize("name", SUPPORT)
def test_supports_says_what_is_possible(name):
    observation = OBSERVATIONS[name]()
    possible, impossible = SUPPORT[name]
    for value in [*possible, *impossible, jnp.nan, jnp.inf, -jnp.inf]:
        answer = observation.supports(jnp.full((1, N_FEATURES), value))
        np.testing.assert_array_equal(answer, value in possible)


@pytest.mark.parametrize("name", ["categorical", "ordinal"])
def test_supports_knows_the_codes_of_each_column(name):
    observation = OBSERVATIONS[name]()
    for value in (-1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.0, jnp.nan, jnp.inf):
        answer = observation.supports(jnp.full((1, N_FEATURES), value))
        expected = [value in range(size) for size in SIZES]
        np.testing.assert_array_equal(answer[0], expected)


def test_supports_keeps_the_order_of_heterogeneous_columns():
    observation = OBSERVATIONS["heterogeneous"]()  # normal, count, ordinal of three, normal
    x = jnp.array([[0.5, 0.5, 0.5, 0.5], [-1.0, -1.0, -1.0, -1.0], [7.0, 7.0, 7.0, 7.0]])
    expected = [[True, False, False, True], [True, False, False, True], [True, True, False, True]]
    np.testing.assert_array_equal(observation.supports(x), expected)


@pytest.mark.parametrize("name", ["normal", "student_t", "positive"])
def test_scales_and_tails_have_floors(name):
    observation = OBSERVATIONS[name]()
    assert isinstance(observation, AbstractFactorized)
    cell = observation.distribution(jnp.full((observation.n_parameters, 1, 1), -50.0))
    base: Any = getattr(cell, "base_dist", cell)  # a log-normal is a transformed normal
    # The paper's floor of 0.01, up to the rounding of 0.1 squared.
    assert float(jnp.min(base.variance)) >= 0.01 * (1 - 1e-6)
    if name == "student_t":
        assert float(jnp.min(base.df)) > 2.0


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Categorical((3, 1)), "two values or more"),
        (lambda: Categorical(()), "two values or more"),
        (lambda: Ordinal((1,)), "two values or more"),
        (lambda: Heterogeneous((Part(Normal(2), (0, 2)),)), "cover each column once"),
        (
            lambda: Heterogeneous((Part(Normal(2), (0, 1)), Part(Bernoulli(1), (1,)))),
            "cover each column once",
        ),
        (lambda: Heterogeneous((Part(Normal(3), (0, 1)),)), "3 features"),
    ],
)
def test_impossible_settings_are_refused(make, words):
    with pytest.raises(SettingsError, match=words):
        make()
