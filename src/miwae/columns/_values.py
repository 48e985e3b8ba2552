"""What values are: their storage, whether they mean missing, how people write them."""

import datetime
import numbers
from collections.abc import Iterable, Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias

import numpy as np

from miwae.errors import DataError

Storage: TypeAlias = Literal[
    "number", "boolean", "text", "category", "time", "duration", "clock", "other"
]

Marks: TypeAlias = tuple[Any, ...]  # values that count as missing

# The three storages that hold seconds, with the words for them in messages.
TIMES: dict[Storage, str] = {"time": "instants", "duration": "durations", "clock": "times of day"}

# By type; the first that fits, since to NumPy and Python booleans and durations are integers too.
_STORAGES: dict[Storage, Any] = {
    "boolean": bool | np.bool_,
    "duration": datetime.timedelta | np.timedelta64,
    "number": numbers.Real | Decimal,
    "text": str,
    "time": datetime.date | np.datetime64,
    "clock": datetime.time,
}

# In several copies of a table below each other, the number of the copy (0 for the original) and of
# the row (from 1), by the names that R's mice gives to them.
COPY, ROW = ".imp", ".id"

EPOCH = datetime.date(1970, 1, 1).toordinal()
DAY = 86400

# Beyond, float64 has nothing but whole numbers.
MOST_WHOLE = 2.0**53


def check_names(names: Sequence[str]) -> None:
    """Refuse names that occur twice: fills, reports and settings go by name."""
    seen = set()
    for name in names:
        if name in seen:
            raise DataError(f"two columns are named {name!r}: rename one of them")
        seen.add(name)


def require_free(names: Sequence[str], added: Iterable[str]) -> None:
    """Refuse, before long work, a table that has a column called as one that will be added."""
    for name in added:
        if name in names:
            raise DataError(
                f"the table has a column {name!r} already, which is the name of a column that "
                "would be added: rename it"
            )


def storage_of(cls: type) -> Storage | None:
    """What the values of a Python type are: a storage, or None for what has none of its own."""
    return next((storage for storage, base in _STORAGES.items() if issubclass(cls, base)), None)


def is_missing(value: Any) -> bool:
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
        if not datetime.MINYEAR <= value.year <= datetime.MAXYEAR:  # those of pandas can be so
            return seconds_of(np.datetime64(value.to_datetime64()))  # pyright: ignore
        return (value if value.tzinfo else value.replace(tzinfo=datetime.UTC)).timestamp()
    return float((value.toordinal() - EPOCH) * DAY)


def key_of(value: Any) -> tuple[str, Any] | None:
    """What equal values have in common (0 is not False); None for what equals nothing."""
    kind = storage_of(type(value))
    if kind is None:
        return None
    return (kind, seconds_of(value) if kind in TIMES else value)


def keys_of(marks: Marks) -> set[tuple[str, Any]]:
    """The keys of values that count as missing; NaN always does, and is left out."""
    # Numbers out of files and arrays come as arrays without axes.
    scalars = (
        mark[()] if isinstance(mark, np.ndarray) and not mark.ndim else mark for mark in marks
    )
    return {key for value in scalars if not is_missing(value) and (key := key_of(value))}


def value_text(value: Any) -> str:
    if isinstance(value, float) and value.is_integer() and abs(value) < MOST_WHOLE:
        return str(int(value))
    return str(value)


def stored_text(value: Any, storage: str | None) -> str:
    """A value of a column as people write it: 1 of booleans is True, seconds are times."""
    if isinstance(value, str):
        return value
    if storage == "boolean":
        return str(bool(value))
    if storage in TIMES and np.isfinite(value):
        return seconds_text(value, storage)
    return value_text(value)


def seconds_text(seconds: float, storage: str) -> str:
    """An instant, a duration or a time of day as people write it."""
    try:
        span = datetime.timedelta(seconds=seconds)
        return str(datetime.datetime(1970, 1, 1) + span if storage == "time" else span)
    except OverflowError:
        return value_text(seconds)
