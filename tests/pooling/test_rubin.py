from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from miwae.errors import DataError, SettingsError
from miwae.pooling import pool

pd = pytest.importorskip("pandas")


def exactly(estimates, variances, df_complete):
    """Rubin (1987) and Barnard and Rubin (1999) in fractions, as mice writes them."""
    m = len(estimates)
    q = Fraction(sum(estimates), m)
    ubar = Fraction(sum(variances), m)
    b = sum((Fraction(e) - q) ** 2 for e in estimates) / (m - 1)
    t = ubar + (1 + Fraction(1, m)) * b
    riv = (1 + Fraction(1, m)) * b / ubar
    lambda_ = (1 + Fraction(1, m)) * b / t
    df = (m - 1) / lambda_**2
    if df_complete is not None:
        observed = Fraction(df_complete + 1, df_complete + 3) * df_complete * (1 - lambda_)
        df = df * observed / (df + observed)
    fmi = (riv + 2 / (df + 3)) / (riv + 1)
    return {
        "estimate": q, "ubar": ubar, "b": b, "t": t,
        "riv": riv, "lambda_": lambda_, "df": df, "fmi": fmi,
    }  # fmt: skip


@pytest.mark.parametrize("df_complete", [None, 1, 20, 1000])
@pytest.mark.parametrize(
    ("estimates", "variances"),
    [([1, 2, 3], [1, 2, 3]), ([4, 4, 5, 9, -2], [7, 1, 2, 2, 5]), ([0, 1], [100, 300])],
)
def test_pooled_numbers_equal_exact_fractions(estimates, variances, df_complete):
    pooled = pool(estimates, variances, df_complete=df_complete)
    for field, value in exactly(estimates, variances, df_complete).items():
        assert getattr(pooled, field) == pytest.approx(float(value), rel=1e-12), field


def test_a_worked_example():
    # Three estimates 1, 2, 3, each with variance 1/2, and 20 degrees of freedom, by hand:
    # b = 1, t = 1/2 + 4/3 = 11/6, lambda = 8/11, riv = 8/3, df_old = 2 (11/8)^2 = 121/32,
    # df_obs = 21/23 * 20 * 3/11 = 1260/253, df = 152460/70933, fmi = 1115890/1339283.
    pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], df_complete=20)
    assert (pooled.estimate, pooled.ubar, pooled.b) == (2, 0.5, 1)
    assert pooled.t == pytest.approx(11 / 6)
    assert pooled.lambda_ == pytest.approx(8 / 11)
    assert pooled.riv == pytest.approx(8 / 3)
    assert pooled.df == pytest.approx(152460 / 70933)
    assert pooled.fmi == pytest.approx(1115890 / 1339283)
    assert pooled.n_imputations == 3
    assert pooled.df_complete == 20


def test_intervals_and_p_values_are_those_of_student_t():
    rng = np.random.default_rng(0)
    pooled = pool(rng.normal(size=(5, 4)), rng.uniform(1, 2, size=(5, 4)), df_complete=30)
    t = stats.t(pooled.df)
    np.testing.assert_allclose(pooled.std_error**2, pooled.t)
    np.testing.assert_allclose(pooled.statistic, pooled.estimate / pooled.std_error)
    np.testing.assert_allclose(pooled.p_value, 2 * t.sf(np.abs(pooled.statistic)))
    lower, upper = pooled.interval(0.8)
    np.testing.assert_allclose(lower, pooled.estimate - t.ppf(0.9) * pooled.std_error)
    np.testing.assert_allclose(upper, pooled.estimate + t.ppf(0.9) * pooled.std_error)


def test_results_have_the_shape_of_one_estimate():
    one, several = pool([1, 2], [1, 1]), pool([[1, 2, 3], [2, 3, 4]], np.ones((2, 3)))
    for pooled, shape in ((one, ()), (several, (3,))):
        for values in (pooled.estimate, pooled.df, pooled.fmi, pooled.p_value):
            assert np.shape(values) == shape
        assert [np.shape(end) for end in pooled.interval()] == [shape, shape]


