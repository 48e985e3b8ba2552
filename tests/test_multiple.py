import functools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from miwae.errors import DataError, SettingsError
from miwae.multiple import MultiplyImputed, pool
from miwae.table.base import AbstractTable, Column, Fill
from miwae.table.frames import as_table

pd = pytest.importorskip("pandas")


class DictTable(AbstractTable):
    """The smallest table: a dict of lists, None for missing; text in `levels` is a category."""

    def __init__(self, native, levels=None):
        self._native, self._levels = native, levels or {}

    native = property(lambda self: self._native)
    names = property(lambda self: tuple(self._native))
    n_rows = property(lambda self: len(next(iter(self._native.values()))))

    def column(self, position, missing_values=()):
        name = self.names[position]
        cells = self._native[name]
        missing = np.array([cell is None or cell in missing_values for cell in cells])
        seen = [cell for cell, hole in zip(cells, missing, strict=True) if not hole]
        levels = ()
        if name in self._levels:
            storage, levels = "category", self._levels[name]
        elif seen and isinstance(seen[0], str):
            storage, levels = "text", tuple(sorted(set(seen)))
        else:
            storage = "boolean" if seen and isinstance(seen[0], bool) else "number"
        code = levels.index if levels else float
        pairs = zip(cells, missing, strict=True)
        values = np.array([np.nan if hole else float(code(cell)) for cell, hole in pairs])
        return Column(name=name, storage=storage, values=values, missing=missing, levels=levels)

    def fill(self, fills):
        columns = {name: list(cells) for name, cells in self._native.items()}
        for position, fill in fills.items():
            for row, value in zip(fill.rows, fill.values.tolist(), strict=True):
                columns[self.names[position]][row] = value
        return DictTable(columns, self._levels)

    def keep(self, positions):
        return DictTable({self.names[i]: self._native[self.names[i]] for i in positions})

    def rows(self, start, stop):
        return DictTable({name: cells[start:stop] for name, cells in self._native.items()})

    def with_columns(self, columns, *, first):
        added = {name: values.tolist() for name, values in columns.items()}
        return DictTable({**added, **self._native} if first else {**self._native, **added})

    @classmethod
    def stacked(cls, tables):
        return cls({n: [c for t in tables for c in t.native[n]] for n in tables[0].names})


def numbers(rows, values):
    return Fill(np.array(rows), np.array(values, dtype=float))


def levels(rows, values):
    return Fill(np.array(rows), np.array(values, dtype=object))


@pytest.fixture
def small():
    table = DictTable({"a": [1.0, None, 3.0], "b": [None, 5.0, 6.0]})
    fills = [{0: numbers([1], [value]), 1: numbers([0], [-value])} for value in (10.0, 20.0)]
    return MultiplyImputed(table, fills)


# Rubin's rules


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


# What goes into pool


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
        ([series(a=1), series(b=1)], [[1], [1]], "copy 2 .* other quantities.* a, b"),
        ([series(a=1), [1]], [[1], [1]], "copy 2 carry no names"),
        ([[1], series(a=1)], [[1], [1]], "copy 2 carry names"),
        ([series(a=1)] * 2, [series(b=1)] * 2, "variances of copy 1 .* a, b"),
        ([pd.Series([1.0, 2.0], ["a", "a"])] * 2, [[1, 1]] * 2, "more than once: a"),
        ([1, 2, 3], [1, 1], "3 copies, but variances of 2"),
        ([[1, 2], [1, 2]], [[1], [1]], r"copy 1: .*\(2,\).*\(1,\)"),
        ([[1, 2], [1]], [[1, 2], [1]], r"copy 2 have the shape \(1,\)"),
        ([[1, 2], [1, 2]], np.ones((2, 2, 3)), "neither a vector nor a square matrix"),
        ([1, 2], [1, -0.5], "variance in copy 2 is -0.5"),
        ([[1, 2]] * 2, [[1, 1], [1, np.nan]], "variance of 1 in copy 2 is nan"),
        ([series(a=1)] * 2, [[np.inf], [1]], "variance of 'a' in copy 1 is inf"),
        ([1, np.nan], [1, 1], "estimate in copy 2 is nan"),
        (["x", "y"], [1, 1], "copy 1 are not numbers"),
        (3.0, [1, 1], "estimates: 3.0 is not a sequence"),
        ([1, 2], None, "variances: None is not a sequence"),
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
    with pytest.raises(DataError, match=r"data, not estimates.*draws\.fit.*draws\.apply"):
        pool(data, [1.0, 1.0])


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
    title, header, *rows = str(pooled).splitlines()
    assert "2 imputations" in title
    assert header.split() == ["estimate", "std_error", "statistic", "df", "p_value", "fmi"]
    assert [row.split()[:2] for row in rows] == [["age", "2"], ["sex", "20"]]
    assert len({len(line) for line in (header, *rows)}) == 1
    assert pool([1, 2], [1, 1]).to_frame()["term"].tolist() == ["0"]


