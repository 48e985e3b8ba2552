"""Columns of Python objects: what they hold is found by looking at every cell."""

import datetime
import math
from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from types import NoneType
from typing import Any

import numpy as np
from jaxtyping import Float

from miwae.columns._column import Cells, Column, Flags, Storage
from miwae.columns._reading import (
    coded_column,
    number_column,
    other_column,
    ticks_of,
    ticks_of_day,
)
from miwae.columns._values import TIMES, Marks, is_missing, key_of, keys_of, seconds_of, storage_of
from miwae.columns._writing import as_booleans, as_finite, cannot_fill
from miwae.errors import DataError

# Of these, only NaN differs from itself, and comparing never fails.
PLAIN = {str, bool, int, float, NoneType}

MODELLED = {"boolean", "number", "text", *TIMES}

# What datetime can express, in seconds since 1970.
FIRST = seconds_of(datetime.datetime.min)
LAST = seconds_of(datetime.datetime.max.replace(microsecond=0))
LAST_DAY = datetime.date.max.toordinal()

# What a duration of pandas can express, in seconds: those of Python are longer.
LONGEST = 9.2e9


def read_objects(array: np.ndarray, name: str, marks: Marks, dtype: str) -> Column:
    """A column of objects; cells that count as missing say nothing about its type."""
    return replace(_read(array, name, marks, dtype), typed=False)


def _read(array: np.ndarray, name: str, marks: Marks, dtype: str) -> Column:
    missing = _missing(array) | _equal(array, marks)
    observed = array[~missing]
    types = set(map(type, observed))
    kinds = {storage_of(cls) for cls in types}
    if kinds <= {"number"}:
        values = _spread(np.array([_float(v) for v in observed], np.float64), missing)
        whole = bool(types) and all(issubclass(cls, int | np.integer) for cls in types)
        return number_column(name, values, missing, (), whole=whole, dtype=dtype)
    storage = "boolean" if kinds == {"boolean"} else _sort_of_time(kinds)
    # Months and years of NumPy are no number of seconds.
    units = {np.datetime_data(v.dtype)[0] for v in observed if isinstance(v, np.timedelta64)}
    if storage is not None and not units & {"M", "Y"}:
        number = float if storage == "boolean" else seconds_of
        values = _spread(np.array([number(v) for v in observed], np.float64), missing)
        return Column(name=name, storage=storage, values=values, missing=missing, dtype=dtype)
    if kinds <= {"text", "number", "boolean"}:
        return _text(observed, missing, name, dtype)
    return other_column(name, missing, dtype=dtype)


