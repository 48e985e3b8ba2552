"""Models fitted to each copy and pooled, against models fitted by hand."""

import functools

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

from miwae.columns import Cells
from miwae.errors import DataError, SettingsError
from miwae.pooling import MultiplyImputed, pool

pd = pytest.importorskip("pandas")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

N = 120  # rows of the fixtures
LOGISTIC = LogisticRegression(C=np.inf)
BINOMIAL = functools.partial(sm.GLM, family=sm.families.Binomial())


def copies(draws):
    """The copies with the response of two levels as numbers, which statsmodels needs."""
    return [copy.assign(ill=(copy["ill"] == "yes").astype(int)) for copy in draws]


def table(**columns):
    """Two equal copies of a complete table."""
    return MultiplyImputed(pd.DataFrame(columns), [{}, {}])


def assert_equal(pooled, expected, rtol=1e-9):
    assert pooled.names == expected.names
    assert pooled.df_complete == expected.df_complete
    for field in ("estimate", "ubar", "b", "t", "df", "fmi"):
        np.testing.assert_allclose(
            getattr(pooled, field), getattr(expected, field), rtol=rtol, err_msg=field
        )


# Formulas


def test_a_formula_is_least_squares_on_each_copy_pooled_by_hand(draws):
    formula = "visits ~ age + C(kind) + np.log(Q('net income') ** 2)"
    results = [smf.ols(formula, copy).fit() for copy in draws]
    expected = pool(
        [result.params for result in results],
        [result.bse**2 for result in results],
        df_complete=N - 5,
    )
    assert (expected.b > 0).all()
    for arguments in ((formula,), (smf.ols, formula), (sm.OLS, formula)):
        assert_equal(draws.fit(*arguments), expected)
    assert draws.fit(formula, df_complete=50).df_complete == 50


def test_least_squares_by_linear_algebra(draws):
    def analysis(frame):
        kind, y = frame["kind"], frame["net income"].to_numpy()
        flags = [np.ones(N), kind == "y", kind == "z", frame["age"], frame["smokes"]]
        x = np.column_stack(flags).astype(float)
        estimates, (square,), *_ = np.linalg.lstsq(x, y)
        return estimates, square / (N - 5) * np.linalg.inv(x.T @ x)

    pooled = draws.fit("Q('net income') ~ kind + age + smokes")
    assert pooled.names == ("Intercept", "kind[T.y]", "kind[T.z]", "age", "smokes")
    by_hand = draws.fit(analysis, df_complete=N - 5)
    for field in ("estimate", "ubar", "b", "t", "df", "fmi"):
        np.testing.assert_allclose(getattr(pooled, field), getattr(by_hand, field), rtol=1e-8)


@pytest.mark.parametrize(
    ("model", "formula"),
    [
        (smf.logit, "ill ~ age + C(kind) + smokes.astype(int)"),
        (functools.partial(smf.glm, family=sm.families.Poisson()), "visits ~ age + kind"),
        (functools.partial(smf.quantreg), "visits ~ age"),
    ],
    ids=["logit", "poisson", "quantiles"],
)
def test_other_models_of_statsmodels_take_formulas(draws, model, formula):
    fit = functools.partial(model, formula)
    quiet = {"disp": 0} if model is smf.logit else {}
    results = [fit(data=copy).fit(**quiet) for copy in copies(draws)]
    assert_equal(draws.fit(model, formula), pool(results), rtol=1e-7)


def test_arguments_of_a_model_can_name_a_column(draws):
    model = functools.partial(smf.gee, groups="kind")
    results = [smf.gee("visits ~ age", "kind", copy).fit() for copy in draws]
    assert_equal(draws.fit(lambda copy: model("visits ~ age", data=copy).fit()), pool(results))
    assert_equal(draws.fit(model, "visits ~ age"), pool(results))


def test_numbers_can_be_categories(draws):
    results = [smf.ols("age ~ C(visits > 2)", copy).fit() for copy in draws]
    assert_equal(draws.fit("age ~ C(visits > 2)"), pool(results))


# Columns


@pytest.mark.parametrize(
    ("model", "y", "formula"),
    [
        (LinearRegression(), "net income", "Q('net income') ~ age + smokes_ + kind"),
        (sm.OLS, "net income", "Q('net income') ~ age + smokes_ + kind"),
        (smf.ols, "net income", "Q('net income') ~ age + smokes_ + kind"),
        (LOGISTIC, "ill", "ill ~ age + smokes_ + kind"),
        (sm.Logit, "ill", "ill ~ age + smokes_ + kind"),
        (BINOMIAL, "ill", "ill ~ age + smokes_ + kind"),
    ],
)  # fmt: skip
def test_columns_are_the_formula_that_names_them(draws, model, y, formula):
    fit = smf.logit if y == "ill" else smf.ols
    frames = [copy.assign(smokes_=copy["smokes"].astype(int)) for copy in copies(draws)]
    quiet = {"disp": 0} if y == "ill" else {}
    expected = pool([fit(formula, copy).fit(**quiet) for copy in frames])
    pooled = draws.fit(model, y, X=["age", "smokes", "kind"])
    assert pooled.names == ("Intercept", "age", "smokes", "kind[T.y]", "kind[T.z]")
    known = list(expected.names or ())
    order = [known.index(name.replace("smokes", "smokes_")) for name in pooled.names]
    for field in ("estimate", "std_error", "df"):
        found, sought = getattr(pooled, field), getattr(expected, field)[order]
        np.testing.assert_allclose(found, sought, rtol=1e-6, atol=1e-9)


