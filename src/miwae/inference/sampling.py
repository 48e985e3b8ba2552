"""The engine of imputation: sample each row until it has enough, in bounded memory.

A fixed number of slots holds the rows that are being sampled. In each round every slot draws a
block of codes for its row; a row that has enough is used and gives its slot to the next one in the
queue. All rounds have the same shapes, so there is one compilation, whatever the codes are used
for. What is computed for a row depends on its own content and key, not on its place or its
neighbours, and it is computed in groups of fixed size, so that not even its rounding depends on
how many rows there are.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int, PyTree, UInt32

from miwae._arrays import require_at_least
from miwae.errors import DataError, SettingsError
from miwae.inference.importance import Running, start_running
from miwae.inference.slots import (
    BLOCK,
    GROUP,
    Codes,
    Estimates,
    Patience,
    Rows,
    Slots,
    advance,
    estimate,
    refill,
    use_codes,
)
from miwae.model.latent import Autoencoder

__all__ = [
    "UNRELIABLE",
    "RowReport",
    "Sampled",
    "SamplingSettings",
    "compile_sampling",
    "sample_rows",
]

# Rows at once: many share the cost of looking at the results, and each number of slots is compiled
# anew, so there are few to choose from.
SLOTS = (16, 64, 256)

UNRELIABLE = 0.7  # Pareto's k above which plain weights cannot be trusted (Vehtari et al., 2024)


@dataclass(frozen=True, kw_only=True)
class SamplingSettings:
    """How many codes to draw for a row, and how much memory to use.

    Attributes:
        n_samples: L, the most codes drawn for a row.
        tolerance: a row has enough when the Monte Carlo standard error of each of its missing
            statistics is below this (in their own units: 0.02 is little on standardised data) and
            its effective sample size is at least `min_ess`. None draws L codes for every row.
        min_ess: see `tolerance`; below, a standard error cannot be trusted.
        smooth: smooth the weights of rows with Pareto's k above 0.7.
        memory: bytes that a round may use, roughly.
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
        """Whole blocks for all codes of a row."""
        return -(-self.n_samples // BLOCK) * BLOCK

    def n_slots(self, n_rows: int, floats_per_row: int) -> int:
        """Rows at once: as many as there are, or as fit into the memory."""
        fitting = [n for n in SLOTS if 4 * floats_per_row * n <= self.memory] or [SLOTS[0]]
        return next((n for n in fitting if n >= n_rows), fitting[-1])


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

    mean: Float[np.ndarray, "N S"]  # of the statistics, given the observed cells
    standard_error: Float[np.ndarray, "N S"]  # of the mean: Monte Carlo error, not uncertainty
    log_mean_weight: Float[np.ndarray, " N"]  # the estimate of log p(x_obs)
    product: PyTree  # what was made of the codes, rows first; None where nothing was
    report: RowReport


class _Finished:
    """What is known of finished rows, filled in as they finish."""

    def __init__(self, n_rows: int, n_statistics: int) -> None:
        zeros = lambda *shape: np.zeros((n_rows, *shape), dtype=np.float32)  # noqa: E731
        self.sampled = Sampled(
            zeros(n_statistics), zeros(n_statistics), zeros(), None, RowReport.empty(n_rows)
        )
        self.product: PyTree = None
        self.count = 0

    def add(
        self, rows: np.ndarray, places: np.ndarray, estimates: Estimates, *, smooth: bool
    ) -> None:
        """Take in some rows of a group."""
        report = self.sampled.report
        for into, out in zip((*self.sampled[:3], *report[:3]), estimates, strict=True):
            into[rows] = np.asarray(out)[places]
        report.smoothed[rows] = smooth & (report.pareto_k[rows] > UNRELIABLE)
        self.count += len(rows)

    def add_product(self, rows: np.ndarray, places: np.ndarray, product: PyTree) -> None:
        n_rows = len(self.sampled.report.n_samples)
        if self.product is None:
            zeros = lambda a: np.zeros((n_rows, *a.shape[1:]), a.dtype)  # noqa: E731
            self.product = jax.tree.map(zeros, product)
        for into, out in zip(jax.tree.leaves(self.product), jax.tree.leaves(product), strict=True):
            into[rows] = np.asarray(out)[places]


def _fresh(
    x: np.ndarray,
    observed: np.ndarray,
    keys: UInt32[np.ndarray, "N 2"],
    held: np.ndarray,
    empty: Running,
) -> Rows:
    at_least = jnp.asarray(np.zeros(len(held), dtype=np.int32))
    own_keys = jax.random.wrap_key_data(jnp.asarray(keys[held]), impl="threefry2x32")
    return Rows(jnp.asarray(x[held]), jnp.asarray(observed[held]), own_keys, empty, at_least)


def _start(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: UInt32[np.ndarray, "N 2"],
    settings: SamplingSettings,
    scale: Float[np.ndarray, " S"] | None,
) -> tuple[Slots, Patience]:
    """Slots in which no row has been sampled yet, and when a row will have enough."""
    n_statistics = autoencoder.generative.observation.n_statistics
    n_latent = autoencoder.generative.prior.n_latent
    # Codes with their weights, the sums of each statistic, and the row itself; old and new.
    room = settings.room + BLOCK
    floats = 2 * (room * (n_latent + 1) + 5 * n_statistics + 2 * x.shape[1])
    n_slots = settings.n_slots(len(x), floats)
    empty = start_running(n_slots, n_statistics)
    slots = Slots(
        _fresh(x, observed, keys, np.zeros(n_slots, dtype=int), empty),
        jnp.asarray(np.zeros((n_slots, room, n_latent), dtype=np.float32)),
        jnp.asarray(np.zeros((n_slots, room), dtype=np.float32)),
    )
    unit = np.ones(n_statistics) if scale is None else scale
    tolerance = -1.0 if settings.tolerance is None else settings.tolerance
    limits = (jnp.asarray(tolerance), jnp.asarray(settings.min_ess))
    return slots, Patience(jnp.asarray(unit, dtype=jnp.float32), *limits)


def compile_sampling(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: UInt32[np.ndarray, "N 2"],
    settings: SamplingSettings,
) -> None:
    """Compile what `sample_rows` will need for so many rows, without sampling any.

    The values of the model do not matter, only its shapes: this can be done before or while it is
    trained. What makes something of the codes is left out: for means, only rows whose weights have
    to be smoothed need it.
    """
    slots, patience = _start(autoencoder, x, observed, keys, settings, None)
    n_slots = len(slots.rows.x)
    none = jnp.asarray(np.zeros(n_slots, dtype=bool))
    slots = slots._replace(rows=refill(slots.rows, slots.rows, none))
    n_samples = settings.n_samples
    slots, _ = advance(slots, autoencoder, n_samples, patience, none, jnp.asarray(0))
    chosen = jnp.asarray(np.zeros(GROUP, dtype=int))
    estimate(slots, chosen)


def sample_rows(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: UInt32[np.ndarray, "N 2"],
    settings: SamplingSettings,
    *,
    product: Callable[[Codes], PyTree] | None = None,
    only_smoothed: bool = False,
    scale: Float[np.ndarray, " S"] | None = None,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> Sampled:
    """Sample all rows, and make something of the codes of each.

    Args:
        autoencoder: the model.
        x: rows.
        observed: True where a cell was seen.
        keys: the words of a key for each row, from `row_keys`.
        settings: how long to sample.
        product: a function of the codes of a group of rows; its leaves have the rows first.
        only_smoothed: use it only for rows whose weights are smoothed.
        scale: unit of the tolerance for each statistic; by default 1.
        callback: told how many rows are finished, and of how many.
        deadline: by `time.monotonic()`; after it no row gets more than the block it is at.
    """
    n_rows = len(x)
    if n_rows == 0:
        raise DataError("x has no rows")
    slots, patience = _start(autoencoder, x, observed, keys, settings, scale)
    none_left = patience._replace(tolerance=jnp.asarray(np.inf), min_ess=jnp.asarray(0.0))
    empty = slots.rows.running
    n_slots = len(slots.rows.x)
    waiting = np.arange(n_rows)
    in_slot = np.full(n_slots, -1)  # which row a slot holds
    finished = _Finished(n_rows, empty.centre.shape[1])
    while finished.count < n_rows:
        free = np.flatnonzero(in_slot < 0)
        entering, waiting = waiting[: len(free)], waiting[len(free) :]
        if len(entering):
            into = free[: len(entering)]
            in_slot[into] = entering
            held = np.maximum(in_slot, 0)  # an empty slot repeats a row that nobody reads
            fresh = _fresh(x, observed, keys, held, empty)
            new = np.isin(np.arange(n_slots), into)
            slots = slots._replace(rows=refill(slots.rows, fresh, jnp.asarray(new)))
        active = in_slot >= 0
        # Rows that have enough wait for a few others, to be looked at together.
        wanted = min(int(active.sum()), max(1, n_slots // GROUP))
        late = deadline is not None and time.monotonic() > deadline
        slots, enough = advance(
            slots,
            autoencoder,
            settings.n_samples,
            none_left if late else patience,
            jnp.asarray(active),
            jnp.asarray(wanted),
        )
        done = np.flatnonzero(np.asarray(enough) & active)
        at_least = np.array(slots.rows.at_least)
        for first in range(0, len(done), GROUP):
            places = done[first : first + GROUP]
            at_least[places] = _finish(
                finished,
                slots,
                autoencoder,
                places,
                in_slot[places],
                settings,
                product,
                only_smoothed=only_smoothed,
                late=late,
            )
            in_slot[places[at_least[places] == 0]] = -1
        slots = slots._replace(rows=slots.rows._replace(at_least=jnp.asarray(at_least)))
        if callback is not None:
            callback(finished.count, n_rows)
    return finished.sampled._replace(product=finished.product)


def _finish(
    finished: _Finished,
    slots: Slots,
    autoencoder: Autoencoder,
    places: np.ndarray,
    rows: np.ndarray,
    settings: SamplingSettings,
    product: Callable[[Codes], PyTree] | None,
    *,
    only_smoothed: bool,
    late: bool,
) -> Int[np.ndarray, " G"]:
    """Use the codes of a group of finished rows, padded to the size of a group.

    Returns:
        For rows that have to go on after all, since their weights are unreliable and they may have
        more codes: twice as many as they have, after which they are looked at again. Zero for the
        others.
    """
    chosen = jnp.asarray(np.resize(places, GROUP))
    estimates = estimate(slots, chosen)
    unreliable = np.asarray(estimates.pareto_k)[: len(rows)] > UNRELIABLE
    unreliable &= settings.smooth
    count = np.asarray(estimates.count)[: len(rows)]
    unfinished = unreliable & (count < settings.n_samples)
    unfinished &= settings.tolerance is not None and not late
    ready = np.flatnonzero(~unfinished)
    finished.add(rows[ready], ready, estimates, smooth=settings.smooth)
    wanted = np.flatnonzero(~unfinished & (unreliable | (not only_smoothed)))
    if product is not None and len(wanted):
        padded = jnp.asarray(np.resize(unreliable, GROUP))
        result = use_codes(slots, autoencoder, product, chosen, padded)
        finished.add_product(rows[wanted], wanted, result)
    return np.where(unfinished, 2 * count, 0)
