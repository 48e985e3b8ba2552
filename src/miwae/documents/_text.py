"""CSV and TSV files, in which every character of an observed cell stays as it is."""

import datetime
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int, UInt8

from miwae.columns import Cells, filled_objects
from miwae.documents._cells import (
    Known,
    Missing,
    ParsedColumn,
    cell_texts,
    format_of,
    parse_column,
)
from miwae.documents._dialect import QUOTE, Dialect, in_quotes, inner_encoding
from miwae.documents._document import Document, Family, Patch, Reading
from miwae.documents._formats import NumberFormat, cell_texts_of
from miwae.documents._frame import Frame
from miwae.documents._spans import Spans, appended, pasted, span_bytes
from miwae.documents._times import TimeFormat
from miwae.errors import DataError, SettingsError

__all__ = ["TextDocument", "TextReading"]

# How cells are written where neither this file nor what was learned shows it.
_EXAMPLES = {
    "time": "1999-03-25T13:45:30",
    "clock": "09:45:30",
    "boolean": "true",
    "number": "1.5e-07",
}

# Python converts 4,300 digits of an integer at most.
MOST_DIGITS = 4300

# Rows that are put together at a time: the indices of their bytes take eight times their size.
_ROWS_AT_ONCE = 100_000

# Raw fields for some rows of a column, by position of the column.
_RawFields = Mapping[int, tuple[Int[np.ndarray, " H"], list[bytes]]]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextDocument(Document):
    """Rows of raw fields in one buffer of bytes.

    Attributes:
        dialect: how the file is written.
        na_words: texts that mean missing.
        header: the raw fields of the header; empty if there is none.
        data: the buffer.
        fields: for each column, where its raw fields are.
        terminators: where the line end of each row is.
        comments: the lines above the table.
        tail: the blank lines after the last row.
        orders: "dmy" or "mdy" by name of the column, where its dates do not show which it is.
    """

    family: ClassVar[Family] = "text"

    dialect: Dialect
    na_words: frozenset[str]
    header: tuple[bytes, ...]
    data: UInt8[np.ndarray, " B"]
    fields: tuple[Spans, ...]
    terminators: Spans
    comments: bytes
    tail: bytes
    orders: Mapping[str, str]

    def texts(self, position: int) -> list[str]:
        """The cells of a column, without quotes and the spaces around them."""
        encoding = inner_encoding(self.dialect.encoding)
        return cell_texts(self.data, self.fields[position], encoding)

    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "TextReading":
        missing = Missing(self.na_words).also(tuple(marks))
        parsed = tuple(
            self.parsed(position, missing, None if like is None else self._known(like[position]))
            for position in range(len(self.names))
        )
        self._refuse_other_orders(parsed)
        columns = tuple(parts.column for parts in parsed)
        ambiguous = tuple(
            column.name
            for column, parts in zip(columns, parsed, strict=True)
            if parts.as_learned and column.storage == "time"
        )
        return TextReading(
            document=self, columns=columns, ambiguous=ambiguous, parsed=parsed, missing=missing
        )

    def parsed(self, position: int, missing: Missing, known: Known | None) -> ParsedColumn:
        """A column, typed by its cells and what was learned."""
        return parse_column(
            self.names[position],
            self.data,
            self.fields[position],
            missing,
            encoding=inner_encoding(self.dialect.encoding),
            mark=self.dialect.decimal,
            order=self.orders.get(self.names[position]),
            known=known,
        )

    def _known(self, column: Any) -> Known:
        """What was learned about a column; the decimal mark that a file shows is its own."""
        form = format_of(column.example or _EXAMPLES.get(column.storage, ""))
        if isinstance(form, NumberFormat) and self.dialect.decimal_shown:
            form = replace(form, mark=self.dialect.decimal)
        return Known(column.storage, form)

    def _refuse_other_orders(self, columns: Sequence[ParsedColumn]) -> None:
        for column, form, *_ in columns:
            given = self.orders.get(column.name)
            shown = form.order if isinstance(form, TimeFormat) else ""
            if given and shown in ("dmy", "mdy") and shown != given:
                wanted = "day" if given == "dmy" else "month"
                raise SettingsError(
                    f"date_orders of {column.name!r} says that the {wanted} is first, but its "
                    f"dates are written as {column.example}: give the other order"
                )

    def with_raw_fields(self, raw: _RawFields) -> "TextDocument":
        """With some raw fields replaced: the bytes of the new ones go behind all others."""
        data, new = appended(self.data, [field for _, fields in raw.values() for field in fields])
        spans, used = list(self.fields), 0
        for position, (rows, fields) in raw.items():
            spans[position] = spans[position].replaced(rows, new.part(used, used + len(fields)))
            used += len(fields)
        return replace(self, data=data, fields=tuple(spans))

    def with_delimiter(self, delimiter: str) -> "TextDocument":
        """The same cells with another delimiter: fields that contain it are quoted."""
        marks = np.flatnonzero(self.data == ord(delimiter))
        raw = {}
        for position, spans in enumerate(self.fields):
            inside = np.searchsorted(marks, spans.ends) > np.searchsorted(marks, spans.starts)
            rows = np.flatnonzero(inside & ~_starts_quoted(self.data, spans))
            raw[position] = (rows, [*map(in_quotes, span_bytes(self.data, spans.taken(rows)))])
        mark = delimiter.encode()
        header = tuple(
            in_quotes(field) if mark in field and not field.startswith(b'"') else field
            for field in self.header
        )
        dialect = replace(self.dialect, delimiter=delimiter)
        return replace(self.with_raw_fields(raw), header=header, dialect=dialect)

    def to_bytes(self) -> bytes:
        """The content of the file."""
        dialect = self.dialect
        pieces = [self.comments]
        if self.header:
            ended = self.n_rows or dialect.final_newline
            pieces.append(dialect.delimiter.encode().join(self.header))
            pieces.append(dialect.line_terminator.encode() if ended else b"")
        data, mark = appended(self.data, [dialect.delimiter.encode()])
        for start in range(0, self.n_rows, _ROWS_AT_ONCE):
            pieces.append(self._joined_rows(data, mark, start, start + _ROWS_AT_ONCE))
        return dialect.encoded(b"".join([*pieces, self.tail]))

    def _joined_rows(
        self, data: UInt8[np.ndarray, " B"], mark: Spans, start: int, stop: int
    ) -> bytes:
        last = self.terminators.part(start, stop)
        marks = Spans(*(np.broadcast_to(place, len(last.starts)) for place in mark))
        columns: list[Spans] = []
        for spans in self.fields:
            columns += [spans.part(start, stop), marks]
        return pasted(data, [*columns[:-1], last])