# The copies


def test_copies_differ_where_cells_were_missing(small):
    assert len(small) == small.n_imputations == 2
    first, second = small
    assert first == small.complete(1) == {"a": [1.0, 10.0, 3.0], "b": [-10.0, 5.0, 6.0]}
    assert second == small.complete(2) == {"a": [1.0, 20.0, 3.0], "b": [-20.0, 5.0, 6.0]}
    assert small.complete(np.int64(2)) == second
    assert small.complete(0) == {"a": [1.0, None, 3.0], "b": [None, 5.0, 6.0]}


def test_the_long_frame_is_the_one_of_mice(small):
    expected = {
        ".imp": [0, 0, 0, 1, 1, 1, 2, 2, 2],
        ".id": [1, 2, 3] * 3,
        "a": [1.0, None, 3.0, 1.0, 10.0, 3.0, 1.0, 20.0, 3.0],
        "b": [None, 5.0, 6.0, -10.0, 5.0, 6.0, -20.0, 5.0, 6.0],
    }
    long = small.complete("long")
    assert long == expected
    assert list(long) == list(expected)
    without = small.complete("long", include_original=False)
    assert without == {name: cells[3:] for name, cells in expected.items()}


@pytest.mark.parametrize("which", [-1, 3, "broad", "1"])
def test_other_copies_do_not_exist(small, which):
    with pytest.raises(SettingsError, match="long"):
        small.complete(which)


def test_a_column_named_as_those_of_the_long_format_is_refused():
    draws = MultiplyImputed(DictTable({".id": [1.0, None]}), [{0: numbers([1], [2])}])
    with pytest.raises(DataError, match=r"\.id already"):
        draws.complete("long")


def test_apply_passes_on_its_arguments(small):
    def cell(frame, name, *, row):
        return frame[name][row]

    assert small.apply(cell, "a", row=1) == [10.0, 20.0]


def test_the_representation_counts(small):
    assert repr(small) == (
        "MultiplyImputed(2 imputations of 2 missing cells in 3 rows and 2 columns)"
    )
    partly = MultiplyImputed(small._table, [{0: numbers([1], [2])}], completable=[0])
    assert "1 imputations of 1 missing cells" in repr(partly)
    assert "not imputed: b" in repr(partly)


def test_no_copies_are_refused(small):
    with pytest.raises(SettingsError, match="n_imputations"):
        MultiplyImputed(small._table, [])


# Models


@pytest.fixture(scope="module")
def people():
    """Ages, a category, a boolean and responses, of which some are missing."""
    rng = np.random.default_rng(5)
    n = 120
    age, sex = rng.normal(50, 10, size=n), rng.integers(0, 3, size=n)
    smokes = rng.random(n) < 0.4
    income = 0.5 * age + np.array([0.0, 3.0, -2.0])[sex] + 2.0 * smokes + rng.normal(size=n)
    ill = rng.random(n) < 1 / (1 + np.exp(-(0.1 * (age - 50) + smokes - 0.5)))
    levels = {"kind": ("unused", "x", "y", "z")}
    native = {
        "age": age.tolist(),
        "kind": [levels["kind"][1 + code] for code in sex],
        "smokes": smokes.tolist(),
        "income": income.tolist(),
        "ill": ill.tolist(),
        "note": ["free text"] * n,
    }
    return DictTable(native, levels)


