"""Arrays of numpy: tables of two axes, and the columns of pandas that are stored as arrays."""

from dataclasses import replace

import numpy as np
from jaxtyping import Bool

from miwae import columns
from miwae.columns import Cells, Column, Marks
from miwae.errors import DataError
from miwae.frames._checks import CellsByColumn, NewColumns


def _unit(dtype: np.dtype) -> str | None:
    """The unit of times, None where it is a multiple or (months) of no fixed length."""
    if dtype.kind not in "Mm":
        return None
    unit, count = np.datetime_data(dtype)
    return unit if count == 1 and unit in (*columns.PER_SECOND, *columns.SECONDS_PER) else None


def read_array(
    array: np.ndarray, name: str, marks: Marks, missing: Bool[np.ndarray, " N"] | None = None
) -> Column:
    """A column of one axis in neutral form; what `missing` says is missing whatever it holds."""
    kind, dtype, unit = array.dtype.kind, str(array.dtype), _unit(array.dtype)
    if missing is None:
        missing = np.isnat(array) if kind in "Mm" else np.zeros(len(array), bool)
    if kind == "c":
        raise DataError(f"Complex data not supported: column {name!r}")
    if kind in "fiu":
        whole = kind != "f"
        return columns.number_column(name, array, missing, marks, whole=whole, dtype=dtype)
    if kind == "b":
        return columns.boolean_column(name, array, missing, marks, dtype=dtype)
    if kind == "O":
        return columns.read_objects(array, name, marks, dtype)
    if kind in "UT":
        # A dictionary of Python strings is faster than sorting the array.
        column = columns.read_objects(array.astype(object), name, marks, dtype)
        return replace(column, storage="text", typed=True)
    if unit is None:
        return columns.other_column(name, missing, dtype=dtype)
    ticks, storage = array.astype(np.int64), "time" if kind == "M" else "duration"
    return columns.tick_column(
        name, ticks, missing, marks, unit=unit, storage=storage, dtype=dtype
    )


def filled_array(array: np.ndarray, cells: Cells, name: str) -> np.ndarray:
    """A copy of one axis with some cells replaced; fixed-width text gets wider where it must."""
    kind = array.dtype.kind
    if kind == "O":
        return columns.filled_objects(array, cells, name)
    values = in_dtype(array.dtype, cells.values, name)
    out = array.astype(values.dtype if kind == "U" else array.dtype)
    out[cells.rows] = values
    return out


def in_dtype(dtype: np.dtype, values: np.ndarray, name: str) -> np.ndarray:
    if dtype.kind == "f":
        return columns.as_numbers(values, name)
    if dtype.kind in "iu":
        return columns.as_whole_numbers(values, dtype, name)
    if dtype.kind == "b":
        return columns.as_booleans(values, name)
    if dtype.kind in "UT":
        words = np.array(columns.as_texts(values, name), np.str_)
        return words.astype(np.result_type(words.dtype, dtype))
    if (unit := _unit(dtype)) is not None:
        return columns.ticks_of(columns.as_finite(values, name), unit).astype(dtype)
    raise columns.cannot_fill(name, str(dtype))


def completed_array(array: np.ndarray, cells: CellsByColumn) -> np.ndarray:
    out = array.copy(order="K")
    for position, part in cells.items():
        column = filled_array(array[:, position], part, f"x{position}")
        if column.dtype.kind == "U":  # wider, perhaps
            out = out.astype(np.result_type(out, column), copy=False)
        out[:, position] = column
    return out


def array_with_columns(array: np.ndarray, more: NewColumns, *, first: bool) -> np.ndarray:
    """With further columns, whose names are lost."""
    # Floats and objects keep their dtype, integers and booleans get the narrowest that holds all,
    # and everything else becomes objects.
    parts, dtype = [values[:, None] for values in more.values()], array.dtype
    if dtype.kind in "iub":
        dtype = np.result_type(dtype, *parts)
    elif dtype.kind != "f" and parts:
        dtype = np.dtype(object)
    parts = [*parts, array] if first else [array, *parts]
    return np.concatenate([part.astype(dtype) for part in parts], axis=1)