def test_scikit_learn_finds_the_same_coefficients(people):
    flags = pd.get_dummies(people[["age", "smokes", "kind"]], dtype=float, drop_first=True)
    draws = MultiplyImputed(people, [{}, {}])
    exact = LogisticRegression(C=np.inf, tol=1e-8, max_iter=5000)
    for model, y in ((LinearRegression(), "net income"), (exact, "ill")):
        model.fit(flags, people[y])
        own = np.concatenate([np.ravel(model.intercept_), np.ravel(model.coef_)])
        pooled = draws.fit(model, y, ["age", "smokes", "kind"])
        np.testing.assert_allclose(pooled.estimate, own, rtol=1e-4)


def test_default_features_are_numbers_and_booleans(draws):
    names = draws.fit(LinearRegression(), "net income").names
    assert names == ("Intercept", "age", "smokes", "visits")


def test_the_intercept_can_be_left_out(draws):
    expected = draws.fit("visits ~ age + smokes - 1")
    assert expected.names == ("age", "smokes")
    x = ["age", "smokes"]
    assert_equal(draws.fit(LinearRegression(), "visits", x, intercept=False), expected)
    assert_equal(draws.fit(LinearRegression(fit_intercept=False), "visits", x), expected)
    with pytest.raises(SettingsError, match="- 1"):
        draws.fit("visits ~ age", intercept=False)


def test_parameters_besides_coefficients_are_pooled_by_their_names(draws):
    counts = draws.complete(1).assign(visits=np.random.default_rng(0).negative_binomial(2, 0.3, N))
    pooled = MultiplyImputed(counts, [{}, {}]).fit(sm.NegativeBinomial, "visits", [])
    assert pooled.names == ("Intercept", "alpha")


@pytest.mark.parametrize("values", [[False, True], ["no", "yes"], [1, 2], [0.0, 1.0]])
def test_a_response_of_two_values_is_zero_and_one(values):
    rng = np.random.default_rng(2)
    x, truth = rng.normal(size=80), rng.random(80) < 0.5
    draws = table(x=x, y=np.where(truth, values[1], values[0]))
    expected = sm.Logit(truth.astype(float), sm.add_constant(x)).fit(disp=0)
    np.testing.assert_allclose(draws.fit(LOGISTIC, "y", ["x"]).estimate, expected.params)
    if values != [1, 2]:
        for formula in ("y ~ x", "Q('y') ~ x", f"I((y == {values[1]!r}) * 1) ~ x"):
            pooled = draws.fit(smf.logit, formula)
            np.testing.assert_allclose(pooled.estimate, expected.params)


def test_the_unit_of_a_feature_does_not_matter(draws):
    age, visits = draws[0]["age"].to_numpy(), draws[0]["visits"].to_numpy()
    pooled, scaled = (table(age=age * s, y=visits).fit("y ~ age") for s in (1.0, 1e-9))
    factor = np.array([1, 1e-9])
    np.testing.assert_allclose(scaled.estimate * factor, pooled.estimate)
    np.testing.assert_allclose(scaled.std_error * factor, pooled.std_error)


def test_fitting_prints_nothing(draws, capsys):
    draws.fit(sm.Logit, "ill", ["age"])
    draws.fit(smf.logit, "ill ~ age")
    assert capsys.readouterr() == ("", "")


# Levels


def levelled(*imputed, dtype=None):
    """Copies of a column of text whose last cells are imputed."""
    column = pd.Series(["b", "c", "a", "c", "b", "a", None, None, None, None], dtype=dtype)
    frame = pd.DataFrame({"v": np.arange(10.0) ** 2, "k": column})
    rows = np.arange(6, 10)
    return MultiplyImputed(
        frame, [{1: Cells(rows, np.array(list(text), dtype=object))} for text in imputed]
    )


