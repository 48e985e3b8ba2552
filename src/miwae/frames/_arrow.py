"""Columns of pyarrow, also those of pandas: dictionaries, and cells replaced chunk by chunk."""

from collections.abc import Callable
from typing import Any

import numpy as np
from jaxtyping import Int

from miwae.columns import Cells, Column, as_codes, coded_column
from miwae.frames._series import dtype_of, read_series, values_for, with_type

__all__ = ["filled_arrow", "read_arrow"]


def read_arrow(array: Any, name: str, missing_values: tuple[Any, ...], dtype: str = "") -> Column:
    """A chunked array in neutral form."""
    from pyarrow import types

    if not types.is_dictionary(array.type):
        return read_series(array, name, missing_values, dtype)
    codes, levels = _encoded(array)
    return coded_column(
        name,
        "category",
        codes,
        levels,
        missing_values,
        ordered=array.type.ordered,
        dtype=dtype or str(array.type),
    )


def _encoded(array: Any) -> tuple[Int[np.ndarray, " N"], list[Any]]:
    """Codes, -1 for null, and levels of a dictionary-encoded chunked array."""
    import pyarrow as pa

    array = array.unify_dictionaries()
    indices = pa.chunked_array([chunk.indices for chunk in array.chunks], array.type.index_type)
    codes = indices.cast(pa.int64()).fill_null(-1).to_numpy()
    levels = _dictionary(array).to_pylist()
    if None in levels:  # null can be stored as a value of the dictionary
        null = levels.index(None)
        del levels[null]
        codes = np.where(codes == null, -1, codes - (codes > null))
    return codes, levels


def _dictionary(array: Any) -> Any:
    """The values that all chunks have in common."""
    import pyarrow as pa

    return array.chunk(0).dictionary if array.num_chunks else pa.array([], array.type.value_type)


def filled_arrow(array: Any, cells: Cells, name: str) -> Any:
    """A chunked array of the same chunks and type, with some cells replaced.

    One of type null gets a type for these cells.
    """
    import pyarrow as pa
    from pyarrow import types

    if dtype_of(array) is None:
        array = with_type(array, cells)
        # Narwhals makes nanoseconds of times of day, which Python's do not have.
        array = array.cast(pa.time64("us")) if types.is_time(array.type) else array
    dtype = array.type
    if types.is_dictionary(dtype):
        return _filled_dictionary(array, cells, name)
    values = values_for(array, cells, name)
    if isinstance(values, list):
        values = pa.array(values, dtype)
    else:
        integers = types.is_time(dtype)  # of the size of the type
        values = values.astype(f"int{dtype.bit_width}") if integers else values
        values = pa.array(values).cast(dtype)
    if types.is_string_view(dtype):  # which has no kernel for `take`
        wide = array.cast(pa.large_string())
        return _by_chunk(wide, cells.rows, values.cast(pa.large_string()), _replaced).cast(dtype)
    return _by_chunk(array, cells.rows, values, _replaced)


def _filled_dictionary(array: Any, cells: Cells, name: str) -> Any:
    import pyarrow as pa

    array = array.unify_dictionaries()
    known = _dictionary(array)
    # The type declares no levels: the dictionary is what this batch happened to need.
    new = sorted(set(cells.values) - set(known.to_pylist()))
    dictionary = pa.concat_arrays([known, pa.array(new, array.type.value_type)])
    codes = pa.array(as_codes(cells.values, dictionary.to_pylist(), name), array.type.index_type)

    def replaced(chunk: Any, rows: np.ndarray, values: Any) -> Any:
        indices = _replaced(chunk.indices, rows, values)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=array.type.ordered)

    return _by_chunk(array, cells.rows, codes, replaced)


def _by_chunk(
    array: Any,
    rows: Int[np.ndarray, " H"],
    values: Any,
    replaced: Callable[[Any, np.ndarray, Any], Any],
) -> Any:
    """Replace cells chunk by chunk: chunks without any are the very same."""
    import pyarrow as pa

    chunks, start = [], 0
    for chunk in array.chunks:
        first, last = np.searchsorted(rows, [start, start + len(chunk)]).tolist()
        inside = rows[first:last] - start
        chunks.append(replaced(chunk, inside, values[first:last]) if len(inside) else chunk)
        start += len(chunk)
    return pa.chunked_array(chunks, array.type)


def _replaced(chunk: Any, rows: np.ndarray, values: Any) -> Any:
    """Taken from the old values and the new ones below them, which copies any type exactly."""
    import pyarrow as pa

    order = np.arange(len(chunk))
    order[rows] = len(chunk) + np.arange(len(rows))
    return pa.concat_arrays([chunk, values]).take(pa.array(order))
