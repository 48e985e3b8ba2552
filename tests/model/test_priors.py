"""The contract of priors, over every case."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from cases import N_LATENT, PRIORS, prior_amortizer
from miwae.model._priors import MixturePrior, StandardNormal, VampPrior

EVERY = pytest.mark.parametrize("name", PRIORS)
AMORTIZER = prior_amortizer()


@eqx.filter_jit
def log_prob(prior, z):
    return prior.log_prob(z, AMORTIZER)


@eqx.filter_jit
def sample(prior, key, n_samples):
    return prior.sample(key, n_samples, AMORTIZER)


def plane() -> tuple[np.ndarray, np.ndarray]:
    """Points (G, 1, 2) and weights of a trapezoidal rule in u = asinh(z)."""
    u = np.linspace(-5.0, 5.0, 201)
    z, slope = np.sinh(u), np.cosh(u) * (u[1] - u[0])
    points = np.stack(np.meshgrid(z, z, indexing="ij"), -1).reshape(-1, 1, 2)
    return points.astype(np.float32), np.outer(slope, slope).reshape(-1)


POINTS, WEIGHTS = plane()


def questions(z):
    a, b = np.asarray(z, np.float64).reshape(-1, 2).T
    return np.stack([np.tanh(a), np.tanh(b), np.tanh(a) * np.tanh(b), np.cos(2 * a + b)], -1)


@EVERY
def test_the_density_integrates_to_one_and_draws_follow_it(name):
    prior = PRIORS[name]()
    density = np.exp(np.asarray(log_prob(prior, jnp.asarray(POINTS)), np.float64))[:, 0]
    # The rule is accurate to 1e-5; a flow's network of ReLUs has kinks.
    np.testing.assert_allclose(WEIGHTS @ density, 1.0, rtol=1e-3)
    n = 20_000
    drawn = questions(sample(prior, jax.random.key(0), n))
    exact = (WEIGHTS * density) @ questions(POINTS)
    error = drawn.std(0) / np.sqrt(n)
    assert (np.abs(drawn.mean(0) - exact) <= 5 * error + 2e-4).all()


@EVERY
def test_a_code_is_judged_by_itself(name):
    prior = PRIORS[name]()
    z = jax.random.normal(jax.random.key(1), (5, 3, N_LATENT))
    together = log_prob(prior, z)
    np.testing.assert_allclose(
        log_prob(prior, z[::-1, ::-1]), together[::-1, ::-1], rtol=1e-5, atol=1e-5
    )
    assert len(np.unique(together)) == 15


def test_the_standard_normal_is_standard_normal():
    z = np.random.default_rng(0).normal(size=(5, 3, 4)).astype(np.float32)
    expected = stats.norm.logpdf(z).sum(-1)
    actual = StandardNormal(4).log_prob(jnp.asarray(z), AMORTIZER)
    np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_the_mixture_is_the_sum_of_its_normals():
    prior = PRIORS["mixture"]()
    assert isinstance(prior, MixturePrior)
    z = np.random.default_rng(0).normal(size=(5, 3, N_LATENT)).astype(np.float32)
    terms = [
        share + stats.norm.logpdf(z, loc, np.exp(log_scale)).sum(-1)
        for share, loc, log_scale in zip(
            special.log_softmax(np.asarray(prior.logits, np.float64)),
            np.asarray(prior.loc),
            np.asarray(prior.log_scale, np.float64),
            strict=True,
        )
    ]
    expected = np.log(np.exp(terms).sum(0))
    actual = log_prob(prior, jnp.asarray(z))
    np.testing.assert_allclose(actual, expected, rtol=1e-4, atol=1e-5)


def test_the_vamp_prior_is_the_mixture_of_the_posteriors_of_its_pseudo_inputs():
    prior = PRIORS["vamp"]()
    assert isinstance(prior, VampPrior)
    z = jax.random.normal(jax.random.key(1), (5, 3, N_LATENT))
    terms = []
    for i in range(prior.pseudo_inputs.shape[0]):
        row = prior.pseudo_inputs[i : i + 1]
        posterior = AMORTIZER(row, jnp.ones(row.shape, dtype=bool))
        terms.append(posterior.log_prob(z.reshape(-1, 1, N_LATENT)).reshape(5, 3))
    expected = special.logsumexp(np.stack(terms), axis=0) - np.log(len(terms))
    np.testing.assert_allclose(log_prob(prior, z), expected, rtol=1e-5, atol=1e-5)


def test_pseudo_inputs_are_learned():
    prior = PRIORS["vamp"]()
    z = jax.random.normal(jax.random.key(1), (5, 3, N_LATENT))
    gradient = eqx.filter_grad(lambda prior: log_prob(prior, z).sum())(prior)
    assert (np.abs(gradient.pseudo_inputs) > 1e-4).any(axis=1).all()
