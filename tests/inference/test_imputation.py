import jax
import jax.numpy as jnp
import numpy as np
import pytest

import oracle
from miwae._row_keys import row_keys
from miwae.errors import DataError, SettingsError
from miwae.inference import _lanes as lanes
from miwae.inference import _sampling, _settings
from miwae.inference._estimands import Estimand, no_values
from miwae.inference._imputation import expectation, impute_multiple, impute_single, quantiles
from miwae.inference._sampling import SamplingSettings, sample_rows
from miwae.model import Categorical, Heterogeneous, Normal, Ordinal, Part
from miwae.model._build import dense_autoencoder

MODEL = oracle.linear_gaussian()
X, OBSERVED = oracle.simulate(MODEL, 40)
OBSERVED[0] = False  # nothing observed
OBSERVED[1] = True  # nothing missing
WIDE = oracle.wide_autoencoder(MODEL)
MEAN, COVARIANCE = oracle.conditional(MODEL, X, OBSERVED)
INCOMPLETE = np.where(OBSERVED, X, np.nan)
KEY = jax.random.key(0)
FIRST, SECOND = np.flatnonzero(~OBSERVED.all(axis=1))[1:3]  # rows with some cells missing
FIXED = SamplingSettings(n_samples=4_800, tolerance=None)


@pytest.fixture(scope="module")
def single():
    return impute_single(WIDE, INCOMPLETE, key=KEY, settings=FIXED)


def test_single_imputation_tends_to_the_conditional_mean(single):
    missing = ~OBSERVED
    distance = np.abs(single.x - MEAN)[missing] / single.standard_error[missing]
    assert distance.max() < 5
    # The stated errors are of the right size; the cells of a row share their latent samples, so
    # that few of these distances are independent.
    assert np.sqrt(np.mean(distance**2)) < 1.5
    assert single.standard_error.max() < 0.1


def test_observed_cells_come_back_bit_for_bit(single):
    assert np.array_equal(single.x[OBSERVED], X[OBSERVED])
    assert not np.isnan(single.x).any()


def test_a_complete_row_costs_nothing_and_an_empty_one_gets_the_marginal(single):
    assert single.report.n_samples[1] == 0
    assert np.array_equal(single.x[1], X[1])
    assert np.all(np.abs(single.x[0] - MODEL.mean) < 5 * single.standard_error[0])


def test_what_is_stored_in_missing_cells_does_not_matter(single):
    other = impute_single(WIDE, np.where(OBSERVED, X, 1e9), OBSERVED, key=KEY, settings=FIXED)
    assert np.array_equal(other.x, single.x)


def test_a_row_is_imputed_alike_whatever_the_order_and_the_other_rows(single):
    order = np.random.default_rng(0).permutation(40)
    for rows in (order, order[:17], np.array([5])):
        part = impute_single(WIDE, INCOMPLETE[rows], key=KEY, settings=FIXED)
        assert np.array_equal(part.x, single.x[rows])


def test_memory_changes_nothing(single):
    small = SamplingSettings(n_samples=4_800, tolerance=None, memory=1)
    part = impute_single(WIDE, INCOMPLETE, key=KEY, settings=small)
    assert np.array_equal(part.x, single.x)


def test_very_wide_rows_are_decoded_in_smaller_groups_with_the_same_result(monkeypatch):
    width = lanes.BLOCK * WIDE.generative.observation.n_parameters
    monkeypatch.setattr(lanes, "DECODED", 3 * width)  # two lanes fit, four do not
    # A number of samples that no other test has, so that nothing compiled before is used.
    settings = SamplingSettings(n_samples=4_680, tolerance=None)
    part = impute_single(WIDE, INCOMPLETE[:16], key=KEY, settings=settings)
    monkeypatch.undo()
    settings = SamplingSettings(n_samples=4_681, tolerance=None)
    usual = impute_single(WIDE, INCOMPLETE[:16], key=KEY, settings=settings)
    np.testing.assert_allclose(part.x, usual.x, atol=0.01)  # but for one sample and rounding
    assert (part.report.n_samples[~OBSERVED[:16].all(axis=1)] == 4_680).all()


