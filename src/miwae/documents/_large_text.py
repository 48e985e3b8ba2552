"""Text files that are too large for memory: read, and written, in pieces of some megabytes.

A piece is a document of its own, so that its observed cells keep their characters. What the cells
of a column mean depends on all of them: one pass finds it out, and pieces are read and written as
the whole file would be. Where pieces do not show that, there is no `LargeText`, and the file is
read as a whole.
"""

import codecs
import contextlib
import gzip
import itertools
import os
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np

from miwae.columns import Column
from miwae.documents._cells import ParsedColumn
from miwae.documents._dialect import QUOTE, Dialect, decoded
from miwae.documents._document import most_unpacked
from miwae.documents._formats import NO_FORMAT, CellFormat, NumberFormat, example_of
from miwae.documents._opening import open_text, with_decimal_mark
from miwae.documents._records import split_records
from miwae.documents._text import TextDocument, TextReading
from miwae.documents._times import TimeFormat
from miwae.errors import DataError

# Bytes of a piece at least and, where no record ends, at most; and of what is read at once.
PIECE_BYTES, MOST_BYTES, BLOCK_BYTES = 2**24, 2**27, 2**20

_GZIP = b"\x1f\x8b"

# Bytes that are no character of this encoding.
_NOT_IN_CP1252 = (0x81, 0x8D, 0x8F, 0x90, 0x9D)


class Irregular(Exception):
    """The pieces of a file do not show what the whole would."""


class Known(NamedTuple):
    """What a column holds and how it is written, in all pieces: like a column that was learned."""

    storage: str
    form: CellFormat
    quoted: bool

    @property
    def example(self) -> str:
        return "" if self.storage == "text" else example_of(self.form)

    def united(self, other: "Known") -> "Known":
        """Of two pieces.

        Raises:
            Irregular: one is not written as the other.
        """
        if self.storage != other.storage:
            raise Irregular
        return Known(self.storage, _united(self.form, other.form), self.quoted and other.quoted)


def _united(one: CellFormat, other: CellFormat) -> CellFormat:
    """The format of a column with cells of both, as one pass through all of them would find it."""
    if isinstance(one, NumberFormat) and isinstance(other, NumberFormat):
        exponent = one.exponent or other.exponent
        shown = {
            "decimals": 0 if exponent else max(one.decimals, other.decimals),
            "exponent": exponent,
        }
        both, same = replace(one, **shown), replace(other, **shown)
    elif isinstance(one, TimeFormat) and isinstance(other, TimeFormat):
        shown = {
            "padded": one.padded and other.padded,
            "padded_hour": one.padded_hour and other.padded_hour,
            "seconds": one.seconds or other.seconds,
            "decimals": max(one.decimals, other.decimals),
        }
        both, same = replace(one, **shown), replace(other, **shown)
    else:
        both, same = one, other
    if both != same:
        raise Irregular
    return both


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class LargeText:
    """The records of a file, in pieces that end where records end."""

    path: Path
    first: TextDocument  # the first piece, whose header and dialect are those of the file
    known: tuple[Known | None, ...]  # None for columns without values
    lengths: tuple[int, ...]  # rows of each piece

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    def readings(
        self, marks: Iterable[Any], like: Sequence[Any] | None = None, start: int = 0
    ) -> Iterator[TextReading]:
        """The pieces from this one on, understood as parts of the whole.

        Raises:
            DataError: the file has changed meanwhile.
        """
        pieces = _documents(self.first, str(self.path), start)
        for n_rows, document in zip(self.lengths[start:], pieces, strict=True):
            reading = document.read(marks, _filled_up(self.known, like))
            if document.n_rows != n_rows or not all(map(_agree, reading.parsed, self.known)):
                raise DataError(f"{self.path} has changed while it was read: start again")
            yield _as_whole(reading, self.known)


def _filled_up(known: Sequence[Known | None], like: Sequence[Any] | None) -> list[Any]:
    """What is known of each column; what was learned, of those without values."""
    others = like or [Known("number", NO_FORMAT, quoted=False)] * len(known)
    return [own or other for own, other in zip(known, others, strict=True)]


