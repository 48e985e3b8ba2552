"""Columns of pyarrow, also those of pandas: dictionaries, and cells replaced chunk by chunk."""

from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Int

from miwae.columns import Cells, Column, Marks, as_codes, coded_column, sorted_levels
from miwae.frames._series import dtype_of, read_series, values_for, with_type


def read_arrow(array: Any, name: str, marks: Marks, label: str = "") -> Column:
    from pyarrow import types

    label = label or str(array.type)
    if dtype_of(array) == nw.String:
        codes, levels = sorted_levels(*_codes(array.dictionary_encode()))
        return coded_column(name, "text", codes, levels, marks, dtype=label)
    if types.is_dictionary(array.type):
        ordered = array.type.ordered
        return coded_column(name, "category", *_codes(array), marks, ordered=ordered, dtype=label)
    return read_series(array, name, marks, label)


def _encoded(array: Any) -> tuple[Any, Any]:
    """The indices, chunked, and the one dictionary of a dictionary-encoded chunked array."""
    import pyarrow as pa

    chunks = array.unify_dictionaries().chunks
    indices = pa.chunked_array([chunk.indices for chunk in chunks], array.type.index_type)
    return indices, chunks[0].dictionary if chunks else pa.array([], array.type.value_type)


def _codes(array: Any) -> tuple[Int[np.ndarray, " N"], list[Any]]:
    indices, dictionary = _encoded(array)
    codes, levels = indices.cast("int64").fill_null(-1).to_numpy(), dictionary.to_pylist()
    if None in levels:  # null can be stored as a value of the dictionary
        null = levels.index(None)
        del levels[null]
        codes = np.where(codes == null, -1, codes - (codes > null))
    return codes, levels


def filled_arrow(array: Any, cells: Cells, name: str) -> Any:
    """The same chunks and type with some cells replaced; null gets a type for the cells."""
    import pyarrow as pa
    from pyarrow import types

    if dtype_of(array) is None:
        array = with_type(array, cells)
        # Narwhals makes times of day in nanoseconds, which those of Python do not have.
        array = array.cast(pa.time64("us")) if types.is_time(array.type) else array
    dtype = array.type
    if types.is_dictionary(dtype):
        return _filled_dictionary(array, cells, name)
    values = values_for(array, cells, name)
    values = pa.array(values, dtype) if isinstance(values, list) else pa.array(values).cast(dtype)
    if types.is_string_view(dtype):  # which has no kernel for `take`
        wide = pa.large_string()
        return _replaced(array.cast(wide), cells.rows, values.cast(wide)).cast(dtype)
    return _replaced(array, cells.rows, values)


def _filled_dictionary(array: Any, cells: Cells, name: str) -> Any:
    import pyarrow as pa

    indices, known = _encoded(array)
    # A dictionary is no declaration of levels: it holds what this batch happened to need.
    new = sorted(set(cells.values) - set(known.to_pylist()))
    dictionary = pa.concat_arrays([known, pa.array(new, array.type.value_type)])
    codes = pa.array(as_codes(cells.values, dictionary.to_pylist(), name), array.type.index_type)
    make, ordered = pa.DictionaryArray.from_arrays, array.type.ordered
    chunks = _replaced(indices, cells.rows, codes).chunks
    return pa.chunked_array(
        [make(chunk, dictionary, ordered=ordered) for chunk in chunks], array.type
    )


def _replaced(array: Any, rows: Int[np.ndarray, " H"], values: Any) -> Any:
    """With other values in some rows; chunks without any of these are the very same."""
    # Taken from the old values and the new ones below them, which copies any type exactly.
    import pyarrow as pa

    chunks, start = [], 0
    for chunk in array.chunks:
        first, last = np.searchsorted(rows, [start, start + len(chunk)]).tolist()
        if first < last:
            order = np.arange(len(chunk))
            order[rows[first:last] - start] = len(chunk) + np.arange(last - first)
            both = pa.concat_arrays([chunk, values[first:last]])
            chunks.append(both.take(pa.array(order)))
        else:
            chunks.append(chunk)
        start += len(chunk)
    return pa.chunked_array(chunks, array.type)