def test_rows_that_are_sampled_together_fit_into_the_memory():
    settings = SamplingSettings(n_samples=10_000)
    for n_samples in (32, 640, 10_000):
        for n_values in (1, 20, 200, 784, 3_072):
            n_rows = settings.rows_at_once(n_samples, n_values)
            held = n_rows * 4 * n_samples * (n_values + 1)
            assert n_rows == 1 or held <= settings.memory / _settings.PARTS
    assert settings.rows_at_once(10_000, 200) == 3


def test_one_program_serves_any_number_of_rows_and_rounds():
    traced = []

    def counted(observation, given):
        traced.append(given.eta.shape)
        return given.eta[..., :1]

    for n_rows, tolerance in ((1, 1e-6), (16, 1e-6), (7, 0.05), (5, None)):
        settings = SamplingSettings(n_samples=600, tolerance=tolerance)
        x, seen = X[:n_rows], OBSERVED[:n_rows]
        keys = row_keys(KEY, x, seen)
        sample_rows(WIDE, x, seen, keys, settings, Estimand(counted, 1))
    assert set(traced) == {(32, 32, 8)}
    assert len(traced) <= 2  # once for the shapes, once for the program


def test_after_the_deadline_each_row_gets_one_block():
    settings = SamplingSettings(n_samples=4_800, tolerance=0.001)
    rushed = impute_single(WIDE, INCOMPLETE, key=KEY, settings=settings, deadline=0.0)
    sampled = ~OBSERVED.all(axis=1)
    assert np.all(rushed.report.n_samples[sampled] == lanes.BLOCK)
    assert np.isfinite(rushed.x).all()


def test_rows_have_equal_shares_of_the_time(monkeypatch):
    """A block of a row takes a second, and there is time for three and a bit."""
    now, blocks = [0.0], _sampling._blocks

    def slow(autoencoder, estimand, rows, before, count):
        now[0] += len(rows.x) * (count - before) / lanes.BLOCK
        return blocks(autoencoder, estimand, rows, before, count)

    monkeypatch.setattr(_sampling, "_blocks", slow)
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    settings = SamplingSettings(n_samples=4_800, tolerance=1e-6, adapt=False, memory=4 * 10**5)
    n_rows = int((~OBSERVED.all(axis=1)).sum())
    limit = {"settings": settings, "deadline": 3.3 * n_rows}
    report = impute_single(WIDE, INCOMPLETE, key=KEY, **limit).report
    n_samples = report.n_samples[report.n_samples > 0]
    together = settings.rows_at_once(lanes.BLOCK, 1 + INCOMPLETE.shape[1])
    assert 1 < together < n_rows
    assert set(n_samples) <= {2 * lanes.BLOCK, 4 * lanes.BLOCK}
    # The last few rows may have begun a round just before the end.
    assert now[0] <= limit["deadline"] + 2 * together


NARROW = oracle.wide_autoencoder(MODEL, shift=0.0, widen=0.3)


BESIDE = oracle.wide_autoencoder(MODEL, shift=0.7, widen=0.4)


def test_rows_with_poor_proposals_get_better_ones():
    settings = [
        SamplingSettings(n_samples=4_800, tolerance=None, adapt=adapt) for adapt in (False, True)
    ]
    errors = {False: [], True: []}
    for seed in range(5):
        key = jax.random.key(seed)
        plain, better = (impute_single(BESIDE, INCOMPLETE, key=key, settings=s) for s in settings)
        bad = plain.report.pareto_k > 0.7
        assert bad.sum() > 10
        assert not plain.report.smoothed.any()
        assert np.array_equal(better.report.smoothed, better.report.pareto_k > 0.7)
        assert better.report.smoothed.sum() <= 1
        for which, result in ((False, plain), (True, better)):
            errors[which] += list((result.x - MEAN)[bad][~OBSERVED[bad]])
    assert np.std(errors[True]) < 0.5 * np.std(errors[False])


def test_draws_have_the_spread_that_a_narrow_proposal_lacks():
    settings = SamplingSettings(n_samples=4_800, tolerance=None)
    draws = impute_multiple(NARROW, INCOMPLETE, key=KEY, settings=settings, n_imputations=200)
    missing = ~OBSERVED
    spread = np.sqrt(np.diagonal(COVARIANCE, axis1=1, axis2=2))
    z = (draws.x.mean(0) - MEAN)[missing] / spread[missing]
    assert np.abs(np.mean(z)) < 0.05
    ratio = draws.x.std(0)[missing] / spread[missing]
    assert 0.95 < np.median(ratio) < 1.05