@pytest.mark.parametrize(
    ("dtype", "names"),
    [
        (None, ("k[T.b]", "k[T.c]")),
        (object, ("k[T.b]", "k[T.c]")),
        (pd.CategoricalDtype(["c", "unused", "a", "b"]), ("k[T.a]", "k[T.b]")),
    ],
    ids=["text", "object", "categorical"],
)
def test_levels_have_their_order_and_unused_ones_are_dropped(dtype, names):
    draws = levelled("abca", "aabb", dtype=dtype)
    for pooled in (draws.fit("v ~ k"), draws.fit(LinearRegression(), "v", ["k"])):
        assert pooled.names == ("Intercept", *names)
    means = np.array([copy.groupby("k", observed=True)["v"].mean() for copy in draws])
    expected = np.column_stack([means[:, :1], means[:, 1:] - means[:, :1]]).mean(axis=0)
    np.testing.assert_allclose(pooled.estimate, expected)


def test_levels_that_only_imputation_brought_are_coded_in_all_copies():
    assert levelled("dabc", "adbc").fit("v ~ k").names == (
        "Intercept", "k[T.b]", "k[T.c]", "k[T.d]",
    )  # fmt: skip


@pytest.mark.parametrize("model", [("v ~ k",), (LinearRegression(), "v", ["k"])])
def test_levels_that_a_copy_does_not_have_are_refused_by_name(model):
    with pytest.raises(DataError, match="level 'd' of the column 'k' occurs .* not in copy 2"):
        levelled("dabc", "aabc").fit(*model)


def test_the_reference_level_can_be_the_absent_one():
    frame = pd.DataFrame({"v": np.arange(6.0) ** 2, "k": [None, "b", "c", "b", "c", "c"]})
    draws = MultiplyImputed(
        frame, [{1: Cells(np.array([0]), np.array([k], dtype=object))} for k in "ba"]
    )
    with pytest.raises(DataError, match="level 'a' of the column 'k' occurs .* not in copy 1"):
        draws.fit("v ~ k")


def test_numbers_as_categories_that_a_copy_does_not_have_are_refused_by_name():
    frame = pd.DataFrame({"v": np.arange(8.0) ** 2, "k": [None, 1, 2, 1, 2, 1, 2, 3]})
    draws = MultiplyImputed(frame, [{1: Cells(np.array([0]), np.array([k]))} for k in (1.0, 4.0)])
    with pytest.raises(DataError, match=r"copy 2 .*C\(k\)\[T\.4\.0\].*merge"):
        draws.fit("v ~ C(k)")


def test_values_that_stand_for_missing_are_no_levels():
    frame = pd.DataFrame({"k": ["?", "x", "y", "x", "y", "y"], "v": [1.0, 2, 4, 3, 5, 7]})
    draws = MultiplyImputed(
        frame.astype({"k": pd.CategoricalDtype(["?", "x", "y"])}),
        [{0: Cells(np.array([0]), np.array([k], dtype=object))} for k in "xy"],
    )
    assert draws.fit("v ~ k").names == ("Intercept", "k[T.y]")


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_text_and_categories_of_other_frames(frame, draws, library):
    module = pytest.importorskip(library)
    if library == "polars":
        levels = module.Enum(["z", "y", "x"])
        other = module.from_pandas(frame).with_columns(module.col("kind").cast(levels))
    else:
        other = module.Table.from_pandas(frame)
    other_draws = MultiplyImputed(other, draws._cells)
    formula = "visits ~ age + smokes + C(kind, Treatment('x')) + ill"
    assert_equal_in_any_order(other_draws.fit(formula), draws.fit(formula))
    for model in ((smf.logit, "ill ~ age"), (LinearRegression(), "net income", ["age", "ill"])):
        assert_equal(other_draws.fit(*model), draws.fit(*model))


def assert_equal_in_any_order(pooled, expected):
    order = [pooled.names.index(name) for name in expected.names]
    np.testing.assert_allclose(np.asarray(pooled.estimate)[order], expected.estimate)
    np.testing.assert_allclose(np.asarray(pooled.std_error)[order], expected.std_error)


# Functions


def test_a_function_returns_estimates_and_variances(draws):
    pooled = draws.fit(lambda copy: (copy["age"].mean(), copy["age"].var() / N), df_complete=N - 1)
    assert pooled.estimate == pytest.approx(np.mean([copy["age"].mean() for copy in draws]))
    assert pooled.df_complete == N - 1
    assert draws.fit(lambda copy: (copy["age"].mean(), 1.0)).df_complete == np.inf


def test_a_function_returns_a_result_of_statsmodels(draws):
    def robust(copy):
        return smf.ols("visits ~ age", copy).fit(cov_type="HC3")

    assert_equal(draws.fit(robust), pool([robust(copy) for copy in draws]))
    assert (draws.fit(robust).std_error != draws.fit("visits ~ age").std_error).all()


def test_other_functions_are_refused(draws):
    with pytest.raises(SettingsError, match="must return .*pair.*float"):
        draws.fit(lambda copy: 1.0)
    for model in (LinearRegression(), LinearRegression, sm.OLS, 3):
        with pytest.raises(SettingsError, match="y: name the column"):
            draws.fit(model)
