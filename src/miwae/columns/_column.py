"""A column in neutral form, whatever library or file it comes from, and cells to put into it."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from jaxtyping import Int

Storage: TypeAlias = Literal[
    "number", "boolean", "text", "category", "time", "duration", "clock", "other"
]

# The three storages that hold seconds, with the words for them in messages.
TIMES: dict[Storage, str] = {"time": "instants", "duration": "durations", "clock": "times of day"}


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as it is stored, in the same form for every library and file format.

    Attributes:
        name: as the user knows it.
        storage: "number", "boolean", "text", "category" (levels declared by the table), "time" (a
            date or an instant), "duration", "clock" (a time of day), or "other" for what cannot
            be modelled (lists, mixed objects).
        values: one number per row, NaN where missing: the number itself, 0 or 1 for booleans, the
            index in `levels` for text and categories, seconds for the three storages of times
            (since 1970, in all, since midnight), all NaN for "other". It may be the table's own
            memory: never write to it.
        missing: True where there is no value.
        levels: the distinct values of text, sorted, or all declared categories in their order.
        ordered: whether declared categories have an order.
        whole: numbers are stored as integers.
        dtype: the library's own name of the type, for messages.
        example: a cell as a text file writes it, from which the format of the others can be read
            (does the day come first?); empty where the table has types, or no cell shows it.
        typed: the column has a declared type that limits what can be put into it. False for cells
            of text files and spreadsheets, for Python objects, and for columns without values
            that have only the type that a library gives to nothing.
    """

    name: str
    storage: Storage
    values: np.ndarray
    missing: np.ndarray
    levels: tuple[Any, ...] = ()
    ordered: bool = False
    whole: bool = False
    dtype: str = ""
    example: str = ""
    typed: bool = True

    @property
    def n_observed(self) -> int:
        """Cells that have a value."""
        return int(len(self.missing) - np.count_nonzero(self.missing))

    @property
    def n_missing(self) -> int:
        """Cells that have none."""
        return int(np.count_nonzero(self.missing))

    @property
    def observed_values(self) -> np.ndarray:
        """The values of the observed cells, in the order of the rows."""
        return self.values[~self.missing]


@dataclass(frozen=True)
class Cells:
    """Values for some cells of a column.

    Attributes:
        rows: which cells, in increasing order.
        values: one per row: floats for numbers, booleans (0, 1) and times (seconds), an object
            array of levels for text and categories.
        lower: no number may be below it, however it is rounded.
        upper: no number may be above it.
        storage: what the values are, for columns whose other cells do not show it; None if
            unknown.
        levels: all values that text and categories could have had.
    """

    rows: Int[np.ndarray, " H"]
    values: np.ndarray
    lower: float = -np.inf
    upper: float = np.inf
    storage: Storage | None = None
    levels: tuple[Any, ...] = ()
