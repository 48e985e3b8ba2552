"""Better proposals for single rows, found from the samples of earlier rounds.

Adaptive importance sampling: the next samples of a row whose weights are poor come in equal parts
from the proposal and from a Student-t distribution with the weighted mean and covariance of the
samples before, so that it can only gain from what was found.
"""

import numpy as np
from jaxtyping import Float

from miwae.inference._importance import (
    LogWeights,
    effective_sample_size,
    normalised,
    smoothed,
    two_or_more,
    weighted_sum,
)
from miwae.inference._lanes import Found

# Of the covariance before, in effective samples; the weighted covariance of a few says little.
PRIOR_SAMPLES = 20.0

# Effective samples that moments are computed from: where fewer are, weights are raised to a power
# below 1, so that the next samples move towards the best of these instead of around a single one.
LEAST_EFFECTIVE = 10.0
HALVINGS = 30  # of the interval that the power is in

WIDENING = 1.1  # of the scale: too wide costs little, too narrow makes heavy tails

# Added to the covariance: this, and as a share of its trace what rounding may take from it.
LEAST_VARIANCE, ROUNDING = 1e-4, 1e-9


def adapted(
    z: Float[np.ndarray, "K B L"], log_w: LogWeights, n_samples: np.ndarray, before: Found
) -> Found:
    """What the samples of each row say about its posterior.

    `before` is what was found for these rows in earlier rounds; where nothing was, the spread of
    the samples stands for that of the proposal.
    """
    better = tempered(smoothed(log_w, n_samples)[0])
    w = np.asarray(normalised(better), dtype=np.float64)
    mean, covariance = _moments(w, z)
    counted = np.isfinite(log_w) / np.maximum(np.isfinite(log_w).sum(axis=0), 1)
    of_proposal = _moments(counted, z)[1]
    scale = before.tril.astype(np.float64)
    of_found = scale @ np.swapaxes(scale, 1, 2)
    old = np.where(before.exists[:, None, None], of_found, of_proposal)
    ess = effective_sample_size(better)
    share = (ess / (ess + PRIOR_SAMPLES))[:, None, None]
    spread = share * covariance + (1 - share) * old
    least = LEAST_VARIANCE + ROUNDING * np.trace(spread, axis1=1, axis2=2)
    spread += least[:, None, None] * np.eye(z.shape[2])
    tril = WIDENING * np.linalg.cholesky(spread)
    single = lambda a: np.ascontiguousarray(a, dtype=np.float32)  # noqa: E731
    inverse = single(np.linalg.inv(tril))
    return Found(np.ones(len(mean), dtype=bool), single(mean), single(tril), np.tril(inverse))


def tempered(log_w: LogWeights) -> LogWeights:
    """Log-weights times a power of at most 1, so that `LEAST_EFFECTIVE` samples are effective."""
    low = two_or_more(np.flatnonzero(effective_sample_size(log_w) < LEAST_EFFECTIVE))
    if not len(low):
        return log_w
    own = log_w[:, low].astype(np.float64) - log_w[:, low].max(axis=0)
    counts = np.isfinite(own)
    raised = lambda power: np.where(counts, np.where(counts, own, 0.0) * power, -np.inf)  # noqa: E731
    lower, upper = np.zeros(len(low)), np.ones(len(low))
    for _ in range(HALVINGS):
        middle = (lower + upper) / 2
        enough = effective_sample_size(raised(middle)) >= LEAST_EFFECTIVE
        lower, upper = np.where(enough, middle, lower), np.where(enough, upper, middle)
    better = log_w.astype(np.float64)
    better[:, low] = raised(lower)
    return better


def _moments(
    w: Float[np.ndarray, "K B"], z: Float[np.ndarray, "K B L"]
) -> tuple[Float[np.ndarray, "B L"], Float[np.ndarray, "B L L"]]:
    mean = weighted_sum(w, z)
    centred = np.moveaxis(z - mean, 0, -1)  # (B, L, K)
    return mean, (w.T[:, None] * centred) @ np.swapaxes(centred, 1, 2)
