"""What the adapters share: cells that count as missing, and values in the form of a column."""

import datetime
import itertools
import numbers
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Integer, Real

from miwae.errors import DataError
from miwae.table.base import TIMES, Column, Fill, Storage

__all__ = [
    "booleans",
    "check_names",
    "codes_of",
    "column_of_booleans",
    "column_of_codes",
    "column_of_numbers",
    "column_of_others",
    "column_of_ticks",
    "decimals",
    "finite",
    "is_nothing",
    "key_of",
    "keys_of",
    "kind_of",
    "numbers_of",
    "refuse_fill",
    "seconds_of",
    "sorted_levels",
    "texts",
    "ticks_of",
    "ticks_of_day",
    "whole_numbers",
]

EPOCH = datetime.date(1970, 1, 1).toordinal()
DAY = 86400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_PER = {"m": 60, "h": 3600, "D": DAY, "W": 7 * DAY}


def check_names(names: Sequence[str]) -> None:
    """Refuse names that occur twice: fills, reports and settings go by name."""
    seen = set()
    for name in names:
        if name in seen:
            raise DataError(f"two columns are named {name!r}: rename one of them")
        seen.add(name)


# What counts as missing.


def kind_of(cls: type) -> str | None:
    """What the values of a Python type are: a storage, or None for what has none of its own."""
    if issubclass(cls, bool | np.bool_):
        return "boolean"
    if issubclass(cls, datetime.timedelta | np.timedelta64):  # the latter is an integer to numpy
        return "duration"
    if issubclass(cls, numbers.Real | Decimal):
        return "number"
    if issubclass(cls, str):
        return "text"
    if issubclass(cls, datetime.date | np.datetime64):
        return "time"
    if issubclass(cls, datetime.time):
        return "clock"
    return None


def is_nothing(value: Any) -> bool:
    """Whether a Python object stands for a missing value in any library."""
    if type(value).__name__ in ("NoneType", "NAType", "NaTType"):
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    scalars = (float, np.floating, np.datetime64, np.timedelta64)
    return isinstance(value, scalars) and bool(value != value)


def seconds_of(value: Any) -> float:
    """Seconds since 1970 (without a zone: as if in UTC), since midnight, or in all."""
    if isinstance(value, np.datetime64):
        return seconds_of(value - np.datetime64(0, "s"))
    if isinstance(value, np.timedelta64):
        return float(value / np.timedelta64(1, "s"))
    if isinstance(value, datetime.timedelta):
        return value.total_seconds()
    if isinstance(value, datetime.time):
        since = datetime.timedelta(hours=value.hour, minutes=value.minute, seconds=value.second)
        return since.total_seconds() + value.microsecond / 10**6
    if isinstance(value, datetime.datetime):
        return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
    return float((value.toordinal() - EPOCH) * DAY)


def key_of(value: Any) -> tuple[str, Any] | None:
    """What two values have in common if they are equal, None for what equals nothing.

    Kinds stay apart: 0 as a missing value of counts says nothing about False.
    """
    kind = kind_of(type(value))
    if kind is None:
        return None
    return (kind, seconds_of(value) if kind in TIMES else value)


def keys_of(missing_values: tuple[Any, ...]) -> set[tuple[str, Any]]:
    """The keys of values that count as missing; NaN always does, and is left out."""
    # Numbers out of files and arrays come as arrays without axes.
    scalars = (
        value[()] if isinstance(value, np.ndarray) and value.ndim == 0 else value
        for value in missing_values
    )
    return {key for value in scalars if not is_nothing(value) and (key := key_of(value))}


def _in_dtype(number: Any, dtype: np.dtype) -> Any:
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


def _equal_numbers(
    values: Real[np.ndarray, " N"], missing_values: tuple[Any, ...]
) -> Bool[np.ndarray, " N"]:
    found = np.zeros(len(values), bool)
    for kind, number in keys_of(missing_values):
        if kind == "number":
            found |= values == _in_dtype(number, values.dtype)
    return found


# Columns in neutral form.


def column_of_numbers(
    name: str,
    values: Real[np.ndarray, " N"],
    missing: Bool[np.ndarray, " N"],
    missing_values: tuple[Any, ...],
    *,
    whole: bool,
    dtype: str,
) -> Column:
    """A column of numbers, compared in their own precision before they become float64.

    Where they are that already, and NaN where missing, they are not copied.
    """
    declared = missing | _equal_numbers(values, missing_values)
    floats = values.astype(np.float64, copy=False)
    if declared.any():
        floats = np.where(declared, np.nan, floats)
    missing = np.isnan(floats)
    return Column(
        name=name, storage="number", values=floats, missing=missing, whole=whole, dtype=dtype
    )


def column_of_booleans(
    name: str,
    values: Bool[np.ndarray, " N"],
    missing: Bool[np.ndarray, " N"],
    missing_values: tuple[Any, ...],
    *,
    dtype: str,
) -> Column:
    """A column of booleans."""
    missing = missing.copy()
    for kind, value in keys_of(missing_values):
        if kind == "boolean":
            missing |= values == value
    floats = np.where(missing, np.nan, values)
    return Column(name=name, storage="boolean", values=floats, missing=missing, dtype=dtype)


def column_of_ticks(
    name: str,
    ticks: Int[np.ndarray, " N"],
    missing: Bool[np.ndarray, " N"],
    missing_values: tuple[Any, ...],
    *,
    unit: str,
    storage: Storage,
    dtype: str,
) -> Column:
    """A column of times stored as integers.

    Args:
        name: of the column.
        ticks: units since 1970, since midnight, or in all.
        missing: where there is no value.
        missing_values: of which those of the same storage count as missing.
        unit: numpy's abbreviation.
        storage: "time", "duration" or "clock".
        dtype: the library's name of the type.
    """
    missing = missing.copy()
    for other, seconds in keys_of(missing_values):
        if other == storage:
            missing |= ticks == ticks_of(np.array([seconds]), unit)
    values = np.where(missing, np.nan, _seconds(ticks, unit))
    return Column(name=name, storage=storage, values=values, missing=missing, dtype=dtype)


