"""A run over files that can be interrupted: finished pieces are kept beside its result."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import pyarrow.parquet as pq

from miwae._atomic import require_directory, write_atomically
from miwae.documents import Dataset, write_like
from miwae.engines._worker import Worker
from miwae.errors import MiwaeError
from miwae.events import Event

# Cells of the rows that are completed at once, and these rows at least.
PIECE_CELLS, LEAST_ROWS = 2**21, 2**12


@final
@dataclass(frozen=True)
class Run:
    """What was asked for, the model and the finished pieces, in the directory `OUT.parts`."""

    dataset: Dataset
    out: Path
    piece_rows: int

    @classmethod
    def begin(
        cls, dataset: Dataset, out: str, asked: dict[str, Any], *, resume: bool = False
    ) -> "Run":
        """Start a run, or go on with an earlier one of the same input and options.

        Raises:
            MiwaeError: there is another result already, or the earlier run was another one.
        """
        require_directory(out.rstrip("/")) if not os.path.isdir(out) else _require_empty(out)
        rows = max(PIECE_CELLS // max(len(dataset.schema), 1), LEAST_ROWS)
        run = cls(dataset, Path(out).absolute(), rows)
        identity = json.dumps({"asked": asked, "rows": rows, "files": run._files()}).encode()
        run._start(identity, resume=resume)
        return run

    @property
    def directory(self) -> Path:
        return self.out.with_name(self.out.name + ".parts")

    @property
    def model(self) -> Path:
        return self.directory / "model.miwae"

    @property
    def n_pieces(self) -> int:
        return -(-self.dataset.n_rows // self.piece_rows)

    def complete(self, worker: Worker, callback: Callable[[int], None]) -> Iterator[Event]:
        """Complete the pieces that are not finished; the callback gets the rows so far."""
        n_done = next((i for i in range(self.n_pieces) if not self._piece(i).exists()), None)
        if n_done is None:
            return
        start = n_done * self.piece_rows
        callback(start)
        pieces = self.dataset.pieces(self.piece_rows, start)
        for number, piece in enumerate(pieces, start=n_done):
            done = worker.complete(piece)
            path = self._piece(number)
            write_atomically(str(path), lambda file, t=done.table: pq.write_table(t, file))
            start += len(piece)
            callback(start)
            yield from done.events

    def finish(self) -> None:
        """Put the result in its place, and remove everything else."""
        tables = (pq.read_table(self._piece(i)) for i in range(self.n_pieces))
        if not self.dataset.path.is_dir():
            write_like(self.dataset, tables, self.out)
        else:
            ready = self.directory / "ready"
            shutil.rmtree(ready, ignore_errors=True)
            write_like(self.dataset, tables, ready)
            os.replace(ready, self.out)
        shutil.rmtree(self.directory)

    def _piece(self, number: int) -> Path:
        return self.directory / f"{number:06}.parquet"

    def _files(self) -> list[Any]:
        stats = [os.stat(fragment.path) for fragment in self.dataset.fragments]
        known = zip(self.dataset.files, self.dataset.lengths, stats, strict=True)
        return [[name, rows, stat.st_size, stat.st_mtime_ns] for name, rows, stat in known]

    def _start(self, identity: bytes, *, resume: bool) -> None:
        path, what = self.directory / "run.json", f"{self.directory} holds"
        if path.exists():
            if resume and path.read_bytes() == identity:
                return
            if resume:
                raise MiwaeError(
                    f"{what} an interrupted run of another input or with other options: give the "
                    "same as then, or leave out --resume to start again"
                )
            shutil.rmtree(self.directory)
        elif self.directory.exists():
            raise MiwaeError(f"{what} something else: remove it, or choose another output")
        self.directory.mkdir()
        write_atomically(str(path), lambda file: file.write(identity))


def _require_empty(path: str) -> None:
    if os.listdir(path):
        raise MiwaeError(f"cannot write {path}: the directory is not empty")


def digest_of(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()
