"""Rollback: a run that diverges returns to its last good state, a limited number of times."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import equinox as eqx
import jax

from miwae.errors import DivergenceError
from miwae.training.settings import TrainingSettings
from miwae.training.state import TrainingState
from miwae.training.steps import Advanced

__all__ = ["Checked", "Guard"]

RETRY = 2**30  # folded into the key after a rollback; step numbers never get this large


class Checked(NamedTuple):
    """The state to continue from, the guard for the next check, and whether steps were kept."""

    state: TrainingState
    guard: "Guard"
    kept: bool


@dataclass(frozen=True)
class Guard:
    """Decides whether new steps are kept: a value, replaced after each check.

    Attributes:
        settings: of the run.
        allowed_fall: how far the mean bound may fall below its best.
        best: the best mean bound so far.
        rollbacks: how often the run has returned to an earlier state.
        events: one sentence for each rollback.
    """

    settings: TrainingSettings
    allowed_fall: float
    best: float = -math.inf
    rollbacks: int = 0
    events: tuple[str, ...] = ()

    @property
    def memory(self) -> tuple[float, int, list[str]]:
        """What a checkpoint has to hold, as JSON values; see `resumed`."""
        return self.best, self.rollbacks, list(self.events)

    def resumed(self, memory: tuple[Any, ...] | list[Any]) -> "Guard":
        """The guard of an interrupted run, from its `memory`."""
        best, rollbacks, events = memory
        return replace(self, best=best, rollbacks=rollbacks, events=tuple(events))

    def is_good(self, new: Advanced) -> bool:
        """Whether all numbers are finite and the bound has not fallen too far."""
        return bool(new.finite) and bool(float(new.bound) > self.best - self.allowed_fall)

    def check(self, good: TrainingState, new: Advanced) -> Checked:
        """Keep the new state, or return to the last good one with half the step.

        Args:
            good: the last good state, from which the new steps were taken.
            new: the state after them.

        Raises:
            DivergenceError: more rollbacks than `settings.max_rollbacks`.
        """
        guard = self
        if self.best == -math.inf and math.isfinite(float(new.first)):
            guard = replace(self, best=float(new.first))
        if guard.is_good(new):
            best = max(guard.best, float(new.bound))
            return Checked(new.state, replace(guard, best=best), kept=True)
        guard = guard._after_rollback(good, new)
        return Checked(_retried(good, guard.rollbacks), guard, kept=False)

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


def _retried(good: TrainingState, rollbacks: int) -> TrainingState:
    """The last good state, with half the step and other random numbers."""
    return eqx.tree_at(
        lambda s: (s.step_scale, s.key),
        good,
        (good.step_scale * 0.5, jax.random.fold_in(good.key, RETRY + rollbacks)),
    )
