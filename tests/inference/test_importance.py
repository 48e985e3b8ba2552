import numpy as np
import pytest
from arviz_stats.base import array_stats  # pyright: ignore[reportPrivateImportUsage]
from scipy import stats

from miwae.inference import _importance as importance

LOG_W = np.random.default_rng(0).normal(size=(50, 4)) * 2
H = np.random.default_rng(1).normal(size=(50, 4, 3)) + 5.0


def test_equal_weights_give_plain_statistics():
    flat = np.full((50, 4), -700.0)
    np.testing.assert_allclose(importance.self_normalised_mean(flat, H), H.mean(0), rtol=1e-5)
    expected = np.std(H, axis=0) / np.sqrt(50)
    np.testing.assert_allclose(importance.standard_error(flat, H), expected, rtol=1e-3)
    np.testing.assert_allclose(importance.effective_sample_size(flat), 50, rtol=1e-5)


def test_a_single_heavy_sample_is_worth_one():
    log_w = np.where(np.arange(50)[:, None] == 7, 60.0, 0.0)
    np.testing.assert_allclose(importance.effective_sample_size(log_w), 1.0, rtol=1e-5)
    np.testing.assert_allclose(
        importance.self_normalised_mean(log_w, H[:, :1]), H[7, :1], rtol=1e-5
    )


def test_a_constant_added_to_log_weights_changes_nothing():
    for function in (importance.self_normalised_mean, importance.standard_error):
        np.testing.assert_allclose(
            function(LOG_W, H), function(LOG_W - 300.0, H), rtol=2e-3, atol=1e-5
        )
    level = np.random.default_rng(3).random((9, 4))
    assert np.array_equal(
        importance.resample(level, LOG_W), importance.resample(level, LOG_W + 8.0)
    )


def test_resampling_follows_the_weights():
    n_draws = 40_000
    index = importance.resample(np.random.default_rng(2).random((n_draws, 4)), LOG_W)
    w = importance.normalised(LOG_W)
    for row in range(4):
        counts = np.bincount(np.asarray(index[:, row]), minlength=50)
        likely = w[:, row] * n_draws > 5  # where the chi-squared approximation holds
        expected = np.append(w[likely, row], w[~likely, row].sum() + 1e-12) * n_draws
        seen = np.append(counts[likely], counts[~likely].sum())
        expected *= seen.sum() / expected.sum()
        assert stats.chisquare(seen, expected).pvalue > 1e-4


def test_resampling_never_takes_a_sample_of_no_weight():
    log_w = np.where(np.arange(50)[:, None] % 2 == 0, LOG_W, -np.inf)
    assert np.all(
        np.asarray(importance.resample(np.random.default_rng(0).random((500, 4)), log_w)) % 2 == 0
    )


def test_quantiles_of_equal_weights_are_those_of_the_sample():
    levels = np.array([0.11, 0.51, 0.93])  # between the steps of 1/50
    ours = importance.weighted_quantile(np.zeros((50, 4)), H, levels)
    expected = np.quantile(H, np.asarray(levels), axis=0, method="inverted_cdf")
    np.testing.assert_allclose(ours, expected, rtol=1e-6)


def test_a_weighted_quantile_is_that_of_repeated_values():
    repeats = np.array([3, 1, 0, 2])
    values = np.array([4.0, 2.0, 9.0, 1.0])
    log_w = np.where(repeats > 0, np.log(np.maximum(repeats, 1)), -np.inf)[:, None]
    levels = np.array([0.2, 0.4, 0.6, 0.9])
    ours = importance.weighted_quantile(log_w, np.asarray(values)[:, None, None], levels)
    expected = np.quantile(np.repeat(values, repeats), np.asarray(levels), method="inverted_cdf")
    np.testing.assert_allclose(ours[:, 0, 0], expected)


@pytest.mark.parametrize("shape", [0.1, 0.4, 0.7, 1.0])
# At these sizes the tail has a whole length, which one rounds up (as the paper) and the other
# down.
@pytest.mark.parametrize("n_samples", [200, 2_500])
def test_pareto_k_agrees_with_an_independent_implementation(shape, n_samples):
    rng = np.random.default_rng(int(10 * shape) + n_samples)
    log_w = np.log(stats.genpareto.rvs(shape, loc=0.1, size=(5, n_samples), random_state=rng))
    ours = importance.pareto_k(np.asarray(log_w.T, dtype=np.float32))
    _, theirs = array_stats.psislw(-log_w, r_eff=1.0, axis=-1)  # it takes log-likelihoods
    np.testing.assert_allclose(ours, theirs, atol=1e-3)


