"""CSV and TSV files, in which every character of an observed cell stays as it is."""

import datetime
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Int

from miwae._words import counted
from miwae.columns import Cells, Hint, filled_objects
from miwae.documents._cells import (
    CellTexts,
    Known,
    Missing,
    ParsedColumn,
    cell_texts,
    format_of,
    parse_column,
    plain_numbers,
)
from miwae.documents._dialect import QUOTE, Dialect, in_quotes
from miwae.documents._document import Document, Family, Patch, Reading
from miwae.documents._formats import NumberFormat, cell_texts_of
from miwae.documents._frame import NO_COLUMNS, Frame
from miwae.documents._records import Bytes, Spans, span_bytes, spliced
from miwae.documents._times import TimeFormat
from miwae.errors import DataError, SettingsError

# How cells are written where neither this file nor what was learned shows it.
_EXAMPLES = {
    "time": "1999-03-25T13:45:30",
    "clock": "09:45:30",
    "boolean": "true",
    "number": "1.5e-07",
}

# A word for missing values, which can also be a level (a house without a fence).
NONE = "None"

# Python converts 4,300 digits of an integer at most.
MOST_DIGITS = 4300


@dataclass(frozen=True, kw_only=True, eq=False)
class TextDocument(Document):
    """The bytes of a file, and where the raw fields of its columns are."""

    family: ClassVar[Family] = "text"
    row_word: ClassVar[str] = "line"
    dialect: Dialect
    na_words: frozenset[str]
    comments: bytes  # the lines above the table
    n_above: int = 0  # lines of the file that are above those
    data: Bytes  # the rest of the file, in UTF-8
    records: tuple[Spans, ...]  # the fields of each column, the header's among them
    orders: Mapping[str, str]  # "dmy" or "mdy" by name, where dates do not show which it is

    def row_numbers(self) -> Int[np.ndarray, " N"]:
        """The line on which each record begins."""
        ends = np.flatnonzero(self.data == ord(self.dialect.line_terminator[-1]))
        above = self.n_above + len(self.comments.splitlines())
        return above + 1 + np.searchsorted(ends, self.fields(0).starts)

    def fields(self, position: int) -> Spans:
        """Where the raw fields of a column are, below the header."""
        return self.records[position].taken(slice(int(self.dialect.header), None))

    def cells(self, position: int) -> CellTexts:
        return cell_texts(self.data, self.fields(position))

    def texts(self, position: int) -> list[str]:
        return self.cells(position).texts

    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "TextReading":
        missing = Missing(self.na_words).also(tuple(marks))
        mark, known = self.dialect.decimal, [None] * len(self.names)
        if like is not None:
            known = list(map(self._known, like))
        parsed = tuple(
            plain_numbers(name, self.data, self.fields(j), missing, mark, known[j])
            or parse_column(
                *(name, self.cells(j), missing, mark, self.orders.get(name), known[j]),
                sure=self.dialect.decimal_shown,
            )
            for j, name in enumerate(self.names)
        )
        self._refuse_other_orders(parsed)
        columns = tuple(replace(parts.column, place=self.place) for parts in parsed)
        learned = (parts.column for parts in parsed if parts.as_learned)
        ambiguous = tuple(column.name for column in learned if column.storage == "time")
        return TextReading(
            document=self, columns=columns, ambiguous=ambiguous, parsed=parsed, missing=missing
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

    def quoted(self, delimiter: str, cells: Patch) -> Iterator[tuple[Spans, list[bytes]]]:
        """The fields that stay and contain another delimiter without being quoted, in quotes."""
        marks, top = np.flatnonzero(self.data == ord(delimiter)), int(self.dialect.header)
        for position, spans in enumerate(self.records):
            inside = np.searchsorted(marks, spans.ends) > np.searchsorted(marks, spans.starts)
            inside[inside] = self.data[spans.starts[inside]] != ord(QUOTE)
            if position in cells:
                inside[cells[position].rows + top] = False
            kept = spans.taken(inside)
            yield kept, [in_quotes(field) for field in span_bytes(self.data, kept)]


@dataclass(frozen=True, kw_only=True, eq=False)
class TextReading(Reading):
    document: TextDocument
    parsed: tuple[ParsedColumn, ...]
    missing: Missing

    def patched(self, cells: Patch, suffix: str = "", added: Frame = NO_COLUMNS) -> bytes:
        document, dialect, changes = self.document, self.dialect(suffix), []
        for position, new in cells.items():
            texts, quoted = self.texts(position, new), self.parsed[position].quoted
            fields = [dialect.field(text, quoted=quoted) for text in texts]
            changes.append((document.fields(position).taken(new.rows), fields))
        data = document.data
        if dialect.delimiter != document.dialect.delimiter:
            changes += document.quoted(dialect.delimiter, cells)
            data = data.copy()
            for spans in document.records[:-1]:
                data[spans.ends] = ord(dialect.delimiter)
        if added.names:
            ends = document.records[-1].ends
            changes.append((Spans(ends, ends), dialect.further_fields(added)))
        return dialect.encoded(document.comments + spliced(data, changes))

    def dialect(self, suffix: str) -> Dialect:
        """How a file of this suffix is written: .tsv has tabs, .csv has none."""
        dialect = self.document.dialect
        if suffix == ".tsv":
            return replace(dialect, delimiter="\t")
        if suffix == ".csv" and dialect.delimiter == "\t":
            return replace(dialect, delimiter=";" if dialect.decimal == "," else ",")
        return dialect

    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        names, columns = self.document.names, []
        for position, parsed in enumerate(self.parsed):
            texts, new = self.document.texts(position), cells.get(position)
            if new is not None:
                for row, text in zip(new.rows.tolist(), self.texts(position, new), strict=True):
                    texts[row] = text
                parsed = parsed if as_text else self._again(position, texts, new)
            columns.append(texts if as_text else _objects(parsed, texts))
        return Frame(names, tuple(columns))

    def missing_words(self) -> dict[str, int]:
        counts = sum(map(self._words_of, range(len(self.columns))), Counter[str]())
        return dict(counts.most_common())

    def _words_of(self, position: int) -> Counter[str]:
        """How often each word was taken as missing in a column."""
        document, column = self.document, self.columns[position]
        spans = document.fields(position).taken(column.missing)
        return Counter(cell_texts(document.data, spans).texts)

    def hints(self) -> tuple[Hint, ...]:
        """That None may be a level, where the file has another word for missing cells."""
        others = [word for word in self.missing_words() if word != NONE]
        options = " ".join(f"--na {shlex.quote(word)}" for word in others)
        hints = []
        for position, column in enumerate(self.columns):
            count = self._words_of(position)[NONE] if column.storage == "text" and others else 0
            if count:
                text = (
                    f"column {column.name!r} has the word None in {counted(count, 'cell')}, taken "
                    f"as missing, though the file writes {others[0]!r} for that: is it a level?"
                )
                hints.append(Hint(column.name, text, f"--only-na {options}"))
        return tuple(hints)

    def texts(self, position: int, cells: Cells) -> list[str]:
        column, form, *_ = self.parsed[position]
        if cells.storage == "duration":
            raise DataError(
                f"column {column.name!r} was learned from durations, which text files are not "
                "filled with: use Parquet, Feather or Excel"
            )
        return cell_texts_of(cells, form)

    def _again(self, position: int, texts: list[str], new: Cells) -> ParsedColumn:
        """A completed column, typed anew, since it may have had no values before."""
        column, form, *_ = self.parsed[position]
        storage = (not column.n_observed and new.storage) or column.storage
        mark, order = self.document.dialect.decimal, self.document.orders.get(column.name)
        cells, known = CellTexts(texts, [False] * len(texts)), Known(storage, form)
        return parse_column(column.name, cells, self.missing, mark, order, known)


def _objects(parsed: ParsedColumn, texts: list[str]) -> np.ndarray:
    """The values of a column's cells as Python objects, None where missing."""
    column, form, *_ = parsed
    rows, objects = np.flatnonzero(~column.missing), np.full(len(texts), None)
    if column.storage == "text" or column.whole:
        # Integers from their texts, since float64 has no digits after the sixteenth.
        # Python does not convert thousands of digits, which are infinite as a float.
        kept = (texts[row] for row in rows.tolist())
        make = str
        if column.whole and isinstance(form, NumberFormat):
            kept = map(form.plain, kept)
            make = lambda t: int(t) if len(t) < MOST_DIGITS else float(t)  # noqa: E731
        objects[rows] = [make(text) for text in kept]
        return objects
    cells = Cells(rows, column.values[rows], storage=column.storage)
    objects = filled_objects(objects, cells, column.name)
    if isinstance(form, TimeFormat) and form.zone:
        objects[rows] = [instant.replace(tzinfo=datetime.UTC) for instant in objects[rows]]
    return objects
