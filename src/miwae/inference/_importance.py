"""Importance sampling as functions of log-weights, without any model.

Log-weights are unnormalised and have the samples first: (K, B). Adding a constant to those of a
row changes nothing that is computed here, except `log_mean_weight`, which grows by it. All of it
is NumPy: there is little to compute for each sample, and nothing has to be compiled. Sums add one
sample after the other, so that the bits of a row do not depend on the other rows; of a single row
NumPy would add in another order, so callers who need that give two.
"""

import math
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Array, Bool, Float, Int

LogWeights: TypeAlias = Float[np.ndarray, "K B"] | Float[Array, "K B"]
Values: TypeAlias = Float[np.ndarray, "K B V"] | Float[Array, "K B V"]
PerRow: TypeAlias = Float[np.ndarray, " B"]


def two_or_more(rows: Int[np.ndarray, " N"]) -> Int[np.ndarray, " M"]:
    """The same rows, a single one twice, for sums whose bits do not depend on other rows."""
    return np.resize(rows, 2) if len(rows) == 1 else rows


def normalised(log_w: LogWeights) -> LogWeights:
    """Weights that sum to 1 over the samples of each row."""
    log_w = np.asarray(log_w)
    w = np.exp(log_w - log_w.max(axis=0))
    return w / w.sum(axis=0)


def log_mean_weight(log_w: LogWeights, n_samples: Int[np.ndarray, " B"]) -> PerRow:
    """The estimate of `log p(x_obs)`; samples that do not count have log-weight -inf."""
    most = log_w.max(axis=0)
    return most + np.log(np.exp(log_w - most).sum(axis=0)) - np.log(n_samples)


def effective_sample_size(log_w: LogWeights) -> PerRow:
    """`(sum w)^2 / sum w^2`: how many equally weighted samples would be worth as much.

    Near K the proposal is the posterior; near 1 a single sample decides everything.

    Examples:
        >>> effective_sample_size(np.zeros((8, 1)))
        array([8.])
    """
    return 1 / np.sum(normalised(log_w) ** 2, axis=0)


def self_normalised_mean(log_w: LogWeights, h: Values) -> Float[np.ndarray, "B V"]:
    """`sum_k w_k h_k` with normalised weights, Eqns. (10) and (12)."""
    return weighted_sum(normalised(log_w), np.asarray(h))


def weighted_sum(w: LogWeights, h: Values) -> Float[np.ndarray, "B V"]:
    """`sum_k w_k h_k`."""
    return np.sum(w[..., None] * h, axis=0)


def standard_error(log_w: LogWeights, h: Values, block: int = 0) -> Float[np.ndarray, "B V"]:
    """The Monte Carlo standard error of the self-normalised mean, by the delta method.

    `sqrt(sum_p (sum_k w_k (h_k - mean))^2)` over pairs p of samples, of which one may be the
    mirror image of the other: the k-th of the first half of each `block` of samples, and the k-th
    of the second. Without blocks each sample is on its own. It is too small where few samples
    carry the weight: read it together with the effective sample size and Pareto's k.
    """
    w = normalised(log_w)
    return error_of_mean(w, h, weighted_sum(w, h), block)


