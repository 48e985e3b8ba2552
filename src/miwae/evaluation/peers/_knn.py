"""Nearest rows under Gower's distance."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from miwae.evaluation._metrics import Flags, Table
from miwae.evaluation.peers._base import AbstractPeer, centres

CANDIDATES = tuple(range(5, 16))  # of the paper
N_FOLDS = 5
CHUNK = 256  # rows whose distances to all others are held in memory at once


@dataclass(frozen=True, kw_only=True)
class KNN(AbstractPeer):
    """The mean, or the most frequent code, among the nearest rows that have a value there.

    Gower's distance of two rows is the mean, over the columns observed in both, of
    |x - y| / range for numbers and of x != y for categories.
    """

    n_neighbours: int | None = None  # the best of 5 to 15, by cross-validation on observed cells

    def _complete(self, x: Table, categorical: Flags) -> Table:
        count = self.n_neighbours or self.choose(x, categorical)
        return _completed(x, categorical, [count])[0]

    def choose(self, x: Table, categorical: Flags) -> int:
        """By errors on held-out observed cells, of numbers in units of their deviation."""
        fold = _folds(x, self._generator())
        deviation = np.where(categorical, 1.0, np.nanstd(x, axis=0))
        deviation[deviation == 0] = 1.0
        errors = np.zeros(len(CANDIDATES))
        for number in range(N_FOLDS):
            held_out = fold == number
            filled = _completed(np.where(held_out, np.nan, x), categorical, CANDIDATES)
            wrong = np.where(categorical, filled != x, ((filled - x) / deviation) ** 2)
            errors += wrong[:, held_out].sum(1)
        return CANDIDATES[errors.argmin()]


@dataclass(frozen=True, kw_only=True)
class VIMKNN(AbstractPeer):
    """kNN as in R's package VIM, for comparison with published results only.

    A missing cell counts as a value, one range above the largest, so that rows are near if they
    miss the same cells; columns that were imputed before count as observed; numbers are imputed by
    medians.
    """

    n_neighbours: int = 15

    def _complete(self, x: Table, categorical: Flags) -> Table:
        table, missing = x.copy(), np.isnan(x)
        for j in np.flatnonzero(missing.any(0)):
            z = _scaled(np.delete(table, j, axis=1), np.delete(categorical, j))
            z = np.where(np.isnan(z), np.nanmax(z, axis=0) + 1, z)
            donors = np.flatnonzero(~missing[:, j])
            for rows in _chunks(np.flatnonzero(missing[:, j])):
                distance = _distances(z, np.delete(categorical, j), rows)[0][:, donors]
                nearest = _nearest(distance, self.n_neighbours)
                values = x[donors[nearest], j]
                table[rows, j] = _modes(values) if categorical[j] else np.median(values, axis=1)
        return table


def _completed(x: Table, categorical: Flags, counts: Sequence[int]) -> Float[np.ndarray, "K N D"]:
    missing = np.isnan(x)
    z = _scaled(x, categorical)
    tables = np.repeat(np.where(missing, centres(x, categorical), x)[None], len(counts), axis=0)
    for rows in _chunks(np.flatnonzero(missing.any(1))):
        total, shared = _distances(z, categorical, rows)
        distance = np.where(shared > 0, total / np.maximum(shared, 1), np.inf)
        for j in np.flatnonzero(missing[rows].any(0)):
            here, donors = missing[rows, j], np.flatnonzero(~missing[:, j])
            # Rows that share no column with any donor keep the centre.
            here &= np.isfinite(distance[:, donors]).any(1)
            to_donors = distance[np.ix_(here, donors)]
            nearest = _nearest(to_donors, max(counts))
            known = np.isfinite(np.take_along_axis(to_donors, nearest, axis=1))
            values = np.where(known, x[donors[nearest], j], np.nan)
            for table, count in zip(tables, counts, strict=True):
                first = values[:, :count]
                table[rows[here], j] = _modes(first) if categorical[j] else np.nanmean(first, 1)
    return tables


def _scaled(x: Table, categorical: Flags) -> Table:
    """Numbers divided by the range of their column; category codes unchanged."""
    spread = np.nanmax(x, axis=0) - np.nanmin(x, axis=0)
    return x / np.where(categorical | (spread == 0), 1.0, spread)


def _distances(
    z: Table, categorical: Flags, rows: Int[np.ndarray, " R"]
) -> tuple[Float[np.ndarray, "R N"], Float[np.ndarray, "R N"]]:
    """Sums of distances of some rows from all rows, and how many columns each pair shares."""
    seen = ~np.isnan(z)
    total = np.zeros((len(rows), len(z)))
    for j in range(z.shape[1]):
        here, there = np.flatnonzero(seen[rows, j]), np.flatnonzero(seen[:, j])
        apart = z[rows[here], j][:, None] - z[there, j]
        total[np.ix_(here, there)] += (apart != 0) if categorical[j] else np.abs(apart)
    return total, seen[rows].astype(float) @ seen.T.astype(float)


def _nearest(distance: Float[np.ndarray, "R M"], count: int) -> Int[np.ndarray, "R K"]:
    """The columns of the smallest distances in each row, in increasing order."""
    count = min(count, distance.shape[1])
    some = np.argpartition(distance, count - 1, axis=1)[:, :count]
    order = np.argsort(np.take_along_axis(distance, some, axis=1), axis=1)
    return np.take_along_axis(some, order, axis=1)


def _modes(values: Float[np.ndarray, "R K"]) -> Float[np.ndarray, " R"]:
    """The most frequent code of each row; of several, the smallest."""
    codes = np.unique(values[~np.isnan(values)])
    return codes[(values[:, :, None] == codes).sum(1).argmax(1)]


def _chunks(rows: Int[np.ndarray, " R"]) -> list[Int[np.ndarray, " C"]]:
    return np.split(rows, range(CHUNK, len(rows), CHUNK))


def _folds(x: Table, rng: np.random.Generator) -> Int[np.ndarray, "N D"]:
    """A fold for each observed cell, of equal sizes per column; -1 for cells never held out."""
    fold = np.full(x.shape, -1)
    for j in range(x.shape[1]):
        rows = rng.permutation(np.flatnonzero(~np.isnan(x[:, j])))
        if len(rows) > 1:  # a column's only value cannot be predicted from others
            fold[rows, j] = np.arange(len(rows)) % N_FOLDS
    return fold
