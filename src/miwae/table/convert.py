"""From one kind of table to another, for files of another format than the one that was read."""

import csv
import datetime
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from miwae.errors import DataError
from miwae.table.base import AbstractTable, Column
from miwae.table.excel import ExcelTable
from miwae.table.frames import ArrowTable, NumpyTable, PandasTable, PolarsTable, as_table
from miwae.table.text import TextTable, read_text

__all__ = ["converted", "pyarrow_or_error"]

_EPOCH = datetime.datetime(1970, 1, 1)


def pyarrow_or_error() -> Any:
    """The library, or an error that says how to get it."""
    try:
        import pyarrow
    except ImportError:
        raise DataError("Parquet and Feather need pyarrow: pip install 'miwae[parquet]'") from None
    return pyarrow


def converted(table: AbstractTable, kind: str) -> AbstractTable:
    """The table as a kind of file needs it; the same object where nothing has to be done.

    Args:
        table: of any kind.
        kind: "text" gives a `TextTable`, "excel" an `ExcelTable`, "parquet" and "feather" an
            `ArrowTable`.

    Raises:
        DataError: a column has no counterpart there.
    """
    try:
        return _CONVERSIONS[kind](table)
    except KeyError:
        raise DataError(f"there is no kind of file {kind!r}: {sorted(_CONVERSIONS)}") from None


def _to_text(table: AbstractTable) -> AbstractTable:
    if isinstance(table, TextTable):
        return table
    if isinstance(table, ExcelTable):
        return _text_of_objects(table.names, [table.cells(j) for j in range(len(table.names))])
    pa = pyarrow_or_error()
    from pyarrow import csv as arrow_csv

    plain = _with_plain_types(_arrow(table))
    out = io.BytesIO()
    try:
        arrow_csv.write_csv(plain, out)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise DataError(f"a column cannot be written as text: {error}") from error
    return read_text(out.getvalue(), delimiter=",", encoding="utf-8")


def _to_arrow(table: AbstractTable) -> AbstractTable:
    return table if isinstance(table, ArrowTable) else as_table(_arrow(table))


def _to_excel(table: AbstractTable) -> AbstractTable:
    if isinstance(table, ExcelTable):
        return table
    if isinstance(table, TextTable):
        columns = [_objects(table, j) for j in range(len(table.names))]
    else:
        arrow = _arrow(table)
        columns = [column.to_pylist() for column in arrow.columns]
    return ExcelTable(table.names, tuple(_object_array(cells) for cells in columns))


_CONVERSIONS: dict[str, Callable[[AbstractTable], AbstractTable]] = {
    "text": _to_text,
    "parquet": _to_arrow,
    "feather": _to_arrow,
    "excel": _to_excel,
}


def _object_array(cells: list[Any]) -> np.ndarray:
    array = np.empty(len(cells), dtype=object)
    for place, value in enumerate(cells):
        array[place] = None if isinstance(value, float) and np.isnan(value) else value
    return array


def _arrow(table: AbstractTable) -> Any:
    """Any table as one of pyarrow."""
    pa = pyarrow_or_error()
    if isinstance(table, ArrowTable):
        return table.native
    if isinstance(table, PandasTable):
        return pa.Table.from_pandas(table.native)
    if isinstance(table, PolarsTable):
        return table.native.to_arrow()
    if isinstance(table, NumpyTable):
        columns = [pa.array(cells, from_pandas=True) for cells in np.asarray(table.native).T]
    elif isinstance(table, TextTable):
        columns = [_arrow_column(pa, table, j) for j in range(len(table.names))]
    elif isinstance(table, ExcelTable):
        columns = [_arrow_objects(pa, table, j) for j in range(len(table.names))]
    else:
        raise DataError(f"a {type(table).__name__} cannot be written in another format")
    return pa.table(columns, names=list(table.names))