def _float(value: Any) -> float:
    """A number as float64; one that is beyond all of them (10**400) is infinite, and no error."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def _sort_of_time(kinds: set[str | None]) -> Storage | None:
    return next((sort for sort in TIMES if kinds == {sort}), None)


def filled_objects(array: np.ndarray, cells: Cells, name: str) -> np.ndarray:
    """A copy with values of the types that the other cells have."""
    rest = np.delete(array, cells.rows)
    rest = rest[~_missing(rest)]
    if not {storage_of(cls) for cls in set(map(type, rest))} <= MODELLED:
        raise cannot_fill(name, str(array.dtype))
    levels = cells.values.dtype.kind in "OUT"
    values = cells.values.tolist() if levels else _like(rest, cells, name)
    out = array.copy()
    # Not by assignment of the list, which would look into values that are sequences.
    out[cells.rows] = np.fromiter(values, object, len(values))
    return out


def _missing(array: np.ndarray) -> Flags:
    if set(map(type, array)) <= PLAIN:
        return np.equal(array, np.array(None)) | np.not_equal(array, array)
    return np.fromiter(map(is_missing, array), bool, len(array))


def _equal(array: np.ndarray, marks: Marks) -> Flags:
    keys = keys_of(marks)
    if not keys:
        return np.zeros(len(array), bool)
    found = np.ones(len(array), bool)
    if set(map(type, array)) <= PLAIN:
        # Equality alone is fast, and leaves few cells of which the kinds must be compared too.
        values = [np.array(value, object) for _, value in keys]
        found = np.logical_or.reduce([np.equal(array, value) for value in values])
    found[found] = [key_of(value) in keys for value in array[found]]
    return found


def _spread(values: Float[np.ndarray, " O"], missing: Flags) -> Float[np.ndarray, " N"]:
    """The values of observed cells at their places, NaN between them."""
    out = np.full(len(missing), np.nan)
    out[~missing] = values
    return out


def _text(observed: np.ndarray, missing: Flags, name: str, dtype: str) -> Column:
    """Text, or a mixture that is treated like it. Types are compared too: 1 is not True."""
    if all(issubclass(cls, str) for cls in set(map(type, observed))):
        cells = observed.tolist()
        levels = sorted(set(cells))
        names = levels
    else:
        cells = list(zip(map(type, observed), observed, strict=True))
        levels = sorted(set(cells), key=lambda pair: (pair[0].__name__, pair[1]))
        names = [value for _, value in levels]
    position = {level: code for code, level in enumerate(levels)}
    codes = np.full(len(missing), -1)
    codes[~missing] = np.fromiter(map(position.__getitem__, cells), np.int64, len(cells))
    return coded_column(name, "text", codes, names, (), dtype=dtype)


def _like(rest: np.ndarray, cells: Cells, name: str) -> list[Any]:
    """Numbers as objects of the type of the cells that stay; without any, of the cells' own."""
    values, types = cells.values, set(map(type, rest))
    kinds = {storage_of(cls) for cls in types}
    if kinds == {"text"}:
        raise DataError(f"column {name!r} holds text: fill it with levels, not with numbers")
    # Text among numbers can be a mark for missing cells that are not filled.
    kinds = (kinds - {"text"}) or {cells.storage}
    if kinds == {"boolean"}:
        return as_booleans(values, name).tolist()
    storage = _sort_of_time(kinds)
    if storage is not None:
        times = (value for value in rest if storage_of(type(value)) == storage)
        make, example = _TIMES_LIKE[storage]
        return make(next(times, example), as_finite(values, name))
    numeric = {cls for cls in types if storage_of(cls) == "number"}
    if numeric and all(issubclass(cls, int | np.integer) for cls in numeric):
        return [int(value) for value in np.rint(as_finite(values, name))]
    if numeric == {Decimal}:
        return [Decimal(repr(value)) for value in as_finite(values, name).tolist()]
    return values.astype(np.float64).tolist()


def _instants(first: Any, seconds: Float[np.ndarray, " H"]) -> list[Any]:
    """Dates or instants of the type, and in the zone, of the first."""
    seconds = np.clip(seconds, FIRST, LAST)
    cls: Any = type(first)
    if isinstance(first, np.datetime64):
        return list(ticks_of(seconds, "us").astype("datetime64[us]").astype(first.dtype))
    if not isinstance(first, datetime.datetime):
        days = ticks_of(seconds, "D") + datetime.date(1970, 1, 1).toordinal()
        # The last day, rounded, is the one after it.
        return [cls.fromordinal(int(day)) for day in np.minimum(days, LAST_DAY)]
    instants = ticks_of(seconds, "us").astype("datetime64[us]").tolist()
    if first.tzinfo:
        in_utc = (instant.replace(tzinfo=datetime.UTC) for instant in instants)
        instants = [instant.astimezone(first.tzinfo) for instant in in_utc]
    return instants if cls is datetime.datetime else list(map(cls, instants))


def _durations(first: Any, seconds: Float[np.ndarray, " H"]) -> list[Any]:
    cls: Any = type(first)
    if cls is not datetime.timedelta:
        seconds = np.clip(seconds, -LONGEST, LONGEST)
    ticks = ticks_of(seconds, "us")
    if isinstance(first, np.timedelta64):
        return list(ticks.astype("timedelta64[us]").astype(first.dtype))
    return [cls(microseconds=tick) for tick in ticks.tolist()]


def _clocks(first: Any, seconds: Float[np.ndarray, " H"]) -> list[Any]:
    instants = ticks_of_day(seconds, "us").astype("datetime64[us]").tolist()
    return [instant.time().replace(tzinfo=first.tzinfo) for instant in instants]


# How each sort of times is made, and an example for columns that have none.
_TIMES_LIKE: dict[str, tuple[Callable[[Any, Any], list[Any]], Any]] = {
    "time": (_instants, datetime.datetime.min),
    "duration": (_durations, datetime.timedelta()),
    "clock": (_clocks, datetime.time()),
}
