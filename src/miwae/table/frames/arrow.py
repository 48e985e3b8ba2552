"""Tables of pyarrow, and the columns of pandas that are stored in its arrays."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Int

from miwae.table.base import AbstractTable, Column, Fill, Storage
from miwae.table.frames.shared import (
    booleans,
    check_names,
    codes_of,
    column_of_booleans,
    column_of_codes,
    column_of_numbers,
    column_of_others,
    column_of_ticks,
    decimals,
    finite,
    numbers_of,
    refuse_fill,
    sorted_levels,
    texts,
    ticks_of,
    ticks_of_day,
    whole_numbers,
)

__all__ = ["ArrowTable", "fill_arrow", "read_arrow"]


def _is_text(dtype: Any) -> bool:
    from pyarrow import types

    return types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype)


def _unit(dtype: Any) -> str | None:
    """Numpy's name of the unit in which times are stored, None for what is no time."""
    from pyarrow import types

    if types.is_date32(dtype):
        return "D"
    if types.is_date64(dtype):
        return "ms"
    if types.is_timestamp(dtype) or types.is_time(dtype) or types.is_duration(dtype):
        return dtype.unit
    return None


def read_arrow(array: Any, name: str, missing_values: tuple[Any, ...], dtype: str) -> Column:
    """A chunked array in neutral form."""
    import pyarrow as pa
    from pyarrow import types

    missing = array.is_null().to_numpy()
    if types.is_null(array.type):
        values = np.full(len(array), np.nan)
        return column_of_numbers(name, values, missing, (), whole=False, dtype=dtype)
    if types.is_boolean(array.type):
        values = array.fill_null(fill_value=False).to_numpy()
        return column_of_booleans(name, values, missing, missing_values, dtype=dtype)
    if types.is_integer(array.type):
        values = array.fill_null(0).to_numpy()
        return column_of_numbers(name, values, missing, missing_values, whole=True, dtype=dtype)
    if types.is_floating(array.type) or types.is_decimal(array.type):
        whole = types.is_decimal(array.type) and array.type.scale <= 0
        if types.is_decimal(array.type):
            array = array.cast(pa.float64())
        values = array.to_numpy()
        return column_of_numbers(name, values, missing, missing_values, whole=whole, dtype=dtype)
    if types.is_dictionary(array.type):
        return _read_dictionary(array, name, missing_values, dtype)
    if _is_text(array.type):
        codes, levels = _encoded(array.dictionary_encode())
        codes, levels = sorted_levels(codes, levels)
        return column_of_codes(name, "text", codes, levels, missing_values, dtype=dtype)
    unit = _unit(array.type)
    if unit is None:
        return column_of_others(name, missing, dtype=dtype)
    return column_of_ticks(
        name,
        _ticks(array),
        missing,
        missing_values,
        unit=unit,
        storage=_storage(array.type),
        dtype=dtype,
    )


def _storage(dtype: Any) -> Storage:
    """Which of the three sorts of times a type holds."""
    from pyarrow import types

    if types.is_duration(dtype):
        return "duration"
    return "clock" if types.is_time(dtype) else "time"


def _ticks(array: Any) -> Int[np.ndarray, " N"]:
    """Times as the integers by which they are stored, 0 for null."""
    import pyarrow as pa

    integer = pa.int32() if array.type.bit_width == 32 else pa.int64()
    return array.cast(integer).fill_null(0).to_numpy().astype(np.int64)


def _encoded(array: Any) -> tuple[Int[np.ndarray, " N"], list[Any]]:
    """Codes, -1 for null, and levels of a dictionary-encoded chunked array."""
    chunks = array.unify_dictionaries().chunks
    if not chunks:
        return np.empty(0, np.int64), []
    codes = [chunk.indices.fill_null(0).to_numpy().astype(np.int64) for chunk in chunks]
    missing = [chunk.indices.is_null().to_numpy(zero_copy_only=False) for chunk in chunks]
    codes = np.where(np.concatenate(missing), -1, np.concatenate(codes))
    return codes, chunks[0].dictionary.to_pylist()


def _read_dictionary(array: Any, name: str, missing_values: tuple[Any, ...], dtype: str) -> Column:
    codes, levels = _encoded(array)
    if None in levels:  # null can be stored as a value of the dictionary
        null = levels.index(None)
        del levels[null]
        codes = np.where(codes == null, -1, codes - (codes > null))
    ordered = array.type.ordered
    return column_of_codes(
        name, "category", codes, levels, missing_values, ordered=ordered, dtype=dtype
    )


def fill_arrow(array: Any, fill: Fill, name: str) -> Any:
    """A chunked array of the same type and chunks, with some cells replaced."""
    import pyarrow as pa
    from pyarrow import types

    dtype = array.type
    if types.is_dictionary(dtype):
        return _fill_dictionary(array, fill, name)
    values = _in_type(dtype, fill, name)
    if types.is_string_view(dtype):  # which has no kernel for `take`
        wide = array.cast(pa.large_string())
        return _by_chunk(wide, fill.rows, values.cast(pa.large_string()), _replaced).cast(dtype)
    return _by_chunk(array, fill.rows, values, _replaced)


