"""Progress bars on standard error."""

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from miwae.training import TrainingProgress


@dataclass(frozen=True)
class Progressor:
    """Makes the callbacks to which training and imputation report their progress."""

    bars: Any = None  # a display of rich; None shows nothing

    def _added(self, what: str, note: str) -> Any:
        self.bars.start()  # not before: without a bar nothing is to be seen, not even a blank line
        return self.bars.add_task(what, total=None, note=note)

    def training(self, member: int, n_members: int) -> Callable[[TrainingProgress], None] | None:
        """The callback of one of the models that are trained."""
        if self.bars is None:
            return None
        bars, name = self.bars, "" if n_members == 1 else f" {member + 1}/{n_members}"
        task = self._added(f"compiling{name}", "")

        def show(progress: TrainingProgress) -> None:
            if progress.phase == "compiling":
                return
            what = "finishing" if progress.phase == "finishing" else "training"
            score = None if progress.record is None else progress.record.log_density
            note = "" if score is None else f"held-out log-density {score:.3f}"
            total = progress.step if progress.phase == "done" else progress.max_steps
            now = {"completed": progress.step, "total": total, "note": note}
            bars.update(task, description=f"{what}{name}", **now)

        return show

    def rows(self, what: str) -> Callable[[int, int], None] | None:
        """The callback of rows that are imputed."""
        if self.bars is None:
            return None
        bars = self.bars
        task = self._added(what, "rows")
        return lambda done, total: bars.update(task, completed=done, total=total)


@contextlib.contextmanager
def progressor(shown: bool) -> Iterator[Progressor]:  # noqa: FBT001
    """Show progress bars while the context lasts, or nothing."""
    if not shown:
        yield Progressor()
        return
    from rich import progress
    from rich.console import Console

    text, done = progress.TextColumn, (progress.BarColumn(), progress.MofNCompleteColumn())
    times = (progress.TimeElapsedColumn(), text("left"), progress.TimeRemainingColumn())
    columns = (text("{task.description:12}"), *done, *times, text("{task.fields[note]}"))
    bars = progress.Progress(*columns, console=Console(stderr=True))
    try:
        yield Progressor(bars)
    finally:
        if bars.tasks:
            bars.stop()
