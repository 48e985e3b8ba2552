"""What every file format offers: columns in neutral form, and a copy with some cells replaced."""

import abc
import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from miwae.columns import Cells, Column, Hint, stored_text
from miwae.documents._frame import NO_COLUMNS, Frame
from miwae.errors import DataError

DEFAULT_NA = (
    *("", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "null", "NULL", "None"),
    *("?", ".", "-", "#N/A", "#NA", "<NA>", "NaT"),
)

Family: TypeAlias = Literal["text", "excel", "arrow", "statistics", "json"]

# A table of more cells, of which more than so many are empty for each that is not, is refused: a
# few cells that are far from each other make a file of a few kB need gigabytes.
LARGE_AREA, SPARSE = 2_000_000, 20

# Unpacked content of more bytes, compressed more than so many times, is refused.
LARGE, RATIO = 2**28, 200

# Imputed cells by position of their column.
Patch: TypeAlias = Mapping[int, Cells]


def most_unpacked(n_bytes: int) -> int:
    """How many bytes the content of a compressed file may have."""
    return max(LARGE, RATIO * n_bytes)


def refuse_bomb(n_bytes: int, n_cells: int) -> None:
    """Refuse a file of so many bytes whose cells would need far more memory."""
    size = 8 * n_cells
    if size > most_unpacked(n_bytes):
        raise DataError(
            f"the file of {n_bytes} bytes would need {size / 2**30:.1f} GiB: if that is right, "
            "allow it by allow_large (--allow-large)"
        )


def is_sparse(n_rows: int, n_columns: int, n_used: int) -> bool:
    """Whether a table is much larger than the cells that its file has."""
    return n_rows * n_columns > max(LARGE_AREA, SPARSE * n_used)


@dataclass(frozen=True, kw_only=True, eq=False)
class Document(abc.ABC):
    """A file that has been opened: a value that nothing changes."""

    family: ClassVar[Family]
    row_word: ClassVar[str] = "row"  # what the program that shows such files calls a row
    names: tuple[str, ...]
    n_rows: int
    n_comments: int = 0  # lines above the names of a text that are kept but not read
    sheets: tuple[str, ...] = ()  # of a workbook, all of them
    sheet: str = ""  # the one that is read
    remark: str = ""  # what looks wrong with the choice of the sheet, and what to do

    @abc.abstractmethod
    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "Reading":
        """Understand the cells: parse each column once; `marks` also mean missing.

        `like` is what was learned about each column, with `storage` and `example` as in `Column`,
        for cells that do not show what they are: dates whose day and month could be swapped, zip
        codes without leading zeros, columns without values.
        """

    def row_numbers(self) -> Int[np.ndarray, " N"]:
        """The rows as the program counts them that shows such files: from 0 in frames."""
        return np.arange(self.n_rows)

    def place(self, row: int) -> str:
        return f"{self.row_word} {self._numbers[row]}"

    @functools.cached_property
    def _numbers(self) -> Int[np.ndarray, " N"]:
        return self.row_numbers()

    def fixed(self, position: int) -> Mapping[str, Bool[np.ndarray, " N"]]:
        """The cells of a column that are never overwritten, by what they are, in words."""
        return {}

    def head(self) -> Frame:
        """The columns whose types other formats may not have, with one row."""
        return NO_COLUMNS


@dataclass(frozen=True, kw_only=True, eq=False)
class Reading(abc.ABC):
    """A document and what its cells mean, with all that is needed to write other cells."""

    document: Document
    columns: tuple[Column, ...]
    # Dates whose day and month could be swapped, and that were read as in `like`.
    ambiguous: tuple[str, ...] = ()

    @abc.abstractmethod
    def patched(
        self, cells: Patch, suffix: str = "", added: Frame = NO_COLUMNS
    ) -> bytes | memoryview:
        """The content of the file with some cells replaced, and all others as they were.

        The suffix decides between formats of one family: tabs in .tsv, .parquet or .feather.
        Empty for the format of the document. The added columns come after all others.
        """

    @abc.abstractmethod
    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        """The table with some cells replaced; those of text files as written if `as_text`."""

    def texts(self, position: int, cells: Cells) -> list[str]:
        """Values of a column as the file writes them; as people do where it has types."""
        return [stored_text(value, cells.storage) for value in cells.values.tolist()]

    def arrow_schema(self) -> bytes:
        """The types of the columns, as `frames.arrow_schema` writes them."""
        from miwae import frames

        return frames.arrow_schema(self.columns)

    def hints(self) -> tuple[Hint, ...]:
        """What looks wrong with how the words of a text were read."""
        return ()

    def missing_words(self) -> dict[str, int] | None:
        """How often each word of a text was taken as missing, the most frequent first."""
        return None
