"""A run over a large table that can be interrupted: finished pieces are kept beside its result."""

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

from miwae._atomic import require_directory, write_atomically
from miwae.engines._large import AbstractLarge
from miwae.engines._worker import Worker
from miwae.errors import MiwaeError
from miwae.events import Event


@final
@dataclass(frozen=True)
class Run:
    """What was asked for, the model and the finished pieces, in the directory `OUT.parts`."""

    table: AbstractLarge
    out: Path

    @classmethod
    def begin(
        cls, table: AbstractLarge, out: str, asked: dict[str, Any], *, resume: bool = False
    ) -> "Run":
        """Start a run, or go on with an earlier one of the same input and options.

        Raises:
            MiwaeError: there is another result already, or the earlier run was another one.
        """
        require_directory(out.rstrip("/")) if not os.path.isdir(out) else _require_empty(out)
        run = cls(table, Path(out).absolute())
        known = {"asked": asked, "pieces": len(table.lengths), "files": table.identity()}
        run._start(json.dumps(known).encode(), resume=resume)
        return run

    @property
    def directory(self) -> Path:
        return self.out.with_name(self.out.name + ".parts")

    @property
    def model(self) -> Path:
        return self.directory / "model.miwae"

    def complete(self, worker: Worker, callback: Callable[[int], None]) -> Iterator[Event]:
        """Complete the pieces that are not finished; the callback gets the rows so far."""
        pieces = self._pieces()
        start = next((i for i, path in enumerate(pieces) if not path.exists()), None)
        if start is None:
            return
        n_rows = sum(self.table.lengths[:start])
        callback(n_rows)
        for path, done in zip(pieces[start:], self.table.completed(worker, start), strict=True):
            write_atomically(str(path), done.write)
            n_rows += done.n_rows
            callback(n_rows)
            yield from done.events

    def finish(self) -> None:
        """Put the result in its place, and remove everything else."""
        if self.table.path.is_dir():
            ready = self.directory / "ready"
            shutil.rmtree(ready, ignore_errors=True)
            self.table.join(self._pieces(), ready)
            os.replace(ready, self.out)
        else:
            self.table.join(self._pieces(), self.out)
        shutil.rmtree(self.directory)

    def _pieces(self) -> list[Path]:
        names = (f"{i:06}{self.table.suffix}" for i in range(len(self.table.lengths)))
        return [self.directory / name for name in names]

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
