"""Training runs: offline on an array, online on a stream, and refitting an amortizer."""

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae.arrays import require_trainable
from miwae.compilation import make_room_for_programs, program_of
from miwae.errors import DivergenceError, FileFormatError
from miwae.model.latent import Autoencoder, check_data
from miwae.model.priors import VampPrior
from miwae.threads import meanwhile
from miwae.training.checkpoint import load_checkpoint, save_checkpoint
from miwae.training.holdout import HeldOutScore, hold_out, score_held_out
from miwae.training.settings import TrainingSettings
from miwae.training.state import TrainingState, initial_state
from miwae.training.steps import Advanced, Batch, advance, step_on

__all__ = ["Fitted", "Progress", "Record", "fit", "fit_stream", "refit_amortizer"]

EVALUATION_BLOCK = 128  # rows
RETRY = 2**30  # folded into the key of a run after a rollback; steps never come so far
FINISH = 2**30 - 1  # folded into the key of a run for its last steps, on all cells
FINISHING_CHUNKS = 10  # between which time and progress are looked at


class Record(NamedTuple):
    """One line of a run's history."""

    step: int
    bound: float  # mean over the rows and steps since the last record: larger is better
    log_density: float | None  # of held-out cells, None where none are held out
    error: float | None  # mean squared error on held-out cells
    step_scale: float
    seconds: float


class Progress(NamedTuple):
    """What a callback is told: before compilation, after each evaluation, while it finishes."""

    phase: Literal["compiling", "training", "finishing", "done"]
    step: int
    max_steps: int
    record: Record | None


class Fitted(NamedTuple):
    """The result of a run."""

    autoencoder: Autoencoder  # the best state by held-out cells, finished if so set, or the last
    state: TrainingState  # to go on from
    history: tuple[Record, ...]
    events: tuple[str, ...]  # every automatic decision, in words


class _Evaluation(NamedTuple):
    """Rows with held-out cells, padded to whole blocks."""

    x: Float[Array, "N D"]
    observed: Bool[Array, "N D"]
    held_out: Bool[Array, "N D"]
    key: Key[Array, ""]

    def score(self, autoencoder: Autoencoder, settings: TrainingSettings) -> HeldOutScore:
        program = program_of(score_held_out, hasty=settings.hasty)
        return program(
            autoencoder,
            self.x,
            self.observed,
            self.held_out,
            self.key,
            settings.evaluation_samples,
            EVALUATION_BLOCK,
        )


def _evaluation(
    x: np.ndarray,
    observed: np.ndarray,
    settings: TrainingSettings,
    rng: np.random.Generator,
    key: Key[Array, ""],
    copies_of: np.ndarray | None,
) -> tuple[_Evaluation | None, Bool[np.ndarray, "N D"]]:
    """Hold cells out; return them and the cells that training may see."""
    if settings.held_out == 0:
        return None, observed
    if copies_of is None:
        held = hold_out(observed, settings.held_out, rng)
    else:
        _, first, inverse = np.unique(copies_of, return_index=True, return_inverse=True)
        held = hold_out(observed[first], settings.held_out, rng)[inverse]
    if not held.any():
        return None, observed
    rows = np.flatnonzero(held.any(axis=1))
    rows = rng.permutation(rows)[: settings.evaluation_rows]
    padding = ((0, -len(rows) % EVALUATION_BLOCK), (0, 0))
    remaining = observed & ~held
    padded = lambda a: jnp.asarray(np.pad(a[rows], padding))  # noqa: E731
    return _Evaluation(padded(x), padded(remaining), padded(held), key), remaining


def _integer(value: int) -> Int[Array, ""]:
    """On the device without a program of its own: even an addition would be compiled."""
    return jnp.asarray(np.int32(value))


def _chunk(step: int, settings: TrainingSettings) -> int:
    """How many steps until the next evaluation."""
    wanted = max(settings.evaluate_every, int(settings.evaluate_growth * step))
    return min(wanted, settings.max_steps - step)


def _judged(
    state: TrainingState, score: HeldOutScore | None, settings: TrainingSettings
) -> TrainingState:
    """Keep the best state; count evaluations since the monitor improved by the threshold."""
    where = lambda s: (s.best, s.best_score, s.reference_score, s.waited)  # noqa: E731
    now = state.result(settings)
    if score is None:
        return eqx.tree_at(lambda s: s.best, state, now)
    value = score.log_density if settings.monitor == "log_density" else -score.error
    is_best = float(value) > float(state.best_score)
    reference = float(state.reference_score)
    margin = settings.min_improvement * abs(reference)
    improved = float(value) > (reference if reference == -np.inf else reference + margin)
    return eqx.tree_at(
        where,
        state,
        (
            now if is_best else state.best,
            value if is_best else state.best_score,
            value if improved else state.reference_score,
            _integer(0 if improved else int(state.waited) + 1),
        ),
    )


