"""Training on arrays, in three phases: prepare, train, finish."""

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae.arrays import require_trainable
from miwae.compilation import make_room_for_programs, program_of
from miwae.errors import FileFormatError
from miwae.model import Autoencoder, check_data
from miwae.threads import meanwhile
from miwae.training.checkpoint import load_checkpoint, save_checkpoint
from miwae.training.guard import Guard
from miwae.training.history import (
    TrainingProgress,
    TrainingRecord,
    TrainingResult,
    best_step,
    record_of,
    with_score,
)
from miwae.training.holdout import Evaluation, evaluation_of
from miwae.training.settings import TrainingSettings
from miwae.training.state import TrainingState, initial_state
from miwae.training.steps import Advanced, advance

__all__ = ["fit", "refit_amortizer"]

FINISH = 2**30 - 1  # folded into the key of a run for its last steps, on all observed cells
FINISHING_CHUNKS = 10  # chunks of the last steps; time and progress are checked between them


class _Run(NamedTuple):
    """What does not change during a run."""

    settings: TrainingSettings
    key: Key[Array, ""]
    x: Float[np.ndarray, "N D"]
    observed: Bool[np.ndarray, "N D"]
    remaining: Bool[np.ndarray, "N D"]  # the observed cells that are not held out
    evaluation: Evaluation | None  # None if no cells are held out
    checkpoint: Path | None
    fingerprint: str  # identifies the data and the key; empty without a checkpoint
    report: Callable[[TrainingProgress], None]
    elapsed: Callable[[], float]  # seconds of the run, those before an interruption included


class _Moment(NamedTuple):
    """What changes during a run, and what a checkpoint holds."""

    state: TrainingState
    guard: Guard
    history: tuple[TrainingRecord, ...] = ()


def fit(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callable[[TrainingProgress], None] | None = None,
    checkpoint: str | Path | None = None,
    copies_of: Int[np.ndarray, " N"] | None = None,
) -> TrainingResult:
    """Train an autoencoder on incomplete rows.

    Args:
        autoencoder: with its initial weights.
        x: rows; NaN where missing, unless `observed` is given.
        observed: True where a cell was seen.
        settings: of the run.
        key: for held-out cells, minibatches and latent samples.
        callback: called before compilation, after each evaluation, while the run finishes, and at
            the end.
        checkpoint: a file that is written after each evaluation. If it exists, the run continues
            from it and ends as it would have without the interruption, bit for bit.
        copies_of: for each row, which row it is a copy of, if some are: copies have the same cells
            held out.

    Returns:
        The best state by held-out cells (or the last, if none are held out), trained on these
        cells as well if `settings.finish` is positive, and the history.

    Raises:
        DataError: data that cannot be learned from.
        DivergenceError: more rollbacks than allowed.
        FileFormatError: a checkpoint of another run, or of more steps than allowed.
    """
    values, seen = check_data(autoencoder, x, observed)
    require_trainable(seen)
    path = None if checkpoint is None else Path(checkpoint)
    report = callback or (lambda progress: None)
    run, start = _prepare(autoencoder, values, seen, settings, key, report, path, copies_of)
    moment, reason = _train(run, start)
    return _finish(run, moment, reason)


def refit_amortizer(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callable[[TrainingProgress], None] | None = None,
) -> TrainingResult:
    """Train the amortizer on other rows; the generative model does not change.

    Before the likelihood of a test set is estimated, its proposals should be as good as those of
    the training set, or the estimate is too low (Cremer et al., 2018).

    Args:
        autoencoder: the model.
        x: the rows to be scored.
        observed: True where a cell was seen.
        settings: of the run.
        key: for minibatches and latent samples.
        callback: called before compilation and after each evaluation.
    """
    fixed = autoencoder.generative.prior.fixed(autoencoder.amortizer)
    autoencoder = eqx.tree_at(lambda a: a.generative.prior, autoencoder, fixed)
    settings = dataclasses.replace(settings, trained="amortizer")
    return fit(autoencoder, x, observed, settings=settings, key=key, callback=callback)


# ---------------------------------------------------------------- prepare