def column_of_codes(
    name: str,
    storage: Storage,
    codes: Int[np.ndarray, " N"],
    levels: Sequence[Any],
    missing_values: tuple[Any, ...],
    *,
    ordered: bool = False,
    dtype: str,
) -> Column:
    """A column of text or categories, coded as positions in `levels`, -1 where missing.

    Levels that count as missing are no levels, also if the table declares them.
    """
    gone = keys_of(missing_values)
    kept = np.array([not gone or key_of(level) not in gone for level in levels], bool)
    # The code -1 finds the last element.
    position = np.append(np.where(kept, np.cumsum(kept) - 1.0, np.nan), np.nan)
    values = position[codes]
    return Column(
        name=name,
        storage=storage,
        values=values,
        missing=np.isnan(values),
        levels=tuple(itertools.compress(levels, kept)),
        ordered=ordered,
        dtype=dtype,
    )


def column_of_others(name: str, missing: Bool[np.ndarray, " N"], *, dtype: str) -> Column:
    """A column that cannot be modelled."""
    values = np.full(len(missing), np.nan)
    return Column(name=name, storage="other", values=values, missing=missing, dtype=dtype)


def sorted_levels(
    codes: Int[np.ndarray, " N"], levels: list[Any]
) -> tuple[Int[np.ndarray, " N"], list[Any]]:
    """The same codes for sorted levels, -1 still for missing."""
    order = sorted(range(len(levels)), key=levels.__getitem__)
    rank = np.empty(len(levels) + 1, np.int64)
    rank[order] = np.arange(len(levels))
    rank[-1] = -1
    return rank[codes], [levels[i] for i in order]


# Times as integers. Whole seconds and their fraction are converted apart, since their product in
# float64 has fewer digits than either.


def _seconds(ticks: Int[np.ndarray, " N"], unit: str) -> Float[np.ndarray, " N"]:
    if unit in SECONDS_PER:
        return ticks * float(SECONDS_PER[unit])
    whole, part = np.divmod(ticks.astype(np.int64), PER_SECOND[unit])
    return whole + part / PER_SECOND[unit]


def ticks_of(seconds: Float[np.ndarray, " H"], unit: str) -> Int[np.ndarray, " H"]:
    """The nearest whole number of units."""
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


# Values of a `Fill` in the form that a column needs.


def numbers_of(values: np.ndarray, name: str) -> Float[np.ndarray, " H"]:
    """Values as float64."""
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} holds numbers, which {values!r} are not") from error


def finite(values: np.ndarray, name: str) -> Float[np.ndarray, " H"]:
    """Values for columns that know neither NaN nor infinity."""
    floats = numbers_of(values, name)
    wrong = floats[~np.isfinite(floats)]
    if len(wrong):
        raise DataError(f"column {name!r} cannot store {wrong[0]}: fill it with finite values")
    return floats


def whole_numbers(values: np.ndarray, dtype: np.dtype, name: str) -> Integer[np.ndarray, " H"]:
    """The nearest integers that a dtype can store: a draw of -0.7 for a count is 0."""
    info = np.iinfo(dtype)
    top = float(info.max)
    if top > info.max:  # rounded up on the way to float64
        top = np.nextafter(top, 0.0)
    return np.clip(np.rint(finite(values, name)), info.min, top).astype(dtype)


def booleans(values: np.ndarray, name: str) -> Bool[np.ndarray, " H"]:
    """True for 1, False for 0."""
    return finite(values, name) >= 0.5


def decimals(fill: Fill, precision: int, scale: int, name: str) -> list[Decimal]:
    """The nearest decimals of a precision (digits in all) and scale (those after the point).

    They are rounded towards the inside where the nearest would be out of bounds.
    """
    context = Context(prec=max(precision, 1) + 400)  # room for any float64
    unit = Decimal(1).scaleb(-scale)
    limit = Decimal(10**precision - 1).scaleb(-scale, context)

    def nearest(value: Decimal) -> Decimal:
        rounded = value.quantize(unit, context=context)
        if not fill.lower <= float(rounded) <= fill.upper:
            inwards = ROUND_CEILING if float(rounded) < fill.lower else ROUND_FLOOR
            rounded = value.quantize(unit, inwards, context)
        return max(-limit, min(limit, rounded))

    return [nearest(Decimal(repr(value))) for value in finite(fill.values, name).tolist()]


def texts(values: np.ndarray, name: str) -> list[str]:
    """Levels of a column that holds nothing but text."""
    levels = values.tolist()
    for level in levels:
        if not isinstance(level, str):
            raise DataError(f"column {name!r} holds text, which {level!r} is not")
    return levels


def codes_of(values: np.ndarray, levels: Iterable[Any], name: str) -> Int[np.ndarray, " H"]:
    """The positions of values among the declared levels."""
    position = {level: code for code, level in enumerate(levels)}
    try:
        return np.array([position[value] for value in values.tolist()], np.int64)
    except KeyError as error:
        raise DataError(
            f"{error.args[0]!r} is not among the categories of column {name!r}: add it to them"
        ) from error


def refuse_fill(name: str, dtype: str) -> DataError:
    """What to raise for a column whose type no value fits."""
    return DataError(f"column {name!r} of type {dtype} cannot be filled: convert or drop it")
