"""The plain frame: names and columns, by which tables get from one file format to another."""

import datetime
import io
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Int

from miwae._extras import extra
from miwae.errors import DataError


class Frame(NamedTuple):
    """A table without any format: columns of Python objects (None is missing), or of pyarrow."""

    names: tuple[str, ...]
    columns: tuple[Any, ...]

    @classmethod
    def of_rows(cls, names: tuple[str, ...], rows: Sequence[Sequence[Any]]) -> "Frame":
        return cls(names, tuple(zip(*rows, strict=True)) or ((),) * len(names))

    def taken(self, rows: Iterable[int]) -> "Frame":
        places = [int(row) for row in rows]
        parts = (
            column.take(places) if _is_arrow(column) else [column[i] for i in places]
            for column in self.columns
        )
        return Frame(self.names, tuple(parts))


NO_COLUMNS = Frame((), ())


def only_at(column: Any, rows: Int[np.ndarray, " H"]) -> Any:
    """A column with the values of some rows, and nothing in the others."""
    places: list[int | None] = [None] * len(column)
    for row in rows.tolist():
        places[row] = row
    if _is_arrow(column):
        return column.take(extra("pyarrow").array(places, "int64"))
    return [None if place is None else column[place] for place in places]


def stacked(frames: Iterable[Frame]) -> Frame:
    """Frames of the same columns, one below the other."""
    names, columns = zip(*frames, strict=True)
    return Frame(names[0], tuple(map(_joined, zip(*columns, strict=True))))


def _joined(parts: Sequence[Any]) -> Any:
    if not _is_arrow(parts[0]):
        return [value for part in parts for value in part]
    # A column without values has the type null in the original, and another in completed copies.
    kind = parts[-1].type
    same = (part if part.type == kind else part.cast(kind) for part in parts)
    chunks = [chunk for part in same for chunk in part.chunks]
    return extra("pyarrow").chunked_array(chunks, kind)


def _is_arrow(column: Any) -> bool:
    return hasattr(column, "chunks")


def objects_of(column: Any) -> list[Any]:
    """The cells of a column as Python objects, None where missing."""
    values = _in_microseconds(column).to_pylist() if _is_arrow(column) else column
    return [None if isinstance(value, float) and np.isnan(value) else value for value in values]


def _in_microseconds(column: Any) -> Any:
    """Times in the unit of Python, which has no nanoseconds."""
    pa, kind = extra("pyarrow"), column.type
    if getattr(kind, "unit", "") != "ns":
        return column
    zone = {"tz": kind.tz} if pa.types.is_timestamp(kind) else {}
    make = pa.timestamp if zone else pa.duration if pa.types.is_duration(kind) else pa.time64
    return column.cast(make("us", **zone), safe=False)


def texts_of(column: Any, name: str, decimals: int | None = None) -> list[str]:
    """The cells of a column as texts, empty where missing; `decimals` are those of floats."""
    if _is_arrow(column):
        return _arrow_texts(column, name)
    instants = [value for value in column if isinstance(value, datetime.datetime)]
    days = all(value.timetz() == datetime.time() for value in instants)
    return [_text(value, days=days, decimals=decimals) for value in column]


def _text(value: Any, *, days: bool, decimals: int | None) -> str:
    """Times in ISO 8601, flags as true and false, instants as dates where all are midnights."""
    if isinstance(value, str):
        return value
    if value is None:
        return ""
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, datetime.datetime) and days:
        return value.date().isoformat()
    if isinstance(value, datetime.date | datetime.time):
        return value.isoformat()
    if isinstance(value, datetime.timedelta):
        return _duration_text(value)
    if isinstance(value, float) and decimals is not None:
        return f"{value:.{decimals}f}"
    return str(value)


def _duration_text(span: datetime.timedelta) -> str:
    """Hours, of which there can be many, minutes, and seconds with their fraction."""
    seconds, fraction = divmod(abs(span), datetime.timedelta(seconds=1))
    sign = "-" if span < datetime.timedelta() else ""
    text = f"{sign}{seconds // 3600}:{seconds // 60 % 60:02d}:{seconds % 60:02d}"
    return text + (f".{fraction.microseconds:06d}" if fraction else "")


def _arrow_texts(column: Any, name: str) -> list[str]:
    """Texts as pyarrow writes them; it has none for durations."""
    pa = extra("pyarrow")
    if pa.types.is_duration(column.type):
        return texts_of(objects_of(column), name)
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    try:
        return ["" if text is None else text for text in column.cast(pa.string()).to_pylist()]
    except pa.ArrowException as error:
        raise DataError(f"column {name!r} cannot be written as text: {error}") from error


def arrow_table(frame: Frame) -> Any:
    arrays = map(_arrow_array, frame.columns, frame.names)
    return extra("pyarrow").table(list(arrays), names=list(frame.names))


def _arrow_array(column: Any, name: str) -> Any:
    if _is_arrow(column):
        return column
    pa = extra("pyarrow")
    try:
        array = pa.array(column, from_pandas=True)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise DataError(
            f"column {name!r} holds cells of several types, which Parquet and Feather cannot: "
            f"{error}"
        ) from error
    except OverflowError:
        largest = max((value for value in column if isinstance(value, int)), key=abs)
        raise DataError(
            f"column {name!r} holds a whole number of {largest.bit_length()} bits, of which these "
            "formats have 64: write a text format, or drop the column"
        ) from None
    # A column without values: numbers are what it would be read as in a text file.
    return array.cast(pa.float64()) if pa.types.is_null(array.type) else array


def arrow_bytes(table: Any, suffix: str) -> memoryview:
    """A table of pyarrow as the content of a file: Parquet, or Feather for other suffixes."""
    sink = io.BytesIO()
    try:
        if suffix == ".parquet":
            extra("pyarrow.parquet").write_table(table, sink)
        else:  # whose columns have one dictionary each
            extra("pyarrow.feather").write_feather(table.unify_dictionaries(), sink)
    except extra("pyarrow").ArrowException as error:
        raise DataError(f"a column cannot be written as {suffix[1:]}: {error}") from error
    return sink.getbuffer()
