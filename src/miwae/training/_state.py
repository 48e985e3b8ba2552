"""The state of a training run: a value that holds all that is needed to continue."""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jaxtyping import Array, Bool, Float, Int, Key, PyTree

from miwae._compilation import compiled
from miwae._keys import words_from
from miwae.errors import SettingsError
from miwae.model import Autoencoder
from miwae.training._settings import TrainingSettings


class TrainingState(eqx.Module):
    """Model, optimiser, random key and the memory of early stopping."""

    autoencoder: Autoencoder
    averaged: Autoencoder  # its weights averaged over the last steps, if `averaging` is positive
    optimizer_state: PyTree
    key: Key[Array, ""]
    step: Int[Array, ""]
    order: Int[Array, " N"]  # in which this epoch visits the rows
    step_scale: Float[Array, ""]  # 1, halved by each rollback
    trains_all: Bool[Array, ""]  # or the amortizer only
    best: Autoencoder
    best_score: Float[Array, ""]
    reference_score: Float[Array, ""]  # a score has to beat it by `min_improvement` to count
    waited: Int[Array, ""]  # evaluations since a score did

    def trained_part(self, tree: PyTree) -> PyTree:
        """Gradients or updates, with zeros for what is not trained."""
        kept = jax.tree.map(lambda a: jnp.where(self.trains_all, a, 0.0), tree.generative)
        return eqx.tree_at(lambda t: t.generative, tree, kept)

    def result(self, settings: TrainingSettings) -> Autoencoder:
        """The model of this state: averaged, or with its last weights."""
        return self.averaged if settings.averaging > 0 else self.autoencoder


def _decayed(parameters: PyTree) -> PyTree:
    """True for the matrices of networks whose class sets `decays_weights`.

    Biases and the linear core do not decay.
    """
    decays = lambda node: getattr(node, "decays_weights", False)  # noqa: E731

    def mark(node: PyTree) -> PyTree:
        inside = decays(node)
        return jax.tree.map(lambda a: inside and a.ndim == 2, node)

    return jax.tree.map(mark, parameters, is_leaf=decays)


def optimizer(settings: TrainingSettings) -> optax.GradientTransformation:
    """Clipping, Adam or AdamW, and the schedule, for a loss to be minimised."""
    peak, warmup = settings.learning_rate, settings.warmup_steps
    if settings.schedule == "cosine":
        if warmup >= settings.max_steps:
            raise SettingsError(
                f"warmup_steps ({warmup}) must be below max_steps ({settings.max_steps})"
            )
        start = 0.0 if warmup else peak
        schedule = optax.warmup_cosine_decay_schedule(start, peak, warmup, settings.max_steps)
    else:
        rise = optax.linear_schedule(0.0, peak, max(warmup, 1))
        schedule = optax.join_schedules([rise, optax.constant_schedule(peak)], [warmup])
    clip, rate = optax.clip_by_global_norm(settings.clip), optax.scale_by_learning_rate(schedule)
    if settings.optimizer == "adamw":
        decay = optax.add_decayed_weights(settings.weight_decay, mask=_decayed)
        return optax.chain(clip, optax.scale_by_adam(), decay, rate)
    # One long vector compiles faster than many small arrays.
    return optax.flatten(optax.chain(clip, optax.scale_by_adam(), rate))


@compiled
def _optimizer_start(settings: TrainingSettings, parameters: PyTree) -> PyTree:
    return optimizer(settings).init(parameters)


def initial_state(
    autoencoder: Autoencoder, settings: TrainingSettings, key: Key[Array, ""], n_rows: int
) -> TrainingState:
    """The state before the first step.

    Args:
        autoencoder: with its initial weights.
        settings: of the run.
        key: of any implementation; it seeds the threefry key that training uses.
        n_rows: of the training data; 1 for a stream.
    """
    parameters = eqx.filter(autoencoder, eqx.is_inexact_array)
    seed = jax.device_put(words_from(key))
    return TrainingState(
        autoencoder=autoencoder,
        averaged=autoencoder,
        optimizer_state=_optimizer_start(settings, parameters),
        key=jax.random.wrap_key_data(seed, impl="threefry2x32"),
        step=jax.device_put(np.int32(0)),
        order=jax.device_put(np.arange(n_rows, dtype=np.int32)),
        step_scale=jax.device_put(np.float32(1)),
        trains_all=jax.device_put(np.bool_(settings.trained == "all")),
        best=autoencoder,
        best_score=jax.device_put(np.float32(-np.inf)),
        reference_score=jax.device_put(np.float32(-np.inf)),
        waited=jax.device_put(np.int32(0)),
    )
