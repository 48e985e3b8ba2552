"""Means of numbers, the most frequent category."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from miwae.evaluation.peers.base import AbstractPeer

__all__ = ["Mean", "centres"]


def centres(
    x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
) -> Float[np.ndarray, " D"]:
    """The mean of each column, or its most frequent code (of several, the smallest)."""
    found = np.nanmean(x, axis=0)
    for j in np.flatnonzero(categorical):
        codes, counts = np.unique(x[~np.isnan(x[:, j]), j], return_counts=True)
        found[j] = codes[counts.argmax()]
    return found


@dataclass(frozen=True, kw_only=True)
class Mean(AbstractPeer):
    """The mean of the column, or its most frequent code: the baseline of every comparison."""

    def _complete(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
        return np.broadcast_to(centres(x, categorical), x.shape)
