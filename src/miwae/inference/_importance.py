"""Importance sampling as functions of log-weights, without any model.

Log-weights are unnormalised and have the samples first: (K, B). Adding a constant to those of a
row changes nothing that is computed here, except `log_mean_weight`, which grows by it.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from miwae._shapes import Keys, Means, PerRow, PerSample, Statistics
from miwae.kernels import uniform


def effective_sample_size(log_w: PerSample) -> PerRow:
    """`(sum w)^2 / sum w^2`: how many equally weighted samples would be worth as much.

    Near K the proposal is the posterior; near 1 a single sample decides everything.

    Example:
        >>> effective_sample_size(jnp.zeros((8, 1)))
        Array([8.], dtype=float32)
    """
    return 1 / jnp.sum(jax.nn.softmax(log_w, axis=0) ** 2, axis=0)


def self_normalised_mean(log_w: PerSample, h: Means) -> Statistics:
    """`sum_k w_k h_k` with normalised weights, Eqns. (10) and (12)."""
    return weighted_sum(jax.nn.softmax(log_w, axis=0), h)


def weighted_sum(w: PerSample, h: Means) -> Statistics:
    """`sum_k w_k h_k`."""
    return jnp.sum(w[..., None] * h, axis=0)


def standard_error(log_w: PerSample, h: Means) -> Statistics:
    """The Monte Carlo standard error of the self-normalised mean, by the delta method.

    `sqrt(sum_k w_k^2 (h_k - mean)^2)`. It is too small where few samples carry the weight: read it
    together with the effective sample size and Pareto's k.
    """
    w = jax.nn.softmax(log_w, axis=0)
    return jnp.sqrt(weighted_sum(w**2, (h - weighted_sum(w, h)[None]) ** 2))


def resample(key: Keys, log_w: PerSample, n_draws: int) -> Int[Array, "M B"]:
    """Indices of M samples drawn with replacement, each with the probability of its weight."""
    level = uniform(key, (n_draws, log_w.shape[1]))
    cumulative = jnp.cumsum(jax.nn.softmax(log_w, axis=0), axis=0)
    find = jax.vmap(lambda own, u: jnp.searchsorted(own, u * own[-1], side="right"), 1, 1)
    return jnp.minimum(find(cumulative, level), log_w.shape[0] - 1)


def weighted_quantile(
    log_w: PerSample, h: Means, levels: Float[Array, " Q"]
) -> Float[Array, "Q B S"]:
    """The smallest value whose cumulated weight reaches a level, for each statistic."""
    order = jnp.argsort(h, axis=0)
    values = jnp.take_along_axis(h, order, axis=0)
    w = jnp.broadcast_to(jax.nn.softmax(log_w, axis=0)[..., None], h.shape)
    cumulative = jnp.cumsum(jnp.take_along_axis(w, order, axis=0), axis=0)
    cumulative = cumulative / cumulative[-1:]
    # A search for each level: comparing all samples with all levels is slow where both are many.
    find = jax.vmap(jax.vmap(lambda own: jnp.searchsorted(own, levels), 1, 1), 1, 1)
    place = jnp.minimum(find(cumulative), h.shape[0] - 1)
    return jnp.take_along_axis(values, place, axis=0)


# Smallest excess of a weight over the tail's cut-off, relative to the largest weight. Where most
# of the tail is below, the weights span more than single precision holds, and no shape can be
# fitted to them.
SMALLEST_EXCESS = 1e-20


def tail_length(n_samples: int) -> int:
    """How many of the largest weights Pareto's k is fitted to."""
    return math.ceil(min(n_samples / 5, 3 * math.sqrt(n_samples)))


def pareto_k(log_w: PerSample, n_samples: Int[Array, " B"] | None = None) -> PerRow:
    """The shape of the Pareto distribution of the largest weights (Vehtari et al., 2024).

    Below 0.5 estimates converge fast, up to 0.7 they can be trusted, above 0.7 they cannot: the
    proposal misses a part of the posterior, and more samples will help only slowly. NaN where
    there are no more than 20 samples; 0 where all weights are equal; infinite where a few samples
    have all the weight that single precision can represent.

    Args:
        log_w: log-weights, -inf for samples that do not count.
        n_samples: how many do; by default all.
    """
    count = jnp.full(log_w.shape[1], log_w.shape[0]) if n_samples is None else n_samples
    return _fit_tail(_largest(log_w)[0], count).k


def _largest(log_w: PerSample) -> tuple[Float[Array, "B T"], Int[Array, "B T"]]:
    """The log-weights of the tail and one more, in descending order, and their places."""
    n_samples = log_w.shape[0]
    found = jax.lax.top_k(log_w.T, min(tail_length(n_samples) + 1, n_samples))
    # Without the barrier XLA moves later slices before its search for the largest and sorts all
    # samples instead, which takes ten times as long.
    return jax.lax.optimization_barrier(tuple(found))


class _Tail(NamedTuple):
    """A generalised Pareto distribution, fitted to the largest weights of each row.

    Weights are relative to the largest of the row.
    """

    k: PerRow
    sigma: PerRow
    cutoff: PerRow
    length: Int[Array, " B"]
    flat: Bool[Array, " B"]  # all weights are equal: there is nothing to fit


