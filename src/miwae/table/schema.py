"""Column kinds: what each column of a table is taken for, and why."""

import datetime
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import DataError, SettingsError
from miwae.table.base import TIMES, Column, Storage
from miwae.table.transforms import Transform, choose_transform, standardisation

__all__ = ["KINDS", "ColumnSchema", "Schema", "infer_schema", "outside", "seconds_word", "word"]

KINDS = {
    "continuous": "a number of any size",
    "positive": "a number above zero",
    "bounded": "a number within bounds",
    "integer": "a whole number",
    "count": "a whole number from zero on, often zero",
    "binary": "one of two values",
    "categorical": "one of several values without an order",
    "ordinal": "one of several values with an order",
    "datetime": "a point in time, a time of day, or a duration",
    "constant": "always the same value",
    "empty": "never a value",
    "identifier": "kept as it is, not modelled",
}
NUMERIC = frozenset({"continuous", "positive", "bounded", "integer", "datetime"})
CODED = frozenset({"binary", "categorical", "ordinal"})
NOT_MODELLED = frozenset({"constant", "empty", "identifier"})

# Where numbers from exactly 0 on end exactly here, no number can be above.
NATURAL_BOUNDS = {1.0: "shares", 100.0: "percentages"}

# Numbers up to 1 that come this near may be shares, and no share is above 1. If they are none,
# little is lost: what is imputed stays near the observed range anyway.
NEAR_ONE = 0.5

# Whole numbers that each occur so often on average are a scale (1 to 5), which ends at its ends.
OFTEN = 20

# Numbers that take so few values, each so often, are modelled by the shares of the values.
MOST_POINTS = 12

# The least distance of such values, relative to the largest, that single precision keeps apart.
APART = 1e-4

# More levels than this, or levels that are mostly unique, are names, not categories.
MOST_LEVELS = 2_000
FEW_LEVELS = 8
FEWEST_BINARY = 5

# A column of counts, rather than of whole numbers: so many zeros at least.
ZEROS = 0.05

# The model counts in float32, which has no odd numbers beyond.
MOST_COUNTED = 2**24

# Beyond, float64 has nothing but whole numbers, so that they say nothing about a column.
MOST_WHOLE = 2.0**53

# Seconds, from the coarsest: imputed times are as coarse as the observed ones.
RESOLUTIONS = (86_400.0, 3_600.0, 60.0, 1.0, 1e-3)

# Times of day end before this.
DAY = 86_400.0


@dataclass(frozen=True, kw_only=True)
class ColumnSchema:
    """What a column is taken for.

    Attributes:
        name: of the column.
        kind: one of `KINDS`.
        reason: why, in words.
        storage: how the table stored it when it was learned.
        levels: the values that a binary, categorical or ordinal column can take, in order.
        constant: the value of a constant column.
        whole: imputed values are whole numbers.
        lower: no imputed value is below; None for no limit.
        upper: no imputed value is above; None for no limit.
        bounds: what the user gave as such, which no observed value may break.
        resolution: imputed times are multiples of so many seconds; 0 for no rounding.
        phase: seconds that they are all beyond such a multiple, as midnight is in most zones.
        transform: to the scale of the model, for numbers and times.
        spread: standard deviation of counts, which the model sees as they are.
        points: values of numbers that take only a few, in order, each with its share of the
            observed cells.
    """

    name: str
    kind: str
    reason: str
    storage: Storage
    levels: tuple[Any, ...] = ()
    constant: Any = None
    whole: bool = False
    lower: float | None = None
    upper: float | None = None
    bounds: tuple[float | None, float | None] = (None, None)
    resolution: float = 0.0
    phase: float = 0.0
    transform: Transform | None = None
    spread: float = 1.0
    points: tuple[tuple[float, float], ...] = ()

    @property
    def modelled(self) -> bool:
        """Whether the model knows the column."""
        return self.kind not in NOT_MODELLED


