"""Column kinds: what each column of a table is taken for, and why."""

import difflib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Float

from miwae.errors import DataError, SettingsError
from miwae.table.base import Column, Storage
from miwae.table.transforms import Transform, choose_transform

__all__ = ["KINDS", "ColumnSchema", "Schema", "infer_schema"]

KINDS = {
    "continuous": "a number of any size",
    "positive": "a number above zero",
    "bounded": "a number within bounds",
    "integer": "a whole number",
    "count": "a whole number from zero on, often zero",
    "binary": "one of two values",
    "categorical": "one of several values without an order",
    "ordinal": "one of several values with an order",
    "datetime": "a point in time or a duration",
    "constant": "always the same value",
    "empty": "never a value",
    "identifier": "kept as it is, not modelled",
}
NUMERIC = frozenset({"continuous", "positive", "bounded", "integer", "datetime"})
CODED = frozenset({"binary", "categorical", "ordinal"})
NOT_MODELLED = frozenset({"constant", "empty", "identifier"})

# More levels than this, or levels that are mostly unique, are names, not categories.
MOST_LEVELS = 2_000
FEW_LEVELS = 8

# A column of counts, rather than of whole numbers: so many zeros at least.
ZEROS = 0.05

# Seconds, from the coarsest: imputed times are as coarse as the observed ones.
RESOLUTIONS = (86_400.0, 3_600.0, 60.0, 1.0, 1e-3)


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
        resolution: imputed times are multiples of so many seconds; 0 for no rounding.
        transform: to the scale of the model, for numbers and times.
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
    resolution: float = 0.0
    transform: Transform | None = None

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
    column_kinds: Mapping[Any, str] | None = None,
    bounds: Mapping[Any, tuple[float | None, float | None]] | None = None,
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
    found = {}
    for key, value in (settings or {}).items():
        if str(key) in names:
            found[names.index(str(key))] = value
        elif isinstance(key, int | np.integer) and -len(names) <= key < len(names):
            found[int(key) % len(names)] = value
        else:
            near = difflib.get_close_matches(str(key), names, n=1)
            hint = f"; did you mean {near[0]!r}?" if near else f"; there are {', '.join(names)}"
            raise SettingsError(f"{what} names the column {key!r}, which does not exist{hint}")
    return found


def _require_kind(name: str, kind: str) -> None:
    if not isinstance(kind, str) or kind.partition(":")[0] not in KINDS:
        raise SettingsError(f"column {name!r}: the kind {kind!r} is not one of {', '.join(KINDS)}")


def _checked_bounds(name: str, pair: Any) -> tuple[float | None, float | None]:
    try:
        lower, upper = (None if limit is None else float(limit) for limit in pair)
    except (TypeError, ValueError):
        raise SettingsError(
            f"bounds of {name!r} must be a pair of numbers, not {pair!r}"
        ) from None
    if lower is not None and upper is not None and not lower < upper:
        raise SettingsError(f"bounds of {name!r}: {lower:g} is not below {upper:g}")
    return lower, upper


def _column_schema(
    column: Column, kind: str | None, limits: tuple[float | None, float | None] | None
) -> ColumnSchema:
    x = column.values[~column.missing]
    if kind is None:
        kind, reason = _inferred(column, x, limits)
    else:
        kind, _, order = kind.partition(":")
        column = _ordered(column, order) if order else column
        reason = "as told"
        _require_possible(column, kind, x)
    if limits is not None:
        _require_within(column, kind, x, limits)
    own: dict[str, Any] = {
        "name": column.name,
        "kind": kind,
        "reason": reason,
        "storage": column.storage,
    }
    if kind in ("empty", "identifier"):
        return ColumnSchema(**own)
    if kind == "constant":
        return ColumnSchema(**own, constant=_values_of(column, x)[0], whole=column.whole)
    if kind in CODED:
        return ColumnSchema(**own, levels=_levels(column, x), whole=column.whole)
    lower, upper = _limits(kind, x, limits)
    if kind == "count":
        return ColumnSchema(**own, whole=True, lower=lower, upper=upper)
    transform = choose_transform(x)
    if transform.shape != "identity":
        own["reason"] += f"; modelled on {_scale_words(transform)} scale"
    return ColumnSchema(
        **own,
        whole=kind == "integer" or column.whole,
        lower=lower,
        upper=upper,
        resolution=_resolution(x) if kind == "datetime" else 0.0,
        transform=transform,
    )


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
    if column.storage in ("number", "time") and not np.isfinite(x).all():
        bad = column.values[~column.missing & ~np.isfinite(column.values)][0]
        row = int(np.flatnonzero(~column.missing & ~np.isfinite(column.values))[0])
        raise DataError(
            f"column {column.name!r} has the value {bad} in row {row}: only finite numbers can be "
            "modelled; correct it, or mark it as missing"
        )
    n_distinct = len(np.unique(x))
    if n_distinct == 1:
        return "constant", f"all {len(x)} observed cells are equal"
    if column.storage == "boolean":
        return "binary", "true or false"
    if column.storage == "time":
        return "datetime", "stored as times"
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
    whole = bool(np.all(x == np.rint(x)))
    low, high = float(x.min()), float(x.max())
    if whole and n_distinct == 2 and (len(x) >= 5 or (low, high) == (0.0, 1.0)):
        return "binary", f"two values, {low:g} and {high:g}"
    if whole:
        zeros = float(np.mean(x == 0))
        if low >= 0 and zeros >= ZEROS and x.var() >= x.mean() and limits is None:
            return "count", f"whole numbers from 0 to {high:g}, {zeros:.0%} of them 0"
        return "integer", f"whole numbers from {low:g} to {high:g}"
    if limits is not None:
        return "bounded", "bounds were given"
    if low > 0:
        return "positive", f"all observed numbers are above 0, from {low:g} to {high:g}"
    if low == 0 and high == 1:
        return "bounded", "all observed numbers are shares from 0 to 1"
    if low == 0:
        return "bounded", f"no observed number is below 0, the largest is {high:g}"
    return "continuous", f"numbers from {low:g} to {high:g}"