class _Guard:
    """Sends a run back to its last good state, a bounded number of times.

    Args:
        settings: of the run.
        cells_per_row: by which its bound may fall; infinite for a stream, where a batch may be
            unlike all others.
        memory: what an interrupted run remembers, from `memory`.
    """

    def __init__(
        self, settings: TrainingSettings, cells_per_row: float, memory: Sequence[Any] = ()
    ) -> None:
        self.settings = settings
        self.allowed_fall = settings.divergence * cells_per_row
        self.best, self.rollbacks, self.events = memory or (-math.inf, 0, [])

    @property
    def memory(self) -> tuple[float, int, list[str]]:
        """The best bound so far, how often the run was sent back, and what was said of that."""
        return self.best, self.rollbacks, self.events

    def is_good(self, new: Advanced) -> bool:
        """All is finite, and the bound has not fallen too far below its best."""
        return bool(new.finite) and bool(float(new.bound) > self.best - self.allowed_fall)

    def accept(self, good: TrainingState, new: Advanced) -> TrainingState | None:
        """The new state, or None if `retry(good)` has to take its place."""
        bound = float(new.bound)
        if self.best == -math.inf and math.isfinite(float(new.first)):
            self.best = float(new.first)
        if self.is_good(new):
            self.best = max(self.best, bound)
            return new.state
        self.rollbacks += 1
        what = "diverged" if bool(new.finite) else "met values that are not finite"
        where = f"between steps {int(good.step)} and {int(new.state.step)}"
        if self.rollbacks > self.settings.max_rollbacks:
            raise DivergenceError(
                f"training {what} {where} (mean bound {bound:.4g}), after "
                f"{self.settings.max_rollbacks} attempts with a smaller step; lower learning_rate "
                f"(now {self.settings.learning_rate:g}) or clip, and check the scaling of x"
            )
        self.events.append(f"training {what} {where}: went back and halved the step")
        return None

    def retry(self, good: TrainingState) -> TrainingState:
        """The last good state, with half the step and other random numbers."""
        return eqx.tree_at(
            lambda s: (s.step_scale, s.key),
            good,
            (good.step_scale * 0.5, jax.random.fold_in(good.key, RETRY + self.rollbacks)),
        )


def fit(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callable[[Progress], None] | None = None,
    checkpoint: str | Path | None = None,
    compilations: Sequence[Callable[[], object]] = (),
    copies_of: np.ndarray | None = None,
) -> Fitted:
    """Train an autoencoder on incomplete rows.

    Args:
        autoencoder: with its initial weights.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        settings: of the run.
        key: for held-out cells, minibatches and codes.
        callback: told before compilation, after each evaluation, while it finishes, at the end.
        checkpoint: a file written after each evaluation. Where it exists, the run goes on from it
            and ends where it would have ended without the interruption, bit for bit.
        compilations: of programs that will be needed later, run while the training is compiled.
        copies_of: for each row, which row it is a copy of, if some are: they have the same cells
            held out.

    Returns:
        The best state by held-out cells (or the last, where none are held out), which has learned
        from these as well where `settings.finish` says so, and the history.

    Raises:
        DataError: data that cannot be learned from.
        DivergenceError: more rollbacks than allowed.
        FileFormatError: a checkpoint of another run, or of more steps than allowed.
    """
    values, seen = check_data(autoencoder, x, observed)
    require_trainable(seen)
    make_room_for_programs()
    key_state, key_hold, key_score = jax.random.split(key, 3)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key_hold)))
    evaluation, remaining = _evaluation(values, seen, settings, rng, key_score, copies_of)
    state = initial_state(autoencoder, settings, key_state, len(values))
    fingerprint = _fingerprint(values, seen, key)
    state, history, memory = _resumed(checkpoint, state, settings, fingerprint)
    report = callback or (lambda progress: None)
    guard = _Guard(settings, remaining.sum() / len(values), memory)
    before = history[-1].seconds if history else 0.0
    start = time.monotonic()
    elapsed = lambda: before + time.monotonic() - start  # noqa: E731

    def record(bound: float, score: HeldOutScore | None) -> Record:
        return Record(
            int(state.step),
            bound,
            None if score is None else float(score.log_density),
            None if score is None else float(score.error),
            float(state.step_scale),
            elapsed(),
        )

    data = (jnp.asarray(values), jnp.asarray(remaining))
    take_steps = _steps_of(settings)
    report(Progress("compiling", int(state.step), settings.max_steps, None))
    with meanwhile(*compilations):
        stop = _reason_to_stop(state, settings, elapsed(), evaluation)
        # No step is taken, but the program is compiled.
        compile_steps = lambda: take_steps(state, *data, _integer(0))  # noqa: E731
        with meanwhile(*([compile_steps] if stop is None else [])):
            score = None
            if evaluation is not None and not history:
                score = evaluation.score(state.result(settings), settings)
                history.append(record(float("nan"), score))
        if score is not None:
            state = _judged(state, score, settings)
        while (stop := _reason_to_stop(state, settings, elapsed(), evaluation)) is None:
            n_steps = _chunk(int(state.step), settings)
            new = take_steps(state, *data, _integer(n_steps))
            accepted = guard.accept(state, new)
            if accepted is None:
                state = guard.retry(state)
                continue
            score = None
            if evaluation is not None:
                score = evaluation.score(accepted.result(settings), settings)
            state = _judged(accepted, score, settings)
            history.append(record(float(new.bound), score))
            if checkpoint is not None:
                run = (history, guard.memory)
                save_checkpoint(checkpoint, state, settings, run, fingerprint)
            report(Progress("training", int(state.step), settings.max_steps, history[-1]))
    events = [*guard.events, stop]
    if evaluation is not None and settings.finish > 0:
        n_steps = math.ceil(settings.finish * _best_step(history, settings))
        fresh = initial_state(state.best, settings, jax.random.fold_in(key, FINISH), len(values))
        fresh = eqx.tree_at(lambda s: s.step_scale, fresh, state.step_scale)
        tell = lambda done: report(Progress("finishing", done, n_steps, history[-1]))  # noqa: E731
        data = (jnp.asarray(values), jnp.asarray(seen))
        steps = lambda now, n: take_steps(now, *data, _integer(n))  # noqa: E731
        state, event = _finished(state, fresh, steps, n_steps, settings, guard, elapsed, tell)
        events.append(event)
    report(Progress("done", int(state.step), settings.max_steps, history[-1] if history else None))
    return Fitted(state.best, state, tuple(history), tuple(events))


