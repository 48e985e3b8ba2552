"""The compiled part of training: one step, and many steps as one program."""

from typing import NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from miwae._compilation import compiled
from miwae.inference import BoundGradient, bound_and_gradient
from miwae.kernels import bits, fold_in, uniform
from miwae.model import Autoencoder
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState, optimizer

Rows: TypeAlias = Float[Array, "B D"]
Cells: TypeAlias = Bool[Array, "B D"]
Number: TypeAlias = Float[Array, ""]
Carry: TypeAlias = tuple[PyTree, Number, Number]

LEAST = -100.0  # nats per cell: ten times a fall of the mean bound that counts as divergence

DROPOUT = 2**30  # folded into the key of a step
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
    return bound_and_gradient(
        autoencoder,
        *batch,
        key,
        visible=_visible(batch.observed, key, settings),
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


def _step(
    state: TrainingState, batch: Batch, settings: TrainingSettings
) -> tuple[TrainingState, Number]:
    """One gradient step, and the weighted bound before it; see `LEAST`."""
    key = fold_in(state.key, state.step)
    bound, gradient = _gradient(state.autoencoder, batch, key, settings)
    parameters, static = eqx.partition(state.autoencoder, eqx.is_inexact_array)
    loss_gradient = state.trained_part(jax.tree.map(jnp.negative, gradient))
    update = optimizer(settings).update
    updates, optimizer_state = update(loss_gradient, state.optimizer_state, parameters)
    updates = state.trained_part(updates)
    moved = jax.tree.map(lambda p, u: p + state.step_scale * u, parameters, updates)
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


def _next_rows(
    state: TrainingState, n_rows: Int[Array, ""], batch_size: int
) -> tuple[Int[Array, " N"], Int[Array, " B"]]:
    """The order of this epoch and the rows of this step.

    Each epoch has a new order. If the batch size does not divide the number of rows, the last rows
    of the order are skipped in this epoch. Rows that pad the table come last in the order.
    """
    epoch, place = jnp.divmod(state.step, jnp.maximum(n_rows // batch_size, 1))
    key = fold_in(state.key, SHUFFLE - epoch)
    total = state.order.shape[0]

    def shuffled() -> Int[Array, " N"]:
        # One sort of random words; `jax.random.permutation` sorts several times and takes longer
        # to compile.
        words = bits(key, (total,)) >> 1
        words = jnp.where(jnp.arange(total) < n_rows, words, jnp.uint32(2**32 - 1))
        return jnp.argsort(words).astype(state.order.dtype)

    order = jax.lax.cond(place == 0, shuffled, lambda: state.order)
    return order, jax.lax.dynamic_slice(order, (place * batch_size,), (batch_size,))


@compiled
def advance(
    state: TrainingState,
    x: Float[Array, "N D"],
    observed: Bool[Array, "N D"],
    weights: Float[Array, " N"],
    n_rows: Int[Array, ""],
    n_steps: Int[Array, ""],
    settings: TrainingSettings,
) -> Advanced:
    """Take many steps on shuffled minibatches of the first `n_rows` rows, as one program.

    The weights of the rows, whose mean is 1, multiply their bounds.
    The numbers of rows and steps are arguments of the program: one compilation serves many.
    """
    batch_size = min(settings.batch_size, x.shape[0])
    n_used = jnp.minimum(batch_size, n_rows)
    row_weights = jnp.where(jnp.arange(batch_size) < n_used, 1 / n_used, 0.0)
    arrays, static = eqx.partition(state, eqx.is_array)

    def body(i: Int[Array, ""], carry: Carry) -> Carry:
        arrays, first, total = carry
        state = eqx.combine(arrays, static)
        order, rows = _next_rows(state, n_rows, batch_size)
        state = eqx.tree_at(lambda s: s.order, state, order)
        batch = Batch(x[rows], observed[rows], row_weights * weights[rows])
        state, bound = _step(state, batch, settings)
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
