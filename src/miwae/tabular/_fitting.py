"""Fit models to the arrays of a table: the linear core, then the deep model that starts there."""

import contextlib
import dataclasses
import math
import time
from collections.abc import Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from miwae._deadlines import remaining, share
from miwae._keys import key_of, split
from miwae._progress import Progressor
from miwae._threads import WORKERS, meanwhile, one_thread_each, side_by_side
from miwae._words import counted
from miwae.inference import compile_sampling
from miwae.model import Autoencoder, FactorAnalysis, MixedColumns, linear_autoencoder, linear_core
from miwae.tabular._ensemble import Rows, Seen
from miwae.tabular._held_out import HeldOut, predicted
from miwae.tabular._observation import LOWEST_FLOOR, with_floors
from miwae.tabular._settings import TableSettings
from miwae.training import (
    TrainingProgress,
    TrainingRecord,
    TrainingResult,
    TrainingSettings,
    TrainingState,
    compilation_time,
    fit,
    fit_stream,
    initial_state,
)

TrainingCallback: TypeAlias = Callable[[TrainingProgress], None]

# Below this many observed cells there is too little to learn more than the linear core from.
FEWEST_CELLS = 100

# Share of the time that the linear core may take.
CORE = 1 / 3

# Factor by which other processes may slow this one down; more is taken for a measurement error.
BUSIEST = 3.0

# Rows that the linear core is fitted to, at most: more hardly change it.
CORE_ROWS = 5_000


class FittedModel(NamedTuple):
    """One member of an ensemble: the model, and what further training needs."""

    autoencoder: Autoencoder
    state: TrainingState
    history: tuple[TrainingRecord, ...]
    events: tuple[str, ...]
    held_out: HeldOut | None = None  # of the fit; a file does not have it


def seed_key(settings: TableSettings) -> Key[Array, ""]:
    """The key that all random numbers of a table come from."""
    # Of this kind whatever JAX's default is: no other keeps rows apart.
    return key_of(settings.seed)


