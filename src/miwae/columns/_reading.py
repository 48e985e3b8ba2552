"""Columns in neutral form, from the arrays in which libraries store them."""

import itertools
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float, Int, Real

from miwae.columns._column import Column, Flags, Storage
from miwae.columns._values import DAY, Marks, key_of, keys_of

Reals: TypeAlias = Real[np.ndarray, " N"]
Ints: TypeAlias = Int[np.ndarray, " N"]

# Units of times that are stored as integers, which are called ticks.
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_PER = {"m": 60, "h": 3600, "D": DAY, "W": 7 * DAY}


def _as_dtype(number: Any, dtype: np.dtype) -> Any:
    """The number as comparable with a dtype; NaN, which equals nothing, if it cannot hold it."""
    try:
        value = float(number)
    except OverflowError:
        return np.nan
    if dtype.kind in "iu":
        return int(number) if value.is_integer() else np.nan
    with np.errstate(over="ignore"):
        cast = dtype.type(value)
    return cast if np.isfinite(cast) == np.isfinite(value) else np.nan


def _marked(storage: Storage, marks: Marks) -> list[Any]:
    """The marks that values of this storage can be equal to."""
    return [value for kind, value in keys_of(marks) if kind == storage]


def number_column(
    name: str, values: Reals, missing: Flags, marks: Marks, *, whole: bool, dtype: str
) -> Column:
    """A column of numbers; float64 that is NaN where missing is not copied."""
    # Compared in their own precision, before they become float64.
    missing = missing.copy()
    for number in _marked("number", marks):
        missing |= values == _as_dtype(number, values.dtype)
    floats = values.astype(np.float64, copy=False)
    floats = np.where(missing, np.nan, floats) if missing.any() else floats
    stored: dict[str, Any] = {"storage": "number", "whole": whole, "dtype": dtype}
    return Column(name=name, values=floats, missing=np.isnan(floats), **stored)


def boolean_column(
    name: str, values: Flags, missing: Flags, marks: Marks, *, dtype: str
) -> Column:
    missing = missing.copy()
    for value in _marked("boolean", marks):
        missing |= values == value
    floats = np.where(missing, np.nan, values)
    return Column(name=name, storage="boolean", values=floats, missing=missing, dtype=dtype)


def tick_column(
    name: str,
    ticks: Ints,
    missing: Flags,
    marks: Marks,
    *,
    unit: str,
    storage: Storage,
    dtype: str,
) -> Column:
    """A column of times as integers of a unit of numpy: since 1970, since midnight, or in all."""
    missing = missing.copy()
    for seconds in _marked(storage, marks):
        missing |= ticks == ticks_of(np.array([seconds]), unit)
    values = np.where(missing, np.nan, _seconds(ticks, unit))
    return Column(name=name, storage=storage, values=values, missing=missing, dtype=dtype)


def coded_column(
    name: str,
    storage: Storage,
    codes: Ints,
    levels: Sequence[Any],
    marks: Marks,
    *,
    ordered: bool = False,
    dtype: str,
) -> Column:
    """A column of text or categories, coded as positions in `levels`, -1 where missing."""
    gone = keys_of(marks)  # which are no levels, also if the table declares them
    kept = np.array([not gone or key_of(level) not in gone for level in levels], bool)
    # The code -1 finds the last element.
    position = np.append(np.where(kept, np.cumsum(kept) - 1.0, np.nan), np.nan)
    values = position[codes]
    kept_levels = tuple(itertools.compress(levels, kept))
    stored: dict[str, Any] = {"storage": storage, "ordered": ordered, "dtype": dtype}
    return Column(name=name, values=values, missing=np.isnan(values), levels=kept_levels, **stored)


def other_column(name: str, missing: Flags, *, dtype: str) -> Column:
    values = np.full(len(missing), np.nan)
    return Column(name=name, storage="other", values=values, missing=missing, dtype=dtype)


def sorted_levels(codes: Ints, levels: list[Any]) -> tuple[Ints, list[Any]]:
    """The same codes for sorted levels, -1 still for missing."""
    order = sorted(range(len(levels)), key=levels.__getitem__)
    rank = np.empty(len(levels) + 1, np.int64)
    rank[order] = np.arange(len(levels))
    rank[-1] = -1
    return rank[codes], [levels[i] for i in order]


def _seconds(ticks: Ints, unit: str) -> Float[np.ndarray, " N"]:
    if unit in SECONDS_PER:
        return ticks * float(SECONDS_PER[unit])
    # Whole seconds and their fraction: their product in float64 has fewer digits than either.
    whole, part = np.divmod(ticks.astype(np.int64), PER_SECOND[unit])
    return whole + part / PER_SECOND[unit]


def ticks_of(seconds: Float[np.ndarray, " H"], unit: str) -> Int[np.ndarray, " H"]:
    if unit in SECONDS_PER:
        limit = float(2**31 - 1)  # days are stored in 32 bits
        return np.rint(np.clip(seconds / SECONDS_PER[unit], -limit, limit)).astype(np.int64)
    per = PER_SECOND[unit]
    limit = float(2**63 // per - 2048)  # 2048 below what 64 bits hold, float64 has a number
    whole, part = np.divmod(np.clip(seconds, -limit, limit), 1.0)
    return whole.astype(np.int64) * per + np.rint(part * per).astype(np.int64)


def ticks_of_day(seconds: Float[np.ndarray, " H"], unit: str) -> Int[np.ndarray, " H"]:
    """The nearest time of one day: from midnight to the last unit before the next."""
    return np.clip(ticks_of(seconds, unit), 0, DAY * PER_SECOND[unit] - 1)
