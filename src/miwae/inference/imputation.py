"""Imputations: conditional means, draws, quantiles, and the mean of any function of a row."""

import dataclasses
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, PyTree

from miwae.arrays import require_at_least
from miwae.errors import SettingsError
from miwae.inference.sampling import (
    BLOCK,
    AbstractSummary,
    RowReport,
    SamplingSettings,
    sample_rows,
)
from miwae.inference.summaries import (
    DrawnStatistic,
    MeanSummary,
    QuantileSummary,
    ResampleSummary,
    SmoothedDraws,
    SmoothedSummary,
    closed_form,
    smoothed_means,
)
from miwae.model.latent import Autoencoder, check_data
from miwae.randomness import fold_rows, row_keys

__all__ = [
    "Expectation",
    "MultipleImputation",
    "Quantiles",
    "SingleImputation",
    "expectation",
    "impute_multiple",
    "impute_single",
    "quantiles",
]


class SingleImputation(NamedTuple):
    """Conditional means, and what is known of their accuracy."""

    x: Float[np.ndarray, "N D"]  # observed cells as they were, missing ones imputed
    mean: Float[np.ndarray, "N S"]  # of the statistics: probabilities, where there are categories
    standard_error: Float[np.ndarray, "N S"]  # of the mean: Monte Carlo error, not the uncertainty
    report: RowReport


UNRELIABLE = 0.7  # Pareto's k above which a mean cannot be trusted
SECOND = 2**30  # folded into a row's key when it is sampled again; blocks never come so far


class _Rows(NamedTuple):
    """Rows to sample, and how."""

    autoencoder: Autoencoder
    x: Float[np.ndarray, "N D"]
    observed: Bool[np.ndarray, "N D"]
    keys: Key[Array, " N"]
    settings: SamplingSettings
    callback: Callable[[int, int], None] | None
    deadline: float | None

    def sample(
        self,
        summary: AbstractSummary,
        product: Callable[..., PyTree],
        *,
        scale: Float[np.ndarray, " S"] | None = None,
        floats_per_row: int = 0,
    ) -> tuple[PyTree, RowReport]:
        """Sample the rows; those with unreliable weights once more, with more codes, smoothed.

        Args:
            summary: of the first pass.
            product: of smoothed codes, in the second pass; its leaves replace the first leaves of
                the summary's result.
            scale: unit of the tolerance.
            floats_per_row: what the summary keeps of a row.
        """
        result, report = sample_rows(
            self.autoencoder,
            self.x,
            self.observed,
            self.keys,
            summary,
            self.settings,
            n_statistics=self.autoencoder.generative.observation.n_statistics,
            scale=scale,
            floats_per_row=floats_per_row,
            callback=self.callback,
            deadline=self.deadline,
        )
        again = np.flatnonzero(report.pareto_k > UNRELIABLE)
        late = self.deadline is not None and time.monotonic() > self.deadline
        if self.settings.second_samples is None or len(again) == 0 or late:
            return result, report
        n_samples = self.settings.second_samples
        second, second_report = sample_rows(
            self.autoencoder,
            self.x[again],
            self.observed[again],
            fold_rows(self.keys[again], jnp.asarray(SECOND)),
            SmoothedSummary(product, n_samples),
            dataclasses.replace(self.settings, n_samples=n_samples, tolerance=None),
            n_statistics=0,
            floats_per_row=(n_samples + BLOCK) * (self.autoencoder.generative.prior.n_latent + 1),
            callback=self.callback,
            deadline=self.deadline,
        )
        for into, out in zip(jax.tree.leaves(result), jax.tree.leaves(second), strict=False):
            into[again] = out
        for into, out in zip(report[:3], second_report[:3], strict=True):
            into[again] = out
        report.smoothed[again] = True
        return result, report


def _spread_report(needed: Bool[np.ndarray, " N"], report: RowReport | None) -> RowReport:
    """The report of all rows from that of the sampled ones."""
    n_rows = len(needed)
    whole = RowReport(
        np.zeros(n_rows, np.int64),
        np.full(n_rows, np.nan),
        np.full(n_rows, np.nan),
        np.zeros(n_rows, dtype=bool),
    )
    for into, out in zip(whole, report or (), strict=report is not None):
        into[needed] = out
    return whole


