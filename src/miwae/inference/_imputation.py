"""Imputations: conditional means, draws, quantiles, and the mean of any function of a row."""

import dataclasses
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae._arrays import require_at_least
from miwae._compilation import compiled
from miwae._numerics import by_blocks
from miwae._row_keys import row_keys
from miwae._shapes import KeyWords, OneKey, Table, TableSeen
from miwae.errors import SettingsError
from miwae.inference._estimands import (
    completed_rows,
    conditional_mean,
    expectation_of,
    row_quantiles,
)
from miwae.inference._lanes import BLOCK
from miwae.inference._sampling import RowReport, SamplingSettings, sample_rows
from miwae.model import AbstractObservation, Autoencoder, check_data

# Effective sample size that a row needs before it is resampled.
LEAST_FOR_DRAWS = 60.0


class SingleImputation(NamedTuple):
    """Conditional means, and what is known of their accuracy."""

    x: Table  # observed cells as they were, missing ones imputed
    mean: Float[np.ndarray, "N S"]  # of the statistics: probabilities, where there are categories
    standard_error: Float[np.ndarray, "N S"]  # of the mean: Monte Carlo error, not the uncertainty
    report: RowReport


def _spread_report(needed: Bool[np.ndarray, " N"], report: RowReport | None) -> RowReport:
    """The report of all rows from that of the sampled ones."""
    whole = RowReport.empty(len(needed))
    for into, out in zip(whole, report or (), strict=report is not None):
        into[needed] = out
    return whole


