"""Held-out cells: observed cells that training does not see, to evaluate a model on."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae.compilation import compiled, program_of
from miwae.inference import draw, self_normalised_mean
from miwae.model import Autoencoder
from miwae.numerics import logmeanexp
from miwae.training.settings import TrainingSettings

__all__ = ["Evaluation", "HeldOutScore", "evaluation_of", "hold_out", "score_held_out"]

EVALUATION_BLOCK = 128  # rows


def hold_out(
    observed: Bool[np.ndarray, "N D"], fraction: float, rng: np.random.Generator
) -> Bool[np.ndarray, "N D"]:
    """Choose a share of the observed cells; each row and each column keeps at least one.

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
    block_rows: int = EVALUATION_BLOCK,
) -> HeldOutScore:
    """Predict held-out cells with importance weights from the remaining cells.

    `log p(x_held | x_obs) = log sum_k w_k p(x_held | z_k)` with normalised weights w.

    Args:
        autoencoder: the model.
        x: rows; the number of rows must be a multiple of `block_rows`.
        observed: True for the cells that remain.
        held_out: True for the cells to predict; rows without any do not count.
        key: the same at each evaluation, so that evaluations can be compared.
        n_samples: latent samples per row.
        block_rows: rows at a time.
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


class Evaluation(NamedTuple):
    """Rows with held-out cells, padded to whole blocks."""

    x: Float[Array, "N D"]
    observed: Bool[Array, "N D"]
    held_out: Bool[Array, "N D"]
    key: Key[Array, ""]

    def score(self, autoencoder: Autoencoder, settings: TrainingSettings) -> HeldOutScore:
        """How well a model predicts the held-out cells."""
        program = program_of(score_held_out, hasty=settings.hasty)
        return program(
            autoencoder,
            self.x,
            self.observed,
            self.held_out,
            self.key,
            settings.evaluation_samples,
            EVALUATION_BLOCK,
        )


def evaluation_of(
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    settings: TrainingSettings,
    rng: np.random.Generator,
    key: Key[Array, ""],
    copies_of: Int[np.ndarray, " N"] | None,
) -> tuple[Evaluation | None, Bool[np.ndarray, "N D"]]:
    """Hold cells out.

    Args:
        x: rows.
        observed: True where a cell was seen.
        settings: of the run.
        rng: chooses the cells, and the rows to evaluate if there are many.
        key: of the latent samples in every evaluation.
        copies_of: for each row, which row it is a copy of: copies have the same cells held out.

    Returns:
        The rows to evaluate (None if nothing is held out), and the cells that training may see.
    """
    if settings.held_out == 0:
        return None, observed
    if copies_of is None:
        held = hold_out(observed, settings.held_out, rng)
    else:
        _, first, inverse = np.unique(copies_of, return_index=True, return_inverse=True)
        held = hold_out(observed[first], settings.held_out, rng)[inverse]
    if not held.any():
        return None, observed
    rows = np.flatnonzero(held.any(axis=1))
    rows = rng.permutation(rows)[: settings.evaluation_rows]
    padding = ((0, -len(rows) % EVALUATION_BLOCK), (0, 0))
    remaining = observed & ~held
    padded = lambda a: jnp.asarray(np.pad(a[rows], padding))  # noqa: E731
    return Evaluation(padded(x), padded(remaining), padded(held), key), remaining
