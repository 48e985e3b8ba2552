"""Arrays of numpy: tables of two axes, and the columns of pandas that are stored as arrays."""

from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Bool

from miwae.columns import (
    PER_SECOND,
    SECONDS_PER,
    Cells,
    Column,
    as_booleans,
    as_finite,
    as_numbers,
    as_texts,
    as_whole_numbers,
    boolean_column,
    cannot_fill,
    filled_objects,
    number_column,
    other_column,
    read_objects,
    tick_column,
    ticks_of,
)
from miwae.errors import DataError
from miwae.frames._checks import CellsByColumn, NewColumns


def _unit(dtype: np.dtype) -> str | None:
    """The unit of times, None where it is a multiple or (months) of no fixed length."""
    if dtype.kind not in "Mm":
        return None
    unit, count = np.datetime_data(dtype)
    return unit if count == 1 and unit in (*PER_SECOND, *SECONDS_PER) else None


def read_array(
    array: np.ndarray,
    name: str,
    missing_values: tuple[Any, ...],
    missing: Bool[np.ndarray, " N"] | None = None,
) -> Column:
    """A column of one axis in neutral form; what `missing` says is missing whatever it holds."""
    kind, dtype = array.dtype.kind, str(array.dtype)
    if missing is None:
        missing = np.isnat(array) if kind in "Mm" else np.zeros(len(array), bool)
    if kind == "c":
        raise DataError(f"Complex data not supported: column {name!r}")
    if kind in "fiu":
        whole = kind != "f"
        return number_column(name, array, missing, missing_values, whole=whole, dtype=dtype)
    if kind == "b":
        return boolean_column(name, array, missing, missing_values, dtype=dtype)
    if kind == "O":
        return read_objects(array, name, missing_values, dtype)
    if kind in "UT":
        # A dictionary of Python strings is faster than sorting the array.
        column = read_objects(array.astype(object), name, missing_values, dtype)
        return replace(column, storage="text", typed=True)
    unit = _unit(array.dtype)
    if unit is None:
        return other_column(name, missing, dtype=dtype)
    ticks, storage = array.astype(np.int64), "time" if kind == "M" else "duration"
    return tick_column(
        name, ticks, missing, missing_values, unit=unit, storage=storage, dtype=dtype
    )


def filled_array(array: np.ndarray, cells: Cells, name: str) -> np.ndarray:
    """A copy of one axis with some cells replaced; fixed-width text gets wider where it must."""
    kind = array.dtype.kind
    if kind == "O":
        return filled_objects(array, cells, name)
    values = in_dtype(array.dtype, cells.values, name)
    out = array.astype(values.dtype if kind == "U" else array.dtype)
    out[cells.rows] = values
    return out


def in_dtype(dtype: np.dtype, values: np.ndarray, name: str) -> np.ndarray:
    """The values as an array that fits."""
    unit = _unit(dtype)
    if dtype.kind == "f":
        return as_numbers(values, name)
    if dtype.kind in "iu":
        return as_whole_numbers(values, dtype, name)
    if dtype.kind == "b":
        return as_booleans(values, name)
    if dtype.kind in "UT":
        words = np.array(as_texts(values, name), np.str_)
        return words.astype(np.result_type(words.dtype, dtype))
    if unit is not None:
        return ticks_of(as_finite(values, name), unit).astype(dtype)
    raise cannot_fill(name, str(dtype))


def completed_array(array: np.ndarray, cells: CellsByColumn) -> np.ndarray:
    """A copy of two axes with some cells replaced."""
    out = array.copy(order="K")
    for position, part in cells.items():
        column = filled_array(array[:, position], part, f"x{position}")
        if column.dtype.kind == "U":  # wider, perhaps
            out = out.astype(np.result_type(out, column), copy=False)
        out[:, position] = column
    return out


def array_with_columns(array: np.ndarray, columns: NewColumns, *, first: bool) -> np.ndarray:
    """With further columns, whose names are lost.

    Arrays of floats and of objects keep their dtype, integers and booleans get the narrowest
    that holds all, and everything else becomes objects.
    """
    parts = [values[:, None] for values in columns.values()]
    dtype = array.dtype
    if dtype.kind in "iub":
        dtype = np.result_type(dtype, *(part.dtype for part in parts))
    elif dtype.kind != "f" and parts:
        dtype = np.dtype(object)
    own = array.astype(dtype)
    parts = [part.astype(dtype) for part in parts]
    return np.concatenate([*parts, own] if first else [own, *parts], axis=1)
