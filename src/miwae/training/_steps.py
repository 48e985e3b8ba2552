"""The compiled part of training: one step, and many steps as one program."""

from typing import Any, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from miwae._compilation import compiled
from miwae.errors import SettingsError
from miwae.inference import BoundGradient, bound_and_gradient
from miwae.kernels import bits, fold_in, uniform
from miwae.model import Autoencoder
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState, optimizer

Rows: TypeAlias = Float[Array, "B D"]
Cells: TypeAlias = Bool[Array, "B D"]
Number: TypeAlias = Float[Array, ""]
Carry: TypeAlias = tuple[PyTree, Number, Number]

SMALLEST_SHARD = 16  # rows; with fewer, one shard is as fast as two
ROWS = "rows"  # the axis along which a batch is cut for several devices
LEAST = -100.0  # nats per cell: ten times a fall of the mean bound that counts as divergence

DROPOUT = 2**30  # folded into the key of a step; larger than any number of shards
SHUFFLE = 2**31 - 1  # minus the epoch, folded into the key; larger than any step number


class Batch(NamedTuple):
    """Rows, their observed cells, and their weights in the loss."""

    x: Rows
    observed: Cells
    row_weights: Float[Array, " B"]


class Advanced(NamedTuple):
    """The state after some steps, their mean bound, and whether all numbers are finite.

    In the mean each row counts with at least `LEAST` nats per observed cell: otherwise one row
    that is unlike all others could look like divergence.
    """

    state: TrainingState
    first: Number  # the bound of the first batch, before its step
    bound: Number
    finite: Bool[Array, ""]


def _gradient(
    autoencoder: Autoencoder, batch: Batch, key: Key[Array, ""], settings: TrainingSettings
) -> BoundGradient:
    """The bound of each row and the gradient, shard by shard, on one device or on several."""
    n_rows = batch.x.shape[0]
    wanted = settings.shards
    shards = wanted if n_rows % wanted == 0 and n_rows >= wanted * SMALLEST_SHARD else 1
    visible = _visible(batch.observed, key, settings)
    keys = jax.random.split(key, shards)
    if settings.devices == 1:
        return _on_one_device(autoencoder, keys, batch, visible, settings)
    if shards == 1:
        raise SettingsError(
            f"a batch of {n_rows} rows cannot be cut into {wanted} parts of at least "
            f"{SMALLEST_SHARD} rows for {settings.devices} devices: choose another batch_size"
        )
    arrays, static = eqx.partition(autoencoder, eqx.is_array)

    def on_device(arrays: PyTree, keys: Any, batch: Batch, visible: Any) -> tuple[Array, PyTree]:
        own = _on_one_device(eqx.combine(arrays, static), keys, batch, visible, settings)
        return own.bound, jax.lax.psum(own.gradient, ROWS)

    by_rows, everywhere = jax.sharding.PartitionSpec(ROWS), jax.sharding.PartitionSpec()
    spread = jax.shard_map(
        on_device,
        mesh=_mesh(settings.devices),
        in_specs=(everywhere, by_rows, by_rows, by_rows),
        out_specs=(by_rows, everywhere),
        check_vma=False,
    )
    return BoundGradient(*spread(arrays, keys, batch, visible))


def _mesh(n_devices: int) -> jax.sharding.Mesh:
    there = jax.devices()
    if len(there) < n_devices:
        raise SettingsError(
            f"devices is {n_devices}, but JAX sees {len(there)} ({there[0].platform}); the cores "
            "of a CPU count as devices if the environment variable XLA_FLAGS contains "
            f"--xla_force_host_platform_device_count={n_devices}"
        )
    return jax.sharding.Mesh(np.array(there[:n_devices]), (ROWS,))


def _on_one_device(
    autoencoder: Autoencoder,
    keys: Key[Array, " S"],
    batch: Batch,
    visible: Cells,
    settings: TrainingSettings,
) -> BoundGradient:
    """The gradient of the rows on one device, with one shard for each key."""
    return bound_and_gradient(
        autoencoder,
        *batch,
        [keys[i] for i in range(len(keys))],
        visible=visible,
        n_samples=settings.n_samples,
        objective=settings.objective,
        estimator=settings.estimator,
    )


def _visible(observed: Cells, key: Key[Array, ""], settings: TrainingSettings) -> Cells:
    """The observed cells that the encoder sees."""
    if settings.input_dropout == 0:
        return observed
    kept = uniform(fold_in(key, DROPOUT), observed.shape)
    return observed & (kept >= settings.input_dropout)