def _fit_tail(top: Float[Array, "B T"], n_samples: Int[Array, " B"]) -> _Tail:
    """By Zhang & Stephens (2009), with the weak prior of Vehtari et al. (2024) for k, at 0.5."""
    n = n_samples.astype(top.dtype)
    length = jnp.ceil(jnp.minimum(n / 5, 3 * jnp.sqrt(n))).astype(int)
    place = jnp.arange(top.shape[1])[None, :]
    inside = place < length[:, None]
    cutoff = jnp.take_along_axis(top, jnp.minimum(length, top.shape[1] - 1)[:, None], axis=1)
    weights = jnp.exp(top - top[:, :1])
    excess = jnp.where(inside, weights - jnp.exp(cutoff - top[:, :1]), 0.0)
    largest = excess[:, 0]
    flat = largest <= 1e-6
    m = length.astype(top.dtype)
    # the first quartile of the tail: excesses are in descending order
    quartile_place = length - jnp.floor(m / 4 + 0.5).astype(int)
    quartile = jnp.take_along_axis(excess, jnp.clip(quartile_place, 0)[:, None], axis=1)[:, 0]
    lost = (quartile < SMALLEST_EXCESS) & ~flat
    quartile = jnp.maximum(quartile, SMALLEST_EXCESS)
    n_grid = 30 + math.isqrt(top.shape[1])
    grid_length = 30 + jnp.floor(jnp.sqrt(m))[:, None]
    grid_place = jnp.arange(1, n_grid + 1, dtype=top.dtype)[None, :]
    on_grid = grid_place <= grid_length
    spread = 1 - jnp.sqrt(grid_length / (grid_place - 0.5))
    theta = spread / (3 * quartile[:, None]) + 1 / jnp.where(flat, 1.0, largest)[:, None]
    theta = jnp.where(on_grid & ~flat[:, None], theta, -1.0)

    def mean_log(theta: Float[Array, "B G"]) -> Float[Array, "B G"]:
        cells = jnp.log1p(-theta[:, :, None] * excess[:, None, :])
        return jnp.sum(jnp.where(inside[:, None, :], cells, 0.0), axis=-1) / m[:, None]

    k = mean_log(theta)
    log_profile = m[:, None] * (jnp.log(-theta / k) - k - 1)
    posterior = jax.nn.softmax(jnp.where(on_grid, log_profile, -jnp.inf), axis=1)
    expected = jnp.sum(posterior * theta, axis=1, keepdims=True)
    estimate = mean_log(expected)[:, 0]
    shrunk = (m * estimate + 5) / (m + 10)
    k = jnp.where(flat, 0.0, jnp.where(length >= 5, jnp.where(lost, jnp.inf, shrunk), jnp.nan))
    relative_cutoff = jnp.exp(cutoff - top[:, :1])[:, 0]
    return _Tail(k, -estimate / expected[:, 0], relative_cutoff, length, flat)


def smoothed(
    log_w: PerSample, n_samples: Int[Array, " B"], above: float | Float[Array, ""] = -math.inf
) -> tuple[PerSample, PerRow]:
    """Pareto smoothed log-weights (Vehtari et al., 2024), and Pareto's k of the original ones.

    The largest weights of a row are replaced by the quantiles of the Pareto distribution fitted to
    them, no larger than the largest was: a few lucky samples no longer decide everything, at the
    price of a little bias. Flat and short tails stay as they are.

    Samples that do not count have log-weight -inf, `n_samples` do. Rows whose k is not above
    `above` stay as they are.
    """
    top, place = _largest(log_w)
    tail = _fit_tail(top, n_samples)
    chosen = tail.k > above

    def smooth() -> PerSample:
        rows = jnp.arange(log_w.shape[1])[:, None]
        tops = jnp.where(chosen[:, None], _smoothed_tail(top, tail), top)
        return log_w.T.at[rows, place].set(tops).T

    return jax.lax.cond(jnp.any(chosen), smooth, lambda: log_w), tail.k


def _smoothed_tail(top: Float[Array, "B T"], tail: _Tail) -> Float[Array, "B T"]:
    """The largest log-weights, those inside the tail replaced by quantiles of its fit."""
    rank = jnp.arange(top.shape[1], dtype=top.dtype)[None, :]
    # The largest weight has rank 0 and so the highest quantile.
    length = tail.length[:, None].astype(top.dtype)
    level = 1 - (rank + 0.5) / length
    k = jnp.where(jnp.abs(tail.k) < 1e-3, 1e-3, tail.k)[:, None]
    excess = tail.sigma[:, None] * jnp.expm1(-k * jnp.log1p(-jnp.clip(level, 0.0, 1 - 1e-6))) / k
    quantile = top[:, :1] + jnp.log(jnp.minimum(tail.cutoff[:, None] + excess, 1.0))
    inside = (rank < length) & ~tail.flat[:, None]
    inside &= jnp.isfinite(tail.k)[:, None] & jnp.isfinite(quantile)
    return jnp.where(inside, quantile, top)