@dataclass(frozen=True)
class Schema:
    """The columns of a table, in order."""

    columns: tuple[ColumnSchema, ...]

    @property
    def modelled(self) -> tuple[int, ...]:
        """Positions of the columns that the model knows."""
        return tuple(i for i, column in enumerate(self.columns) if column.modelled)

    def __str__(self) -> str:
        """One line for each column."""
        width = max((len(column.name) for column in self.columns), default=0)
        return "\n".join(
            f"{column.name:{width}}  {column.kind:11}  {column.reason}" for column in self.columns
        )


def infer_schema(
    columns: Sequence[Column],
    *,
    column_kinds: Mapping[Any, Any] | None = None,
    bounds: Mapping[Any, Any] | None = None,
) -> Schema:
    """Decide what each column is, by its storage and its observed cells.

    Args:
        columns: of the table.
        column_kinds: kinds that the user knows better, by name or position. "ordinal:a<b<c" also
            gives the order of the levels.
        bounds: (lower, upper) of numeric columns, by name or position; None for no limit.

    Raises:
        SettingsError: an unknown column or kind, bounds that make no sense.
        DataError: a column that cannot be of the kind asked for, or breaks its bounds.
    """
    kinds = _by_position(columns, column_kinds, "column_kinds")
    limits = {
        position: _checked_bounds(columns[position].name, pair)
        for position, pair in _by_position(columns, bounds, "bounds").items()
    }
    for position, kind in kinds.items():
        _require_kind(columns[position].name, kind)
    return Schema(
        tuple(
            _column_schema(column, kinds.get(position), limits.get(position))
            for position, column in enumerate(columns)
        )
    )


def _by_position(
    columns: Sequence[Column], settings: Mapping[Any, Any] | None, what: str
) -> dict[int, Any]:
    """Settings by name or position, as settings by position."""
    names = [column.name for column in columns]
    if settings is not None and not isinstance(settings, Mapping):
        raise SettingsError(f"{what} must be a dictionary by column, not {settings!r}")
    found = {}
    for key, value in (settings or {}).items():
        position = _position(key, names)
        if position is None:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"did you mean {near[0]!r}?" if near else f"there are {_some(names)}"
            raise SettingsError(f"{what} names the column {key!r}, which does not exist; {hint}")
        if position in found:
            raise SettingsError(f"{what} names the column {names[position]!r} twice")
        found[position] = value
    return found


def _position(key: Any, names: list[str]) -> int | None:
    """Where a column is; a number is a position only if it is not a name."""
    if str(key) in names:
        return names.index(str(key))
    is_position = isinstance(key, int | np.integer) and not isinstance(key, bool)
    return int(key) % len(names) if is_position and -len(names) <= key < len(names) else None


def _some(names: list[str], most: int = 20) -> str:
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def _require_kind(name: str, kind: Any) -> None:
    if not isinstance(kind, str) or kind.partition(":")[0] not in KINDS:
        raise SettingsError(f"column {name!r}: the kind {kind!r} is not one of {', '.join(KINDS)}")
    if ":" in kind and not kind.startswith("ordinal:"):
        raise SettingsError(
            f"column {name!r}: the kind {kind!r} is none; after a colon stands the order of "
            "'ordinal:low<middle<high' or, in text files, 'datetime:day-first' or "
            "'datetime:month-first'"
        )


def _checked_bounds(name: str, pair: Any) -> tuple[float | None, float | None]:
    try:
        lower, upper = (None if limit is None else float(limit) for limit in pair)
    except (TypeError, ValueError, OverflowError):
        raise SettingsError(
            f"bounds of {name!r} must be a pair of numbers, not {pair!r}"
        ) from None
    if any(limit is not None and np.isnan(limit) for limit in (lower, upper)):
        raise SettingsError(f"bounds of {name!r} must be a pair of numbers, not {pair!r}")
    if lower is not None and upper is not None and not lower < upper:
        raise SettingsError(f"bounds of {name!r}: {lower:g} is not below {upper:g}")
    return lower, upper


