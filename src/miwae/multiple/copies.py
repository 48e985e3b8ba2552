"""Several completed copies of one table."""

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np

from miwae.errors import DataError, SettingsError
from miwae.multiple.design import formula
from miwae.multiple.models import is_estimator, model_fitter
from miwae.multiple.rubin import Pooled, pool
from miwae.table.base import AbstractTable, Fill

__all__ = ["MultiplyImputed"]

# What R's mice calls the number of the copy and of the row.
COPY, ROW = ".imp", ".id"


class MultiplyImputed:
    """M completed copies of a table, which differ where its cells were missing.

    The table is stored once, and of each copy the imputed cells only; copies are made when asked
    for, as frames of the same kind as the original.

    Analyse each copy as if it were complete and pool the results, with `fit` or with `apply` and
    `pool`. Averaging the copies instead would throw away what they are for: their differences
    are the uncertainty of the imputation.

    Args:
        table: the incomplete table.
        fills: for each copy, the imputed cells by position of their column.
        completable: positions of the columns that were imputed; others keep their missing cells in
            all copies. None if there are no others.
    """

    def __init__(
        self,
        table: AbstractTable,
        fills: Sequence[Mapping[int, Fill]],
        *,
        completable: Sequence[int] | None = None,
    ) -> None:
        if not fills:
            raise SettingsError("n_imputations = 0: at least one copy is needed")
        self._table = table
        self._fills = tuple(fills)
        everything = range(len(table.names))
        self._completable = tuple(everything if completable is None else completable)

    @property
    def n_imputations(self) -> int:
        """M, the number of copies."""
        return len(self._fills)

    @property
    def n_rows(self) -> int:
        """Rows of each copy."""
        return self._table.n_rows

    def __len__(self) -> int:
        return self.n_imputations

    def __iter__(self) -> Iterator[Any]:
        return (self._copy(number).native for number in self._numbers())

    def __repr__(self) -> str:
        n_imputed = sum(len(fill.rows) for fill in self._fills[0].values())
        left = [n for i, n in enumerate(self._table.names) if i not in self._completable]
        return (
            f"MultiplyImputed({self.n_imputations} imputations of {n_imputed} missing cells in "
            f"{self._table.n_rows} rows and {len(self._table.names)} columns"
            + (f"; not imputed: {', '.join(left)}" if left else "")
            + ")"
        )

    def complete(self, which: SupportsIndex | str, *, include_original: bool = True) -> Any:
        """One of the copies, or all of them in one frame.

        The long frame is how R's mice exchanges imputations. Written by pandas and polars as

            draws.complete("long").to_csv("long.csv", index=False)   # pandas
            draws.complete("long").write_csv("long.csv")             # polars
            draws.complete("long").to_parquet("long.parquet")        # pandas

        it is read in R by

            imp <- mice::as.mids(read.csv("long.csv", na.strings = "", stringsAsFactors = TRUE))
            imp <- mice::as.mids(as.data.frame(arrow::read_parquet("long.parquet")))

        Args:
            which: 0 for the original as it was, 1 to M for a copy, or "long" for all copies below
                each other, with the columns `.imp` (number of the copy, 0 for the original) and
                `.id` (number of the row, from 1) before all others.
            include_original: whether the long frame starts with the original, as `mice::as.mids`
                requires.
        """
        if isinstance(which, str):
            if which != "long":
                raise SettingsError(f'{which!r} is unknown: use 0 to {len(self)}, or "long"')
            return self._long(range(0 if include_original else 1, len(self) + 1)).native
        number = operator.index(which)
        if not 0 <= number <= len(self):
            raise SettingsError(
                f'there is no copy {number}: use 0 for the original, 1 to {len(self)}, or "long"'
            )
        return self._copy(number).native

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """The results of a function for each copy, in order.

        Args:
            function: called with a completed frame.
            *args: passed on to the function.
            **kwargs: passed on to the function.

        Example:
            A model written as a formula of statsmodels:

            >>> import numpy as np, pandas as pd, statsmodels.formula.api as smf
            >>> from miwae.multiple import MultiplyImputed, pool
            >>> from miwae.table.base import Fill
            >>> from miwae.table.frames import as_table
            >>> frame = pd.DataFrame({"x": [1.0, 2, 3, 4, 5], "y": [1.1, 1.9, np.nan, 4.2, 4.8]})
            >>> drawn = [2.8, 3.1, 3.0]  # the imputer does this: imputer.sample(frame)
            >>> fills = [{1: Fill(np.array([2]), np.array([value]))} for value in drawn]
            >>> draws = MultiplyImputed(as_table(frame), fills)
            >>> def analysis(frame):
            ...     result = smf.ols("y ~ x", frame).fit()
            ...     return result.params, result.bse**2
            >>> pooled = pool(*zip(*draws.apply(analysis)), df_complete=len(frame) - 2)
            >>> pooled.names
            ('Intercept', 'x')
            >>> pooled.estimate.round(3).tolist()
            [0.083, 0.97]
        """
        return [function(frame, *args, **kwargs) for frame in self]

    def fit(
        self,
        model: Any,
        target: str | None = None,
        features: Sequence[str] | None = None,
        *,
        intercept: bool = True,
        df_complete: float | int | None = None,
    ) -> Pooled:
        """Fits a model to each copy and pools its coefficients.

            draws.fit(LinearRegression(), "income")
            draws.fit(LogisticRegression(C=np.inf), "ill", ["age", "sex"])
            draws.fit(sm.OLS, "income", ["age"])
            draws.fit(functools.partial(sm.GLM, family=sm.families.Poisson()), "visits")
            draws.fit(lambda frame: (frame["age"].median(), bootstrap_variance(frame["age"])))

        Features that are categories become a flag per level but the first, named `sex[male]`. A
        boolean or a category of two levels as target is 0 for the first level, 1 for the second.

        Args:
            model: a LinearRegression, or a LogisticRegression without penalty, of scikit-learn
                (standard errors from the usual formulas); a model class of statsmodels, or another
                callable, for which `model(y, X).fit()` has `params`, `cov_params()` and
                `df_resid`; or, without a target, a function from a completed frame to estimates
                and their variances, as `pool` takes them.
            target: name of the response.
            features: names of the features; None for all columns of numbers and booleans but the
                target.
            intercept: whether to estimate one; an estimator with `fit_intercept=False` has none.
            df_complete: degrees of freedom if no cell were missing; None for what the model says,
                and for infinitely many with a function.

        Returns:
            The pooled coefficients, by name.
        """
        if target is None:
            return self._pooled_function(model, df_complete)
        fit = model_fitter(model)
        intercept = intercept and getattr(model, "fit_intercept", True)
        recipe = formula(self._table, self._fills, target, features, intercept=intercept)
        fits = [fit(recipe.design(self._copy(number), number)) for number in self._numbers()]
        pooled = pool(
            [one.estimates for one in fits],
            [one.covariance for one in fits],
            df_complete=min(one.df for one in fits) if df_complete is None else df_complete,
        )
        return replace(pooled, names=fits[0].names)

    def _pooled_function(self, function: Any, df_complete: float | int | None) -> Pooled:
        if is_estimator(function) or isinstance(function, type) or not callable(function):
            raise SettingsError(
                f"target: name the column that {function!r} should explain; without a target, the "
                "model is a function from a completed frame to (estimates, variances)"
            )
        results = self.apply(function)
        for result in results:
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise SettingsError(
                    "the function must return a pair, (estimates, variances), but returned a "
                    f"{type(result).__name__}"
                )
        estimates, variances = zip(*results, strict=True)
        return pool(estimates, variances, df_complete=df_complete)

    def _numbers(self) -> range:
        return range(1, len(self) + 1)

    def _copy(self, number: int) -> AbstractTable:
        """A copy, 0 for the original."""
        return self._table if number == 0 else self._table.fill(self._fills[number - 1])

    def _long(self, numbers: range) -> AbstractTable:
        taken = {COPY, ROW} & set(self._table.names)
        if taken:
            raise DataError(
                f"the table has a column {', '.join(sorted(taken))} already, which the long "
                "format needs for itself: rename it"
            )
        rows = np.arange(1, self._table.n_rows + 1)
        return type(self._table).stacked(
            [
                self._copy(number).with_columns(
                    {COPY: np.full(len(rows), number), ROW: rows}, first=True
                )
                for number in numbers
            ]
        )
