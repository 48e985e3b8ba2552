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
    weighted_sum,
)
from miwae.inference._lanes import Found

# Of the covariance before, in effective samples; the weighted covariance of a few says little.
PRIOR_SAMPLES = 20.0

WIDENING = 1.1  # of the scale: too wide costs little, too narrow makes heavy tails
LEAST_VARIANCE = 1e-4


def adapted(
    z: Float[np.ndarray, "K B L"], log_w: LogWeights, n_samples: np.ndarray, before: Found
) -> Found:
    """What the samples of each row say about its posterior.

    `before` is what was found for these rows in earlier rounds; where nothing was, the spread of
    the samples stands for that of the proposal.
    """
    better, _ = smoothed(log_w, n_samples)
    w = np.asarray(normalised(better), dtype=np.float64)
    mean, covariance = _moments(w, z)
    counted = np.isfinite(log_w) / np.maximum(np.isfinite(log_w).sum(axis=0), 1)
    of_proposal = _moments(counted, z)[1]
    of_found = before.tril @ np.swapaxes(before.tril, 1, 2)
    old = np.where(before.exists[:, None, None], of_found, of_proposal)
    ess = effective_sample_size(better)
    share = (ess / (ess + PRIOR_SAMPLES))[:, None, None]
    spread = share * covariance + (1 - share) * old
    spread += LEAST_VARIANCE * np.eye(z.shape[2])
    tril = WIDENING * np.linalg.cholesky(spread)
    single = lambda a: np.ascontiguousarray(a, dtype=np.float32)  # noqa: E731
    inverse = single(np.linalg.inv(tril))
    return Found(np.ones(len(mean), dtype=bool), single(mean), single(tril), np.tril(inverse))


def _moments(
    w: Float[np.ndarray, "K B"], z: Float[np.ndarray, "K B L"]
) -> tuple[Float[np.ndarray, "B L"], Float[np.ndarray, "B L L"]]:
    mean = weighted_sum(w, z)
    centred = np.moveaxis(z - mean, 0, -1)  # (B, L, K)
    return mean, (w.T[:, None] * centred) @ np.swapaxes(centred, 1, 2)