def _agree(parsed: ParsedColumn, known: Known | None) -> bool:
    return not parsed.column.n_observed or (
        known is not None and parsed.column.storage == known.storage
    )


def _as_whole(reading: TextReading, known: Sequence[Known | None]) -> TextReading:
    """A piece whose cells are written as those of the whole file."""
    parsed = tuple(
        own if whole is None else own._replace(form=whole.form, quoted=whole.quoted)
        for own, whole in zip(reading.parsed, known, strict=True)
    )
    columns = tuple(map(_column_as_whole, reading.columns, known))
    return replace(reading, parsed=parsed, columns=columns)


def _column_as_whole(column: Column, known: Known | None) -> Column:
    if known is None:
        return column
    if not column.n_observed:  # which says nothing of its type
        column = replace(column, storage=known.storage, levels=(), whole=True)
    return replace(column, example=known.example)


def open_large_text(
    path: str,
    marks: Iterable[Any] = (),
    like: Sequence[Any] | None = None,
    *,
    encoding: str | None = None,
    allow_large: bool = False,
    callback: Callable[[int], None] | None = None,
    **options: Any,
) -> LargeText | None:
    """Find out in one pass what the columns of a file hold.

    None where pieces do not show what the whole would: it is then read as a whole, which also
    explains what is wrong with it.

    Args:
        path: of the file.
        marks: values that mean missing, as for `Document.read`.
        like: what was learned about each column, as for `Document.read`.
        encoding: of the text; None to find out.
        allow_large: read a file that becomes hundreds of times larger, too.
        callback: gets the number of bytes that have been read of the file.
        options: those of `open_document`.
    """
    try:
        if not allow_large:
            _require_usual_size(path)
        name = _encoding(path, encoding)
        head = next(_pieces(path))
        asked = encoding if name == "utf-8" else name  # a guess also refuses what is no text
        first = open_text(head, encoding=asked, **options)
        if first.dialect.delimiter != ",":
            first = replace(first, dialect=_decimals(first, path))
        known, lengths, mixed = _looked_at(first, path, marks, like, callback)
        if mixed:  # such as dates of which only some pieces show whether the day comes first
            held = _filled_up(known, like)
            known, lengths, mixed = _looked_at(first, path, marks, held)
    except (Irregular, DataError, LookupError, OSError, EOFError, zlib.error):
        return None
    for j in mixed:  # zip codes of which only some begin with 0
        known[j] = Known("text", NO_FORMAT, quoted=known[j].quoted)
    return LargeText(path=Path(path), first=first, known=tuple(known), lengths=tuple(lengths))


def _looked_at(
    first: TextDocument,
    path: str,
    marks: Iterable[Any],
    like: Sequence[Any] | None,
    callback: Callable[[int], None] | None = None,
) -> tuple[list[Any], list[int], set[int]]:
    """What each column holds, the rows of each piece, and which columns some pieces have as text.

    Raises:
        Irregular: a column holds something else in some pieces, or is written otherwise.
    """
    known: list[Any] = [None] * len(first.names)
    lengths, mixed = [], set[int]()
    for document in _documents(first, path, callback=callback):
        lengths.append(document.n_rows)
        for j, parsed in enumerate(document.read(marks, like).parsed):
            if not parsed.column.n_observed:
                continue
            own = Known(parsed.column.storage, parsed.form, parsed.quoted)
            before = own if known[j] is None else known[j]
            if (own.storage == "text") != (before.storage == "text"):
                mixed.add(j)
                quoted = own.quoted and before.quoted
                known[j] = (before if own.storage == "text" else own)._replace(quoted=quoted)
            else:
                known[j] = before.united(own)
    return known, lengths, mixed


def _documents(
    first: TextDocument, path: str, start: int = 0, callback: Callable[[int], None] | None = None
) -> Iterator[TextDocument]:
    """The pieces of a file from this one on."""
    n_lines = 0
    for number, raw in enumerate(_pieces(path, callback)):
        if number >= start:
            yield _further(first, raw, n_lines) if number else first
        n_lines += raw.count(b"\n")


