"""Several completed copies of one table."""

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, SupportsIndex

import numpy as np
from jaxtyping import Float

from miwae._words import counted, visible
from miwae.columns import COPY, ROW, Cells, require_free
from miwae.errors import DataError, SettingsError
from miwae.frames import columns, completed, n_rows, names, stacked, with_columns
from miwae.pooling._models import fit_columns, fit_formula, is_estimator, pandas_copies, read_model
from miwae.pooling._rubin import Pooled, pool


class MultiplyImputed(Sequence[Any]):
    """M completed copies of a table, which differ in the cells that were missing.

    The table is stored once, and of each copy only the imputed cells; a copy is made when it is
    asked for, as a frame of the same type as the original.

    As a sequence it holds the copies, from `draws[0]` to `draws[M - 1]`. `complete` counts as R's
    mice does: `complete(0)` is the original, `complete(1)` to `complete(M)` are the copies.

    Analyse each copy as if it were complete and pool the results, with `fit` or with `apply` and
    `pool`. Do not average the copies: their differences are the uncertainty of the imputation.

    Args:
        frame: the incomplete table: a pandas, polars or pyarrow frame, or a numpy array.
        cells: for each copy, the imputed cells by position of their column.
        not_imputed: names of columns that keep their missing cells in all copies.

    Examples:
        >>> import numpy as np, pandas as pd
        >>> from miwae.columns import COPY, ROW, Cells, require_free
        >>> from miwae.pooling import MultiplyImputed
        >>> frame = pd.DataFrame({"x": [1.0, 2, 3, 4, 5], "y": [1.1, 1.9, np.nan, 4.2, 4.8]})
        >>> cells = [{1: Cells(np.array([2]), np.array([value]))} for value in (2.8, 3.1, 3.0)]
        >>> draws = MultiplyImputed(frame, cells)  # imputer.sample(frame) does this
        >>> [float(highest) for highest in draws.apply(lambda copy: copy["y"][:3].max())]
        [2.8, 3.1, 3.0]
        >>> pooled = draws.fit("y ~ x")
        >>> pooled.names, pooled.estimate.round(3).tolist()
        (('Intercept', 'x'), [0.083, 0.97])
    """

    def __init__(
        self, frame: Any, cells: Sequence[Mapping[int, Cells]], *, not_imputed: Sequence[str] = ()
    ) -> None:
        if not cells:
            raise SettingsError("n_imputations = 0: at least one copy is needed")
        self._frame = frame
        self._cells = tuple(cells)
        self._not_imputed = tuple(not_imputed)

    @property
    def n_imputations(self) -> int:
        """M, the number of copies."""
        return len(self._cells)

    @property
    def n_rows(self) -> int:
        """Rows of each copy."""
        return n_rows(self._frame)

    def __len__(self) -> int:
        return len(self._cells)

    def __getitem__(self, index: SupportsIndex | slice) -> Any:
        if isinstance(index, slice):
            return [completed(self._frame, cells) for cells in self._cells[index]]
        return completed(self._frame, self._cells[index])

    def __repr__(self) -> str:
        n_imputed = sum(len(cells.rows) for cells in self._cells[0].values())
        missing = (
            f"; not imputed: {', '.join(map(visible, self._not_imputed))}"
            if self._not_imputed
            else ""
        )
        return (
            f"MultiplyImputed({counted(len(self), 'imputation')} of "
            f"{counted(n_imputed, 'missing cell')} in {counted(self.n_rows, 'row')} and "
            f"{counted(len(names(self._frame)), 'column')}{missing})"
        )

    def complete(self, which: SupportsIndex | str, *, include_original: bool = True) -> Any:
        """One of the copies, or all of them in one frame.

        The long frame is the format in which R's mice exchanges imputations. Written by

            draws.complete("long").to_csv("long.csv", index=False)   # pandas
            draws.complete("long").write_csv("long.csv")             # polars
            draws.complete("long").to_parquet("long.parquet")        # pandas

        it is read in R by

            imp <- mice::as.mids(read.csv("long.csv", na.strings = "", stringsAsFactors = TRUE))
            imp <- mice::as.mids(as.data.frame(arrow::read_parquet("long.parquet")))

        Args:
            which: 0 for the original, 1 to M for a copy, or "long" for all copies below each
                other, with the columns `.imp` (number of the copy, 0 for the original) and `.id`
                (number of the row, from 1) before all others.
            include_original: whether the long frame starts with the original, as `mice::as.mids`
                requires.
        """
        if isinstance(which, str):
            if which != "long":
                raise SettingsError(f'{which!r} is unknown: use 0 to {len(self)}, or "long"')
            return self._long(range(0 if include_original else 1, len(self) + 1))
        number = operator.index(which)
        if not 0 <= number <= len(self):
            raise SettingsError(
                f'there is no copy {number}: use 0 for the original, 1 to {len(self)}, or "long"'
            )
        return self[number - 1] if number else self._frame

    def apply(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """The results of `function(copy, *args, **kwargs)` for each copy, in order."""
        return [function(frame, *args, **kwargs) for frame in self]

    def expectation(self, function: Callable[[Any], Any]) -> Float[np.ndarray, "N ..."]:
        """The mean over the copies of a function of completed rows: `E[h(x) | x_obs]`.

        The function goes from a copy to one number (or vector) for each of its rows.
        """
        total: Any = 0.0
        for copy in self:
            value = np.asarray(function(copy), dtype=np.float64)
            if value.ndim == 0 or len(value) != self.n_rows:
                raise DataError(
                    f"the function must return one value for each of the {self.n_rows} rows, but "
                    f"returned an array of shape {value.shape}"
                )
            total = total + value
        return total / len(self)

    def fit(
        self,
        model: Any,
        y: str | None = None,
        X: Sequence[str] | None = None,
        *,
        intercept: bool = True,
        df_complete: float | int | None = None,
    ) -> Pooled:
        """Fits a model to each copy and pools its coefficients.

            draws.fit("mass ~ flipper + C(sex)")                 # ordinary least squares
            draws.fit(smf.logit, "ill ~ age + C(sex)")
            draws.fit(functools.partial(smf.glm, family=sm.families.Poisson()), "visits ~ age")
            draws.fit(LogisticRegression(C=np.inf), "ill", ["age", "sex"])
            draws.fit(sm.OLS, y="income", X=["age"])
            draws.fit(lambda frame: smf.ols("mass ~ flipper", frame).fit(cov_type="HC3"))
            draws.fit(lambda frame: (frame["age"].mean(), frame["age"].var() / len(frame)))

        Text and categories become a flag for each level but the first, named as in statsmodels:
        `sex[T.male]`. Booleans are 0 and 1. A response with two levels is 0 for the first level
        and 1 for the second.

        Args:
            model: a formula; a function of statsmodels that takes a formula; a LinearRegression
                or an unpenalised LogisticRegression of scikit-learn, which statsmodels fits; a
                callable for which `model(y, X).fit()` is a statsmodels result; or, without y, a
                function from a completed frame to a statsmodels result, or to estimates and their
                variances as `pool` takes them.
            y: name of the response, or a formula.
            X: names of the features; None for all columns of numbers and booleans but the
                response.
            intercept: whether there is one; an estimator with `fit_intercept=False` has none.
            df_complete: degrees of freedom if no cell were missing; None for the residual degrees
                of freedom of the model, and for infinitely many with estimates and variances.
        """
        if y is None and not isinstance(model, str):
            return self._pooled_function(model, df_complete)
        known = read_model(model)
        known = known._replace(intercept=intercept and known.intercept)
        copies = functools.partial(pandas_copies, self, self._cells)
        formula = self._formula(model, y, X)
        if formula is not None:
            results = fit_formula(copies, names(self._frame), known, formula)
        else:
            results = fit_columns(copies, known, str(y), self._features(str(y), X))
        return pool(results, df_complete=df_complete)

    def _formula(self, model: Any, y: str | None, X: Sequence[str] | None) -> str | None:
        """The formula among the arguments of `fit`, None if they name columns."""
        alone = isinstance(model, str)
        formula = model if alone else str(y)
        if not alone and ("~" not in formula or formula in names(self._frame)):
            return None
        if "~" not in formula or X is not None or (alone and y is not None):
            raise SettingsError(
                f'{formula!r}: a formula is written as "income ~ age + C(sex)", and names all '
                "columns itself"
            )
        return formula

    def _features(self, y: str, X: Sequence[str] | None) -> list[str]:
        known = names(self._frame)
        if X is None:
            numeric = {c.name for c in columns(self[0]) if c.storage in ("number", "boolean")}
            chosen = [name for name in known if name in numeric and name != y]
        else:
            chosen = [X] if isinstance(X, str) else list(X)
        for name in (y, *chosen):
            if name not in known:
                listed = ", ".join(known)
                raise SettingsError(f"there is no column {name!r}; the columns are {listed}")
            if [y, *chosen].count(name) > 1:
                raise SettingsError(f"the column {name!r} is given twice")
        return chosen

    def _pooled_function(self, function: Any, df_complete: float | int | None) -> Pooled:
        if is_estimator(function) or isinstance(function, type) or not callable(function):
            raise SettingsError(
                f"y: name the column that {function!r} should explain; without y, the model is a "
                "formula, or a function from a completed frame to (estimates, variances)"
            )
        results = self.apply(function)
        if all(hasattr(result, "cov_params") for result in results):
            return pool(results, df_complete=df_complete)
        for result in results:
            if not isinstance(result, tuple | list) or len(result) != 2:
                raise SettingsError(
                    "the function must return a statsmodels result or a pair, (estimates, "
                    f"variances), but returned a {type(result).__name__}"
                )
        estimates, variances = zip(*results, strict=True)
        return pool(estimates, variances, df_complete=df_complete)

    def _long(self, numbers: range) -> Any:
        require_free(names(self._frame), (COPY, ROW))
        # Without any cells, columns that have no value get the type that they have in the copies.
        first = self._cells[0].items()
        none = {i: replace(c, rows=c.rows[:0], values=c.values[:0]) for i, c in first}
        rows = np.arange(1, self.n_rows + 1)

        def numbered(number: int) -> Any:
            frame = completed(self._frame, self._cells[number - 1] if number else none)
            return with_columns(frame, {COPY: np.full(len(rows), number), ROW: rows}, first=True)

        return stacked([numbered(number) for number in numbers])
