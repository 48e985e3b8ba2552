"""What the text of a column's cells means: numbers, words for true and false, times, or text."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int, UInt8

from miwae.errors import DataError
from miwae.table.base import Column
from miwae.table.frames.shared import is_nothing
from miwae.table.text.records import QUOTE
from miwae.table.text.spans import Spans, span_bytes
from miwae.table.text.times import TimeStyle, parsed_times

__all__ = [
    "BooleanStyle",
    "Missing",
    "NumberStyle",
    "ParsedColumn",
    "Style",
    "TextStyle",
    "cell_texts",
    "parse_column",
    "parsed_numbers",
    "specimen_of",
    "style_of",
    "trimmed",
]

_BOOLEANS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
# A zip code or an identifier: what is lost when it is read as a number is its first digit.
_CODE = re.compile(r"[+-]?0\d+(?:[eE][+-]?\d+)?", re.ASCII)

# All that is shown of numbers in columns that write exponents, or that show nothing themselves.
DIGITS = 6

# Whole numbers below are shown in full: beyond, float64 has not all of them.
MOST_WHOLE = 2.0**53

# A second of which every part can be told from every other: 1999-03-25 09:45:30.123456.
_INSTANT = 922355130.123456

# Wider cells are no numbers, but for rare ones that the slow way reads as well.
_WIDEST = 64


@dataclass(frozen=True)
class NumberStyle:
    """How a column writes numbers: characters after the mark, and whether with exponents."""

    decimals: int = 0
    exponent: bool = False
    mark: str = "."

    def text(self, value: Any, lower: float = -np.inf, upper: float = np.inf) -> str:
        """A number, rounded to what the column shows, but not across its bounds."""
        number = float(value)
        if not np.isfinite(number):
            raise DataError(f"cannot fill a cell with {number}")
        text = self._rounded(number)
        if not lower <= float(text) <= upper:
            inwards = 1 if float(text) < lower else -1
            text = self._rounded(float(text) + inwards * self._step(number))
        if not lower <= float(text) <= upper:
            text = f"{Decimal(repr(number)):f}"  # the bounds are closer than the last digit
        if text.startswith("-") and float(text) == 0:
            text = text[1:]
        return text.replace(".", self.mark)

    def _rounded(self, number: float) -> str:
        if not self.exponent:
            return f"{number:.{self.decimals}f}"
        whole = number.is_integer() and abs(number) < MOST_WHOLE
        return f"{number:.0f}" if whole else f"{number:.{DIGITS}g}"

    def _step(self, number: float) -> float:
        """One in the last digit that is shown."""
        first = math.floor(math.log10(abs(number))) if self.exponent and number else 0
        return 10.0 ** (first + 1 - DIGITS if self.exponent else -self.decimals)


@dataclass(frozen=True)
class BooleanStyle:
    """A column's words for false and true."""

    words: tuple[str, str]

    def text(self, value: Any) -> str:
        """The word for a flag."""
        return self.words[int(bool(value))]


@dataclass(frozen=True)
class TextStyle:
    """Text stands for itself; a number that gets here is written shortly."""

    def text(self, value: Any, lower: float = -np.inf, upper: float = np.inf) -> str:
        """The text itself."""
        if isinstance(value, str):
            return value
        return NumberStyle(exponent=True).text(value, lower, upper)


Style = NumberStyle | BooleanStyle | TimeStyle | TextStyle


class ParsedColumn(NamedTuple):
    """A column, and the way to write further cells of it.

    Attributes:
        column: in neutral form.
        style: of its cells.
        quoted: whether all cells that have a value stand in quotes.
    """

    column: Column
    style: Style
    quoted: bool


@dataclass(frozen=True)
class Missing:
    """What stands for no value: words, and numbers however they are written."""

    words: frozenset[str]
    numbers: frozenset[float] = frozenset()

    def also(self, values: tuple[Any, ...]) -> "Missing":
        """With the values that a caller calls missing: compared as text and as numbers."""
        words, numbers = set(self.words), set(self.numbers)
        for value in values:
            if is_nothing(value):  # missing in every library, but not a word in a text
                continue
            words.add(str(value).strip())
            if isinstance(value, bool | np.bool_):
                continue
            try:
                number = float(value)
            except (TypeError, ValueError):
                continue
            numbers.add(number)
            if number.is_integer():
                words.add(str(int(number)))
        return replace(self, words=frozenset(words), numbers=frozenset(numbers))


def specimen_of(style: Style) -> str:
    """A cell that shows the manner in which a column is written; nothing for text."""
    if isinstance(style, TextStyle):
        return ""
    if not isinstance(style, TimeStyle):
        return style.text(1.5e-7)
    # Only a day above 12 is no month, and only one below 10 shows whether it gets a zero.
    if not style.has_date:
        return style.text(_INSTANT % 86400)
    return style.text(_INSTANT - 20 * 86400 if style.month else _INSTANT)


