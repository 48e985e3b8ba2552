"""What a model predicts for the cells that were held out from its training."""

from collections.abc import Iterator
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from scipy import special

from miwae._compilation import compiled
from miwae._shapes import Latents
from miwae.inference import conditional_mean, weighted_samples
from miwae.model import Autoencoder, ColumnParameters, MixedColumns
from miwae.training import Unseen

N_SAMPLES = 128  # latent samples of a row
AT_ONCE = 128  # rows; the last ones are padded

Cells: TypeAlias = Float[np.ndarray, "N F"]


class HeldOut(NamedTuple):
    """Rows with held-out cells, and what a model that has not seen these cells predicts."""

    x: Cells  # the true values, on the scale of the model
    held_out: Bool[np.ndarray, "N F"]
    mean: Float[np.ndarray, "N S"]  # conditional means of the statistics
    # The predicted probability of a value below the true one, and of one that is not above it;
    # NaN where nothing is held out.
    below: Cells
    upto: Cells


def predicted(unseen: Unseen) -> HeldOut:
    """Predict held-out cells from the cells that remain, by importance sampling."""
    rows, parts = unseen.rows, []
    for start in range(0, len(rows.x), AT_ONCE):
        at = np.arange(start, min(start + AT_ONCE, len(rows.x)))
        padded = np.resize(at, AT_ONCE)
        part = _predicted(unseen._replace(rows=type(rows)(*(a[padded] for a in rows))))
        parts.append([a[: len(at)] for a in part])
    return HeldOut(*(np.concatenate(own) for own in zip(*parts, strict=True)))


def _predicted(unseen: Unseen) -> HeldOut:
    (x, observed, held_out, keys), autoencoder = unseen
    observation = autoencoder.generative.observation
    assert isinstance(observation, MixedColumns)
    estimand = conditional_mean(observation)
    samples = weighted_samples(autoencoder, x, observed, keys, N_SAMPLES, estimand)
    mean = np.einsum("kn,knv->nv", samples.weights, samples.values[..., 1:])
    parameters = ColumnParameters(*map(np.asarray, _decoded(autoencoder, samples.z)))  # pyright: ignore
    below, upto = np.full((2, *x.shape), np.nan)
    for j, rows, *both in _distribution_functions(observation, parameters, x, held_out):
        weights = samples.weights[:, rows]
        below[rows, j], upto[rows, j] = (np.sum(weights * own, axis=0) for own in both)
    return HeldOut(x, held_out, mean.astype(np.float32), below, upto)


@compiled
def _decoded(autoencoder: Autoencoder, z: Latents) -> ColumnParameters:
    observation = autoencoder.generative.observation
    assert isinstance(observation, MixedColumns)
    return observation.parameters(autoencoder.generative.decode(z))


def _distribution_functions(
    observation: MixedColumns, own: ColumnParameters, x: Cells, held_out: Bool[np.ndarray, "N F"]
) -> Iterator[tuple[int, np.ndarray, np.ndarray, np.ndarray]]:
    """For each feature its rows, `P(X < x | z)` and `P(X <= x | z)`.

    By SciPy: what the compiler makes of the incomplete beta function takes long to compile.
    """
    n_numbers, n_coded, _, _ = observation.sizes
    column, value = np.asarray(observation.levels.column), np.asarray(observation.levels.value)
    for j in np.flatnonzero(held_out.any(axis=0)):
        rows = np.flatnonzero(held_out[:, j])
        truth = x[rows, j]
        if j < n_numbers:
            t = (truth - own.loc[j][:, rows]) / own.scale[j][:, rows]
            df = own.df[j][:, rows]
            upto = special.ndtr(t) if np.isinf(df[0, 0]) else special.stdtr(df, t)
            below = upto
        elif j < n_numbers + n_coded:
            levels = np.flatnonzero(
                (column == j - n_numbers) & np.asarray(observation.levels.real)
            )
            p = own.p[levels][:, :, rows]
            is_below = value[levels][:, None] < truth - 1e-6
            is_above = value[levels][:, None] > truth + 1e-6
            below = np.sum(p * is_below[:, None], axis=0)
            upto = 1 - np.sum(p * is_above[:, None], axis=0)
        else:
            spread, rate = (
                a[j - n_numbers - n_coded][:, rows] for a in (own.concentration, own.rate)
            )
            chance = spread / (spread + rate)
            upto = special.betainc(spread, truth + 1, chance)
            below = np.where(truth > 0, special.betainc(spread, np.maximum(truth, 1), chance), 0.0)
        yield int(j), rows, below, upto