def test_copies_that_agree_have_the_uncertainty_of_complete_data():
    finite, infinite = (pool([7, 7, 7], [4, 4, 4], df_complete=df) for df in (50, None))
    for pooled in (finite, infinite):
        assert (pooled.b, pooled.t, pooled.riv, pooled.lambda_) == (0, 4, 0, 0)
    # Barnard and Rubin: (df + 1) / (df + 3) * df, up to mice's floor of lambda at 1e-4.
    assert finite.df == pytest.approx(51 / 53 * 50, rel=2e-4)
    assert finite.fmi == pytest.approx(2 / (finite.df + 3))
    np.testing.assert_allclose(infinite.interval(), stats.norm(7, 2).interval(0.95), rtol=1e-6)


def test_without_variance_within_copies_all_of_it_is_due_to_missing_cells():
    pooled = pool([1, 2, 3], [0, 0, 0])
    assert (pooled.riv, pooled.lambda_, pooled.fmi) == (np.inf, 1, 1)
    assert pooled.df == pytest.approx(2)
    nearly = pool([1, 2, 3], [1e-9] * 3)
    for field in ("lambda_", "fmi", "df", "t"):
        assert getattr(nearly, field) == pytest.approx(getattr(pooled, field), rel=1e-6)
    # With finite complete-data degrees of freedom the limit of Barnard and Rubin is none at all.
    none = pool([1, 2, 3], [0, 0, 0], df_complete=10)
    assert (none.df, none.p_value) == (0, 1)
    assert none.interval() == (-np.inf, np.inf)


def test_without_any_variance_the_estimate_is_certain():
    pooled = pool([[3.0, 0.0]] * 2, np.zeros((2, 2)), df_complete=10)
    np.testing.assert_array_equal(pooled.interval(), [[3, 0], [3, 0]])
    np.testing.assert_array_equal(pooled.riv, 0)
    np.testing.assert_array_equal(pooled.lambda_, 0)
    assert np.asarray(pooled.p_value)[0] == 0


def test_degrees_of_freedom_grow_with_those_of_complete_data_up_to_rubins():
    dfs = [pool([1, 2, 4], [2, 3, 2], df_complete=df).df for df in (1, 2, 5, 50, 1e4, 1e9, None)]
    assert (np.diff(dfs) > 0).all()
    assert dfs[-2] == pytest.approx(dfs[-1], rel=1e-7)
    # They never exceed those of complete data.
    assert all(df < complete for df, complete in zip(dfs, (1, 2, 5, 50), strict=False))


def test_pooled_intervals_cover_a_mean_as_often_as_they_say():
    """Proper imputations of a normal sample, missing completely at random: Rubin (1987), ch. 4."""
    rng = np.random.default_rng(20240229)
    replicates, n, n_missing, m, truth = 20_000, 40, 16, 10, 3.0
    n_seen = n - n_missing
    seen = rng.normal(truth, 2.0, size=(replicates, n_seen))
    mean, square = seen.mean(axis=1), seen.var(axis=1, ddof=1)
    # A draw of the parameters from their posterior, and of the cells given the parameters.
    variance = (n_seen - 1) * square / rng.chisquare(n_seen - 1, size=(m, replicates))
    location = rng.normal(mean, np.sqrt(variance / n_seen))
    drawn = rng.normal(size=(m, replicates, n_missing))
    drawn = location[..., None] + np.sqrt(variance)[..., None] * drawn
    copies = np.concatenate([np.broadcast_to(seen, (m, *seen.shape)), drawn], axis=2)
    pooled = pool(copies.mean(axis=2), copies.var(axis=2, ddof=1) / n, df_complete=n - 1)

    def coverage(interval):
        return np.mean((interval[0] <= truth) & (truth <= interval[1]))

    standard_error = np.sqrt(0.95 * 0.05 / replicates)
    assert abs(coverage(pooled.interval(0.95)) - 0.95) < 4 * standard_error
    # The check has teeth: as if the imputed cells of one copy were observed.
    naive = stats.t.interval(0.95, n - 1, copies[0].mean(axis=1), np.sqrt(pooled.ubar))
    assert coverage(naive) < 0.95 - 10 * standard_error