def _without_generative(tree: PyTree) -> PyTree:
    """Gradients or updates with zeros for the generative model."""
    zeros = jax.tree.map(jnp.zeros_like, tree.generative)
    return eqx.tree_at(lambda t: t.generative, tree, zeros)


def _step(
    state: TrainingState, batch: Batch, settings: TrainingSettings
) -> tuple[TrainingState, Number]:
    """One gradient step, and the weighted bound before it; see `LEAST`."""
    key = fold_in(state.key, state.step)
    bound, gradient = _gradient(state.autoencoder, batch, key, settings)
    parameters, static = eqx.partition(state.autoencoder, eqx.is_inexact_array)
    keep = (lambda tree: tree) if settings.trained == "all" else _without_generative
    loss_gradient = keep(jax.tree.map(jnp.negative, gradient))
    update = optimizer(settings).update
    updates, optimizer_state = update(loss_gradient, state.optimizer_state, parameters)
    moved = jax.tree.map(lambda p, u: p + state.step_scale * u, parameters, keep(updates))
    averaged = _averaged(state, moved, settings)
    new = (eqx.combine(moved, static), averaged, optimizer_state, state.step + 1)
    where = lambda s: (s.autoencoder, s.averaged, s.optimizer_state, s.step)  # noqa: E731
    state = eqx.tree_at(where, state, new)
    limited = jnp.maximum(bound, LEAST * batch.observed.sum(axis=1))
    return state, jnp.sum(limited * batch.row_weights)


def _averaged(state: TrainingState, moved: PyTree, settings: TrainingSettings) -> Autoencoder:
    """The moving average of the weights; at first it forgets faster, so as to forget the start."""
    if settings.averaging == 0:
        return state.averaged
    share = jnp.maximum(1 - settings.averaging, 9 / (10 + state.step))
    old, static = eqx.partition(state.averaged, eqx.is_inexact_array)
    return eqx.combine(jax.tree.map(lambda a, p: a + share * (p - a), old, moved), static)


def _all_finite(tree: PyTree) -> Bool[Array, ""]:
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_inexact_array))
    return jnp.all(jnp.stack([jnp.all(jnp.isfinite(leaf)) for leaf in leaves]))


def _next_rows(state: TrainingState, batch_size: int) -> tuple[Int[Array, " N"], Int[Array, " B"]]:
    """The order of this epoch and the rows of this step.

    Each epoch has a new order. If the batch size does not divide the number of rows, the last rows
    of the order are skipped in this epoch.
    """
    n_rows = state.order.shape[0]
    epoch, place = jnp.divmod(state.step, n_rows // batch_size)
    key = fold_in(state.key, SHUFFLE - epoch)
    order = jax.lax.cond(
        place == 0,
        # One sort of random words; `jax.random.permutation` sorts several times and takes longer
        # to compile.
        lambda: jnp.argsort(bits(key, (n_rows,))).astype(state.order.dtype),
        lambda: state.order,
    )
    return order, jax.lax.dynamic_slice(order, (place * batch_size,), (batch_size,))


@compiled
def advance(
    state: TrainingState,
    x: Float[Array, "N D"],
    observed: Bool[Array, "N D"],
    settings: TrainingSettings,
    n_steps: Int[Array, ""],
) -> Advanced:
    """Take many steps on shuffled minibatches, as one compiled program.

    The number of steps is an argument of the program: one compilation serves any number.
    """
    batch_size = min(settings.batch_size, x.shape[0])
    row_weights = jnp.full(batch_size, 1 / batch_size)
    arrays, static = eqx.partition(state, eqx.is_array)

    def body(i: Int[Array, ""], carry: Carry) -> Carry:
        arrays, first, total = carry
        state = eqx.combine(arrays, static)
        order, rows = _next_rows(state, batch_size)
        state = eqx.tree_at(lambda s: s.order, state, order)
        state, bound = _step(state, Batch(x[rows], observed[rows], row_weights), settings)
        return eqx.filter(state, eqx.is_array), jnp.where(i == 0, bound, first), total + bound

    nothing = jnp.zeros(())
    arrays, first, total = jax.lax.fori_loop(0, n_steps, body, (arrays, nothing, nothing))
    state = eqx.combine(arrays, static)
    bound = total / n_steps
    return Advanced(state, first, bound, jnp.isfinite(bound) & _all_finite(state.autoencoder))


@compiled
def step_on(state: TrainingState, batch: Batch, settings: TrainingSettings) -> Advanced:
    """Take one step on a given batch."""
    state, bound = _step(state, batch, settings)
    return Advanced(state, bound, bound, jnp.isfinite(bound) & _all_finite(state.autoencoder))
