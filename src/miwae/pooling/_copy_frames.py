"""Completed copies as pandas frames for statsmodels, with the same levels in all copies."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from miwae.columns import TIMES, Cells, Column
from miwae.errors import DataError
from miwae.frames import columns

REMEDY = (
    "Use a function of a completed copy that fits the model and returns its result, or "
    "(estimates, variances): draws.fit(function)"
)

NUMERIC = ("number", "boolean")
LEVELLED = ("text", "category")


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
    """Why a model cannot use a column."""
    if column.storage not in (*NUMERIC, *LEVELLED):
        kind = f"holds {TIMES.get(column.storage, column.storage)} ({column.dtype})"
        return f"{kind}, which has no agreed coding as numbers. {REMEDY}"
    if column.n_missing:
        n = column.n_missing
        return f"still has {n} missing cells, because it was not imputed: leave it out"
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
