"""Factor analysis against dense algebra, against theory, and against scikit-learn."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.decomposition import FactorAnalysis as SklearnFactorAnalysis

import oracle
from miwae.errors import DataError, SettingsError
from miwae.model import Normal
from miwae.model import _linear as linear
from miwae.model._amortizers import LinearAmortizer
from miwae.model._build import linear_autoencoder, linear_core
from miwae.model._fill import ZeroFill
from miwae.model._linear import FactorAnalysis, fit_factor_analysis

ORACLE = oracle.linear_gaussian(n_features=5, n_latent=2, seed=1)
X, OBSERVED = oracle.simulate(ORACLE, 300, missing=0.3, seed=2)
HOLES = np.where(OBSERVED, X, np.nan).astype(np.float32)

# The objective is a sum over 300 rows in single precision: it is known to about 1e-6 of itself
# times the root of the number of additions.
ROUNDING = 1e-5


def as_core(model: oracle.LinearGaussian) -> FactorAnalysis:
    return FactorAnalysis(*(jnp.asarray(a, jnp.float32) for a in model))


def as_oracle(core: FactorAnalysis) -> oracle.LinearGaussian:
    return oracle.LinearGaussian(
        *(np.asarray(a, np.float64) for a in (core.loadings, core.mean, core.noise))
    )


@eqx.filter_jit
def posterior_of(core, x, observed):
    return core.posterior(x, observed)


def test_the_posterior_and_the_likelihood_are_those_of_dense_algebra():
    posterior = posterior_of(as_core(ORACLE), jnp.asarray(X), jnp.asarray(OBSERVED))
    mean, covariance = oracle.posterior(ORACLE, X, OBSERVED)
    precision = np.einsum("blm,bkm->blk", posterior.cholesky, posterior.cholesky)
    np.testing.assert_allclose(posterior.mean, mean, rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(np.linalg.inv(precision), covariance, rtol=1e-3, atol=1e-5)
    np.testing.assert_array_equal(np.triu(posterior.cholesky, 1), 0.0)
    product = np.einsum("blm,bmk->blk", posterior.cholesky, posterior.inverse)
    np.testing.assert_allclose(product, np.tile(np.eye(2), (len(X), 1, 1)), atol=1e-5)
    expected = oracle.log_prob(ORACLE, X, OBSERVED)
    log_prob = eqx.filter_jit(as_core(ORACLE).log_prob)(jnp.asarray(X), jnp.asarray(OBSERVED))
    np.testing.assert_allclose(log_prob, expected, rtol=1e-4, atol=1e-4)


def test_a_row_without_observed_cells_has_the_prior_for_posterior():
    nothing = jnp.zeros((1, 5), dtype=bool)
    posterior = posterior_of(as_core(ORACLE), jnp.full((1, 5), jnp.nan), nothing)
    np.testing.assert_array_equal(posterior.mean, 0.0)
    np.testing.assert_array_equal(posterior.cholesky[0], np.eye(2))
    np.testing.assert_array_equal(as_core(ORACLE).log_prob(jnp.zeros((1, 5)), nothing), 0.0)


def test_missing_cells_cannot_be_read():
    observed = jnp.asarray(OBSERVED[:4])

    @jax.jit
    def everything(x):
        def total(core):
            mean = core.posterior(x, observed).mean
            return jnp.sum(core.log_prob(x, observed)) + jnp.sum(mean**2)

        core = as_core(ORACLE)
        return core.posterior(x, observed), jax.grad(total)(core)

    first, *others = (
        everything(jnp.where(observed, X[:4], content)) for content in (0.0, jnp.nan, 1e9)
    )
    for leaf in jax.tree.leaves(first):
        assert np.isfinite(leaf).all()
    for other in others:
        jax.tree.map(np.testing.assert_array_equal, other, first)


@pytest.mark.parametrize("ridge", [0.0, 1.0])
def test_no_iteration_lowers_the_objective(ridge):
    fit = fit_factor_analysis(HOLES, n_factors=2, n_iterations=60, ridge=ridge)
    allowed = ROUNDING * np.abs(fit.objective).max()
    assert (np.diff(fit.objective) >= -allowed).all()
    assert fit.objective[-1] - fit.objective[0] > 1000 * allowed  # there was something to gain
    model = as_oracle(fit.model)
    likelihood = oracle.log_prob(model, X, OBSERVED).sum()
    penalty = 0.5 * ridge * (model.loadings**2 / model.noise[:, None]).sum()
    np.testing.assert_allclose(fit.objective[-1], likelihood - penalty, rtol=ROUNDING)


def test_features_observed_in_the_same_rows_are_handled_together():
    # Patterns 0 1 0 2 1: neither in order nor of one size.
    observed = OBSERVED[:, [0, 1, 0, 3, 1]]
    rows = observed.any(axis=1)
    x, observed = X[rows], observed[rows]
    patterns = linear._patterns(observed)
    assert patterns.pattern_of.tolist() == [0, 1, 0, 2, 1]
    np.testing.assert_array_equal(patterns.seen, observed[:, [0, 1, 3]])
    np.testing.assert_array_equal(patterns.sums(np.arange(5.0)), [0 + 2, 1 + 4, 3])
    fit = fit_factor_analysis(np.where(observed, x, np.nan), n_factors=2, ridge=0.0)
    allowed = ROUNDING * np.abs(fit.objective).max()
    assert (np.diff(fit.objective) >= -allowed).all()
    likelihood = oracle.log_prob(as_oracle(fit.model), x, observed).sum()
    np.testing.assert_allclose(fit.objective[-1], likelihood, rtol=ROUNDING)


def test_a_converged_fit_cannot_be_improved():
    fit = fit_factor_analysis(HOLES, n_factors=2, n_iterations=400, ridge=1.0)
    observed, x = jnp.asarray(OBSERVED), jnp.asarray(X)

    @jax.jit
    def objective(core):
        penalty = 0.5 * jnp.sum(core.loadings**2 / core.noise[:, None])
        return jnp.sum(core.log_prob(x, observed)) - penalty

    slope = jax.jit(jax.grad(objective))
    gradient = slope(fit.model)
    away = slope(jax.tree.map(lambda a: 1.05 * a, fit.model))
    for end, begin in zip(jax.tree.leaves(gradient), jax.tree.leaves(away), strict=True):
        # A hundredth of what it is 5 % away: EM converges linearly, single precision ends it.
        assert np.abs(end).max() < 0.01 * np.abs(begin).max()


def test_on_complete_rows_it_reaches_the_likelihood_of_scikit_learn():
    fit = fit_factor_analysis(X, n_factors=2, n_iterations=400, ridge=0.0, noise_floor=1e-6)
    peer = SklearnFactorAnalysis(2, svd_method="lapack", tol=1e-10, max_iter=5000).fit(X)
    # The same maximum, reached by two algorithms: flat to first order.
    np.testing.assert_allclose(fit.objective[-1], peer.score(X) * len(X), rtol=1e-4)
    covariance = as_oracle(fit.model).covariance
    np.testing.assert_allclose(covariance, peer.get_covariance(), atol=0.02)


def test_the_blocks_of_rows_change_rounding_only():
    whole = fit_factor_analysis(HOLES, n_factors=2)
    cut = fit_factor_analysis(HOLES, n_factors=2, block_rows=64)  # 300 = 4.7 x 64
    np.testing.assert_allclose(cut.objective, whole.objective, rtol=ROUNDING)
    for a, b in zip(jax.tree.leaves(cut.model), jax.tree.leaves(whole.model), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-3)


def test_it_recovers_the_model_from_incomplete_rows():
    x, observed = oracle.simulate(ORACLE, 4000, missing=0.3, seed=5)
    fit = as_oracle(fit_factor_analysis(x, observed, n_factors=2, n_iterations=200).model)
    # The loadings are known up to a rotation; the covariance is not. Standard errors of an entry
    # with about 2,000 complete pairs.
    variance = np.diag(ORACLE.covariance)
    pair = np.sqrt((np.outer(variance, variance) + ORACLE.covariance**2) / 2000)
    assert (np.abs(fit.covariance - ORACLE.covariance) <= 4 * pair).all()
    assert (np.abs(fit.mean - ORACLE.mean) <= 4 * np.sqrt(variance / 2800)).all()


def test_it_does_not_read_missing_cells():
    a = fit_factor_analysis(X, OBSERVED, n_factors=2)
    b = fit_factor_analysis(HOLES, n_factors=2)
    c = fit_factor_analysis(np.where(OBSERVED, X, np.float32(1e9)), OBSERVED, n_factors=2)
    jax.tree.map(np.testing.assert_array_equal, a, b)
    jax.tree.map(np.testing.assert_array_equal, a, c)


def test_the_noise_stays_above_its_floor_on_a_constant_column():
    x = np.array(HOLES)
    x[:, 1] = np.where(np.isnan(x[:, 1]), np.nan, 3.0)
    fit = fit_factor_analysis(x, n_factors=2, noise_floor=0.05)
    assert np.isfinite(fit.objective).all()
    assert float(fit.model.noise.min()) >= np.float32(0.05)
    np.testing.assert_allclose(fit.model.mean[1], 3.0, atol=1e-3)
    np.testing.assert_allclose(fit.model.loadings[1], 0.0, atol=1e-2)


def test_more_factors_than_features_are_cut_and_padding_changes_nothing():
    core = fit_factor_analysis(HOLES, n_factors=9).model
    assert core.loadings.shape == (5, 5)
    wide = core.padded(7)
    x, observed = jnp.asarray(X[:20]), jnp.asarray(OBSERVED[:20])
    narrow, padded = posterior_of(core, x, observed), posterior_of(wide, x, observed)
    likelihoods = [eqx.filter_jit(own.log_prob)(x, observed) for own in (wide, core)]
    np.testing.assert_allclose(*likelihoods, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(padded.mean[:, :5], narrow.mean, rtol=1e-4, atol=1e-5)
    np.testing.assert_array_equal(padded.mean[:, 5:], 0.0)


@pytest.mark.parametrize(
    ("x", "settings", "error", "words"),
    [
        (HOLES, {"n_factors": 0}, SettingsError, "n_factors"),
        (HOLES, {"n_factors": 1, "n_iterations": 0}, SettingsError, "n_iterations"),
        (HOLES, {"n_factors": 1, "block_rows": 0}, SettingsError, "block_rows"),
        (np.array([[1.0, np.nan], [2.0, np.nan]]), {"n_factors": 1}, DataError, "column 1"),
        (np.array([[1.0, 2.0], [np.nan, np.nan]]), {"n_factors": 1}, DataError, "row 1"),
        (np.array([[1.0, np.inf]]), {"n_factors": 1}, DataError, "row 0, column 1"),
    ],
)
def test_what_cannot_be_fitted_is_refused(x, settings, error, words):
    with pytest.raises(error, match=words):
        fit_factor_analysis(x, **settings)


N_LATENT = 3  # one more than the factors: padded


@pytest.fixture(scope="module")
def start():
    """An untrained autoencoder, the factor analysis it starts from, and twenty rows."""
    core = as_core(ORACLE).padded(N_LATENT)
    model = linear_autoencoder(Normal(5), core, n_hidden=8, n_layers=1, key=jax.random.key(0))
    return model, core, jnp.asarray(X[:20]), jnp.asarray(OBSERVED[:20])


def test_before_training_the_decoder_is_factor_analysis(start):
    model, core, x, observed = start
    eta = model.generative.decoder(posterior_of(core, x, observed).mean[None])
    expected, _ = oracle.conditional(ORACLE, X[:20], OBSERVED[:20])
    missing = ~OBSERVED[:20]
    # A linear decoder takes the posterior mean of z to the conditional mean of x.
    mean = np.asarray(model.generative.observation.mean(eta, x, observed))[0]
    np.testing.assert_allclose(mean[missing], expected[missing], rtol=1e-3, atol=1e-4)
    distribution = model.generative.observation.distribution(jnp.moveaxis(eta, -1, 0))
    np.testing.assert_allclose(distribution.variance[:, 0, 0], ORACLE.noise, rtol=1e-4)


def test_before_training_the_weights_are_nearly_uniform_around_the_likelihood(start):
    model, _, x, observed = start
    n_samples = 4000

    @eqx.filter_jit
    def log_ratio(model):
        proposal = model.propose(x, observed)
        z = proposal.sample(jax.random.key(1), n_samples)
        return model.log_joint(z, model.generative.decode(z), x, observed) - proposal.log_prob(z)

    exact = oracle.log_prob(ORACLE, X[:20], OBSERVED[:20])
    weights = np.exp(np.asarray(log_ratio(model), np.float64) - exact)
    error = weights.std(0) / np.sqrt(n_samples)
    assert (np.abs(weights.mean(0) - 1) <= 5 * error).all()
    # Student-t with 8 degrees of freedom against a normal: by quadrature E_q[w^2] is 1.0225 in
    # one dimension, 1.069 in three, so that the effective share of samples is 0.935.
    effective = 1 / (weights**2).mean(0)
    np.testing.assert_allclose(effective, 1 / 1.069, atol=0.02)


def test_the_core_of_numbers_is_factor_analysis_of_the_rows():
    core = linear_core(Normal(5), HOLES, n_latent=7)
    fit = fit_factor_analysis(HOLES, n_factors=5).model.padded(7)
    jax.tree.map(np.testing.assert_array_equal, core, fit)


@pytest.mark.parametrize("size", [-1e4, 1e4])
def test_no_encoder_can_make_the_proposal_overflow(size):
    """With one sample per step, one did: the degrees of freedom went to 1e15, then to NaN."""
    core = FactorAnalysis(jnp.ones((3, 2)), jnp.zeros(3), jnp.ones(3))
    extreme = lambda row: jnp.full((len(row), 6), size).at[:, :2].set(0.0)  # noqa: E731
    amortizer = LinearAmortizer(core, ZeroFill(), extreme)
    proposal = amortizer(jnp.ones((4, 3)), jnp.ones((4, 3), dtype=bool))
    assert (proposal.scale >= np.exp(-7.001)).all()
    assert (proposal.scale <= np.exp(7.001)).all()
    assert (proposal.df >= 2.1).all()
    assert (proposal.df < 1_000).all()
    z = proposal.sample(jax.random.key(0), 100)
    assert np.isfinite(proposal.log_prob(z)).all()