def _further(first: TextDocument, raw: bytes, n_lines: int) -> TextDocument:
    """A piece that is not the first, and has no header."""
    inner, _, mark = decoded(raw, first.dialect.encoding)
    fields, _ = split_records(inner, first.dialect.delimiter, above=n_lines)
    if mark or len(fields) != len(first.names):
        raise Irregular
    return replace(
        first,
        n_rows=len(fields[0].starts),
        dialect=replace(first.dialect, header=False, bom=b""),
        comments=b"",
        n_above=n_lines,
        data=np.frombuffer(inner, dtype=np.uint8),
        records=fields,
    )


def _pieces(path: str, callback: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The bytes of a file, cut where records end."""
    held = b""
    for block in _blocks(path, callback):
        if len(held) >= PIECE_BYTES and (end := _end_of_records(held)):
            if held[:end].endswith((b"\n\n", b"\n\r\n")):
                raise Irregular  # a line without fields, in the middle
            yield held[:end]
            held = held[end:]
        if len(held) > MOST_BYTES:
            raise Irregular
        held += block
    yield held


def _end_of_records(data: bytes) -> int:
    """Where the last line ends that is not inside of quotes; 0 if there is none.

    If quotes are used irregularly it may be inside of some. Such a piece has a quote that is never
    closed, and cannot be read.
    """
    text = np.frombuffer(data, dtype=np.uint8)
    ends, quotes = (np.flatnonzero(text == ord(mark)) for mark in ("\n", QUOTE))
    ends = ends[np.searchsorted(quotes, ends) % 2 == 0]
    return int(ends[-1]) + 1 if len(ends) else 0


def _blocks(path: str, callback: Callable[[int], None] | None = None) -> Iterator[bytes]:
    """The content of a file, or of the file that is packed in it."""
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
        file.seek(0)
        with gzip.GzipFile(fileobj=file) if is_gzip else contextlib.nullcontext(file) as content:
            while block := content.read(BLOCK_BYTES):
                if callback is not None:
                    callback(file.tell())
                yield block


def _require_usual_size(path: str) -> None:
    """Leave a file that would unpack to hundreds of times its size to who refuses it."""
    n_packed, n_bytes = os.path.getsize(path), 0
    with open(path, "rb") as file:
        is_gzip = file.read(2) == _GZIP
    for block in _blocks(path) if is_gzip else ():
        n_bytes += len(block)
        if n_bytes > most_unpacked(n_packed):
            raise Irregular


def _encoding(path: str, given: str | None) -> str:
    """The encoding of a file: the given one, UTF-8, or what fits instead.

    Raises:
        Irregular: characters have several bytes in which a line end or a quote could hide.
    """
    if given is not None:
        every = bytes(range(256)).decode(given, "replace")
        if len(every) != 256 or every[:128] != bytes(range(128)).decode():
            raise Irregular
        return given
    decoder, is_utf8, used = codecs.getincrementaldecoder("utf-8")(), True, np.zeros(256, bool)
    for block in itertools.chain(_blocks(path), [b""]):
        used[np.frombuffer(block, np.uint8)] = True
        try:
            decoder.decode(block, final=not block)
        except UnicodeDecodeError:
            is_utf8 = False
            decoder.reset()
    if used[0]:
        raise Irregular
    if is_utf8:
        return "utf-8"
    return "latin-1" if used[list(_NOT_IN_CP1252)].any() else "cp1252"


def _decimals(first: TextDocument, path: str) -> Dialect:
    """The dialect with the decimal mark that pieces show.

    Raises:
        Irregular: some show a point, and others a comma.
    """
    dialects = {with_decimal_mark(document) for document in _documents(first, path)}
    marks = {own.decimal for own in dialects if own.decimal_shown}
    if len(marks) > 1:
        raise Irregular
    shown = bool(marks)
    return replace(first.dialect, decimal=marks.pop() if marks else ".", decimal_shown=shown)