def series(**values):
    return pd.Series(values, dtype=float)


def test_names_are_kept_and_matched():
    estimates = [series(a=1, b=10), series(b=30, a=3)]
    variances = [series(b=4, a=1), series(a=1, b=4)]
    pooled = pool(estimates, variances)
    assert pooled.names == ("a", "b")
    np.testing.assert_array_equal(pooled.estimate, [2, 20])
    np.testing.assert_array_equal(pooled.ubar, [1, 4])
    # Unnamed variances are in the order of their copy's estimates, and the other way round.
    unnamed = pool(estimates, [[1, 4], [4, 1]])
    np.testing.assert_array_equal(unnamed.ubar, [1, 4])
    np.testing.assert_array_equal(unnamed.estimate, [2, 20])
    other_way = pool([[10, 1], [3, 30]], variances)
    assert other_way.names == ("b", "a")
    np.testing.assert_array_equal(other_way.estimate, [20, 2])
    np.testing.assert_array_equal(other_way.ubar, [4, 1])


def test_of_covariance_matrices_the_diagonal_is_used():
    rng = np.random.default_rng(1)
    estimates, roots = rng.normal(size=(4, 3)), rng.normal(size=(4, 3, 3))
    matrices = roots @ np.swapaxes(roots, 1, 2)
    variances = np.diagonal(matrices, axis1=1, axis2=2)
    pooled = pool(estimates, matrices)
    np.testing.assert_array_equal(pooled.t, pool(estimates, variances).t)
    # Named matrices are matched like vectors.
    backwards = [pd.DataFrame(v, list("abc"), list("abc")).iloc[::-1, ::-1] for v in matrices]
    named = pool([pd.Series(e, list("abc")) for e in estimates], backwards)
    np.testing.assert_array_equal(named.t, pooled.t)


@pytest.mark.parametrize(
    ("estimates", "variances", "message"),
    [
        ([series(a=1), series(b=1)], [[1], [1]], "copy 2 have other names.* a, b"),
        ([series(a=1), [1]], [[1], [1]], "copy 2 have other names.* a"),
        ([[1], series(a=1)], [[1], [1]], "copy 2 have other names.* a"),
        ([series(a=1)] * 2, [series(b=1)] * 2, "variances of copy 1 .* a, b"),
        ([pd.Series([1.0, 2.0], ["a", "a"])] * 2, [[1, 1]] * 2, "more than once: a"),
        ([1, 2, 3], [1, 1], "3 copies have estimates, but 2"),
        ([[1, 2], [1, 2]], [[1], [1]], r"copy 1: .*\(2,\).*\(1,\)"),
        ([[1, 2], [1]], [[1, 2], [1]], r"different shapes: \[\(1,\), \(2,\)\]"),
        ([[1, 2], [1, 2]], np.ones((2, 2, 3)), "neither a vector nor a square matrix"),
        ([1, 2], [1, -0.5], "variance in copy 2 is -0.5"),
        ([[1, 2]] * 2, [[1, 1], [1, np.nan]], "variance of 1 in copy 2 is nan"),
        ([series(a=1)] * 2, [[np.inf], [1]], "variance of 'a' in copy 1 is inf"),
        ([1, np.nan], [1, 1], "estimate in copy 2 is nan"),
        (["x", "y"], [1, 1], "copy 1 are not numbers"),
        (3.0, [1, 1], "estimates: 3.0 is not a sequence"),
        ([1, 2], 3.0, "variances: 3.0 is not a sequence"),
        ([1, 2], None, r"copy 1 is a int: pass `pool\(estimates, variances\)`"),
        (None, None, "results: None is not a sequence"),
    ],
)
def test_numbers_that_do_not_fit_are_refused_by_name(estimates, variances, message):
    with pytest.raises(DataError, match=message):
        pool(estimates, variances)