def _prepare(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    settings: TrainingSettings,
    key: Key[Array, ""],
    report: Callable[[TrainingProgress], None],
    checkpoint: Path | None,
    copies_of: Int[np.ndarray, " N"] | None,
) -> tuple[_Run, _Moment]:
    """Hold cells out, and start from the initial state or from a checkpoint."""
    make_room_for_programs()
    key_state, key_hold, key_score = jax.random.split(key, 3)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key_hold)))
    evaluation, remaining = evaluation_of(x, observed, settings, rng, key_score, copies_of)
    guard = Guard(settings, settings.divergence * remaining.sum() / len(x))
    start = _Moment(initial_state(autoencoder, settings, key_state, len(x)), guard)
    fingerprint = "" if checkpoint is None else _fingerprint(x, observed, key)
    if checkpoint is not None and checkpoint.exists():
        start = _resumed(checkpoint, start, settings, fingerprint)
    before = start.history[-1].seconds if start.history else 0.0
    started = time.monotonic() - before
    run = _Run(
        settings=settings,
        key=key,
        x=x,
        observed=observed,
        remaining=remaining,
        evaluation=evaluation,
        checkpoint=checkpoint,
        fingerprint=fingerprint,
        report=report,
        elapsed=lambda: time.monotonic() - started,
    )
    return run, start


def _resumed(
    checkpoint: Path, start: _Moment, settings: TrainingSettings, fingerprint: str
) -> _Moment:
    """The state, guard and history of a checkpoint."""
    state, (saved, memory) = load_checkpoint(checkpoint, start.state, settings, fingerprint)
    if int(state.step) > settings.max_steps:
        raise FileFormatError(
            f"{checkpoint} is of step {int(state.step)}, beyond max_steps "
            f"({settings.max_steps}): allow more steps, or use another file"
        )
    history = tuple(TrainingRecord(*record) for record in saved)
    return _Moment(state, start.guard.resumed(memory), history)


def _fingerprint(
    x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"], key: Key[Array, ""]
) -> str:
    """Identifies the observed cells and the key of a run."""
    digest = hashlib.sha256(np.where(observed, x, 0.0).astype(np.float32).tobytes())
    digest.update(observed.tobytes())
    digest.update(np.asarray(jax.random.key_data(key)).tobytes())
    return digest.hexdigest()


# ---------------------------------------------------------------- train


def _train(run: _Run, moment: _Moment) -> tuple[_Moment, str]:
    """Take steps and evaluate them in turn; return where the run stopped, and the reason."""
    settings = run.settings
    take_steps = _steps_on(run, run.remaining)
    moment = _first_evaluation(run, moment, take_steps)
    while (reason := _reason_to_stop(run, moment.state)) is None:
        new = take_steps(moment.state, _chunk(int(moment.state.step), settings))
        state, guard, kept = moment.guard.check(moment.state, new)
        moment = moment._replace(state=state, guard=guard)
        if kept:
            moment = _evaluated(run, moment, float(new.bound))
            if run.checkpoint is not None:
                _save(run, run.checkpoint, moment)
            _report(run, "training", moment)
    return moment, reason


def _first_evaluation(
    run: _Run, moment: _Moment, take_steps: Callable[[TrainingState, int], Advanced]
) -> _Moment:
    """Evaluate the initial model while the training program is compiled on another thread."""
    step = int(moment.state.step)
    run.report(TrainingProgress("compiling", step, run.settings.max_steps, None))
    compile_steps = lambda: take_steps(moment.state, 0)  # noqa: E731
    with meanwhile(*([compile_steps] if _reason_to_stop(run, moment.state) is None else [])):
        if run.evaluation is None or moment.history:
            return moment
        return _evaluated(run, moment, math.nan)


def _steps_on(
    run: _Run, observed: Bool[np.ndarray, "N D"]
) -> Callable[[TrainingState, int], Advanced]:
    """The function that takes steps on these cells of the run's rows."""
    x, seen = jnp.asarray(run.x), jnp.asarray(observed)
    program = _program_of(run.settings)
    # A NumPy scalar goes to the device without a program of its own; an addition would need one.
    return lambda state, n_steps: program(state, x, seen, jnp.asarray(np.int32(n_steps)))


