"""Results of experiments, kept in a file."""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from miwae.evaluation import key_of

__all__ = ["Store"]


@dataclass(frozen=True)
class Store:
    """Records in a file of JSON lines, which survives an interrupted run.

    Each line is written to the disk at once; an incomplete last line is skipped.
    """

    path: Path

    def records(self) -> list[dict[str, Any]]:
        """The last record of each attempt, in the order of first appearance."""
        found: dict[tuple[Any, ...], dict[str, Any]] = {}
        for line in self.path.read_text("utf-8").splitlines() if self.path.exists() else []:
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                continue
            found[key_of(record)] = record
        return list(found.values())

    def done(self) -> set[tuple[Any, ...]]:
        """The attempts that succeeded: others are made again after a resume."""
        return {key_of(record) for record in self.records() if "error" not in record}

    def append(self, record: dict[str, Any]) -> None:
        """Append a record."""
        with self.path.open("a+b") as file:
            line = json.dumps(record).encode() + b"\n"
            if file.tell():
                file.seek(-1, os.SEEK_END)
                if file.read(1) != b"\n":
                    line = b"\n" + line  # after the end of an interrupted one
            file.write(line)
            file.flush()
            os.fsync(file.fileno())
