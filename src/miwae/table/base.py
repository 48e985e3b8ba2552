"""What every kind of table offers: its columns in neutral form, and a way to fill holes."""

import abc
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from jaxtyping import Bool, Int

__all__ = ["TIMES", "AbstractTable", "Column", "Fill", "Gaps", "Storage"]

Storage = Literal["number", "boolean", "text", "category", "time", "duration", "clock", "other"]

# The three that are all stored as seconds, none of which is another, in words for messages.
TIMES: dict[Storage, str] = {
    "time": "instants",
    "duration": "durations",
    "clock": "times of day",
}


class Gaps(NamedTuple):
    """What filling a column has to know of it: a small part of what reading it takes."""

    storage: Storage
    missing: Bool[np.ndarray, " N"]


@dataclass(frozen=True, kw_only=True)
class Column:
    """A column as it is stored, whatever the library.

    Attributes:
        name: as the user knows it.
        storage: "number", "boolean", "text", "category" (levels declared by the table), "time" (a
            date or an instant), "duration", "clock" (a time of day), or "other" for what cannot
            be modelled (lists, mixed objects).
        values: one number per row, NaN where missing: the number itself, 0 or 1 for booleans, the
            index in `levels` for text and categories, seconds for the three sorts of times (since
            1970, in all, since midnight), all NaN for "other". Perhaps the table's own: not to be
            written to.
        missing: True where there is no value.
        levels: the distinct values of text, sorted, or all declared categories in their order.
        ordered: whether declared categories have an order.
        whole: numbers are stored as integers.
        dtype: the library's own name of the type, for messages.
        specimen: a cell as a text file writes it, by which others can be read (is the day first?)
            and written; empty where the table has types, or no cell tells.
    """

    name: str
    storage: Storage
    values: np.ndarray
    missing: np.ndarray
    levels: tuple[Any, ...] = ()
    ordered: bool = False
    whole: bool = False
    dtype: str = ""
    specimen: str = ""

    @property
    def n_observed(self) -> int:
        """Cells that have a value."""
        return int(len(self.missing) - np.count_nonzero(self.missing))

    @property
    def gaps(self) -> Gaps:
        """What is left of it when its values are no longer needed."""
        return Gaps(self.storage, self.missing)


@dataclass(frozen=True)
class Fill:
    """Values for some cells of a column.

    Attributes:
        rows: where, in increasing order.
        values: one per row: floats for numbers, booleans (0, 1) and times (seconds), an object
            array of levels for text and categories.
        lower: no number may be below, however it is rounded.
        upper: no number may be above.
        storage: what the values are, for columns whose other cells do not tell; None if unknown.
        levels: all that the values could have been, of text and categories.
    """

    rows: Int[np.ndarray, " H"]
    values: np.ndarray
    lower: float = -np.inf
    upper: float = np.inf
    storage: Storage | None = None
    levels: tuple[Any, ...] = ()


class AbstractTable(abc.ABC):
    """A table of some library, read in neutral form and filled in its own.

    Adapters change nothing in place. To support another library, implement what is abstract and
    add it to `frames.as_table` and to `tests/table/cases.py`: the contract tests run on it.
    """

    typed: ClassVar[bool] = True  # a column can hold only what it is declared to hold

    @property
    @abc.abstractmethod
    def native(self) -> Any:
        """The table as the user knows it."""

    @property
    @abc.abstractmethod
    def names(self) -> tuple[str, ...]:
        """The names of the columns, as text."""

    @property
    @abc.abstractmethod
    def n_rows(self) -> int:
        """Its length."""

    @abc.abstractmethod
    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form.

        Args:
            position: which.
            missing_values: values that count as missing besides the library's own (null, NaN, NaT,
                None).
        """

    def as_learned(
        self,
        position: int,
        storage: Storage,
        specimen: str = "",
        missing_values: tuple[Any, ...] = (),
    ) -> Column:
        """A column read as another was, where its type is only what its cells look like.

        Args:
            position: which.
            storage: of the column that was learned.
            specimen: of that column.
            missing_values: as for `column`.
        """
        return self.column(position, missing_values)

    def with_types(self, storages: Mapping[int, str]) -> "AbstractTable":
        """With a type for columns that have no value, and so only the type that nothing has.

        Args:
            storages: what such columns would hold, by position; those with a type keep it.
        """
        return self

    def fixed(self, position: int) -> Mapping[str, Bool[np.ndarray, " N"]]:
        """Where `fill` leaves the cells of a column as they are, by what these are, in words."""
        return {}

    @abc.abstractmethod
    def fill(self, fills: Mapping[int, Fill]) -> "AbstractTable":
        """A copy with some cells replaced, by position of the column; all others bit for bit."""

    @abc.abstractmethod
    def keep(self, positions: Sequence[int]) -> "AbstractTable":
        """Only some of the columns."""

    @abc.abstractmethod
    def rows(self, start: int, stop: int) -> "AbstractTable":
        """Some consecutive rows."""

    @abc.abstractmethod
    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "AbstractTable":
        """With further columns of flags or integers, before all others or after them."""

    def named(self, names: Sequence[str]) -> "AbstractTable":
        """With these names, where labels need not be text and some are not."""
        return self

    @classmethod
    @abc.abstractmethod
    def stacked(cls, tables: Sequence["AbstractTable"]) -> "AbstractTable":
        """Tables of the same columns, one below the other."""
