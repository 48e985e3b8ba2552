"""Rollback: a run that diverges returns to its last good state, a limited number of times."""

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import equinox as eqx

from miwae._keys import fold_in
from miwae.errors import DivergenceError
from miwae.training._history import Memory
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState
from miwae.training._steps import Advanced

RETRY = 2**30  # folded into the key after a rollback; step numbers never get this large


class Checked(NamedTuple):
    """The state to continue from, the guard for the next check, and whether steps were kept."""

    state: TrainingState
    guard: "Guard"
    kept: bool


@dataclass(frozen=True)
class Guard:
    """Decides whether new steps are kept: a value, replaced after each check."""

    settings: TrainingSettings
    allowed_fall: float  # of the mean bound below its best
    best: float = -math.inf  # mean bound so far
    rollbacks: int = 0  # how often the run has returned to an earlier state
    events: tuple[str, ...] = ()  # one sentence for each rollback

    @property
    def memory(self) -> Memory:
        """What a checkpoint has to hold; see `resumed`."""
        return Memory(self.best, self.rollbacks, self.events)

    def resumed(self, memory: Memory) -> "Guard":
        """The guard of an interrupted run, from its `memory`."""
        return replace(self, **memory._asdict())

    def is_good(self, new: Advanced) -> bool:
        """Whether all numbers are finite and the bound has not fallen too far."""
        return bool(new.finite) and bool(float(new.bound) > self.best - self.allowed_fall)

    def check(self, good: TrainingState, new: Advanced) -> Checked:
        """Keep the new state, or return to the last good one with half the step."""
        guard = self
        if self.best == -math.inf and math.isfinite(float(new.first)):
            guard = replace(self, best=float(new.first))
        if guard.is_good(new):
            best = max(guard.best, float(new.bound))
            return Checked(new.state, replace(guard, best=best), kept=True)
        guard = guard._after_rollback(good, new)
        other_numbers = fold_in(good.key, RETRY + guard.rollbacks)
        where = lambda s: (s.step_scale, s.key)  # noqa: E731
        retried = eqx.tree_at(where, good, (good.step_scale * 0.5, other_numbers))
        return Checked(retried, guard, kept=False)

    def _after_rollback(self, good: TrainingState, new: Advanced) -> "Guard":
        what = "diverged" if bool(new.finite) else "met values that are not finite"
        where = f"between steps {int(good.step)} and {int(new.state.step)}"
        if self.rollbacks >= self.settings.max_rollbacks:
            raise DivergenceError(
                f"training {what} {where} (mean bound {float(new.bound):.4g}), after "
                f"{self.settings.max_rollbacks} attempts with a smaller step; lower learning_rate "
                f"(now {self.settings.learning_rate:g}) or clip, and check the scaling of x"
            )
        event = f"training {what} {where}: went back and halved the step"
        return replace(self, rollbacks=self.rollbacks + 1, events=(*self.events, event))
