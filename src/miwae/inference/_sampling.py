"""The engine of imputation: sample each row until it has enough, in bounded memory.

In the first round each row gets one block of latent samples; each further round doubles the
samples of the rows that do not have enough. Rows whose weights are poor get a better proposal
before that (`_adaptation.py`), and forget the samples of the one before.
"""

import functools
import time
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from miwae._compilation import compiling, make_room_for_programs
from miwae._deadlines import share
from miwae._interrupts import keeping_interrupts, raise_interrupt
from miwae._row_keys import numbers_of
from miwae._shapes import KeyWords, Table, TableSeen
from miwae.errors import DataError
from miwae.inference._adaptation import adapted
from miwae.inference._estimands import Estimand, conditional_mean
from miwae.inference._importance import (
    effective_sample_size,
    error_of_mean,
    log_mean_weight,
    normalised,
    smoothed,
    two_or_more,
    weighted_sum,
)
from miwae.inference._lanes import BLOCK, Found, Lanes, draw_lanes, lane_counts
from miwae.inference._settings import SamplingSettings
from miwae.model import Autoencoder

UNRELIABLE = 0.7  # Pareto's k above which plain weights cannot be trusted (Vehtari et al., 2024)

# Effective samples per latent sample below which a row that needs more gets a better proposal.
POOR = 0.15

LEAST_TO_ADAPT = 2 * BLOCK  # the moments of fewer samples say too little


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
    """Rows, and what was found about their proposals."""

    x: Table
    observed: TableSeen
    held_out: TableSeen
    key: KeyWords
    found: Found | None = None

    def chosen(self, rows: np.ndarray | slice) -> "_Rows":
        return jax.tree.map(lambda a: a[rows], self)


class _Drawn(NamedTuple):
    """All samples of some rows so far. In memory the rows come last, as the lanes do."""

    z: Float[np.ndarray, "K B L"]
    log_w: Float[np.ndarray, "K B"]
    values: Float[np.ndarray, "K B V"]

    def chosen(self, rows: np.ndarray | slice) -> "_Drawn":
        # `take` keeps the order in memory, an index would not.
        place = np.arange(self.log_w.shape[1])[rows]
        return _Drawn(*(_rows_second(np.take(_rows_last(a), place, axis=-1)) for a in self))

    def joined(self, more: "_Drawn") -> "_Drawn":
        both = [(_rows_last(a), _rows_last(b)) for a, b in zip(self, more, strict=True)]
        return _Drawn(*(_rows_second(np.concatenate(pair)) for pair in both))


class _Batch(NamedTuple):
    """Rows that are in the same round."""

    place: Int[np.ndarray, " B"]  # among all rows
    rows: _Rows
    drawn: _Drawn | None
    n_counted: Int[np.ndarray, " B"]  # samples, without those before a better proposal was found
    turn: int
    deadline: float | None

    def chosen(self, rows: np.ndarray | slice) -> "_Batch":
        drawn = None if self.drawn is None else self.drawn.chosen(rows)
        own = (self.place[rows], self.rows.chosen(rows), drawn, self.n_counted[rows])
        return _Batch(*own, self.turn, self.deadline)

    @property
    def late(self) -> bool:
        return self.deadline is not None and time.monotonic() > self.deadline

    def cut(self, size: int) -> "tuple[_Batch, _Batch]":
        """The first rows, with their share of the time, and the others."""
        first, rest = self.chosen(slice(size)), self.chosen(slice(size, None))
        deadline = share(self.deadline, size, len(self.place))
        return first._replace(deadline=deadline), rest


def _rows_last(a: Float[np.ndarray, "K B *V"]) -> Float[np.ndarray, "K *V B"]:
    return np.moveaxis(a, 1, -1)


def _rows_second(a: Float[np.ndarray, "K *V B"]) -> Float[np.ndarray, "K B *V"]:
    return np.moveaxis(a, -1, 1)


