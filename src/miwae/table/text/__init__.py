"""CSV files and their kin: found out how they are written, and read without losing a character."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

import numpy as np
from jaxtyping import UInt8

from miwae.errors import DataError
from miwae.table.frames.shared import check_names
from miwae.table.text.cells import cell_texts, trimmed
from miwae.table.text.comments import refuse_title, split_comments
from miwae.table.text.records import (
    TextFormat,
    decoded,
    inner_encoding,
    sniffed_delimiter,
    split_records,
)
from miwae.table.text.spans import Spans, span_bytes
from miwae.table.text.table import TextTable

__all__ = ["DEFAULT_NA", "TextFormat", "TextTable", "read_text"]

DEFAULT_NA = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None"),
    *("?", ".", "-", "#N/A", "#NA", "<NA>", "NaT"),
)

# 1,000 in a file without decimal commas is a thousand: read as text, it does no harm. So is 1.000
# in a file with them.
_THOUSANDS = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for mark in ".,"}


def _named(header: Sequence[str]) -> tuple[str, ...]:
    """Names for all columns: those without one are called after their place."""
    check_names([name for name in header if name])
    names: list[str] = []
    for place, name in enumerate(header, start=1):
        new = name or f"column_{place}"
        while not name and (new in header or new in names):
            new += "_"
        names.append(new)
    return tuple(names)


def _with_decimal_mark(table: TextTable) -> TextTable:
    """With the comma as decimal mark, if it makes numbers and no column needs the point."""
    if table.format.delimiter == ",":
        return table
    other = table.with_format(replace(table.format, decimal=","))
    positions = range(len(table.names))
    if any(_has_decimals(table, j) for j in positions):
        return table
    return other if any(_has_decimals(other, j) for j in positions) else table


def _has_decimals(table: TextTable, position: int) -> bool:
    """Whether a column is of numbers whose marks do not all look like those of thousands."""
    if not table.decimals(position):
        return False
    mark = table.format.decimal
    thousands = _THOUSANDS[mark].fullmatch
    return any(mark in text and not thousands(text) for text in table.texts(position))


def read_text(
    data: bytes,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    na_words: Iterable[str] = DEFAULT_NA,
    header: bool = True,
) -> TextTable:
    """Read the content of a CSV file.

    Lines before the table that begin with # are comments: they are kept, but not read.

    Args:
        data: the content.
        delimiter: between fields; None to find out (comma, semicolon, tab or bar).
        encoding: of the characters; None to find out. A mark of byte order decides alone.
        na_words: texts that stand for no value, without quotes and spaces around them.
        header: whether the first record holds the names.

    Raises:
        DataError: the content is no table of text; the message names the line.
    """
    inner, encoding, bom = decoded(data, encoding)
    if header and inner.strip() and inner.startswith((b"\n", b"\r")):
        raise DataError("line 1 is blank, where the names should be: delete it")
    if delimiter is not None:
        _require_delimiter(delimiter)
    words = frozenset(word.strip() for word in na_words)
    comments, inner = split_comments(
        inner, delimiter, inner_encoding(encoding), words, header=header
    )
    above = len(comments.splitlines())
    if delimiter is None:
        if header:
            refuse_title(inner, inner_encoding(encoding), words, above=above)
        delimiter = sniffed_delimiter(inner)
    records = split_records(inner, delimiter, above=above)
    buffer = np.frombuffer(inner, dtype=np.uint8)
    below, end = int(header), len(records.terminators.starts)
    texts = _header_texts(buffer, records.fields, inner_encoding(encoding), header=header)
    raw = tuple(span_bytes(buffer, spans.part(0, below)) for spans in records.fields)
    first_end, last_end = (
        span_bytes(buffer, records.terminators.part(i, i + 1))[0] for i in (0, end - 1)
    )
    form = TextFormat(
        delimiter=delimiter,
        encoding=encoding,
        bom=bom,
        line_terminator=(first_end or b"\n").decode(),
        final_newline=bool(last_end),
        header=header,
    )
    table = TextTable(
        names=_named(texts),
        header=tuple(field for fields in raw for field in fields),
        data=buffer,
        fields=tuple(spans.part(below, end) for spans in records.fields),
        terminators=records.terminators.part(below, end),
        format=form,
        na_words=words,
        comments=comments,
        tail=records.tail,
    )
    return _with_decimal_mark(table) if b"," in inner else table


def _require_delimiter(delimiter: str) -> None:
    if len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n':
        raise DataError(f"a delimiter is one character such as ',' or ';', not {delimiter!r}")


def _header_texts(
    data: UInt8[np.ndarray, " B"], fields: Sequence[Spans], encoding: str, *, header: bool
) -> list[str]:
    """The texts of the first record, or nothing for each column."""
    if not header:
        return [""] * len(fields)
    first = [trimmed(data, spans.part(0, 1)) for spans in fields]
    return [cell_texts(data, spans, quoted, encoding)[0] for spans, quoted in first]