@pytest.mark.parametrize(
    "data",
    [
        pd.DataFrame({"a": [1.0, 2.0]}),
        [pd.DataFrame({"a": [1.0, 2.0]})] * 2,
        [np.ones((5, 2))] * 3,
        np.ones((3, 5, 2)),
    ],
    ids=["frame", "frames", "arrays", "array"],
)
def test_pooling_data_is_refused(data):
    for variances in ([1.0, 1.0], None):
        with pytest.raises(DataError, match=r"data, not estimates.*draws\.fit.*draws\.apply"):
            pool(data, variances)


@pytest.mark.parametrize("estimates", [[], [1.0], np.ones((1, 3))])
def test_one_copy_cannot_be_pooled(estimates):
    with pytest.raises(SettingsError, match="at least two"):
        pool(estimates, np.abs(estimates))


@pytest.mark.parametrize("df_complete", [0, -1, np.nan])
def test_degrees_of_freedom_are_positive(df_complete):
    with pytest.raises(SettingsError, match="df_complete"):
        pool([1, 2], [1, 1], df_complete=df_complete)


@pytest.mark.parametrize("level", [0.0, 1.0, 95.0])
def test_levels_lie_between_zero_and_one(level):
    with pytest.raises(SettingsError, match="level"):
        pool([1, 2], [1, 1]).interval(level)


def test_frame_and_text_hold_a_row_per_quantity():
    pooled = pool([series(age=1, sex=10), series(age=3, sex=30)], [[1, 4]] * 2, df_complete=10)
    frame = pooled.to_frame()
    assert list(frame) == (
        "term estimate std_error statistic df p_value riv lambda fmi ubar b t".split()
    )
    assert frame["term"].tolist() == ["age", "sex"]
    np.testing.assert_array_equal(frame["lambda"], pooled.lambda_)
    np.testing.assert_array_equal(frame["p_value"], pooled.p_value)
    title, header, *rows = repr(pooled).splitlines()
    assert "2 imputations" in title
    assert header.split() == ["estimate", "std_error", "statistic", "df", "p_value", "fmi"]
    assert [row.split()[:2] for row in rows] == [["age", "2"], ["sex", "20"]]
    assert len({len(line) for line in (header, *rows)}) == 1
    assert pool([1, 2], [1, 1]).to_frame()["term"].tolist() == ["0"]


# Results of statsmodels


def line(seed, n=30):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    return pd.DataFrame({"x": x, "y": 1 + 2 * x + rng.normal(size=n)})


def test_results_of_statsmodels_are_pooled_directly():
    smf = pytest.importorskip("statsmodels.formula.api")
    results = [smf.ols("y ~ x", line(seed)).fit() for seed in range(4)]
    pooled = pool(results)
    by_hand = pool(
        [r.params.to_numpy() for r in results], [r.bse**2 for r in results], df_complete=28
    )
    assert pooled.names == ("Intercept", "x")
    assert pooled.df_complete == 28
    for field in ("estimate", "ubar", "b", "t", "df", "fmi"):
        np.testing.assert_allclose(getattr(pooled, field), getattr(by_hand, field), rtol=1e-12)
    assert pool(results, df_complete=7).df_complete == 7
    # The copies of unequal length: the smallest degrees of freedom.
    assert pool([*results, smf.ols("y ~ x", line(9, 12)).fit()]).df_complete == 10


def test_results_that_are_arrays_have_the_names_of_the_features():
    sm = pytest.importorskip("statsmodels.api")
    frames = [line(seed) for seed in range(3)]
    results = [sm.OLS(f["y"].to_numpy(), sm.add_constant(f[["x"]].to_numpy())) for f in frames]
    pooled = pool([model.fit() for model in results])
    assert pooled.names == ("const", "x1")


def test_results_without_a_vector_of_coefficients_are_refused():
    sm = pytest.importorskip("statsmodels.api")
    frame = line(0, 60)
    result = sm.MNLogit(np.arange(60) % 3, frame[["x"]]).fit(disp=0)
    with pytest.raises(DataError, match="no single vector of coefficients"):
        pool([result, result])
