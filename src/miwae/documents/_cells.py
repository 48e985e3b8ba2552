"""What the texts of a column's cells mean: numbers, words for true and false, times, or text."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, UInt8

from miwae.columns import Column, is_missing
from miwae.documents._dialect import QUOTE
from miwae.documents._formats import (
    BooleanFormat,
    CellFormat,
    NumberFormat,
    PlainFormat,
    example_of,
)
from miwae.documents._spans import Bytes, Places, Spans, span_bytes
from miwae.documents._times import TimeFormat, parsed_times

Flags: TypeAlias = Bool[np.ndarray, " N"]

_BOOLEANS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))
_NUMBER = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_INFINITE = re.compile(r"[+-]?inf(?:inity)?", re.IGNORECASE)
# A zip code or an identifier: as a number it would lose its first digit.
_CODE = re.compile(r"[+-]?0\d+(?:[eE][+-]?\d+)?", re.ASCII)

# 1,000 in a file without decimal commas is a thousand, and safe as text; so is 1.000 in a file
# with decimal commas.
_THOUSANDS = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for mark in ".,"}

_SPACE = np.isin(np.arange(256), tuple(b" \t"))  # by byte

# Columns with wider cells are not parsed as one array; few of them hold numbers.
_WIDEST = 64


@dataclass(frozen=True)
class Missing:
    """What means missing: words, and numbers in any notation."""

    words: frozenset[str]
    numbers: frozenset[float] = frozenset()

    def also(self, values: Sequence[Any]) -> "Missing":
        """With further values, which are compared as text and as numbers."""
        words, numbers = set(self.words), set(self.numbers)
        for value in values:
            if is_missing(value):  # None and NaN are missing in every library, but no words
                continue
            words.add(str(value).strip())
            if isinstance(value, bool | np.bool_):
                continue
            try:
                number = float(value)
            except (TypeError, ValueError, OverflowError):
                continue
            numbers.add(number)
            if number.is_integer():
                words.add(str(int(number)))
        return Missing(frozenset(words), frozenset(numbers))


class Known(NamedTuple):
    """What was learned about a column from other cells: what it holds, and how that is written."""

    storage: str
    form: CellFormat


class ParsedColumn(NamedTuple):
    """A column, and how to write further cells of it."""

    column: Column
    form: CellFormat
    quoted: bool  # all cells that have a value are in quotes
    as_learned: bool  # it would be text by itself, and is not by what was learned


class _Typed(NamedTuple):
    """What some texts are: the fields of the column, a value for each text, and the format."""

    fields: dict[str, Any]
    values: Float[np.ndarray, " N"]
    form: CellFormat
    as_learned: bool = False


def parse_column(
    name: str,
    data: Bytes,
    raw: Spans,
    missing: Missing,
    *,
    encoding: str,
    mark: str,
    order: str | None = None,
    known: Known | None = None,
) -> ParsedColumn:
    """Find out the type of a column from its cells.

    `order` (of year, month and day) and `known` count where the cells do not show it.
    """
    spans, quoted = _trimmed(data, raw)
    cells, typed = _fixed_width(data, spans), None
    if cells is not None and (known is None or known.storage != "text"):
        typed = _all_numbers(cells, missing, mark, encoding)
    if typed is None:
        texts = _decoded(data, spans, quoted, encoding)
        typed = _by_distinct_texts(texts, missing, mark, order, known)
    return _parsed(name, typed, quoted, known)


def parse_texts(
    name: str, texts: Sequence[str], missing: Missing, mark: str, order: str | None, known: Known
) -> ParsedColumn:
    """As `parse_column`, for cells that are not in a file yet."""
    typed = _by_distinct_texts(texts, missing, mark, order, known)
    return _parsed(name, typed, np.zeros(len(texts), bool), known)


def _parsed(name: str, typed: _Typed, quoted: Flags, known: Known | None) -> ParsedColumn:
    absent = np.isnan(typed.values)
    empty = bool(absent.all())
    column = Column(
        name=name,
        values=typed.values,
        missing=absent,
        dtype="text",
        example="" if empty else example_of(typed.form),
        typed=False,
        **typed.fields,
    )
    form = typed.form
    if known is not None and empty and known.storage != "text":
        form = known.form
    return ParsedColumn(column, form, not empty and bool(quoted[~absent].all()), typed.as_learned)


def format_of(example: str) -> CellFormat:
    """The format that a cell shows."""
    mark = "," if "," in example else "."
    return _by_own_look([example], Missing(frozenset()), mark).form


def has_decimals(texts: Sequence[str], missing: Missing, mark: str) -> bool:
    """Whether texts are numbers whose marks do not all look like separators of thousands."""
    distinct = set(texts) - missing.words
    if not all(_is_number_with(text, mark) for text in distinct):
        return False
    marked = [text for text in distinct if mark in text]
    thousands = _THOUSANDS[mark].fullmatch
    return not all(map(thousands, marked)) and any(text.partition(mark)[2] for text in marked)


def cell_texts(data: Bytes, raw: Spans, encoding: str) -> list[str]:
    """Cells as Python strings, without quotes and the spaces around them."""
    return _decoded(data, *_trimmed(data, raw), encoding)


def _decoded(data: Bytes, spans: Spans, quoted: Flags, encoding: str) -> list[str]:
    """Strings, with doubled quotes made single."""
    texts = [cell.decode(encoding) for cell in span_bytes(data, spans)]
    for row in np.flatnonzero(quoted).tolist():
        if QUOTE in texts[row]:
            texts[row] = texts[row].replace(QUOTE * 2, QUOTE)
    return texts


def _trimmed(data: Bytes, raw: Spans) -> tuple[Spans, Flags]:
    """Fields without spaces and quotes around them, and which of them were quoted."""
    starts, ends = _without_spaces(data, raw.starts, raw.ends)
    quoted = ends - starts >= 2
    quoted[quoted] &= data[starts[quoted]] == ord(QUOTE)
    quoted[quoted] &= data[ends[quoted] - 1] == ord(QUOTE)
    starts, ends = _without_spaces(data, starts + quoted, ends - quoted)
    return Spans(starts, ends), quoted


def _without_spaces(data: Bytes, starts: Places, ends: Places) -> tuple[Places, Places]:
    starts, ends = starts.copy(), ends.copy()
    left = np.flatnonzero(starts < ends)
    while len(left := left[_SPACE[data[starts[left]]]]):
        starts[left] += 1
        left = left[starts[left] < ends[left]]
    right = np.flatnonzero(starts < ends)
    while len(right := right[_SPACE[data[ends[right] - 1]]]):
        ends[right] -= 1
        right = right[starts[right] < ends[right]]
    return starts, ends


def _fixed_width(data: Bytes, spans: Spans) -> np.ndarray | None:
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


def _all_numbers(cells: np.ndarray, missing: Missing, mark: str, encoding: str) -> _Typed | None:
    """Numbers, all cells at once; None if some cell is neither a number nor missing."""
    absent = np.zeros(len(cells), dtype=bool)
    for word in missing.words:
        try:
            absent |= cells == word.encode(encoding)
        except UnicodeEncodeError:
            continue  # no cell of this encoding can hold the word
    found = _parsed_numbers(cells[~absent], mark)
    if found is None:
        return None
    values = np.full(len(cells), np.nan)
    values[~absent], form, whole = found
    also_missing = np.isin(values, list(missing.numbers))
    if also_missing.any():
        values[also_missing] = np.nan
        # Their format does not count: -999 among 0.10 and 0.25, -9.0 among 1 and 2.
        rest = _parsed_numbers(cells[~absent & ~also_missing], mark)
        form, whole = (_unknown(mark), False) if rest is None else rest[1:]
    return _Typed({"storage": "number", "whole": whole}, values, form)


def _parsed_numbers(
    cells: np.ndarray, mark: str
) -> tuple[Float[np.ndarray, " N"], NumberFormat, bool] | None:
    """Numbers out of bytes `S<width>`, their format, and whether all are integers.

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
    form = NumberFormat(int(decimals.max()), exponent, mark)
    return values, form, not exponent and not has_point.any()