@pytest.fixture(scope="module")
def same(people):
    """Three copies that agree: the missing cells got the values that they had."""
    holes = {name: list(cells) for name, cells in people.native.items()}
    for name in ("age", "kind", "income"):
        holes[name][3] = None
    fills = {
        position: (levels if name == "kind" else numbers)([3], [people.native[name][3]])
        for position, name in enumerate(people.names)
        if holes[name][3] is None
    }
    return MultiplyImputed(DictTable(holes, people._levels), [fills] * 3)


@pytest.fixture(scope="module")
def varied(same):
    """Five copies that differ."""
    rng = np.random.default_rng(6)
    fills = [
        {
            0: numbers([3], [rng.normal(50, 10)]),
            1: levels([3], rng.choice(["x", "y", "z"], 1)),
            3: numbers([3], [rng.normal(25, 8)]),
        }
        for _ in range(5)
    ]
    return MultiplyImputed(same._table, fills)


def features_of(table):
    """The design by hand: intercept, age, kind[y], kind[z], smokes."""
    frame = table if isinstance(table, dict) else table.native
    kind = np.array(frame["kind"])
    columns = [frame["age"], kind == "y", kind == "z", frame["smokes"]]
    return np.column_stack([np.ones(len(kind)), *(np.array(c, dtype=float) for c in columns)])


NAMES = ("Intercept", "age", "kind[y]", "kind[z]", "smokes")
FEATURES = ["age", "kind", "smokes"]


def logistic(**settings):
    return pytest.importorskip("sklearn.linear_model").LogisticRegression(**settings)


def linear(**settings):
    return pytest.importorskip("sklearn.linear_model").LinearRegression(**settings)


def test_on_agreeing_copies_models_are_those_of_statsmodels(people, same):
    sm = pytest.importorskip("statsmodels.api")
    x = features_of(people)
    y, ill = (np.array(people.native[name], dtype=float) for name in ("income", "ill"))
    ols, logit = sm.OLS(y, x).fit(), sm.Logit(ill, x).fit(disp=0)
    binomial = functools.partial(sm.GLM, family=sm.families.Binomial())
    for model, target, own, tolerance in (
        (sm.OLS, "income", ols, 1e-8),
        (linear(), "income", ols, 1e-8),
        (sm.Logit, "ill", logit, 1e-8),
        (binomial, "ill", logit, 1e-6),
        (logistic(C=np.inf, max_iter=5000, tol=1e-8), "ill", logit, 1e-4),
    ):
        pooled = same.fit(model, target, FEATURES)
        assert pooled.names == NAMES
        assert pooled.df_complete == own.df_resid == len(y) - 5
        np.testing.assert_allclose(pooled.estimate, own.params, rtol=tolerance, atol=tolerance)
        np.testing.assert_allclose(pooled.std_error, own.bse, rtol=tolerance)


def test_on_differing_copies_a_fit_is_an_analysis_of_each(varied):
    def analysis(frame):
        x, y = features_of(frame), np.array(frame["income"])
        estimates, (square,), *_ = np.linalg.lstsq(x, y)
        return estimates, square / (len(y) - 5) * np.linalg.inv(x.T @ x)

    by_hand = varied.fit(analysis, df_complete=115)
    pooled = varied.fit(linear(), "income", FEATURES)
    assert (by_hand.b > 0).all()
    for field in ("estimate", "ubar", "b", "t", "df", "fmi"):
        np.testing.assert_allclose(getattr(pooled, field), getattr(by_hand, field), rtol=1e-8)


