"""A text file as records of raw fields, which are found by position and never copied.

Fields are kept as they stand in the file, quotes included, so that what is not changed is written
back character for character; the `csv` module does not say which fields were quoted.
"""

import re
from array import array
from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int, UInt8

from miwae.documents._dialect import QUOTE
from miwae.errors import DataError

Bytes: TypeAlias = UInt8[np.ndarray, " B"]
Places: TypeAlias = Int[np.ndarray, " N"]
Separators: TypeAlias = Int[np.ndarray, " S"]
Quotes: TypeAlias = Int[np.ndarray, " Q"]
Counts: TypeAlias = Int[np.ndarray, " R"]  # of delimiters or fields in each record

# Tried in this order: a file of decimal commas between semicolons is split evenly by both marks,
# and nobody writes a semicolon, bar or tab in each header and cell of a file that commas separate.
DELIMITERS = ("\t", ";", "|", ",")

_LF, _CR = 10, 13

# The first bytes, in which the delimiter is looked for: a hundred records of a thousand columns.
_SAMPLE = 1 << 20

# Wider pieces are copied one by one. A float64 has 24 characters at most.
_WIDEST = 32


class Spans(NamedTuple):
    """Pieces of a buffer: the i-th is `buffer[starts[i]:ends[i]]`."""

    starts: Places
    ends: Places

    def taken(self, which: np.ndarray | slice) -> "Spans":
        return Spans(self.starts[which], self.ends[which])


def fixed_width(data: Bytes, spans: Spans) -> np.ndarray | None:
    """The pieces as one array of bytes `S<width>`, or None where some are wide."""
    widths = spans.ends - spans.starts
    width = int(widths.max(initial=1))
    if width > _WIDEST:
        return None
    letters = [data.take(spans.starts + k, mode="clip") * (k < widths) for k in range(width)]
    return np.stack(letters, axis=1).view(f"S{width}").ravel()


def span_bytes(data: Bytes, spans: Spans) -> list[bytes]:
    if (pieces := fixed_width(data, spans)) is not None:  # no text has a NUL of its own
        return pieces.tolist()
    view = data.data
    pairs = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return [bytes(view[start:end]) for start, end in pairs]


def spliced(data: Bytes, changes: Iterable[tuple[Spans, Sequence[bytes]]]) -> bytes:
    new = [
        place
        for spans, pieces in changes
        for place in zip(spans.starts.tolist(), spans.ends.tolist(), pieces, strict=True)
    ]
    view, out, done = data.data, [], 0
    for start, end, piece in sorted(new, key=lambda place: place[:2]):  # equal ones as given
        out += [view[done:start], piece]
        done = end
    return b"".join([*out, view[done:]])


def split_records(data: bytes, delimiter: str, *, above: int = 0) -> tuple[tuple[Spans, ...], str]:
    """For each column, the raw fields of all records, and what ends the first record."""
    n_bytes = len(data.rstrip(b"\r\n"))
    if not n_bytes:
        raise DataError("the file is empty: it has no header and no rows")
    text = np.frombuffer(data, dtype=np.uint8, count=n_bytes)
    places, newline = _separators(text, delimiter, above=above)
    line_ends = np.append(np.flatnonzero(text[places] == newline), len(places))
    counts = np.diff(line_ends, prepend=-1)
    _refuse_ragged(text, places, counts, newline, above)

    # There are two positions per cell: the smaller type halves their memory.
    small = np.int32 if len(data) < 2**31 else np.int64
    n_fields = int(counts[0])
    ends = np.append(places, n_bytes).astype(small).reshape(-1, n_fields).T.copy()
    starts = np.empty_like(ends)
    starts[1:] = ends[:-1] + 1
    starts[0, 0] = 0
    starts[0, 1:] = ends[-1, :-1] + 1
    if newline == _LF:
        # In CR LF the CR belongs to the line end; that of the last record was stripped above.
        last, stop = starts[-1, :-1], ends[-1, :-1]
        stop -= (stop > last) & (text[stop - 1] == _CR)
    first = data[ends[-1, 0] :][:2]
    terminator = "\r\n" if first == b"\r\n" else first[:1].decode() or "\n"
    return tuple(Spans(starts[j], ends[j]) for j in range(n_fields)), terminator