def _is_code(letters: UInt8[np.ndarray, "N W"]) -> Flags:
    """Where the first of several digits is 0."""
    padded = np.pad(letters, ((0, 0), (0, 2)))
    signed = (padded[:, 0] == ord("+")) | (padded[:, 0] == ord("-"))
    first = np.where(signed, padded[:, 1], padded[:, 0])
    second = np.where(signed, padded[:, 2], padded[:, 1])
    return (first == ord("0")) & (second >= ord("0")) & (second <= ord("9"))


def _by_distinct_texts(
    texts: Sequence[str],
    missing: Missing,
    mark: str,
    order: str | None = None,
    known: Known | None = None,
) -> _Typed:
    numbering: dict[str, int] = {}
    codes = np.array([numbering.setdefault(text, len(numbering)) for text in texts], dtype=int)
    absent = np.array([text in missing.words for text in numbering], dtype=bool)
    distinct = [text for text in numbering if text not in missing.words]
    typed = _by_own_look(distinct, missing, mark, order)
    if known is not None:
        typed = _as_learned(distinct, missing, typed, known)
    by_code = np.full(len(numbering), np.nan)
    by_code[~absent] = typed.values
    return typed._replace(values=by_code[codes] if len(codes) else np.zeros(0))


def _as_learned(texts: Sequence[str], missing: Missing, own: _Typed, known: Known) -> _Typed:
    """Text where text was learned, or what was learned where the texts alone are just text."""
    if known.storage == "text":
        observed = ~np.isnan(own.values)
        return _levels(texts, observed) if observed.any() else own
    if own.fields["storage"] != "text":
        return own
    mark = known.form.mark if isinstance(known.form, NumberFormat) else "."
    order = known.form.order if isinstance(known.form, TimeFormat) else None
    learned = _by_own_look(texts, missing, mark, order)
    same = learned.fields["storage"] == known.storage
    return learned._replace(as_learned=True) if same else own


