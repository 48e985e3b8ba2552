"""Training on arrays, in three phases: prepare, train, finish."""

import dataclasses
import hashlib
import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae._arrays import relative_weights, require_trainable
from miwae._compilation import compiling, make_room_for_programs
from miwae._interrupts import keeping_interrupts, raise_interrupt
from miwae._keys import fold_in, split
from miwae._threads import meanwhile
from miwae._words import counted
from miwae.errors import FileFormatError
from miwae.inference import compile_sampling
from miwae.model import Autoencoder, check_data
from miwae.training._checkpoint import load_checkpoint, save_checkpoint
from miwae.training._guard import Guard
from miwae.training._history import (
    Callback,
    Phase,
    TrainingProgress,
    TrainingRecord,
    TrainingResult,
    Unseen,
    best_step,
    record_of,
    with_score,
)
from miwae.training._holdout import Evaluation, Seen, Values, evaluation_of
from miwae.training._programs import compiled_for, n_padded, training_program
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState, initial_state
from miwae.training._steps import Advanced

FINISH = 2**30 - 1  # folded into the key of a run for its last steps, on all observed cells
FINISHING_CHUNKS = 10  # chunks of the last steps; time and progress are checked between them
POLISH = 2**30 - 2  # folded into the key of a run for the steps of the amortizer alone
FIRST_STEPS = 10  # if time is limited; they show how long a step takes
NOT_LEARNED = "the held-out cells were not learned from"
TIME_IS_UP = "the time limit was reached"


class _Run(NamedTuple):
    """What does not change during a run."""

    settings: TrainingSettings
    key: Key[Array, ""]
    x: Values
    observed: Seen
    weights: Float[np.ndarray, " N"]  # of the rows; their mean is 1
    visible: Seen  # the observed cells that imputation will see
    remaining: Seen  # the observed cells that are not held out
    evaluation: Evaluation | None  # None if no cells are held out
    checkpoint: Path | None
    fingerprint: str  # identifies the data and the key; empty without a checkpoint
    callback: Callback | None
    elapsed: Callable[[], float]  # seconds of the run, those before an interruption included

    @property
    def max_seconds(self) -> float:
        return math.inf if self.settings.max_seconds is None else self.settings.max_seconds

    def report(self, phase: Phase, step: int, n_steps: int, last: TrainingRecord | None) -> None:
        raise_interrupt()
        if self.callback is not None:
            self.callback(TrainingProgress(phase, step, n_steps, last))


class _Moment(NamedTuple):
    """What changes during a run, and what a checkpoint holds."""

    state: TrainingState
    guard: Guard
    history: tuple[TrainingRecord, ...] = ()

    @property
    def last(self) -> TrainingRecord | None:
        return self.history[-1] if self.history else None


