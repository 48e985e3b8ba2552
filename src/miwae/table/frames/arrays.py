"""Arrays of numpy: a table of two axes, and the columns of pandas that are stored as arrays."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Int

from miwae.errors import DataError
from miwae.table.base import AbstractTable, Column, Fill
from miwae.table.frames.objects import fill_objects, read_objects
from miwae.table.frames.shared import (
    PER_SECOND,
    SECONDS_PER,
    booleans,
    column_of_booleans,
    column_of_numbers,
    column_of_others,
    column_of_ticks,
    finite,
    numbers_of,
    refuse_fill,
    texts,
    ticks_of,
    whole_numbers,
)

__all__ = ["NumpyTable", "fill_array", "read_array"]


def _unit(dtype: np.dtype) -> str | None:
    """The unit of times, None where it is a multiple or (months) of no fixed length."""
    if dtype.kind not in "Mm":
        return None
    unit, count = np.datetime_data(dtype)
    return unit if count == 1 and unit in (*PER_SECOND, *SECONDS_PER) else None


def read_array(array: np.ndarray, name: str, missing_values: tuple[Any, ...]) -> Column:
    """A column of one axis in neutral form."""
    kind, dtype = array.dtype.kind, str(array.dtype)
    nowhere = np.zeros(len(array), bool)
    if kind == "c":
        raise DataError(f"Complex data not supported: column {name!r}")
    if kind in "fiu":
        whole = kind != "f"
        return column_of_numbers(name, array, nowhere, missing_values, whole=whole, dtype=dtype)
    if kind == "b":
        return column_of_booleans(name, array, nowhere, missing_values, dtype=dtype)
    if kind in "OUT":
        # Text too: a dictionary of Python strings is faster than sorting the array.
        return read_objects(array.astype(object), name, missing_values, dtype)
    unit = _unit(array.dtype)
    if unit is None:
        return column_of_others(name, np.isnat(array) if kind in "Mm" else nowhere, dtype=dtype)
    ticks = array.astype(np.int64)
    storage = "time" if kind == "M" else "duration"
    return column_of_ticks(
        name, ticks, np.isnat(array), missing_values, unit=unit, storage=storage, dtype=dtype
    )


def fill_array(array: np.ndarray, fill: Fill, name: str) -> np.ndarray:
    """A copy of one axis with some cells replaced; fixed-width text gets wider where it must."""
    kind = array.dtype.kind
    if kind == "O":
        return fill_objects(array, fill, name)
    values = _in_dtype(array.dtype, fill.values, name)
    out = array.astype(values.dtype if kind == "U" else array.dtype)
    out[fill.rows] = values
    return out


def _in_dtype(dtype: np.dtype, values: np.ndarray, name: str) -> np.ndarray:
    """The values as an array that fits."""
    unit = _unit(dtype)
    if dtype.kind == "f":
        return numbers_of(values, name)
    if dtype.kind in "iu":
        return whole_numbers(values, dtype, name)
    if dtype.kind == "b":
        return booleans(values, name)
    if dtype.kind == "U":
        words = np.array(texts(values, name), np.str_)
        return words.astype(np.result_type(words.dtype, dtype))
    if dtype.kind == "T":
        return np.array(texts(values, name), dtype)
    if unit is not None:
        return ticks_of(finite(values, name), unit).astype(dtype)
    raise refuse_fill(name, str(dtype))


@final
class NumpyTable(AbstractTable):
    """An array of two axes; its columns are called x0, x1, ..."""

    def __init__(self, array: np.ndarray) -> None:
        if isinstance(array, np.ma.MaskedArray):
            raise DataError("masked arrays are not read: pass array.filled(numpy.nan)")
        if array.dtype.names is not None:
            raise DataError("structured arrays are not read: pass pandas.DataFrame(array)")
        if array.dtype.kind == "c":
            raise DataError("Complex data not supported: pass real and imaginary parts as columns")
        if array.ndim != 2:
            raise DataError(
                f"a table needs an array of 2 axes, not {array.ndim}: use reshape(-1, 1) for a "
                "single column, reshape(1, -1) for a single row"
            )
        self._array = np.asarray(array)  # a matrix has columns of two axes

    @property
    def native(self) -> np.ndarray:
        """The array."""
        return self._array

    @property
    def names(self) -> tuple[str, ...]:
        """Names by position: arrays have none."""
        return tuple(f"x{position}" for position in range(self._array.shape[1]))

    @property
    def n_rows(self) -> int:
        """Its length."""
        return len(self._array)

    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form."""
        return read_array(self._array[:, position], f"x{position}", missing_values)

    def fill(self, fills: Mapping[int, Fill]) -> "NumpyTable":
        """A copy with some cells replaced."""
        out = self._array.copy(order="K")
        for position, fill in fills.items():
            column = fill_array(self._array[:, position], fill, f"x{position}")
            if column.dtype.kind == "U":  # wider, perhaps
                out = out.astype(np.result_type(out, column), copy=False)
            out[:, position] = column
        return NumpyTable(out)

    def keep(self, positions: Sequence[int]) -> "NumpyTable":
        """Only some of the columns."""
        return NumpyTable(self._array[:, list(positions)])

    def rows(self, start: int, stop: int) -> "NumpyTable":
        """Some consecutive rows."""
        return NumpyTable(self._array[start:stop])

    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "NumpyTable":
        """With further columns; their names are lost.

        Arrays of floats and of objects keep their dtype, integers and booleans get the narrowest
        that holds all, and everything else becomes objects.
        """
        parts = [values[:, None] for values in columns.values()]
        dtype = self._array.dtype
        if dtype.kind in "iub":
            dtype = np.result_type(dtype, *(part.dtype for part in parts))
        elif dtype.kind != "f" and parts:
            dtype = np.dtype(object)
        own = self._array.astype(dtype)
        parts = [part.astype(dtype) for part in parts]
        return NumpyTable(np.concatenate([*parts, own] if first else [own, *parts], axis=1))

    @classmethod
    def stacked(cls, tables: Sequence["NumpyTable"]) -> "NumpyTable":
        """Tables of the same columns, one below the other."""
        return NumpyTable(np.concatenate([table.native for table in tables]))
