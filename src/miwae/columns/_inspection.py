"""What can be said of a table without a model: kinds, missing cells, and what looks wrong."""

import calendar
import re
import shlex
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

from miwae.columns._column import Column
from miwae.columns._schema import ColumnSchema, Schema

MOST_PATTERNS = 10

# So many different numbers that are all days (of ten thousand, 366 are) are no coincidence.
FEWEST_DAYS = 3
DAYS = (19_000_101, 21_001_231)

# Numbers that people write where they have none.
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)

# 10%, $5, 1,234.50, 1'234, with a typographical minus or space: numbers to people only.
_FOR_PEOPLE = re.compile(
    r"[+\-\u2212]?[$€£¥]?\s?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:[.,'\s]\d{3})+)(?:[.,]\d+)?\s?[%$€£¥]?"
)
# Words among so many times as many numbers, each counted once, are strays.
MOST_STRAY, MANY_NUMBERS = 3, 10

_CLOCK = r"(?:[T ]\d{1,2}:\d{2}.*)?"
_DATE = re.compile(
    rf"(?:\d{{4}}[-/.]\d{{1,2}}[-/.]\d{{1,2}}|\d{{1,2}}[-/.]\d{{1,2}}[-/.](?:\d{{4}}|\d{{2}})){_CLOCK}"
)
_SLASHED = re.compile(rf"\d{{1,2}}/\d{{1,2}}/\d{{4}}{_CLOCK}")


@dataclass(frozen=True)
class ColumnInspection:
    name: str
    kind: str
    reason: str
    n_missing: int
    n_distinct: int


@dataclass(frozen=True)
class Pattern:
    """Columns that are missing together, and in how many rows."""

    missing: tuple[str, ...]
    n_rows: int


class Hint(NamedTuple):
    column: str
    text: str  # what it is, in a sentence or two
    # Of the command line that mends it, if the guess is right; "" if there is none.
    option: str = ""


@dataclass(frozen=True)
class Inspection:
    n_rows: int
    columns: tuple[ColumnInspection, ...]
    patterns: tuple[Pattern, ...]  # the most frequent, and first among them
    n_patterns: int
    hints: tuple[Hint, ...]

    @property
    def n_missing(self) -> int:
        return sum(column.n_missing for column in self.columns)

    @property
    def n_cells(self) -> int:
        return self.n_rows * len(self.columns)

    def as_data(self) -> dict[str, Any]:
        names = ("name", "kind", "reason", "missing", "distinct")
        return {
            "rows": self.n_rows,
            "columns": [dict(zip(names, astuple(c), strict=True)) for c in self.columns],
            "missing_cells": self.n_missing,
            "patterns": [{"missing": list(p.missing), "rows": p.n_rows} for p in self.patterns],
            "n_patterns": self.n_patterns,
            "hints": [hint.text for hint in self.hints],
        }


def inspect_columns(
    columns: Sequence[Column], schema: Schema, *, of_text: bool = True
) -> Inspection:
    """Count what is missing, alone and together, and look for numbers that stand for nothing.

    Columns of a text file (`of_text`) are what their cells look like.
    """
    if not columns:
        return Inspection(0, (), (), 0, ())
    patterns, counts = _patterns(np.stack([column.missing for column in columns], axis=1))
    order = np.argsort(-counts, kind="stable")[:MOST_PATTERNS]
    names = np.array([column.name for column in columns], dtype=object)
    both = list(zip(columns, schema.columns, strict=True))
    frequent = zip(patterns[order], counts[order], strict=True)
    hints: list[Hint] = []
    for column, known in both:
        hints += _suspicious(column) + _unread(column, known, of_text=of_text)
        hints += _compact(column, known)
    return Inspection(
        len(columns[0].missing),
        tuple(_column_inspection(column, known) for column, known in both),
        tuple(Pattern(tuple(names[row]), int(count)) for row, count in frequent),
        len(counts),
        tuple(hints),
    )


def _column_inspection(column: Column, known: ColumnSchema) -> ColumnInspection:
    n_distinct = len(np.unique(column.observed_values))
    return ColumnInspection(
        column.name, known.kind.label, known.reason, column.n_missing, n_distinct
    )