def _program_of(settings: TrainingSettings) -> Callable[..., Advanced]:
    """The compiled training program, shared by runs that differ in `max_seconds` only."""
    timeless = dataclasses.replace(settings, max_seconds=None)
    program = program_of(advance, hasty=settings.hasty)
    return lambda state, x, observed, n_steps: program(state, x, observed, timeless, n_steps)


def _chunk(step: int, settings: TrainingSettings) -> int:
    """How many steps to take until the next evaluation."""
    wanted = max(settings.evaluate_every, int(settings.evaluate_growth * step))
    return min(wanted, settings.max_steps - step)


def _evaluated(run: _Run, moment: _Moment, bound: float) -> _Moment:
    """Score the held-out cells, remember the best model, and add a record."""
    score = None
    if run.evaluation is not None:
        score = run.evaluation.score(moment.state.result(run.settings), run.settings)
    state = with_score(moment.state, score, run.settings)
    record = record_of(state, bound, score, run.elapsed())
    return moment._replace(state=state, history=(*moment.history, record))


def _reason_to_stop(run: _Run, state: TrainingState) -> str | None:
    settings, step = run.settings, int(state.step)
    if step >= settings.max_steps:
        return f"stopped after {step} steps, the most allowed"
    # The last steps, on all observed cells, need their share of the time.
    share = 1 / (1 + settings.finish) if run.evaluation else 1.0
    if settings.max_seconds is not None and run.elapsed() >= share * settings.max_seconds:
        return f"stopped after {step} steps: max_seconds is used up"
    if run.evaluation and settings.patience is not None and int(state.waited) >= settings.patience:
        return (
            f"stopped after {step} steps: held-out cells did not improve by "
            f"{settings.min_improvement:g} in {settings.patience} evaluations"
        )
    return None


def _save(run: _Run, path: Path, moment: _Moment) -> None:
    memory = (moment.history, moment.guard.memory)
    save_checkpoint(path, moment.state, run.settings, memory, run.fingerprint)


def _report(run: _Run, phase: Literal["training", "done"], moment: _Moment) -> None:
    last = moment.history[-1] if moment.history else None
    run.report(TrainingProgress(phase, int(moment.state.step), run.settings.max_steps, last))


# ---------------------------------------------------------------- finish


def _finish(run: _Run, moment: _Moment, reason: str) -> TrainingResult:
    """Train the best state on the held-out cells as well, if the settings ask for it."""
    events = [*moment.guard.events, reason]
    if run.evaluation is not None and run.settings.finish > 0:
        state, event = _with_held_out_cells(run, moment)
        moment = moment._replace(state=state)
        events.append(event)
    _report(run, "done", moment)
    return TrainingResult(moment.state.best, moment.state, moment.history, tuple(events))


def _with_held_out_cells(run: _Run, moment: _Moment) -> tuple[TrainingState, str]:
    """Continue from the best state, with a new optimiser, on all observed cells.

    Returns:
        The last state, with itself as the best, and what happened; the state of `moment` if no
        step was taken or training diverged.
    """
    settings = run.settings
    n_steps = math.ceil(settings.finish * best_step(moment.history, settings))
    key = jax.random.fold_in(run.key, FINISH)
    state = initial_state(moment.state.best, settings, key, len(run.x))
    state = eqx.tree_at(lambda s: s.step_scale, state, moment.state.step_scale)
    take_steps = _steps_on(run, run.observed)
    while (done := int(state.step)) < n_steps:
        if settings.max_seconds is not None and run.elapsed() >= settings.max_seconds:
            break
        new = take_steps(state, min(-(-n_steps // FINISHING_CHUNKS), n_steps - done))
        if not moment.guard.is_good(new):
            diverged = "training diverged with them"
            return moment.state, f"the held-out cells were not learned from: {diverged}"
        state = new.state
        run.report(TrainingProgress("finishing", int(state.step), n_steps, moment.history[-1]))
    if done == 0:
        why = "no step improved the first state" if n_steps == 0 else "max_seconds is used up"
        return moment.state, f"the held-out cells were not learned from: {why}"
    state = eqx.tree_at(lambda s: s.best, state, state.result(settings))
    return state, f"went on from the best state for {done} steps with the held-out cells"
