"""The contract of observation models, over every case; then what is particular to each."""

# pyright: reportCallIssue=false
# Equinox's abstract fields count as constructor arguments for pyright where a property overrides
# them, as in Categorical, Heterogeneous and MixturePosterior.

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from cases import (
    DEPENDENT_FEATURES,
    N_FEATURES,
    N_ROWS,
    OBSERVATIONS,
    POINTS,
    SIZES,
    possible_rows,
)
from miwae.errors import SettingsError
from miwae.model.observations import (
    AbstractFactorized,
    AbstractObservation,
    Bernoulli,
    Categorical,
    Count,
    Heterogeneous,
    LowRankNormal,
    Normal,
    Ordinal,
    Part,
    Points,
    Positive,
    StretchedNormal,
    StudentT,
)

EVERY = pytest.mark.parametrize("name", OBSERVATIONS)
FACTORISED = pytest.mark.parametrize(
    "name", [n for n in OBSERVATIONS if n not in DEPENDENT_FEATURES]
)

N_CODES = 2  # K
OBSERVED = np.array([[True, False, True, True], [False, True, False, False], [True] * 4])

# Single precision: eps is 1.2e-7, and log-densities of this size add up a handful of terms.
ROUNDING: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}


@eqx.filter_jit
def log_prob(observation, eta, x, observed):
    return observation.log_prob(eta, x, observed)


@eqx.filter_jit
def mean_of(observation, eta, x, observed):
    return observation.mean(eta, x, observed)


@eqx.filter_jit
def sample_of(observation, eta, x, observed, key):
    return observation.sample(eta, x, observed, key)


def parameters(observation: AbstractObservation, seed: int = 0) -> np.ndarray:
    shape = (N_CODES, N_ROWS, observation.n_parameters)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softplus(a):
    return np.logaddexp(0.0, a)


def coded(probabilities):
    return stats.rv_discrete(values=(np.arange(len(probabilities)), probabilities))


def slipping(probabilities):
    """With one in a thousand from the shares, which are equal in `POINTS`."""
    return 0.999 * probabilities + 0.001 / len(probabilities)


def marginals(observation: AbstractObservation, eta: np.ndarray) -> list:
    """SciPy's distribution of each cell, written from the docstrings: blocks of D."""
    d = observation.n_features
    block = eta.astype(np.float64).reshape(-1, d)
    match observation:
        case Normal() | StretchedNormal():
            return [stats.norm(*p) for p in zip(block[0], 0.1 + softplus(block[1]), strict=True)]
        case StudentT():
            scale, df = 0.1 + softplus(block[1]), 2.1 + softplus(block[2])
            return [stats.t(*p) for p in zip(df, block[0], scale, strict=True)]
        case Positive():
            scale = 0.1 + softplus(block[1])
            return [
                stats.lognorm(s, scale=np.exp(m)) for m, s in zip(block[0], scale, strict=True)
            ]
        case LowRankNormal():
            variance = (0.1 + softplus(block[1])) ** 2 + (block[2:] ** 2).sum(0)
            return [stats.norm(*p) for p in zip(block[0], np.sqrt(variance), strict=True)]
        case Bernoulli():
            return [stats.bernoulli(p) for p in special.expit(block[0])]
        case Count():
            rate, size = np.exp(block[0]), 0.05 + softplus(block[1])
            return [stats.nbinom(n, n / (n + m)) for m, n in zip(rate, size, strict=True)]
        case Points():
            return [
                stats.rv_discrete(values=(own, slipping(special.softmax(block[: len(own), j]))))
                for j, own in enumerate(POINTS)
            ]
        case Categorical():
            return [
                coded(special.softmax(block[:size, j])) for j, size in enumerate(observation.sizes)
            ]
        case Ordinal():
            t = np.cumsum(np.concatenate([block[:1], 1e-3 + softplus(block[1:])]), axis=0)
            cumulative = special.expit(t)
            return [
                coded(np.diff(np.concatenate([[0.0], cumulative[: size - 1, j], [1.0]])))
                for j, size in enumerate(observation.sizes)
            ]
        case Heterogeneous():
            cells: list = [None] * d
            for part in observation.parts:
                own, eta = np.split(eta, [part.observation.n_parameters])
                for column, cell in zip(
                    part.columns, marginals(part.observation, own), strict=True
                ):
                    cells[column] = cell
            return cells
    raise NotImplementedError(type(observation).__name__)


