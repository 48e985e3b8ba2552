"""Models of statsmodels and scikit-learn, fitted to each completed copy by statsmodels."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from miwae._extras import extra
from miwae._words import counted
from miwae.columns import TIMES, Cells, Column
from miwae.errors import DataError, SettingsError
from miwae.frames import columns
from miwae.pooling._checks import checked_fit

REMEDY = (
    "Use a function of a completed copy that fits the model and returns its result, or "
    "(estimates, variances): draws.fit(function)"
)

NUMERIC = ("number", "boolean")
LEVELLED = ("text", "category")

# Given the columns that a model uses and its response, the completed copies as pandas frames.
Copies: TypeAlias = Callable[[set[str], str], Iterator[Any]]


class Model(NamedTuple):
    make: Any  # makes a statsmodels model from response and features, or from a formula
    intercept: bool = True
    binary: bool = False  # whether the response must have two values, which become 0 and 1


def is_estimator(model: Any) -> bool:
    from sklearn.base import BaseEstimator

    return issubclass(model if isinstance(model, type) else type(model), BaseEstimator)


def read_model(model: Any) -> Model:
    """The model to fit with statsmodels, from what `MultiplyImputed.fit` accepts."""
    extra("formulaic")
    sm = extra("statsmodels.api")
    if isinstance(model, str):
        return Model(sm.OLS)
    if not is_estimator(model) and callable(model):
        return Model(model)
    from sklearn.linear_model import LinearRegression, LogisticRegression

    # Subclasses, such as LogisticRegressionCV, are other estimators with other errors.
    if type(model) is LinearRegression and not model.positive:
        return Model(sm.OLS, model.fit_intercept)
    if type(model) is LogisticRegression and model.class_weight is None:
        # Until scikit-learn 1.7 no penalty was `penalty=None`; since 1.8 it is an infinite C.
        if getattr(model, "penalty", "l2") is None or np.isinf(model.C):
            return Model(sm.Logit, model.fit_intercept, binary=True)
    raise SettingsError(
        f"{model!r} gives no standard errors that Rubin's rules could use. LinearRegression() and "
        f"LogisticRegression(C=np.inf), without penalty and class weights, do. {REMEDY}"
    )


def fit_formula(copies: Copies, names: Sequence[str], model: Model, formula: str) -> list[Any]:
    """The results of a model given by a formula, for each copy; `names` are all its columns."""
    if not model.intercept:
        raise SettingsError("a formula without intercept ends in ` - 1`: write it so")
    make = getattr(model.make, "from_formula", model.make)
    # A name before a parenthesis is a function, as in C(sex).
    used = {n for n in names if re.search(rf"(?<!\w){re.escape(n)}(?![\w(])", formula)}
    target = re.sub(r"^Q\(([\"'])(.*)\1\)$", r"\2", formula.partition("~")[0].strip())
    results = []
    for number, frame in enumerate(copies(used, target), 1):
        try:
            made = make(formula, data=frame)
        except Exception as error:  # each formula engine has its own
            reason = str(error).partition("\n")[0].rstrip(".")
            raise SettingsError(
                f"statsmodels cannot use {formula!r} with copy {number}: {reason}. Formulas can "
                f"use the columns {', '.join(frame)}, and numpy as np. {REMEDY}"
            ) from error
        lost = len(frame) - len(made.endog)
        if lost:
            raise DataError(f"{formula!r} has no value in {counted(lost, 'row')} of copy {number}")
        results.append(checked_fit(made, frame[sorted(used)], number))
    return results


def fit_columns(copies: Copies, model: Model, target: str, features: Sequence[str]) -> list[Any]:
    if not features and not model.intercept:
        raise SettingsError("there are neither features nor an intercept to estimate")
    make = model.make
    if getattr(make, "__name__", None) == "from_formula":  # as smf.ols, a method of sm.OLS
        make = make.__self__
    results = []
    for number, frame in enumerate(copies({target, *features}, target), 1):
        response = _response(frame[target], model, number)
        made = make(response, _design(frame, features, intercept=model.intercept))
        results.append(checked_fit(made, frame[list(features)], number))
    return results


def _response(values: Any, model: Model, number: int) -> Any:
    if values.dtype == "category" or (model.binary and values.nunique() != 2):
        needed = "two" if model.binary else "numbers, booleans or two"
        found = counted(values.nunique(), "distinct value")
        raise DataError(
            f"the target {values.name!r} has {found} in copy {number}: the model needs "
            f"{needed}. {REMEDY}"
        )
    return (values == values.max() if model.binary else values).astype(float)


def _design(frame: Any, features: Sequence[str], *, intercept: bool) -> Any:
    """Numbers as they are, and a flag for each level of a category but the first."""
    import pandas as pd
    from formulaic import Formula
    from formulaic.parser.types import Factor, Term

    formula: Any = Formula  # typed as abstract
    factors = [Factor("1", eval_method="literal")] if intercept else []
    factors += [Factor(name, eval_method="lookup") for name in features]
    matrix = formula([Term([factor]) for factor in factors]).get_model_matrix(frame)
    return pd.DataFrame(np.asarray(matrix, float), columns=list(matrix.columns))


def pandas_copies(
    frames: Sequence[Any], cells: Sequence[Mapping[int, Cells]], used: Collection[str], target: str
) -> Iterator[Any]:
    """Each copy as a pandas frame of numbers and categories.

    Booleans become 0 and 1. Text and categories become categoricals with the levels that occur in
    any of the copies. Columns of other types are left out. The columns that the model uses must be
    complete; the two levels of its response, `target`, if it has levels, become 0 and 1.
    """
    import pandas as pd

    levels: dict[str, tuple[Any, ...]] = {}
    for number, frame in enumerate(frames, 1):
        read = columns(frame)
        if number == 1:
            levels = {
                column.name: _levels_in_use(column, [copy[i] for copy in cells if i in copy])
                for i, column in enumerate(read)
                if column.storage in LEVELLED
            }
        for column in read:
            if column.name in used and (problem := _problem(column, levels)):
                raise DataError(f"copy {number}: the column {column.name!r} {problem}")
        usable = [column for column in read if column.storage in (*NUMERIC, *LEVELLED)]
        series = {c.name: _series(c, levels, is_target=c.name == target) for c in usable}
        yield pd.DataFrame(series)


def _levels_in_use(column: Column, cells: Sequence[Cells]) -> tuple[Any, ...]:
    """The levels that occur in any copy, in their declared order; other levels follow, sorted."""
    kept = ~column.missing
    used: set[Any] = set()
    for one in cells:
        kept[one.rows] = False
        used.update(one.values.tolist())
    used |= {column.levels[int(i)] for i in np.unique(column.values[kept])}
    declared = column.levels if column.storage == "category" else ()
    undeclared = sorted(used - set(declared), key=str)
    return (*(level for level in declared if level in used), *undeclared)


def _problem(column: Column, levels: Mapping[str, Sequence[Any]]) -> str | None:
    if column.storage not in (*NUMERIC, *LEVELLED):
        kind = f"holds {TIMES.get(column.storage, column.storage)} ({column.dtype})"
        return f"{kind}, which has no agreed coding as numbers. {REMEDY}"
    if column.n_missing:
        cells = counted(column.n_missing, "missing cell")
        return f"still has {cells}, because it was not imputed: leave it out"
    if len(levels.get(column.name, "ab")) < 2:
        return "has a single level in all copies: leave it out"
    return None


def _series(column: Column, levels: Mapping[str, Sequence[Any]], *, is_target: bool) -> Any:
    """A column as integers, floats or a categorical."""
    import pandas as pd

    if column.name not in levels:
        exact = (column.whole or column.storage == "boolean") and not column.n_missing
        return column.values.astype(np.int64 if exact else np.float64)
    codes = np.where(column.missing, -1, column.values).astype(np.int64)
    # Objects, because formulas do not know the text type of pandas 3.
    own, common = (pd.Index(s, dtype=object) for s in (column.levels, levels[column.name]))
    values = pd.Categorical.from_codes(codes, own).set_categories(common, ordered=column.ordered)
    return values.codes.astype(np.int64) if is_target and len(common) == 2 else values