def _with_plain_types(table: Any) -> Any:
    """With categories as the values they stand for, and durations as text.

    CSV cannot tell categories apart, and pyarrow would write durations without their unit.
    """
    import pyarrow as pa
    from pyarrow import types

    for place, field in enumerate(table.schema):
        column = table.column(place)
        if types.is_dictionary(field.type):
            column = column.cast(field.type.value_type)
        elif types.is_duration(field.type):
            spans = column.cast(pa.duration("us"), safe=False).to_pylist()
            texts = [None if span is None else _span_text(span) for span in spans]
            column = pa.array(texts, pa.string())
        table = table.set_column(place, field.name, column)
    return table


def _span_text(span: datetime.timedelta) -> str:
    """Hours, of which there can be many, minutes, and seconds with their fraction."""
    seconds, fraction = divmod(abs(span), datetime.timedelta(seconds=1))
    sign = "-" if span < datetime.timedelta() else ""
    text = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction.microseconds:06d}" if fraction else "")


def _arrow_column(pa: Any, table: TextTable, position: int) -> Any:
    """A column of text cells with the type of its content."""
    column = table.column(position)
    if column.storage == "number" and not column.whole:
        return pa.array(column.values, mask=column.missing)
    if column.storage == "time":
        ticks = np.rint(np.where(column.missing, 0, column.values) * 1e6).astype(np.int64)
        zone = "UTC" if table.has_zone(position) else None
        return pa.array(ticks, mask=column.missing).cast(pa.timestamp("us", tz=zone))
    if column.storage == "clock":
        return pa.array(_objects(table, position), type=pa.time64("us"))
    types = {"number": pa.int64(), "boolean": pa.bool_(), "text": pa.string()}
    return pa.array(_objects(table, position), type=types[column.storage])


def _arrow_objects(pa: Any, table: ExcelTable, position: int) -> Any:
    try:
        return pa.array(table.cells(position), from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"column {table.names[position]!r} holds cells of several types, which Parquet and "
            f"Feather cannot: {error}"
        ) from error


def _objects(table: TextTable, position: int) -> list[Any]:
    """A column of text cells as Python objects, None where missing."""
    column = table.column(position)
    if column.whole:
        return _whole_numbers(table, position, column)
    convert: dict[str, Callable[[float], Any]] = {
        "number": float,
        "boolean": bool,
        "time": lambda seconds: _EPOCH + datetime.timedelta(seconds=seconds),
        "clock": lambda seconds: (_EPOCH + datetime.timedelta(seconds=seconds)).time(),
        "text": lambda code: column.levels[int(code)],
    }
    values, missing = column.values.tolist(), column.missing.tolist()
    return [
        None if gone else convert[column.storage](value)
        for value, gone in zip(values, missing, strict=True)
    ]


def _whole_numbers(table: TextTable, position: int, column: Column) -> list[int | None]:
    """Integers from their text, since float64 has no digits after the sixteenth."""
    texts, missing = table.texts(position), column.missing.tolist()
    values = [None if gone else int(text) for text, gone in zip(texts, missing, strict=True)]
    largest = max((abs(value) for value in values if value is not None), default=0)
    if largest >= 2**63:
        raise DataError(
            f"column {column.name!r} holds {largest}, which is larger than integers of 64 bits: "
            "write a text format, or drop the column"
        )
    return values


def _text_of_objects(names: tuple[str, ...], columns: list[np.ndarray]) -> TextTable:
    """Python objects as a CSV file: times in ISO 8601, flags as true and false."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(zip(*map(_texts, columns), strict=True))
    return read_text(out.getvalue().encode(), delimiter=",", encoding="utf-8")


def _texts(cells: np.ndarray) -> list[Any]:
    """Texts for a column: its times are dates if all of them are midnight."""
    times = [value for value in cells if isinstance(value, datetime.datetime)]
    dates = all(value.time() == datetime.time() for value in times)
    return [_text(value, dates=dates) for value in cells]


def _text(value: Any, *, dates: bool) -> Any:
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime):
        return value.date().isoformat() if dates else value.isoformat(timespec="seconds")
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    return _span_text(value) if isinstance(value, datetime.timedelta) else value