def test_parameters_besides_coefficients_are_pooled_by_their_names(same):
    sm = pytest.importorskip("statsmodels.api")
    table = same._table.fill({3: numbers(range(120), np.random.default_rng(0).poisson(3, 120))})
    counts = MultiplyImputed(table.fill(same._fills[0]), [{}] * 2)
    pooled = counts.fit(sm.NegativeBinomialP, "income", [])
    assert pooled.names == ("Intercept", "alpha")


def test_default_features_are_numbers_and_booleans(same):
    assert same.fit(linear(), "income").names == ("Intercept", "age", "smokes", "ill")


def test_the_intercept_can_be_left_out(same):
    x = features_of(same.complete(1))[:, [1, 4]]
    expected = np.linalg.lstsq(x, np.array(same.complete(1)["income"]))[0]
    for pooled in (
        same.fit(linear(), "income", ["age", "smokes"], intercept=False),
        same.fit(linear(fit_intercept=False), "income", ["age", "smokes"]),
    ):
        assert pooled.names == ("age", "smokes")
        np.testing.assert_allclose(pooled.estimate, expected, rtol=1e-8)


def test_levels_that_only_imputation_brought_are_coded_in_all_copies():
    cells = ["x", "x", "y", "y", None, None] * 3
    table = DictTable({"k": cells, "v": [float(i) for i in range(18)]}, {"k": ("x", "y", "new")})
    rows = [i for i, cell in enumerate(cells) if cell is None]
    fills = [{0: levels(rows, ["new"] * 6)}, {0: levels(rows, ["new"] * 5 + ["y"])}]
    assert MultiplyImputed(table, fills).fit(linear(), "v", ["k"]).names == (
        "Intercept", "k[y]", "k[new]",
    )  # fmt: skip
    # In a copy without a cell of that level its coefficient would be anything.
    absent = [fills[0], {0: levels(rows, ["y"] * 6)}]
    with pytest.raises(DataError, match=r"'k\[new\]' is zero in all rows of copy 2"):
        MultiplyImputed(table, absent).fit(linear(), "v", ["k"])


def test_values_that_stand_for_missing_are_no_levels():
    cells = ["?", "x", "y", "x", "y", "y"]
    table = DictTable({"k": cells, "v": [1.0, 2, 4, 3, 5, 7]}, {"k": ("?", "x", "y")})
    draws = MultiplyImputed(table, [{0: levels([0], ["x"])}, {0: levels([0], ["y"])}])
    assert draws.fit(linear(), "v", ["k"]).names == ("Intercept", "k[y]")


def test_the_unit_of_a_feature_does_not_matter(same):
    age = np.array(same.complete(1)["age"])
    table = DictTable({"age": (age * 1e-18).tolist(), "income": same.complete(1)["income"]})
    scaled = MultiplyImputed(table, [{}] * 2).fit(linear(), "income")
    pooled = same.fit(linear(), "income", ["age"])
    np.testing.assert_allclose(scaled.estimate * np.array([1, 1e-18]), pooled.estimate)
    np.testing.assert_allclose(scaled.std_error * np.array([1, 1e-18]), pooled.std_error)


def test_fitting_prints_nothing(same, capsys):
    same.fit(pytest.importorskip("statsmodels.api").Logit, "ill", ["age"])
    assert capsys.readouterr() == ("", "")