def test_rows_whose_proposal_changes_at_the_deadline_are_imputed(monkeypatch):
    """Their earlier samples do not count any more: without new ones there would be none."""
    change = _sampling._with_better_proposals

    def changed_late(batch, report):
        batch = change(batch, report)
        return batch if batch.n_counted.all() else batch._replace(deadline=0.0)

    monkeypatch.setattr(_sampling, "_with_better_proposals", changed_late)
    settings = SamplingSettings(n_samples=4_800, tolerance=1e-6)
    rushed = impute_single(NARROW, INCOMPLETE, key=KEY, settings=settings)
    assert np.isfinite(rushed.x).all()
    assert rushed.report.n_samples[~OBSERVED.all(axis=1)].min() > 0


def test_rows_stop_when_their_error_is_small_enough():
    settings = SamplingSettings(n_samples=20_000, tolerance=0.03)
    adaptive = impute_single(WIDE, INCOMPLETE, key=KEY, settings=settings)
    used = adaptive.report.n_samples
    assert adaptive.standard_error.max() <= 0.03
    assert used.max() < 20_000
    assert len(np.unique(used)) > 3  # each as many as it needs
    distance = np.abs(adaptive.x - MEAN)[~OBSERVED]
    assert np.sqrt(np.mean(distance**2)) < 0.03


def test_a_row_with_unreliable_weights_goes_on_until_they_are_reliable_or_there_are_no_more():
    # A tolerance that every row meets with its first block: only weights can keep it going.
    limits = SamplingSettings(n_samples=4_096, tolerance=10.0, min_ess=1.0)
    report = impute_single(NARROW, INCOMPLETE, key=KEY, settings=limits).report
    sampled = report.n_samples > 0
    assert np.isin(report.n_samples[sampled], lanes.BLOCK * 2 ** np.arange(8)).all()
    between = (report.n_samples > lanes.BLOCK) & (report.n_samples < 2_048)
    assert between.sum() > 2
    assert (report.pareto_k[between] <= 0.7).all()
    assert np.array_equal(report.smoothed, report.pareto_k > 0.7)
    # The samples of a proposal that was replaced do not count.
    assert (report.n_samples[report.smoothed] == 2_048).all()


# At L = 1 and 2 not even each component can have a sample; at 121 the second block is cut.
@pytest.mark.parametrize("n_samples", [1, 2, 4, 121])
def test_the_mean_weight_of_a_stratified_mixture_is_unbiased(n_samples):
    n_copies = 8_000 if n_samples < 100 else 400
    row, seen = np.repeat(X[[FIRST]], n_copies, axis=0), np.repeat(OBSERVED[[FIRST]], n_copies, 0)
    sampled = sample_rows(
        oracle.mixture_autoencoder(MODEL),
        row,
        seen,
        row_keys(KEY, row, seen, tell_duplicates_apart=True),
        SamplingSettings(n_samples=n_samples, tolerance=None, adapt=False),
        no_values(),
    )
    truth = oracle.log_prob(MODEL, X[[FIRST]], OBSERVED[[FIRST]])[0]
    ratio = np.exp(sampled.log_mean_weight - truth)
    error = ratio.std() / np.sqrt(n_copies)
    assert error < 0.02
    assert abs(ratio.mean() - 1) < 4 * error
    assert (sampled.report.n_samples == n_samples).all()


def test_no_row_gets_more_samples_than_allowed():
    settings = SamplingSettings(n_samples=130, tolerance=1e-6)  # not a multiple of a block
    report = impute_single(WIDE, INCOMPLETE, key=KEY, settings=settings).report
    assert np.all(report.n_samples[OBSERVED.all(axis=1)] == 0)
    assert np.all(report.n_samples[~OBSERVED.all(axis=1)] == 130)


