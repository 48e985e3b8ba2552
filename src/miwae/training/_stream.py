"""Training on a stream: batches that are seen once."""

import math
import time
from collections.abc import Iterable

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from miwae._arrays import checked_weights, relative_weights, require_trainable
from miwae.model import check_data
from miwae.training._guard import Guard
from miwae.training._history import (
    Callback,
    TrainingProgress,
    TrainingRecord,
    TrainingResult,
    record_of,
    with_score,
)
from miwae.training._holdout import Seen, Values
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState
from miwae.training._steps import Batch, step_on


def fit_stream(
    state: TrainingState,
    batches: Iterable[tuple[object, ...] | object],
    *,
    settings: TrainingSettings,
    callback: Callback | None = None,
) -> TrainingResult:
    """Learn online, from batches that are seen once: the paper's requirement (b).

    Each batch is cut into minibatches of `batch_size` rows, the last one padded with rows of
    weight zero, so that batches of any size use one compiled program. No cells are held out: the
    last state is the result.

    Args:
        state: from `initial_state(..., n_rows=1)`, or from an earlier call.
        batches: arrays, with NaN where missing, or `(x, observed)`, or `(x, observed, weights)`
            with weights of the rows, relative to each other.
        settings: of the run; `max_steps` only shapes the learning rate schedule.
        callback: called after each batch.

    Raises:
        DataError: a batch that cannot be learned from; columns may be entirely missing.
        DivergenceError: more rollbacks than allowed.
    """
    history: list[TrainingRecord] = []
    # A batch may be unlike all others, so that no fall of the bound counts as divergence.
    guard = Guard(settings, allowed_fall=math.inf)
    start = time.monotonic()
    for incoming in batches:
        whole = incoming if isinstance(incoming, tuple) else (incoming,)
        x, observed, weights = (*whole, None, None)[:3]
        values, seen = check_data(state.autoencoder, x, observed)
        require_trainable(seen, columns=False)
        checked, bounds = checked_weights(weights, len(values)), []
        weights = relative_weights(checked, len(values))
        for first in range(0, len(values), settings.batch_size):
            rows = slice(first, first + settings.batch_size)
            batch = _padded(values[rows], seen[rows], weights[rows], settings.batch_size)
            state, guard, bound = _one_step(state, guard, batch)
            bounds.append(bound)
        history.append(record_of(state, float(np.mean(bounds)), None, time.monotonic() - start))
        if callback is not None:
            step, last = int(state.step), history[-1]
            callback(TrainingProgress("training", step, settings.max_steps, last))
    state = with_score(state, None, settings)
    return TrainingResult(state.best, state, tuple(history), guard.events)


def _one_step(
    state: TrainingState, guard: Guard, batch: Batch
) -> tuple[TrainingState, Guard, float]:
    """Take a step on a batch, repeated with a smaller step size until the guard keeps it."""
    while True:
        new = step_on(state, batch, guard.settings)
        state, guard, kept = guard.check(state, new)
        if kept:
            return state, guard, float(new.bound)


def _padded(x: Values, observed: Seen, weights: Float[np.ndarray, " B"], n_rows: int) -> Batch:
    padding = ((0, n_rows - len(x)), (0, 0))
    row_weights = np.zeros(n_rows, dtype=np.float32)
    row_weights[: len(x)] = weights / len(x)
    arrays = (np.pad(x, padding), np.pad(observed, padding), row_weights)
    return Batch(*(jnp.asarray(a) for a in arrays))
