"""What the texts of a column's cells mean: numbers, words for true and false, times, or text."""

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from miwae.columns import Column, is_missing
from miwae.documents._dialect import QUOTE
from miwae.documents._dress import UNDRESSED, Dress, common_dress
from miwae.documents._formats import (
    NO_FORMAT,
    BooleanFormat,
    CellFormat,
    NumberFormat,
    decimals_of,
    example_of,
    most_decimals,
)
from miwae.documents._records import Bytes, Spans, fixed_width, span_bytes
from miwae.documents._times import TimeFormat, parsed_times

_BOOLEANS = (("false", "true"), ("False", "True"), ("FALSE", "TRUE"))

# By decimal mark. A zip code or an identifier such as 007 is not a number: it would lose its
# first digit.
_NUMBERS = {
    mark: re.compile(
        r"[+-]?(?:inf(?:inity)?|(?!0\d+(?:e[+-]?\d+)?\Z)"
        rf"(?:\d+(?:[{mark}]\d*)?|[{mark}]\d+)(?:e[+-]?\d+)?)",
        re.ASCII | re.IGNORECASE,
    )
    for mark in ".,"
}

# 1,000 in a file without decimal commas is a thousand, and safe as text; so is 1.000 in a file
# with decimal commas.
_THOUSANDS = {mark: re.compile(rf"[+-]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for mark in ".,"}


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


class CellTexts(NamedTuple):
    """Cells as Python strings, without quotes and the spaces around them."""

    texts: list[str]
    quoted: Sequence[bool]  # which of them were in quotes


class Known(NamedTuple):
    """What was learned about a column from other cells: what it holds, and how that is written."""

    storage: str
    form: CellFormat


class ParsedColumn(NamedTuple):
    """A column, and how to write further cells of it."""

    column: Column
    form: CellFormat
    as_learned: bool  # it would be text by itself, and is not by what was learned
    quoted: bool  # all cells that have a value are in quotes


class _Typed(NamedTuple):
    """What some texts are: the fields of the column, a value for each text, and the format."""

    fields: dict[str, Any]
    values: Float[np.ndarray, " N"]
    form: CellFormat
    as_learned: bool = False


def parse_column(
    name: str,
    cells: CellTexts,
    missing: Missing,
    mark: str,
    order: str | None = None,
    known: Known | None = None,
    *,
    sure: bool = True,
) -> ParsedColumn:
    """Find out the type of a column from its cells.

    `order` (of year, month and day) and `known` count where the cells do not show it. Unless the
    decimal mark is `sure`, 1,766 is text.
    """
    texts, quoted = cells
    value_of = dict.fromkeys(texts, np.nan)
    distinct = [text for text in value_of if text not in missing.words]
    typed = _by_own_look(distinct, missing, mark, order, sure=sure)
    if known is not None:
        typed = _as_learned(distinct, missing, typed, known)
    value_of.update(zip(distinct, typed.values.tolist(), strict=True))
    values = np.fromiter(map(value_of.__getitem__, texts), np.float64, len(texts))
    absent, form = np.isnan(values), typed.form
    shows_none = absent.all() or typed.fields["storage"] == "text"
    example = "" if shows_none else example_of(form)
    if known is not None and absent.all() and known.storage != "text":
        form = known.form
    stored = {"dtype": "text", "example": example, "typed": False, **typed.fields}
    column = Column(name=name, values=values, missing=absent, **stored)
    in_quotes = not absent.all() and all(itertools.compress(quoted, ~absent))
    return ParsedColumn(column, form, typed.as_learned, in_quotes)


def plain_numbers(
    name: str, data: Bytes, raw: Spans, missing: Missing, mark: str, known: Known | None = None
) -> ParsedColumn | None:
    """What `parse_column` finds if all cells are plain numbers or missing, otherwise None.

    The cells are parsed as one array, since Python is slow at millions of distinct texts. Columns
    with quotes, infinities or leading zeros are left to `parse_column`.
    """
    as_text = known is not None and known.storage == "text"
    if as_text or (fields := fixed_width(data, raw)) is None:
        return None
    cells = np.strings.strip(fields, b" \t")
    # A cell with any other word is no plain number, so it need not be found here.
    words = [w for w in missing.words if w.isascii() and w.isprintable() and QUOTE not in w]
    observed = ~np.isin(cells, [word.encode() for word in words])
    letters = cells[observed].tobytes()
    if not letters or letters.translate(None, f"0123456789+-eE{mark}\0".encode()):
        return None
    cells = np.frombuffer(letters.replace(mark.encode(), b"."), cells.dtype)
    starts = np.strings.lstrip(cells, b"+-").astype("S2")
    if np.any((starts >= b"00") & (starts <= b"09")):
        return None
    values = np.full(len(fields), np.nan)
    try:
        values[observed] = cells.astype(np.float64)
    except ValueError:
        return None
    values[np.isin(values, list(missing.numbers))] = np.nan
    kept = ~np.isnan(values[observed])
    if not kept.any():
        return None
    shown, exponent = cells[kept], b"e" in cells[kept].tobytes().lower()
    decimals = 0 if exponent else most_decimals(shown, values[observed][kept])
    form = NumberFormat(decimals, exponent, mark)
    whole = not exponent and bool(np.all(np.strings.find(shown, b".") < 0))
    stored = {"storage": "number", "whole": whole, "dtype": "text", "typed": False}
    stored |= {"missing": np.isnan(values), "example": example_of(form)}
    column = Column(name=name, values=values, **stored)
    return ParsedColumn(column, form, as_learned=False, quoted=False)


def format_of(example: str) -> CellFormat:
    forms = [_by_own_look([example], Missing(frozenset()), mark).form for mark in ".,"]
    return next((form for form in forms if form != NO_FORMAT), NO_FORMAT)


def has_decimals(texts: Sequence[str], missing: Missing, mark: str) -> bool:
    """Whether texts are numbers whose marks do not all look like separators of thousands."""
    distinct = set(texts) - missing.words
    if not all(map(_NUMBERS[mark].fullmatch, distinct)):
        return False
    marked = [text for text in distinct if mark in text]
    thousands = _THOUSANDS[mark].fullmatch
    return not all(map(thousands, marked)) and any(text.partition(mark)[2] for text in marked)


def cell_texts(data: Bytes, raw: Spans) -> CellTexts:
    fields = [field.decode().strip(" \t") for field in span_bytes(data, raw)]
    quoted = [len(field) >= 2 and field[0] == field[-1] == QUOTE for field in fields]
    texts = [
        field[1:-1].strip(" \t").replace(QUOTE * 2, QUOTE) if in_quotes else field
        for field, in_quotes in zip(fields, quoted, strict=True)
    ]
    return CellTexts(texts, quoted)


def _as_learned(texts: Sequence[str], missing: Missing, own: _Typed, known: Known) -> _Typed:
    """Text where text was learned, or what was learned where the texts alone are just text."""
    if known.storage == "text":
        levels = [t for t, value in zip(texts, own.values, strict=True) if not np.isnan(value)]
        return _levels(texts, levels) if levels else own
    if own.fields["storage"] != "text":
        return own
    mark = known.form.mark if isinstance(known.form, NumberFormat) else "."
    order = known.form.order if isinstance(known.form, TimeFormat) else None
    learned = _by_own_look(texts, missing, mark, order)
    same = learned.fields["storage"] == known.storage
    return learned._replace(as_learned=True) if same else own


def _by_own_look(
    texts: Sequence[str],
    missing: Missing,
    mark: str,
    order: str | None = None,
    *,
    sure: bool = True,
) -> _Typed:
    """What distinct texts look like."""
    for words in _BOOLEANS:
        if 0 < len(texts) <= 2 and set(texts) <= set(words):
            flags = np.array([float(text == words[1]) for text in texts])
            return _Typed({"storage": "boolean"}, flags, BooleanFormat(words))
    if all(map(_NUMBERS[mark].fullmatch, texts)):
        return _numbers(texts, missing, mark)
    if (dress := common_dress(texts, mark, sure=sure)) is not None:
        return _numbers(texts, missing, mark, dress)
    if (times := parsed_times(texts, order)) is not None:
        values, form = times
        return _Typed({"storage": "time" if form.has_date else "clock"}, values, form)
    return _levels(texts, texts)


def _levels(texts: Sequence[str], levels: Sequence[str]) -> _Typed:
    """Text, of which all but the levels is missing."""
    place = {level: float(index) for index, level in enumerate(sorted(levels))}
    values = np.array([place.get(text, np.nan) for text in texts])
    return _Typed({"storage": "text", "levels": tuple(place)}, values, NO_FORMAT)


def _numbers(
    texts: Sequence[str], missing: Missing, mark: str, dress: Dress = UNDRESSED
) -> _Typed:
    texts = [dress.off(text).replace(mark, ".") for text in texts]
    values = np.fromiter(map(float, texts), np.float64, len(texts))
    values[np.isin(values, list(missing.numbers))] = np.nan
    # The format of numbers that mean missing does not count: -999 among 0.10 and 0.25.
    shown = list(itertools.compress(texts, ~np.isnan(values)))
    if not shown:  # six digits suit large and small numbers
        form = replace(NO_FORMAT, mark=mark)
        return _Typed({"storage": "number", "whole": False}, values, form)
    exponent = any("e" in text.lower() for text in shown)
    decimals = 0 if exponent else max(map(decimals_of, shown))
    form = NumberFormat(decimals, exponent, mark, dress)
    whole = all(text.lstrip("+-").isdecimal() for text in shown)
    return _Typed({"storage": "number", "whole": whole}, values, form)
