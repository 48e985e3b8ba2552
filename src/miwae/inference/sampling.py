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
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from miwae.arrays import require_at_least
from miwae.compilation import compiled
from miwae.errors import DataError, SettingsError
from miwae.inference.importance import (
    Running,
    pareto_k,
    smoothed,
    start_running,
    update_running,
)
from miwae.inference.weights import log_density, log_weights
from miwae.model.latent import Autoencoder
from miwae.randomness import fold_in

__all__ = [
    "BLOCK",
    "UNRELIABLE",
    "Codes",
    "RowReport",
    "Sampled",
    "SamplingSettings",
    "codes_at_once",
    "compile_sampling",
    "sample_rows",
]

# Codes per row and round. It decides which random numbers belong to a block, so it is fixed; with
# many divisors, so that mixtures of 2, 3, 4, 5, 6, 8 or 10 components are sampled in equal shares.
BLOCK = 120

# Rows that go through the networks together: enough for fast matrix products, few enough for a
# single row to be imputed in milliseconds.
GROUP = 16

# Parameters of the observation model that are held at once: for wide rows, such as images, a block
# is decoded in parts, so that memory does not grow with the block and the group.
DECODED = 2**23

# Rows at once: many share the cost of looking at the results, and each number of slots is compiled
# anew, so there are few to choose from.
SLOTS = (16, 64, 256)

UNRELIABLE = 0.7  # Pareto's k above which plain weights cannot be trusted (Vehtari et al., 2024)

USE = 2**31 - 1  # folded into a row's key when its codes are used; blocks never come so far


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


class Codes(NamedTuple):
    """All codes of some rows, with their log-weights: -inf where there is no code."""

    autoencoder: Autoencoder
    z: Float[Array, "K B L"]
    log_w: Float[Array, "K B"]
    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    key: Key[Array, " B"]


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


class _Patience(NamedTuple):
    """When a row has enough before its last code; arguments of the program, not a part of it."""

    scale: Float[Array, " S"]
    tolerance: Float[Array, ""]
    min_ess: Float[Array, ""]


class _Rows(NamedTuple):
    """The rows in the slots and the sums over their codes."""

    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    key: Key[Array, " B"]
    running: Running
    at_least: Int[Array, " B"]  # codes, where its weights were found to be unreliable


class _Slots(NamedTuple):
    rows: _Rows
    # Codes and their weights, and room for one more block, in which rows that wait write.
    z: Float[Array, "B R L"]
    log_w: Float[Array, "B R"]


def _select(new: Bool[Array, " B"], a: Array, b: Array) -> Array:
    return jnp.where(new.reshape(-1, *[1] * (a.ndim - 1)), a, b)


@compiled
def _refill(rows: _Rows, fresh: _Rows, new: Bool[Array, " B"]) -> _Rows:
    """Start new rows in some of the slots."""
    return jax.tree.map(lambda a, b: _select(new, a, b), fresh, rows)


