"""Tables that are too large for memory: learned from, completed and written in pieces."""

import abc
import gzip
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, NamedTuple, final

import pyarrow.parquet as pq

from miwae._atomic import write_atomically
from miwae.documents import Dataset, LargeText, suffix_of, write_like
from miwae.engines._learning import Parts, gathered, gathered_columns
from miwae.engines._worker import Worker
from miwae.events import Event

# Cells of the rows of Parquet that are completed at once, and these rows at least.
PIECE_CELLS, LEAST_ROWS = 2**21, 2**12


class Completed(NamedTuple):
    """A piece, ready to be written."""

    n_rows: int
    write: Callable[[BinaryIO], object]
    events: tuple[Event, ...]


class AbstractLarge(abc.ABC):
    """A file, or a directory of them, of which only pieces are in memory.

    How it is cut into pieces depends on its content alone.
    """

    suffix: ClassVar[str]  # of files with a piece each
    path: Path

    @property
    @abc.abstractmethod
    def names(self) -> Sequence[str]:
        """Of the columns."""

    @property
    @abc.abstractmethod
    def lengths(self) -> Sequence[int]:
        """Rows of each piece in which it is completed."""

    @property
    def n_rows(self) -> int:
        """Of the whole."""
        return sum(self.lengths)

    @property
    @abc.abstractmethod
    def files(self) -> dict[str, str]:
        """The path of each file, by its name in the result."""

    @abc.abstractmethod
    def gathered(
        self, *, seed: int, marks: tuple[Any, ...], callback: Callable[[int], None]
    ) -> Parts:
        """What learning needs of it, found out in one pass."""

    @abc.abstractmethod
    def completed(self, worker: Worker, start: int) -> Iterator[Completed]:
        """The pieces from this one on."""

    @abc.abstractmethod
    def join(self, pieces: Sequence[Path], out: Path) -> None:
        """Make the result of all pieces; `out` does not exist, or is a file to be replaced."""

    def identity(self) -> list[Any]:
        """What a run that is resumed must find as it was, as JSON."""
        stats = {name: os.stat(path) for name, path in self.files.items()}
        return [[name, stat.st_size, stat.st_mtime_ns] for name, stat in stats.items()]


@final
@dataclass(frozen=True, eq=False)
class LargeParquet(AbstractLarge):
    """Parquet files in pieces of equally many rows."""

    suffix: ClassVar[str] = ".parquet"
    dataset: Dataset

    @property
    def path(self) -> Path:
        return self.dataset.path

    @property
    def names(self) -> Sequence[str]:
        return self.dataset.schema.names

    @property
    def piece_rows(self) -> int:
        """Of all pieces but the last."""
        return max(PIECE_CELLS // max(len(self.names), 1), LEAST_ROWS)

    @property
    def lengths(self) -> Sequence[int]:
        whole, rest = divmod(self.dataset.n_rows, self.piece_rows)
        return [self.piece_rows] * whole + [rest] * (rest > 0)

    @property
    def files(self) -> dict[str, str]:
        paths = (fragment.path for fragment in self.dataset.fragments)
        return dict(zip(self.dataset.files, paths, strict=True))

    def gathered(self, **known: Any) -> Parts:
        return gathered(self.dataset.batches(), **known)

    def completed(self, worker: Worker, start: int) -> Iterator[Completed]:
        first_row = start * self.piece_rows
        for piece in self.dataset.pieces(self.piece_rows, first_row):
            table, events = worker.complete(piece, first_row)
            first_row += len(piece)
            write = lambda file, t=table: pq.write_table(t, file)  # noqa: E731
            yield Completed(len(piece), write, events)

    def join(self, pieces: Sequence[Path], out: Path) -> None:
        """A row group for each piece of a file, with statistics."""
        write_like(self.dataset, map(pq.read_table, pieces), out)


@final
@dataclass(frozen=True, eq=False)
class LargeCsv(AbstractLarge):
    """A text file, also a compressed one, in pieces of equally many bytes, more or less."""

    suffix: ClassVar[str] = ".csv"
    text: LargeText
    out: str  # the path of the result, whose suffix says how it is written
    marks: tuple[Any, ...] = ()  # values that mean missing
    like: tuple[Any, ...] | None = None  # what a model has learned about each column

    @property
    def path(self) -> Path:
        return self.text.path

    @property
    def names(self) -> Sequence[str]:
        return self.text.first.names

    @property
    def lengths(self) -> Sequence[int]:
        return self.text.lengths

    @property
    def files(self) -> dict[str, str]:
        return {self.path.name: str(self.path)}

    def gathered(self, **known: Any) -> Parts:
        return gathered_columns(self.text.readings(known.pop("marks")), **known)

    def completed(self, worker: Worker, start: int) -> Iterator[Completed]:
        for reading in self.text.readings(self.marks, self.like, start):
            imputed = worker.complete_columns(reading.columns)
            content = reading.patched(imputed.cells, suffix_of(self.out))
            if self.out.endswith(".gz"):  # such files, one after the other, are one
                content = gzip.compress(content, mtime=0)
            write = lambda file, c=content: file.write(c)  # noqa: E731
            yield Completed(reading.document.n_rows, write, imputed.events)

    def join(self, pieces: Sequence[Path], out: Path) -> None:
        def write(file: BinaryIO) -> None:
            for piece in pieces:
                with piece.open("rb") as part:
                    shutil.copyfileobj(part, file)

        write_atomically(str(out), write)