@dataclass(frozen=True, kw_only=True, eq=False)
class TextReading(Reading):
    """What the cells of a text file mean.

    Attributes:
        parsed: the columns with the formats of their cells.
        missing: what means missing.
    """

    document: TextDocument
    parsed: tuple[ParsedColumn, ...]
    missing: Missing

    def patched(self, cells: Patch, suffix: str = "") -> bytes:
        document = self._completed(cells)
        delimiter = self.dialect(suffix).delimiter
        if delimiter != document.dialect.delimiter:
            document = document.with_delimiter(delimiter)
        return document.to_bytes()

    def dialect(self, suffix: str) -> Dialect:
        """How a file of this suffix is written: .tsv has tabs, .csv has none."""
        dialect = self.document.dialect
        if suffix == ".tsv":
            return replace(dialect, delimiter="\t")
        if suffix == ".csv" and dialect.delimiter == "\t":
            return replace(dialect, delimiter=";" if dialect.decimal == "," else ",")
        return dialect

    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        document = self._completed(cells)
        texts = [document.texts(position) for position in range(len(document.names))]
        if not as_text:
            columns = list(self.parsed)
            for position, new in cells.items():
                columns[position] = self._again(document, position, new)
            texts = [_objects(*pair) for pair in zip(columns, texts, strict=True)]
        return Frame(document.names, tuple(texts))

    def missing_words(self) -> dict[str, int]:
        document, counts = self.document, Counter[str]()
        encoding = inner_encoding(document.dialect.encoding)
        for spans, column in zip(document.fields, self.columns, strict=True):
            counts.update(cell_texts(document.data, spans.taken(column.missing), encoding))
        return dict(counts.most_common())

    def _completed(self, cells: Patch) -> TextDocument:
        raw = {}
        for position, new in cells.items():
            column, form, quoted, _ = self.parsed[position]
            if new.storage == "duration":
                raise DataError(
                    f"column {column.name!r} was learned from durations, which text files are not "
                    "filled with: use Parquet, Feather or Excel"
                )
            field = self.document.dialect.field
            raw[position] = (
                new.rows,
                [field(text, quoted=quoted) for text in cell_texts_of(new, form)],
            )
        return self.document.with_raw_fields(raw)

    def _again(self, document: TextDocument, position: int, new: Cells) -> ParsedColumn:
        """A completed column, typed anew, since it may have had no values before."""
        column, form, *_ = self.parsed[position]
        storage = (not column.n_observed and new.storage) or column.storage
        return document.parsed(position, self.missing, Known(storage, form))


def _starts_quoted(data: UInt8[np.ndarray, " B"], raw: Spans) -> Bool[np.ndarray, " N"]:
    quoted = raw.ends > raw.starts
    quoted[quoted] = data[raw.starts[quoted]] == ord(QUOTE)
    return quoted


def _objects(parsed: ParsedColumn, texts: list[str]) -> np.ndarray:
    """The values of a column's cells as Python objects, None where missing."""
    column, form, *_ = parsed
    rows, objects = np.flatnonzero(~column.missing), np.full(len(texts), None)
    if column.storage == "text" or column.whole:
        # Integers from their texts, since float64 has no digits after the sixteenth.
        make = _whole if column.whole else str
        objects[rows] = [make(texts[row]) for row in rows.tolist()]
        return objects
    cells = Cells(rows, column.values[rows], storage=column.storage)
    objects = filled_objects(objects, cells, column.name)
    if isinstance(form, TimeFormat) and form.zone:
        objects[rows] = [instant.replace(tzinfo=datetime.UTC) for instant in objects[rows]]
    return objects


def _whole(text: str) -> int | float:
    """An integer; Python does not convert thousands of digits, which are infinite as a float."""
    return int(text) if len(text) < MOST_DIGITS else float(text)