def sniffed_delimiter(data: bytes) -> str:
    """The mark that splits the first records into as many fields as the very first one.

    Where none does so for at least half of them, but one splits all records after the first alike,
    the header is too short or too long, and `split_records` will refuse it. Otherwise the file has
    a single column, and the delimiter is one that does not occur.
    """
    sample = np.frombuffer(data[:_SAMPLE].rstrip(b"\r\n"), dtype=np.uint8)
    complete = len(data) <= _SAMPLE
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


def _delimiter_counts(sample: Bytes, delimiter: str, *, complete: bool) -> Counts:
    """The number of delimiters in each of the first records, without one that is cut off."""
    places, newline = _separators(sample, delimiter, partial=True)
    ends = np.flatnonzero(sample[places] == newline)
    if complete or not len(ends):
        ends = np.append(ends, len(places))
    return np.diff(ends[:100], prepend=-1) - 1


def _separators(
    data: Bytes, delimiter: str, *, partial: bool = False, above: int = 0
) -> tuple[Separators, int]:
    """Where all fields but the last end, and the byte that ends lines."""
    quotes = np.flatnonzero(data == ord(QUOTE))
    newline = _newline(data, quotes)
    if not _quotes_are_regular(data, quotes, (ord(delimiter), newline)):
        places = _separators_one_by_one(data, delimiter, newline, partial=partial, above=above)
        return places, newline
    places = np.flatnonzero((data == ord(delimiter)) | (data == newline))
    if len(quotes):
        places = places[np.searchsorted(quotes, places) % 2 == 0]
    return places, newline


def _newline(data: Bytes, quotes: Quotes) -> int:
    """What ends a line: LF, unless there is only CR outside of quotes, as in old Mac files."""
    if not np.any(data == _CR):
        return _LF
    feeds = np.flatnonzero(data == _LF)
    return _LF if np.any(np.searchsorted(quotes, feeds) % 2 == 0) else _CR


def _quotes_are_regular(data: Bytes, quotes: Quotes, ends: tuple[int, ...]) -> bool:
    """Whether quotes open only where a field starts, and close only where it ends.

    Then a delimiter separates fields if the number of quotes before it is even. A doubled quote
    inside a field closes it and opens it again with nothing in between.
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


def _separators_one_by_one(
    data: Bytes, delimiter: str, newline: int, *, partial: bool, above: int
) -> Separators:
    """The separators of a text with irregular quotes, found field by field as in RFC 4180.

    A quote opens a field only as its first character; elsewhere it is a character like others.
    """
    stop = re.escape(delimiter.encode()) + (b"\\n" if newline == _LF else b"\\r")
    quoted = rb'"[^"]*+(?:""[^"]*+)*+"'
    field = re.compile(rb"(?:%b|(?!\"))[^%b]*+" % (quoted, stop))
    text, found, place = data.tobytes(), array("q"), 0
    while (match := field.match(text, place)) and match.end() < len(text):
        found.append(match.end())
        place = match.end() + 1
    if match is None and not partial:
        line = above + _line_of(data, place, newline)
        raise DataError(f"line {line} opens a quote that is never closed")
    return np.array(found, dtype=np.int64)


def _line_of(data: Bytes, place: int, newline: int) -> int:
    return 1 + int(np.count_nonzero(data[:place] == newline))


def _refuse_ragged(
    data: Bytes, places: Separators, counts: Counts, newline: int, above: int
) -> None:
    first = int(np.argmax(counts != counts[0]))
    if not first:
        return
    before = int(np.sum(counts[:first]))
    line = above + _line_of(data, int(places[before - 1]) + 1, newline)
    found, expected = int(counts[first]), int(counts[0])
    top = f"line {above + 1}" if above else "the first line"
    raise DataError(
        f"line {line} has {found} field{'s' * (found != 1)}, but {top} has {expected}: "
        "correct the line, or name the delimiter if it is not the one that was found"
    )
