"""Which numbers a column can hold, judged by all others that it holds."""

import math
from dataclasses import replace
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from miwae.columns._column import Column
from miwae.events import Event

# Between two limits a value is possible.
Range: TypeAlias = tuple[float, float]

EVERYTHING: Range = (-math.inf, math.inf)

# Values that differ from the median, below which nothing can be said about tails.
FEWEST = 20

# The largest share of values that can be impossible; more of them are a part of the table.
LARGEST_SHARE = 0.05

# The share of values, the farthest from the median, that show how heavy the tails are.
TAIL_SHARE = 0.2

# The chance that a column with such tails has a value that is taken for impossible.
CHANCE = 1e-4

# How heavy tails are at least (about those of a normal distribution), and how many times farther
# from the median than all others an impossible value is at least.
LIGHTEST, FARTHER = 0.25, 100.0

LARGEST_LOG = 709.0  # its exponential is a number of float64


def plausible_range(x: Float[np.ndarray, " N"]) -> Range:
    """The limits beyond which a number is impossible, given the others; mostly all are possible.

    An impossible value is at least a hundred times farther from the median than the rest of the
    column, and farther than the tails of that rest explain: logarithms of distances from the
    median are exponentially distributed in the tail of a power law, and tails of other usual
    distributions are lighter. So a column of incomes keeps all of its values.

    Examples:
        >>> x = np.random.default_rng(0).normal(size=200)
        >>> low, high = plausible_range(np.append(x, 1e6))
        >>> bool(low < x.min() and x.max() < high < 1e4)
        True
    """
    x = np.sort(x[np.isfinite(x)])
    if len(x) < FEWEST:
        return EVERYTHING
    middle = float(x[len(x) // 2])
    with np.errstate(over="ignore"):
        distances = np.minimum(np.sort(np.abs(x - middle)), np.finfo(np.float64).max)
    distances = distances[distances > 4 * np.spacing(abs(middle))]
    if len(distances) < FEWEST:
        return EVERYTHING
    farthest = _farthest(distances)
    return middle - farthest, middle + farthest


def _farthest(distances: Float[np.ndarray, " N"]) -> float:
    """How far from the median a value can be; distances that turn out impossible do not count."""
    most = max(int(LARGEST_SHARE * len(distances)), 1)
    steps = np.diff(np.log(distances[-most - 1 :]))
    for place in np.flatnonzero(steps > math.log(FARTHER)):
        rest = distances[: len(distances) - most + place]
        limit = _reach(rest)
        if distances[len(rest)] > limit:
            return limit
    return _reach(distances)


def _reach(distances: Float[np.ndarray, " N"]) -> float:
    """How far the next value can be, by the tails of all."""
    n_tail = math.ceil(TAIL_SHARE * len(distances))
    beyond = np.log(distances[-n_tail:]) - np.log(distances[-n_tail - 1])
    heavy = max(float(np.mean(beyond)), LIGHTEST)  # Hill's estimate
    # An exponential exceeds so many times the mean of n others with this chance.
    times = n_tail * (CHANCE ** (-1 / n_tail) - 1)
    reach = math.log(distances[-1]) + max(times * heavy, math.log(FARTHER))
    return math.exp(reach) if reach < LARGEST_LOG else math.inf


def without_impossible(column: Column, plausible: Range) -> tuple[Column, tuple[Event, ...]]:
    """The column with impossible values missing, and an event about them if there are any."""
    if plausible == EVERYTHING:
        return column, ()
    low, high = plausible
    x = column.values
    wild = ~column.missing & np.isfinite(x) & ((x < low) | (x > high))
    if not wild.any():
        return column, ()
    place = column.place(int(np.argmax(wild)))
    what = f"in {place} is impossible, judged by the rest of its column"
    usual = replace(column, missing=column.missing | wild, values=np.where(wild, np.nan, x))
    return usual, column.unusable(wild, what)
