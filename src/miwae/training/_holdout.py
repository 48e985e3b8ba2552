"""Held-out cells: observed cells that training does not see, to evaluate a model on."""

from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae._compilation import compiled, program_of
from miwae._numerics import logmeanexp
from miwae.inference import draw, self_normalised_mean
from miwae.model import Autoencoder
from miwae.training._settings import TrainingSettings

EVALUATION_BLOCK = 128  # rows

Values: TypeAlias = Float[np.ndarray, "N D"]
Seen: TypeAlias = Bool[np.ndarray, "N D"]
Rows: TypeAlias = Float[Array, "N D"]
Cells: TypeAlias = Bool[Array, "N D"]


def hold_out(observed: Seen, fraction: float, rng: np.random.Generator) -> Seen:
    """Choose a share of the observed cells; each row and each column keeps at least one."""
    chosen = observed & (rng.random(observed.shape) < fraction)
    for seen, held in ((observed.T, chosen.T), (observed, chosen)):  # views: columns, then rows
        for line in np.flatnonzero(~(seen & ~held).any(axis=1)):
            held[line, rng.choice(np.flatnonzero(seen[line]))] = False
    return chosen


class HeldOutScore(NamedTuple):
    """How well held-out cells are predicted from the cells that remain."""

    log_density: Float[Array, ""]  # mean of log p(x_held | x_obs), per held-out cell
    error: Float[Array, ""]  # mean squared error of the conditional means of their statistics


@compiled
def score_held_out(
    autoencoder: Autoencoder,
    x: Rows,
    observed: Cells,
    held_out: Cells,
    key: Key[Array, ""],
    n_samples: int,
    block_rows: int = EVALUATION_BLOCK,
) -> HeldOutScore:
    """Predict held-out cells with importance weights from the remaining (`observed`) cells.

    `log p(x_held | x_obs) = log sum_k w_k p(x_held | z_k)` with normalised weights w. The number
    of rows must be a multiple of `block_rows`; rows without held-out cells do not count.
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

    x: Rows
    observed: Cells  # those that remain
    held_out: Cells
    key: Key[Array, ""]  # the same at each evaluation, so that evaluations can be compared

    def score(self, autoencoder: Autoencoder, settings: TrainingSettings) -> HeldOutScore:
        """How well a model predicts the held-out cells."""
        program = program_of(score_held_out, hasty=settings.hasty)
        return program(autoencoder, *self, settings.evaluation_samples, EVALUATION_BLOCK)


def evaluation_of(
    x: Values,
    observed: Seen,
    settings: TrainingSettings,
    rng: np.random.Generator,
    key: Key[Array, ""],
    copies_of: Int[np.ndarray, " N"] | None,
) -> tuple[Evaluation | None, Seen]:
    """Hold cells out, the same ones in copies of a row.

    Returns the rows to evaluate (None if nothing is held out), and the cells that training sees.
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
    rows = rng.permutation(np.flatnonzero(held.any(axis=1)))[: settings.evaluation_rows]
    padding = ((0, -len(rows) % EVALUATION_BLOCK), (0, 0))
    remaining = observed & ~held
    padded = lambda a: jnp.asarray(np.pad(a[rows], padding))  # noqa: E731
    return Evaluation(padded(x), padded(remaining), padded(held), key), remaining