def impute_single(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    key: OneKey,
    settings: SamplingSettings | None = None,
    scale: Float[np.ndarray, " S"] | None = None,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> SingleImputation:
    """Impute each missing cell by its conditional mean (categories: the most probable one).

    Self-normalised importance sampling with the closed form of `E[x_mis | x_obs, z]`, Eqn. (12).
    Rows with nothing missing are returned as they are; rows with nothing observed get the model's
    marginal. The same row gets the same numbers wherever it stands.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        key: a threefry key; the random numbers of a row follow from it and from the row's content.
        settings: how long to sample.
        scale: unit of the tolerance for each statistic; by default 1, for standardised data.
        callback: called with the number of finished rows and of all rows.
        deadline: by `time.monotonic()`; after it no row gets more than one more round.
    """
    values, seen = check_data(autoencoder, x, observed)
    observation = autoencoder.generative.observation
    needed = np.asarray(~seen.all(axis=1))
    known, is_known = statistics_of(observation, values, seen)
    mean, error = known.copy(), np.zeros_like(known)
    report = None
    if needed.any():
        part, part_seen = values[needed], seen[needed]
        keys, estimand = row_keys(key, part, part_seen), conditional_mean(observation)
        settings = settings or SamplingSettings()
        # The first value is about held-out cells, of which there are none.
        units = np.ones(known.shape[1], np.float32) if scale is None else scale
        limits = {"callback": callback, "deadline": deadline, "scale": np.append(1.0, units)}
        sampled = sample_rows(autoencoder, part, part_seen, keys, settings, estimand, **limits)
        report = sampled.report
        mean[needed] = np.where(is_known[needed], known[needed], sampled.mean[:, 1:])
        error[needed] = np.where(is_known[needed], 0.0, sampled.standard_error[:, 1:])
    completed = np.where(seen, values, point_of(observation, mean))
    return SingleImputation(completed, mean, error, _spread_report(needed, report))


@compiled
def _statistics(
    observation: AbstractObservation, x: Float[Array, "N D"], observed: Bool[Array, "N D"]
) -> tuple[Float[Array, "N S"], Bool[Array, "N S"]]:
    return observation.statistics(x, observed)


def statistics_of(
    observation: AbstractObservation, x: Table, observed: TableSeen
) -> tuple[Float[np.ndarray, "N S"], Bool[np.ndarray, "N S"]]:
    """The statistics of rows, and which of them were observed."""
    return by_blocks(partial(_statistics, observation), x, observed)


@compiled
def _point(observation: AbstractObservation, mean: Float[Array, "N S"]) -> Float[Array, "N D"]:
    return observation.point(mean)


def point_of(observation: AbstractObservation, mean: Float[np.ndarray, "N S"]) -> Table:
    """The values that stand for means of the statistics: numbers, most probable categories."""
    return by_blocks(partial(_point, observation), mean)


class Expectation(NamedTuple):
    """`E[h(x) | x_obs]` for each row."""

    mean: Float[np.ndarray, "N S"]
    standard_error: Float[np.ndarray, "N S"]
    report: RowReport


def expectation(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    h: Callable[[Float[Array, " D"]], Float[Array, " S"]],
    key: OneKey,
    settings: SamplingSettings | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> Expectation:
    """The conditional mean of any function of the completed row, Eqn. (10), by draws of `x_mis`.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        h: a JAX function from a complete row (D,) to a vector (S,).
        key: a threefry key.
        settings: how long to sample; the tolerance is in the units of h.
        callback: called with the number of finished rows and of all rows.
    """
    values, seen = check_data(autoencoder, x, observed)
    shape = jax.eval_shape(h, jax.ShapeDtypeStruct((values.shape[1],), jnp.float32)).shape
    if len(shape) != 1:
        raise SettingsError(f"h must return a vector, but returns an array of shape {shape}")
    keys, estimand = row_keys(key, values, seen), expectation_of(h, shape[0])
    settings = settings or SamplingSettings()
    sampled = sample_rows(autoencoder, values, seen, keys, settings, estimand, callback=callback)
    return Expectation(sampled.mean, sampled.standard_error, sampled.report)


class MultipleImputation(NamedTuple):
    """M completed copies of the rows."""

    x: Float[np.ndarray, "M N D"]
    report: RowReport


def impute_multiple(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    n_imputations: int,
    key: OneKey | None = None,
    keys: KeyWords | None = None,
    settings: SamplingSettings | None = None,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> MultipleImputation:
    """Draw M completed copies from `p(x_mis | x_obs)` by sampling importance resampling.

    Identical rows get independent draws. A row has enough latent samples when its effective sample
    size is ten times M, so that copies are nearly independent, and at least 60, since the bias of
    resampling is of the order of its inverse; the tolerance of the settings is for means only.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        n_imputations: M.
        key: a threefry key; the keys of rows follow from it.
        keys: those keys themselves, for a caller who passes rows in several chunks, from
            `row_keys(key, ..., tell_duplicates_apart=True)` of all of them.
        settings: how long to sample.
        callback: called with the number of finished rows and of all rows.
        deadline: by `time.monotonic()`; after it no row gets more than one more round.
    """
    require_at_least(1, n_imputations=n_imputations)
    values, seen = check_data(autoencoder, x, observed)
    needed = np.asarray(~seen.all(axis=1))
    copies = np.repeat(values[None], n_imputations, axis=0)
    report = None
    if needed.any():
        part, part_seen = values[needed], seen[needed]
        own = _draw_keys(key, keys, values, seen)[needed]
        settings = settings or SamplingSettings()
        enough = max(settings.min_ess, 10.0 * n_imputations, LEAST_FOR_DRAWS)
        tolerance = None if settings.tolerance is None else np.inf
        settings = dataclasses.replace(settings, min_ess=enough, tolerance=tolerance)
        estimand = completed_rows(autoencoder.generative.observation, n_imputations)
        limits = {"callback": callback, "deadline": deadline}
        sampled = sample_rows(autoencoder, part, part_seen, own, settings, estimand, **limits)
        report = sampled.report
        drawn = np.moveaxis(np.asarray(sampled.summary), 1, 0)
        copies[:, needed] = np.where(part_seen[None], part[None], drawn)
    return MultipleImputation(copies, _spread_report(needed, report))


def _draw_keys(
    key: OneKey | None, keys: KeyWords | None, x: Table, observed: TableSeen
) -> KeyWords:
    if keys is not None:
        return keys
    if key is None:
        raise SettingsError("either key or keys has to be given")
    return row_keys(key, x, observed, tell_duplicates_apart=True)


class Quantiles(NamedTuple):
    """Quantiles of each missing cell; observed cells are their own quantiles."""

    x: Float[np.ndarray, "Q N D"]
    report: RowReport


def quantiles(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    levels: tuple[float, ...],
    key: OneKey,
    settings: SamplingSettings | None = None,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> Quantiles:
    """Quantiles of `p(x_mis | x_obs)`, cell by cell, from weighted draws.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        levels: such as `(0.05, 0.95)`.
        key: a threefry key.
        settings: how long to sample; by default 1,280 latent samples for every row. Fewer are not
            enough for the tails.
        callback: called with the number of finished rows and of all rows.
        deadline: by `time.monotonic()`; after it no row gets more than one more round.
    """
    if not levels or not all(0 < level < 1 for level in levels):
        raise SettingsError(f"levels must lie strictly between 0 and 1, not {levels}")
    values, seen = check_data(autoencoder, x, observed)
    settings = settings or SamplingSettings(n_samples=20 * BLOCK, tolerance=None)
    keys = row_keys(key, values, seen)
    estimand = row_quantiles(autoencoder.generative.observation, tuple(levels))
    limits = {"callback": callback, "deadline": deadline}
    sampled = sample_rows(autoencoder, values, seen, keys, settings, estimand, **limits)
    cells = np.moveaxis(np.asarray(sampled.summary), 1, 0)
    return Quantiles(np.where(seen[None], values[None], cells), sampled.report)