def impute_single(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    key: Key[Array, ""],
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
        callback: told how many rows are finished, and of how many.
        deadline: by `time.monotonic()`; after it no row gets more than the block it is at.
    """
    values, seen = check_data(autoencoder, x, observed)
    observation = autoencoder.generative.observation
    needed = np.asarray(~seen.all(axis=1))
    known, is_known = map(
        np.asarray, observation.statistics(jnp.asarray(values), jnp.asarray(seen))
    )
    mean, error = known.copy(), np.zeros_like(known)
    report = None
    if needed.any():
        part, part_seen = values[needed], seen[needed]
        keys = row_keys(key, part, part_seen)
        how = (settings or SamplingSettings(), callback, deadline)
        rows = _Rows(autoencoder, part, part_seen, keys, *how)
        result, report = rows.sample(MeanSummary(closed_form), smoothed_means, scale=scale)
        mean[needed] = np.where(is_known[needed], known[needed], result.mean)
        error[needed] = np.where(is_known[needed], 0.0, result.standard_error)
    imputed = np.asarray(observation.point(jnp.asarray(mean)))
    return SingleImputation(
        np.where(seen, values, imputed), mean, error, _spread_report(needed, report)
    )


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
    key: Key[Array, ""],
    settings: SamplingSettings | None = None,
    scale: Float[np.ndarray, " S"] | None = None,
    callback: Callable[[int, int], None] | None = None,
) -> Expectation:
    """The conditional mean of any function of the completed row, Eqn. (10), by draws of `x_mis`.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        h: a JAX function from a complete row (D,) to a vector (S,).
        key: a threefry key.
        settings: how long to sample.
        scale: unit of the tolerance for each element of h; by default 1.
        callback: told how many rows are finished, and of how many.
    """
    values, seen = check_data(autoencoder, x, observed)
    shape = jax.eval_shape(h, jax.ShapeDtypeStruct((values.shape[1],), jnp.float32)).shape
    if len(shape) != 1:
        raise SettingsError(f"h must return a vector, but returns an array of shape {shape}")

    result, report = sample_rows(
        autoencoder,
        values,
        seen,
        row_keys(key, values, seen),
        MeanSummary(DrawnStatistic(h)),
        settings or SamplingSettings(),
        n_statistics=shape[0],
        scale=scale,
        callback=callback,
    )
    return Expectation(result.mean, result.standard_error, report)


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
    key: Key[Array, ""] | None = None,
    keys: Key[Array, " N"] | None = None,
    settings: SamplingSettings | None = None,
    callback: Callable[[int, int], None] | None = None,
    deadline: float | None = None,
) -> MultipleImputation:
    """Draw M completed copies from `p(x_mis | x_obs)` by sampling importance resampling.

    Identical rows get independent draws. Sampling goes on until the effective sample size is also
    ten times M, so that copies are nearly independent, or L is reached.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        n_imputations: M.
        key: a threefry key; the keys of rows follow from it.
        keys: those keys themselves, for a caller who passes rows in several chunks, from
            `row_keys(key, ..., tell_duplicates_apart=True)` of all of them.
        settings: how long to sample.
        callback: told how many rows are finished, and of how many.
        deadline: by `time.monotonic()`; after it no row gets more than the block it is at.
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
        enough = max(settings.min_ess, 10.0 * n_imputations)
        how = (dataclasses.replace(settings, min_ess=enough), callback, deadline)
        rows = _Rows(autoencoder, part, part_seen, own, *how)
        kept = n_imputations * values.shape[1]
        summary = ResampleSummary(n_imputations)
        result, report = rows.sample(summary, SmoothedDraws(n_imputations), floats_per_row=kept)
        drawn = np.moveaxis(result, 1, 0)
        copies[:, needed] = np.where(part_seen[None], part[None], drawn)
    return MultipleImputation(copies, _spread_report(needed, report))


def _draw_keys(
    key: Key[Array, ""] | None,
    keys: Key[Array, " N"] | None,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
) -> Key[Array, " N"]:
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
    key: Key[Array, ""],
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
        settings: how long to sample; by default 1,200 codes for every row, and at least so many
            are needed for the tails.
        callback: told how many rows are finished, and of how many.
        deadline: by `time.monotonic()`; after it no row gets more than the block it is at.
    """
    if not levels or not all(0 < level < 1 for level in levels):
        raise SettingsError(f"levels must lie strictly between 0 and 1, not {levels}")
    values, seen = check_data(autoencoder, x, observed)
    settings = settings or SamplingSettings(n_samples=10 * BLOCK, tolerance=None)
    result, report = sample_rows(
        autoencoder,
        values,
        seen,
        row_keys(key, values, seen),
        QuantileSummary(tuple(levels), settings.n_samples),
        settings,
        n_statistics=autoencoder.generative.observation.n_statistics,
        # Draws, and their sorted copies.
        floats_per_row=(settings.n_samples + BLOCK) * values.shape[1] * 4,
        callback=callback,
        deadline=deadline,
    )
    return Quantiles(np.where(seen[None], values[None], np.moveaxis(result, 1, 0)), report)
