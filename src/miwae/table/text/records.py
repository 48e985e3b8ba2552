"""A text file as records of raw fields, found by their place and never copied.

Fields are kept as they stand in the file, quotes included, so that what is not changed is written
back character for character; the `csv` module loses which fields were quoted.
"""

import codecs
import re
from array import array
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

from miwae.errors import DataError
from miwae.table.text.spans import Spans, index_type

__all__ = [
    "DELIMITERS",
    "QUOTE",
    "Records",
    "TextFormat",
    "decoded",
    "encoded",
    "in_quotes",
    "inner_encoding",
    "sniffed_delimiter",
    "split_records",
]

QUOTE = '"'

# Tried in this order: a file of decimal commas between semicolons is cut evenly by both marks, and
# nobody writes a semicolon, bar or tab in each header and cell of a file that commas separate.
DELIMITERS = ("\t", ";", "|", ",")

_LF, _CR = 10, 13

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)

# In these a delimiter's byte is always a delimiter, so files can be cut without being decoded.
_CUT_AS_BYTES = {"ascii", "utf-8", "cp1252", "iso8859-1"}

# What other programs' files start with, where a NUL byte need not follow soon.
_MAGIC = (b"\x1f\x8b", b"PK\x03\x04", b"PAR1", b"ARROW1", b"%PDF", b"\x89PNG", b"\xd0\xcf\x11\xe0")


@dataclass(frozen=True, kw_only=True)
class TextFormat:
    """How a file of text cells is written.

    Attributes:
        delimiter: between fields.
        quotechar: around fields that hold a delimiter, a quote or a line's end.
        encoding: of the characters, without the mark of byte order.
        bom: the mark of byte order at the start of the file, or nothing.
        line_terminator: at the end of the first record, and of those that are added.
        decimal: the decimal mark, "." or ",".
        final_newline: whether the last record ended with a line terminator.
        header: whether the first record holds the names.
    """

    delimiter: str = ","
    quotechar: str = QUOTE
    encoding: str = "utf-8"
    bom: bytes = b""
    line_terminator: str = "\n"
    decimal: str = "."
    final_newline: bool = True
    header: bool = True

    def field(self, text: str, *, quoted: bool = False) -> bytes:
        """A text as a raw field in the inner encoding: in quotes if asked, or if it must be."""
        try:
            # What the file's own encoding cannot write must fail here, where the text is known.
            text.encode(self.encoding)
        except UnicodeEncodeError:
            raise DataError(
                f"{text!r} cannot be written in {self.encoding}, the encoding of the file: "
                "convert the file to UTF-8"
            ) from None
        raw = text.encode(inner_encoding(self.encoding))
        special = (self.delimiter, self.quotechar, "\n", "\r")
        return in_quotes(raw) if quoted or any(mark in text for mark in special) else raw


def in_quotes(raw: bytes) -> bytes:
    """A field between quotes, those in it doubled."""
    mark = QUOTE.encode()
    return mark + raw.replace(mark, mark * 2) + mark


class Records(NamedTuple):
    """Where the fields of a text are.

    Attributes:
        fields: for each column, the raw fields of all records, the header's among them.
        terminators: what follows the last field of each record: a line's end, or nothing.
        tail: the blank lines after the last record.
    """

    fields: tuple[Spans, ...]
    terminators: Spans
    tail: bytes


def inner_encoding(encoding: str) -> str:
    """The encoding of a text in memory: its own where bytes can be cut, otherwise UTF-8."""
    name = codecs.lookup(encoding).name
    return name if name in _CUT_AS_BYTES else "utf-8"


def _refuse_binary(data: bytes) -> None:
    sample = data[:65536]
    control = sum(byte < 32 and byte not in b"\t\n\v\f\r\x1a\x1b" for byte in sample)
    if b"\0" in data or data.startswith(_MAGIC) or control > len(sample) // 20:
        raise DataError(
            "this is not a text table: it holds bytes that no text has. If it is text without a "
            "mark of byte order, name its encoding (utf-16-le, say); if it is of another "
            "format, give it that format's suffix"
        )


def _guessed_encoding(data: bytes) -> str:
    _refuse_binary(data)
    for encoding in ("utf-8", "cp1252"):
        try:
            data.decode(encoding)
        except UnicodeDecodeError:
            continue
        return encoding
    return "latin-1"