def log_density(cell, x):
    continuous = isinstance(getattr(cell, "dist", None), stats.rv_continuous)
    return cell.logpdf(x) if continuous else cell.logpmf(x)


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


N_DRAWS = 20_000


def draws(name: str, observed: np.ndarray):
    """Many draws for one latent sample, as (N, D), with its parameters and the row."""
    observation = OBSERVATIONS[name]()
    eta, x = parameters(observation, seed=1)[:1, :1], possible_rows(name, 1)
    if name == "student_t":
        eta[..., -N_FEATURES:] = 6.0  # about 8 degrees of freedom: the mean has a standard error
    wide = jnp.tile(jnp.asarray(eta), (N_DRAWS, 1, 1))
    drawn = sample_of(
        observation, wide, jnp.asarray(x), jnp.asarray(observed[None]), jax.random.key(2)
    )
    return observation, eta, x, np.asarray(drawn)[:, 0]


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
    rounding = 1e-4 if name == "stretched_normal" else 0.0
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
    "points": ([-3.0, 0.0, 2.5], []),
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


def test_categories_are_one_hot_in_blocks_of_columns():
    values, _ = Categorical((2, 3)).embed(jnp.array([[1.0, 2.0]]), jnp.ones((1, 2), dtype=bool))
    np.testing.assert_array_equal(values, [[0, 0, 1, 0, 0, 1]])


def test_ordered_codes_are_thermometers_in_blocks_of_columns():
    values, _ = Ordinal((2, 3)).embed(jnp.array([[1.0, 2.0]]), jnp.ones((1, 2), dtype=bool))
    np.testing.assert_array_equal(values, [[1, 1, 0, 1]])


def test_the_single_imputation_of_a_category_is_the_most_probable_one():
    mean = jnp.array([[0.2, 0.1, 0.8, 0.3, 0.0, 0.6]])  # two columns, blocks of categories
    np.testing.assert_array_equal(Categorical((2, 3)).point(mean), [[1.0, 2.0]])


def test_the_single_imputation_of_an_ordered_code_is_the_median():
    survival = jnp.array([[0.4, 0.9, 0.0, 0.6], [0.6, 0.3, 0.0, 0.2]])
    np.testing.assert_array_equal(Ordinal((2, 3)).point(survival), [[0.0, 2.0], [1.0, 0.0]])


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