@keeping_interrupts()
def fit(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callback | None = None,
    checkpoint: str | Path | None = None,
    copies_of: Int[np.ndarray, " N"] | None = None,
    weights: Float[np.ndarray, " N"] | None = None,
    hidden: Bool[np.ndarray, " D"] | None = None,
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
        weights: of the rows, not negative: they multiply the bounds of rows, relative to their
            mean.
        hidden: features that imputation will not see: the amortizer is polished without them.

    Returns:
        The best state by held-out cells (or the last, if none are held out), trained on these
        cells as well if `settings.finish` is positive, and the history.

    Raises:
        DataError: data that cannot be learned from.
        DivergenceError: more rollbacks than allowed.
        FileFormatError: a checkpoint of another run, or of more steps than allowed.
    """
    values, seen = check_data(autoencoder, x, observed)
    require_trainable(seen, columns=not autoencoder.generative.observation.padded)
    path = None if checkpoint is None else Path(checkpoint)
    rows = _Rows(values, seen, relative_weights(weights, len(values)), _without(seen, hidden))
    run, start = _prepare(autoencoder, rows, settings, key, callback, path, copies_of)
    moment, reason = _train(run, start)
    return _finish(run, moment, reason)


class _Rows(NamedTuple):
    """What is learned from."""

    x: Values
    observed: Seen
    weights: Float[np.ndarray, " N"]
    visible: Seen


def _without(seen: Seen, hidden: Bool[np.ndarray, " D"] | None) -> Seen:
    return seen if hidden is None else seen & ~hidden


def refit_amortizer(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callback | None = None,
) -> TrainingResult:
    """Train the amortizer on other rows; the generative model does not change.

    Before the likelihood of a test set is estimated, its proposals should be as good as those of
    the training set, or the estimate is too low (Cremer et al., 2018). `x` are the rows to be
    scored; the other arguments are those of `fit`.
    """
    fixed = autoencoder.generative.prior.fixed(autoencoder.amortizer)
    autoencoder = eqx.tree_at(lambda a: a.generative.prior, autoencoder, fixed)
    settings = dataclasses.replace(settings, trained="amortizer")
    return fit(autoencoder, x, observed, settings=settings, key=key, callback=callback)


def _prepare(
    autoencoder: Autoencoder,
    rows: _Rows,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callback | None,
    checkpoint: Path | None,
    copies_of: Int[np.ndarray, " N"] | None,
) -> tuple[_Run, _Moment]:
    """Hold cells out, and start from the initial state or from a checkpoint."""
    x, observed = rows.x, rows.observed
    started = time.monotonic()
    make_room_for_programs()
    key_state, key_hold, key_score = split(key, 3)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key_hold)))
    evaluation, remaining = evaluation_of(x, observed, settings, rng, key_score, copies_of)
    guard = Guard(settings, settings.divergence * remaining.sum() / len(x))
    start = _Moment(initial_state(autoencoder, settings, key_state, n_padded(len(x))), guard)
    fingerprint = "" if checkpoint is None else _fingerprint(rows, key)
    if checkpoint is not None and checkpoint.exists():
        start = _resumed(checkpoint, start, settings, fingerprint)
    started -= start.last.seconds if start.last else 0.0
    elapsed = lambda: time.monotonic() - started  # noqa: E731
    data = (x, observed, rows.weights, rows.visible, remaining, evaluation)
    return _Run(settings, key, *data, checkpoint, fingerprint, callback, elapsed), start


def _resumed(path: Path, start: _Moment, settings: TrainingSettings, fingerprint: str) -> _Moment:
    """The state, guard and history of a checkpoint."""
    state, (history, memory) = load_checkpoint(path, start.state, settings, fingerprint)
    if int(state.step) > settings.max_steps:
        raise FileFormatError(
            f"{path} is of step {int(state.step)}, beyond max_steps "
            f"({settings.max_steps}): allow more steps, or use another file"
        )
    return _Moment(state, start.guard.resumed(memory), history)


def _fingerprint(rows: _Rows, key: Key[Array, ""]) -> str:
    """Identifies the observed cells, the weights of rows and the key of a run."""
    digest = hashlib.sha256(np.where(rows.observed, rows.x, 0.0).astype(np.float32).tobytes())
    for array in rows[1:]:
        digest.update(array.tobytes())
    digest.update(np.asarray(jax.random.key_data(key)).tobytes())
    return digest.hexdigest()


def _train(run: _Run, moment: _Moment) -> tuple[_Moment, str]:
    """Take steps and evaluate them in turn; return where the run stopped, and the reason."""
    settings = run.settings
    take_steps = _steps_on(run, run.remaining)
    moment = _first_evaluation(run, moment, take_steps)
    while (reason := _reason_to_stop(run, moment.state)) is None:
        step = int(moment.state.step)
        wanted = max(settings.evaluate_every, int(settings.evaluate_growth * step))
        wanted = min(wanted, settings.max_steps - step)
        n_steps = _in_time(run, moment, wanted, _time_to_train(run))
        rate = _annealed(run, step, n_steps) if settings.annealed else 1.0
        new = _at_rate(take_steps, moment.state, n_steps, rate)
        state, guard, kept = moment.guard.check(moment.state, new)
        moment = moment._replace(state=state, guard=guard)
        if kept:
            moment = _evaluated(run, moment, float(new.bound))
            if run.checkpoint is not None:
                memory = (moment.history, moment.guard.memory)
                save_checkpoint(run.checkpoint, moment.state, settings, memory, run.fingerprint)
            run.report("training", int(state.step), settings.max_steps, moment.last)
    return moment, reason


def _annealed(run: _Run, step: int, n_steps: int) -> float:
    """The step size of a chunk, relative to the largest: half a cosine, which ends at zero.

    It ends with the steps, or with the time if that is over before.
    """
    done = (step + n_steps / 2) / run.settings.max_steps
    return _half_cosine(max(done, run.elapsed() / _time_to_train(run)))


def _half_cosine(done: float) -> float:
    return 0.5 + 0.5 * math.cos(math.pi * min(done, 1.0))


def _at_rate(
    take_steps: Callable[[TrainingState, int], Advanced],
    state: TrainingState,
    n_steps: int,
    rate: float,
) -> Advanced:
    """Take steps whose size is multiplied by a rate."""
    scale_of = lambda s: s.step_scale  # noqa: E731
    own = eqx.tree_at(
        scale_of, state, jax.device_put(np.asarray(state.step_scale) * np.float32(rate))
    )
    new = take_steps(own, n_steps)
    return new._replace(state=eqx.tree_at(scale_of, new.state, state.step_scale))


def _first_evaluation(
    run: _Run, moment: _Moment, take_steps: Callable[[TrainingState, int], Advanced]
) -> _Moment:
    """Evaluate the initial model while the training program is compiled on another thread."""
    run.report("compiling", int(moment.state.step), run.settings.max_steps, None)

    def compile_steps() -> None:
        autoencoder, settings = moment.state.autoencoder, run.settings
        with compiling("training", *compiled_for(autoencoder, len(run.x), settings)):
            take_steps(moment.state, 0)

    with meanwhile(*([compile_steps] if _reason_to_stop(run, moment.state) is None else [])):
        if run.evaluation is None or moment.history:
            return moment
        compile_sampling(moment.state.autoencoder)
        return _evaluated(run, moment, math.nan)


def _steps_on(run: _Run, observed: Seen) -> Callable[[TrainingState, int], Advanced]:
    """The function that takes steps on these cells of the run's rows."""
    n_rows = len(run.x)
    padding = ((0, n_padded(n_rows) - n_rows), (0, 0))
    x, seen = jax.device_put(np.pad(run.x, padding)), jax.device_put(np.pad(observed, padding))
    weights = jax.device_put(np.pad(run.weights, padding[0]))
    program = training_program(run.settings)
    whole = lambda n: jax.device_put(np.int32(n))  # noqa: E731
    rows = (x, seen, weights, whole(n_rows))
    return lambda state, n_steps: program(state, *rows, whole(n_steps))


def _evaluated(run: _Run, moment: _Moment, bound: float) -> _Moment:
    """Score the held-out cells, remember the best model, and add a record."""
    score = None
    if run.evaluation is not None:
        model = moment.state.result(run.settings)
        rows = run.evaluation.first(run.settings.evaluation_rows)
        score = rows.score(model, run.settings.evaluation_samples)
    state = with_score(moment.state, score, run.settings)
    record = record_of(state, bound, score, run.elapsed())
    return moment._replace(state=state, history=(*moment.history, record))


def _time_to_train(run: _Run) -> float:
    """The last steps, on all observed cells, need their share of the time."""
    return run.max_seconds / (1 + run.settings.finish if run.evaluation else 1.0)


def _in_time(run: _Run, moment: _Moment, n_steps: int, seconds: float) -> int:
    """As many of these steps as fit into the time, at the latest pace, and at least one."""
    if seconds == math.inf:
        return n_steps
    if moment.last is None or moment.last.step == 0:
        return min(n_steps, FIRST_STEPS)
    before = [(r.step, r.seconds) for r in moment.history[:-1]] or [(0, 0.0)]
    step, at = before[-1]
    pace = (moment.last.seconds - at) / (moment.last.step - step)  # with an evaluation
    left = seconds - run.elapsed()
    return n_steps if n_steps * pace <= left else max(int(left / pace), 1)


def _reason_to_stop(run: _Run, state: TrainingState) -> str | None:
    settings, step = run.settings, int(state.step)
    if step >= settings.max_steps:
        return f"stopped after {counted(step, 'step')}, the most allowed"
    if run.elapsed() >= _time_to_train(run):
        return f"stopped after {counted(step, 'step')}: {TIME_IS_UP}"
    if run.evaluation and settings.patience is not None and int(state.waited) >= settings.patience:
        return (
            f"stopped after {counted(step, 'step')}: held-out cells did not improve by "
            f"{settings.min_improvement:g} in {settings.patience} evaluations"
        )
    return None


def _finish(run: _Run, moment: _Moment, reason: str) -> TrainingResult:
    """Train the best state on the held-out cells as well, if the settings ask for it."""
    events = [*moment.guard.events, reason]
    unseen = None if run.evaluation is None else Unseen(run.evaluation, moment.state.best)
    if run.evaluation is not None and run.settings.finish > 0:
        state, event = _with_held_out_cells(run, moment)
        moment = moment._replace(state=state)
        events.append(event)
    if run.settings.polish:
        moment = moment._replace(state=_polished(run, moment))
    run.report("done", int(moment.state.step), run.settings.max_steps, moment.last)
    return TrainingResult(moment.state.best, moment.state, moment.history, tuple(events), unseen)


def _with_held_out_cells(run: _Run, moment: _Moment) -> tuple[TrainingState, str]:
    """Continue from the best state, with a new optimiser, on all observed cells.

    The step size falls to zero, as in `_annealed`.

    Returns the last state, with itself as the best, and what happened; the state of `moment` if no
    step was taken or training diverged.
    """
    settings = run.settings
    n_steps = math.ceil(settings.finish * best_step(moment.history, settings))
    key = fold_in(run.key, FINISH)
    state = initial_state(moment.state.best, settings, key, n_padded(len(run.x)))
    state = eqx.tree_at(lambda s: s.step_scale, state, moment.state.step_scale)
    take_steps = _steps_on(run, run.observed)
    while (done := int(state.step)) < n_steps:
        if run.elapsed() >= run.max_seconds:
            break
        chunk = min(-(-n_steps // FINISHING_CHUNKS), n_steps - done)
        steps = _in_time(run, moment, chunk, run.max_seconds)
        new = _at_rate(take_steps, state, steps, _half_cosine((done + chunk / 2) / n_steps))
        if not moment.guard.is_good(new):
            return moment.state, f"{NOT_LEARNED}: training diverged with them"
        state = new.state
        run.report("finishing", int(state.step), n_steps, moment.last)
    if done == 0:
        why = "no step improved the first state" if n_steps == 0 else TIME_IS_UP
        return moment.state, f"{NOT_LEARNED}: {why}"
    state = eqx.tree_at(lambda s: s.best, state, state.result(settings))
    steps = counted(done, "step")
    return state, f"went on from the best state for {steps} with the held-out cells"


def _polished(run: _Run, moment: _Moment) -> TrainingState:
    """Train the amortizer alone, with the generative model fixed and ever smaller steps.

    Proposals lag behind a model that changes; imputation needs them as good as they can be. The
    state of `moment` is returned if no step was taken or training diverged.
    """
    n_steps, key = run.settings.polish, fold_in(run.key, POLISH)
    state = initial_state(moment.state.best, run.settings, key, n_padded(len(run.x)))
    state = eqx.tree_at(lambda s: s.trains_all, state, jax.device_put(np.zeros((), dtype=bool)))
    take_steps = _steps_on(run, run.visible)
    while (done := int(state.step)) < n_steps:
        if run.elapsed() >= run.max_seconds:
            break
        chunk = min(-(-n_steps // FINISHING_CHUNKS), n_steps - done)
        steps, rate = _in_time(run, moment, chunk, run.max_seconds), _half_cosine(done / n_steps)
        new = _at_rate(take_steps, state, steps, rate)
        if not moment.guard.is_good(new):
            return moment.state
        state = new.state
        run.report("polishing", int(state.step), n_steps, moment.last)
    if done == 0:
        return moment.state
    result = state.result(run.settings)
    return eqx.tree_at(lambda s: (s.autoencoder, s.best), moment.state, (result, result))