def _column_schema(
    column: Column, kind: str | None, limits: tuple[float | None, float | None] | None
) -> ColumnSchema:
    storage, inferred = column.storage, kind is None
    if kind is None:
        x = column.values[~column.missing]
        kind, reason = _inferred(column, x, limits)
    else:
        kind, _, order = kind.partition(":")
        column = _ordered(column, order) if order else column
        x = column.values[~column.missing]
        _require_possible(column, kind, x)
        kind, reason = _told(kind, x)
    if limits is not None:
        _require_within(column, kind, x, limits)
    own: dict[str, Any] = {
        "name": column.name,
        "kind": kind,
        "reason": reason,
        "storage": storage,
        "bounds": limits or (None, None),
    }
    if kind in ("empty", "identifier"):
        return ColumnSchema(**own)
    if kind == "constant":
        return ColumnSchema(**own, constant=_values_of(column, x)[0], whole=column.whole)
    if kind in CODED:
        return ColumnSchema(**own, levels=_levels(column, x), whole=column.whole)
    lower, upper = _limits(kind, x, limits)
    if kind == "count":
        spread = max(float(np.sort(x).std()), 1.0)  # whatever the order of rows
        return ColumnSchema(**own, whole=True, lower=lower, upper=upper, spread=spread)
    # What is told to be a number, or within bounds, may be any.
    told = not inferred or limits is not None
    points = () if told or column.storage != "number" else _points(x)
    if points:
        own["reason"] += f"; modelled by its {len(points)} values"
    has_zero = column.storage not in ("time", "clock")
    transform = standardisation(x) if points else choose_transform(x, has_zero=has_zero)
    if transform.shape != "identity":
        own["reason"] += f"; modelled on {_scale_words(transform)} scale"
    resolution, phase = _coarseness(x) if column.storage in TIMES else (0.0, 0.0)
    if column.storage in ("duration", "clock") and x.min() >= 0:
        lower = max(lower or 0.0, phase)
    if column.storage == "clock":
        upper = min(DAY if upper is None else upper, _last_of_day(resolution, phase))
    return ColumnSchema(
        **own,
        whole=kind == "integer" or column.whole,
        lower=lower,
        upper=upper,
        resolution=resolution,
        phase=phase,
        transform=transform,
        points=points,
    )


def _points(x: Float[np.ndarray, " N"]) -> tuple[tuple[float, float], ...]:
    """The values and their shares, if they are few and each occurs often enough to learn it."""
    values, counts = np.unique(x, return_counts=True)
    if len(values) > MOST_POINTS or len(x) < OFTEN * len(values):
        return ()
    with np.errstate(over="ignore", invalid="ignore"):
        scaled = standardisation(x).forward(values)
        apart = np.diff(scaled) > APART * max(1.0, np.abs(scaled).max())
    if not (apart.all() and np.isfinite(scaled).all()):
        return ()
    return tuple(zip(values.tolist(), (counts / len(x)).tolist(), strict=True))


def _scale_words(transform: Transform) -> str:
    return {"log": "a logarithmic", "asinh": "an inverse hyperbolic sine"}[transform.shape]


def _values_of(column: Column, x: Float[np.ndarray, " N"]) -> list[Any]:
    """Numbers as they are, codes as levels."""
    if column.storage in ("text", "category"):
        return [column.levels[int(code)] for code in x]
    return [float(value) for value in x]


def _levels(column: Column, x: Float[np.ndarray, " N"]) -> tuple[Any, ...]:
    """The values that occur, in the column's own order."""
    return tuple(_values_of(column, np.unique(x)))