def fit_ensemble(
    observation: MixedColumns,
    x: Rows,
    observed: Seen,
    table_settings: TableSettings,
    settings: TrainingSettings,
    deadline: float | None,
    progress: Progressor,
    *,
    weights: Float[np.ndarray, " N"] | None = None,
    hidden: Bool[np.ndarray, " D"] | None = None,
) -> tuple[FittedModel, ...]:
    """Fit the members of an ensemble, two at a time; imputation is compiled beside them.

    The bounds of rows are weighted, and imputation will not see hidden columns.
    """
    n_models = table_settings.n_models
    keys = split(seed_key(table_settings), n_models)
    # None where training takes all its steps.
    latest = math.inf if deadline is None and settings.patience is not None else deadline

    def member(i: int, check: Callable[[], None]) -> FittedModel:
        rows = _rows_of(i, observed, table_settings)
        left = remaining(deadline)
        turns = -(-(n_models - i) // WORKERS)
        return fit_model(
            observation,
            x[rows],
            observed[rows],
            table_settings=table_settings,
            settings=_within(settings, None if left is None else left / turns),
            key=keys[i],
            callback=_checked(check, progress.training(i, n_models, latest=latest)),
            copies_of=rows,
            slower=slower,
            weights=None if weights is None else weights[rows],
            hidden=hidden,
        )

    together = one_thread_each() if n_models > 1 else contextlib.nullcontext()
    warm_up = partial(
        compile_imputation, observation, observed, table_settings, settings, deadline
    )
    # If time is limited, this is done first: it shows how busy the machine is.
    slower = 1.0 if deadline is None else warm_up()
    with together, meanwhile(*([warm_up] if deadline is None else [])):
        return tuple(side_by_side([partial(member, i) for i in range(n_models)]))


def _rows_of(member: int, observed: Seen, settings: TableSettings) -> np.ndarray:
    """The rows that a model is fitted to: all, or a bootstrap sample of its own."""
    n_rows = len(observed)
    if not settings.bootstrap:
        return np.arange(n_rows)
    rng = np.random.default_rng([settings.seed, member])
    drawn = rng.integers(n_rows, size=n_rows)
    # Each column has to be seen at least once: a row that sees it comes on top.
    unseen = observed[:, observed.any(axis=0) & ~observed[drawn].any(axis=0)]
    needed = np.unique([rng.choice(np.flatnonzero(seen)) for seen in unseen.T])
    return np.sort(np.concatenate([drawn, needed.astype(drawn.dtype)]))


def _within(settings: TrainingSettings, seconds: float | None) -> TrainingSettings:
    return settings if seconds is None else dataclasses.replace(settings, max_seconds=seconds)


def _checked(check: Callable[[], None], callback: TrainingCallback | None) -> TrainingCallback:
    """Look whether to go on each time that training reports."""

    def called(progress: TrainingProgress) -> None:
        check()
        if callback is not None:
            callback(progress)

    return called


def fit_model(
    observation: MixedColumns,
    x: Rows,
    observed: Seen,
    *,
    table_settings: TableSettings,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: TrainingCallback | None = None,
    copies_of: np.ndarray | None = None,
    slower: float = 1.0,
    weights: Float[np.ndarray, " N"] | None = None,
    hidden: Bool[np.ndarray, " D"] | None = None,
) -> FittedModel:
    """Fit the linear core, then, if there is time, the deep model that starts from it.

    Each row and column has an observed cell. `copies_of` says for each row of a bootstrap sample
    which row it is a copy of: copies have the same cells held out, or the others would give them
    away. `slower` says by how much other processes slow this one down; for `weights` and `hidden`
    see `fit_ensemble`.
    """
    deadline = None if settings.max_seconds is None else time.monotonic() + settings.max_seconds
    key_core, key_weights, key_fit = split(key, 3)
    rows = _core_rows(observed, key_core, weights)
    n_latent, floor = table_settings.n_latent, LOWEST_FLOOR**2
    limits = {"noise_floor": floor, "deadline": share(deadline, CORE, 1)}
    core = linear_core(observation, x[rows], observed[rows], n_latent=n_latent, **limits)
    observation = with_floors(observation, core)
    autoencoder = _assembled(observation, core, table_settings, key_weights)
    settings = dataclasses.replace(settings, max_seconds=remaining(deadline))
    too_few = too_few_cells(observed)
    if too_few or _too_late(autoencoder, len(x), settings, slower):
        such = counted(int(observed.sum()), "cell is", "cells are")
        text = f"only {such} observed: the model stays linear"
        events = (text,) if too_few else ()
        return FittedModel(autoencoder, stream_state(autoencoder, settings, key_fit), (), events)
    run = {"settings": settings, "key": key_fit, "callback": callback, "copies_of": copies_of}
    fitted = fit(autoencoder, x, observed, **run, weights=weights, hidden=hidden)
    state = stream_state(fitted.autoencoder, settings, key_fit, fitted.state)
    held_out = _held_out(fitted, deadline, hidden)
    return FittedModel(fitted.autoencoder, state, fitted.history, fitted.events, held_out)


def _held_out(
    fitted: TrainingResult, deadline: float | None, hidden: Bool[np.ndarray, " D"] | None
) -> HeldOut | None:
    """Predictions of held-out cells, if there is time for them."""
    left = remaining(deadline)
    if fitted.unseen is None or (left is not None and left <= 0):
        return None
    rows = fitted.unseen.rows
    visible = rows.observed if hidden is None else rows.observed & ~hidden
    return predicted(fitted.unseen._replace(rows=rows._replace(observed=visible)))


def too_few_cells(observed: Seen) -> bool:
    return int(observed.sum()) < FEWEST_CELLS


def _too_late(
    autoencoder: Autoencoder, n_rows: int, settings: TrainingSettings, slower: float
) -> bool:
    """Whether compilation would take all the time."""
    left = settings.max_seconds
    return left is not None and left <= slower * compilation_time(autoencoder, n_rows, settings)


def _core_rows(
    observed: Seen, key: Key[Array, ""], weights: Float[np.ndarray, " N"] | None = None
) -> np.ndarray:
    """Some of many rows, with each column observed at least once; rows of more weight repeated."""
    n_rows = len(observed)
    own = np.ones(n_rows) if weights is None else weights
    equal = np.ptp(own) == 0
    if n_rows <= CORE_ROWS and equal:
        return np.arange(n_rows)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    if equal:
        chosen = rng.choice(n_rows, CORE_ROWS, replace=False)
    else:
        n_chosen = min(n_rows, CORE_ROWS)
        upto = np.cumsum(own) / np.sum(own)
        chosen = np.searchsorted(upto, (np.arange(n_chosen) + rng.random()) / n_chosen)
    rare = np.flatnonzero(observed.any(axis=0) & ~observed[chosen].any(axis=0))
    return np.sort(np.append(chosen, observed[:, rare].argmax(axis=0)))


def _assembled(
    observation: MixedColumns,
    core: FactorAnalysis,
    table_settings: TableSettings,
    key: Key[Array, ""],
) -> Autoencoder:
    n_hidden, n_layers = table_settings.n_hidden, table_settings.n_layers
    return linear_autoencoder(observation, core, n_hidden=n_hidden, n_layers=n_layers, key=key)


def compile_imputation(
    observation: MixedColumns,
    observed: Seen,
    table_settings: TableSettings,
    settings: TrainingSettings,
    deadline: float | None,
) -> float:
    """Compile what imputing these rows will need; it can run while the models are fitted.

    Nothing is compiled where `fit_model` does not train either: that is over sooner. Returns the
    factor by which other processes slow this one down.
    """
    started, worked = time.monotonic(), time.process_time()

    def slower() -> float:
        waited = (time.monotonic() - started) / (time.process_time() - worked + 1e-3)
        return min(max(waited, 1.0), BUSIEST)

    autoencoder = _empty_autoencoder(observation, table_settings)
    in_time = _within(settings, remaining(deadline))
    late = _too_late(autoencoder, len(observed), in_time, slower())
    if not late and not too_few_cells(observed):
        compile_sampling(autoencoder)
    return slower()


def empty_model(
    observation: MixedColumns, table_settings: TableSettings, settings: TrainingSettings
) -> tuple[Autoencoder, TrainingState]:
    """A model of the right structure, to load another one's arrays into."""
    autoencoder = _empty_autoencoder(observation, table_settings)
    return autoencoder, stream_state(autoencoder, settings, key_of(0))


def _empty_autoencoder(observation: MixedColumns, table_settings: TableSettings) -> Autoencoder:
    n_inputs, n_latent = observation.n_inputs, table_settings.n_latent
    arrays = np.zeros((n_inputs, n_latent)), np.full(n_inputs, 0.5), np.ones(n_inputs)
    core = FactorAnalysis(*jax.device_put([a.astype(np.float32) for a in arrays]))
    return _assembled(observation, core, table_settings, key_of(0))


def stream_state(
    autoencoder: Autoencoder,
    settings: TrainingSettings,
    key: Key[Array, ""],
    trained: TrainingState | None = None,
) -> TrainingState:
    """The state from which `update_model` goes on, with the optimiser as training left it."""
    state = initial_state(autoencoder, settings, key, n_rows=1)
    if trained is None:
        return state
    kept = lambda s: (s.optimizer_state, s.key, s.step, s.step_scale)  # noqa: E731
    return eqx.tree_at(kept, state, kept(trained))


def update_model(
    model: FittedModel,
    x: Rows,
    observed: Seen,
    *,
    settings: TrainingSettings,
    weights: Float[np.ndarray, " N"] | None = None,
    callback: TrainingCallback | None = None,
) -> FittedModel:
    """Go through some more rows once, with weights of their own.

    The arrays of the model are the last ones, which a file holds too.
    """
    settings = dataclasses.replace(
        settings, schedule="constant", averaging=0.0, learning_rate=TrainingSettings.learning_rate
    )
    batches = [(x, observed, weights)]
    fitted = fit_stream(model.state, batches, settings=settings, callback=callback)
    history, events = (*model.history, *fitted.history), (*model.events, *fitted.events)
    return FittedModel(fitted.autoencoder, fitted.state, history, events)
