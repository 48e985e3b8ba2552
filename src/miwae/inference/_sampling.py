"""The engine of imputation: sample each row until it has enough, in bounded memory.

Rows are sampled in bunches. In the first round each row of a bunch gets one block of latent
samples; each further round doubles the samples of the rows that do not have enough. The shapes are
the same in all rounds, so each program is compiled once.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree

from miwae._arrays import require_at_least
from miwae._shapes import KeyWords, Table, TableSeen
from miwae.errors import DataError, SettingsError
from miwae.inference._estimands import Estimand, conditional_mean
from miwae.inference._rounds import (
    BLOCK,
    UNRELIABLE,
    Estimates,
    Round,
    Rows,
    Samples,
    draw_blocks,
    estimate,
)
from miwae.model import Autoencoder

# Rows of a bunch. Each size is compiled anew, so there are few to choose from; less than the usual
# smallest only where memory does not allow more.
SIZES = (1, 4, 16, 64, 256)
SMALLEST = 16


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How many latent samples to draw for a row, and how much memory to use.

    Attributes:
        n_samples: K, the most latent samples drawn for a row.
        tolerance: a row has enough when the Monte Carlo standard error of each of its estimates is
            below this (in their own units: 0.02 is little on standardised data) and its effective
            sample size is at least `min_ess`. None draws L samples for every row.
        min_ess: see `tolerance`; below, a standard error cannot be trusted.
        smooth: draw more samples for rows with Pareto's k above 0.7, and smooth the weights of
            those for which it stays above.
        memory: bytes for the samples that are held at once, roughly.
    """

    n_samples: int = 10_000
    tolerance: float | None = 0.02
    min_ess: float = 30.0
    smooth: bool = True
    memory: int = 256 * 2**20

    def __post_init__(self) -> None:
        require_at_least(1, n_samples=self.n_samples)
        if self.tolerance is not None and not self.tolerance > 0:
            raise SettingsError(f"tolerance must be positive or None, not {self.tolerance}")

    @property
    def room(self) -> int:
        """R, whole blocks for all samples of a row."""
        return _n_blocks(self.n_samples) * BLOCK

    def n_rows_at_once(self, n_rows: int, n_values: int) -> int:
        """Rows of a bunch: as many as there are, or as fit into the memory."""
        bytes_per_row = 4 * self.room * (n_values + 1)
        fitting = [n for n in SIZES if n * bytes_per_row <= self.memory] or [1]
        return next((n for n in fitting if n >= max(n_rows, SMALLEST)), fitting[-1])


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
    summary: PyTree  # that of the estimand, rows first; None where it has none
    report: RowReport


