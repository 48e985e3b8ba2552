"""Lines above the names: comments are kept but not read, titles are refused."""

import csv
import io
import itertools
import re
from collections.abc import Set

from miwae.documents._records import DELIMITERS, sniffed_delimiter
from miwae.errors import DataError

# One line, and the blank ones after it.
_COMMENT = re.compile(rb"#[^\r\n]*(?:\r\n|\n|\r)(?:[ \t]*(?:\r\n|\n|\r))*")
# A line by which Excel learns the delimiter.
_DELIMITER_LINE = re.compile(rb'"?sep=(.)"?[\r\n]', re.IGNORECASE)
_FIRST_FIELD = re.compile(("[^\r\n" + re.escape("".join(DELIMITERS)) + "]*").encode())
_DIGIT_FIRST = re.compile(r"[+-]?[.,]?\d")

# Characters that hold the first records: enough for a thousand columns, and no field is too wide
# for the csv module.
_START = 1 << 16

# Lines that are compared with the first to find out whether it is a title.
_MOST_LINES = 20


def split_comments(
    data: bytes, delimiter: str | None, na_words: Set[str], *, header: bool
) -> tuple[bytes, bytes]:
    """The leading lines that begin with #, with the blank lines after them, and the rest.

    The last of them belongs to the table if the table has no other header (or, without a header,
    if it has as many fields as the rest). If all lines begin with #, none is a comment; nor is a
    line that begins with a word for missing values, such as #N/A.
    """
    last, end = 0, 0
    while found := _COMMENT.match(data, end):
        field = _FIRST_FIELD.match(data, end)
        if field and field[0].decode().strip() in na_words:
            break
        last, end = end, found.end()
    rest = data[end:]
    if not end or not rest.strip():
        return b"", data
    mark = delimiter or sniffed_delimiter(rest)
    (line,) = _first_records(data[last:end].rstrip(b"\r\n"), mark, 1)
    records = _first_records(rest, mark, 2)
    belongs = len(line) == len(records[0])
    if header:
        belongs &= _lacks_header(records, na_words, spaced=line[0].startswith("# "))
    else:
        belongs &= len(line) > 1
    return (data[:last], data[last:]) if belongs else (data[:end], rest)


def refuse_title(data: bytes, na_words: Set[str], *, above: int) -> None:
    """Refuse a first line that is a title above the names, or that names the delimiter.

    It is a title if all other lines, except blank ones, have the same number of fields, but this
    one has another number, and if the next line is a header: it has no numbers, and lines below
    have some. It is not a title if another delimiter splits all lines alike.
    """
    if named := _DELIMITER_LINE.match(data):
        raise DataError(
            f"line {above + 1} names the delimiter and belongs to no table: delete it, and name "
            f"the delimiter ({named[1].decode()!r}) if another one is found"
        )
    split = [list(filter(None, _first_records(data, m, _MOST_LINES))) for m in DELIMITERS]
    if any(records and {len(r) for r in records} == {len(records[0])} != {1} for records in split):
        return
    for records in split:
        widths = {len(record) for record in records[1:]}
        if len(records) < 3 or len(widths) > 1 or widths & {1, len(records[0])}:
            continue
        looks = [_looks_like_data(record, na_words) for record in records[1:]]
        if not looks[0] and any(looks):
            raise DataError(
                f"line {above + 1} looks like a title, since all lines below have {widths.pop()} "
                "fields: delete what is above the names, or begin these lines with #"
            )


def _first_records(data: bytes, delimiter: str, count: int) -> list[list[str]]:
    """The fields of the first records, split by the csv module, which is exact enough here."""
    text = data[:_START].decode(errors="replace")
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    return list(itertools.islice(reader, count))


def _lacks_header(records: list[list[str]], na_words: Set[str], *, spaced: bool) -> bool:
    """Whether a table starts with data: with numbers or missing values, which names are not."""
    looks = [_looks_like_data(record, na_words) for record in records]
    # Where nothing but text follows, a space after the # makes it a comment.
    return looks[0] or not (spaced or any(looks))


def _looks_like_data(record: list[str], na_words: Set[str]) -> bool:
    """Whether some cell is a number or a word for missing; a blank may be a column's name."""
    cells = [cell.strip() for cell in record]
    return any(cell and (cell in na_words or _DIGIT_FIRST.match(cell)) for cell in cells)
