"""The compiled part of sampling: rows in a fixed number of slots, and what is computed of them.

In each round every slot draws a block of codes for its row, in groups of fixed size, so that not
even the rounding of a row depends on how many rows there are.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from miwae._compilation import compiled
from miwae.inference.importance import Running, pareto_k, smoothed, update_running
from miwae.inference.weights import log_density, log_weights
from miwae.kernels.threefry import fold_in
from miwae.model.latent import Autoencoder

__all__ = [
    "BLOCK",
    "GROUP",
    "Codes",
    "Estimates",
    "Patience",
    "Rows",
    "Slots",
    "advance",
    "codes_at_once",
    "estimate",
    "refill",
    "use_codes",
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

USE = 2**31 - 1  # folded into a row's key when its codes are used; blocks never come so far


class Codes(NamedTuple):
    """All codes of some rows, with their log-weights: -inf where there is no code."""

    autoencoder: Autoencoder
    z: Float[Array, "K B L"]
    log_w: Float[Array, "K B"]
    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    key: Key[Array, " B"]


class Patience(NamedTuple):
    """When a row has enough before its last code; arguments of the program, not a part of it."""

    scale: Float[Array, " S"]
    tolerance: Float[Array, ""]
    min_ess: Float[Array, ""]


class Rows(NamedTuple):
    """The rows in the slots and the sums over their codes."""

    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    key: Key[Array, " B"]
    running: Running
    at_least: Int[Array, " B"]  # codes, where its weights were found to be unreliable


class Slots(NamedTuple):
    """The rows that are being sampled, and their codes so far.

    There is room for one more block of codes, in which rows that wait write.
    """

    rows: Rows
    z: Float[Array, "B R L"]
    log_w: Float[Array, "B R"]


def _select(new: Bool[Array, " B"], a: Array, b: Array) -> Array:
    return jnp.where(new.reshape(-1, *[1] * (a.ndim - 1)), a, b)


@compiled
def refill(rows: Rows, fresh: Rows, new: Bool[Array, " B"]) -> Rows:
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
    rows: Rows, autoencoder: Autoencoder, n_samples: int, patience: Patience
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
def advance(
    slots: Slots,
    autoencoder: Autoencoder,
    n_samples: int,
    patience: Patience,
    active: Bool[Array, " B"],
    wanted: Int[Array, ""],
) -> tuple[Slots, Bool[Array, " B"]]:
    """Draw blocks of codes until so many of the active rows have enough; tell which.

    A row that has enough waits unchanged, whatever its neighbours need.
    """
    generative = autoencoder.generative
    last = slots.log_w.shape[1] - BLOCK

    def one_block(rows: Rows) -> tuple[Running, Bool[Array, " B"], Array, Array]:
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
            h = generative.observation.mean(generative.decode(z), rows.x, rows.observed)
            return update_running(running, log_w, h, used), log_w

        split = lambda a: a.reshape(-1, codes_at_once(autoencoder), *a.shape[1:])  # noqa: E731
        parts = (split(z), split(log_q), split(used))
        running, log_w = jax.lax.scan(one_part, rows.running, parts)
        log_w = jnp.where(used, log_w.reshape(log_q.shape), -jnp.inf)
        rows = rows._replace(running=running)
        enough = _enough(rows, autoencoder, n_samples, patience)
        return running, enough, jnp.moveaxis(z, 0, 1), log_w.T

    def one_group(
        group: tuple[Rows, Bool[Array, " B"]],
    ) -> tuple[Running, Bool[Array, " B"], Array, Array]:
        rows, enough = group
        shapes = jax.eval_shape(one_block, rows)[2:]
        nothing = [jnp.zeros(a.shape, a.dtype) for a in shapes]
        skip = lambda rows: (rows.running, enough, *nothing)  # noqa: E731
        return jax.lax.cond(jnp.all(enough), skip, one_block, rows)

    def body(carry: tuple[Slots, Bool[Array, " B"]]) -> tuple[Slots, Bool[Array, " B"]]:
        (rows, kept_z, kept_log_w), enough = carry
        running, new_enough, z, log_w = _by_group(one_group, (rows, enough))
        place = jnp.where(enough, last, rows.running.count)
        put = jax.vmap(lambda a, b, i: jax.lax.dynamic_update_slice_in_dim(a, b, i, 0))
        running = jax.tree.map(lambda a, b: _select(enough, a, b), rows.running, running)
        rows = rows._replace(running=running)
        slots = Slots(rows, put(kept_z, z, place), put(kept_log_w, log_w, place))
        return slots, enough | new_enough

    def unfinished(carry: tuple[Slots, Bool[Array, " B"]]) -> Bool[Array, ""]:
        return jnp.sum(carry[1] & active) < wanted

    return jax.lax.while_loop(unfinished, body, (slots, ~active))


class Estimates(NamedTuple):
    """In the order of `Sampled` and `RowReport`."""

    mean: Float[Array, "B S"]
    standard_error: Float[Array, "B S"]
    log_mean_weight: Float[Array, " B"]
    count: Int[Array, " B"]
    effective_sample_size: Float[Array, " B"]
    pareto_k: Float[Array, " B"]


def _weights_of(slots: Slots, chosen: Int[Array, " G"]) -> Float[Array, "K G"]:
    """Log-weights of the codes in some slots; beyond them a slot may hold those of another row."""
    room = slots.log_w.shape[1] - BLOCK
    own = jnp.arange(room)[None, :] < slots.rows.running.count[chosen][:, None]
    return jnp.where(own, slots.log_w[chosen][:, :room], -jnp.inf).T


@compiled
def estimate(slots: Slots, chosen: Int[Array, " G"]) -> Estimates:
    """What the sums and the weights say of a group of finished rows."""
    own: Running = jax.tree.map(lambda a: a[chosen], slots.rows.running)
    return Estimates(
        own.mean(),
        own.standard_error(),
        own.log_mean_weight(),
        own.count,
        own.effective_sample_size(),
        pareto_k(_weights_of(slots, chosen), own.count),
    )


@compiled
def use_codes(
    slots: Slots,
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
