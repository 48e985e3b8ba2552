"""Smooth densities and shares of levels: numbers for plots and reports."""

from collections import Counter
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Bool, Float

from miwae.columns._column import Column

# Beyond so many interquartile ranges from the quartiles, values would flatten all others.
FAR = 6.0


class Shares(NamedTuple):
    """The shares of the levels: among observed cells, and among the imputed ones of each copy."""

    levels: tuple[Any, ...]
    observed: Float[np.ndarray, " V"]
    imputed: Float[np.ndarray, "M V"]


def visible_range(x: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """Where an axis for these values begins and ends: all of them, but for extreme ones."""
    low, high = float(x.min()), float(x.max())
    first, third = np.quantile(x, (0.25, 0.75))
    if third > first:
        reach = FAR * (third - first)
        low, high = max(low, float(first - reach)), min(high, float(third + reach))
    if low == high:
        return low - 0.5, high + 0.5
    margin = 0.04 * (high - low)
    return max(low - margin, 0.0) if low >= 0 else low - margin, high + margin


def density_curve(
    x: Float[np.ndarray, " N"], low: float, high: float, n_points: int = 200
) -> Float[np.ndarray, "2 P"]:
    """A kernel density estimate from `low` to `high`: places and heights.

    The width of the Gaussian kernel is Silverman's; mass is reflected at both ends, so that
    positive numbers have no density below zero.
    """
    from scipy.ndimage import gaussian_filter1d

    edges = np.linspace(low, high, n_points + 1)
    counts, _ = np.histogram(x, bins=edges)
    step = edges[1] - edges[0]
    smooth = gaussian_filter1d(counts.astype(float), _bandwidth(x) / step, mode="reflect")
    return np.stack([(edges[:-1] + edges[1:]) / 2, smooth / (len(x) * step)])


def _bandwidth(x: Float[np.ndarray, " N"]) -> float:
    quartiles = np.quantile(x, (0.25, 0.75))
    spread = (quartiles[1] - quartiles[0]) / 1.349
    spread = min(spread, float(x.std())) if spread > 0 else float(x.std())
    return 0.9 * spread * len(x) ** -0.2


def plain_values(column: Column, where: Bool[np.ndarray, " N"]) -> np.ndarray:
    """Some cells of a column: numbers (seconds for times), or levels as objects."""
    values = column.values[where]
    if column.storage not in ("text", "category"):
        return values
    return np.fromiter((column.levels[int(code)] for code in values), object, len(values))


def level_shares(
    observed: np.ndarray, copies: Sequence[np.ndarray], levels: Sequence[Any] = ()
) -> Shares:
    """How often each value occurs, in the order of `levels`.

    By default numbers are in their order, and text by its frequency among observed cells.
    """
    counts = [Counter(values.tolist()) for values in (observed, *copies)]
    if not levels:
        found = sum(counts, Counter())
        frequency = lambda level: (-counts[0][level], -found[level])  # noqa: E731
        levels = sorted(found, key=frequency if observed.dtype == object else None)
    table = np.array([[count[level] for level in levels] for count in counts])
    table = table / np.maximum(table.sum(axis=1, keepdims=True), 1)
    return Shares(tuple(levels), table[0], table[1:])