def _inferred(
    column: Column, x: Float[np.ndarray, " N"], limits: tuple[float | None, float | None] | None
) -> tuple[str, str]:
    """The kind and the reason for it."""
    if column.storage == "other":
        return "identifier", f"values of type {column.dtype} cannot be modelled"
    if len(x) == 0:
        return "empty", "no cell is observed"
    if column.storage in ("number", *TIMES) and not np.isfinite(x).all():
        bad = column.values[~column.missing & ~np.isfinite(column.values)][0]
        row = int(np.flatnonzero(~column.missing & ~np.isfinite(column.values))[0])
        raise DataError(
            f"column {column.name!r} has the value {bad} in row {row}: only finite numbers can be "
            "modelled; correct it, or mark it as missing"
        )
    n_distinct = len(np.unique(x))
    if n_distinct < min(len(x), 3) and column.whole and np.abs(x).max() > MOST_WHOLE:
        return "identifier", "whole numbers too large to be told apart"
    if n_distinct == 1:
        return "constant", f"all {len(x)} observed cells are equal"
    if column.storage == "boolean":
        return "binary", "true or false"
    if column.storage in TIMES:
        what = "times" if column.storage == "time" else TIMES[column.storage]
        return "datetime", f"stored as {what}"
    if column.storage in ("text", "category"):
        return _inferred_levels(column, len(x), n_distinct)
    return _inferred_number(column, x, n_distinct, limits)


def _inferred_levels(column: Column, n_observed: int, n_distinct: int) -> tuple[str, str]:
    if n_distinct > MOST_LEVELS:
        return "identifier", f"{n_distinct} distinct values are too many for categories"
    unique = n_distinct > FEW_LEVELS and n_distinct > n_observed / 2
    if column.storage == "text" and unique:
        return "identifier", f"text with {n_distinct} distinct values in {n_observed} cells"
    what = "text" if column.storage == "text" else "categories"
    if n_distinct == 2:
        return "binary", f"{what} with two values"
    if column.ordered:
        return "ordinal", f"ordered categories, {n_distinct} observed"
    return "categorical", f"{what} with {n_distinct} distinct values"


def _inferred_number(
    column: Column,
    x: Float[np.ndarray, " N"],
    n_distinct: int,
    limits: tuple[float | None, float | None] | None,
) -> tuple[str, str]:
    low, high = float(x.min()), float(x.max())
    lowest, highest = _short(low), _short(high)
    whole = column.whole or bool(np.all(x == np.rint(x)) and max(-low, high) <= MOST_WHOLE)
    # Two values of many are a choice, two of a few are two numbers; with bounds they are numbers.
    few = len(x) < FEWEST_BINARY or limits is not None
    if whole and n_distinct == 2 and (not few or (low, high) == (0.0, 1.0)):
        return "binary", f"two values, {lowest} and {highest}"
    if whole and limits is None and _are_counts(x):
        zeros = float(np.mean(x == 0))
        return "count", f"whole numbers from 0 to {highest}, {zeros:.0%} of them 0"
    if whole:
        return "integer", f"whole numbers from {lowest} to {highest}"
    if limits is not None:
        return "bounded", "bounds were given"
    also = "; none is above 1" if _may_be_shares(x) else ""
    if low > 0:
        return "positive", f"all observed numbers are above 0, from {lowest} to {highest}{also}"
    if low == 0 and high in NATURAL_BOUNDS:
        what = NATURAL_BOUNDS[high]
        return "bounded", f"all observed numbers are {what} from 0 to {highest}"
    if low == 0:
        return "bounded", f"no observed number is below 0, the largest is {highest}{also}"
    return "continuous", f"numbers from {lowest} to {highest}"


def _may_be_shares(x: Float[np.ndarray, " N"]) -> bool:
    return bool(x.min() >= 0 and NEAR_ONE < x.max() <= 1)


def _are_counts(x: Float[np.ndarray, " N"]) -> bool:
    """Whether whole numbers look like the number of events: zeros, and a large variance."""
    if x.min() < 0 or x.max() > MOST_COUNTED or np.mean(x == 0) < ZEROS:
        return False
    # In exact sums, so that neither rounding nor the order of rows decides: n sum x^2 - (sum x)^2.
    n, total = len(x), int(math.fsum(x))
    return n * int(math.fsum(x * x)) - total**2 >= n * total