def _steps_of(settings: TrainingSettings) -> Callable[..., Advanced]:
    """The program that takes steps: the same for runs that differ in their time only."""
    timeless = dataclasses.replace(settings, max_seconds=None)
    program = program_of(advance, hasty=settings.hasty)
    return lambda state, x, observed, n: program(state, x, observed, timeless, n)


def _best_step(history: Sequence[Record], settings: TrainingSettings) -> int:
    """After how many steps the best state was reached."""

    def score(record: Record) -> float:
        value = record.log_density if settings.monitor == "log_density" else record.error
        if value is None or math.isnan(value):
            return -math.inf
        return value if settings.monitor == "log_density" else -value

    return max(history, key=score).step


def _finished(
    state: TrainingState,
    fresh: TrainingState,
    steps: Callable[[TrainingState, int], Advanced],
    n_steps: int,
    settings: TrainingSettings,
    guard: _Guard,
    elapsed: Callable[[], float],
    tell: Callable[[int], None],
) -> tuple[TrainingState, str]:
    """Let the best state learn from the held-out cells as well; keep it as it is if that fails.

    Args:
        state: at the end of the run.
        fresh: starts from the best state, with a new optimiser and a new average.
        steps: takes so many on all observed cells.
        n_steps: to take.
        settings: of the run.
        guard: of the run.
        elapsed: seconds of the run so far.
        tell: told how many of the steps are done.

    Returns:
        The last state, with itself as the best, and what happened.
    """
    while (done := int(fresh.step)) < n_steps:
        if settings.max_seconds is not None and elapsed() >= settings.max_seconds:
            break
        chunk = min(-(-n_steps // FINISHING_CHUNKS), n_steps - done)
        new = steps(fresh, chunk)
        if not guard.is_good(new):
            return state, "the held-out cells were not learned from: training diverged with them"
        fresh = new.state
        tell(int(fresh.step))
    if done == 0:
        why = "no step improved the first state" if n_steps == 0 else "max_seconds is used up"
        return state, f"the held-out cells were not learned from: {why}"
    fresh = eqx.tree_at(lambda s: s.best, fresh, fresh.result(settings))
    return fresh, f"went on from the best state for {done} steps with the held-out cells"


def _resumed(
    checkpoint: str | Path | None,
    state: TrainingState,
    settings: TrainingSettings,
    fingerprint: str,
) -> tuple[TrainingState, list[Record], Sequence[Any]]:
    """The state, the history and the guard's memory of a checkpoint, if there is one."""
    if checkpoint is None or not Path(checkpoint).exists():
        return state, [], ()
    state, (saved, memory) = load_checkpoint(checkpoint, state, settings, fingerprint)
    if int(state.step) > settings.max_steps:
        raise FileFormatError(
            f"{checkpoint} is of step {int(state.step)}, beyond max_steps "
            f"({settings.max_steps}): allow more steps, or use another file"
        )
    return state, [Record(*record) for record in saved], memory


def _fingerprint(x: np.ndarray, observed: np.ndarray, key: Key[Array, ""]) -> str:
    """Tells the observed cells and the key of a run from all others."""
    digest = hashlib.sha256(np.where(observed, x, 0.0).astype(np.float32).tobytes())
    digest.update(observed.tobytes())
    digest.update(np.asarray(jax.random.key_data(key)).tobytes())
    return digest.hexdigest()


def _reason_to_stop(
    state: TrainingState,
    settings: TrainingSettings,
    seconds: float,
    evaluation: _Evaluation | None,
) -> str | None:
    step = int(state.step)
    if step >= settings.max_steps:
        return f"stopped after {step} steps, the most allowed"
    # What the last steps, on all cells, will take is left to them.
    share = 1 / (1 + settings.finish) if evaluation else 1.0
    if settings.max_seconds is not None and seconds >= share * settings.max_seconds:
        return f"stopped after {step} steps: max_seconds is used up"
    if evaluation and settings.patience is not None and int(state.waited) >= settings.patience:
        return (
            f"stopped after {step} steps: held-out cells did not improve by "
            f"{settings.min_improvement:g} in {settings.patience} evaluations"
        )
    return None


def refit_amortizer(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callable[[Progress], None] | None = None,
) -> Fitted:
    """Train the amortizer on other rows while the generative model stays as it is.

    Before the likelihood of a test set is estimated, its proposals should be as good as those of
    the training set, or the estimate is too low (Cremer et al., 2018).

    Args:
        autoencoder: the model.
        x: the rows to be scored.
        observed: True where a cell was seen.
        settings: of the run.
        key: for minibatches and codes.
        callback: told before compilation and after each evaluation.
    """
    prior = autoencoder.generative.prior
    if isinstance(prior, VampPrior):
        fixed = prior.fixed(autoencoder.amortizer)
        autoencoder = eqx.tree_at(lambda a: a.generative.prior, autoencoder, fixed)
    settings = dataclasses.replace(settings, trained="amortizer")
    return fit(autoencoder, x, observed, settings=settings, key=key, callback=callback)


def fit_stream(
    state: TrainingState,
    batches: Iterable[tuple[object, object] | object],
    *,
    settings: TrainingSettings,
    callback: Callable[[Progress], None] | None = None,
) -> Fitted:
    """Learn online, from batches that never come back: the paper's requirement (b).

    Each batch is cut into minibatches of `batch_size`, the last padded with rows of weight zero,
    so that batches of any size use one compiled program. There are no held-out cells: the last
    state is kept.

    Args:
        state: from `initial_state(..., n_rows=1)`, or from an earlier call.
        batches: arrays, with NaN where missing, or pairs `(x, observed)`.
        settings: of the run; `max_steps` only shapes the schedule.
        callback: told after each batch.

    Raises:
        DataError: a batch that cannot be learned from; a column with nothing observed is no
            obstacle.
        DivergenceError: more rollbacks than allowed.
    """
    history: list[Record] = []
    report = callback or (lambda progress: None)
    guard = _Guard(settings, math.inf)
    start = time.monotonic()
    for incoming in batches:
        x, observed = incoming if isinstance(incoming, tuple) else (incoming, None)
        values, seen = check_data(state.autoencoder, x, observed)
        require_trainable(seen, columns=False)
        bounds = []
        for first in range(0, len(values), settings.batch_size):
            rows = slice(first, first + settings.batch_size)
            batch = _padded(values[rows], seen[rows], settings.batch_size)
            accepted = None
            while accepted is None:
                new = step_on(state, batch, settings)
                accepted = guard.accept(state, new)
                state = guard.retry(state) if accepted is None else accepted
            bounds.append(float(new.bound))
        seconds = time.monotonic() - start
        scale = float(state.step_scale)
        history.append(Record(int(state.step), float(np.mean(bounds)), None, None, scale, seconds))
        report(Progress("training", int(state.step), settings.max_steps, history[-1]))
    state = _judged(state, None, settings)
    return Fitted(state.best, state, tuple(history), tuple(guard.events))


def _padded(x: np.ndarray, observed: np.ndarray, n_rows: int) -> Batch:
    padding = ((0, n_rows - len(x)), (0, 0))
    row_weights = np.zeros(n_rows, dtype=np.float32)
    row_weights[: len(x)] = 1 / len(x)
    return Batch(
        jnp.asarray(np.pad(x, padding)),
        jnp.asarray(np.pad(observed, padding)),
        jnp.asarray(row_weights),
    )