def test_a_category_of_two_levels_can_be_the_target():
    rng = np.random.default_rng(2)
    ill = rng.random(80) < 0.5
    native = {"v": rng.normal(size=80).tolist(), "b": ill.tolist()}
    native["c"] = ["yes" if value else "no" for value in ill]
    draws = MultiplyImputed(DictTable(native, {"c": ("no", "yes")}), [{}] * 2)
    model = logistic(C=np.inf)
    as_category, as_boolean = (draws.fit(model, name, ["v"]) for name in "cb")
    np.testing.assert_array_equal(as_category.estimate, as_boolean.estimate)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"target": "salary"}, "no column 'salary'; the columns are age, kind"),
        ({"features": ["age", "weight"]}, "no column 'weight'"),
        ({"features": ["income", "age"]}, "'income' cannot be a feature"),
        ({"features": ["note"]}, "'note' holds text.*pass a function.*declare it a category"),
        ({"target": "kind"}, "'kind' has 3 categories"),
        ({"features": [], "intercept": False}, "neither features nor an intercept"),
        ({"features": ["age", "age"]}, "linearly dependent in copy 1"),
    ],
)
def test_columns_that_cannot_be_fitted_are_refused_by_name(same, settings, message):
    with pytest.raises((SettingsError, DataError), match=message):
        same.fit(linear(), **{"target": "income"} | settings)


def test_estimators_without_standard_errors_are_refused_with_a_remedy(same):
    from sklearn.linear_model import LinearRegression, LogisticRegressionCV, Ridge

    for model, message in (
        (Ridge(), r"Ridge gives no standard errors.*draws\.fit\(function\)"),
        (LogisticRegressionCV(), "LogisticRegressionCV gives no standard errors"),
        (logistic(), r"LogisticRegression\(C=np\.inf\)"),
        (logistic(C=np.inf, class_weight="balanced"), "class weights"),
        (linear(positive=True), "positive=True"),
        (LinearRegression, r"pass an instance, LinearRegression\(\)"),
        ("ols", "neither"),
    ):
        with pytest.raises(SettingsError, match=message):
            same.fit(model, "ill", ["age"])


def test_a_logistic_regression_needs_two_classes(same):
    with pytest.raises(DataError, match="'income' has 120 distinct values in copy 1"):
        same.fit(logistic(C=np.inf), "income", ["age"])


def test_classes_that_are_separated_perfectly_are_refused():
    table = DictTable({"x": list(range(20)), "y": [row > 9 for row in range(20)]})
    with pytest.raises(DataError, match="separate the values of 'y' perfectly in copy 1"):
        MultiplyImputed(table, [{}] * 2).fit(logistic(C=np.inf), "y")


def test_models_without_a_vector_of_coefficients_are_refused(people):
    sm = pytest.importorskip("statsmodels.api")
    codes = [float("xyz".index(kind)) for kind in people.native["kind"]]
    table = DictTable({"age": people.native["age"], "code": codes})
    with pytest.raises(SettingsError, match="MNLogit has no single vector"):
        MultiplyImputed(table, [{}] * 2).fit(sm.MNLogit, "code")


def test_columns_that_were_not_imputed_are_refused(same):
    fills = [{p: f for p, f in fill.items() if p != 0} for fill in same._fills]
    with pytest.raises(DataError, match="'age' still has 1 missing cells in copy 1"):
        MultiplyImputed(same._table, fills, completable=[1, 3]).fit(linear(), "income")


def test_too_few_rows_are_refused(small):
    draws = MultiplyImputed(small._table.rows(0, 2), small._fills)
    with pytest.raises(DataError, match="2 rows are too few to estimate 2"):
        draws.fit(linear(), "a", ["b"])


def test_a_function_returns_estimates_and_variances(small):
    pooled = small.fit(lambda frame: (np.mean(frame["a"]), np.var(frame["a"]) / 3), df_complete=2)
    assert pooled.estimate == pytest.approx(((1 + 10 + 3) / 3 + (1 + 20 + 3) / 3) / 2)
    assert pooled.df_complete == 2
    with pytest.raises(SettingsError, match="must return a pair.*float"):
        small.fit(lambda frame: float(frame["a"][0]))
    for model in (linear(), type(linear()), "a"):
        with pytest.raises(SettingsError, match="target: name the column"):
            small.fit(model)


# Frames of other libraries


def make_pandas(columns):
    return pd.DataFrame(columns)


def make_polars(columns):
    return pytest.importorskip("polars").DataFrame(columns)


def make_arrow(columns):
    return pytest.importorskip("pyarrow").table(columns)


