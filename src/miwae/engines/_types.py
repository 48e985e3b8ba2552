"""Parts of a table in the types of the whole."""

from typing import Any

import pyarrow as pa
from pyarrow import compute, types

from miwae.columns import ColumnSchema, Schema
from miwae.errors import DataError, FileFormatError
from miwae.frames import default_type

pc: Any = compute  # whose functions are made when it is imported


def schema_of(schema: Schema, arrow: bytes) -> pa.Schema:
    """The types that a model has learned; by what its columns hold, where it has learned none.

    Raises:
        FileFormatError: what was saved is damaged.
    """
    if not arrow:
        found = [default_type(column.storage, whole=False) for column in schema.columns]
        return pa.schema(list(zip(schema.names, found, strict=True)))
    try:
        known = pa.ipc.read_schema(pa.BufferReader(arrow)).remove_metadata()
    except (pa.ArrowException, OSError) as error:
        raise FileFormatError(
            f"the model is damaged: its types make no sense ({error})"
        ) from error
    if tuple(known.names) != schema.names:
        raise FileFormatError("the model is damaged: its types are of other columns")
    return pa.schema([pa.field(field.name, field.type) for field in known])


def in_type(array: pa.ChunkedArray, wanted: pa.DataType, known: ColumnSchema) -> pa.ChunkedArray:
    """A column in another type that holds the same values.

    Raises:
        DataError: there is a value that the type does not have.
    """
    if types.is_null(array.type):
        return pa.chunked_array([pa.nulls(len(array), wanted)])
    if types.is_dictionary(wanted) and _sort(array.type) == _sort(wanted):
        return _as_dictionary(array, wanted, known)
    if array.type == wanted:
        return array
    if types.is_null(wanted) or _sort(array.type) != _sort(wanted):
        raise _refusal(array, wanted, known)
    try:
        return _exactly(array, wanted, known)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise _refusal(array, wanted, known) from error


def _sort(dtype: pa.DataType) -> Any:
    """The same for types between which values are converted."""
    if types.is_dictionary(dtype):
        return _sort(dtype.value_type)
    if types.is_integer(dtype) or types.is_floating(dtype) or types.is_decimal(dtype):
        return "number"
    if types.is_string(dtype) or types.is_large_string(dtype) or types.is_string_view(dtype):
        return "text"
    if types.is_date(dtype) or types.is_timestamp(dtype):
        # An instant without a time zone is another one in each.
        return "time" if types.is_date(dtype) or dtype.tz is None else "instant"
    if types.is_time(dtype):
        return "clock"
    return "duration" if types.is_duration(dtype) else dtype


def _exactly(array: pa.ChunkedArray, wanted: pa.DataType, known: ColumnSchema) -> pa.ChunkedArray:
    if types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    own = array.type
    if types.is_floating(own) and not types.is_floating(wanted):  # which have no NaN
        array = pc.if_else(pc.is_nan(array), pa.scalar(None, own), array)
    changed = array.cast(wanted, safe=False)
    same = pc.equal(changed.cast(own, safe=False), array)
    if types.is_floating(own):
        same = pc.or_(same, pc.is_nan(array))
    if pc.all(same).as_py() is False:
        value = array.filter(pc.invert(same))[0]
        raise _refusal(array, wanted, known, f", such as {value},")
    return changed


def _as_dictionary(
    array: pa.ChunkedArray, wanted: pa.DataType, known: ColumnSchema
) -> pa.ChunkedArray:
    """With the learned levels first, so that parts in which some are absent have the same."""
    words = _exactly(array, wanted.value_type, known)
    levels = pa.array(known.kind.levels, wanted.value_type)
    new = pc.drop_null(words.filter(pc.invert(pc.is_in(words, levels)))).unique()
    dictionary = pa.concat_arrays([levels, new])
    try:
        codes = pc.index_in(words, dictionary).cast(wanted.index_type)
    except pa.ArrowInvalid as error:
        raise _refusal(array, wanted, known, f" with {len(dictionary)} values") from error
    make, ordered = pa.DictionaryArray.from_arrays, wanted.ordered
    chunks = [make(chunk, dictionary, ordered=ordered) for chunk in codes.chunks]
    return pa.chunked_array(chunks, pa.dictionary(wanted.index_type, wanted.value_type, ordered))


def _refusal(
    array: pa.ChunkedArray, wanted: pa.DataType, known: ColumnSchema, what: str = ""
) -> DataError:
    return DataError(
        f"column {known.name!r} is {array.type} here{what} and was learned as {wanted}, which "
        "cannot hold it: convert the column, or fit again"
    )