def decoded(data: bytes, encoding: str | None) -> tuple[bytes, str, bytes]:
    """A text in its inner encoding, its encoding, and its mark of byte order.

    Args:
        data: the content of a file.
        encoding: as the caller knows it; None to find out. A mark of byte order decides alone.
    """
    bom, marked = next(((b, name) for b, name in _BOMS if data.startswith(b)), (b"", None))
    if encoding is not None:
        try:
            encoding = codecs.lookup(encoding).name
        except LookupError:
            raise DataError(
                f"there is no encoding {encoding!r}: try 'utf-8' or 'cp1252'"
            ) from None
        # Without a mark, these two mean what this machine would write.
        encoding = {"utf-16": "utf-16-le", "utf-8-sig": "utf-8"}.get(encoding, encoding)
    body = data[len(bom) :]
    name = marked or encoding or _guessed_encoding(body)
    try:
        text = body.decode(name)
    except UnicodeDecodeError as error:
        raise DataError(
            f"byte {error.start + len(bom)} is no {name}: give another encoding"
        ) from None
    if "\0" in text:
        _refuse_binary(b"\0")
    if inner_encoding(name) == codecs.lookup(name).name:
        return body, name, bom
    if text.encode(name) != body:
        raise DataError(
            f"this text cannot be written back unchanged in {name}: convert it to UTF-8"
        )
    return text.encode("utf-8"), name, bom


def encoded(inner: bytes, encoding: str, bom: bytes) -> bytes:
    """The inverse of `decoded`."""
    here = inner_encoding(encoding)
    if here == codecs.lookup(encoding).name:
        return bom + inner
    return bom + inner.decode(here).encode(encoding)


def _newline(data: UInt8[np.ndarray, " B"], quotes: Int[np.ndarray, " Q"]) -> int:
    """What ends a line: LF, unless there is only CR outside of quotes, as in old Mac files."""
    if not np.any(data == _CR):
        return _LF
    feeds = np.flatnonzero(data == _LF)
    return _LF if np.any(np.searchsorted(quotes, feeds) % 2 == 0) else _CR


def _quotes_are_regular(
    data: UInt8[np.ndarray, " B"], quotes: Int[np.ndarray, " Q"], ends: tuple[int, ...]
) -> bool:
    """Whether quotes open only where a field starts, and close only where it ends.

    Then a separator is one if the number of quotes before it is even. Doubled quotes inside of a
    field close and open it again with nothing in between.
    """
    if len(quotes) % 2:
        return False
    opening, closing = quotes[0::2], quotes[1::2]
    before = np.isin(data[opening - 1], ends) | (opening == 0)
    before[1:] |= opening[1:] == closing[:-1] + 1
    after = np.isin(data[np.minimum(closing + 1, len(data) - 1)], (*ends, _CR))
    after |= closing == len(data) - 1
    after[:-1] |= opening[1:] == closing[:-1] + 1
    return bool(before.all() and after.all())


def _line_of(data: UInt8[np.ndarray, " B"], place: int, newline: int) -> int:
    return 1 + int(np.count_nonzero(data[:place] == newline))


def _separators_one_by_one(
    data: UInt8[np.ndarray, " B"], delimiter: str, newline: int, *, partial: bool, above: int
) -> Int[np.ndarray, " S"]:
    """The separators of a text whose quotes are irregular: field after field, as RFC 4180 says.

    A quote opens a field only as its first character; elsewhere it is a character like others.
    """
    stop = re.escape(delimiter.encode()) + (b"\\n" if newline == _LF else b"\\r")
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
    field = re.compile(rb"(?:%b|(?!\"))[^%b]*+" % (quoted, stop))
    text = data.tobytes()
    found = array("q")
    place = 0
    while True:
        match = field.match(text, place)
        if match is None:
            if partial:
                break
            line = above + _line_of(data, place, newline)
            raise DataError(f"line {line} opens a quote that is never closed")
        if match.end() == len(text):
            break
        found.append(match.end())
        place = match.end() + 1
    return np.frombuffer(found, dtype=np.int64) if found else np.zeros(0, dtype=np.int64)


def _separators(
    data: UInt8[np.ndarray, " B"], delimiter: str, *, partial: bool = False, above: int = 0
) -> tuple[Int[np.ndarray, " S"], int]:
    """Where fields end, but for the last one, and the byte that ends lines."""
    quotes = np.flatnonzero(data == ord(QUOTE))
    newline = _newline(data, quotes)
    if not _quotes_are_regular(data, quotes, (ord(delimiter), newline)):
        return (
            _separators_one_by_one(data, delimiter, newline, partial=partial, above=above),
            newline,
        )
    places = np.flatnonzero((data == ord(delimiter)) | (data == newline))
    if len(quotes):
        places = places[np.searchsorted(quotes, places) % 2 == 0]
    return places, newline


