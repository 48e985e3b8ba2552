"""From columns to the arrays of the model, and from its values back to cells."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import DataError
from miwae.table.base import Column
from miwae.table.schema import CODED, ColumnSchema, Schema

__all__ = ["Encoded", "decode", "encode"]


class Encoded(NamedTuple):
    """The modelled columns of a table as the model sees them."""

    x: Float[np.ndarray, "N D"]
    observed: Bool[np.ndarray, "N D"]
    log_slope: Float[np.ndarray, " N"]  # of the change of scale, summed over the observed cells
    events: tuple[str, ...]


def encode(schema: Schema, columns: Sequence[Column]) -> Encoded:
    """Put the modelled columns on the scale of the model.

    Values that the model does not know (an unseen category, a zero where only positive numbers
    were seen) are left out of it, and an event says so; the cells themselves stay as they are.

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
        if known.transform is not None:
            log_slope[seen] += known.transform.log_slope(column.values[seen])
    return Encoded(x, observed, log_slope, tuple(events))


def _encoded(
    known: ColumnSchema, column: Column, events: list[str]
) -> tuple[Float[np.ndarray, " N"], Bool[np.ndarray, " N"]]:
    """The values of a column on the scale of the model, and where there are any."""
    present = ~column.missing
    if not present.any():
        return np.zeros(len(present)), present
    if known.kind in CODED:
        codes = _codes(known, column)
        return codes, present & _allowed(
            known, column, codes >= 0, "was not seen in fitting", events
        )
    if column.storage not in ("number", "boolean", "time"):
        raise _wrong_type(known, column)
    infinite = present & ~np.isfinite(column.values)
    if infinite.any():
        row = int(np.flatnonzero(infinite)[0])
        raise DataError(
            f"column {known.name!r} has the value {column.values[row]} in row {row}: only finite "
            "numbers can be modelled; correct it, or mark it as missing"
        )
    if known.transform is None:
        fine = (column.values >= 0) & (column.values == np.rint(column.values))
        allowed = _allowed(known, column, fine, "is not a count", events)
        return column.values, present & allowed
    fine = column.values > 0 if known.transform.shape == "log" else np.ones(len(present), bool)
    allowed = _allowed(known, column, fine, "is not above 0", events)
    seen = present & allowed
    values = np.zeros(len(present))
    values[seen] = known.transform.forward(column.values[seen])
    return values, seen


def _codes(known: ColumnSchema, column: Column) -> Float[np.ndarray, " N"]:
    """The place of each value among the known levels, -1 where it is none of them."""
    place = {_same(level): float(i) for i, level in enumerate(known.levels)}
    if column.storage in ("text", "category"):
        of_level = np.array([place.get(_same(level), -1.0) for level in column.levels] or [-1.0])
        index = np.where(column.missing, 0, column.values).astype(int)
        return of_level[index]
    if not all(isinstance(level, int | float | np.number) for level in known.levels):
        raise _wrong_type(known, column)
    distinct, inverse = np.unique(
        np.where(column.missing, 0.0, column.values), return_inverse=True
    )
    return np.array([place.get(float(value), -1.0) for value in distinct])[inverse]


def _same(level: Any) -> Any:
    """Numbers of all types compare equal; text does not equal a number."""
    if isinstance(level, bool | np.bool_ | int | float | np.number):
        return float(level)
    return level


def _allowed(
    known: ColumnSchema,
    column: Column,
    fine: Bool[np.ndarray, " N"],
    what: str,
    events: list[str],
) -> Bool[np.ndarray, " N"]:
    """Tell of the values that the model cannot use."""
    strange = ~fine & ~column.missing
    if strange.any():
        row = int(np.flatnonzero(strange)[0])
        value = column.values[row]
        shown = column.levels[int(value)] if column.levels else f"{value:g}"
        events.append(
            f"column {known.name!r}: the value {shown!s} {what} ({int(strange.sum())} such cells)"
            ": kept in the table, treated as missing by the model"
        )
    return fine


def _wrong_type(known: ColumnSchema, column: Column) -> DataError:
    row = int(np.flatnonzero(~column.missing)[0]) if column.n_observed else 0
    shown = column.levels[int(column.values[row])] if column.levels else column.values[row]
    return DataError(
        f"column {known.name!r} was learned as {known.kind} from {known.storage}, but now holds "
        f"{column.storage} ({column.dtype}), such as {shown!r} in row {row}: convert it"
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
    if known.resolution:
        x = np.rint(x / known.resolution) * known.resolution
    if known.whole:
        x = np.rint(x)
    lower = -np.inf if known.lower is None else known.lower
    upper = np.inf if known.upper is None else known.upper
    if known.whole:
        lower, upper = np.ceil(lower), np.floor(upper)
    return np.clip(x, lower, upper)


def _as_cells(levels: Sequence[Any]) -> np.ndarray:
    """Levels as an array that keeps them as they are: numbers as floats, others as objects."""
    if all(isinstance(level, float) for level in levels):
        return np.array(levels, dtype=np.float64)
    cells = np.empty(len(levels), dtype=object)
    cells[:] = list(levels)
    return cells