def test_pareto_k_finds_the_tail():
    rng = np.random.default_rng(0)
    log_w = np.log(stats.genpareto.rvs(0.8, size=(10_000, 40), random_state=rng))
    k = np.asarray(importance.pareto_k(np.asarray(log_w, dtype=np.float32)))
    # The deviation of k is about (1 + k) / sqrt(300) = 0.1, and the prior is at 0.5.
    assert abs(k.mean() - 0.8) < 0.06


def test_pareto_k_knows_its_limits():
    assert np.all(np.isnan(importance.pareto_k(np.random.default_rng(0).normal(size=(20, 2)))))
    assert np.all(importance.pareto_k(np.full((500, 2), -3.0)) == 0)


@pytest.mark.parametrize("n_samples", [480, 2_000, 10_000])
@pytest.mark.parametrize("spread", [10.0, 30.0, 100.0, 300.0])
def test_pareto_k_notices_weights_that_single_precision_cannot_tell(n_samples, spread):
    log_w = spread * np.random.default_rng(0).normal(size=(n_samples, 5))
    assert (importance.pareto_k(log_w) > 1).all()
    smoothed = importance.smoothed(log_w, np.full(5, n_samples))[0]
    assert np.isfinite(smoothed).all()


def test_samples_that_do_not_count_leave_paretos_k_as_it_is():
    heavy = np.asarray(stats.t.rvs(3, size=(400, 2), random_state=3), dtype=np.float32)
    padded = np.concatenate([heavy, np.full((80, 2), -np.inf)])
    with_padding = importance.pareto_k(padded, np.full(2, 400))
    np.testing.assert_allclose(with_padding, importance.pareto_k(heavy), rtol=1e-4)


@pytest.mark.parametrize("df", [2.0, 5.0, 50.0])
def test_smoothed_weights_agree_with_an_independent_implementation(df):
    # 3 sqrt(900) is whole: they round the length of the tail down, we up, as R's loo does.
    log_w = np.log(np.abs(stats.t.rvs(df, size=(900, 3), random_state=1)) + 1e-3)
    ours = importance.smoothed(np.asarray(log_w, dtype=np.float32), np.full(3, 900))[0]
    theirs = np.stack([array_stats.psislw(-log_w[:, i], r_eff=1.0)[0] for i in range(3)], axis=1)
    np.testing.assert_allclose(np.log(importance.normalised(ours)), theirs, atol=2e-4)


def test_smoothing_leaves_equal_weights_and_unused_samples_alone():
    flat = np.zeros((100, 2))
    assert np.array_equal(importance.smoothed(flat, np.full(2, 100))[0], flat)
    heavy = np.asarray(stats.t.rvs(2, size=(200, 1), random_state=2), dtype=np.float32)
    padded = np.concatenate([heavy, np.full((40, 1), -np.inf)])
    alone = importance.smoothed(heavy, np.array([200]))[0]
    with_padding = importance.smoothed(padded, np.array([200]))[0]
    np.testing.assert_allclose(with_padding[:200], alone, rtol=1e-5)
    assert np.isneginf(with_padding[200:]).all()
    assert float(alone.max()) <= float(heavy.max()) + 1e-6


def test_the_error_of_mirrored_pairs_is_that_of_their_sums():
    """An odd function of mirrored samples has no error; an even one that of half the samples."""
    rng = np.random.default_rng(5)
    half = rng.normal(size=(3, 32, 2))
    z = np.concatenate([half, -half], axis=1).reshape(-1, 2)
    log_w = np.zeros(z.shape)
    odd, even = z[..., None], z[..., None] ** 2
    np.testing.assert_allclose(importance.standard_error(log_w, odd, 64), 0.0, atol=1e-12)
    alone = importance.standard_error(np.zeros((96, 2)), half.reshape(-1, 2)[..., None] ** 2)
    np.testing.assert_allclose(importance.standard_error(log_w, even, 64), alone, rtol=1e-6)
