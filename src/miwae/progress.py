"""Progress on standard error, or nowhere."""

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

from miwae.training import TrainingProgress

__all__ = ["Progressor", "progressor"]


class Progressor:
    """Makes the callbacks that training and sampling report to."""

    def training(self, member: int, n_members: int) -> Callable[[TrainingProgress], None] | None:
        """For one of the models that are trained."""
        return None

    def rows(self, what: str) -> Callable[[int, int], None] | None:
        """For rows that are imputed."""
        return None


class _Bars(Progressor):
    def __init__(self, bars: Any) -> None:
        self.bars = bars

    def _added(self, what: str, note: str) -> Any:
        self.bars.start()  # not before: without a bar nothing is to be seen, not even a blank line
        return self.bars.add_task(what, total=None, note=note)

    def training(self, member: int, n_members: int) -> Callable[[TrainingProgress], None] | None:
        bars, name = self.bars, "" if n_members == 1 else f" {member + 1}/{n_members}"
        task = self._added(f"compiling{name}", "")

        def told(progress: TrainingProgress) -> None:
            if progress.phase == "compiling":
                return
            score = None if progress.record is None else progress.record.log_density
            note = "" if score is None else f"held-out log-density {score:.3f}"
            total = progress.step if progress.phase == "done" else progress.max_steps
            what = "finishing" if progress.phase == "finishing" else "training"
            bars.update(
                task,
                description=f"{what}{name}",
                completed=progress.step,
                total=total,
                note=note,
            )

        return told

    def rows(self, what: str) -> Callable[[int, int], None] | None:
        bars = self.bars
        task = self._added(what, "rows")
        return lambda done, total: bars.update(task, completed=done, total=total)


@contextlib.contextmanager
def progressor(shown: bool) -> Iterator[Progressor]:  # noqa: FBT001
    """Bars on standard error while the context lasts, or silence."""
    if not shown:
        yield Progressor()
        return
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.progress import Progress as Bars

    bars = Bars(
        TextColumn("{task.description:12}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        TextColumn("{task.fields[note]}"),
        console=Console(stderr=True),
    )
    try:
        yield _Bars(bars)
    finally:
        if bars.tasks:
            bars.stop()
