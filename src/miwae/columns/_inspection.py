"""What can be said of a table without a model: kinds, missing cells, and what looks wrong."""

import itertools
import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import astuple, dataclass
from datetime import date
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool

from miwae._words import counted
from miwae.columns._column import Column, is_sparse
from miwae.columns._missingness import missing_cells, missing_patterns
from miwae.columns._schema import ColumnSchema, Schema

MOST_PATTERNS = 10

# Of ten thousand numbers 366 are days: this many different ones are not a coincidence.
FEWEST_DAYS = 3
DAYS = (19_000_101, 21_001_231)

# Numbers that people write for missing values.
SENTINELS = (-1.0, -9.0, -99.0, -999.0, -9999.0, -99999.0, 99.0, 999.0, 9999.0, 99999.0)

# 10%, $5, 1,234.50, 1'234, with a typographical minus or space: numbers to people only.
_FOR_PEOPLE = re.compile(
    r"[+\-\u2212]?[$€£¥]?\s?(?:0|[1-9]\d*|[1-9]\d{0,2}(?:[.,'\s]\d{3})+)(?:[.,]\d+)?\s?[%$€£¥]?"
)
# At most this many words among ten times as many numbers, each counted once, are strays.
MOST_STRAY, MANY_NUMBERS = 3, 10

MOST_SHOWN = 3  # pairs of spellings

# Of rows that look like copies: in fewer columns, and where there are more, this is no wonder.
FEWEST_COLUMNS, MANY_COPIES = 3, 0.2

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
    column: str  # "" for the table
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
    """Count what is missing, alone and together, and look for values that may mean missing.

    In a text file (`of_text`), only the look of its cells shows the type of a column.
    """
    if not columns:
        return Inspection(0, (), (), 0, ())
    missing = missing_cells(columns)
    patterns = missing_patterns(missing)
    frequent = list(zip(*patterns, strict=True))[:MOST_PATTERNS]
    inspected, hints = [], []
    for column, known in zip(columns, schema.columns, strict=True):
        n_distinct = len(np.unique(column.observed_values))
        shown = known.kind.label, known.reason, column.n_missing, n_distinct
        inspected.append(ColumnInspection(column.name, *shown))
        hints += _suspicious(column, columns)
        hints += _sparse(column, known, columns) + _variants(column, known)
        hints += _unread(column, known, of_text=of_text) + _compact(column, known)
    hints += _copies(columns)
    return Inspection(
        len(missing),
        tuple(inspected),
        tuple(Pattern(_names(columns, row), int(count)) for row, count in frequent),
        len(patterns.n_rows),
        tuple(hints),
    )


def _names(columns: Sequence[Column], missing: Bool[np.ndarray, " C"]) -> tuple[str, ...]:
    return tuple(column.name for column in itertools.compress(columns, missing))


def _suspicious(column: Column, columns: Sequence[Column]) -> Iterator[Hint]:
    """Numbers such as -999, frequent and far from all others."""
    x = column.observed_values
    # Where there are several (-99: refused, -999: unknown), they are far from the rest.
    others = x[~np.isin(x, SENTINELS)]
    if column.storage != "number" or len(x) < 10 or len(others) < 5:
        return
    low, high = float(others.min()), float(others.max())
    for value in SENTINELS:
        count = int(np.count_nonzero(x == value))
        far = value < low - (high - low) or value > high + (high - low)
        # A column of -1 and 1 codes two values.
        if count > 1 and far and not low == high == -value:
            text = (
                f"column {column.name!r} has the value {value:g} in {count} cells, far from all "
                f"others ({low:g} to {high:g}): does it mean that the value is missing?"
            )
            also = [repr(c.name) for c in columns if _has_among_others(c, value)]
            if also:
                text += f" It may be a number in {', '.join(also)}, where --na takes it, too."
            yield Hint(column.name, text, f"--na {value:g}")


def _has_among_others(column: Column, value: float) -> bool:
    """Whether a column of numbers has a value, and both larger and smaller ones."""
    x = column.observed_values
    return bool(column.storage == "number" and (x == value).any() and x.min() < value < x.max())


