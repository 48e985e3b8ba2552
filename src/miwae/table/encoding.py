"""From columns to the arrays of the model, and from its values back to cells."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import DataError
from miwae.table.base import TIMES, Column, Fill, Gaps
from miwae.table.frames.shared import kind_of
from miwae.table.schema import (
    CODED,
    MOST_COUNTED,
    ColumnSchema,
    Schema,
    outside,
    seconds_word,
    word,
)

__all__ = ["Encoded", "Fills", "decode", "encode", "nearest_point", "wrong_type"]

# Standard deviations: what is farther out is as strange, but its square is a number of float32.
FARTHEST = 1e9

# A few rounding errors of single precision.
BESIDE = 1e-6

NEAREST = "taken for the nearest known value by the model"


class Encoded(NamedTuple):
    """The modelled columns of a table as the model sees them."""

    x: Float[np.ndarray, "N D"]
    observed: Bool[np.ndarray, "N D"]
    log_slope: Float[np.ndarray, " N"]  # of the change of scale, summed over the observed cells
    events: tuple[str, ...]


def encode(schema: Schema, columns: Sequence[Column]) -> Encoded:
    """Put the modelled columns on the scale of the model.

    Values that the model does not know (an unseen category, a zero where only positive numbers
    were seen, a number outside the bounds that were given) are left out of it, and an event says
    so; the cells themselves stay as they are.

    Args:
        schema: as it was learned.
        columns: of this table, as many as the schema has.

    Raises:
        DataError: a column of another type than learned, or with infinite values.
    """
    n_rows = len(columns[0].missing) if columns else 0
    positions = schema.modelled
    x = np.zeros((n_rows, len(positions)), dtype=np.float32)
    observed = np.zeros(x.shape, dtype=bool)
    log_slope = np.zeros(n_rows)
    events: list[str] = []
    for j, position in enumerate(positions):
        known, column = schema.columns[position], columns[position]
        values, seen = _encoded(known, column, events)
        x[seen, j] = values[seen]
        observed[:, j] = seen
        if known.transform is not None and not known.points:  # whose values have probabilities
            log_slope[seen] += known.transform.log_slope(column.values[seen])
    return Encoded(x, observed, log_slope, tuple(events))


def _encoded(
    known: ColumnSchema, column: Column, events: list[str]
) -> tuple[Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """The values of a column on the scale of the model, and where there are any."""
    present = ~column.missing
    if not present.any():
        return np.zeros(len(present)), present
    # Seconds of one sort mean nothing as those of another.
    if column.storage == "other" or TIMES.get(known.storage) != TIMES.get(column.storage):
        raise wrong_type(known, column)
    if known.kind in CODED:
        codes = _codes(known, column)
        return codes, present & _allowed(
            known, column, codes >= 0, "was not seen in fitting", events
        )
    if column.storage in ("text", "category"):
        raise wrong_type(known, column)
    infinite = present & ~np.isfinite(column.values)
    if infinite.any():
        row = int(np.flatnonzero(infinite)[0])
        raise DataError(
            f"column {known.name!r} has the value {column.values[row]} in row {row}: only finite "
            "numbers can be modelled; correct it, or mark it as missing"
        )
    wrong = outside(column.values, known.bounds)
    present &= _allowed(known, column, ~wrong, f"is outside its bounds {known.bounds}", events)
    column = replace(column, missing=~present)  # of which enough is said
    if known.transform is None:
        fine = (column.values >= 0) & (column.values == np.rint(column.values))
        allowed = _allowed(known, column, fine, "is not a count", events)
        large = column.values > MOST_COUNTED
        allowed &= _allowed(known, column, ~large, "is too large for a count", events)
        return column.values, present & allowed
    fine = column.values > 0 if known.transform.shape == "log" else np.ones(len(present), bool)
    allowed = _allowed(known, column, fine, "is not above 0", events)
    seen = present & allowed
    x = column.values[seen]
    if known.points:
        x = nearest_point(known, x)
        usual = ~seen
        usual[seen] = _beside(known, column.values[seen], x)
        _allowed(known, column, usual, "was not seen in fitting", events, NEAREST)
    values = np.zeros(len(present))
    with np.errstate(over="ignore"):
        y = known.transform.forward(x)
    values[seen] = np.clip(y, -FARTHEST, FARTHEST)
    return values, seen


def _codes(known: ColumnSchema, column: Column) -> Float[np.ndarray, " N"]:
    """The place of each value among the known levels, -1 where it is none of them."""
    if column.storage in ("text", "category"):
        of_level = np.array(_places(known, column.levels) or [-1.0])
        index = np.where(column.missing, 0, column.values).astype(int)
        return of_level[index]
    if not any(_is_number(level) for level in known.levels):
        raise wrong_type(known, column)
    distinct, inverse = np.unique(
        np.where(column.missing, 0.0, column.values), return_inverse=True
    )
    as_flags = column.storage == "boolean"
    values = [bool(value) if as_flags else value for value in distinct.tolist()]
    return np.array(_places(known, values))[inverse]


def _places(known: ColumnSchema, values: Sequence[Any]) -> list[float]:
    """The places of values among the known levels, -1 where they are none of them.

    Values of the same type come first: 1, True and "1" are three levels where a column has all
    of them. Where it does not, flags are the numbers 0 and 1, and text is the number it spells,
    since the same table can be stored in all these ways.
    """
    exact, loose = {}, {}
    for i, level in enumerate(known.levels):
        exact.setdefault(_exactly(level), float(i))
        if _is_number(level):
            loose.setdefault(level, []).append(float(i))
    spelled = all(_is_number(level) for level in known.levels)
    places = []
    for value in values:
        number = value if _is_number(value) else _spelled(value) if spelled else None
        similar = loose.get(number, [])
        places.append(exact.get(_exactly(value), similar[0] if len(similar) == 1 else -1.0))
    return places


def _exactly(level: Any) -> tuple[Any, Any]:
    """Levels with a common one are equal: Python says so of True and 1."""
    return kind_of(type(level)), level


def _is_number(level: Any) -> bool:
    return kind_of(type(level)) in ("number", "boolean")


def _spelled(text: Any) -> float | None:
    try:
        return float(text) if isinstance(text, str) else None
    except ValueError:
        return None


def _allowed(
    known: ColumnSchema,
    column: Column,
    fine: Bool[np.ndarray, " N"],
    what: str,
    events: list[str],
    then: str = "treated as missing by the model",
) -> Bool[np.ndarray, " N"]:
    """Tell of the values that the model cannot use as they are, and what becomes of them."""
    strange = ~fine & ~column.missing
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        count = int(strange.sum())
        events.append(
            f"column {known.name!r}: the value {_shown(column, row)} {what} ({count} such "
            f"{'cell' if count == 1 else 'cells'}): kept in the table, {then}"
        )
    return fine


def _shown(column: Column, row: int) -> str:
    value = float(column.values[row])
    if column.storage in TIMES:
        return seconds_word(value, column.storage)
    return word(column.levels[int(value)] if column.levels else value)


def wrong_type(known: ColumnSchema, column: Column) -> DataError:
    """What to say of a column that holds something else than the one that was learned."""
    what = f"{TIMES.get(column.storage, column.storage)} ({column.dtype})"
    if column.n_observed:
        row = int(np.flatnonzero(~column.missing)[0])
        what += f", such as {_shown(column, row)} in row {row}"
    if column.storage == "other":
        what = f"values of type {column.dtype}"
    before = TIMES.get(known.storage, known.storage)
    remedy = f"convert it to {before}, or fit again" if known.storage in TIMES else "convert it"
    return DataError(
        f"column {known.name!r} was learned as {known.kind} from {before}, but now holds "
        f"{what}: {remedy}"
    )


def decode(known: ColumnSchema, y: Float[np.ndarray, " H"]) -> np.ndarray:
    """From values of the model to cells of a column: numbers, seconds, or levels.

    What comes out respects the kind: whole numbers, bounds, known levels.
    """
    if known.kind in CODED:
        codes = np.clip(np.rint(y), 0, len(known.levels) - 1).astype(int)
        return _as_cells(known.levels)[codes]
    if known.kind == "constant":
        return _as_cells((known.constant,))[np.zeros(len(y), dtype=int)]
    x = np.asarray(y, dtype=np.float64)
    if known.transform is not None:
        x = known.transform.inverse(x)
    if known.points:  # of which single precision leaves draws a little beside
        nearest = nearest_point(known, x)
        x = np.where(_beside(known, x, nearest), nearest, x)
        x = np.clip(x, known.points[0][0], known.points[-1][0])
    if known.resolution:
        steps = np.rint((x - known.phase) / known.resolution)
        x = steps * known.resolution + known.phase
    if known.whole:
        x = np.rint(x)
    lower = -np.inf if known.lower is None else known.lower
    upper = np.inf if known.upper is None else known.upper
    if known.whole:
        lower, upper = np.ceil(lower), np.floor(upper)
    return np.clip(x, lower, upper)


def nearest_point(known: ColumnSchema, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
    """Of the values that a column takes, the nearest."""
    values = np.array([value for value, _ in known.points])
    above = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
    low, high = values[above - 1], values[above]
    with np.errstate(over="ignore"):
        return np.where(x - low <= high - x, low, high)


def _beside(
    known: ColumnSchema, x: Float[np.ndarray, " H"], nearest: Float[np.ndarray, " H"]
) -> Bool[np.ndarray, " H"]:
    """Where single precision on the scale of the model cannot tell a number from the nearest."""
    assert known.transform is not None
    with np.errstate(over="ignore"):
        y, point = known.transform.forward(x), known.transform.forward(nearest)
        return np.abs(y - point) <= BESIDE * np.maximum(1.0, np.abs(point))


def _as_cells(levels: Sequence[Any]) -> np.ndarray:
    """Levels as an array that keeps them as they are: numbers as floats, others as objects."""
    if all(isinstance(level, float) for level in levels):
        return np.array(levels, dtype=np.float64)
    return np.fromiter(levels, object, len(levels))


@final
class Fills(Mapping[int, Fill]):
    """The cells to fill, by position of the column; each column's are computed when asked for.

    Args:
        schema: as it was learned.
        gaps: of the table to fill.
        values: of the modelled columns, on the scale of the model.
        keep_empty: fill columns of numbers that had no value at all with zeros.
    """

    def __init__(
        self,
        schema: Schema,
        gaps: Sequence[Gaps],
        values: Float[np.ndarray, "N D"],
        *,
        keep_empty: bool,
    ) -> None:
        self._schema, self._gaps, self._values = schema, gaps, values
        self._place = {position: j for j, position in enumerate(schema.modelled)}
        self._positions = {
            position: None
            for position, (known, gap) in enumerate(zip(schema.columns, gaps, strict=True))
            if gap.missing.any() and _is_filled(known, gap, keep_empty=keep_empty)
        }

    def __iter__(self) -> Iterator[int]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, position: object) -> bool:
        return position in self._positions

    def __getitem__(self, position: int) -> Fill:
        if position not in self:
            raise KeyError(position)
        known = self._schema.columns[position]
        rows = np.flatnonzero(self._gaps[position].missing)
        if known.kind == "empty":
            return Fill(rows, np.zeros(len(rows)))
        modelled = position in self._place
        y = self._values[rows, self._place[position]] if modelled else np.zeros(len(rows))
        return Fill(
            rows,
            decode(known, y.astype(np.float64)),
            lower=-np.inf if known.lower is None else known.lower,
            upper=np.inf if known.upper is None else known.upper,
            storage=known.storage,
            levels=known.levels,
        )


def _is_filled(known: ColumnSchema, gap: Gaps, *, keep_empty: bool) -> bool:
    if known.kind == "empty":
        return keep_empty and gap.storage in ("number", "boolean")
    return known.kind != "identifier"