def make_numpy(columns):
    return np.column_stack([np.array(cells, dtype=float) for cells in columns.values()])


MAKERS = [make_pandas, make_polars, make_arrow, make_numpy]
HOLES = {"x": [1.0, 2.0, None, 4.0, 5.0], "y": [1.1, None, 2.9, 4.2, 4.8]}
DRAWN = [(2.8, 2.2), (3.3, 1.9), (3.0, 2.5)]


def draws_of(frame):
    fills = [{0: numbers([2], [x]), 1: numbers([1], [y])} for x, y in DRAWN]
    return MultiplyImputed(as_table(frame), fills)


def copy_of(x, y):
    return {"x": [1.0, 2.0, x, 4.0, 5.0], "y": [1.1, y, 2.9, 4.2, 4.8]}


def assert_same(frame, expected):
    assert type(frame) is type(expected)
    if isinstance(frame, pd.DataFrame):
        pd.testing.assert_frame_equal(frame, expected)
    elif isinstance(frame, np.ndarray):
        np.testing.assert_array_equal(frame, expected)
    else:
        assert frame.equals(expected)


@pytest.mark.parametrize("make", MAKERS)
def test_copies_are_frames_of_the_users_kind(make):
    frame = make(HOLES)
    draws = draws_of(frame)
    assert draws.complete(0) is frame
    for copy, drawn in zip(draws, DRAWN, strict=True):
        assert_same(copy, make(copy_of(*drawn)))
    assert_same(frame, make(HOLES))


@pytest.mark.parametrize("make", MAKERS)
def test_the_long_frame_equals_one_stacked_by_hand(make):
    blocks = [HOLES, *(copy_of(*drawn) for drawn in DRAWN)]
    expected = {
        ".imp": [number for number in range(4) for _ in range(5)],
        ".id": [1, 2, 3, 4, 5] * 4,
        "x": [cell for block in blocks for cell in block["x"]],
        "y": [cell for block in blocks for cell in block["y"]],
    }
    assert_same(draws_of(make(HOLES)).complete("long"), make(expected))


@pytest.mark.parametrize("make", MAKERS)
def test_fits_do_not_depend_on_the_kind_of_frame(make):
    draws = draws_of(make(HOLES))
    x, y = as_table(make(HOLES)).names
    lines = [np.polynomial.Polynomial.fit(*copy_of(*d).values(), 1).convert() for d in DRAWN]
    pooled = draws.fit(linear(), y, [x])
    assert pooled.names == ("Intercept", x)
    np.testing.assert_allclose(pooled.estimate, np.mean([line.coef for line in lines], axis=0))


@pytest.mark.parametrize("make", MAKERS)
def test_pooling_the_copies_themselves_is_refused(make):
    draws = draws_of(make(HOLES))
    for given in (draws, list(draws)):
        with pytest.raises(DataError, match="data, not estimates"):
            pool(given, None)


@pytest.mark.parametrize("make", [make_pandas, make_polars])
def test_categories_of_frames_are_coded(make):
    dtype = {
        make_pandas: lambda: pd.CategoricalDtype(["lo", "mid", "hi"]),
        make_polars: lambda: pytest.importorskip("polars").Enum(["lo", "mid", "hi"]),
    }[make]()
    words, y = ["hi", "lo", "mid", None, "hi", "lo"], [5.0, 1.0, 3.0, 3.2, 5.2, 1.2]
    plain = make({"k": words, "y": y})
    if make is make_pandas:
        frame = plain.astype({"k": dtype})
    else:
        frame = plain.cast({"k": dtype})
    draws = MultiplyImputed(as_table(frame), [{0: levels([3], ["mid"])}] * 2)
    pooled = draws.fit(linear(), "y", ["k"])
    assert pooled.names == ("Intercept", "k[mid]", "k[hi]")
    # Group means, and their differences from that of the first level.
    np.testing.assert_allclose(pooled.estimate, [1.1, 2.0, 4.0])
