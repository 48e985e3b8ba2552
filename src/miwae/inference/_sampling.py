"""The engine of imputation: sample each row until it has enough, in bounded memory.

In the first round each row gets one block of latent samples; each further round doubles the
samples of the rows that do not have enough. Rows whose weights are poor get a better proposal
before that (`_adaptation.py`), and forget the samples of the one before.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from miwae._arrays import require_at_least
from miwae._compilation import compiling
from miwae._deadlines import share
from miwae._row_keys import numbers_of
from miwae._shapes import KeyWords, Table, TableSeen
from miwae.errors import DataError, SettingsError
from miwae.inference._adaptation import adapted
from miwae.inference._estimands import Estimand, conditional_mean
from miwae.inference._importance import (
    effective_sample_size,
    log_mean_weight,
    normalised,
    smoothed,
    standard_error,
    weighted_sum,
)
from miwae.inference._lanes import BLOCK, Found, Lanes, draw_lanes, lane_counts
from miwae.model import Autoencoder

UNRELIABLE = 0.7  # Pareto's k above which plain weights cannot be trusted (Vehtari et al., 2024)

# Effective samples per latent sample below which a row that needs more gets a better proposal.
POOR = 0.25


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How many latent samples to draw for a row, and how much memory to use.

    Attributes:
        n_samples: K, the most latent samples drawn for a row.
        tolerance: a row has enough when the Monte Carlo standard error of each of its estimates is
            below this (in their own units: 0.02 is little on standardised data) and its effective
            sample size is at least `min_ess`. None draws K samples for every row.
        min_ess: see `tolerance`; below, a standard error cannot be trusted.
        adapt: find better proposals for rows with poor weights and draw more samples for rows with
            Pareto's k above 0.7, and smooth the weights of those for which it stays above.
        memory: bytes for the samples that are held at once, roughly.
    """

    n_samples: int = 10_000
    tolerance: float | None = 0.02
    min_ess: float = 30.0
    adapt: bool = True
    memory: int = 256 * 2**20

    def __post_init__(self) -> None:
        require_at_least(1, n_samples=self.n_samples)
        if self.tolerance is not None and not self.tolerance > 0:
            raise SettingsError(f"tolerance must be positive or None, not {self.tolerance}")

    def rows_at_once(self, n_values: int) -> int:
        """As many rows as can have all their samples in the memory."""
        bytes_per_row = 4 * -(-self.n_samples // BLOCK) * BLOCK * (2 * n_values + 20)
        return int(np.clip(self.memory // bytes_per_row, 1, 256))


class RowReport(NamedTuple):
    """How the sampling of each row went."""

    n_samples: Int[np.ndarray, " N"]
    effective_sample_size: Float[np.ndarray, " N"]
    pareto_k: Float[np.ndarray, " N"]  # above 0.7: do not trust this row
    smoothed: Bool[np.ndarray, " N"]  # its largest weights were smoothed

    @classmethod
    def empty(cls, n_rows: int) -> "RowReport":
        """Of rows that were not sampled."""
        nothing = np.full(n_rows, np.nan)
        no = np.zeros(n_rows, dtype=bool)
        return cls(np.zeros(n_rows, np.int64), nothing, nothing.copy(), no)


class Sampled(NamedTuple):
    """What is known of each row after sampling."""

    mean: Float[np.ndarray, "N V"]  # of the estimand, given the observed cells
    standard_error: Float[np.ndarray, "N V"]  # of the mean: Monte Carlo error, not uncertainty
    log_mean_weight: Float[np.ndarray, " N"]  # the estimate of log p(x_obs)
    summary: np.ndarray | None  # that of the estimand; None where it has none
    report: RowReport


class _Rows(NamedTuple):
    """The rows of a bunch, and what was found about their proposals."""

    x: Table
    observed: TableSeen
    held_out: TableSeen
    key: KeyWords
    found: Found

    def chosen(self, rows: np.ndarray) -> "_Rows":
        return jax.tree.map(lambda a: a[rows], self)


class _Drawn(NamedTuple):
    """All samples of some rows so far."""

    z: Float[np.ndarray, "K B L"]
    log_w: Float[np.ndarray, "K B"]
    values: Float[np.ndarray, "K B V"]

    def chosen(self, rows: np.ndarray) -> "_Drawn":
        return _Drawn(*(np.take(a, rows, axis=1) for a in self))

    def joined(self, more: "_Drawn") -> "_Drawn":
        return _Drawn(*(np.concatenate(pair) for pair in zip(self, more, strict=True)))


def _lanes(x: Table, observed: TableSeen, held_out: TableSeen, key: KeyWords, *more: Any) -> Lanes:
    own = jax.random.wrap_key_data(jnp.asarray(key), impl="threefry2x32")
    return jax.tree.map(jnp.asarray, Lanes(x, observed, held_out, own, *more))  # pyright: ignore


def _blocks(
    autoencoder: Autoencoder, estimand: Estimand, rows: _Rows, before: int, count: int
) -> _Drawn:
    """The blocks that take each row from `before` samples to `count`."""
    n_blocks, first = -(-count // BLOCK), -(-before // BLOCK)
    per_row = n_blocks - first
    row = np.repeat(np.arange(len(rows.x)), per_row)
    block = np.tile(np.arange(first, n_blocks, dtype=np.int32), len(rows.x))
    program = partial(draw_lanes, autoencoder, estimand._replace(summary=None))
    _, size = lane_counts(autoencoder, estimand.n_values)
    parts, places = [], []
    adapted = rows.found.exists[row]
    for lanes_of in (np.flatnonzero(~adapted), np.flatnonzero(adapted)):
        for start in range(0, len(lanes_of), size):
            place = lanes_of[start : start + size]
            own = np.resize(place, size)
            chosen = rows.chosen(row[own])
            lanes = _lanes(*chosen, block[own], _counting(chosen.key, block[own], count))
            samples = program(lanes, jnp.asarray(np.int32(len(place))))
            parts.append([_by_lane(np.asarray(a))[: len(place)] for a in samples])
            places.append(place)
    order = np.argsort(np.concatenate(places))
    joined = (np.concatenate(own)[order] for own in zip(*parts, strict=True))
    return _Drawn(*(_samples_first(a, len(rows.x)) for a in joined))


def _counting(key: KeyWords, block: Int[np.ndarray, " T"], count: int) -> Bool[np.ndarray, "T K"]:
    """Which samples of a block count, if a row has so many in all.

    Of a cut block a random part: the mean over the whole block of a stratified proposal is
    unbiased, and so is that over samples chosen at random, but not that over the first few.
    """
    start = numbers_of(key, block.astype(np.uint64)) % np.uint64(BLOCK)
    place = (np.arange(BLOCK)[None] + start[:, None].astype(int)) % BLOCK
    return place < (count - block * BLOCK)[:, None]


def _by_lane(a: Float[np.ndarray, "N *V K G"]) -> Float[np.ndarray, "T *V K"]:
    """The lanes of all groups, one after the other."""
    lanes_first = np.moveaxis(a, -1, 1)
    return lanes_first.reshape(a.shape[0] * a.shape[-1], *a.shape[1:-1])


def _samples_first(a: Float[np.ndarray, "T *V K"], n_rows: int) -> Float[np.ndarray, "S B *V"]:
    """All samples of each row, from the blocks of its lanes."""
    by_row = a.reshape(n_rows, len(a) // n_rows, *a.shape[1:])
    first = np.ascontiguousarray(np.moveaxis(by_row, (1, -1), (0, 1)))
    return first.reshape(len(first) * BLOCK, n_rows, *a.shape[1:-1])


def compile_sampling(autoencoder: Autoencoder, estimand: Estimand | None = None) -> None:
    """Compile what an estimand needs (by default conditional means), without sampling any row.

    The values of the model do not matter, only its shapes: this can be done before or while it is
    trained.
    """
    estimand = estimand or conditional_mean(autoencoder.generative.observation)
    estimand = estimand._replace(summary=None)
    _, size = lane_counts(autoencoder, estimand.n_values)
    rows = _nothing(autoencoder, size)
    zeros = np.zeros(size, dtype=np.int32)
    lanes = _lanes(*rows, zeros, _counting(rows.key, zeros, 0))
    with compiling("sampling", autoencoder, estimand):
        draw_lanes(autoencoder, estimand, lanes, jnp.asarray(np.int32(0)))


def _nothing(autoencoder: Autoencoder, n_rows: int) -> _Rows:
    generative = autoencoder.generative
    x = np.zeros((n_rows, generative.observation.n_features), dtype=np.float32)
    no = np.zeros(x.shape, dtype=bool)
    found = Found.nothing(n_rows, generative.prior.n_latent)
    return _Rows(x, no, no, np.zeros((n_rows, 2), dtype=np.uint32), found)


def sample_rows(
    autoencoder: Autoencoder,
    x: Table,
    observed: TableSeen,
    keys: KeyWords,
    settings: SamplingSettings,
    estimand: Estimand,
    *,
    held_out: TableSeen | None = None,
    scale: Float[np.ndarray, " V"] | None = None,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> Sampled:
    """Sample all rows until each has enough.

    The tolerance of a value of the estimand is in units of its `scale`, by default 1; `callback`
    gets the number of finished rows and of all rows; after `deadline`, by `time.monotonic()`, no
    row gets more than one more round.
    """
    if len(x) == 0:
        raise DataError("x has no rows")
    held_out = np.zeros(observed.shape, dtype=bool) if held_out is None else held_out
    found = Found.nothing(len(x), autoencoder.generative.prior.n_latent)
    whole = _Rows(np.asarray(x, np.float32), observed, held_out, keys, found)
    into: Sampled | None = None
    size = settings.rows_at_once(estimand.n_values)
    done = np.zeros(len(x), dtype=bool)
    if deadline is not None:
        compile_sampling(autoencoder, estimand)
    for first in range(0, len(x), size):
        rows = whole.chosen(np.arange(first, min(first + size, len(x))))
        # If time is short, all rows have the same share of it.
        limit = share(deadline, len(rows.x), len(x) - first)
        limits = _Limits(settings, 1.0 if scale is None else scale, limit)
        for own, sampled in _rounds(autoencoder, estimand, rows, limits):
            into = _stored(into, len(x), first + own, sampled)
            done[first + own] = True
            if callback is not None:
                callback(int(done.sum()), len(x))
    assert into is not None  # there are rows, and the last round finishes all
    return into


def _rounds(
    autoencoder: Autoencoder, estimand: Estimand, rows: _Rows, limits: "_Limits"
) -> Iterator[tuple[np.ndarray, Sampled]]:
    """The rows that each round finishes, by their place, and what is known of them."""
    active, drawn = _two_or_more(np.arange(len(rows.x))), None
    rows = rows.chosen(active)
    n_counted = np.zeros(len(active), dtype=np.int64)
    for before, count in limits.rounds():
        new = _blocks(autoencoder, estimand, rows, before, count)
        drawn = new if drawn is None else drawn.joined(new)
        n_counted += count - before
        sampled = _estimated(estimand, rows.key, drawn, n_counted, limits.settings)
        enough = limits.enough(sampled, count)
        if enough.any():
            at = np.flatnonzero(enough)
            yield active[at], jax.tree.map(lambda a, at=at: a[at], sampled)
        left = _two_or_more(np.flatnonzero(~enough))
        if not len(left):
            return
        active, rows, drawn = active[left], rows.chosen(left), drawn.chosen(left)
        n_counted, report = n_counted[left], RowReport(*(a[left] for a in sampled.report))
        if limits.settings.adapt:
            rows, drawn, n_counted = _with_better_proposals(rows, drawn, n_counted, report)


def _two_or_more(rows: np.ndarray) -> np.ndarray:
    """The same rows, a single one twice: `_importance.py` says why."""
    return np.resize(rows, 2) if len(rows) == 1 else rows


def _with_better_proposals(
    rows: _Rows, drawn: _Drawn, n_counted: Int[np.ndarray, " B"], report: RowReport
) -> tuple[_Rows, _Drawn, Int[np.ndarray, " B"]]:
    """Adapt the proposals of rows with poor weights, whose samples then no longer count."""
    poor = ~(report.pareto_k <= UNRELIABLE)
    poor |= report.effective_sample_size < POOR * report.n_samples
    at = _two_or_more(np.flatnonzero(poor))
    if not len(at):
        return rows, drawn, n_counted
    own = drawn.chosen(at)
    new = adapted(own.z, own.log_w, n_counted[at], rows.chosen(at).found)
    found = jax.tree.map(np.copy, rows.found)
    for into, out in zip(found, new, strict=True):
        into[at] = out
    drawn.log_w[:, at] = -np.inf
    n_counted[at] = 0
    return rows._replace(found=found), drawn, n_counted


def _estimated(
    estimand: Estimand,
    key: KeyWords,
    drawn: _Drawn,
    n_samples: Int[np.ndarray, " B"],
    settings: SamplingSettings,
) -> Sampled:
    better, k = smoothed(drawn.log_w, n_samples, UNRELIABLE if settings.adapt else np.inf)
    # Where a sample has no weight, its value need not exist.
    values = np.where((better > -np.inf)[..., None], drawn.values, 0.0)
    mean = weighted_sum(normalised(better), values)
    error = standard_error(better, values, BLOCK)
    summary = None if estimand.summary is None else estimand.summary(better, values, key)
    report = RowReport(
        n_samples.copy(), effective_sample_size(drawn.log_w), k, settings.adapt & (k > UNRELIABLE)
    )
    return Sampled(mean, error, log_mean_weight(drawn.log_w, n_samples), summary, report)


def _stored(
    whole: Sampled | None, n_rows: int, rows: Int[np.ndarray, " E"], found: Sampled
) -> Sampled:
    """What is known of all rows, with that of finished rows filled in."""
    zeros = lambda a: np.zeros((n_rows, *a.shape[1:]), a.dtype)  # noqa: E731
    into = jax.tree.map(zeros, found) if whole is None else whole
    for a, b in zip(jax.tree.leaves(into), jax.tree.leaves(found), strict=True):
        a[rows] = b
    return into


class _Limits(NamedTuple):
    """When a row has enough samples."""

    settings: SamplingSettings
    scale: Float[np.ndarray, " V"] | float
    deadline: float | None

    def rounds(self) -> list[tuple[int, int]]:
        """How many samples a row has before each round and after it."""
        most = self.settings.n_samples
        if self.settings.tolerance is None and self.deadline is None and not self.settings.adapt:
            return [(0, most)]
        counts = [0, min(BLOCK, most)]
        while counts[-1] < most:
            counts.append(min(2 * counts[-1], most))
        return list(zip(counts[:-1], counts[1:], strict=True))

    def enough(self, sampled: Sampled, count: int) -> Bool[np.ndarray, " A"]:
        """Which rows need no further round."""
        settings, n_rows = self.settings, len(sampled.mean)
        late = self.deadline is not None and time.monotonic() > self.deadline
        if late or count >= settings.n_samples:
            return np.ones(n_rows, dtype=bool)
        if settings.tolerance is None:
            return np.zeros(n_rows, dtype=bool)
        report = sampled.report
        precise = (sampled.standard_error <= settings.tolerance * self.scale).all(axis=1)
        unreliable = settings.adapt & (report.pareto_k > UNRELIABLE)
        return precise & (report.effective_sample_size >= settings.min_ess) & ~unreliable