def style_of(specimen: str) -> Style:
    """The manner that a cell shows."""
    mark = "," if "," in specimen else "."
    return _typed([specimen], Missing(frozenset()), mark)[-1]


def trimmed(data: UInt8[np.ndarray, " B"], raw: Spans) -> tuple[Spans, Bool[np.ndarray, " N"]]:
    """Fields without spaces and quotes around them, and which of them were quoted."""
    starts, ends = _without_spaces(data, raw.starts, raw.ends)
    quoted = ends - starts >= 2
    quoted[quoted] &= data[starts[quoted]] == ord(QUOTE)
    quoted[quoted] &= data[ends[quoted] - 1] == ord(QUOTE)
    starts, ends = _without_spaces(data, starts + quoted, ends - quoted)
    return Spans(starts, ends), quoted


def _without_spaces(
    data: UInt8[np.ndarray, " B"], starts: Int[np.ndarray, " N"], ends: Int[np.ndarray, " N"]
) -> tuple[Int[np.ndarray, " N"], Int[np.ndarray, " N"]]:
    starts, ends = starts.copy(), ends.copy()
    left = np.flatnonzero(starts < ends)
    while len(left := left[_is_space(data[starts[left]])]):
        starts[left] += 1
        left = left[starts[left] < ends[left]]
    right = np.flatnonzero(starts < ends)
    while len(right := right[_is_space(data[ends[right] - 1])]):
        ends[right] -= 1
        right = right[starts[right] < ends[right]]
    return starts, ends


