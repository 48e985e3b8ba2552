"""Importance sampling as functions of log-weights: no model in sight.

Log-weights are unnormalised and have the samples first: (K, B). Adding a constant to those of a
row changes nothing that is computed here, except `log_mean_weight`, which grows by it.
"""

import math
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae._numerics import features_first
from miwae.kernels.threefry import uniform

__all__ = [
    "Running",
    "effective_sample_size",
    "pareto_k",
    "resample",
    "self_normalised_mean",
    "smoothed",
    "standard_error",
    "start_running",
    "update_running",
    "weighted_quantile",
]


def effective_sample_size(log_w: Float[Array, "K B"]) -> Float[Array, " B"]:
    """`(sum w)^2 / sum w^2`: how many equally weighted samples would be worth as much.

    Near K the proposal is the posterior; near 1 a single sample decides everything.

    Example:
        >>> effective_sample_size(jnp.zeros((8, 1)))
        Array([8.], dtype=float32)
    """
    return 1 / jnp.sum(jax.nn.softmax(log_w, axis=0) ** 2, axis=0)


def self_normalised_mean(
    log_w: Float[Array, "K B"], h: Float[Array, "K B S"]
) -> Float[Array, "B S"]:
    """`sum_k w_k h_k` with normalised weights, Eqns. (10) and (12)."""
    return jnp.sum(jax.nn.softmax(log_w, axis=0)[..., None] * h, axis=0)


def standard_error(log_w: Float[Array, "K B"], h: Float[Array, "K B S"]) -> Float[Array, "B S"]:
    """The Monte Carlo standard error of the self-normalised mean, by the delta method.

    `sqrt(sum_k w_k^2 (h_k - mean)^2)`. It is too small where few samples carry the weight: read it
    together with the effective sample size and Pareto's k.
    """
    w = jax.nn.softmax(log_w, axis=0)[..., None]
    centred = h - self_normalised_mean(log_w, h)[None]
    return jnp.sqrt(jnp.sum(w**2 * centred**2, axis=0))


def resample(
    key: Key[Array, "..."], log_w: Float[Array, "K B"], n_draws: int
) -> Int[Array, "M B"]:
    """Indices of samples drawn with replacement, each with the probability of its weight.

    Args:
        key: a single key, or one for each row.
        log_w: log-weights.
        n_draws: M.
    """
    level = uniform(key, (n_draws, log_w.shape[1]))
    cumulative = jnp.cumsum(jax.nn.softmax(log_w, axis=0), axis=0)
    find = jax.vmap(lambda own, u: jnp.searchsorted(own, u * own[-1], side="right"), 1, 1)
    return jnp.minimum(find(cumulative, level), log_w.shape[0] - 1)


