"""Which columns a completed table has: without empty ones, with indicators of missing cells."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from miwae import frames
from miwae._callers import warn_caller
from miwae.columns import Cells
from miwae.tabular import EncodedTable, FittedTable


class Outline(NamedTuple):
    kept: list[int]  # positions of the columns that come out
    flagged: tuple[int, ...]  # positions of the columns that get an indicator
    dropped: tuple[int, ...]  # positions of the empty ones, unless these are kept

    @classmethod
    def of(cls, table: FittedTable, *, keep_empty: bool, add_indicator: bool) -> "Outline":
        dropped = () if keep_empty else table.schema.empty
        kept = [i for i in range(len(table.schema.columns)) if i not in dropped]
        return cls(kept, table.incomplete if add_indicator else (), dropped)

    def names(self, names: Sequence[str]) -> list[str]:
        """Of all columns that come out, given those of a table."""
        return [names[i] for i in self.kept] + [_flag(names, i) for i in self.flagged]

    def filled(
        self, frame: Any, cells: Mapping[int, Cells], table: EncodedTable, labels: Sequence[str]
    ) -> Any:
        """The frame completed; with indicators, its columns are named as scikit-learn does."""
        completed = frames.completed(frame, cells)
        if self.dropped:
            completed = frames.keep(completed, self.kept)
        if not self.flagged:
            return completed
        names = frames.names(frame)
        flags = {_flag(names, i): table.gaps[i].missing for i in self.flagged}
        # scikit-learn refuses frames of which some labels are text and others are not.
        return frames.renamed(frames.with_columns(completed, flags, first=False), labels)

    def warn_of_dropped(self, frame: Any, names: Sequence[str]) -> None:
        """Say which columns of a frame are dropped; those who pass arrays know scikit-learn."""
        if self.dropped and not isinstance(frames.as_frame(frame), np.ndarray):
            shown = ", ".join(repr(names[i]) for i in self.dropped)
            remedy = "keep_empty_features=True keeps them"
            warn_caller(f"columns without any observed cell are dropped: {shown}; {remedy}")


def _flag(names: Sequence[str], position: int) -> str:
    return f"missingindicator_{names[position]}"
