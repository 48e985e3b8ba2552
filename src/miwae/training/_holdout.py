"""Held-out cells: observed cells that training does not see, to evaluate a model on."""

from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae._row_keys import row_keys
from miwae._shapes import KeyWords
from miwae.inference import SamplingSettings, conditional_mean, sample_rows, statistics_of
from miwae.model import Autoencoder
from miwae.training._settings import TrainingSettings

# Rows with held-out cells that are kept, as a multiple of those that are scored in training.
KEPT = 2

Values: TypeAlias = Float[np.ndarray, "N D"]
Seen: TypeAlias = Bool[np.ndarray, "N D"]


def hold_out(observed: Seen, fraction: float, rng: np.random.Generator) -> Seen:
    """Choose a share of the observed cells; each row and each column keeps at least one."""
    chosen = observed & (rng.random(observed.shape) < fraction)
    for seen, held in ((observed.T, chosen.T), (observed, chosen)):  # views: columns, then rows
        for line in np.flatnonzero(held.any(axis=1) & ~(seen & ~held).any(axis=1)):
            held[line, rng.choice(np.flatnonzero(seen[line]))] = False
    return chosen


class HeldOutScore(NamedTuple):
    """How well held-out cells are predicted from the cells that remain."""

    log_density: float  # mean of log p(x_held | x_obs), per held-out cell
    error: float  # mean squared error of the conditional means of their statistics


class Evaluation(NamedTuple):
    """Rows with held-out cells."""

    x: Values
    observed: Seen  # those that remain
    held_out: Seen
    keys: KeyWords  # the same at each evaluation, so that evaluations can be compared

    def first(self, n_rows: int) -> "Evaluation":
        """Some of the rows."""
        return Evaluation(*(a[:n_rows] for a in self))

    def score(self, autoencoder: Autoencoder, n_samples: int) -> HeldOutScore:
        """Predict held-out cells with importance weights from the remaining cells.

        `log p(x_held | x_obs) = log sum_k w_k p(x_held | z_k)` with normalised weights w.
        """
        observation = autoencoder.generative.observation
        settings = SamplingSettings(n_samples=n_samples, tolerance=None, adapt=False)
        estimand = conditional_mean(observation)._replace(summary=_log_density)
        arrays = (self.x, self.observed, self.keys)
        sampled = sample_rows(autoencoder, *arrays, settings, estimand, held_out=self.held_out)
        truth, counted = statistics_of(observation, self.x, self.held_out)
        squares = np.where(counted, sampled.mean[:, 1:] - np.where(counted, truth, 0.0), 0.0) ** 2
        log_density = np.sum(np.asarray(sampled.summary)) / self.held_out.sum()
        return HeldOutScore(float(log_density), float(squares.sum() / counted.sum()))


def _log_density(
    log_w: Float[np.ndarray, "K B"], values: Float[np.ndarray, "K B V"], key: KeyWords
) -> Float[np.ndarray, " B"]:
    """`log p(x_held | x_obs)` of each row, from `log p(x_held | z)`, the first of the values."""
    log_held = log_w + values[..., 0]
    return np.logaddexp.reduce(log_held, axis=0) - np.logaddexp.reduce(log_w, axis=0)


def evaluation_of(
    x: Values,
    observed: Seen,
    settings: TrainingSettings,
    rng: np.random.Generator,
    key: Key[Array, ""],
    copies_of: Int[np.ndarray, " N"] | None,
) -> tuple[Evaluation | None, Seen]:
    """Hold cells out, the same ones in copies of a row.

    Returns rows to evaluate (None if nothing is held out), more of them than are scored in
    training, and the cells that training sees.
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
    rows = rng.permutation(np.flatnonzero(held.any(axis=1)))[: KEPT * settings.evaluation_rows]
    remaining = observed & ~held
    chosen = x[rows], remaining[rows], held[rows]
    return Evaluation(*chosen, row_keys(key, *chosen[:2])), remaining