def test_diagnostics_tell_a_good_proposal_from_a_bad_one():
    plain = SamplingSettings(n_samples=4_800, tolerance=None, adapt=False)
    good = impute_single(WIDE, INCOMPLETE, key=KEY, settings=plain).report
    bad = impute_single(NARROW, INCOMPLETE, key=KEY, settings=plain).report
    sampled = ~OBSERVED.all(axis=1)
    assert np.median(good.pareto_k[sampled]) < 0.3
    assert np.median(bad.pareto_k[sampled]) > 0.7
    assert np.median(bad.effective_sample_size[sampled]) < np.median(
        good.effective_sample_size[sampled]
    )


def test_multiple_imputations_have_the_conditional_covariance():
    rows = np.repeat(INCOMPLETE[[0, FIRST, SECOND]], 300, axis=0)
    settings = SamplingSettings(n_samples=600, tolerance=None)
    copies = impute_multiple(WIDE, rows, n_imputations=10, key=KEY, settings=settings).x
    for i, row in enumerate((0, FIRST, SECOND)):
        draws = copies[:, i * 300 : (i + 1) * 300].reshape(3_000, 4).astype(np.float64)
        missing = ~OBSERVED[row]
        spread = np.sqrt(np.diag(COVARIANCE[row])[missing])
        # Ten copies of a row share their samples: 3,000 draws are worth at least 1,000.
        assert np.all(np.abs(draws.mean(0) - MEAN[row])[missing] < 5 * spread / np.sqrt(1_000))
        expected = COVARIANCE[row][np.ix_(missing, missing)]
        seen = np.cov(draws.T)[np.ix_(missing, missing)]
        scale = np.outer(spread, spread)
        assert np.all(np.abs(seen - expected) / scale < 5 * np.sqrt(2 / 1_000))
        assert np.all(draws[:, ~missing] == X[row, ~missing])


def test_identical_rows_get_independent_draws_and_the_same_mean():
    rows = np.repeat(INCOMPLETE[[FIRST]], 3, axis=0)
    copies = impute_multiple(WIDE, rows, n_imputations=2, key=KEY).x
    missing = ~OBSERVED[FIRST]
    assert len(np.unique(copies[:, :, missing][..., 0])) == 6
    means = impute_single(WIDE, rows, key=KEY, settings=FIXED).x
    assert np.array_equal(means[0], means[1])


def test_intervals_cover_at_their_nominal_rate():
    x, observed = oracle.simulate(MODEL, 500, seed=5)
    lower, upper = quantiles(WIDE, x, observed, levels=(0.05, 0.95), key=KEY).x
    inside = ((lower <= x) & (x <= upper))[~observed]
    error = np.sqrt(0.9 * 0.1 / inside.sum())
    assert abs(inside.mean() - 0.9) < 4 * error + 0.005  # and that of 1,200 weighted draws
    assert np.array_equal(lower[observed], x[observed])


def test_the_mean_of_any_function_is_estimated():
    def h(row):
        return jnp.stack([row[0] * row[1], jnp.sum(row**2)])

    result = expectation(WIDE, INCOMPLETE, h=h, key=KEY, settings=FIXED)
    product = MEAN[:, 0] * MEAN[:, 1] + COVARIANCE[:, 0, 1]
    squares = (MEAN**2).sum(1) + np.trace(COVARIANCE, axis1=1, axis2=2)
    for column, truth in enumerate((product, squares)):
        # Where nothing is missing only rounding is left, which grows with the value.
        rounding = 1e-5 * np.maximum(np.abs(truth), 1)
        error = np.maximum(result.standard_error[:, column], rounding)
        assert np.all(np.abs(result.mean[:, column] - truth) < 5 * error)
    with pytest.raises(SettingsError, match="must return a vector"):
        expectation(WIDE, INCOMPLETE, h=jnp.sum, key=KEY)


def test_a_function_need_not_exist_at_samples_that_do_not_count():
    # The missing cell is far above zero; the zeros that fill up a buffer are not.
    model = oracle.linear_gaussian(n_features=3, n_latent=1)
    row = np.array([[*(300 * model.loadings[:2, 0] + model.mean[:2]), np.nan]])
    sign = np.sign(model.loadings[2, 0])
    result = expectation(
        oracle.wide_autoencoder(model),
        row,
        h=lambda x: jnp.sqrt(sign * x[2:]),
        key=KEY,
        settings=SamplingSettings(n_samples=2_000, tolerance=0.5),
    )
    mean = oracle.conditional(model, row, ~np.isnan(row))[0][0, 2]
    np.testing.assert_allclose(result.mean[0, 0], np.sqrt(sign * mean), rtol=0.05)


