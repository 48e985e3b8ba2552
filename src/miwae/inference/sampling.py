"""The engine of imputation: sample each row until it has enough, in bounded memory.

A fixed number of slots holds the rows that are being sampled. In each round every slot draws a
block of codes for its row; a row that has enough gives its slot to the next one in the queue. All
rounds have the same shapes, so there is one compilation; a row's numbers depend on its own content
and key, not on its place, its neighbours or the number of slots (but for rounding).
"""

import abc
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


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How many codes to draw for a row, and how much memory to use.

    Attributes:
        n_samples: L, the most codes drawn for a row.
        tolerance: a row has enough when the Monte Carlo standard error of each of its missing
            statistics is below this (in their own units: 0.02 is little on standardised data) and
            its effective sample size is at least `min_ess`. None draws L codes for every row.
        min_ess: see `tolerance`; below, a standard error cannot be trusted.
        memory: bytes that a round may use, roughly.
    """

    n_samples: int = 10_000
    tolerance: float | None = 0.02
    min_ess: float = 30.0
    memory: int = 256 * 2**20

    def __post_init__(self) -> None:
        require_at_least(1, n_samples=self.n_samples)
        if self.tolerance is not None and not self.tolerance > 0:
            raise SettingsError(f"tolerance must be positive or None, not {self.tolerance}")

    def n_slots(self, n_rows: int, floats_per_sample: int, floats_per_row: int) -> int:
        """Rows at once: a multiple of 16, from 16 to 256."""
        per_row = 4 * (floats_per_sample * BLOCK + floats_per_row)
        fitting = self.memory // per_row // 16 * 16
        return int(np.clip(min(fitting, -(-n_rows // 16) * 16), 16, 256))


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
    settings: SamplingSettings,
    x: Float[Array, "B D"],
    observed: Bool[Array, "B D"],
    key: Key[Array, " B"],
    new: Bool[Array, " B"],
    n_statistics: int,
) -> _Slots:
    """Start new rows in some of the slots."""
    n_rows = x.shape[0]
    running = start_running(n_rows, n_statistics, settings.n_samples)
    fresh = _Slots(x, observed, key, running, summary.start(autoencoder, n_rows))
    if slots is None:
        return fresh
    return jax.tree.map(lambda a, b: _select(new, a, b), fresh, slots)


def _enough(
    slots: _Slots,
    autoencoder: Autoencoder,
    summary: AbstractSummary,
    settings: SamplingSettings,
    scale: Float[Array, " S"],
) -> Bool[Array, " B"]:
    running = slots.running
    full = running.count >= settings.n_samples
    if settings.tolerance is None:
        return full
    judged = summary.judged(autoencoder, slots.x, slots.observed)
    error = jnp.where(judged, running.standard_error() / scale[None], 0.0)
    settled = jnp.all(error <= settings.tolerance, axis=1)
    return full | (settled & (running.effective_sample_size() >= settings.min_ess))


@eqx.filter_jit
def _advance(
    slots: _Slots,
    autoencoder: Autoencoder,
    summary: AbstractSummary,
    settings: SamplingSettings,
    scale: Float[Array, " S"],
    n_blocks: Int[Array, ""],
) -> tuple[_Slots, Bool[Array, " B"]]:
    """Draw blocks of codes in every slot, and tell which rows have enough."""

    def body(_: Int[Array, ""], slots: _Slots) -> _Slots:
        key_z, key_h = split_key(_block_keys(slots), 2)
        z, log_w = draw(autoencoder, slots.x, slots.observed, key_z, BLOCK)
        place = slots.running.count[None, :] + jnp.arange(BLOCK)[:, None]
        used = place < settings.n_samples
        round_ = Round(autoencoder, slots.x, slots.observed, z, log_w, used, key_h)
        kept = summary.update(slots.kept, slots.running, round_)
        running = update_running(slots.running, log_w, summary.statistics(round_), used)
        return slots._replace(running=running, kept=kept)

    slots = jax.lax.fori_loop(0, n_blocks, body, slots)
    return slots, _enough(slots, autoencoder, summary, settings, scale)


def _block_keys(slots: _Slots) -> Key[Array, " B"]:
    return fold_rows(slots.key, slots.running.count // BLOCK)


@eqx.filter_jit
def _results(
    slots: _Slots, autoencoder: Autoencoder, summary: AbstractSummary
) -> tuple[PyTree, tuple[Array, Array, Array]]:
    key = fold_rows(slots.key, jnp.asarray(2**31 - 1))
    result = summary.result(autoencoder, slots.kept, slots.running, slots.x, slots.observed, key)
    running = slots.running
    return result, (running.count, running.effective_sample_size(), running.top)


class _Finished:
    """What is handed out, row by row, and the tails of the weights until Pareto's k is fitted.

    The fit is worth a round of sampling: it is made for a whole batch of finished rows at once.
    """

    BATCH = 256

    def __init__(self, n_rows: int) -> None:
        self.results: PyTree = None
        self.report = RowReport(
            np.zeros(n_rows, np.int64), np.zeros(n_rows), np.full(n_rows, np.nan)
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
    """
    n_rows = len(x)
    if n_rows == 0:
        raise DataError("x has no rows")
    observation = autoencoder.generative.observation
    # Parameters, statistics and cells, and about as much again for the layers of the networks.
    floats = 2 * (observation.n_parameters + n_statistics + observation.n_features + 256)
    n_slots = settings.n_slots(n_rows, floats, floats_per_row)
    unit = jnp.ones(n_statistics) if scale is None else jnp.asarray(scale)
    # Without a stopping rule there is nothing to look at before the end.
    blocks = -(-settings.n_samples // BLOCK) if settings.tolerance is None else 1
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
                slots, autoencoder, summary, settings, *own, jnp.asarray(new), n_statistics
            )
        assert slots is not None
        slots, enough = _advance(slots, autoencoder, summary, settings, unit, jnp.asarray(blocks))
        done = np.flatnonzero(np.asarray(enough) & (in_slot >= 0))
        if len(done) == 0:
            continue
        finished.add(in_slot[done], done, *_results(slots, autoencoder, summary))
        in_slot[done] = -1
        if callback is not None:
            callback(finished.count, n_rows)
    return finished.results, finished.report
