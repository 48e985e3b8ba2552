"""A regression's response and features, read from any kind of table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from miwae.errors import DataError, SettingsError
from miwae.table.base import AbstractTable, Column, Fill

__all__ = ["Design", "Formula", "formula"]

INTERCEPT = "Intercept"  # as in the formulas of statsmodels
NUMERIC = ("number", "boolean")


class Design(NamedTuple):
    """One completed copy as a regression sees it.

    Attributes:
        copy: which, counted from 1.
        target: the name of the response.
        y: the response.
        x: the features, after a column of ones if there is an intercept.
        names: of the columns of `x`.
        intercept: whether there is one.
    """

    copy: int
    target: str
    y: Float[np.ndarray, " N"]
    x: Float[np.ndarray, "N Q"]
    names: tuple[str, ...]
    intercept: bool


@dataclass(frozen=True)
class Term:
    """A column and, for categories, the levels that occur in any copy: the first is reference."""

    position: int
    name: str
    levels: tuple[Any, ...] = ()

    def numbers(self, column: Column) -> Float[np.ndarray, " N"]:
        """The values, or the indices of categories in `levels`."""
        if not self.levels:
            return column.values.astype(float)
        place = {level: float(i) for i, level in enumerate(self.levels)}
        # A copy may declare levels that no cell has.
        codes = np.array([place.get(level, np.nan) for level in column.levels])
        return codes[column.values.astype(int)]

    def features(self, column: Column) -> Float[np.ndarray, "N F"]:
        """The values as one column, or a flag for each level but the first."""
        numbers = self.numbers(column)[:, None]
        if not self.levels:
            return numbers
        return (numbers == np.arange(1, len(self.levels))[None]).astype(float)

    @property
    def names(self) -> tuple[str, ...]:
        """Of the columns of `features`."""
        if not self.levels:
            return (self.name,)
        return tuple(f"{self.name}[{level}]" for level in self.levels[1:])


@dataclass(frozen=True)
class Formula:
    """Which columns are response and features, and how categories are coded, in all copies."""

    target: Term
    terms: tuple[Term, ...]
    intercept: bool

    def design(self, table: AbstractTable, copy: int) -> Design:
        """Response and features of a completed copy.

        Args:
            table: the copy.
            copy: its number, for messages.
        """
        y = self.target.numbers(_complete_column(table, self.target, copy))
        blocks = [np.ones((table.n_rows, int(self.intercept)))]
        blocks += [term.features(_complete_column(table, term, copy)) for term in self.terms]
        names = (INTERCEPT,) * self.intercept
        names += tuple(name for term in self.terms for name in term.names)
        x = np.concatenate(blocks, axis=1)
        _check_rank(x, names, copy)
        return Design(copy, self.target.name, y, x, names, self.intercept)


def formula(
    table: AbstractTable,
    fills: Sequence[Mapping[int, Fill]],
    target: str,
    features: Sequence[str] | None,
    *,
    intercept: bool,
) -> Formula:
    """Decides on response and features.

    Args:
        table: the incomplete table.
        fills: the missing cells of each copy.
        target: name of the response.
        features: names, None for all columns of numbers and booleans but the target.
        intercept: whether the model has one.
    """
    response = _term(table, fills, target)
    if len(response.levels) > 2:
        raise SettingsError(
            f"the target {target!r} has {len(response.levels)} categories: only numbers, booleans "
            "and categories of two levels can be fitted here. Pass a function that fits the model "
            "you mean to a completed copy and returns (estimates, variances)"
        )
    names = _feature_names(table, target, features)
    if not names and not intercept:
        raise SettingsError("there are neither features nor an intercept to estimate")
    return Formula(response, tuple(_term(table, fills, name) for name in names), intercept)


def _feature_names(
    table: AbstractTable, target: str, features: Sequence[str] | None
) -> tuple[str, ...]:
    if features is None:
        return tuple(
            name
            for position, name in enumerate(table.names)
            if name != target and table.column(position).storage in NUMERIC
        )
    names = (features,) if isinstance(features, str) else tuple(features)
    if target in names:
        raise SettingsError(f"the target {target!r} cannot be a feature as well")
    return names


def _term(table: AbstractTable, fills: Sequence[Mapping[int, Fill]], name: str) -> Term:
    if table.names.count(name) != 1:
        found = "more than one column" if name in table.names else "no column"
        raise SettingsError(f"there is {found} {name!r}; the columns are {', '.join(table.names)}")
    position = table.names.index(name)
    column = table.column(position)
    if column.storage in NUMERIC:
        return Term(position, name)
    if column.storage != "category":
        raise SettingsError(
            f"the column {name!r} holds {column.storage} ({column.dtype}), which has no agreed "
            "coding as numbers: pass a function that codes it as you mean it, fits the model to a "
            "completed copy and returns (estimates, variances)"
            + (", or declare it a category" if column.storage == "text" else "")
        )
    levels = _levels_in_use(column, [fill[position] for fill in fills if position in fill])
    if len(levels) < 2:
        raise DataError(f"the column {name!r} has one category only: leave it out")
    return Term(position, name, levels)


def _levels_in_use(column: Column, fills: Sequence[Fill]) -> tuple[Any, ...]:
    """Declared levels of which some copy has a cell, and then any that only imputation brought.

    Cells that are filled do not count as they were: they may hold a value that stands for missing.
    """
    kept = ~column.missing
    imputed = set()
    for fill in fills:
        kept[fill.rows] = False
        imputed.update(fill.values.tolist())
    used = imputed | {column.levels[int(i)] for i in np.unique(column.values[kept])}
    undeclared = sorted(used - set(column.levels), key=str)
    return (*(level for level in column.levels if level in used), *undeclared)


def _complete_column(table: AbstractTable, term: Term, copy: int) -> Column:
    column = table.column(term.position)
    n_missing = int(np.count_nonzero(column.missing))
    if n_missing:
        raise DataError(
            f"the column {term.name!r} still has {n_missing} missing cells in copy {copy}, "
            "because it was not imputed: leave it out of the model"
        )
    return column


def _check_rank(x: Float[np.ndarray, "N Q"], names: tuple[str, ...], copy: int) -> None:
    """Refuses designs whose coefficients are not determined, as some libraries do not."""
    n, q = x.shape
    if n <= q:
        raise DataError(f"{n} rows are too few to estimate {q} coefficients with their errors")
    scale = np.linalg.norm(x, axis=0)
    if np.any(scale == 0):
        name = names[int(np.argmin(scale))]
        raise DataError(f"the feature {name!r} is zero in all rows of copy {copy}: leave it out")
    # Scaled, because a column in kilometres is no more dependent than one in millimetres.
    if np.linalg.matrix_rank(x / scale[None]) < q:
        raise DataError(
            f"the features are linearly dependent in copy {copy}, so that their coefficients are "
            f"not determined: leave one out of {', '.join(names)}"
        )