def _by_own_look(
    texts: Sequence[str], missing: Missing, mark: str, order: str | None = None
) -> _Typed:
    """What distinct texts look like."""
    for words in _BOOLEANS:
        if texts and set(texts) <= set(words):
            flags = np.array([float(text == words[1]) for text in texts])
            return _Typed({"storage": "boolean"}, flags, BooleanFormat(words))
    if all(_is_number_with(text, mark) for text in texts):
        return _typed_numbers([text.replace(mark, ".") for text in texts], missing, mark)
    if (times := parsed_times(texts, order)) is not None:
        values, form = times
        return _Typed({"storage": "time" if form.has_date else "clock"}, values, form)
    return _levels(texts, np.ones(len(texts), bool))


def _levels(texts: Sequence[str], observed: Flags) -> _Typed:
    """Text, of which some counts as missing."""
    levels = sorted(itertools.compress(texts, observed))
    place = {level: float(index) for index, level in enumerate(levels)}
    values = np.array([place.get(text, np.nan) for text in texts])
    return _Typed({"storage": "text", "levels": tuple(levels)}, values, PlainFormat())


def _is_number_with(text: str, mark: str) -> bool:
    """Whether a text is a number with this decimal mark, and no code with leading zeros."""
    if mark != ".":
        if "." in text:
            return False
        text = text.replace(mark, ".")
    if _NUMBER.fullmatch(text):
        return not _CODE.fullmatch(text)
    return _INFINITE.fullmatch(text) is not None


def _typed_numbers(texts: Sequence[str], missing: Missing, mark: str) -> _Typed:
    values = np.array([float(text) for text in texts])
    values[np.isin(values, list(missing.numbers))] = np.nan
    shown = [text for text, value in zip(texts, values, strict=True) if not np.isnan(value)]
    exponent = any("e" in text.lower() for text in shown if _NUMBER.fullmatch(text))
    decimals = max((len(text.partition(".")[2]) for text in shown), default=0)
    whole = bool(shown) and all(text.lstrip("+-").isdecimal() for text in shown)
    form = NumberFormat(decimals, exponent, mark) if shown else _unknown(mark)
    return _Typed({"storage": "number", "whole": whole}, values, form)


def _unknown(mark: str) -> NumberFormat:
    """For columns without numbers: with six digits, large and small ones are about right."""
    return NumberFormat(exponent=True, mark=mark)