def _delimiter_counts(
    sample: UInt8[np.ndarray, " B"], delimiter: str, *, complete: bool
) -> Int[np.ndarray, " R"]:
    """The number of delimiters in each of the first records, without one that is cut off."""
    places, newline = _separators(sample, delimiter, partial=True)
    ends = np.flatnonzero(sample[places] == newline)
    if complete or not len(ends):
        ends = np.append(ends, len(places))
    return np.diff(ends[:100], prepend=-1) - 1


def sniffed_delimiter(data: bytes) -> str:
    """The mark that cuts the first records into as many fields as the first record of all.

    Where none does so for at least half of them, but one cuts all others alike, the header is too
    short or too long, which is left to be refused. Otherwise the file has a single column, and the
    delimiter is one that does not occur.
    """
    # Enough for a hundred records of a thousand columns.
    size = 1 << 20
    sample = np.frombuffer(data[:size].rstrip(b"\r\n"), dtype=np.uint8)
    complete = len(data) <= size
    counts = {mark: _delimiter_counts(sample, mark, complete=complete) for mark in DELIMITERS}
    counts = {mark: n for mark, n in counts.items() if n[0]}
    agreement = {mark: float(np.mean(n == n[0])) for mark, n in counts.items()}
    best = max(counts, key=agreement.__getitem__, default="")
    if best and agreement[best] >= 0.5:
        return best
    for mark, n in counts.items():
        if len(n) > 2 and n[1] and np.all(n[1:] == n[1]):
            return mark
    return next((mark for mark in reversed(DELIMITERS) if mark.encode() not in data), ",")


def _refuse_ragged(
    data: UInt8[np.ndarray, " B"],
    places: Int[np.ndarray, " S"],
    counts: Int[np.ndarray, " R"],
    newline: int,
    above: int,
) -> None:
    ragged = np.flatnonzero(counts != counts[0])
    if not len(ragged):
        return
    first = int(ragged[0])
    before = int(np.sum(counts[:first]))
    line = above + _line_of(data, int(places[before - 1]) + 1, newline)
    found, expected = int(counts[first]), int(counts[0])
    top = f"line {above + 1}" if above else "the first line"
    raise DataError(
        f"line {line} has {found} field{'s' * (found != 1)}, but {top} has {expected}: "
        "correct the line, or name the delimiter if it is not the one that was found"
    )


def split_records(data: bytes, delimiter: str, *, above: int = 0) -> Records:
    """Find all fields of a text.

    Args:
        data: the text in its inner encoding.
        delimiter: between fields.
        above: how many lines of the file come before it, for messages.

    Raises:
        DataError: a record has more or fewer fields than the first, a quote is not closed, or
            there is no record.
    """
    n_bytes = len(data.rstrip(b"\r\n"))
    if not n_bytes:
        raise DataError("the file is empty: it has no header and no rows")
    text = np.frombuffer(data, dtype=np.uint8, count=n_bytes)
    places, newline = _separators(text, delimiter, above=above)
    line_ends = np.append(np.flatnonzero(text[places] == newline), len(places))
    counts = np.diff(line_ends, prepend=-1)
    _refuse_ragged(text, places, counts, newline, above)

    after = data[n_bytes:]
    last = 2 if after.startswith(b"\r\n") else min(len(after), 1)
    small = index_type(len(data))
    n_fields = int(counts[0])
    ends = np.append(places, n_bytes).astype(small).reshape(-1, n_fields).T.copy()
    starts = np.empty_like(ends)
    starts[1:] = ends[:-1] + 1
    starts[0, 0] = 0
    starts[0, 1:] = ends[-1, :-1] + 1
    next_record = np.append(starts[0, 1:], small(n_bytes + last))
    if newline == _LF:
        # CR LF: the CR belongs to the line's end. Where the content ends it was cut off above.
        ends[-1, :-1] -= _ends_with_return(text, starts[-1, :-1], ends[-1, :-1])
    fields = tuple(Spans(starts[j], ends[j]) for j in range(n_fields))
    return Records(fields, Spans(ends[-1], next_record), after[last:])


def _ends_with_return(
    text: UInt8[np.ndarray, " B"], starts: Int[np.ndarray, " R"], ends: Int[np.ndarray, " R"]
) -> np.ndarray:
    return (ends > starts) & (text[ends - 1] == _CR)