def _ordered(column: Column, order: str) -> Column:
    """The column with its levels in the order that was told."""
    if column.storage == "other" or column.n_observed == 0:
        return column  # which cannot be ordinal, for a better reason
    if column.storage not in ("text", "category"):
        raise SettingsError(
            f"column {column.name!r}: numbers have an order already, use 'ordinal'"
        )
    wanted = [level.strip() for level in order.split("<")]
    words = [word(value) for value in _levels(column, column.values[~column.missing])]
    # A word for two values (1 and "1") cannot be told apart, either.
    named_once = len(set(wanted)) == len(wanted) and len(set(words)) == len(words)
    if not named_once or not set(words) <= set(wanted):
        raise SettingsError(
            f"column {column.name!r}: the order {order!r} must name each of the values "
            f"{', '.join(words)} once"
        )
    place = {word: wanted.index(word) for word in words}
    levels: list[Any] = list(wanted)
    old = column.values[~column.missing].astype(int)
    codes = np.full(len(column.levels), -1.0)
    for i in np.unique(old):
        level = column.levels[i]
        codes[i] = place[word(level)]
        levels[place[word(level)]] = level
    values = np.full(len(column.values), np.nan)
    values[~column.missing] = codes[old]
    return Column(
        name=column.name,
        storage="category",
        values=values,
        missing=column.missing,
        levels=tuple(levels),
        ordered=True,
        dtype=column.dtype,
    )


def word(value: Any) -> str:
    """A value in full, as people write it."""
    if isinstance(value, float) and value.is_integer() and abs(value) < MOST_WHOLE:
        return str(int(value))
    return str(value)


def seconds_word(seconds: float, storage: str) -> str:
    """An instant, a duration or a time of day as people write it."""
    try:
        span = datetime.timedelta(seconds=seconds)
        return str(datetime.datetime(1970, 1, 1) + span if storage == "time" else span)
    except OverflowError:
        return word(seconds)


def _short(value: float) -> str:
    """A number for a sentence: whole ones in full."""
    return word(value) if value.is_integer() and abs(value) < MOST_WHOLE else f"{value:g}"


def _told(kind: str, x: Float[np.ndarray, " N"]) -> tuple[str, str]:
    """A kind that was told, unless there is too little to see it: a part of a table, perhaps."""
    if kind in NOT_MODELLED or len(np.unique(x)) > 1:
        return kind, "as told"
    if len(x) == 0:
        return "empty", f"told to be {kind}, but no cell is observed"
    return "constant", f"told to be {kind}, but all {len(x)} observed cells are equal"


def _require_possible(column: Column, kind: str, x: Float[np.ndarray, " N"]) -> None:
    """Refuse kinds that the observed cells contradict, naming a cell that does."""

    def refuse(why: str, offending: np.ndarray | None = None) -> None:
        where = ""
        if offending is not None:
            row = int(np.flatnonzero(~column.missing)[np.flatnonzero(offending)[0]])
            value = _values_of(column, column.values[[row]])[0]
            is_time = column.storage in TIMES and math.isfinite(value)
            shown = seconds_word(value, column.storage) if is_time else word(value)
            where = f" (row {row}: {shown})"
        raise DataError(f"column {column.name!r} cannot be {kind}: {why}{where}")

    is_text = column.storage in ("text", "category")
    if kind in ("empty", "identifier"):
        if kind == "empty" and len(x):
            refuse("it has observed cells; use 'identifier' to leave it as it is")
        return
    if column.storage == "other":
        refuse(f"values of type {column.dtype} cannot be modelled; use 'identifier'")
    if len(x) == 0:
        return
    if not np.isfinite(x).all():
        refuse("only finite numbers can be modelled", ~np.isfinite(x))
    n_distinct = len(np.unique(x))
    if kind == "constant":
        if n_distinct > 1:
            refuse(f"it has {n_distinct} distinct values")
        return
    if kind in CODED:
        if kind == "binary" and n_distinct > 2:
            refuse(f"it has {n_distinct} distinct values, not 2")
        if n_distinct > MOST_LEVELS:
            refuse(f"it has {n_distinct} distinct values, more than {MOST_LEVELS}")
        if kind == "ordinal" and column.storage == "text":
            refuse("text has no order; give it, as 'ordinal:low<middle<high'")
        return
    if is_text:
        refuse("it holds text", np.ones(len(x), dtype=bool))
    if kind == "datetime" and column.storage not in TIMES:
        refuse("it does not hold times", np.ones(len(x), dtype=bool))
    if kind == "positive" and x.min() <= 0:
        refuse("it has values that are not above 0", x <= 0)
    if kind in ("count", "integer") and (x != np.rint(x)).any():
        refuse("it has values that are not whole", x != np.rint(x))
    if kind == "count" and x.min() < 0:
        refuse("it has values below 0", x < 0)
    if kind == "count" and x.max() > MOST_COUNTED:
        refuse(f"it has values above {MOST_COUNTED}; use 'integer'", x > MOST_COUNTED)