def _n_blocks(n_samples: int) -> int:
    return -(-n_samples // BLOCK)


def _empty(settings: SamplingSettings, n_rows: int, n_values: int) -> Samples:
    room = settings.room
    return Samples(jnp.zeros((room, n_rows)), jnp.zeros((room, n_rows, n_values)))


def _bunch(x: Table, observed: TableSeen, keys: KeyWords, size: int) -> Rows:
    """Some rows, filled up to the size of a bunch."""
    chosen = np.minimum(np.arange(size), len(x) - 1)
    key = jax.random.wrap_key_data(jnp.asarray(keys[chosen]), impl="threefry2x32")
    return Rows(jnp.asarray(x[chosen]), jnp.asarray(observed[chosen]), key)


def _round(
    active: Int[np.ndarray, " A"], size: int, first: int, last: int, n_samples: int
) -> Round:
    order = np.zeros(size, dtype=np.int32)
    order[: len(active)] = active
    numbers = (len(active), first, last, n_samples)
    return Round(jnp.asarray(order), *(jnp.asarray(np.int32(n)) for n in numbers))


def compile_sampling(
    autoencoder: Autoencoder,
    x: Table,
    observed: TableSeen,
    keys: KeyWords,
    settings: SamplingSettings,
) -> None:
    """Compile what the conditional means of so many rows need, without sampling any.

    The values of the model do not matter, only its shapes: this can be done before or while it is
    trained.
    """
    estimand = conditional_mean(autoencoder.generative.observation)
    size = settings.n_rows_at_once(len(x), estimand.n_values)
    rows, samples = _bunch(x, observed, keys, size), _empty(settings, size, estimand.n_values)
    nothing = _round(np.zeros(0, dtype=int), size, 0, 1, 1)
    samples = draw_blocks((autoencoder, estimand, rows, nothing), samples)
    estimate(estimand, rows, nothing, samples, jnp.asarray(settings.smooth))


def sample_rows(
    autoencoder: Autoencoder,
    x: Table,
    observed: TableSeen,
    keys: KeyWords,
    settings: SamplingSettings,
    estimand: Estimand,
    *,
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
    size = settings.n_rows_at_once(len(x), estimand.n_values)
    samples = _empty(settings, size, estimand.n_values)
    limits = _Limits(settings, 1.0 if scale is None else scale, deadline)
    whole: Estimates | None = None
    counts = np.zeros(len(x), dtype=np.int64)
    for first in range(0, len(x), size):
        part = slice(first, first + size)
        rows = _bunch(x[part], observed[part], keys[part], size)
        active = np.arange(len(x[part]))
        for before, count in limits.rounds():
            now = _round(active, size, _n_blocks(before), _n_blocks(count), count)
            samples = draw_blocks((autoencoder, estimand, rows, now), samples)
            found = estimate(estimand, rows, now, samples, jnp.asarray(settings.smooth))
            found = jax.tree.map(lambda a, active=active: np.asarray(a)[active], found)
            enough = limits.enough(found, count)
            whole = _stored(whole, len(x), first + active[enough], found, enough)
            counts[first + active[enough]] = count
            active = active[~enough]
            if callback is not None:
                callback(int((counts > 0).sum()), len(x))
            if not len(active):
                break
    assert whole is not None  # there are rows, and the last round finishes all
    mean, error, log_mean, ess, k = (np.asarray(a) for a in whole[:-1])
    report = RowReport(counts, ess, k, settings.smooth & (k > UNRELIABLE))
    return Sampled(mean, error, log_mean, whole.summary, report)


def _stored(
    whole: Estimates | None,
    n_rows: int,
    rows: Int[np.ndarray, " E"],
    found: Estimates,
    enough: Bool[np.ndarray, " A"],
) -> Estimates:
    """The estimates of all rows, with those of finished rows filled in."""
    zeros = lambda a: np.zeros((n_rows, *a.shape[1:]), a.dtype)  # noqa: E731
    into = jax.tree.map(zeros, found) if whole is None else whole
    for a, b in zip(jax.tree.leaves(into), jax.tree.leaves(found), strict=True):
        a[rows] = b[enough]
    return into


class _Limits(NamedTuple):
    """When a row has enough samples."""

    settings: SamplingSettings
    scale: Float[np.ndarray, " V"] | float
    deadline: float | None

    def rounds(self) -> list[tuple[int, int]]:
        """How many samples a row has before each round and after it."""
        most = self.settings.n_samples
        if self.settings.tolerance is None and self.deadline is None:
            return [(0, most)]
        counts = [0, min(BLOCK, most)]
        while counts[-1] < most:
            counts.append(min(2 * counts[-1], most))
        return list(zip(counts[:-1], counts[1:], strict=True))

    def enough(self, found: Estimates, count: int) -> Bool[np.ndarray, " A"]:
        """Which rows need no further round."""
        settings = self.settings
        late = self.deadline is not None and time.monotonic() > self.deadline
        if late or count >= settings.n_samples:
            return np.ones(len(found.mean), dtype=bool)
        if settings.tolerance is None:
            return np.zeros(len(found.mean), dtype=bool)
        _, error, _, ess, k = (np.asarray(a) for a in found[:-1])
        precise = (error <= settings.tolerance * self.scale).all(axis=1)
        unreliable = settings.smooth & (k > UNRELIABLE)
        return precise & (ess >= settings.min_ess) & ~unreliable
