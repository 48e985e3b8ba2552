"""The engine of imputation: sample each row until it has enough, in bounded memory.

A fixed number of slots holds the rows that are being sampled. In each round every slot draws a
block of codes for its row; a row that has enough gives its slot to the next one in the queue. All
rounds have the same shapes, so there is one compilation. What is computed for a row depends on its
own content and key, not on its place or its neighbours, and it is computed in groups of fixed
size, so that not even its rounding depends on how many rows there are.
"""

import abc
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from miwae.arrays import require_at_least
from miwae.errors import DataError, SettingsError
from miwae.inference.importance import (
    Running,
    pareto_k_of_tail,
    start_running,
    update_running,
)
from miwae.inference.weights import draw
from miwae.model.latent import Autoencoder
from miwae.randomness import fold_rows, split_key

__all__ = ["AbstractSummary", "Round", "RowReport", "SamplingSettings", "sample_rows"]

# Codes per row and round. It decides which random numbers belong to a block, so it is fixed; with
# many divisors, so that mixtures of 2, 3, 4, 5, 6, 8 or 10 components are sampled in equal shares.
BLOCK = 120

# Rows that go through the networks together: enough for fast matrix products, few enough for a
# single row to be imputed in milliseconds.
GROUP = 16

# Rows at once: this many share the cost of looking at the results.
MOST_SLOTS = 256


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How many codes to draw for a row, and how much memory to use.

    Attributes:
        n_samples: L, the most codes drawn for a row.
        tolerance: a row has enough when the Monte Carlo standard error of each of its missing
            statistics is below this (in their own units: 0.02 is little on standardised data) and
            its effective sample size is at least `min_ess`. None draws L codes for every row.
        min_ess: see `tolerance`; below, a standard error cannot be trusted.
        second_samples: codes drawn anew for a row with Pareto's k above 0.7, its weights then
            smoothed; None leaves such rows as they are.
        memory: bytes that a round may use, roughly.
    """

    n_samples: int = 10_000
    tolerance: float | None = 0.02
    min_ess: float = 30.0
    second_samples: int | None = None
    memory: int = 256 * 2**20

    def __post_init__(self) -> None:
        require_at_least(1, n_samples=self.n_samples)
        if self.second_samples is not None:
            require_at_least(1, second_samples=self.second_samples)
        if self.tolerance is not None and not self.tolerance > 0:
            raise SettingsError(f"tolerance must be positive or None, not {self.tolerance}")

    def n_slots(self, n_rows: int, floats_per_row: int) -> int:
        """Rows at once: whole groups, at least one, at most `MOST_SLOTS`."""
        groups = min(self.memory // (4 * floats_per_row * GROUP), -(-n_rows // GROUP))
        return int(np.clip(groups, 1, MOST_SLOTS // GROUP)) * GROUP


class Round(NamedTuple):
    """What a summary is told of a block of codes."""

    autoencoder: Autoencoder
    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    z: Float[Array, "K B L"]
    log_w: Float[Array, "K B"]
    used: Bool[Array, "K B"]  # False for codes beyond L
    key: Key[Array, " B"]


class AbstractSummary(eqx.Module):
    """What is kept of the codes of a row."""

    @abc.abstractmethod
    def start(self, autoencoder: Autoencoder, n_rows: int) -> PyTree:
        """Nothing kept yet; every leaf has the rows first."""

    @abc.abstractmethod
    def statistics(self, round_: Round) -> Float[Array, "K B S"]:
        """Statistics of the codes, whose means are estimated."""

    @abc.abstractmethod
    def judged(
        self, autoencoder: Autoencoder, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
    ) -> Bool[Array, "B #S"]:
        """Which of the statistics the stopping rule looks at."""

    @abc.abstractmethod
    def update(self, kept: PyTree, running: Running, round_: Round) -> PyTree:
        """Add a block; `running` does not have it yet."""

    @abc.abstractmethod
    def result(
        self,
        autoencoder: Autoencoder,
        kept: PyTree,
        running: Running,
        x: Float[Array, "B D"],
        observed: Bool[Array, "B D"],
        key: Key[Array, " B"],
    ) -> PyTree:
        """What is handed out of a finished row; every leaf has the rows first."""


class RowReport(NamedTuple):
    """How the sampling of each row went."""

    n_samples: Int[np.ndarray, " N"]
    effective_sample_size: Float[np.ndarray, " N"]
    pareto_k: Float[np.ndarray, " N"]  # above 0.7: do not trust this row
    smoothed: Bool[np.ndarray, " N"]  # weights were unreliable: drawn again, more, and smoothed


class _Patience(NamedTuple):
    """When a row has enough before its last code; arguments of the program, not a part of it."""

    scale: Float[Array, " S"]
    tolerance: Float[Array, ""]
    min_ess: Float[Array, ""]


class _Slots(NamedTuple):
    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    key: Key[Array, " B"]
    running: Running
    kept: PyTree


def _select(new: Bool[Array, " B"], a: Array, b: Array) -> Array:
    return jnp.where(new.reshape(-1, *[1] * (a.ndim - 1)), a, b)


@eqx.filter_jit
def _refill(
    slots: _Slots | None,
    autoencoder: Autoencoder,
    summary: AbstractSummary,
    n_samples: int,
    x: Float[Array, "B D"],
    observed: Bool[Array, "B D"],
    key: Key[Array, " B"],
    new: Bool[Array, " B"],
    n_statistics: int,
) -> _Slots:
    """Start new rows in some of the slots."""
    n_rows = x.shape[0]
    running = start_running(n_rows, n_statistics, n_samples)
    fresh = _Slots(x, observed, key, running, summary.start(autoencoder, n_rows))
    if slots is None:
        return fresh
    return jax.tree.map(lambda a, b: _select(new, a, b), fresh, slots)


def _by_group(function: Callable[[_Slots], PyTree], slots: _Slots) -> PyTree:
    """Apply a function to groups of rows of fixed size, one after the other."""
    n_slots = slots.x.shape[0]
    grouped = jax.tree.map(lambda a: a.reshape(n_slots // GROUP, GROUP, *a.shape[1:]), slots)
    results = jax.lax.map(function, grouped)
    return jax.tree.map(lambda a: a.reshape(n_slots, *a.shape[2:]), results)


def _enough(
    slots: _Slots,
    autoencoder: Autoencoder,
    summary: AbstractSummary,
    n_samples: int,
    patience: _Patience,
) -> Bool[Array, " B"]:
    running = slots.running
    judged = summary.judged(autoencoder, slots.x, slots.observed)
    error = jnp.where(judged, running.standard_error() / patience.scale[None], 0.0)
    # Without a tolerance it is negative, and nothing settles a row, not even nothing to judge.
    settled = jnp.all(error <= patience.tolerance, axis=1) & (patience.tolerance >= 0)
    settled &= running.effective_sample_size() >= patience.min_ess
    return settled | (running.count >= n_samples)


@eqx.filter_jit
def _advance(
    slots: _Slots,
    autoencoder: Autoencoder,
    summary: AbstractSummary,
    n_samples: int,
    patience: _Patience,
    active: Bool[Array, " B"],
    wanted: Int[Array, ""],
) -> tuple[_Slots, Bool[Array, " B"]]:
    """Draw blocks of codes until so many of the active rows have enough; tell which.

    A row that has enough waits unchanged, whatever its neighbours need.
    """

    def one_block(slots: _Slots) -> tuple[_Slots, Bool[Array, " B"]]:
        key_z, key_h = split_key(_block_keys(slots), 2)
        z, log_w = draw(autoencoder, slots.x, slots.observed, key_z, BLOCK)
        place = slots.running.count[None, :] + jnp.arange(BLOCK)[:, None]
        used = place < n_samples
        round_ = Round(autoencoder, slots.x, slots.observed, z, log_w, used, key_h)
        kept = summary.update(slots.kept, slots.running, round_)
        running = update_running(slots.running, log_w, summary.statistics(round_), used)
        slots = slots._replace(running=running, kept=kept)
        return slots, _enough(slots, autoencoder, summary, n_samples, patience)

    def body(carry: tuple[_Slots, Bool[Array, " B"]]) -> tuple[_Slots, Bool[Array, " B"]]:
        slots, enough = carry
        new, new_enough = _by_group(one_block, slots)
        slots = jax.tree.map(lambda a, b: _select(enough, a, b), slots, new)
        return slots, enough | new_enough

    def unfinished(carry: tuple[_Slots, Bool[Array, " B"]]) -> Bool[Array, ""]:
        return jnp.sum(carry[1] & active) < wanted

    return jax.lax.while_loop(unfinished, body, (slots, ~active))


def _block_keys(slots: _Slots) -> Key[Array, " B"]:
    return fold_rows(slots.key, slots.running.count // BLOCK)


@eqx.filter_jit
def _results(
    slots: _Slots, autoencoder: Autoencoder, summary: AbstractSummary
) -> tuple[PyTree, tuple[Array, Array, Array]]:
    def of_group(slots: _Slots) -> PyTree:
        key = fold_rows(slots.key, jnp.asarray(2**31 - 1))
        own = (slots.kept, slots.running, slots.x, slots.observed)
        return summary.result(autoencoder, *own, key)

    running = slots.running
    state = (running.count, running.effective_sample_size(), running.top)
    return _by_group(of_group, slots), state


class _Finished:
    """What is handed out, row by row, and the tails of the weights until Pareto's k is fitted.

    The fit is worth a round of sampling: it is made for a whole batch of finished rows at once.
    """

    BATCH = 256

    def __init__(self, n_rows: int) -> None:
        self.results: PyTree = None
        self.report = RowReport(
            np.zeros(n_rows, np.int64),
            np.zeros(n_rows),
            np.full(n_rows, np.nan),
            np.zeros(n_rows, dtype=bool),
        )
        self.tails: list[tuple[int, np.ndarray]] = []
        self.count = 0

    def add(self, rows: np.ndarray, places: np.ndarray, result: PyTree, state: tuple) -> None:
        if self.results is None:
            n_rows = len(self.report.n_samples)
            self.results = jax.tree.map(
                lambda a: np.zeros((n_rows, *a.shape[1:]), a.dtype), result
            )
        count, ess, top = (np.asarray(a)[places] for a in state)
        for into, out in zip(jax.tree.leaves(self.results), jax.tree.leaves(result), strict=True):
            into[rows] = np.asarray(out)[places]
        self.report.n_samples[rows] = count
        self.report.effective_sample_size[rows] = ess
        self.tails += [(int(row), tail) for row, tail in zip(rows, top, strict=True)]
        self.count += len(rows)
        while len(self.tails) >= self.BATCH or (self.tails and self.count == len(self.report[0])):
            self._fit_tails(self.tails[: self.BATCH])
            self.tails = self.tails[self.BATCH :]

    def _fit_tails(self, tails: list[tuple[int, np.ndarray]]) -> None:
        rows = np.array([row for row, _ in tails])
        spare = self.BATCH - len(rows)
        top = np.pad(np.stack([tail for _, tail in tails]), ((0, spare), (0, 0)))
        count = np.pad(self.report.n_samples[rows], (0, spare), constant_values=1)
        k = _tail_shape(jnp.asarray(top), jnp.asarray(count))
        self.report.pareto_k[rows] = np.asarray(k)[: len(rows)]


_tail_shape = jax.jit(pareto_k_of_tail)


def sample_rows(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: Key[Array, " N"],
    summary: AbstractSummary,
    settings: SamplingSettings,
    *,
    n_statistics: int,
    scale: Float[np.ndarray, " S"] | None = None,
    floats_per_row: int = 0,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> tuple[PyTree, RowReport]:
    """Sample all rows and hand out what the summary kept of each.

    Args:
        autoencoder: the model.
        x: rows.
        observed: True where a cell was seen.
        keys: one for each row.
        summary: what to keep.
        settings: how long to sample.
        n_statistics: S, the width of `summary.statistics`.
        scale: unit of the tolerance for each statistic; by default 1.
        floats_per_row: what the summary keeps of a row, for the memory budget.
        callback: told how many rows are finished, and of how many.
        deadline: by `time.monotonic()`; after it no row gets more than the block it is at.
    """
    n_rows = len(x)
    if n_rows == 0:
        raise DataError("x has no rows")
    # The sums of each statistic, the row itself, and what the summary keeps, old and new.
    floats = 2 * (5 * n_statistics + 2 * x.shape[1] + floats_per_row + 1_000)
    n_slots = settings.n_slots(n_rows, floats)
    unit = jnp.ones(n_statistics) if scale is None else jnp.asarray(scale, dtype=jnp.float32)
    tolerance = -1.0 if settings.tolerance is None else settings.tolerance
    patience = _Patience(unit, jnp.asarray(tolerance), jnp.asarray(settings.min_ess))
    none_left = _Patience(unit, jnp.asarray(jnp.inf), jnp.asarray(0.0))
    waiting = np.arange(n_rows)
    in_slot = np.full(n_slots, -1)  # which row a slot holds
    slots: _Slots | None = None
    finished = _Finished(n_rows)
    while finished.count < n_rows:
        free = np.flatnonzero(in_slot < 0)
        new = np.zeros(n_slots, dtype=bool)
        if len(waiting) and len(free):
            rows, waiting = waiting[: len(free)], waiting[len(free) :]
            in_slot[free[: len(rows)]] = rows
            new[free[: len(rows)]] = True
        if new.any():
            held = np.maximum(in_slot, 0)  # an empty slot repeats a row that nobody reads
            own = (jnp.asarray(x[held]), jnp.asarray(observed[held]), keys[held])
            slots = _refill(
                slots,
                autoencoder,
                summary,
                settings.n_samples,
                *own,
                jnp.asarray(new),
                n_statistics,
            )
        assert slots is not None
        active = in_slot >= 0
        # Rows that have enough wait for a few others, to be looked at together.
        wanted = min(int(active.sum()), max(1, n_slots // 16))
        late = deadline is not None and time.monotonic() > deadline
        slots, enough = _advance(
            slots,
            autoencoder,
            summary,
            settings.n_samples,
            none_left if late else patience,
            jnp.asarray(active),
            jnp.asarray(wanted),
        )
        done = np.flatnonzero(np.asarray(enough) & active)
        finished.add(in_slot[done], done, *_results(slots, autoencoder, summary))
        in_slot[done] = -1
        if callback is not None:
            callback(finished.count, n_rows)
    return finished.results, finished.report
