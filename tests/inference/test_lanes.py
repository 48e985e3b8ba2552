import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import special

import oracle
from miwae.inference import _importance as importance
from miwae.inference import _lanes as lanes
from miwae.inference import _sampling as sampling
from miwae.inference._adaptation import adapted, tempered
from miwae.inference._estimands import conditional_mean, no_values
from miwae.inference._lanes import BLOCK, Found

MODEL = oracle.linear_gaussian()
X, OBSERVED = oracle.simulate(MODEL, 20)
X = X.astype(np.float32)
WIDE = oracle.wide_autoencoder(MODEL)
ESTIMAND = conditional_mean(WIDE.generative.observation)
KEYS = np.asarray(jax.random.key_data(jax.random.split(jax.random.key(0), 20)))
NOTHING = Found.nothing(20, WIDE.generative.prior.n_latent)
ROWS = sampling._Rows(X, OBSERVED, np.zeros(X.shape, dtype=bool), KEYS)


def drawn(rows, before, count, autoencoder=WIDE, estimand=ESTIMAND):
    return sampling._blocks(autoencoder, estimand, rows, before, count)


def test_a_block_is_the_same_in_whatever_round_and_company_it_is_drawn():
    at_once = drawn(ROWS, 0, 3 * BLOCK)
    chosen = np.array([5, 3, 17])
    later = drawn(ROWS.chosen(chosen), BLOCK, 3 * BLOCK)
    for whole, part in zip(at_once, later, strict=True):
        assert np.array_equal(whole[BLOCK:, chosen], part)


def test_as_many_samples_count_as_a_round_allows():
    log_w = drawn(ROWS, 0, 2 * BLOCK + 30).log_w
    assert len(log_w) == 3 * BLOCK
    assert (np.isfinite(log_w).sum(axis=0) == 2 * BLOCK + 30).all()
    cut = np.isfinite(log_w[2 * BLOCK :])
    assert len(np.unique(cut.T, axis=0)) > 10  # each row has its own choice


def test_the_second_half_of_a_block_is_the_mirror_image_of_the_first():
    z = drawn(ROWS, 0, BLOCK).z
    proposal = eqx.filter_jit(WIDE.propose)(jnp.asarray(X), jnp.asarray(OBSERVED))
    centre = np.asarray(proposal.centre)
    np.testing.assert_allclose(z[: BLOCK // 2] - centre, centre - z[BLOCK // 2 :], atol=1e-5)


def found_for(rows, shift=0.5):
    """A distribution beside the proposal, for some of the rows."""
    exists = np.isin(np.arange(20), rows)
    n_latent = NOTHING.loc.shape[1]
    tril = np.tile(np.eye(n_latent, dtype=np.float32) * 0.7, (20, 1, 1))
    inverse = np.linalg.inv(tril).astype(np.float32)
    return Found(exists, np.full((20, n_latent), shift, np.float32), tril, inverse)


def test_weights_stay_unbiased_with_a_distribution_beside_the_proposal():
    """The mean of the weights is p(x_obs), whatever was found for a row."""
    rows = ROWS._replace(found=found_for([2, 3, 11]))
    log_w = drawn(rows, 0, 300 * BLOCK, estimand=no_values()).log_w.astype(np.float64)
    truth = oracle.log_prob(MODEL, X, OBSERVED)
    ratio = np.exp(log_w - truth[None])
    error = ratio.std(axis=0) / np.sqrt(len(ratio))
    assert (np.abs(ratio.mean(axis=0) - 1) < 4.5 * error).all()
    plain = drawn(ROWS, 0, BLOCK).log_w
    with_found = drawn(rows, 0, BLOCK).log_w
    same = (plain == with_found).all(axis=0)
    assert not same[[2, 3, 11]].any()
    assert same.sum() == 17  # what was found for a row leaves the others as they are


def test_adaptation_finds_the_posterior_that_the_proposal_misses():
    mean, covariance = oracle.posterior(MODEL, X, OBSERVED)
    rows, found = ROWS, NOTHING
    shifted = oracle.wide_autoencoder(MODEL, shift=1.0, widen=0.6)
    before = importance.effective_sample_size(drawn(rows, 0, 1024, shifted).log_w)
    for turn in range(4):
        own = drawn(rows, turn * 512, (turn + 1) * 512, shifted)
        found = adapted(own.z, own.log_w, np.full(20, 512), found)
        rows = rows._replace(found=found)
    spread = np.sqrt(np.diagonal(covariance, axis1=1, axis2=2))
    assert (np.abs(found.loc - mean) < 0.5 * spread).all()
    after = importance.effective_sample_size(drawn(rows, 4096, 4096 + 1024, shifted).log_w)
    assert np.median(before) < 200
    assert after.min() > 300


def test_adaptation_comes_nearer_where_a_single_sample_has_all_weight():
    mean, _ = oracle.posterior(MODEL, X, OBSERVED)
    shifted = oracle.wide_autoencoder(MODEL, shift=30.0, widen=8.0)
    rows, found = ROWS, NOTHING
    for turn in range(4):
        own = drawn(rows, turn * 64, (turn + 1) * 64, shifted)
        if turn == 0:
            first = own.z[0]
            assert np.median(importance.effective_sample_size(own.log_w)) < 1.01
        found = adapted(own.z, own.log_w, np.full(20, 64), found)
        rows = rows._replace(found=found)
    distance = lambda z: np.linalg.norm(z - mean, axis=1)  # noqa: E731
    assert distance(found.loc).mean() < 0.5 * distance(first).mean()


def test_weights_are_tempered_until_ten_samples_are_effective():
    log_w = np.random.default_rng(0).normal(size=(64, 3)) * [1.0, 30.0, 1e5]
    log_w[::2, 1] = -np.inf
    better = tempered(log_w)
    np.testing.assert_array_equal(better[:, 0], log_w[:, 0])
    np.testing.assert_allclose(importance.effective_sample_size(better)[1:], 10, rtol=1e-3)
    np.testing.assert_array_equal(np.isinf(better), np.isinf(log_w))
    np.testing.assert_array_equal(np.argsort(better[1::2, 1]), np.argsort(log_w[1::2, 1]))
    np.testing.assert_array_equal(tempered(log_w[:, 2:]), better[:, 2:])


def test_estimates_are_those_of_all_samples_of_a_row():
    settings = sampling.SamplingSettings(n_samples=350, tolerance=None, adapt=False)
    found = sampling.sample_rows(WIDE, X, OBSERVED, KEYS, settings, ESTIMAND)
    samples = drawn(ROWS, 0, 350)
    log_w, values = samples.log_w, samples.values
    for ours, expected in (
        (found.mean, importance.self_normalised_mean(log_w, values)),
        (found.standard_error, importance.standard_error(log_w, values, BLOCK)),
        (found.report.effective_sample_size, importance.effective_sample_size(log_w)),
        (found.report.pareto_k, importance.pareto_k(log_w, np.full(20, 350))),
        (found.log_mean_weight, special.logsumexp(log_w, axis=0) - np.log(350)),
    ):
        np.testing.assert_allclose(ours, expected, rtol=2e-4, atol=2e-6)


def test_wide_rows_have_fewer_lanes():
    assert lanes.lane_counts(WIDE, 4) == (32, 512)
    assert lanes.lane_counts(WIDE, 2**14) == (16, 16)
    assert lanes.lane_counts(WIDE, 2**20) == (1, 1)
