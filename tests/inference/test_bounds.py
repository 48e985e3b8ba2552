import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from miwae.inference._bounds import BOUNDS, iwae_bound, miwae_bound, mvae_bound, vae_bound
from miwae.inference._importance import effective_sample_size
from miwae.inference._weights import draw
from miwae.model import StudentT
from miwae.model._build import dense_autoencoder

MODEL = oracle.linear_gaussian()
X, OBSERVED = oracle.simulate(MODEL, 12)
EXACT = oracle.exact_autoencoder(MODEL)
WIDE = oracle.wide_autoencoder(MODEL)
LOG_PROB = oracle.log_prob(MODEL, X, OBSERVED)

draw = eqx.filter_jit(draw)


@pytest.mark.parametrize("n_samples", [1, 7])
def test_with_the_exact_posterior_every_weight_is_the_likelihood(n_samples):
    log_w = draw(EXACT, jnp.asarray(X), jnp.asarray(OBSERVED), jax.random.key(0), n_samples).log_w
    # Rounding of sums of about ten terms of order ten in single precision.
    np.testing.assert_allclose(log_w, np.broadcast_to(LOG_PROB, log_w.shape), atol=2e-4)
    for bound in BOUNDS.values():
        np.testing.assert_allclose(bound(log_w), LOG_PROB, atol=2e-4)
    np.testing.assert_allclose(effective_sample_size(log_w), n_samples, rtol=1e-5)


def test_the_bound_grows_with_the_number_of_samples_and_stays_below_the_likelihood():
    keys = jax.random.split(jax.random.key(1), 400)
    log_w = jax.vmap(lambda k: draw(WIDE, jnp.asarray(X), jnp.asarray(OBSERVED), k, 16).log_w)(
        keys
    )
    total = {
        n: np.asarray(jax.vmap(lambda w, n=n: miwae_bound(w[:n]).sum())(log_w)) for n in (1, 4, 16)
    }
    for fewer, more in ((1, 4), (4, 16)):
        gain = total[more] - total[fewer]  # on common random numbers
        assert gain.mean() > 4 * gain.std() / np.sqrt(len(gain))
    slack = LOG_PROB.sum() - total[16]
    assert slack.mean() > -4 * slack.std() / np.sqrt(len(slack))


def test_the_mean_weight_is_an_unbiased_estimate_of_the_likelihood():
    log_w = draw(WIDE, jnp.asarray(X), jnp.asarray(OBSERVED), jax.random.key(2), 20_000).log_w
    ratio = np.exp(np.asarray(log_w, dtype=np.float64) - LOG_PROB)
    error = ratio.std(axis=0) / np.sqrt(len(ratio))
    assert np.all(np.abs(ratio.mean(axis=0) - 1) < 5 * error)


def test_one_sample_makes_the_two_formulas_one():
    log_w = jax.random.normal(jax.random.key(0), (1, 5))
    np.testing.assert_allclose(miwae_bound(log_w), mvae_bound(log_w), rtol=1e-6)


def test_on_complete_data_the_bounds_are_those_of_iwae_and_vae():
    assert iwae_bound is miwae_bound
    assert vae_bound is mvae_bound
    everything = np.ones_like(OBSERVED)
    z, _, log_w = draw(WIDE, jnp.asarray(X), jnp.asarray(everything), jax.random.key(0), 3)
    proposal = WIDE.propose(jnp.asarray(X), jnp.asarray(everything))
    mean = np.asarray(z) @ MODEL.loadings.T + MODEL.mean
    log_x = -0.5 * ((X - mean) ** 2 / MODEL.noise + np.log(2 * np.pi * MODEL.noise)).sum(-1)
    log_z = -0.5 * (np.asarray(z) ** 2 + np.log(2 * np.pi)).sum(-1)
    burda = log_x + log_z - np.asarray(proposal.log_prob(z))
    np.testing.assert_allclose(log_w, burda, atol=1e-3)


def test_a_constant_added_to_the_log_weights_is_added_to_the_bounds():
    log_w = jax.random.normal(jax.random.key(0), (6, 5))
    for bound in BOUNDS.values():
        np.testing.assert_allclose(bound(log_w + 3.0), bound(log_w) + 3.0, rtol=1e-5)


@pytest.mark.parametrize("junk", [np.nan, 1e9, -np.inf])
def test_what_a_missing_cell_holds_cannot_be_read(junk):
    autoencoder = dense_autoencoder(StudentT(4), n_hidden=8, n_layers=1, key=jax.random.key(0))
    clean = draw(autoencoder, jnp.asarray(X), jnp.asarray(OBSERVED), jax.random.key(1), 3)
    other = jnp.asarray(np.where(OBSERVED, X, junk))
    same = draw(autoencoder, other, jnp.asarray(OBSERVED), jax.random.key(1), 3)
    assert np.array_equal(clean.log_w, same.log_w)
    assert np.array_equal(clean.z, same.z)
