"""Columns of every kind that the contract of kinds runs over, and short ways to make others.

A new kind becomes subject to the contract (kinds/test_contract.py, tabular/test_file.py) by a line
in `KINDS`.
"""

import datetime
import re
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from miwae.columns import Column, ColumnSchema, infer_schema
from miwae.columns.kinds import (
    AbstractKind,
    Clock,
    Coded,
    Constant,
    Count,
    Empty,
    Instant,
    Number,
    Points,
    Skipped,
)
from miwae.events import Event
from miwae.frames import columns

__all__ = [
    "DAYS",
    "KINDS",
    "NAN",
    "Case",
    "codes",
    "column_of",
    "columns_of",
    "exactly",
    "not_usable",
    "ordered",
    "repeated",
    "schema_of",
    "words",
]

NAN = float("nan")
DAYS = ["2020-01-01", "2020-03-01", None, "1969-12-31"]
_RNG = np.random.default_rng(0)


def column_of(values, dtype=None, name="a") -> Column:
    return columns(pd.DataFrame({name: pd.Series(values, dtype=dtype)}))[0]


def columns_of(**cells) -> list[Column]:
    return [column_of(values, name=name) for name, values in cells.items()]


def schema_of(values, kind=None, bounds=None, dtype=None) -> ColumnSchema:
    """What a column named "a" is taken for, with a kind and bounds that the user gave."""
    return infer_schema(
        [values if isinstance(values, Column) else column_of(values, dtype)],
        column_kinds=None if kind is None else {"a": kind},
        bounds=None if bounds is None else {"a": bounds},
    ).columns[0]


def codes(known: ColumnSchema, values, dtype=None) -> tuple[list[float | None], tuple[Event, ...]]:
    """Encoded cells, None where the model does not see one, and the events."""
    result = known.encoded(column_of(values, dtype))
    cells = zip(result.values.tolist(), result.seen.tolist(), strict=True)
    return [y if seen else None for y, seen in cells], result.events


def not_usable(value, what, count=1) -> Event:
    """The event about values of the column "a" that the model treats as missing."""
    cells = "1 such cell" if count == 1 else f"{count} such cells"
    text = (
        f"column 'a': the value {value} {what} ({cells}): kept in the table, treated as missing "
        "by the model"
    )
    return Event("value", "a", count, text)


def exactly(message: str) -> str:
    """A pattern for a whole message."""
    return f"^{re.escape(message)}$"


def ordered(*levels) -> pd.CategoricalDtype:
    return pd.CategoricalDtype(list(levels), ordered=True)


def words(n_distinct: int, n_observed: int) -> list[str]:
    return [f"w{i % n_distinct:05d}" for i in range(n_observed)]


def repeated(values, times=20) -> list[Any]:
    return [value for value in values for _ in range(times)]


class Case(NamedTuple):
    """A column, what the user says of it, and the kind that it must be."""

    cls: type[AbstractKind]
    label: str
    values: Any
    dtype: Any = None
    specified: str | None = None
    bounds: tuple[float | None, float | None] | None = None

    def column(self) -> Column:
        return column_of(self.values, self.dtype)

    def schema(self, column: Column | None = None) -> ColumnSchema:
        column = self.column() if column is None else column
        return schema_of(column, self.specified, self.bounds)


_CLOCKS = [datetime.time(8, 15), None, datetime.time(23, 59), datetime.time(0, 30)]
# With a midnight that is written as 2400.
_DEPARTURES = [*(100 * h + (7 * h) % 60 for h in range(24)), 2400]
_SKEWED = [*np.exp(_RNG.normal(size=40)), NAN]
_TAILED = [*_RNG.standard_cauchy(60), NAN]

KINDS: dict[str, Case] = {
    "temperatures": Case(Number, "continuous", [-10.5, 0.0, NAN, 30.0]),
    "heavy_tails": Case(Number, "continuous", _TAILED),
    "skewed": Case(Number, "positive", _SKEWED),
    "shares": Case(Number, "bounded", [0.0, 0.25, NAN, 1.0]),
    "within_bounds": Case(Number, "bounded", [0.5, 3.0, NAN, 1.25], bounds=(0.4, 3.1)),
    "whole": Case(Number, "integer", [31, 45, None, 52], "Int64"),
    "whole_within_bounds": Case(Number, "integer", [1, 5, 9], bounds=(0.5, 9.9)),
    "years": Case(Number, "integer", [1987.0, NAN, 2020.0, 1999.0]),
    "numbers_by_request": Case(Number, "continuous", [1, 2, 9], specified="continuous"),
    "huge": Case(Number, "continuous", [1e300, -2e300, NAN, 5e299]),
    "ratings": Case(Points, "integer", [*repeated([1, 2, 5]), NAN]),
    "half_stars": Case(Points, "positive", [*repeated([0.5, 1.5, 2.0]), NAN]),
    "two_numbers": Case(Points, "continuous", [*repeated([-0.7, 1.4]), NAN]),
    "departures": Case(Clock, "clock", [*_DEPARTURES, NAN]),
    "two_times": Case(Clock, "clock", [830, 1715, NAN, 0], specified="clock"),
    "visits": Case(Count, "count", [0, 0, 1, 0, None, 7, 2], "Int64"),
    "few_visits": Case(Count, "count", [5, 8, NAN, 9], specified="count", bounds=(None, 10)),
    "flags": Case(Coded, "binary", [True, None, False], "boolean"),
    "zero_one": Case(Coded, "binary", [0.0, NAN, 1.0]),
    "colours": Case(Coded, "categorical", ["r", "g", None, "b", "r"]),
    "codes": Case(Coded, "categorical", [3, 7, NAN, 9], specified="categorical"),
    "mixed_types": Case(Coded, "categorical", [1, "1", True, None, 2.5], object),
    "declared": Case(Coded, "categorical", ["r", "g", None, "b"], "category"),
    "sizes": Case(Coded, "ordinal", ["M", "S", None, "L"], ordered("S", "M", "L", "XL")),
    "grades": Case(Coded, "ordinal", ["b", "c", None, "a"], specified="ordinal:c<a<b"),
    "dates": Case(Instant, "datetime", DAYS, "datetime64[ns]"),
    "instants": Case(
        Instant, "datetime", ["2020-01-01 05:30:01.123", None, "2020-06-01"], "datetime64[us]"
    ),
    "durations": Case(Instant, "datetime", [60, 600, None, 6000], "timedelta64[s]"),
    "clocks": Case(Instant, "datetime", _CLOCKS, object),
    "times_by_request": Case(Instant, "datetime", DAYS, "datetime64[s]", specified="integer"),
    "constant_number": Case(Constant, "constant", [2.5, NAN, 2.5]),
    "constant_text": Case(Constant, "constant", ["x", None, "x"]),
    "constant_time": Case(Constant, "constant", ["2020-01-01", None], "datetime64[s]"),
    "empty": Case(Empty, "empty", [NAN, NAN]),
    "empty_by_request": Case(Empty, "empty", [NAN, NAN], specified="count"),
    "empty_category": Case(Empty, "empty", [None], pd.CategoricalDtype(["x"])),
    "names": Case(Skipped, "identifier", [*words(9, 9), None]),
    "lists": Case(Skipped, "identifier", [[1], None, [2]]),
    "skipped_by_request": Case(Skipped, "identifier", [1.5, NAN], specified="identifier"),
}