def _ordered(column: Column, order: str) -> Column:
    """The column with its levels in the order that was told."""
    wanted = [level.strip() for level in order.split("<")]
    words = [_word(value) for value in _levels(column, column.values[~column.missing])]
    absent = [word for word in words if word not in wanted]
    if absent or len(set(wanted)) != len(wanted):
        raise SettingsError(
            f"column {column.name!r}: the order {order!r} must name each of the values "
            f"{', '.join(words)} once"
        )
    if column.storage not in ("text", "category"):
        raise SettingsError(
            f"column {column.name!r}: numbers have an order already, use 'ordinal'"
        )
    place = {word: wanted.index(word) for word in words}
    levels: list[Any] = list(wanted)
    codes = np.full(len(column.levels), -1.0)
    for i, level in enumerate(column.levels):
        if _word(level) in place:
            codes[i] = place[_word(level)]
            levels[place[_word(level)]] = level
    values = np.full(len(column.values), np.nan)
    values[~column.missing] = codes[column.values[~column.missing].astype(int)]
    return Column(
        name=column.name,
        storage="category",
        values=values,
        missing=column.missing,
        levels=tuple(levels),
        ordered=True,
        dtype=column.dtype,
    )


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _require_possible(column: Column, kind: str, x: Float[np.ndarray, " N"]) -> None:
    """Refuse kinds that the observed cells contradict, naming a cell that does."""

    def refuse(why: str, offending: np.ndarray | None = None) -> None:
        where = ""
        if offending is not None:
            row = int(np.flatnonzero(~column.missing)[np.flatnonzero(offending)[0]])
            where = f" (row {row}: {_word(_values_of(column, column.values[[row]])[0])})"
        raise DataError(f"column {column.name!r} cannot be {kind}: {why}{where}")

    is_text = column.storage in ("text", "category")
    if kind in ("empty", "identifier"):
        if kind == "empty" and len(x):
            refuse("it has observed cells; use 'identifier' to leave it as it is")
        return
    if column.storage == "other":
        refuse(f"values of type {column.dtype} cannot be modelled; use 'identifier'")
    if len(x) == 0:
        refuse("no cell is observed")
    if not np.isfinite(x).all():
        refuse("only finite numbers can be modelled", ~np.isfinite(x))
    n_distinct = len(np.unique(x))
    if kind == "constant":
        if n_distinct > 1:
            refuse(f"it has {n_distinct} distinct values")
        return
    if kind in CODED:
        if kind == "binary" and n_distinct != 2:
            refuse(f"it has {n_distinct} distinct values, not 2")
        if n_distinct < 2:
            refuse("it has a single value; leave the kind out, and it is taken as constant")
        if n_distinct > MOST_LEVELS:
            refuse(f"it has {n_distinct} distinct values, more than {MOST_LEVELS}")
        if kind == "ordinal" and column.storage == "text":
            refuse("text has no order; give it, as 'ordinal:low<middle<high'")
        return
    if is_text:
        refuse("it holds text", np.ones(len(x), dtype=bool))
    if kind == "datetime" and column.storage != "time":
        refuse("it does not hold times", np.ones(len(x), dtype=bool))
    if kind == "positive" and x.min() <= 0:
        refuse("it has values that are not above 0", x <= 0)
    if kind in ("count", "integer") and (x != np.rint(x)).any():
        refuse("it has values that are not whole", x != np.rint(x))
    if kind == "count" and x.min() < 0:
        refuse("it has values below 0", x < 0)


def _require_within(
    column: Column,
    kind: str,
    x: Float[np.ndarray, " N"],
    limits: tuple[float | None, float | None],
) -> None:
    if kind not in NUMERIC | {"count", "constant", "empty"} or column.storage != "number":
        raise SettingsError(
            f"bounds were given for column {column.name!r}, which is {kind}: only columns of "
            "numbers can have bounds"
        )
    lower, upper = limits
    outside = np.zeros(len(x), dtype=bool)
    outside |= False if lower is None else x < lower
    outside |= False if upper is None else x > upper
    if outside.any():
        row = int(np.flatnonzero(~column.missing)[np.flatnonzero(outside)[0]])
        raise DataError(
            f"column {column.name!r} has the value {column.values[row]:g} in row {row}, outside "
            f"its bounds {limits} ({int(outside.sum())} such cells): correct it, mark it as "
            "missing, or widen the bounds"
        )


def _limits(
    kind: str, x: Float[np.ndarray, " N"], limits: tuple[float | None, float | None] | None
) -> tuple[float | None, float | None]:
    """What imputed values have to respect."""
    low, high = float(x.min()), float(x.max())
    lower, upper = limits or (None, None)
    if lower is None:
        if kind == "positive":
            lower = low / 2
        elif kind == "count" or (kind in ("bounded", "integer") and low >= 0):
            lower = 0.0 if low == 0 or kind != "integer" else float(min(low, 1.0))
    if upper is None and limits is None and kind == "bounded" and low == 0 and high == 1:
        upper = 1.0
    return lower, upper


def _resolution(x: Float[np.ndarray, " N"]) -> float:
    for step in RESOLUTIONS:
        if np.allclose(x / step, np.rint(x / step), rtol=0, atol=1e-6):
            return step
    return 0.0