def weighted_quantile(
    log_w: Float[Array, "K B"], h: Float[Array, "K B S"], levels: Float[Array, " Q"]
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


# Of a weight over the tail's cut-off, relative to the largest. Where most of the tail is below,
# the weights span more than single precision holds, and no shape can be fitted to them.
SMALLEST_EXCESS = 1e-20


def tail_length(n_samples: int) -> int:
    """How many of the largest of so many weights Pareto's k is fitted to."""
    return math.ceil(min(n_samples / 5, 3 * math.sqrt(n_samples)))


def pareto_k(
    log_w: Float[Array, "K B"], n_samples: Int[Array, " B"] | None = None
) -> Float[Array, " B"]:
    """The shape of the Pareto distribution of the largest weights (Vehtari et al., 2024).

    Below 0.5 estimates converge fast, up to 0.7 they can be trusted, above 0.7 they cannot: the
    proposal misses a part of the posterior, and more samples will help only slowly. NaN where
    there are no more than 20 samples; 0 where all weights are equal; infinite where a few samples
    have all the weight that single precision can tell.

    Args:
        log_w: log-weights, -inf for samples that do not count.
        n_samples: how many do; by default all.
    """
    keep = tail_length(log_w.shape[0]) + 1
    count = jnp.full(log_w.shape[1], log_w.shape[0]) if n_samples is None else n_samples
    return _fit_tail(jax.lax.top_k(log_w.T, min(keep, log_w.shape[0]))[0], count).k


class _Tail(NamedTuple):
    """A generalised Pareto distribution, fitted to the largest weights of each row.

    Weights are relative to the largest of the row.
    """

    k: Float[Array, " B"]
    sigma: Float[Array, " B"]
    cutoff: Float[Array, " B"]
    length: Int[Array, " B"]
    flat: Bool[Array, " B"]  # all weights are equal: there is nothing to fit


def _fit_tail(top: Float[Array, "B T"], n_samples: Int[Array, " B"]) -> _Tail:
    """The empirical Bayes estimate of Zhang & Stephens (2009).

    With the weak prior towards 0.5 of Vehtari et al. (2024) for k.
    """
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


def smoothed(log_w: Float[Array, "K B"], n_samples: Int[Array, " B"]) -> Float[Array, "K B"]:
    """Pareto smoothed log-weights (Vehtari et al., 2024).

    The largest weights of a row are replaced by the quantiles of the Pareto distribution fitted to
    them, no larger than the largest was: a few lucky samples no longer decide everything, at the
    price of a little bias. Flat and short tails stay as they are.

    Args:
        log_w: log-weights, -inf for samples that do not count.
        n_samples: how many do.
    """
    keep = min(tail_length(log_w.shape[0]) + 1, log_w.shape[0])
    top, place = jax.lax.top_k(log_w.T, keep)
    tail = _fit_tail(top, n_samples)
    rank = jnp.arange(keep, dtype=log_w.dtype)[None, :]
    # The largest weight has rank 0 and so the highest quantile.
    level = 1 - (rank + 0.5) / tail.length[:, None].astype(log_w.dtype)
    k = jnp.where(jnp.abs(tail.k) < 1e-3, 1e-3, tail.k)[:, None]
    excess = tail.sigma[:, None] * jnp.expm1(-k * jnp.log1p(-jnp.clip(level, 0.0, 1 - 1e-6))) / k
    quantile = top[:, :1] + jnp.log(jnp.minimum(tail.cutoff[:, None] + excess, 1.0))
    inside = (rank < tail.length[:, None].astype(log_w.dtype)) & ~tail.flat[:, None]
    inside &= jnp.isfinite(tail.k)[:, None] & jnp.isfinite(quantile)
    rows = jnp.arange(log_w.shape[1])[:, None]
    return log_w.T.at[rows, place].set(jnp.where(inside, quantile, top)).T


class Running(NamedTuple):
    """Sums over the samples seen so far, from which estimates and their errors follow.

    Weights are kept relative to the largest so far, and h relative to a centre near its mean, so
    that neither overflows nor cancels.
    """

    count: Int[Array, " B"]
    log_scale: Float[Array, " B"]
    w: Float[Array, " B"]
    w2: Float[Array, " B"]
    centre: Float[Array, "B S"]
    wh: Float[Array, "B S"]
    w2h: Float[Array, "B S"]
    w2h2: Float[Array, "B S"]

    def mean(self) -> Float[Array, "B S"]:
        """The self-normalised mean."""
        return self.centre + self.wh / self.w[:, None]

    def standard_error(self) -> Float[Array, "B S"]:
        """Of the mean, as `standard_error`."""
        mean = self.wh / self.w[:, None]
        squares = self.w2h2 - 2 * mean * self.w2h + mean**2 * self.w2[:, None]
        return jnp.sqrt(jnp.maximum(squares, 0.0)) / self.w[:, None]

    def effective_sample_size(self) -> Float[Array, " B"]:
        """As `effective_sample_size`."""
        return self.w**2 / self.w2

    def log_mean_weight(self) -> Float[Array, " B"]:
        """`log (1/K) sum w`: the estimate of log p(x_obs)."""
        return self.log_scale + jnp.log(self.w) - jnp.log(self.count.astype(self.w.dtype))


def start_running(n_rows: int, n_statistics: int) -> Running:
    """Nothing seen yet."""

    # From NumPy: JAX would compile a program for each shape, and give -inf a weak type, which
    # means a second compilation of whatever the sums go through.
    def full(value: float, *shape: int) -> Array:
        return jnp.asarray(np.full((n_rows, *shape), value, np.float32))

    zero, zeros = full(0.0), full(0.0, n_statistics)
    return Running(
        count=jnp.asarray(np.zeros(n_rows, np.int32)),
        log_scale=full(-np.inf),
        w=zero,
        w2=zero,
        centre=zeros,
        wh=zeros,
        w2h=zeros,
        w2h2=zeros,
    )


def update_running(
    running: Running,
    log_w: Float[Array, "K B"],
    h: Float[Array, "K B S"],
    used: Bool[Array, "K B"],
) -> Running:
    """Add samples to the sums; those not `used` count for nothing."""
    log_w = jnp.where(used, log_w, -jnp.inf)
    log_scale = jnp.maximum(running.log_scale, jnp.max(log_w, axis=0))
    # A row with no weight yet has nothing to rescale: exp(-inf - -inf) must be 0, not NaN.
    safe_scale = jnp.where(jnp.isneginf(log_scale), 0.0, log_scale)
    old = jnp.exp(running.log_scale - safe_scale)
    w = jnp.exp(log_w - safe_scale[None])
    total = jnp.maximum(jnp.sum(w, axis=0), jnp.finfo(w.dtype).tiny)
    first = (running.count == 0)[:, None]
    h_first = features_first(h)

    def weighted(weights: Float[Array, "K B"], a: Float[Array, "S K B"]) -> Float[Array, "B S"]:
        return jnp.sum(weights[None] * a, axis=1).T

    block_mean = weighted(w, jnp.where(used[None], h_first, 0.0)) / total[:, None]
    centre = jnp.where(first, block_mean, running.centre)
    centred = jnp.where(used[None], h_first - centre.T[:, None], 0.0)
    w2 = w * w
    return Running(
        count=running.count + jnp.sum(used, axis=0),
        log_scale=log_scale,
        w=old * running.w + jnp.sum(w, axis=0),
        w2=old**2 * running.w2 + jnp.sum(w2, axis=0),
        centre=centre,
        wh=old[:, None] * running.wh + weighted(w, centred),
        w2h=old[:, None] ** 2 * running.w2h + weighted(w2, centred),
        w2h2=old[:, None] ** 2 * running.w2h2 + weighted(w2, centred**2),
    )
