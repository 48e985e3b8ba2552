"""Models that have no estimate are refused, with the column, the copy and a remedy."""

import functools
import sys

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression, LogisticRegressionCV, Ridge

from miwae.errors import DataError, SettingsError
from miwae.pooling import MultiplyImputed

pd = pytest.importorskip("pandas")
sm = pytest.importorskip("statsmodels.api")
smf = pytest.importorskip("statsmodels.formula.api")

LOGISTIC = LogisticRegression(C=np.inf)
BINOMIAL = functools.partial(sm.GLM, family=sm.families.Binomial())


def table(**columns):
    """Two equal copies of a complete table."""
    return MultiplyImputed(pd.DataFrame(columns), [{}, {}])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("salary", ["age"]), "no column 'salary'; the columns are age, kind"),
        (("visits", ["age", "weight"]), "no column 'weight'"),
        (("visits", ["visits", "age"]), "'visits' is given twice"),
        (("visits", ["age", "age"]), "'age' is given twice"),
        (("kind", ["age"]), "'kind' has 3 distinct values in copy 1.*two"),
        (("visits ~ age", ["age"]), "names all columns itself"),
    ],
)
def test_columns_that_cannot_be_fitted_are_refused_by_name(draws, arguments, message):
    with pytest.raises((SettingsError, DataError), match=message):
        draws.fit(LinearRegression(), *arguments)


def test_a_model_without_coefficients_is_refused(draws):
    with pytest.raises(SettingsError, match="neither features nor an intercept"):
        draws.fit(sm.OLS, "visits", [], intercept=False)


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("visits", 'a formula is written as "income ~ age'),
        ("visits ~ weight", r"'visits ~ weight' with copy 1: .*weight.* columns age, kind"),
        ("visits ~ age +", r"'visits ~ age \+'"),
        ("kind ~ age", "'kind ~ age' with copy 1: .*multiple columns"),
    ],
)
def test_formulas_that_cannot_be_fitted_are_refused(draws, formula, message):
    with pytest.raises(SettingsError, match=message):
        draws.fit(formula)


@pytest.mark.parametrize(
    "model",
    [
        Ridge(),
        LogisticRegressionCV(),
        LogisticRegression(),
        LogisticRegression(C=np.inf, class_weight="balanced"),
        LinearRegression(positive=True),
        LinearRegression,
        3,
    ],
)
def test_estimators_without_standard_errors_are_refused_with_a_remedy(draws, model):
    remedy = r"LogisticRegression\(C=np\.inf\).*draws\.fit\(function\)"
    with pytest.raises(SettingsError, match=rf"gives no standard errors.*{remedy}"):
        draws.fit(model, "ill", ["age"])


def test_a_logistic_regression_needs_two_classes(draws):
    with pytest.raises(DataError, match="'net income' has 120 distinct values in copy 1"):
        draws.fit(LOGISTIC, "net income", ["age"])


@pytest.mark.parametrize(
    "y",
    [np.arange(20) > 9, (np.arange(20) % 2 == 0) & (np.arange(20) > 9)],
    ids=["perfectly", "in part"],
)
@pytest.mark.parametrize("model", [LOGISTIC, BINOMIAL], ids=["logit", "glm"])
def test_classes_that_are_separated_are_refused(model, y):
    x = np.where(np.arange(20) > 9, "late", "early")
    draws = table(x=x, y=y)
    with pytest.raises(DataError, match="separate the values of 'y' perfectly in copy 1"):
        draws.fit(model, "y", ["x"])


def test_a_far_row_is_no_separation():
    rng = np.random.default_rng(0)
    x = np.append(rng.normal(size=99), 40.0)
    y = np.append(rng.random(99) < 1 / (1 + np.exp(-x[:99])), True)
    expected = sm.Logit(y.astype(float), sm.add_constant(x)).fit(disp=0)
    assert expected.predict()[-1] > 1 - 1e-9
    np.testing.assert_allclose(table(x=x, y=y).fit(smf.logit, "y ~ x").estimate, expected.params)


def test_fits_that_do_not_converge_are_refused(draws):
    class Hasty(sm.Logit):
        def fit(self, disp=1):
            return super().fit(maxiter=1, disp=disp)

    with pytest.raises(DataError, match="fit to copy 1 did not converge"):
        draws.fit(Hasty, "ill", ["age"])


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"x": np.ones(9)}, "'x' is constant in copy 1: leave it out"),
        ({"x": np.zeros(9)}, "'x' is constant in copy 1"),
        ({"x": ["a"] * 9}, "copy 1: the column 'x' has a single level"),
        ({"w": np.arange(9.0), "x": np.arange(9.0) * 2 + 1}, "'x' is a linear combination of"),
        ({"x": pd.date_range("2020", periods=9)}, "copy 1: the column 'x' holds instants"),
        ({"x": [1.0, 2, 3, None, 5, 7, 7, 8, 9]}, "copy 1: the column 'x' still has 1 missing"),
        ({"x": ["a", "b", "a", None, *"abaab"]}, "copy 1: the column 'x' still has 1 missing"),
    ],
)
@pytest.mark.parametrize("kind", ["formula", "columns"])
def test_features_that_determine_no_coefficient_are_refused_by_name(columns, message, kind):
    draws = table(**columns, y=np.arange(9.0) ** 2)
    model = ["y ~ " + " + ".join(columns)] if kind == "formula" else [sm.OLS, "y", list(columns)]
    with pytest.raises(DataError, match=message):
        draws.fit(*model)


def test_columns_that_the_model_does_not_use_can_be_anything():
    draws = table(
        y=np.arange(9.0) ** 2,
        x=np.arange(9.0),
        log=[None] * 9,
        note=["a", None] * 4 + ["b"],
        day=pd.date_range("2020", periods=9),
    )
    assert draws.fit("y ~ np.log(x + 1)").names == ("Intercept", "np.log(x + 1)")


def test_rows_without_a_value_are_refused():
    draws = table(y=np.arange(9.0), x=np.where(np.arange(9) < 2, np.inf, np.arange(9.0)))
    with pytest.raises(DataError, match="no value in 2 rows of copy 1"):
        draws.fit("y ~ I(x - x)")


def test_too_few_rows_are_refused():
    with pytest.raises(DataError, match="2 rows are too few for 2 coefficients"):
        table(x=[1.0, 2.0], y=[1.0, 3.0]).fit("y ~ x")


@pytest.mark.parametrize("missing", ["statsmodels.api", "formulaic"])
def test_a_missing_library_is_named_with_its_extra(draws, monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(SettingsError, match=rf"{missing.split('.')[0]}.*miwae\[stats\]"):
        draws.fit("visits ~ age")