def _require_within(
    column: Column,
    kind: str,
    x: Float[np.ndarray, " N"],
    limits: tuple[float | None, float | None],
) -> None:
    if kind == "identifier" or column.storage != "number":
        raise SettingsError(
            f"bounds were given for column {column.name!r}, which is {kind}: only columns of "
            "numbers can have bounds"
        )
    beyond = outside(x, limits)
    if beyond.any():
        row = int(np.flatnonzero(~column.missing)[np.flatnonzero(beyond)[0]])
        raise DataError(
            f"column {column.name!r} has the value {word(float(column.values[row]))} in row "
            f"{row}, outside its bounds {limits} ({int(beyond.sum())} such cells): correct it, "
            "mark it as missing, or widen the bounds"
        )


def outside(
    x: Float[np.ndarray, " N"], limits: tuple[float | None, float | None]
) -> Bool[np.ndarray, " N"]:
    """Where numbers are beyond the bounds that were given."""
    lower, upper = limits
    # A bound that the column holds in single precision is still that bound.
    slack = 1e-7
    below = False if lower is None else x < lower - slack * abs(lower)
    above = False if upper is None else x > upper + slack * abs(upper)
    return np.zeros(len(x), dtype=bool) | below | above


def _limits(
    kind: str, x: Float[np.ndarray, " N"], limits: tuple[float | None, float | None] | None
) -> tuple[float | None, float | None]:
    """What imputed values have to respect."""
    low, high = float(x.min()), float(x.max())
    lower, upper = limits or (None, None)
    if lower is None and kind == "positive":
        lower = low / 2
    if lower is None and kind == "count":
        lower = 0.0
    # Who gives bounds and leaves one out wants no other.
    if limits is None and kind in ("bounded", "integer") and low >= 0:
        lower = 1.0 if kind == "integer" and low > 0 else 0.0
    if limits is None and kind in ("bounded", "integer") and low == 0 and high in NATURAL_BOUNDS:
        upper = high
    if limits is None and kind in ("bounded", "positive") and _may_be_shares(x):
        upper = 1.0
    if limits is None and kind == "integer" and len(x) >= OFTEN * len(np.unique(x)):
        lower, upper = low, high
    return lower, upper


def _last_of_day(resolution: float, phase: float) -> float:
    """The last time before midnight of a column that shows such steps."""
    step = resolution or 1e-6  # of which datetime has no parts
    return phase + step * (math.ceil((DAY - phase) / step) - 1)


def _coarseness(x: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """The coarsest step that all times are apart from each other, and what is beyond it."""
    # Seconds since 1970 are a little off where they are not whole.
    rounding = 4 * np.spacing(np.abs(x).max())
    since = x - x.min()
    for step in RESOLUTIONS:
        if np.all(np.abs(since - np.rint(since / step) * step) <= rounding):
            return step, float(x.min() % step)
    return 0.0, 0.0
