"""A column in neutral form, whatever library or file it comes from, and cells to put into it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from miwae._words import counted
from miwae.columns._values import Storage, stored_text
from miwae.errors import DataError
from miwae.events import Event

Flags: TypeAlias = Bool[np.ndarray, " N"]
Numbers: TypeAlias = Float[np.ndarray, " H"]  # of some cells
Ends: TypeAlias = Float[np.ndarray, "Q N"]  # of intervals


# Fewer observed cells, or a larger share of missing ones, do not show how a column depends on the
# others.
FEW_CELLS, MOST_MISSING = 30, 0.9


def is_sparse(n_observed: int, n_missing: int) -> bool:
    """Whether so few cells are observed that what is imputed is hardly more than a guess."""
    n_rows = n_observed + n_missing
    few = n_observed < FEW_CELLS and n_observed < n_rows / 2
    return n_observed > 0 and (few or n_observed < n_rows * (1 - MOST_MISSING))


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as it is stored, in the same form for every library and file format."""

    name: str
    # "number", "boolean", "text", "category" (levels declared by the table), "time" (a date or
    # an instant), "duration", "clock" (a time of day), or "other" for what cannot be modelled
    # (lists, mixed objects).
    storage: Storage
    # One number per row, NaN where missing: the number itself, 0 or 1 for booleans, the index
    # in `levels` for text and categories, seconds for the three storages of times (since 1970,
    # in all, since midnight), all NaN for "other". It may be the table's own memory: never
    # write to it.
    values: np.ndarray
    missing: np.ndarray  # True where there is no value
    # The distinct values of text, sorted, or all declared categories in their order.
    levels: tuple[Any, ...] = ()
    ordered: bool = False  # whether declared categories have an order
    whole: bool = False  # numbers are stored as integers
    dtype: str = ""  # the library's own name of the type, for messages
    # A cell as a text file writes it, from which the format of the others can be read (does
    # the day come first?); empty where the table has types, or no cell shows it.
    example: str = ""
    # The column has a declared type that limits what can be put into it. False for cells of
    # text files and spreadsheets, for Python objects, and for columns without values that have
    # only the type that a library gives to empty columns.
    typed: bool = True
    # A row in words, as the program counts that shows the table: "row 3" from 0 in a frame,
    # "line 5" of a text file.
    place: Callable[[int], str] = "row {}".format

    @property
    def n_observed(self) -> int:
        return int(len(self.missing) - np.count_nonzero(self.missing))

    @property
    def n_missing(self) -> int:
        return int(np.count_nonzero(self.missing))

    @property
    def observed_values(self) -> np.ndarray:
        return self.values[~self.missing]

    def text(self, row: int) -> str:
        """The value of a cell as people write it."""
        value = float(self.values[row])
        return stored_text(self.levels[int(value)] if self.levels else value, self.storage)

    def require_finite(self) -> None:
        infinite = np.flatnonzero(~self.missing & ~np.isfinite(self.values))
        if len(infinite):
            row = int(infinite[0])
            raise DataError(
                f"column {self.name!r} has the value {self.values[row]} in {self.place(row)}: "
                "only finite numbers can be modelled; correct it, or mark it as missing"
            )

    def refusal(self, label: str, why: str, offending: Flags | None = None) -> DataError:
        """What to raise if it cannot be of a kind; shows the first offending cell."""
        rows = np.flatnonzero(False if offending is None else offending & ~self.missing)
        where = f" ({self.place(int(rows[0]))}: {self.text(int(rows[0]))})" if len(rows) else ""
        return DataError(f"column {self.name!r} cannot be {label}: {why}{where}")

    def unusable(
        self, where: Flags, what: str, then: str = "treated as missing by the model"
    ) -> tuple[Event, ...]:
        """An event about observed cells that the model cannot use as they are, if any."""
        rows = np.flatnonzero(where)
        if not len(rows):
            return ()
        such = f"({counted(len(rows), 'such cell')})"
        wrong = f"the value {self.text(int(rows[0]))} {what} {such}"
        text = f"column {self.name!r}: {wrong}: kept in the table, {then}"
        return (Event("value", self.name, len(rows), text),)


@dataclass(frozen=True)
class Cells:
    """Values for some cells of a column."""

    rows: Int[np.ndarray, " H"]  # which cells, in increasing order
    # One per row: floats for numbers, booleans (0, 1) and times (seconds), an object array of
    # levels for text and categories.
    values: np.ndarray
    lower: float = -np.inf  # no number may be below it, however it is rounded
    upper: float = np.inf  # no number may be above it
    # What the values are, for columns whose other cells do not show it; None if unknown.
    storage: Storage | None = None
    levels: tuple[Any, ...] = ()  # all values that text and categories could have had
