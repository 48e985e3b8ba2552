"""The history of a training run: its records, its progress, its best state, its result."""

import math
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np

from miwae.model import Autoencoder
from miwae.training._holdout import Evaluation, HeldOutScore
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState

Phase = Literal["compiling", "training", "finishing", "polishing", "done"]


class TrainingRecord(NamedTuple):
    """One evaluation in the history of a run."""

    step: int
    bound: float  # mean over the rows and steps since the last record: larger is better
    log_density: float | None  # of held-out cells; None if none are held out
    error: float | None  # mean squared error on held-out cells
    step_scale: float  # 1, halved by each rollback
    seconds: float  # since the start of the run


class Memory(NamedTuple):
    """What a guard has to remember when a run is interrupted."""

    best: float  # mean bound so far
    rollbacks: int  # how often the run has returned to an earlier state
    events: tuple[str, ...]  # one sentence for each rollback


class TrainingProgress(NamedTuple):
    """What a callback receives: before compilation, after each evaluation, and at the end."""

    phase: Phase
    step: int
    max_steps: int
    record: TrainingRecord | None  # the last one


Callback: TypeAlias = Callable[[TrainingProgress], None]


class Unseen(NamedTuple):
    """Rows with held-out cells, and the best model that was not trained on these cells."""

    rows: Evaluation
    autoencoder: Autoencoder


class TrainingResult(NamedTuple):
    """The result of a run."""

    autoencoder: Autoencoder  # the best state by held-out cells (or the last), finished if so set
    state: TrainingState  # from which training can continue
    history: tuple[TrainingRecord, ...]
    events: tuple[str, ...]  # every automatic decision, as a sentence
    unseen: Unseen | None = None  # None if no cells were held out


def record_of(
    state: TrainingState, bound: float, score: HeldOutScore | None, seconds: float
) -> TrainingRecord:
    """The record of a state and its evaluation."""
    log_density, error = (None, None) if score is None else (float(a) for a in score)
    scale = float(state.step_scale)
    return TrainingRecord(int(state.step), bound, log_density, error, scale, seconds)


def with_score(
    state: TrainingState, score: HeldOutScore | None, settings: TrainingSettings
) -> TrainingState:
    """The state after an evaluation: the best model so far, and how long it has been the best.

    Without a score, the present model counts as the best.
    """
    now = state.result(settings)
    if score is None:
        return eqx.tree_at(lambda s: s.best, state, now)
    chosen = score.log_density if settings.monitor == "log_density" else -score.error
    value = jax.device_put(np.float32(chosen))
    is_best = float(value) > float(state.best_score)
    reference = float(state.reference_score)
    margin = settings.min_improvement * abs(reference)
    improved = float(value) > (reference if reference == -math.inf else reference + margin)
    waited = jax.device_put(np.int32(0 if improved else int(state.waited) + 1))
    best = (now, value) if is_best else (state.best, state.best_score)
    reference_score = value if improved else state.reference_score
    where = lambda s: (s.best, s.best_score, s.reference_score, s.waited)  # noqa: E731
    return eqx.tree_at(where, state, (*best, reference_score, waited))


def best_step(history: Sequence[TrainingRecord], settings: TrainingSettings) -> int:
    """The step of the record with the best score."""

    def score(record: TrainingRecord) -> float:
        value = record.log_density if settings.monitor == "log_density" else record.error
        if value is None or math.isnan(value):
            return -math.inf
        return value if settings.monitor == "log_density" else -value

    return max(history, key=score).step
