"""Lines of comment before the names, which many programs write: kept, but not read."""

import csv
import io
import itertools
import re
from collections.abc import Set

from miwae.table.text.records import sniffed_delimiter

__all__ = ["split_comments"]

# One line, and the blank ones after it.
_COMMENT = re.compile(rb"#[^\r\n]*(?:\r\n|\n|\r)(?:[ \t]*(?:\r\n|\n|\r))*")
_DIGIT_FIRST = re.compile(r"[+-]?[.,]?\d")

# Characters that hold the first records: enough for a thousand columns, and no field is too wide
# for the csv module.
_START = 1 << 16


def split_comments(
    data: bytes, delimiter: str | None, encoding: str, na_words: Set[str], *, header: bool
) -> tuple[bytes, bytes]:
    """The leading lines that begin with #, with the blank lines after them, and the rest.

    The last of them belongs to the table if that has no other header (or, without a header, if it
    is cut into as many fields as the rest). Where all lines begin with #, none is a comment.

    Args:
        data: a text in its inner encoding.
        delimiter: between fields; None to find out.
        encoding: of `data`.
        na_words: texts that stand for no value.
        header: whether the table has names.
    """
    last, end = 0, 0
    while found := _COMMENT.match(data, end):
        last, end = end, found.end()
    rest = data[end:]
    if not end or not rest.strip():
        return b"", data
    mark = delimiter or sniffed_delimiter(rest)
    (line,) = _first_records(data[last:end].rstrip(b"\r\n"), mark, encoding, 1)
    records = _first_records(rest, mark, encoding, 2)
    belongs = len(line) == len(records[0])
    if header:
        belongs &= _lacks_header(records, na_words, spaced=line[0].startswith("# "))
    else:
        belongs &= len(line) > 1
    return (data[:last], data[last:]) if belongs else (data[:end], rest)


def _first_records(data: bytes, delimiter: str, encoding: str, count: int) -> list[list[str]]:
    """The fields of the first records, as well as they can be told before all is read."""
    text = data[:_START].decode(encoding, errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(itertools.islice(reader, count))


def _lacks_header(records: list[list[str]], na_words: Set[str], *, spaced: bool) -> bool:
    """Whether a table starts with data: with numbers or holes, which names are not.

    Where nothing but text follows, a space after the # makes it a comment.
    """
    looks = [_looks_like_data(record, na_words) for record in records]
    return looks[0] or not (spaced or any(looks))


def _looks_like_data(record: list[str], na_words: Set[str]) -> bool:
    cells = [cell.strip() for cell in record]
    return any(cell in na_words or _DIGIT_FIRST.match(cell) for cell in cells)
