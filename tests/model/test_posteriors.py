"""The contract of proposals, over every family: sampler and density belong together."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import special, stats

from cases import N_LATENT, N_ROWS, POSTERIORS, PROPOSALS, kappa_of
from miwae.errors import SettingsError
from miwae.model._posteriors import (
    FullNormalPosterior,
    FullStudentTPosterior,
    MixturePosterior,
    NormalPosterior,
    StudentTPosterior,
)
from miwae.model._proposals import MixtureProposal

EVERY = pytest.mark.parametrize("name", PROPOSALS)
KEY = jax.random.key(0)


@eqx.filter_jit
def sample(make, kappa, key, n_samples):
    return make(kappa).sample(key, n_samples)


@eqx.filter_jit
def log_prob(make, kappa, z):
    return make(kappa).log_prob(z)


@eqx.filter_jit
def shares(make, kappa, n_samples):
    return jnp.exp(make(kappa).log_stratum(n_samples))


def plane() -> tuple[np.ndarray, np.ndarray]:
    """Points (G, 2) and weights of a trapezoidal rule in u = asinh(z)."""
    u = np.linspace(-7.0, 7.0, 241)
    z, slope = np.sinh(u), np.cosh(u) * (u[1] - u[0])
    points = np.stack(np.meshgrid(z, z, indexing="ij"), -1).reshape(-1, 2)
    return points.astype(np.float32), np.outer(slope, slope).reshape(-1)


POINTS, WEIGHTS = plane()


EVERYWHERE = jnp.asarray(np.tile(POINTS[:, None, :], (1, N_ROWS, 1)))
N = 30_000  # draws: a multiple of the components of each mixture


# Of gradients by the rule above. For most it is the rounding of 58,081 terms; the derivative of a
# flow with ReLUs jumps, and halving the step moves the rule's answer by up to 5.5e-3.
GRID_ERROR = {"flow": 6e-3}


def questions(z):
    """Bounded, smooth functions of z; the third needs the dependence of its coordinates."""
    a, b = z[..., 0], z[..., 1]
    return jnp.stack([jnp.tanh(a), jnp.tanh(b), jnp.tanh(a) * jnp.tanh(b), jnp.cos(2 * a + b)], -1)


@EVERY
def test_the_density_integrates_to_one(name):
    make, kappa = PROPOSALS[name]()
    density = np.exp(np.asarray(log_prob(make, kappa, EVERYWHERE), np.float64))
    # The rule is accurate to 1e-5; a flow's network of ReLUs has kinks.
    np.testing.assert_allclose(WEIGHTS @ density, 1.0, rtol=1e-3)


@EVERY
def test_draws_follow_the_density(name):
    make, kappa = PROPOSALS[name]()
    share = np.asarray(shares(make, kappa, N), np.float64)[..., None]
    drawn = share * np.asarray(questions(sample(make, kappa, KEY, N)), np.float64)
    density = np.exp(np.asarray(log_prob(make, kappa, EVERYWHERE), np.float64))
    exact = np.einsum("g,gb,gq->bq", WEIGHTS, density, np.asarray(questions(POINTS)))
    error = drawn.std(0) / np.sqrt(N)
    # Twelve comparisons at 5 standard errors, and the error of the rule.
    assert (np.abs(drawn.mean(0) - exact) <= 5 * error + 2e-4).all()


@EVERY
def test_strata_share_out_the_whole_distribution(name):
    make, kappa = PROPOSALS[name]()
    # Summed over 30,000 draws in double precision; each share is rounded to single.
    share = np.asarray(shares(make, kappa, N), np.float64)
    np.testing.assert_allclose(share.mean(0), 1.0, rtol=1e-6)


@EVERY
def test_the_gradient_through_draws_is_the_gradient_of_the_expectation(name):
    make, kappa = PROPOSALS[name]()
    n_batches, n = 40, 600

    @jax.jit
    def through_draws(key):
        def estimate(kappa):
            proposal = make(kappa)
            values = questions(proposal.sample(key, n)).sum(-1)
            return jnp.sum(jnp.mean(jnp.exp(proposal.log_stratum(n)) * values, axis=0))

        return jax.grad(estimate)(kappa)

    @jax.jit
    def through_density(kappa):
        density = jnp.exp(make(kappa).log_prob(EVERYWHERE))
        values = jnp.asarray(WEIGHTS, jnp.float32) * questions(jnp.asarray(POINTS)).sum(-1)
        return jnp.sum(values @ density)

    estimates = jnp.stack([through_draws(k) for k in jax.random.split(KEY, n_batches)])
    error = np.asarray(estimates).std(0) / np.sqrt(n_batches)
    exact = np.asarray(jax.grad(through_density)(kappa))
    # Some tens of comparisons at 5 standard errors, and the error of the rule.
    assert (np.abs(estimates.mean(0) - exact) <= 5 * error + GRID_ERROR.get(name, 1e-3)).all()
    assert np.linalg.norm(exact) > 10 * np.linalg.norm(error)  # the signal can be seen at all


@EVERY
def test_draws_with_their_density_are_the_draws_and_the_density(name):
    make, kappa = PROPOSALS[name]()
    proposal, key = make(kappa), jax.random.key(4)
    z, log_prob = proposal.sample_and_log_prob(key, 12)
    np.testing.assert_allclose(z, proposal.sample(key, 12), rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(log_prob, proposal.log_prob(z), rtol=1e-4, atol=1e-4)


@EVERY
def test_with_its_own_key_a_row_does_not_see_the_others(name):
    make, kappa = PROPOSALS[name]()
    keys = jax.random.split(KEY, N_ROWS)
    together = sample(make, kappa, keys, 6)
    for i in range(N_ROWS):
        others = jnp.arange(N_ROWS)[:, None] != i
        foreign = jnp.where(others, kappa[::-1] - 0.5, kappa)
        other_keys = jax.random.split(jax.random.key(9), N_ROWS).at[i].set(keys[i])
        np.testing.assert_array_equal(sample(make, foreign, other_keys, 6)[:, i], together[:, i])
        # Another number of rows may change the rounding of a product, and nothing else.
        alone = sample(make, kappa[i : i + 1], keys[i : i + 1], 6)
        np.testing.assert_allclose(alone[:, 0], together[:, i], rtol=1e-5, atol=1e-5)


@EVERY
def test_with_one_key_rows_are_independent_and_with_equal_keys_the_same(name):
    make, kappa = PROPOSALS[name]()
    same = jnp.tile(kappa[:1], (N_ROWS, 1))
    independent = np.asarray(sample(make, same, KEY, 6))
    assert not np.isclose(independent[:, 0], independent[:, 1]).any()
    equal = sample(make, same, jnp.stack([KEY] * N_ROWS), 6)
    np.testing.assert_allclose(equal[:, 0], equal[:, 1], rtol=1e-5, atol=1e-5)


@EVERY
def test_draws_of_a_row_are_independent_of_each_other(name):
    make, kappa = PROPOSALS[name]()
    z = np.tanh(np.asarray(sample(make, kappa, KEY, N), np.float64))
    # Every sixth draw of a mixture of two or three is of the same component.
    z = z.reshape(-1, 6, N_ROWS, N_LATENT)
    z = (z - z.mean(0)) / z.std(0)
    correlation = (z[:-1] * z[1:]).mean(0)
    assert (np.abs(correlation) <= 5 / np.sqrt(N / 6)).all()


def softplus(a) -> Any:
    return np.logaddexp(0.0, np.asarray(a, np.float64))


def scale_of(raw):
    return 1e-3 + softplus(raw)


def lower(raw) -> Any:
    tril = np.zeros((N_LATENT, N_LATENT))
    tril[np.tril_indices(N_LATENT)] = raw
    np.fill_diagonal(tril, scale_of(np.diag(tril)))
    return tril


def reference_normal(k, z):
    return stats.norm.logpdf(z, k[:2], scale_of(k[2:])).sum(-1)


def reference_student_t(k, z):
    return stats.t.logpdf(z, 2.1 + softplus(k[4:]), k[:2], scale_of(k[2:4])).sum(-1)


def reference_full_normal(k, z):
    return stats.multivariate_normal.logpdf(z, k[:2], lower(k[2:]) @ lower(k[2:]).T)


def reference_full_student_t(k, z):
    tril = lower(k[2:5])
    return stats.multivariate_t.logpdf(z, k[:2], tril @ tril.T, 2.1 + softplus(k[5]))


def reference_mixture(k, z):
    terms = np.stack([reference_normal(k[:4], z), reference_normal(k[4:8], z)])
    return special.logsumexp(terms + special.log_softmax(k[8:])[:, None], axis=0)


REFERENCES = {
    "normal": (NormalPosterior(N_LATENT), reference_normal),
    "student_t": (StudentTPosterior(N_LATENT), reference_student_t),
    "full_normal": (FullNormalPosterior(N_LATENT), reference_full_normal),
    "full_student_t": (FullStudentTPosterior(N_LATENT), reference_full_student_t),
    "mixture": (MixturePosterior(NormalPosterior(N_LATENT), 2), reference_mixture),
}


@pytest.mark.parametrize("name", REFERENCES)
def test_the_density_is_that_of_scipy(name):
    posterior, reference = REFERENCES[name]
    kappa = kappa_of(posterior.n_parameters)
    z = 2 * jax.random.normal(jax.random.key(1), (5, N_ROWS, N_LATENT))
    expected = [reference(np.asarray(k), np.asarray(z[:, b])) for b, k in enumerate(kappa)]
    np.testing.assert_allclose(
        log_prob(posterior, kappa, z), np.stack(expected, 1), rtol=1e-4, atol=1e-4
    )


@pytest.mark.parametrize("name", POSTERIORS)
def test_parameters_of_another_width_are_refused(name):
    posterior = POSTERIORS[name]()
    kappa = jnp.zeros((N_ROWS, posterior.n_parameters + 1))
    with pytest.raises((TypeError, ValueError)):
        posterior(kappa).log_prob(jnp.zeros((1, N_ROWS, N_LATENT)))


def test_a_mixture_needs_a_sample_of_each_component():
    make, kappa = PROPOSALS["mixture_of_student_t"]()
    with pytest.raises(SettingsError, match="3 components needs as many samples, not 2"):
        make(kappa).sample(KEY, 2)


@pytest.mark.parametrize("n_samples", [3, 4, 8, 120])
def test_any_number_of_draws_of_a_mixture_weighs_as_much_as_the_mixture(n_samples):
    make, kappa = PROPOSALS["mixture_of_student_t"]()
    mixture = make(kappa)
    assert mixture.sample(KEY, n_samples).shape[0] == n_samples
    # Weights of the mixture for itself: their mean is 1 without any error, as shares add up to 1.
    np.testing.assert_allclose(np.exp(mixture.log_stratum(n_samples)).mean(0), 1.0, rtol=1e-5)


def test_the_draws_of_a_mixture_take_turns_and_carry_the_share_of_their_component():
    shares = jnp.log(jnp.array([[0.2, 0.8], [0.5, 0.5]]))
    far = [NormalPosterior(1)(jnp.array([[loc, 0.0], [loc, 0.0]])) for loc in (-100.0, 100.0)]
    mixture = MixtureProposal(tuple(far), shares)
    signs = np.sign(mixture.sample(KEY, 6)[..., 0])
    np.testing.assert_array_equal(signs, np.tile([[-1.0], [1.0]], (3, 2)))
    np.testing.assert_allclose(
        np.exp(mixture.log_stratum(4)), [[0.4, 1.0], [1.6, 1.0]] * 2, rtol=1e-6
    )


def test_scales_and_tails_of_proposals_have_floors():
    proposal = StudentTPosterior(N_LATENT)(jnp.full((1, 3 * N_LATENT), -50.0))
    np.testing.assert_allclose(proposal.scale, 1e-3)  # pyright: ignore[reportAttributeAccessIssue]
    np.testing.assert_allclose(proposal.df, 2.1)  # pyright: ignore[reportAttributeAccessIssue]
