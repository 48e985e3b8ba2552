"""Progress on standard error: one line for each phase, shared by models trained side by side."""

import contextlib
import math
import threading
import time
from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from typing import Any, final

from miwae.training import TrainingProgress

# Without a terminal, a phase that takes longer than so many seconds is also reported before its
# end, once.
LONG = 10.0

BAR = (10, 40)  # the fewest and the most characters of a bar


@dataclass
class _Part:
    """How far one model is in a phase, or one pass through rows."""

    done: int = 0
    total: int = 0  # 0 if unknown
    running: bool = True
    first: tuple[float, int] = (0.0, 0)  # the time and the count of the first report
    last: float = 0.0  # the time of the last one

    def report(self, now: float, done: int, total: int) -> None:
        if not self.total:
            self.first = (now, done)
        self.done, self.total, self.last, self.running = done, total, now, done < total

    def left(self, now: float) -> float:
        """Seconds to its end; infinite if unknown.

        The speed is that since the first report: what came before it may be compilation.
        """
        start, before = self.first
        if not self.running:
            return 0.0
        if self.done <= before:
            return math.inf
        each = (self.last - start) / (self.done - before)
        return (self.total - self.done) * each - (now - self.last)


@dataclass
class _Phase:
    """A line: what is being done, how far, and the time."""

    name: str
    unit: str
    n_models: int = 0  # that will come to this phase; 0 if it is not one of training
    latest: float | None = None  # when the phase ends at the latest; None if after its last step
    parts: dict[Hashable, _Part] = field(default_factory=dict)
    seconds: float = 0.0  # in which at least one part was running
    now: float = 0.0
    ended: bool = False
    n_told: int = 0  # lines printed, without a terminal

    def pass_time(self, now: float) -> None:
        if self.running:
            self.seconds += now - self.now
        self.now = now

    @property
    def running(self) -> bool:
        return any(part.running for part in self.parts.values())

    @property
    def share(self) -> float | None:
        done, total = self._counts()
        return done / total if self.running and total else None

    def left(self) -> float:
        """Seconds to the end of the phase; infinite if unknown."""
        if not self.running or len(self.parts) < self.n_models:
            return math.inf
        left = max(part.left(self.now) for part in self.parts.values())
        return left if self.latest is None else min(left, self.latest - self.now)

    def line(self, width: int, *, estimate: bool = True) -> str:
        """The line, with less in it where the width is small."""
        done, total = self._counts()
        unit = self.unit.removesuffix("s") if total == 1 else self.unit
        counts = f"{done:,} {unit}" if done == total else f"{done:,}/{total:,} {unit}"
        far = [counts] if total else []
        begun = f"{len(self.parts)} of " if len(self.parts) < self.n_models else ""
        models = [f"{begun}{self.n_models} models"] if self.n_models > 1 else []
        state = self._state(stopped=done < total, estimate=estimate)
        choices = (far + models + state, far + state, far + state[:1], far or state)
        lines = [f"{self.name:9} {', '.join(texts)}" for texts in choices]
        return next((line for line in lines if len(line) <= width), lines[-1])

    def _counts(self) -> tuple[int, int]:
        parts = self.parts.values()
        return sum(part.done for part in parts), sum(part.total for part in parts)

    def _state(self, *, stopped: bool, estimate: bool) -> list[str]:
        passed = _clock(int(self.seconds))
        if self.ended or not (self.running or len(self.parts) < self.n_models):
            return ["stopped early", passed] if stopped else [f"done in {passed}"]
        left = self.left()
        if estimate and 0 < left < math.inf:
            at_most = "" if self.latest is None else "at most "
            return [f"{at_most}{_clock(math.ceil(left))} left"]
        return [f"{passed} so far"]


def _clock(seconds: int) -> str:
    minutes, rest = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


