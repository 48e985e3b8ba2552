"""Hide observed cells of a table, so that imputations can be compared with their true values."""

from collections.abc import Callable
from functools import partial
from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from numpy.random import Generator
from scipy.optimize import bisect
from scipy.special import expit, logit

from miwae.errors import DataError, SettingsError
from miwae.evaluation._metrics import Flags, Hidden, Table, column_deviations

Values: TypeAlias = Float[np.ndarray, " N"]
Probabilities: TypeAlias = Callable[[Table, float, Generator, Flags], Table]

KEPT = 2  # observed cells of each column; with fewer there is no standard deviation
SLOPE = 2.0  # logits per standard deviation: an odds ratio of about seven
DRIVERS = 0.3  # share of the columns that are drivers; fewer if the rate is too high for so many


def ampute(
    x: Table, rate: float, mechanism: str, *, rng: Generator, losing: Flags | None = None
) -> Hidden:
    """Choose cells to hide, in all columns or in those that are `losing` some.

    `x` is NaN where a cell is missing already, and has categories as codes 0, 1, ... Every column
    that loses cells loses the same expected share, except with "mcar-exact", where the share of
    all their cells is exact. Each column keeps at least two observed cells, which lowers the rate
    in very short tables; a row may lose all of its cells.
    """
    if mechanism not in MECHANISMS:
        raise SettingsError(f"mechanism {mechanism!r} is not one of {', '.join(MECHANISMS)}")
    if not 0 < rate < 1:
        raise SettingsError(f"rate must be between 0 and 1 (0.5 hides every second cell): {rate}")
    if np.isinf(x).any():
        row, column = np.argwhere(np.isinf(x))[0]
        raise DataError(f"column {column} has an infinite value in row {row}: remove it first")
    losing = np.ones(x.shape[1], dtype=bool) if losing is None else losing
    observed = ~np.isnan(x) & losing
    if mechanism == "mcar-exact":
        return _exactly(observed, rate, rng)
    probability = np.where(observed, MECHANISMS[mechanism](x, rate, rng, losing), 0.0)
    # A cell is hidden if a uniform number is below its probability: if their ratio is below 1.
    with np.errstate(divide="ignore"):
        return _protected(rng.random(x.shape) / probability, observed) < 1


def _protected(score: Table, observed: Hidden) -> Table:
    """The scores, infinite for cells that must stay: missing, or the largest of a column."""
    last = np.argsort(np.where(observed, score, -np.inf), axis=0)[-KEPT:]
    score = np.where(observed, score, np.inf)
    np.put_along_axis(score, last, np.inf, axis=0)
    return score


def _exactly(observed: Hidden, rate: float, rng: Generator) -> Hidden:
    score = _protected(rng.random(observed.shape), observed)
    count, most = round(rate * observed.sum()), np.isfinite(score).sum()
    if count > most:
        raise DataError(
            f"{count} of {observed.sum()} observed cells cannot be hidden: every column keeps "
            f"{KEPT}, which leaves {most}; use a lower rate or more rows"
        )
    hidden = np.zeros(observed.size, dtype=bool)
    hidden[np.argsort(score, axis=None)[:count]] = True
    return hidden.reshape(observed.shape)


def _mar(x: Table, rate: float, rng: Generator, losing: Flags) -> Table:
    """Probabilities from random mixtures of the drivers; missing drivers count as means."""
    seen, n_columns = ~np.isnan(x) & losing, x.shape[1]
    order = rng.permutation(n_columns)
    order = order[np.argsort(losing[order], kind="stable")]  # those that lose nothing anyway first
    cells = np.cumsum(seen[:, order].sum(0))
    wanted = max(1, round(DRIVERS * n_columns))
    fitting = int(np.sum(rate * cells[-1] < 0.95 * (cells[-1] - cells)))
    if fitting < 1:
        raise SettingsError(
            f"rate {rate:g} is too high for 'mar' with {n_columns} columns: at least one stays "
            "as it is, and the others cannot lose so many cells; use a lower rate"
        )
    drivers = order[: min(wanted, fitting)]
    others = np.setdiff1d(np.flatnonzero(losing), drivers)
    z = _standardised(x[:, drivers])
    share = rate * seen.sum() / max(seen[:, others].sum(), 1)
    probability = np.zeros(x.shape)
    for j in others:
        mixture = z @ rng.standard_normal(len(drivers))
        score = _standardised(mixture[:, None])[:, 0]
        probability[:, j] = _logistic(score, seen[:, j], share)
    return probability


def _self_masking(x: Table, rate: float, rng: Generator, losing: Flags) -> Table:
    z, seen = _standardised(x), ~np.isnan(x)
    columns = [_logistic(z[:, j], seen[:, j], rate) for j in range(x.shape[1])]
    return np.stack(columns, axis=1)


def _tail(side: str, x: Table, rate: float, rng: Generator, losing: Flags) -> Table:
    """Probabilities for values in a tail; some of the values in it stay observed."""
    order = np.lexsort((rng.random(x.shape), x), axis=0)  # ties at random, NaN last
    rank = np.argsort(order, axis=0)
    level = (rank + 0.5) / np.maximum((~np.isnan(x)).sum(0), 1)  # the share of values below
    outer = {"upper": 1 - level, "lower": level, "both": 2 * np.minimum(level, 1 - level)}
    inside = (1 + rate) / 2
    return np.where(outer[side] < rate / inside, inside, 0.0)


def _standardised(x: Table) -> Table:
    """Columns of mean 0 and standard deviation 1, with 0 for missing cells."""
    known = np.ma.masked_invalid(x)
    return (known - known.mean(axis=0)).filled(0.0) / column_deviations(x)


def _logistic(score: Values, seen: Bool[np.ndarray, " N"], share: float) -> Values:
    """Probabilities that increase with a score; their mean over observed cells is `share`."""
    slope = SLOPE * score
    if not seen.any():
        return np.zeros(len(score))
    low, high = logit(share) - slope.max() - 1, logit(share) - slope.min() + 1
    intercept = bisect(lambda b: expit(slope[seen] + b).mean() - share, low, high)
    return expit(slope + float(intercept))  # pyright: ignore[reportArgumentType]


# The probability of each cell to be hidden, in columns that lose some.
MECHANISMS: dict[str, Probabilities] = {
    "mcar": lambda x, rate, rng, losing: np.full(x.shape, rate),
    "mcar-exact": lambda x, rate, rng, losing: np.full(
        x.shape, rate
    ),  # and exactly this share in all
    "mar": _mar,  # logistic in some columns, the drivers, which stay as they are
    "mnar-self": _self_masking,  # logistic in the value itself: the larger, the likelier
    "mnar-upper": partial(_tail, "upper"),  # only values in the upper quantiles
    "mnar-lower": partial(_tail, "lower"),
    "mnar-both": partial(_tail, "both"),
}