def test_the_linear_start_of_numbers_with_few_values_tilts_their_shares():
    """Where the predictor explains nothing, the mean is right to first order."""
    observation = Points.of(SHARES)
    centre, noise = jnp.array([0.0, 0.0]), jnp.full(2, 9.0)
    row = (jnp.zeros((1, 2)), jnp.zeros((1, 2), dtype=bool))

    @jax.jit
    def value(u):
        return observation.mean(parameters_at(observation, u, centre, noise)[None, None], *row)[
            0, 0
        ]

    np.testing.assert_allclose(value(centre), centre, atol=1e-6)
    slope = jax.jit(jax.jacobian(value))(centre)
    np.testing.assert_allclose(slope, 0.999 * np.eye(2), atol=1e-5)
    # Where it says nothing, values occur as often as they did.
    table = probabilities_at(observation, centre, noise)
    np.testing.assert_allclose(table[0], [0.8, 0.2, 0.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(table[1], [0.25, 0.5, 0.05, 0.2], atol=1e-6)


def probabilities_at(observation, u, noise):
    eta = parameters_at(observation, u, jnp.zeros(len(u)), noise)
    return np.exp(observation.distribution(eta[:, None, None]).log_probabilities[..., 0, 0]).T


@pytest.mark.parametrize("noise", [0.03, 0.3, 0.8])
def test_the_linear_start_of_numbers_with_few_values_follows_bayes_rule(noise):
    """With the shares as the prior, and the predictor normal around its regression on a value."""
    observation, u = Points.of(SHARES), np.array([0.7, -0.9])
    found = probabilities_at(observation, jnp.asarray(u, dtype=jnp.float32), jnp.full(2, noise))
    for j, shares in enumerate(SHARES):
        v, p = np.array(list(shares)), np.array(list(shares.values()))
        v = v - (p * v).sum()
        variance = (p * v**2).sum()
        explained = 1 - noise / variance
        spread = np.sqrt(explained * noise)
        expected = p * stats.norm(explained * v, spread).pdf(u[j])
        expected = 0.999 * expected / expected.sum() + 0.001 * p
        np.testing.assert_allclose(found[j, : len(v)], expected, rtol=1e-3, atol=1e-6)


def test_no_logit_makes_a_value_of_few_impossible():
    observation = Points.of([{0.0: 0.3, 1.0: 0.7}])
    eta, x = jnp.array([[[500.0, -500.0]]]), jnp.ones((1, 1))
    found = log_prob(observation, eta, x, jnp.ones((1, 1), dtype=bool))
    np.testing.assert_allclose(found, np.log(0.7e-3), rtol=1e-5)


def test_a_number_between_the_values_counts_as_the_nearest():
    observation = OBSERVATIONS["points"]()
    eta = jnp.asarray(parameters(observation))
    exact = jnp.array([[3.0, 5.0, 1.0, 1.0]])
    near = jnp.array([[1.6, 900.0, -7.0, 1.9]])
    observed = jnp.ones((1, N_FEATURES), dtype=bool)
    np.testing.assert_array_equal(
        log_prob(observation, eta[:, :1], near, observed),
        log_prob(observation, eta[:, :1], exact, observed),
    )


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


def test_the_linear_start_of_a_rare_value_is_no_steeper_than_that_of_one_in_fifty():
    rare, known = (
        Points.of([{0.0: 1 - share, 1.0: share}]).linearise(jnp.array([share]), jnp.ones(1))
        for share in (1e-6, 0.02)
    )
    np.testing.assert_allclose(rare.slope, known.slope, rtol=0.05)


@pytest.mark.parametrize("name", ["bernoulli", "categorical", "ordinal"])
def test_the_linear_start_of_a_column_that_never_varies_is_finite(name):
    observation = OBSERVATIONS[name]()
    for value in (0.0, 1.0):
        start = observation.linearise(
            jnp.full(observation.n_inputs, value), jnp.full(observation.n_inputs, 0.01)
        )
        assert np.isfinite(start.slope).all()
        assert np.isfinite(start.offset).all()


# The same four columns (normal, count, ordinal, normal) in three orders.
ORDERS = {
    "by column": ((Normal(1), (0,)), (Count(1), (1,)), (Ordinal((3,)), (2,)), (Normal(1), (3,))),
    "backwards": ((Normal(1), (3,)), (Ordinal((3,)), (2,)), (Count(1), (1,)), (Normal(1), (0,))),
    "joined": ((Count(1), (1,)), (Normal(2), (3, 0)), (Ordinal((3,)), (2,))),
}


@pytest.mark.parametrize("order", ORDERS)
def test_a_heterogeneous_row_is_its_parts_in_any_order(order):
    rng = np.random.default_rng(0)
    x, observed = jnp.asarray(possible_rows("heterogeneous")), jnp.asarray(OBSERVED)
    # Parameters of each column: location and raw scale, or whatever the kind has two of.
    own = jnp.asarray(rng.normal(size=(N_FEATURES, N_CODES, N_ROWS, 2)).astype(np.float32))
    parts = tuple(Part(observation, columns) for observation, columns in ORDERS[order])
    joined = Heterogeneous(parts)
    eta = jnp.concatenate(
        [own[part.columns[0]] for part in parts]
        if order != "joined"
        else [own[1], own[3][..., :1], own[0][..., :1], own[3][..., 1:], own[0][..., 1:], own[2]],
        axis=-1,
    )
    terms, means = [], {}
    for observation, (column,) in ORDERS["by column"]:
        cell = x[:, column][:, None], observed[:, column][:, None]
        terms.append(log_prob(observation, own[column], *cell))
        means[column] = mean_of(observation, own[column], *cell)
    np.testing.assert_allclose(log_prob(joined, eta, x, observed), sum(terms), **ROUNDING)
    widths = [column for part in parts for column in part.columns]
    expected = jnp.concatenate([means[column] for column in widths], axis=-1)
    np.testing.assert_allclose(mean_of(joined, eta, x, observed), expected, **ROUNDING)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: Categorical((3, 1)), "two values or more"),
        (lambda: Categorical(()), "two values or more"),
        (lambda: Ordinal((1,)), "two values or more"),
        (lambda: Points.of([]), "two values or more"),
        (lambda: Points.of([{0.0: 1.0}]), "two values or more"),
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