def error_of_mean(
    w: LogWeights, h: Values, mean: Float[np.ndarray, "B V"], block: int
) -> Float[np.ndarray, "B V"]:
    """The standard error, if normalised weights and the mean are known."""
    deviation = h - mean
    deviation *= w[..., None]
    if block:
        n_blocks = len(deviation) // block
        halves = deviation.reshape(n_blocks, 2, block // 2, *deviation.shape[1:])
        deviation = halves[:, 0] + halves[:, 1]
        deviation = deviation.reshape(n_blocks * block // 2, *deviation.shape[2:])
    deviation *= deviation
    return np.sqrt(np.sum(deviation, axis=0))


def resample(level: Float[np.ndarray, "M B"], log_w: LogWeights) -> Int[np.ndarray, "M B"]:
    """Indices of samples drawn with the probability of their weights, from uniform levels."""
    cumulative = np.cumsum(normalised(log_w), axis=0)
    wanted = np.asarray(level) * cumulative[-1]
    find = lambda own, u: np.searchsorted(own, u, side="right")  # noqa: E731
    found = [find(own, u) for own, u in zip(cumulative.T, wanted.T, strict=True)]
    return np.minimum(np.stack(found, axis=1), len(log_w) - 1)


def weighted_quantile(
    log_w: LogWeights, h: Values, levels: Float[np.ndarray, " Q"]
) -> Float[np.ndarray, "Q B V"]:
    """The smallest value whose cumulated weight reaches a level, for each value of each row."""
    w = normalised(log_w)
    order = np.argsort(h, axis=0)
    values = np.take_along_axis(h, order, axis=0)
    cumulative = np.cumsum(np.take_along_axis(w[..., None], order, axis=0), axis=0)
    cumulative /= cumulative[-1:]
    out = np.empty((len(levels), *h.shape[1:]), dtype=h.dtype)
    for place in np.ndindex(*h.shape[1:]):
        column = (slice(None), *place)
        found = np.searchsorted(cumulative[column], levels)
        out[column] = values[column][np.minimum(found, len(h) - 1)]
    return out


# Smallest excess of a weight over the tail's cut-off, relative to the largest weight. Where most
# of the tail is below, the weights span more than single precision holds, and no shape can be
# fitted to them.
SMALLEST_EXCESS = 1e-20


def tail_length(n_samples: int) -> int:
    """How many of the largest weights Pareto's k is fitted to."""
    return math.ceil(min(n_samples / 5, 3 * math.sqrt(n_samples)))


def pareto_k(log_w: LogWeights, n_samples: Int[np.ndarray, " B"] | None = None) -> PerRow:
    """The shape of the Pareto distribution of the largest weights (Vehtari et al., 2024).

    Below 0.5 estimates converge fast, up to 0.7 they can be trusted, above 0.7 they cannot: the
    proposal misses a part of the posterior, and more samples will help only slowly. NaN where
    there are no more than 20 samples; 0 where all weights are equal; infinite where a few samples
    have all the weight that single precision can represent.

    Args:
        log_w: log-weights, -inf for samples that do not count.
        n_samples: how many do; by default all.
    """
    return smoothed(log_w, n_samples, above=math.inf)[1]


class _Tail(NamedTuple):
    """A generalised Pareto distribution, fitted to the largest weights of each row.

    Weights are relative to the largest of the row.
    """

    k: PerRow
    sigma: PerRow
    cutoff: PerRow
    length: Int[np.ndarray, " B"]
    flat: Bool[np.ndarray, " B"]  # all weights are equal: there is nothing to fit


def _fit_tail(top: Float[np.ndarray, "B T"], n_samples: Int[np.ndarray, " B"]) -> _Tail:
    """By Zhang & Stephens (2009), with the weak prior of Vehtari et al. (2024) for k, at 0.5."""
    n = n_samples.astype(np.float64)
    m = np.ceil(np.minimum(n / 5, 3 * np.sqrt(n)))
    length = m.astype(int)
    inside = np.arange(top.shape[1])[None, :] < length[:, None]
    place = np.minimum(length, top.shape[1] - 1)[:, None]
    weights = np.exp(top - top[:, :1])
    cutoff = np.take_along_axis(weights, place, axis=1)
    excess = np.where(inside, weights - cutoff, 0.0)
    largest = excess[:, 0]
    flat = ~(largest > 1e-6)
    # The first quartile of the tail: excesses are in descending order.
    quartile_place = length - np.floor(m / 4 + 0.5).astype(int)
    quartile = np.take_along_axis(excess, np.maximum(quartile_place, 0)[:, None], axis=1)[:, 0]
    lost = (quartile < SMALLEST_EXCESS) & ~flat
    quartile = np.maximum(quartile, SMALLEST_EXCESS)
    grid_length = 30 + np.floor(np.sqrt(m))[:, None]
    grid_place = np.arange(1, 31 + math.isqrt(top.shape[1]))[None, :]
    on_grid = (grid_place <= grid_length) & ~flat[:, None]
    spread = 1 - np.sqrt(grid_length / (grid_place - 0.5))
    theta = spread / (3 * quartile[:, None]) + 1 / np.where(flat, 1.0, largest)[:, None]
    theta = np.where(on_grid, theta, -1.0)
    count = np.maximum(m, 1.0)[:, None]

    def mean_log(theta: Float[np.ndarray, "B G"]) -> Float[np.ndarray, "B G"]:
        return np.log1p(-theta[:, :, None] * excess[:, None, :]).sum(axis=-1) / count

    k = mean_log(theta)
    with np.errstate(divide="ignore", invalid="ignore"):
        log_profile = np.where(on_grid, count * (np.log(-theta / k) - k - 1), -np.inf)
    log_profile[flat] = 0.0
    posterior = np.exp(log_profile - log_profile.max(axis=1, keepdims=True))
    posterior /= posterior.sum(axis=1, keepdims=True)
    expected = np.sum(posterior * theta, axis=1, keepdims=True)
    estimate = mean_log(expected)[:, 0]
    shrunk = (m * estimate + 5) / (m + 10)
    k = np.where(flat, 0.0, np.where(length >= 5, np.where(lost, np.inf, shrunk), np.nan))
    return _Tail(k, -estimate / expected[:, 0], cutoff[:, 0], length, flat)


def smoothed(
    log_w: LogWeights, n_samples: Int[np.ndarray, " B"] | None = None, above: float = -math.inf
) -> tuple[LogWeights, PerRow]:
    """Pareto smoothed log-weights (Vehtari et al., 2024), and Pareto's k of the original ones.

    The largest weights of a row are replaced by the quantiles of the Pareto distribution fitted to
    them, no larger than the largest was: a few lucky samples no longer decide everything, at the
    price of a little bias. Flat and short tails stay as they are.

    Samples that do not count have log-weight -inf, `n_samples` do. Rows whose k is not above
    `above` stay as they are.
    """
    log_w = np.asarray(log_w)
    count = np.full(log_w.shape[1], len(log_w)) if n_samples is None else np.asarray(n_samples)
    n_top = min(tail_length(len(log_w)) + 1, len(log_w))
    place = np.argpartition(-log_w, n_top - 1, axis=0)[:n_top]
    place = np.take_along_axis(
        place, np.argsort(-np.take_along_axis(log_w, place, 0), axis=0, kind="stable"), axis=0
    )
    top = np.take_along_axis(log_w, place, axis=0).T.astype(np.float64)
    tail = _fit_tail(top, count)
    chosen = np.flatnonzero(tail.k > above)
    if not len(chosen):
        return log_w, tail.k
    better = log_w.copy()
    own = _Tail(*(part[chosen] for part in tail))
    new = _smoothed_tail(top[chosen], own).T.astype(log_w.dtype)
    better[place[:, chosen], chosen[None, :]] = new
    return better, tail.k


def _smoothed_tail(top: Float[np.ndarray, "B T"], tail: _Tail) -> Float[np.ndarray, "B T"]:
    """The largest log-weights, those inside the tail replaced by quantiles of its fit."""
    rank = np.arange(top.shape[1], dtype=top.dtype)[None, :]
    # The largest weight has rank 0 and so the highest quantile.
    length = tail.length[:, None].astype(top.dtype)
    k = np.where(np.abs(tail.k) < 1e-3, 1e-3, tail.k)[:, None]
    with np.errstate(all="ignore"):
        level = np.clip(1 - (rank + 0.5) / length, 0.0, 1 - 1e-6)
        excess = tail.sigma[:, None] * np.expm1(-k * np.log1p(-level)) / k
        quantile = top[:, :1] + np.log(np.minimum(tail.cutoff[:, None] + excess, 1.0))
    inside = (rank < length) & ~tail.flat[:, None]
    inside &= np.isfinite(tail.k)[:, None] & np.isfinite(quantile)
    return np.where(inside, quantile, top)