def _variants(column: Column, known: ColumnSchema) -> list[Hint]:
    """Levels that differ in capitals or spaces only, which are different categories."""
    spellings: dict[str, list[str]] = {}
    if column.storage in ("text", "category") and known.kind.modelled:
        for level in column.levels:
            if isinstance(level, str):
                spellings.setdefault(" ".join(level.split()).casefold(), []).append(level)
    same = [" and ".join(map(repr, own)) for own in spellings.values() if len(own) > 1]
    if not same:
        return []
    text = (
        f"column {column.name!r} has categories that differ in capitals or spaces only: "
        f"{'; '.join(same[:MOST_SHOWN])}. If they mean the same, write them alike."
    )
    return [Hint(column.name, text)]


def _copies(columns: Sequence[Column]) -> list[Hint]:
    """A few rows that are equal to earlier ones in all columns."""
    if any(column.storage == "other" for column in columns):  # whose values are not known
        return []
    n_rows = len(columns[0].missing)
    group, n_groups = np.zeros(n_rows, dtype=np.int64), 1  # of rows that are equal so far
    for column in columns:
        values = np.where(column.missing, np.nan, column.values)
        distinct, code = np.unique(values, return_inverse=True)
        groups, group = np.unique(group * len(distinct) + code, return_inverse=True)
        n_groups = len(groups)
        if n_groups == n_rows:
            return []
    n_copies = n_rows - n_groups
    # Where many are, the columns say too little to tell rows apart.
    if len(columns) < FEWEST_COLUMNS or not n_copies < MANY_COPIES * n_rows:
        return []
    text = (
        f"{counted(n_copies, 'row is', 'rows are')} equal to an earlier row in all columns: if "
        "they were entered twice, remove them."
    )
    return [Hint("", text)]


def _sparse(column: Column, known: ColumnSchema, columns: Sequence[Column]) -> list[Hint]:
    n_missing = known.gaps(column, columns).n_missing  # without cells that do not apply
    is_imputed = known.is_imputed(column, zeros_if_empty=False)  # constants, too
    if not is_imputed or not is_sparse(column.n_observed, n_missing):
        return []
    text = (
        f"column {column.name!r} has a value in {column.n_observed} of "
        f"{column.n_observed + n_missing} rows: what is imputed is hardly more than a guess. To "
        f"leave it as it is: --ignore {shlex.quote(column.name)}."
    )
    return [Hint(column.name, text)]


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
    if not all(map(_DATE.fullmatch, levels)):
        return _stray_words(column)
    if not of_text:
        return [Hint(column.name, start + "a date: store it as dates to have it modelled so.")]
    start += "a date, whose order of day and month or whose century is not certain: "
    remedy = "write all cells as 2024-12-31 to have it modelled so"
    if all(map(_SLASHED.fullmatch, levels)):
        option = shlex.quote(f"{column.name}=datetime:day-first")
        remedy += f", or say which is first: --kind {option} (or month-first)"
    return [Hint(column.name, f"{start}{remedy}.")]


def _stray_words(column: Column) -> list[Hint]:
    """A few words that keep a column of numbers from being read as such."""
    is_word = np.array([not _FOR_PEOPLE.fullmatch(level.strip()) for level in column.levels])
    n_words = int(is_word.sum())
    if not 0 < n_words <= MOST_STRAY or len(is_word) < MANY_NUMBERS * n_words:
        return []
    words = list(itertools.compress(column.levels, is_word))
    n_cells = int(is_word[column.observed_values.astype(int)].sum())
    options = " ".join(f"--na {shlex.quote(word)}" for word in words)
    text = (
        f"column {column.name!r} is read as text because of {', '.join(map(repr, words))} "
        f"({counted(n_cells, 'cell')}); all others look like numbers. If "
        f"that means 'missing', say so: {options} (in Python: missing_values)."
    )
    return [Hint(column.name, text)]


def _compact(column: Column, known: ColumnSchema) -> list[Hint]:
    """Whole numbers such as 20241231. Most numbers of that size are not dates."""
    if not column.storage == known.storage == "number" or known.specified:
        return []
    days = np.unique(column.observed_values).tolist()
    if len(days) < FEWEST_DAYS or not all(map(_is_day, days)):
        return []
    text = (
        f"column {column.name!r} is read as numbers, but {days[0]:.0f} looks like a date: write "
        "all cells as 2024-12-31 to have it modelled so."
    )
    return [Hint(column.name, text)]


def _is_day(number: float) -> bool:
    """Whether it is year, month and day in eight digits."""
    if not (DAYS[0] <= number <= DAYS[1] and number.is_integer()):
        return False
    try:
        return bool(date.fromisoformat(f"{number:.0f}"))
    except ValueError:
        return False
