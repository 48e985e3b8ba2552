"""Observed cells that are masked again, to judge a model by what it could have known."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from miwae.compilation import compiled
from miwae.inference.importance import self_normalised_mean
from miwae.inference.weights import draw
from miwae.model.latent import Autoencoder
from miwae.numerics import logmeanexp

__all__ = ["HeldOutScore", "hold_out", "score_held_out"]


def hold_out(
    observed: Bool[np.ndarray, "N D"], fraction: float, rng: np.random.Generator
) -> Bool[np.ndarray, "N D"]:
    """Choose a share of the observed cells, and leave each row and each column at least one.

    Returns:
        True where a cell is held out; always a subset of `observed`.
    """
    chosen = observed & (rng.random(observed.shape) < fraction)
    for axis in (0, 1):
        emptied = np.flatnonzero(~(observed & ~chosen).any(axis=axis))
        for index in emptied:
            cells = (slice(None), index) if axis == 0 else (index, slice(None))
            keep = rng.choice(np.flatnonzero(observed[cells]))
            chosen[(keep, index) if axis == 0 else (index, keep)] = False
    return chosen


class HeldOutScore(NamedTuple):
    """How well held-out cells are predicted from the cells that remain."""

    log_density: Float[Array, ""]  # mean of log p(x_held | x_obs), per held-out cell
    error: Float[Array, ""]  # mean squared error of the conditional means of their statistics


@compiled
def score_held_out(
    autoencoder: Autoencoder,
    x: Float[Array, "N D"],
    observed: Bool[Array, "N D"],
    held_out: Bool[Array, "N D"],
    key: Key[Array, ""],
    n_samples: int,
    block_rows: int = 128,
) -> HeldOutScore:
    """Predict held-out cells with the weights of the remaining ones.

    `log p(x_held | x_obs) = log sum_k w_k p(x_held | z_k)` with normalised weights w.

    Args:
        autoencoder: the model.
        x: rows; the number of rows must be a multiple of `block_rows`.
        observed: what remains.
        held_out: what is predicted; rows without any do not count.
        key: the same at each evaluation, so that evaluations can be compared.
        n_samples: latent samples per row.
        block_rows: rows at once.
    """
    observation = autoencoder.generative.observation

    def block(total: Float[Array, " 4"], part: tuple[Array, ...]) -> tuple[Array, None]:
        x, observed, held_out, key = part
        _, eta, log_w = draw(autoencoder, x, observed, key, n_samples)
        log_held = observation.log_prob(eta, x, held_out)
        log_density = logmeanexp(log_w + log_held) - logmeanexp(log_w)
        mean = self_normalised_mean(log_w, observation.mean(eta, x, observed))
        truth, counted = observation.statistics(x, held_out)
        squares = jnp.where(counted, (mean - jnp.where(counted, truth, 0.0)) ** 2, 0.0)
        sums = (jnp.sum(log_density), held_out.sum(), jnp.sum(squares), counted.sum())
        return total + jnp.stack([jnp.asarray(a, dtype=x.dtype) for a in sums]), None

    n_blocks = x.shape[0] // block_rows
    split = lambda a: a.reshape(n_blocks, block_rows, *a.shape[1:])  # noqa: E731
    parts = (split(x), split(observed), split(held_out), jax.random.split(key, n_blocks))
    total, _ = jax.lax.scan(block, jnp.zeros(4), parts)
    return HeldOutScore(
        total[0] / jnp.maximum(total[1], 1.0), total[2] / jnp.maximum(total[3], 1.0)
    )
