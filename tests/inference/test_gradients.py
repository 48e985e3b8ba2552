import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import cases
import oracle
from miwae.errors import SettingsError
from miwae.inference._bounds import miwae_bound
from miwae.inference._gradients import ESTIMATORS, bound_and_gradient
from miwae.inference._weights import draw, log_density, log_weights
from miwae.model import StudentT
from miwae.model._amortizers import Amortizer
from miwae.model._build import dense_autoencoder
from miwae.model._posteriors import MixturePosterior, NormalPosterior
from miwae.model._priors import VampPrior

MODEL = oracle.linear_gaussian()
X, OBSERVED = (jnp.asarray(a) for a in oracle.simulate(MODEL, 6))
EXACT = oracle.exact_autoencoder(MODEL)
WIDE = oracle.wide_autoencoder(MODEL)
MEAN = jnp.full(6, 1 / 6)

gradient_of = eqx.filter_jit(bound_and_gradient)


def of_proposal(autoencoder, key, n_samples, estimator):
    """The gradient in the shift and the width of the proposal."""
    gradient = gradient_of(
        autoencoder, X, OBSERVED, MEAN, key, n_samples=n_samples, estimator=estimator
    ).gradient
    return jnp.stack([gradient.amortizer.shift, gradient.amortizer.widen])


def many(n_samples, estimator, n_keys):
    keys = jax.random.split(jax.random.key(n_samples), n_keys)
    run = eqx.filter_jit(jax.vmap(lambda key: of_proposal(WIDE, key, n_samples, estimator)))
    return np.asarray(run(keys), dtype=np.float64)


def test_the_path_derivative_of_an_exact_proposal_is_zero_sample_by_sample():
    for estimator in ("path", "dreg"):
        gradient = of_proposal(EXACT, jax.random.key(0), 4, estimator)
        np.testing.assert_allclose(gradient, 0.0, atol=2e-4)
    assert np.abs(of_proposal(EXACT, jax.random.key(0), 4, "standard")).max() > 1e-2


def test_the_standard_gradient_is_the_derivative_of_the_bound():
    autoencoder = dense_autoencoder(StudentT(4), n_hidden=6, n_layers=1, key=jax.random.key(0))

    def bound(autoencoder):
        return jnp.sum(
            MEAN * miwae_bound(draw(autoencoder, X, OBSERVED, jax.random.key(1), 5).log_w)
        )

    by_hand = eqx.filter_jit(eqx.filter_grad(bound))(autoencoder)
    value, gradient = gradient_of(
        autoencoder, X, OBSERVED, MEAN, jax.random.key(1), n_samples=5, estimator="standard"
    )
    np.testing.assert_allclose(jnp.sum(value * MEAN), bound(autoencoder), rtol=1e-5)
    for a, b in zip(jax.tree.leaves(by_hand), jax.tree.leaves(gradient), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


def test_a_proposal_may_see_less_than_the_bound_counts():
    """An observed cell that is not visible is like a missing one to the proposal alone."""
    autoencoder = dense_autoencoder(StudentT(4), n_hidden=6, n_layers=1, key=jax.random.key(0))
    visible = OBSERVED.at[:, 0].set(False)
    key = jax.random.key(1)
    value, _ = gradient_of(autoencoder, X, OBSERVED, MEAN, key, n_samples=5, visible=visible)
    proposal = autoencoder.propose(X, visible)
    z = proposal.sample(key, 5)
    eta = autoencoder.generative.decode(z)
    log_w = log_weights(autoencoder, log_density(proposal, z), z, eta, X, OBSERVED)
    np.testing.assert_allclose(value, miwae_bound(log_w), rtol=1e-5)
    changed = X.at[:, 0].add(1.0)
    other, _ = gradient_of(autoencoder, changed, OBSERVED, MEAN, key, n_samples=5, visible=visible)
    np.testing.assert_array_equal(autoencoder.propose(changed, visible).sample(key, 5), z)
    assert np.abs(other - value)[OBSERVED[:, 0]].min() > 0  # the likelihood counts it


def test_estimators_differ_for_the_proposal_only():
    gradients = [
        gradient_of(
            WIDE, X, OBSERVED, MEAN, jax.random.key(0), n_samples=4, estimator=name
        ).gradient
        for name in ESTIMATORS
    ]
    for other in gradients[1:]:
        for a, b in zip(
            jax.tree.leaves(gradients[0].generative),
            jax.tree.leaves(other.generative),
            strict=True,
        ):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("n_samples", [1, 8])
def test_the_doubly_reparametrised_gradient_is_unbiased(n_samples):
    standard, dreg = (many(n_samples, name, 20_000) for name in ("standard", "dreg"))
    error = np.sqrt(standard.var(axis=0) / len(standard) + dreg.var(axis=0) / len(dreg))
    assert np.all(np.abs(standard.mean(axis=0) - dreg.mean(axis=0)) < 4 * error)
    # The test can see a bias of the size of the path derivative's.
    assert np.all(error < 0.1 * np.abs(dreg.mean(axis=0)))


def test_the_path_derivative_is_unbiased_for_one_sample_and_biased_for_many():
    for n_samples, biased in ((1, False), (8, True)):
        path, dreg = (many(n_samples, name, 20_000) for name in ("path", "dreg"))
        error = np.sqrt(path.var(axis=0) / len(path) + dreg.var(axis=0) / len(dreg))
        gap = np.abs(path.mean(axis=0) - dreg.mean(axis=0))
        assert np.all(gap > 10 * error) if biased else np.all(gap < 4 * error + 1e-7)


@pytest.mark.long
def test_the_signal_survives_many_samples_only_when_doubly_reparametrised():
    def ratio(name, n_samples):
        gradients = many(n_samples, name, 4_000)
        return np.abs(gradients.mean(axis=0)) / gradients.std(axis=0)

    assert np.all(ratio("dreg", 64) > 1.5 * ratio("dreg", 4))
    assert np.all(ratio("standard", 64) < ratio("standard", 4))


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_missing_cells_cannot_be_read_by_gradients(estimator):
    autoencoder = dense_autoencoder(StudentT(4), n_hidden=6, n_layers=1, key=jax.random.key(0))
    clean, junk = (
        gradient_of(
            autoencoder,
            jnp.where(OBSERVED, X, held),
            OBSERVED,
            MEAN,
            jax.random.key(1),
            n_samples=3,
            estimator=estimator,
        ).gradient
        for held in (0.0, jnp.nan)
    )
    for a, b in zip(jax.tree.leaves(clean), jax.tree.leaves(junk), strict=True):
        assert np.array_equal(a, b)


def test_rows_of_weight_zero_do_not_count():
    weights = jnp.array([1.0, 1.0, 0.0, 0.0, 0.0, 0.0])
    other = X.at[2:].set(7.0)
    a, b = (
        gradient_of(WIDE, x, OBSERVED, weights, jax.random.key(0), n_samples=3).gradient
        for x in (X, other)
    )
    for left, right in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-7)