@final
class Display:
    """The lines of all phases: redrawn on a terminal, printed once they are final elsewhere."""

    def __init__(self, console: Any, clock: Callable[[], float] = time.monotonic) -> None:
        from rich.live import Live

        self._console, self._clock = console, clock
        self._phases: dict[str, _Phase] = {}
        self._lock = threading.RLock()
        self._estimate = True
        drawn = console.is_interactive or console.is_jupyter
        # Standard output may be a file: what is printed there must not end up on the terminal.
        options = {"console": console, "redirect_stdout": False}
        self._live = Live(get_renderable=self.drawn, **options) if drawn else None

    def report(self, owner: Hashable, phase: _Phase | None, done: int = 0, total: int = 0) -> None:
        """Say what a model (or a pass through rows) is at; None if it has finished."""
        with self._lock:
            if phase is not None:
                phase = self._phases.setdefault(phase.name, phase)
            self._pass_time()
            for other in self._phases.values():
                if other is not phase and owner in other.parts:
                    other.parts[owner].running = False
            if phase is not None:
                part = phase.parts.setdefault(owner, _Part())
                if total:
                    part.report(phase.now, done, total)
            self._show()

    def close(self, *, ended: bool) -> None:
        """Leave the lines as they are; those of phases that ended say so."""
        with self._lock:
            self._pass_time()
            self._estimate = False
            for phase in self._phases.values():
                phase.ended = ended
            self._show(last=True)
        if self._live is not None:
            self._live.stop()

    def _pass_time(self) -> None:
        now = self._clock()
        for phase in self._phases.values():
            phase.pass_time(now)

    def _show(self, *, last: bool = False) -> None:
        if self._live is not None:
            if self._phases and not self._live.is_started:
                self._live.start()  # not before: it would leave a blank line
            return
        for phase in self._phases.values():
            over = last or (len(phase.parts) == phase.n_models and not phase.running)
            long = phase.seconds >= LONG and phase.left() < math.inf
            if phase.n_told < 2 and (over or (long and phase.n_told == 0)):
                phase.n_told = 2 if over else 1
                line = phase.line(self._console.width, estimate=self._estimate)
                self._console.print(line, markup=False, highlight=False, soft_wrap=True)

    def drawn(self) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table

        width = self._console.width
        with self._lock:
            if self._estimate:
                self._pass_time()
            phases = list(self._phases.values())
            lines = [phase.line(width, estimate=self._estimate) for phase in phases]
            shares = [phase.share if self._estimate else None for phase in phases]
        bar = min(width - max(map(len, lines), default=0) - 1, BAR[1])
        grid = Table.grid(padding=(0, 1, 0, 0))
        grid.add_column(no_wrap=True)
        for line, share in zip(lines, shares, strict=True):
            if share is None or bar < BAR[0]:
                grid.add_row(line)
            else:
                grid.add_row(line, ProgressBar(1.0, share, bar))
        return grid


@final
@dataclass(frozen=True)
class Progressor:
    """Makes the callbacks to which training and imputation report their progress.

    A phase of training is a line of its own as soon as it is reported; its name is what is shown.
    """

    display: Display | None = None  # None shows nothing

    def training(
        self, member: int, n_members: int, *, latest: float | None = None
    ) -> Callable[[TrainingProgress], None] | None:
        """The callback of one of the models that are trained.

        Where training may stop before its last step, `latest` is the time at which it stops
        anyway, by `time.monotonic()`; infinite if that is not limited.
        """
        if self.display is None:
            return None
        display = self.display
        display.report(member, _Phase("compiling", "", n_members))

        def show(progress: TrainingProgress) -> None:
            name, step, max_steps, _ = progress
            if name == "done":
                display.report(member, None)
            elif name != "compiling":
                bound = latest if name == "training" else None
                display.report(member, _Phase(name, "steps", n_members, bound), step, max_steps)

        return show

    def rows(self, what: str, unit: str = "rows") -> Callable[[int, int], None] | None:
        """The callback of a pass through rows; passes of the same name share a line."""
        if self.display is None:
            return None
        display, phase, owner = self.display, _Phase(what, unit), object()
        display.report(owner, phase)
        return lambda done, total: display.report(owner, phase, done, total)


@contextlib.contextmanager
def progressor(shown: bool) -> Iterator[Progressor]:  # noqa: FBT001
    """Show progress while the context lasts, or nothing."""
    if not shown:
        yield Progressor()
        return
    from rich.console import Console

    display = Display(Console(stderr=True))
    try:
        yield Progressor(display)
    except BaseException:
        display.close(ended=False)
        raise
    display.close(ended=True)