def _blocks(
    autoencoder: Autoencoder, estimand: Estimand, rows: _Rows, before: int, count: int
) -> _Drawn:
    """The blocks that take each row from `before` samples to `count`."""
    n_rows, blocks = len(rows.x), np.arange(-(-before // BLOCK), -(-count // BLOCK))
    row, block = np.tile(np.arange(n_rows), len(blocks)), np.repeat(blocks, n_rows)
    program = functools.partial(draw_lanes, autoencoder, estimand._replace(summary=None))
    _, size = lane_counts(autoencoder, estimand.n_values)
    nothing = jax.device_put(_nothing_found(autoencoder.generative.prior.n_latent, size))
    parts, places = [], []
    adapted = np.zeros(n_rows, dtype=bool) if rows.found is None else rows.found.exists
    plain = rows._replace(found=None), np.flatnonzero(~adapted[row])
    for some, lanes_of in (plain, (rows, np.flatnonzero(adapted[row]))):
        for start in range(0, len(lanes_of), size):
            place = lanes_of[start : start + size]
            own = np.resize(place, size)
            lanes = _lanes(some.chosen(row[own]), nothing, block[own], count)
            parts.append(program(lanes, jax.device_put(np.int32(len(place)))))
            places.append(place)
    return _Drawn(*(_by_row(own, places, n_rows) for own in zip(*parts, strict=True)))


def _lanes(rows: _Rows, nothing: Found, block: Int[np.ndarray, " T"], count: int) -> Lanes:
    own: Any = rows._replace(found=rows.found or nothing)._asdict()
    own |= {"block": block.astype(np.int32), "counts": _counting(rows.key, block, count)}
    return jax.device_put(Lanes(**own))


@functools.lru_cache(maxsize=4)
def _nothing_found(n_latent: int, n_rows: int) -> Found:
    return Found.nothing(n_rows, n_latent)


def _counting(key: KeyWords, block: Int[np.ndarray, " T"], count: int) -> Bool[np.ndarray, "T K"]:
    """Which samples of a block count, if a row has so many in all.

    Of a cut block a random part: the mean over the whole block of a stratified proposal is
    unbiased, and so is that over samples chosen at random, but not that over the first few.
    """
    start = numbers_of(key, block.astype(np.uint64)) % np.uint64(BLOCK)
    place = (np.arange(BLOCK)[None] + start[:, None].astype(int)) % BLOCK
    return place < (count - block * BLOCK)[:, None]


def _by_row(
    parts: tuple[Float[Array, "N *V K G"], ...], places: list[np.ndarray], n_rows: int
) -> Float[np.ndarray, "S B *V"]:
    """All samples of each row, from the lanes of several calls."""
    n_groups, *width, n_samples, group = parts[0].shape
    n_lanes = sum(map(len, places))
    lanes = np.empty((n_samples, *width, n_lanes), dtype=np.float32)
    for part, place in zip(parts, places, strict=True):
        own = np.moveaxis(np.asarray(part), (-2, 0), (0, -2))  # (K, *V, N, G)
        own = own.reshape(n_samples, *width, n_groups * group)
        lanes[..., place] = own[..., : len(place)]
    n_blocks = n_lanes // n_rows
    by_block = np.moveaxis(lanes.reshape(n_samples, *width, n_blocks, n_rows), -2, 0)
    return _rows_second(by_block.reshape(n_blocks * n_samples, *width, n_rows))


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
    nothing = _nothing_found(autoencoder.generative.prior.n_latent, size)
    lanes = _lanes(rows, nothing, zeros, 0)
    with compiling("sampling", autoencoder, estimand):
        draw_lanes(autoencoder, estimand, lanes, jax.device_put(np.int32(0)))


def _nothing(autoencoder: Autoencoder, n_rows: int) -> _Rows:
    n_features = autoencoder.generative.observation.n_features
    x = np.zeros((n_rows, n_features), dtype=np.float32)
    no = np.zeros(x.shape, dtype=bool)
    return _Rows(x, no, no, np.zeros((n_rows, 2), dtype=np.uint32))


@keeping_interrupts()
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
    make_room_for_programs()
    rows = _Rows(np.asarray(x, np.float32), observed, held_out, keys)
    if deadline is not None:
        compile_sampling(autoencoder, estimand)
    limits = _Limits(settings, 1.0 if scale is None else scale, deadline)
    into, n_done = None, 0
    for place, sampled in _rounds(autoencoder, estimand, rows, limits):
        into = _stored(into, len(x), place, sampled)
        n_done += len(place)
        if callback is not None:
            callback(n_done, len(x))
    assert into is not None  # there are rows, and the last round finishes all
    return into


class WeightedSamples(NamedTuple):
    """Latent samples of some rows, and what an estimand makes of each."""

    z: Float[np.ndarray, "K N L"]
    weights: Float[np.ndarray, "K N"]  # sum to 1 over the samples of a row
    values: Float[np.ndarray, "K N V"]


def weighted_samples(
    autoencoder: Autoencoder,
    x: Table,
    observed: TableSeen,
    keys: KeyWords,
    n_samples: int,
    estimand: Estimand,
) -> WeightedSamples:
    """As many latent samples for each of a few rows, with smoothed weights."""
    rows = _Rows(np.asarray(x, np.float32), observed, np.zeros_like(observed), keys)
    drawn = _blocks(autoencoder, estimand, rows, 0, n_samples)
    log_w, _ = smoothed(drawn.log_w, np.full(len(x), n_samples), UNRELIABLE)
    return WeightedSamples(drawn.z, np.asarray(normalised(log_w)), drawn.values)


def _rounds(
    autoencoder: Autoencoder, estimand: Estimand, rows: _Rows, limits: "_Limits"
) -> Iterator[tuple[np.ndarray, Sampled]]:
    """The rows that each round finishes, by their place, and what is known of them.

    Rows whose samples would not fit into memory are cut into batches that are finished one after
    the other.
    """
    n_rows = len(rows.x)
    counts, settings = limits.counts(), limits.settings
    nothing = np.zeros(n_rows, dtype=np.int64)
    waiting = [_Batch(np.arange(n_rows), rows, None, nothing, 0, limits.deadline)]
    while waiting:
        raise_interrupt()
        batch = waiting.pop()
        # Rows have no samples that count before the first, and after a change of proposal.
        if not batch.n_counted.all() or not batch.late:
            size = settings.rows_at_once(counts[batch.turn + 1], estimand.n_values)
            if len(batch.place) > size:
                batch, rest = batch.cut(size)
                waiting.append(rest)
            batch = _with_more_samples(autoencoder, estimand, batch, counts)
        assert batch.drawn is not None
        sampled = _estimated(estimand, batch.rows.key, batch.drawn, batch.n_counted, settings)
        enough = limits.enough(sampled, counts[batch.turn]) | batch.late
        at, left = np.flatnonzero(enough), np.flatnonzero(~enough)
        if len(at):
            yield batch.place[at], jax.tree.map(lambda a, at=at: a[at], sampled)
        if len(left):
            batch, report = batch.chosen(left), RowReport(*(a[left] for a in sampled.report))
            waiting.append(_with_better_proposals(batch, report) if settings.adapt else batch)


def _with_more_samples(
    autoencoder: Autoencoder, estimand: Estimand, batch: _Batch, counts: list[int]
) -> _Batch:
    """The same rows after one more round."""
    before, count = counts[batch.turn : batch.turn + 2]
    new = _blocks(autoencoder, estimand, batch.rows, before, count)
    drawn = new if batch.drawn is None else batch.drawn.joined(new)
    n_counted = batch.n_counted + count - before
    return batch._replace(drawn=drawn, n_counted=n_counted, turn=batch.turn + 1)


def _with_better_proposals(batch: _Batch, report: RowReport) -> _Batch:
    """Adapt the proposals of rows with poor weights, whose samples then no longer count."""
    poor = ~(report.pareto_k <= UNRELIABLE)
    poor |= report.effective_sample_size < POOR * report.n_samples
    poor &= report.n_samples >= LEAST_TO_ADAPT
    at = two_or_more(np.flatnonzero(poor))
    assert batch.drawn is not None
    if not len(at):
        return batch
    n_rows, n_latent = batch.drawn.z.shape[1:]
    found = jax.tree.map(np.copy, batch.rows.found or Found.nothing(n_rows, n_latent))
    own = batch.drawn.chosen(at)
    new = adapted(own.z, own.log_w, batch.n_counted[at], Found(*(a[at] for a in found)))
    for into, out in zip(found, new, strict=True):
        into[at] = out
    batch.drawn.log_w[:, at] = -np.inf
    batch.n_counted[at] = 0
    return batch._replace(rows=batch.rows._replace(found=found))


def _estimated(
    estimand: Estimand,
    key: KeyWords,
    drawn: _Drawn,
    n_samples: Int[np.ndarray, " B"],
    settings: SamplingSettings,
) -> Sampled:
    if len(key) == 1:  # `_importance.py` says why
        twice = np.zeros(2, dtype=int)
        both = _estimated(estimand, key[twice], drawn.chosen(twice), n_samples[twice], settings)
        return jax.tree.map(lambda a: a[:1], both)
    better, k = smoothed(drawn.log_w, n_samples, UNRELIABLE if settings.adapt else np.inf)
    values, counted = drawn.values, better > -np.inf
    if not counted.all():  # where a sample has no weight, its value need not exist
        values = np.where(counted[..., None], values, 0.0)
    w = normalised(better)
    mean = weighted_sum(w, values)
    error = error_of_mean(w, values, mean, BLOCK)
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

    def counts(self) -> list[int]:
        """How many samples a row has before the first round, and after each."""
        most = self.settings.n_samples
        if self.settings.tolerance is None and self.deadline is None and not self.settings.adapt:
            return [0, most]
        counts = [0, min(BLOCK, most)]
        while counts[-1] < most:
            counts.append(min(2 * counts[-1], most))
        return counts

    def enough(self, sampled: Sampled, count: int) -> Bool[np.ndarray, " A"]:
        """Which rows need no further round."""
        settings, n_rows = self.settings, len(sampled.mean)
        if count >= settings.n_samples:
            return np.ones(n_rows, dtype=bool)
        if settings.tolerance is None:
            return np.zeros(n_rows, dtype=bool)
        report = sampled.report
        precise = (sampled.standard_error <= settings.tolerance * self.scale).all(axis=1)
        unreliable = settings.adapt & (report.pareto_k > UNRELIABLE)
        return precise & (report.effective_sample_size >= settings.min_ess) & ~unreliable