def _patterns(
    missing: Bool[np.ndarray, "N D"],
) -> tuple[Bool[np.ndarray, "P D"], Int[np.ndarray, " P"]]:
    """The distinct rows, sorted, and how often each occurs."""
    n_rows, n_columns = missing.shape
    padded = np.zeros((n_rows, -(-n_columns // 64) * 8), dtype=np.uint8)
    packed = np.packbits(missing, axis=1)
    padded[:, : packed.shape[1]] = packed
    # As large numbers, which sort fast, and with the first column first as the bits do.
    numbers = padded.view(">u8").astype(np.uint64)
    if numbers.shape[1] == 1:
        found, counts = np.unique(numbers[:, 0], return_counts=True)
    else:
        found, counts = np.unique(numbers, axis=0, return_counts=True)
    packed = found.astype(">u8").reshape(-1, numbers.shape[1]).view(np.uint8)
    return np.unpackbits(packed, axis=1)[:, :n_columns].astype(bool), counts


def _suspicious(column: Column) -> list[Hint]:
    """Numbers such as -999, frequent and far from all others."""
    x = column.values[~column.missing]
    if column.storage != "number" or len(x) < 10:
        return []
    # Where there are several (-99: refused, -999: unknown), they are far from the rest.
    others = x[~np.isin(x, SENTINELS)]
    if len(others) < 5:
        return []
    hints = []
    low, high = float(others.min()), float(others.max())
    width = high - low
    for value in SENTINELS:
        same = x == value
        # -1 and 1 are two sides of a coin.
        if same.sum() < 2 or low == high == -value:
            continue
        if value < low - width or value > high + width:
            text = (
                f"column {column.name!r} has the value {value:g} in {int(same.sum())} cells, far "
                f"from all others ({low:g} to {high:g}): does it mean that the value is missing?"
            )
            hints.append(Hint(column.name, text, f"--na {value:g}"))
    return hints


def _unread(column: Column, known: ColumnSchema, *, of_text: bool) -> list[Hint]:
    """Text that people take for numbers or dates, unless they said what it is."""
    levels = [level.strip() for level in column.levels if isinstance(level, str)]
    is_text = column.storage == known.storage == "text" and len(levels) == len(column.levels)
    if not levels or not is_text or known.specified:
        return []
    start = f"column {column.name!r} is read as text, but {levels[0]!r} looks like "
    if all(map(_FOR_PEOPLE.fullmatch, levels)) and not all(map(str.isdecimal, levels)):
        text = start + "a number: make all cells plain numbers (1234.5) to have it modelled so."
        return [Hint(column.name, text)]
    if all(map(_DATE.fullmatch, levels)) and not of_text:
        return [Hint(column.name, start + "a date: store it as dates to have it modelled so.")]
    if all(map(_DATE.fullmatch, levels)):
        remedy = f"write all cells as 2024-12-31 to have it modelled so{_or_tell(column, levels)}."
        unsure = "a date, whose order of day and month or whose century is not certain: "
        return [Hint(column.name, start + unsure + remedy)]
    return _stray_words(column)


def _or_tell(column: Column, levels: Sequence[str]) -> str:
    """How to say what comes first, where that is all that is not known."""
    if not all(map(_SLASHED.fullmatch, levels)):
        return ""
    option = shlex.quote(f"{column.name}=datetime:day-first")
    return f", or say which is first: --kind {option} (or month-first)"


def _stray_words(column: Column) -> list[Hint]:
    """A few words that keep a column of numbers from being read as such."""
    is_word = np.array([not _FOR_PEOPLE.fullmatch(level.strip()) for level in column.levels])
    n_words = int(is_word.sum())
    if not 0 < n_words <= MOST_STRAY or len(is_word) < MANY_NUMBERS * n_words:
        return []
    words = [level for level, strange in zip(column.levels, is_word, strict=True) if strange]
    n_cells = int(is_word[column.values[~column.missing].astype(int)].sum())
    options = " ".join(f"--na {shlex.quote(word)}" for word in words)
    text = (
        f"column {column.name!r} is read as text because of {', '.join(map(repr, words))} "
        f"({n_cells} {'cell' if n_cells == 1 else 'cells'}); all others look like numbers. If "
        f"that means 'missing', say so: {options} (in Python: missing_values)."
    )
    return [Hint(column.name, text)]


def _compact(column: Column, known: ColumnSchema) -> list[Hint]:
    """Whole numbers such as 20241231, of which most are days of no calendar."""
    x = column.values[~column.missing]
    if not column.storage == known.storage == "number" or known.specified:
        return []
    if not len(x) or not DAYS[0] <= x.min() <= x.max() <= DAYS[1]:
        return []
    days = np.unique(x).tolist()
    if len(days) < FEWEST_DAYS or not all(map(_is_day, days)):
        return []
    text = (
        f"column {column.name!r} is read as numbers, but {days[0]:.0f} looks like a date: write "
        "all cells as 2024-12-31 to have it modelled so."
    )
    return [Hint(column.name, text)]


def _is_day(number: float) -> bool:
    """Whether it is year, month and day in eight digits."""
    if number != int(number):
        return False
    year, rest = divmod(int(number), 10_000)
    month, day = divmod(rest, 100)
    return 1 <= month <= 12 and 1 <= day <= calendar.monthrange(year, month)[1]