def _by_group(function: Callable[[PyTree], PyTree], rows: PyTree) -> PyTree:
    """Apply a function to groups of rows of fixed size, one after the other."""
    n_slots = jax.tree.leaves(rows)[0].shape[0]
    grouped = jax.tree.map(lambda a: a.reshape(n_slots // GROUP, GROUP, *a.shape[1:]), rows)
    results = jax.lax.map(function, grouped)
    return jax.tree.map(lambda a: a.reshape(n_slots, *a.shape[2:]), results)


def codes_at_once(autoencoder: Autoencoder) -> int:
    """How many codes of a group of rows are decoded together: a divisor of a block."""
    most = DECODED // (GROUP * autoencoder.generative.observation.n_parameters)
    return max((n for n in range(1, BLOCK + 1) if BLOCK % n == 0 and n <= most), default=1)


def _enough(
    rows: _Rows, autoencoder: Autoencoder, n_samples: int, patience: _Patience
) -> Bool[Array, " B"]:
    running = rows.running
    known = autoencoder.generative.observation.statistics(rows.x, rows.observed)[1]
    error = jnp.where(known, 0.0, running.standard_error() / patience.scale[None])
    # Without a tolerance it is negative, and nothing settles a row, not even nothing to judge.
    settled = jnp.all(error <= patience.tolerance, axis=1) & (patience.tolerance >= 0)
    settled &= running.effective_sample_size() >= patience.min_ess
    # After a deadline the tolerance is infinite, and nobody has to go on.
    settled &= (running.count >= rows.at_least) | jnp.isinf(patience.tolerance)
    return settled | (running.count >= n_samples)


@compiled
def _advance(
    slots: _Slots,
    autoencoder: Autoencoder,
    n_samples: int,
    patience: _Patience,
    active: Bool[Array, " B"],
    wanted: Int[Array, ""],
) -> tuple[_Slots, Bool[Array, " B"]]:
    """Draw blocks of codes until so many of the active rows have enough; tell which.

    A row that has enough waits unchanged, whatever its neighbours need.
    """
    generative = autoencoder.generative
    last = slots.log_w.shape[1] - BLOCK

    def one_block(rows: _Rows) -> tuple[Running, Bool[Array, " B"], Array, Array]:
        key = fold_in(rows.key, rows.running.count // BLOCK)
        proposal = autoencoder.propose(rows.x, rows.observed)
        z = proposal.sample(key, BLOCK)
        log_q = log_density(proposal, z)
        place = rows.running.count[None, :] + jnp.arange(BLOCK)[:, None]
        used = place < n_samples

        def one_part(running: Running, part: tuple[Array, Array, Array]) -> tuple[Running, Array]:
            z, log_q, used = part
            log_w = log_weights(autoencoder, log_q, z, rows.x, rows.observed)
            # E[statistics | x_obs, z]: Eqn. (12), the estimate of smaller variance.
            h = generative.observation.mean(generative.decoder(z), rows.x, rows.observed)
            return update_running(running, log_w, h, used), log_w

        split = lambda a: a.reshape(-1, codes_at_once(autoencoder), *a.shape[1:])  # noqa: E731
        parts = (split(z), split(log_q), split(used))
        running, log_w = jax.lax.scan(one_part, rows.running, parts)
        log_w = jnp.where(used, log_w.reshape(log_q.shape), -jnp.inf)
        rows = rows._replace(running=running)
        enough = _enough(rows, autoencoder, n_samples, patience)
        return running, enough, jnp.moveaxis(z, 0, 1), log_w.T

    def one_group(
        group: tuple[_Rows, Bool[Array, " B"]],
    ) -> tuple[Running, Bool[Array, " B"], Array, Array]:
        rows, enough = group
        shapes = jax.eval_shape(one_block, rows)[2:]
        nothing = [jnp.zeros(a.shape, a.dtype) for a in shapes]
        skip = lambda rows: (rows.running, enough, *nothing)  # noqa: E731
        return jax.lax.cond(jnp.all(enough), skip, one_block, rows)

    def body(carry: tuple[_Slots, Bool[Array, " B"]]) -> tuple[_Slots, Bool[Array, " B"]]:
        (rows, kept_z, kept_log_w), enough = carry
        running, new_enough, z, log_w = _by_group(one_group, (rows, enough))
        place = jnp.where(enough, last, rows.running.count)
        put = jax.vmap(lambda a, b, i: jax.lax.dynamic_update_slice_in_dim(a, b, i, 0))
        running = jax.tree.map(lambda a, b: _select(enough, a, b), rows.running, running)
        rows = rows._replace(running=running)
        slots = _Slots(rows, put(kept_z, z, place), put(kept_log_w, log_w, place))
        return slots, enough | new_enough

    def unfinished(carry: tuple[_Slots, Bool[Array, " B"]]) -> Bool[Array, ""]:
        return jnp.sum(carry[1] & active) < wanted

    return jax.lax.while_loop(unfinished, body, (slots, ~active))


class _Estimates(NamedTuple):
    """In the order of `Sampled` and `RowReport`."""

    mean: Float[Array, "B S"]
    standard_error: Float[Array, "B S"]
    log_mean_weight: Float[Array, " B"]
    count: Int[Array, " B"]
    effective_sample_size: Float[Array, " B"]
    pareto_k: Float[Array, " B"]


def _weights_of(slots: _Slots, chosen: Int[Array, " G"]) -> Float[Array, "K G"]:
    """Log-weights of the codes in some slots; beyond them a slot may hold those of another row."""
    room = slots.log_w.shape[1] - BLOCK
    own = jnp.arange(room)[None, :] < slots.rows.running.count[chosen][:, None]
    return jnp.where(own, slots.log_w[chosen][:, :room], -jnp.inf).T


@compiled
def _estimates(slots: _Slots, chosen: Int[Array, " G"]) -> _Estimates:
    """What the sums and the weights say of a group of finished rows."""
    own: Running = jax.tree.map(lambda a: a[chosen], slots.rows.running)
    return _Estimates(
        own.mean(),
        own.standard_error(),
        own.log_mean_weight(),
        own.count,
        own.effective_sample_size(),
        pareto_k(_weights_of(slots, chosen), own.count),
    )


@compiled
def _used(
    slots: _Slots,
    autoencoder: Autoencoder,
    product: Callable[[Codes], PyTree],
    chosen: Int[Array, " G"],
    unreliable: Bool[Array, " G"],
) -> PyTree:
    """What a product makes of the codes of a group of finished rows."""
    rows = jax.tree.map(lambda a: a[chosen], slots.rows)
    log_w = _weights_of(slots, chosen)
    log_w = jnp.where(unreliable[None], smoothed(log_w, rows.running.count), log_w)
    z = jnp.moveaxis(slots.z[chosen][:, : log_w.shape[0]], 0, 1)
    key = fold_in(rows.key, jnp.asarray(USE))
    return product(Codes(autoencoder, z, log_w, rows.x, rows.observed, key))


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
        self, rows: np.ndarray, places: np.ndarray, estimates: _Estimates, *, smooth: bool
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
    x: np.ndarray, observed: np.ndarray, keys: Key[Array, " N"], held: np.ndarray, empty: Running
) -> _Rows:
    at_least = jnp.asarray(np.zeros(len(held), dtype=np.int32))
    return _Rows(jnp.asarray(x[held]), jnp.asarray(observed[held]), keys[held], empty, at_least)


def _start(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: Key[Array, " N"],
    settings: SamplingSettings,
    scale: Float[np.ndarray, " S"] | None,
) -> tuple[_Slots, _Patience]:
    """Slots in which no row has been sampled yet, and when a row will have enough."""
    n_statistics = autoencoder.generative.observation.n_statistics
    n_latent = autoencoder.generative.prior.n_latent
    # Codes with their weights, the sums of each statistic, and the row itself; old and new.
    room = settings.room + BLOCK
    floats = 2 * (room * (n_latent + 1) + 5 * n_statistics + 2 * x.shape[1])
    n_slots = settings.n_slots(len(x), floats)
    empty = start_running(n_slots, n_statistics)
    slots = _Slots(
        _fresh(x, observed, keys, np.zeros(n_slots, dtype=int), empty),
        jnp.asarray(np.zeros((n_slots, room, n_latent), dtype=np.float32)),
        jnp.asarray(np.zeros((n_slots, room), dtype=np.float32)),
    )
    unit = np.ones(n_statistics) if scale is None else scale
    tolerance = -1.0 if settings.tolerance is None else settings.tolerance
    limits = (jnp.asarray(tolerance), jnp.asarray(settings.min_ess))
    return slots, _Patience(jnp.asarray(unit, dtype=jnp.float32), *limits)


def compile_sampling(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: Key[Array, " N"],
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
    slots = slots._replace(rows=_refill(slots.rows, slots.rows, none))
    n_samples = settings.n_samples
    slots, _ = _advance(slots, autoencoder, n_samples, patience, none, jnp.asarray(0))
    chosen = jnp.asarray(np.zeros(GROUP, dtype=int))
    _estimates(slots, chosen)


def sample_rows(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    keys: Key[Array, " N"],
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
        keys: one for each row.
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
            slots = slots._replace(rows=_refill(slots.rows, fresh, jnp.asarray(new)))
        active = in_slot >= 0
        # Rows that have enough wait for a few others, to be looked at together.
        wanted = min(int(active.sum()), max(1, n_slots // GROUP))
        late = deadline is not None and time.monotonic() > deadline
        slots, enough = _advance(
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
    slots: _Slots,
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
    estimates = _estimates(slots, chosen)
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
        result = _used(slots, autoencoder, product, chosen, padded)
        finished.add_product(rows[wanted], wanted, result)
    return np.where(unfinished, 2 * count, 0)