def _is_space(values: UInt8[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    return (values == ord(" ")) | (values == ord("\t"))


def _fixed_width(data: UInt8[np.ndarray, " B"], spans: Spans) -> np.ndarray | None:
    """The cells as one array of bytes `S<width>`, or None where some are too wide."""
    widths = spans.ends - spans.starts
    width = int(widths.max(initial=1))
    if width > _WIDEST:
        return None
    cells = np.zeros((len(widths), width), dtype=np.uint8)
    for k in range(width):
        inside = np.flatnonzero(widths > k)
        cells[inside, k] = data[spans.starts[inside] + k]
    return cells.reshape(-1).view(f"S{width}")


def cell_texts(
    data: UInt8[np.ndarray, " B"], spans: Spans, quoted: Bool[np.ndarray, " N"], encoding: str
) -> list[str]:
    """The cells as Python strings, doubled quotes made single."""
    texts = [cell.decode(encoding) for cell in span_bytes(data, spans)]
    for row in np.flatnonzero(quoted).tolist():
        if QUOTE in texts[row]:
            texts[row] = texts[row].replace(QUOTE * 2, QUOTE)
    return texts


def parsed_numbers(cells: np.ndarray, mark: str) -> tuple[np.ndarray, NumberStyle, bool] | None:
    """Numbers, how they are written, and whether all are integers.

    Args:
        cells: of bytes, `S<width>`, none of them missing.
        mark: the decimal mark.

    Returns:
        None if one is not a finite number, or is a code with leading zeros.
    """
    letters = cells.view(np.uint8).reshape(len(cells), cells.itemsize)
    allowed = np.zeros(256, dtype=bool)
    allowed[list(f"0123456789+-eE{mark}\0".encode())] = True
    if not len(cells) or not allowed[letters].all():
        return None
    points = letters == ord(mark)
    if mark != ".":
        letters = np.where(points, np.uint8(ord(".")), letters)
        cells = letters.reshape(-1).view(cells.dtype)
    try:
        values = cells.astype(np.float64)
    except ValueError:
        return None
    has_point = points.any(axis=1)
    if np.any(_is_code(letters) & ~has_point):
        return None
    exponent = bool(np.any((letters == ord("e")) | (letters == ord("E"))))
    decimals = np.where(has_point, np.char.str_len(cells) - points.argmax(axis=1) - 1, 0)
    style = NumberStyle(int(decimals.max()), exponent, mark)
    return values, style, not exponent and not has_point.any()


def _is_code(letters: UInt8[np.ndarray, "N W"]) -> Bool[np.ndarray, " N"]:
    """Where the first of several digits is 0."""
    padded = np.pad(letters, ((0, 0), (0, 2)))
    signed = (padded[:, 0] == ord("+")) | (padded[:, 0] == ord("-"))
    first = np.where(signed, padded[:, 1], padded[:, 0])
    second = np.where(signed, padded[:, 2], padded[:, 1])
    return (first == ord("0")) & (second >= ord("0")) & (second <= ord("9"))


def parse_column(
    name: str,
    data: UInt8[np.ndarray, " B"],
    raw: Spans,
    missing: Missing,
    *,
    encoding: str,
    mark: str,
    order: str | None = None,
) -> ParsedColumn:
    """Type a column by the content of its cells.

    Args:
        name: of the column.
        data: the text that the cells are in.
        raw: where they are, quotes included.
        missing: what stands for no value.
        encoding: of the text.
        mark: the decimal mark.
        order: of year, month and day, where the cells do not tell it.
    """
    spans, quoted = trimmed(data, raw)
    cells = _fixed_width(data, spans)
    found = None if cells is None else _as_numbers(cells, missing, mark, encoding)
    if found is None:
        found = _as_anything(cell_texts(data, spans, quoted, encoding), missing, mark, order)
    fields, style = found
    observed = ~fields["missing"]
    specimen = specimen_of(style) if observed.any() else ""
    column = Column(name=name, dtype="text", specimen=specimen, **fields)
    return ParsedColumn(column, style, bool(observed.any() and quoted[observed].all()))


def _as_numbers(
    cells: np.ndarray, missing: Missing, mark: str, encoding: str
) -> tuple[dict[str, Any], Style] | None:
    """All cells at once, which most columns of most files allow."""
    absent = np.zeros(len(cells), dtype=bool)
    for word in missing.words:
        try:
            absent |= cells == word.encode(encoding)
        except UnicodeEncodeError:
            continue  # a word that this encoding cannot write is in no cell of it
    if (found := parsed_numbers(cells[~absent], mark)) is None:
        return None
    values = np.full(len(cells), np.nan)
    values[~absent], style, whole = found
    named = np.isin(values, list(missing.numbers))
    if named.any():
        absent |= named
        values[named] = np.nan
        # Their manner of writing does not count: -999 among 0.10 and 0.25, -9.0 among 1 and 2.
        rest = parsed_numbers(cells[~absent], mark)
        style, whole = (_unknown(mark), False) if rest is None else rest[1:]
    return {"storage": "number", "values": values, "missing": absent, "whole": whole}, style


def _as_anything(
    texts: Sequence[str], missing: Missing, mark: str, order: str | None = None
) -> tuple[dict[str, Any], Style]:
    """By the distinct texts, one after the other."""
    numbering: dict[str, int] = {}
    codes = np.array([numbering.setdefault(text, len(numbering)) for text in texts], dtype=int)
    absent = np.array([text in missing.words for text in numbering], dtype=bool)
    distinct = [text for text in numbering if text not in missing.words]
    fields, values, style = _typed(distinct, missing, mark, order)
    by_code = np.full(len(numbering), np.nan)
    by_code[~absent] = values
    column = by_code[codes] if len(codes) else np.zeros(0)
    return {**fields, "values": column, "missing": np.isnan(column)}, style


def _typed(
    texts: Sequence[str], missing: Missing, mark: str, order: str | None = None
) -> tuple[dict[str, Any], np.ndarray, Style]:
    """What distinct texts are: the column's fields, a value for each text, and the style."""
    for words in _BOOLEANS:
        if texts and set(texts) <= set(words):
            flags = np.array([float(text == words[1]) for text in texts])
            return {"storage": "boolean"}, flags, BooleanStyle(words)
    plain = [text.replace(mark, ".") if mark not in {".", ""} else text for text in texts]
    if all(map(_is_number, plain)) and not any(mark != "." and "." in text for text in texts):
        return _typed_numbers(plain, missing, mark)
    if (times := parsed_times(texts, order)) is not None:
        values, style = times
        return {"storage": "time" if style.has_date else "clock"}, values, style
    levels = sorted(texts)
    place = {level: float(index) for index, level in enumerate(levels)}
    values = np.array([place[text] for text in texts])
    return {"storage": "text", "levels": tuple(levels)}, values, TextStyle()


def _is_number(text: str) -> bool:
    if _NUMBER.fullmatch(text):
        return not _CODE.fullmatch(text)
    return _INFINITE.fullmatch(text) is not None


def _typed_numbers(
    texts: Sequence[str], missing: Missing, mark: str
) -> tuple[dict[str, Any], np.ndarray, Style]:
    values = np.array([float(text) for text in texts])
    values[np.isin(values, list(missing.numbers))] = np.nan
    shown = [text for text, value in zip(texts, values, strict=True) if not np.isnan(value)]
    exponent = any("e" in text.lower() for text in shown if _NUMBER.fullmatch(text))
    decimals = max((len(text.partition(".")[2]) for text in shown), default=0)
    whole = bool(shown) and all(text.lstrip("+-").isdecimal() for text in shown)
    style = NumberStyle(decimals, exponent, mark) if shown else _unknown(mark)
    return {"storage": "number", "whole": whole}, values, style


def _unknown(mark: str) -> NumberStyle:
    """For columns without numbers: six digits say nothing wrong about large and small ones."""
    return NumberStyle(exponent=True, mark=mark)
