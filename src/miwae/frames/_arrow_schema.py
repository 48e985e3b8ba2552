"""The types of a table's columns as a schema of Arrow, which parts of other types are given."""

from collections.abc import Sequence
from typing import Any

from miwae.columns import Column
from miwae.frames._checks import library_of


def arrow_schema(columns: Sequence[Column], frame: Any = None) -> bytes:
    """A schema as Arrow writes it; empty where pyarrow is not installed.

    Types are those that the frame declares, if there is one, and what suits the cells of columns
    that have none: of text files, of spreadsheets, of Python objects.
    """
    try:
        import pyarrow as pa
    except ImportError:
        return b""
    declared = [pa.null()] * len(columns) if frame is None else _declared(frame)
    fields = [
        pa.field(column.name, default_type(column.storage, whole=column.whole) if unknown else own)
        for column, own in zip(columns, declared, strict=True)
        for unknown in [pa.types.is_null(own) or isinstance(own, pa.BaseExtensionType)]
    ]
    return pa.schema(fields).serialize().to_pybytes()


def default_type(storage: str, *, whole: bool) -> Any:
    """The type for what a column holds; null where nothing is known of it."""
    import pyarrow as pa

    types = {
        "number": pa.int64() if whole else pa.float64(),
        "boolean": pa.bool_(),
        "text": pa.string(),
        "category": pa.string(),
        "time": pa.timestamp("us"),
        "duration": pa.duration("us"),
        "clock": pa.time64("us"),
    }
    return types.get(storage, pa.null())


def _declared(frame: Any) -> list[Any]:
    """The type of each column of a frame; null where it declares none."""
    import pyarrow as pa

    library = library_of(frame)
    if library == "pyarrow":
        return list(frame.schema.types)
    if library == "polars":
        return [_of_polars(series.to_frame()) for series in frame.clear().get_columns()]
    if library == "numpy":
        own = pa.null() if frame.dtype.kind not in "fiub" else pa.from_numpy_dtype(frame.dtype)
        return [own] * frame.shape[1]
    empty = frame.iloc[:0]
    return [_of_pandas(empty.iloc[:, i]) for i in range(frame.shape[1])]


def _of_polars(frame: Any) -> Any:
    """The type of the only column; null for integers of 128 bits, which Arrow does not have."""
    import pyarrow as pa

    try:
        return frame.to_arrow().schema.types[0]
    except pa.ArrowException:
        return pa.null()


def _of_pandas(series: Any) -> Any:
    """The type of a column of pandas; null for objects and for what Arrow does not have."""
    import pyarrow as pa

    try:
        return pa.Array.from_pandas(series).type
    except (pa.ArrowException, NotImplementedError, TypeError):
        return pa.null()
