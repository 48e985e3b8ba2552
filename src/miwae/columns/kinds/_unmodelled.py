"""Columns that the model does not know: constant, empty, skipped."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np

from miwae._words import counted
from miwae.columns._column import Column, Numbers
from miwae.columns._order import RowOrder
from miwae.columns._summary import MOST_DISTINCT, Summary
from miwae.columns._values import MOST_WHOLE
from miwae.columns.kinds._base import AbstractKind, Encoding, Limits, Recognised, level_array

# More distinct texts than this, if they are mostly unique, are names, not categories.
FEW_LEVELS = 8

# The share of cells with a text of their own that makes a column of names or remarks, if most
# texts occur once.
OFTEN_ONCE = 0.1

# Sentences that occur so often on average are answers to choose from, not free text.
OFTEN = 20

# Words of a sentence, with a full stop at its end and without.
WORDS, MANY_WORDS = 3, 8

# Names that tables get for their index, when a file is written that has no name for it.
_UNNAMED = re.compile(r"|index|level_0|rownames|Unnamed: 0(\.\d+)*")

# In fewer rows, whole numbers in order are not unusual.
FEWEST_ROW_NUMBERS = 10


def all_equal(n_observed: int) -> str:
    """Why a column is constant, in words."""
    if n_observed == 1:
        return "only one cell is observed"
    return f"all {n_observed} observed cells are equal"


def is_row_number(column: Column, summary: Summary, order: RowOrder) -> bool:
    """Whether a column counts the rows: from 0 or 1 in steps of 1, or as an index of a file."""
    n_rows = order.n_rows
    if column.storage != "number" or order.n_missing or summary.n_observed != n_rows:
        return False
    if n_rows < FEWEST_ROW_NUMBERS or not summary.is_whole:
        return False
    if _UNNAMED.fullmatch(column.name):  # of a table whose rows were chosen or shuffled, too
        return len(np.unique(column.values)) == len(column.values)
    return order.first in (0.0, 1.0) and order.least_step == order.largest_step == 1


def _are_sentences(levels: Sequence[Any]) -> bool:
    """Whether most of them read like something that somebody wrote down."""
    texts = [level.split() for level in levels if isinstance(level, str) and level]
    ends = [words and words[-1][-1] in ".!?" for words in texts]
    found = [
        len(words) >= (WORDS if end else MANY_WORDS)
        for words, end in zip(texts, ends, strict=True)
    ]
    return sum(found) > len(levels) / 2


class AbstractUnmodelled(AbstractKind):
    """A kind of which the model sees nothing, whatever the column holds."""

    modelled: ClassVar[bool] = False
    family: ClassVar[None] = None

    def reads(self, column: Column) -> bool:
        return True

    def encoded(self, column: Column) -> Encoding:
        return Encoding.nothing(len(column.missing))


@final
@dataclass(frozen=True, kw_only=True)
class Constant(AbstractUnmodelled):
    """A single value, which is imputed wherever it is missing."""

    label: ClassVar[str] = "constant"
    value: Any  # a number or a level

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        if summary.n_distinct != 1:
            return None
        reason = all_equal(summary.n_observed)
        return Recognised(cls(value=next(iter(summary.values or ()))), reason)

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Constant":
        if summary.n_distinct > 1:
            raise column.refusal(label, f"it has {summary.n_distinct} distinct values")
        return cls(value=next(iter(summary.values or ())))

    def decoded(self, y: Numbers) -> np.ndarray:
        return level_array((self.value,))[np.zeros(len(y), dtype=int)]


@final
@dataclass(frozen=True, kw_only=True)
class Empty(AbstractUnmodelled):
    """A column without any observed cell."""

    label: ClassVar[str] = "empty"

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        return None if column.n_observed else Recognised(cls(), "no cell is observed")

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Empty":
        if column.n_observed:
            why = "it has observed cells; use 'identifier' to keep it as it is"
            raise column.refusal(label, why)
        return cls()

    def decoded(self, y: Numbers) -> np.ndarray:
        """Zeros, for those who keep empty columns."""
        return np.zeros(len(y))


@final
@dataclass(frozen=True, kw_only=True)
class Skipped(AbstractUnmodelled):
    """A column that is kept as it is: names, numbers of documents, lists, other objects."""

    label: ClassVar[str] = "identifier"

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """Objects, huge whole numbers, text that hardly repeats, too many levels."""
        if column.storage == "other":
            return Recognised(cls(), f"values of type {column.dtype} cannot be modelled")
        n, n_distinct = summary.n_observed, summary.n_distinct
        huge = summary.whole and max(-summary.lowest, summary.highest) > MOST_WHOLE
        if huge and n_distinct < min(n, 3):
            return Recognised(cls(), "whole numbers too large to be told apart")
        if column.storage not in ("text", "category"):
            return None
        if summary.values is None:
            reason = f"more than {MOST_DISTINCT} distinct values are too many for categories"
            return Recognised(cls(), reason)
        if column.storage == "text" and n < OFTEN * n_distinct and _are_sentences(summary.values):
            sentences, cells = counted(n_distinct, "different sentence"), counted(n, "cell")
            reason = f"free text: {sentences} in {cells}"
            return Recognised(cls(), reason)
        n_once = summary.counts.count(1)
        mostly_once = n_once > n_distinct / 2 and n_once > OFTEN_ONCE * n
        unique = n_distinct > FEW_LEVELS and (n_distinct > n / 2 or mostly_once)
        if column.storage == "text" and unique:
            return Recognised(cls(), f"text with {n_distinct} distinct values in {n} cells")
        return None

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Skipped":
        return cls()

    def decoded(self, y: Numbers) -> np.ndarray:
        """Never asked for: its missing cells stay missing."""
        raise NotImplementedError("cells of skipped columns are not imputed")