def _fill_dictionary(array: Any, fill: Fill, name: str) -> Any:
    import pyarrow as pa

    array = array.unify_dictionaries()
    known = array.chunk(0).dictionary if array.num_chunks else pa.array([], array.type.value_type)
    # The type declares no levels: the dictionary is what this batch happened to need.
    new = sorted(set(fill.values) - set(known.to_pylist()))
    dictionary = pa.concat_arrays([known, pa.array(new, array.type.value_type)])
    codes = pa.array(codes_of(fill.values, dictionary.to_pylist(), name), array.type.index_type)

    def replaced(chunk: Any, rows: np.ndarray, values: Any) -> Any:
        indices = _replaced(chunk.indices, rows, values)
        return pa.DictionaryArray.from_arrays(indices, dictionary, ordered=array.type.ordered)

    return _by_chunk(array, fill.rows, codes, replaced)


def _by_chunk(
    array: Any,
    rows: Int[np.ndarray, " H"],
    values: Any,
    replaced: Callable[[Any, np.ndarray, Any], Any],
) -> Any:
    """Replace cells chunk by chunk: those without any are the very same."""
    import pyarrow as pa

    chunks, start = [], 0
    for chunk in array.chunks:
        first, last = np.searchsorted(rows, [start, start + len(chunk)])
        if first < last:
            inside = rows[first:last] - start
            start += len(chunk)
            chunks.append(replaced(chunk, inside, values[int(first) : int(last)]))
        else:
            start += len(chunk)
            chunks.append(chunk)
    return pa.chunked_array(chunks, array.type)


def _replaced(chunk: Any, rows: np.ndarray, values: Any) -> Any:
    """Taken from the old values and the new ones below them, which copies any type exactly."""
    import pyarrow as pa

    order = np.arange(len(chunk))
    order[rows] = len(chunk) + np.arange(len(rows))
    return pa.concat_arrays([chunk, values]).take(pa.array(order))


def _in_type(dtype: Any, fill: Fill, name: str) -> Any:
    """The values as an array of the column's type."""
    import pyarrow as pa
    from pyarrow import types

    values = fill.values
    if types.is_boolean(dtype):
        return pa.array(booleans(values, name), dtype)
    if types.is_integer(dtype):
        return pa.array(whole_numbers(values, np.dtype(dtype.to_pandas_dtype()), name), dtype)
    if types.is_floating(dtype):
        return pa.array(numbers_of(values, name).astype(dtype.to_pandas_dtype()), dtype)
    if types.is_decimal(dtype):
        return pa.array(decimals(fill, dtype.precision, dtype.scale, name), dtype)
    if _is_text(dtype):
        return pa.array(texts(values, name), dtype)
    unit = _unit(dtype)
    if unit is None:
        raise refuse_fill(name, str(dtype))
    seconds = finite(values, name)
    if types.is_time(dtype):
        ticks = ticks_of_day(seconds, unit)
    elif types.is_date64(dtype):  # milliseconds, but of whole days
        ticks = ticks_of(seconds, "D") * 86_400_000
    else:
        ticks = ticks_of(seconds, unit)
    integer = pa.int32() if dtype.bit_width == 32 else pa.int64()
    return pa.array(ticks, integer).cast(dtype)


@final
class ArrowTable(AbstractTable):
    """A `pyarrow.Table`."""

    def __init__(self, table: Any) -> None:
        check_names(table.column_names)
        self._table = table

    @property
    def native(self) -> Any:
        """The table, which nothing can change."""
        return self._table

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._table.column_names)

    @property
    def n_rows(self) -> int:
        """Its length."""
        return self._table.num_rows

    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form."""
        array = self._table.column(position)
        return read_arrow(array, self.names[position], missing_values, str(array.type))

    def with_types(self, storages: Mapping[int, str]) -> "ArrowTable":
        """Columns of type null get one that can hold something."""
        import pyarrow as pa

        types: dict[str, Any] = {
            "number": pa.float64(),
            "boolean": pa.bool_(),
            "text": pa.string(),
            "category": pa.string(),
            "time": pa.timestamp("us"),
            "duration": pa.duration("us"),
            "clock": pa.time64("us"),
        }
        table = self._table
        for position, storage in storages.items():
            if pa.types.is_null(table.column(position).type) and storage in types:
                typed = table.column(position).cast(types[storage])
                table = table.set_column(position, self.names[position], typed)
        return ArrowTable(table)

    def fill(self, fills: Mapping[int, Fill]) -> "ArrowTable":
        """A copy with some cells replaced, and the same schema."""
        table = self._table
        for position, fill in fills.items():
            array = fill_arrow(table.column(position), fill, self.names[position])
            table = table.set_column(position, table.schema.field(position), array)
        return ArrowTable(table)

    def keep(self, positions: Sequence[int]) -> "ArrowTable":
        """Only some of the columns."""
        return ArrowTable(self._table.select(list(positions)))

    def rows(self, start: int, stop: int) -> "ArrowTable":
        """Some consecutive rows."""
        return ArrowTable(self._table.slice(start, stop - start))

    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "ArrowTable":
        """With further columns of flags or integers."""
        import pyarrow as pa

        table = self._table
        for place, (name, values) in enumerate(columns.items()):
            position = place if first else table.num_columns
            table = table.add_column(position, name, pa.array(values))
        return ArrowTable(table)

    @classmethod
    def stacked(cls, tables: Sequence["ArrowTable"]) -> "ArrowTable":
        """Tables of the same columns, one below the other."""
        import pyarrow as pa

        stacked = pa.concat_tables([table.native for table in tables])
        if not stacked.num_columns:  # where concatenation forgets the length
            n_rows = sum(table.n_rows for table in tables)
            stacked = pa.table({"rows": pa.nulls(n_rows)}).select([])
        return ArrowTable(stacked)
