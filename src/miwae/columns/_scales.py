"""Scales on which a column is easy to model, each with its exact inverse.

`y = (g(x) - centre) / spread`, with g the identity, a logarithm, or an inverse hyperbolic sine,
which is linear near its shift and logarithmic far from it, on both sides.
"""

import math
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

import numpy as np
from jaxtyping import Float

Shape: TypeAlias = Literal["identity", "log", "asinh"]

# Nats per cell by which another scale has to describe the column better than its own.
WORTHWHILE = 0.3

LARGEST = np.finfo(np.float64).max

# A column whose largest value is less than so many times its smallest needs no logarithm.
STRAIGHT = 1.1

# Where a scale stretches tails, a draw far out would be absurd on the user's scale: values stay
# within the observed range, widened by this share of its width on each side.
WIDENED = 0.2

# The smallest unit of a stretched scale, in standard deviations: float32 has none below.
SMALLEST_UNIT = 1e-25


@dataclass(frozen=True, kw_only=True)
class Scale:
    """A monotone map of a column to a scale with mean 0 and variance 1."""

    # "identity"; "log": log(x); "asinh": asinh((x - shift) / unit).
    shape: Shape = "identity"
    shift: float = 0.0  # where "asinh" is linear
    unit: float = 1.0  # how far
    centre: float = 0.0  # mean of the observed cells on the new scale, before standardisation
    spread: float = 1.0  # their standard deviation
    deviation: float = 1.0  # their standard deviation on the user's scale
    lowest: float = -np.inf  # the smallest value that the inverse takes, on the standardised scale
    highest: float = np.inf  # the largest

    def forward(self, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """To the scale of the model."""
        if self.shape == "log":
            x = np.log(x)
        if self.shape == "asinh":
            x = np.arcsinh((x - self.shift) / self.unit)
        return (x - self.centre) / self.spread

    def inverse(self, y: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        """Back to the user's scale."""
        inside = np.clip(np.asarray(y, dtype=np.float64), self.lowest, self.highest)
        with np.errstate(over="ignore"):
            x = inside * self.spread + self.centre
            if self.shape == "log":
                x = np.exp(x)
            if self.shape == "asinh":
                x = self.shift + self.unit * np.sinh(x)
        # Where a column is near the largest numbers, what lies beyond it is still a number.
        return np.clip(x, -LARGEST, LARGEST)

    def log_slope(self, x: Float[np.ndarray, " N"]) -> Float[np.ndarray, " N"]:
        """`log dy/dx`: what the change of scale adds to a log-density."""
        constant = -np.log(self.spread)
        if self.shape == "log":
            return constant - np.log(x)
        if self.shape == "asinh":
            u = (x - self.shift) / self.unit
            return constant - np.log(self.unit) - np.log(np.hypot(1.0, u))
        return np.full(np.shape(x), constant)

    @property
    def words(self) -> str:
        """How a sentence names it: "on a logarithmic scale"."""
        stretched = {"log": "a logarithmic", "asinh": "an inverse hyperbolic sine"}
        return stretched.get(self.shape, "its own")

    def stretch(self) -> tuple[float, float, float, float, float, float]:
        """How the model returns to the user's scale, in units of the column's deviation.

        `x = up exp(u) + down exp(-u)` with `u = spread y + centre` and y within two limits, but
        for a constant: (up, down, spread, centre, lowest, highest).
        """
        if self.shape == "log":
            up, down, centre = 1.0, 0.0, self.centre - math.log(self.deviation)
        else:
            up = max(self.unit / self.deviation / 2, SMALLEST_UNIT)
            down, centre = -up, self.centre
        return up, down, self.spread, centre, self.lowest, self.highest


def _fitted(
    shape: Shape, x: Float[np.ndarray, " N"], shift: float = 0.0, unit: float = 1.0
) -> Scale:
    raw = Scale(shape=shape, shift=shift, unit=unit)
    centre, spread = _moments(raw.forward(x))
    lowest, highest = ((limit - centre) / spread for limit in _limits(raw, x))
    _, deviation = _moments(x)
    standard = {"centre": centre, "spread": spread, "deviation": deviation}
    return replace(raw, **standard, lowest=lowest, highest=highest)


def _limits(raw: Scale, x: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """What the inverse takes, before standardisation: the range, somewhat wider.

    Wider on the user's scale, where a step on a stretched one can be a large factor; a logarithm
    has no room below on that scale.
    """
    low, high = float(x.min()), float(x.max())
    margin = 2 * WIDENED * (high / 2 - low / 2)  # the width itself may be no number
    # Python's numbers become infinite in silence, and are drawn back here.
    inside = [max(low - margin, -LARGEST), min(high + margin, LARGEST)]
    if raw.shape == "log":
        inside[0] = low
    lowest, highest = raw.forward(np.array(inside)).tolist()
    if raw.shape == "log":
        lowest -= WIDENED * (math.log(high) - math.log(low))
    return lowest, highest


def _moments(x: Float[np.ndarray, " N"]) -> tuple[float, float]:
    """Mean and standard deviation (1 if it is 0), also of numbers that are huge, tiny or close."""
    _, exponent = np.frexp(np.abs(x).max())
    scaled = np.ldexp(x, -exponent)  # exact, and its squares are numbers of float64
    anchor = scaled[len(x) // 2]
    rest = scaled - anchor
    mean, deviation = np.ldexp([anchor + rest.mean(), rest.std()], exponent).tolist()
    return mean, deviation if deviation > 0 else 1.0


def standardisation(x: Float[np.ndarray, " N"]) -> Scale:
    return _fitted("identity", np.sort(x))


def choose_scale(x: Float[np.ndarray, " N"], *, has_zero: bool = True) -> Scale:
    """The scale on which the observed cells of a column, all finite, look most normal.

    By the likelihood of a normal distribution on each scale, as Box and Cox choose a power; the
    user's own scale is kept unless another one is clearly better. Where zero is a convention, as
    for instants (`has_zero`), only scales that a shift of the data does not change are tried.

    Examples:
        >>> choose_scale(np.exp(np.random.default_rng(0).normal(size=500))).shape
        'log'
    """
    x = np.sort(x)  # sums are rounded, in an order that the order of rows should not decide
    own = standardisation(x)
    others = []
    # Over a narrow range a logarithm is a straight line, and loses digits.
    if has_zero and 0 < x[0] < x[-1] / STRAIGHT:
        others.append(("log", 0.0, 1.0))
    low, middle, high = np.quantile(x, [0.25, 0.5, 0.75]).tolist()
    if high > low:
        others.append(("asinh", middle, high - low))
    if has_zero and x[0] == 0 < x[-1]:
        others.append(("asinh", 0.0, float(np.median(x[x > 0]))))
    # A standardised column has the log-likelihood -1/2 (1 + log 2 pi) per cell, whatever the
    # scale: what differs is the change of scale.
    best, best_score = own, float(np.mean(own.log_slope(x))) + WORTHWHILE
    for shape, shift, unit in others:
        # A unit can be so small that the largest value has no number of units: no such scale.
        with np.errstate(over="ignore", invalid="ignore"):
            other = _fitted(shape, x, shift, unit)
            score = float(np.mean(other.log_slope(x)))
        if np.isfinite(other.spread) and score > best_score:
            best, best_score = other, score
    return best
