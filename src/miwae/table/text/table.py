"""Tables of text cells, of which every one is given back character for character."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int, UInt8

from miwae.errors import DataError
from miwae.table.base import AbstractTable, Column, Fill, Storage
from miwae.table.frames.shared import check_names
from miwae.table.text.cells import (
    Missing,
    NumberStyle,
    ParsedColumn,
    Style,
    TextStyle,
    cell_texts,
    parse_column,
    style_of,
    trimmed,
)
from miwae.table.text.records import (
    TextFormat,
    encoded,
    in_quotes,
    inner_encoding,
)
from miwae.table.text.spans import Spans, appended, joined, pasted, span_bytes
from miwae.table.text.times import TimeStyle

__all__ = ["TextTable"]

# How cells are written where neither this file nor the one that was learned tells.
_SPECIMENS = {
    "time": "1999-03-25T13:45:30",
    "clock": "09:45:30",
    "boolean": "true",
    "number": "1.5e-07",
}

# Rows that are put together at a time: the indices of their bytes take eight times their size.
_ROWS_AT_ONCE = 100_000


class TextTable(AbstractTable):
    """Rows of raw fields in one buffer of bytes; nothing is copied before it is changed.

    Args:
        names: of the columns.
        header: the raw fields of the header; empty if there is none.
        data: the buffer.
        fields: for each column, where its raw fields are.
        terminators: where the line's end of each row is.
        format: how the file is written.
        na_words: texts that stand for no value.
        comments: the lines before the table.
        tail: the blank lines after the last row.
        orders: of day and month ("dmy", "mdy") by name of the column, where its cells do not tell.
        origin: the table that this one is a part of, and its first row there. Columns are typed by
            all rows of the origin, so that parts agree.
    """

    typed: ClassVar[bool] = False

    def __init__(
        self,
        *,
        names: tuple[str, ...],
        header: tuple[bytes, ...],
        data: UInt8[np.ndarray, " B"],
        fields: tuple[Spans, ...],
        terminators: Spans,
        format: TextFormat,
        na_words: frozenset[str],
        comments: bytes = b"",
        tail: bytes = b"",
        orders: Mapping[str, str] | None = None,
        origin: "tuple[TextTable, int] | None" = None,
    ) -> None:
        self._names = names
        self._header = header
        self._data = data
        self._fields = fields
        self._terminators = terminators
        self._format = format
        self._na_words = na_words
        self._comments = comments
        self._tail = tail
        self._orders = dict(orders or {})
        self._origin = origin
        self._parsed: dict[tuple[int, Missing], ParsedColumn] = {}
        # What counted as missing when a column was last asked for: fills are written accordingly.
        self._asked: dict[int, Missing] = {}

    @property
    def native(self) -> "TextTable":
        """The table itself."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._names

    @property
    def n_rows(self) -> int:
        """Its length, without the header."""
        return len(self._terminators.starts)

    @property
    def format(self) -> TextFormat:
        """How the file is written."""
        return self._format

    @property
    def na_words(self) -> frozenset[str]:
        """Texts that stand for no value."""
        return self._na_words

    @property
    def _encoding(self) -> str:
        return inner_encoding(self._format.encoding)

    def _replaced(self, **changes: Any) -> "TextTable":
        kept = {
            "names": self._names,
            "header": self._header,
            "data": self._data,
            "fields": self._fields,
            "terminators": self._terminators,
            "format": self._format,
            "na_words": self._na_words,
            "comments": self._comments,
            "tail": self._tail,
            "orders": self._orders,
        }
        return TextTable(**{**kept, **changes})

    @property
    def n_comments(self) -> int:
        """Lines before the table that are not read."""
        return sum(bool(line.strip()) for line in self._comments.splitlines())

    def texts(self, position: int) -> list[str]:
        """The cells of a column as Python strings, without quotes and the spaces around them."""
        spans, quoted = trimmed(self._data, self._fields[position])
        return cell_texts(self._data, spans, quoted, self._encoding)

    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form, typed by the content of its cells."""
        missing = Missing(self._na_words).also(missing_values)
        self._asked[position] = missing
        return self._column(position, missing).column

    def as_learned(
        self,
        position: int,
        storage: Storage,
        specimen: str = "",
        missing_values: tuple[Any, ...] = (),
    ) -> Column:
        """A column read as another was, where its cells do not tell, or look otherwise.

        Text that was learned stays text (zip codes without leading zeros); dates have their day
        where it was learned to be; cells of a column without values are written as learned.
        """
        column = self.column(position, missing_values)
        if storage == "text":
            return self._as_text(position, column) if column.n_observed else column
        style = self._with_own_mark(style_of(specimen or _SPECIMENS.get(storage, "")))
        key = (position, self._asked[position])
        if column.n_observed == 0:
            self._parsed[key] = self._parsed[key]._replace(style=style)
        elif column.storage == "text":
            parsed = self._parse(position, self._asked[position], style)
            if parsed.column.storage == storage:
                self._parsed[key] = parsed
        return self._parsed[key].column

    def _with_own_mark(self, style: Style) -> Style:
        """A manner of writing with the decimal mark of this file, if it has one."""
        if not isinstance(style, NumberStyle):
            return style
        observed = (j for j in range(len(self._names)) if self._as_asked(j).column.n_observed)
        shown = self._format.delimiter == "," or any(map(self.decimals, observed))
        return replace(style, mark=self._format.decimal) if shown else style

    def _as_text(self, position: int, column: Column) -> Column:
        texts = np.array(self.texts(position), dtype=object)
        levels, codes = np.unique(texts[~column.missing], return_inverse=True)
        values = np.full(len(texts), np.nan)
        values[~column.missing] = codes
        return replace(
            column, storage="text", values=values, levels=tuple(levels), whole=False, specimen=""
        )

    def _column(self, position: int, missing: Missing) -> ParsedColumn:
        key = (position, missing)
        if key not in self._parsed:
            self._parsed[key] = (
                self._parse(position, missing)
                if self._origin is None
                else self._part_of_origin(position, missing)
            )
        return self._parsed[key]

    def _parse(self, position: int, missing: Missing, like: Style | None = None) -> ParsedColumn:
        """A column, typed by its cells and, where these do not tell, by another's manner."""
        name = self._names[position]
        return parse_column(
            name,
            self._data,
            self._fields[position],
            missing,
            encoding=self._encoding,
            mark=like.mark if isinstance(like, NumberStyle) else self._format.decimal,
            order=like.order if isinstance(like, TimeStyle) else self._orders.get(name),
        )

    def _part_of_origin(self, position: int, missing: Missing) -> ParsedColumn:
        assert self._origin is not None
        table, start = self._origin
        whole = table._column(position, missing)
        part = slice(start, start + self.n_rows)
        column = replace(
            whole.column, values=whole.column.values[part], missing=whole.column.missing[part]
        )
        if column.levels:
            used, codes = np.unique(column.values[~column.missing], return_inverse=True)
            values = np.full(self.n_rows, np.nan)
            values[~column.missing] = codes
            levels = tuple(column.levels[int(code)] for code in used)
            column = replace(column, values=values, levels=levels)
        return whole._replace(column=column)

    def decimals(self, position: int) -> int:
        """The most digits after the decimal mark in a column; 0 if it is not of numbers."""
        style = self._as_asked(position).style
        return style.decimals if isinstance(style, NumberStyle) else 0

    def has_zone(self, position: int) -> bool:
        """Whether a column is of times that say how far they are from UTC."""
        style = self._as_asked(position).style
        return isinstance(style, TimeStyle) and bool(style.zone)

    def order(self, position: int) -> str:
        """Of year, month and day in a column of dates: "dmy", say; empty if it is none."""
        style = self._as_asked(position).style
        return style.order if isinstance(style, TimeStyle) else ""

    def with_format(self, format: TextFormat) -> "TextTable":
        """The same raw fields, said to be written in another way."""
        return self._replaced(format=format)

    def with_orders(self, orders: Mapping[str, str]) -> "TextTable":
        """The same cells, with the order of day and month of columns whose cells do not tell it.

        Args:
            orders: "dmy" or "mdy", by name of the column.
        """
        return self._replaced(orders=orders)

    def missing_words(self) -> dict[str, int]:
        """How often each word was taken for no value, the most frequent first."""
        counts: Counter[str] = Counter()
        for position, raw in enumerate(self._fields):
            absent = self._column(position, Missing(self._na_words)).column.missing
            spans, quoted = trimmed(self._data, raw.taken(absent))
            counts.update(cell_texts(self._data, spans, quoted, self._encoding))
        return dict(counts.most_common())

    def fill(self, fills: Mapping[int, Fill]) -> "TextTable":
        """A copy with some cells replaced; all others character for character."""
        cells: dict[int, tuple[np.ndarray, list[bytes]]] = {}
        for position, fill in fills.items():
            if fill.storage == "duration":
                raise DataError(
                    f"column {self._names[position]!r} was learned from durations, which text "
                    "files are not filled with: use Parquet, Feather or Excel"
                )
            _, style, quoted = self._as_asked(position)
            cells[position] = (
                fill.rows,
                [self._format.field(text, quoted=quoted) for text in _texts(style, fill)],
            )
        return self._with_cells(cells)

    def _as_asked(self, position: int) -> ParsedColumn:
        return self._column(position, self._asked_for(position))

    def _asked_for(self, position: int) -> Missing:
        if position not in self._asked and self._origin is not None:
            return self._origin[0]._asked_for(position)
        return self._asked.get(position, Missing(self._na_words))

    def _with_cells(self, cells: Mapping[int, tuple[np.ndarray, list[bytes]]]) -> "TextTable":
        """With raw fields replaced: their bytes go behind all others."""
        data, new = appended(self._data, [raw for _, raws in cells.values() for raw in raws])
        fields, used = list(self._fields), 0
        for position, (rows, raws) in cells.items():
            fields[position] = fields[position].replaced(rows, new.part(used, used + len(raws)))
            used += len(raws)
        return self._replaced(data=data, fields=tuple(fields))

    def keep(self, positions: Sequence[int]) -> "TextTable":
        """Only some of the columns."""
        origin = self._origin and (self._origin[0].keep(positions), self._origin[1])
        kept = self._replaced(
            names=tuple(self._names[j] for j in positions),
            header=tuple(self._header[j] for j in positions) if self._header else (),
            fields=tuple(self._fields[j] for j in positions),
            origin=origin,
        )
        for new, old in enumerate(positions):
            kept._asked[new] = self._asked_for(old)
            kept._parsed |= {(new, m): c for (j, m), c in self._parsed.items() if j == old}
        return kept

    def rows(self, start: int, stop: int) -> "TextTable":
        """Some consecutive rows; their columns are typed as those of the whole table."""
        start, stop, _ = slice(start, stop).indices(self.n_rows)
        stop = max(start, stop)
        spans = [span.part(start, stop) for span in (*self._fields, self._terminators)]
        # Only the bytes of these rows: parts that are filled and stacked copy their buffers.
        low = min(int(span.starts.min(initial=len(self._data))) for span in spans)
        high = max(int(span.ends.max(initial=low)) for span in spans)
        spans = [span.moved(-low) for span in spans]
        table, offset = (self, 0) if self._origin is None else self._origin
        return self._replaced(
            data=self._data[low:high],
            fields=tuple(spans[:-1]),
            terminators=spans[-1],
            tail=self._tail if stop == self.n_rows else b"",
            origin=(table, offset + start),
        )

    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "TextTable":
        """With further columns: integers, or flags as true and false."""
        check_names([*columns, *self._names])
        texts = [_flag_texts(values) for values in columns.values()]
        data, spans = appended(self._data, [text for column in texts for text in column])
        places = range(0, self.n_rows * len(columns), max(self.n_rows, 1))
        fields = tuple(spans.part(k, k + self.n_rows) for k in places)
        if not self.n_rows:
            fields = (spans,) * len(columns)
        names = tuple(columns)
        header = tuple(self._format.field(name) for name in names) if self._format.header else ()
        if first:
            names, header, fields = (
                names + self._names,
                header + self._header,
                fields + self._fields,
            )
        else:
            names, header, fields = (
                self._names + names,
                self._header + header,
                self._fields + fields,
            )
        return self._replaced(data=data, names=names, header=header, fields=fields)

    def with_delimiter(self, delimiter: str) -> "TextTable":
        """The same cells between other marks: fields that hold the new one are quoted."""
        marks = np.flatnonzero(self._data == ord(delimiter))
        cells = {}
        for position, raw in enumerate(self._fields):
            inside = np.searchsorted(marks, raw.ends) > np.searchsorted(marks, raw.starts)
            rows = np.flatnonzero(inside & ~_starts_quoted(self._data, raw))
            cells[position] = (
                rows,
                list(map(in_quotes, span_bytes(self._data, raw.taken(rows)))),
            )
        header = tuple(
            in_quotes(raw) if delimiter.encode() in raw and not raw.startswith(b'"') else raw
            for raw in self._header
        )
        form = replace(self._format, delimiter=delimiter)
        return self._with_cells(cells)._replaced(header=header, format=form)

    @classmethod
    def stacked(cls, tables: Sequence["TextTable"]) -> "TextTable":
        """Tables of the same columns, one below the other, written as the first one is."""
        first = tables[0]
        for table in tables:
            first._refuse_unlike(table)
        ended = [table._with_last_line_ended() for table in tables[:-1]] + [tables[-1]]
        sizes = [len(table._data) for table in ended]
        return first._replaced(
            data=np.concatenate([table._data for table in ended]),
            fields=tuple(
                joined([table._fields[j] for table in ended], sizes)
                for j in range(len(first.names))
            ),
            terminators=joined([table._terminators for table in ended], sizes),
            tail=tables[-1]._tail,
        )

    def _refuse_unlike(self, other: "TextTable") -> None:
        if self._names != other._names:
            raise DataError("tables of different columns cannot be put below each other")
        ours, theirs = (
            (t._format.delimiter, t._format.decimal, t._encoding) for t in (self, other)
        )
        if ours != theirs:
            raise DataError(
                "tables of different delimiters, decimal marks or encodings cannot be put below "
                f"each other: {ours} and {theirs}"
            )

    def _with_last_line_ended(self) -> "TextTable":
        """With an end of the last line, since more lines follow."""
        if not self.n_rows or self._terminators.ends[-1] > self._terminators.starts[-1]:
            return self
        data, new = appended(self._data, [self._format.line_terminator.encode()])
        return self._replaced(
            data=data, terminators=self._terminators.replaced(slice(-1, None), new)
        )

    def to_bytes(self) -> bytes:
        """The content of a file."""
        form = self._format
        pieces = [self._comments]
        if self._header:
            ended = self.n_rows or form.final_newline
            pieces.append(form.delimiter.encode().join(self._header))
            pieces.append(form.line_terminator.encode() if ended else b"")
        data, mark = appended(self._data, [form.delimiter.encode()])
        for start in range(0, self.n_rows, _ROWS_AT_ONCE):
            pieces.append(self._joined_rows(data, mark, start, start + _ROWS_AT_ONCE))
        return encoded(b"".join([*pieces, self._tail]), form.encoding, form.bom)

    def _joined_rows(
        self, data: UInt8[np.ndarray, " B"], mark: Spans, start: int, stop: int
    ) -> bytes:
        last = self._terminators.part(start, stop)
        marks = Spans(*(np.broadcast_to(place, len(last.starts)) for place in mark))
        columns: list[Spans] = []
        for raw in self._fields:
            columns += [raw.part(start, stop), marks]
        return pasted(data, [*columns[:-1], last])


def _texts(style: Style, fill: Fill) -> list[str]:
    """The values of a fill as a column writes them; a level is a level in any column."""
    within = (fill.lower, fill.upper) if isinstance(style, NumberStyle | TextStyle) else ()
    return [v if isinstance(v, str) else style.text(v, *within) for v in fill.values.tolist()]


def _starts_quoted(data: UInt8[np.ndarray, " B"], raw: Spans) -> Bool[np.ndarray, " N"]:
    quoted = raw.ends > raw.starts
    quoted[quoted] = data[raw.starts[quoted]] == ord('"')
    return quoted


def _flag_texts(values: Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]) -> list[bytes]:
    if values.dtype == bool:
        return [(b"false", b"true")[flag] for flag in values.tolist()]
    return [str(value).encode() for value in values.tolist()]