def mixture_autoencoder():
    posterior = MixturePosterior(NormalPosterior(2), 2)
    return dense_autoencoder(
        StudentT(4), n_latent=2, n_hidden=6, n_layers=1, posterior=posterior, key=jax.random.key(0)
    )


def test_a_stratified_mixture_refuses_the_doubly_reparametrised_gradient():
    with pytest.raises(SettingsError, match="stratified proposal"):
        bound_and_gradient(
            mixture_autoencoder(), X, OBSERVED, MEAN, jax.random.key(0), n_samples=4
        )


def test_the_shares_of_a_mixture_get_a_gradient():
    gradient = gradient_of(
        mixture_autoencoder(),
        X,
        OBSERVED,
        MEAN,
        jax.random.key(0),
        n_samples=4,
        estimator="standard",
    ).gradient
    assert isinstance(gradient.amortizer, Amortizer)
    assert np.all(np.abs(gradient.amortizer.encoder.layers[-1].bias[-2:]) > 1e-4)


@pytest.mark.parametrize("name", ["nonsense", "DReG"])
def test_unknown_names_are_refused(name):
    with pytest.raises(SettingsError, match="estimator must be one of"):
        bound_and_gradient(WIDE, X, OBSERVED, MEAN, jax.random.key(0), n_samples=1, estimator=name)


def prior_of_rows(name):
    """A prior of the table; pseudo-inputs get the width of the rows here."""
    prior = cases.PRIORS[name]()
    if isinstance(prior, VampPrior):
        return VampPrior(
            prior.n_latent, jax.random.normal(jax.random.key(3), (3, cases.N_FEATURES))
        )
    return prior


@pytest.mark.parametrize("prior", cases.PRIORS)
def test_every_prior_gets_a_gradient_where_it_has_parameters(prior):
    autoencoder = dense_autoencoder(
        StudentT(cases.N_FEATURES),
        n_latent=cases.N_LATENT,
        n_hidden=6,
        n_layers=1,
        posterior=NormalPosterior(cases.N_LATENT),
        prior=prior_of_rows(prior),
        key=jax.random.key(0),
    )
    x = jax.random.normal(jax.random.key(1), (6, cases.N_FEATURES))
    gradient = gradient_of(
        autoencoder, x, x < 1, MEAN, jax.random.key(2), n_samples=3
    ).gradient.generative.prior
    norms = [float(jnp.abs(leaf).max()) for leaf in jax.tree.leaves(gradient)]
    assert not norms or max(norms) > 1e-5