def test_closed_form_means_have_smaller_errors_than_draws():
    drawn = expectation(WIDE, INCOMPLETE, h=lambda row: row, key=KEY, settings=FIXED)
    closed = impute_single(WIDE, INCOMPLETE, key=KEY, settings=FIXED)
    missing = ~OBSERVED
    assert np.all(closed.standard_error[missing] < drawn.standard_error[missing])


def test_categories_are_imputed_by_their_probability():
    observation = Heterogeneous(
        (Part(Normal(1), (0,)), Part(Categorical((3,)), (1,)), Part(Ordinal((4,)), (2,)))
    )
    autoencoder = dense_autoencoder(observation, n_latent=2, n_hidden=8, key=KEY)
    x = np.array([[0.3, np.nan, np.nan], [-1.0, 2.0, np.nan], [0.5, 1.0, 3.0]])
    result = impute_single(autoencoder, x, key=KEY, settings=FIXED)
    probabilities = result.mean[:, 1:4]
    np.testing.assert_allclose(probabilities.sum(1), 1.0, rtol=1e-5)
    assert result.x[0, 1] == probabilities[0].argmax()
    assert result.x[0, 2] == (result.mean[0, 4:] > 0.5).sum()
    assert np.array_equal(result.mean[1, 1:4], [0.0, 0.0, 1.0])
    copies = impute_multiple(autoencoder, x, n_imputations=5, key=KEY).x
    assert set(np.unique(copies[:, 0, 1])) <= {0.0, 1.0, 2.0}
    assert np.array_equal(copies[:, 2], np.repeat(x[None, 2], 5, axis=0).astype(np.float32))


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros((3, 5)), "the model has 4 features, but x has 5 columns"),
        (np.zeros(4), "two axes"),
        (np.array([[0.0, np.inf, 0.0, 0.0]]), "row 0, column 1 is inf"),
    ],
)
def test_bad_arrays_are_refused_by_name(x, message):
    for function in (impute_single, quantiles_of, copies_of):
        with pytest.raises(DataError, match=message):
            function(WIDE, x, key=KEY)


def test_no_rows_are_refused_where_there_would_be_nothing_to_return():
    with pytest.raises(DataError, match="x has no rows"):
        quantiles(WIDE, X[:0], OBSERVED[:0], levels=(0.5,), key=KEY)
    assert impute_single(WIDE, X[:0], OBSERVED[:0], key=KEY).x.shape == (0, 4)


def quantiles_of(autoencoder, x, key):
    return quantiles(autoencoder, x, levels=(0.5,), key=key)


def copies_of(autoencoder, x, key):
    return impute_multiple(autoencoder, x, n_imputations=1, key=key)


def test_impossible_values_are_refused_by_name():
    autoencoder = dense_autoencoder(Categorical((3, 2)), n_hidden=4, key=KEY)
    with pytest.raises(DataError, match=r"row 1, column 1 is 2\.0, which Categorical"):
        impute_single(autoencoder, [[0.0, 1.0], [1.0, 2.0]], key=KEY)


def test_bad_settings_are_refused_by_name():
    with pytest.raises(SettingsError, match="n_samples must be at least 1, not 0"):
        SamplingSettings(n_samples=0)
    with pytest.raises(SettingsError, match="tolerance must be positive"):
        SamplingSettings(tolerance=0.0)
    with pytest.raises(SettingsError, match="n_imputations must be at least 1"):
        impute_multiple(WIDE, INCOMPLETE, n_imputations=0, key=KEY)
    with pytest.raises(SettingsError, match="strictly between 0 and 1"):
        quantiles(WIDE, INCOMPLETE, levels=(0.0,), key=KEY)


def test_the_callback_hears_of_every_row():
    heard = []
    impute_single(
        WIDE, INCOMPLETE, key=KEY, settings=FIXED, callback=lambda done, n: heard.append((done, n))
    )
    n_incomplete = int((~OBSERVED.all(axis=1)).sum())  # complete rows are not sampled
    assert heard[-1] == (n_incomplete, n_incomplete)
