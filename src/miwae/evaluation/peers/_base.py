"""The interface of all other methods, so that one loop can compare them."""

import abc
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from jaxtyping import Float

from miwae.errors import DataError
from miwae.evaluation._metrics import Flags, Table

Wide: TypeAlias = Float[np.ndarray, "N E"]  # with one-hot columns for categories

STREAM = 20_120_112  # an arbitrary number that nothing else adds to a seed


@dataclass(frozen=True, kw_only=True)
class AbstractPeer(abc.ABC):
    """A method that completes a table.

    A new method implements `_complete`, which gets checked input and may change observed cells,
    and is added to `PEERS` and to the contract tests.
    """

    seed: int = 0

    def fit_transform(self, x: Table, categorical: Flags) -> Table:
        """A completed copy of numbers, codes 0, 1, ..., and NaN; observed cells do not change."""
        _require_usable(x, categorical)
        missing = np.isnan(x)
        if not missing.any():
            return x.copy()
        return np.where(missing, self._complete(x, categorical), x)

    def _generator(self) -> np.random.Generator:
        """Independent of the random numbers that hid cells with the same seed."""
        return np.random.default_rng([self.seed, STREAM])

    @abc.abstractmethod
    def _complete(self, x: Table, categorical: Flags) -> Table:
        """A table with values in the missing cells of `x`; `x` itself must not change."""


def _require_usable(x: Table, categorical: Flags) -> None:
    for j in range(x.shape[1]):
        values = x[~np.isnan(x[:, j]), j]
        if len(values) == 0:
            raise DataError(f"column {j} has no observed value to impute from: leave it out")
        if np.isinf(values).any():
            raise DataError(f"column {j} has an infinite value: correct it, or make it NaN")
        if categorical[j] and ((values < 0) | (values != np.rint(values))).any():
            raise DataError(f"column {j} is categorical, but not all values are codes 0, 1, ...")


def one_hot(x: Table, categorical: Flags, *, first: bool = True) -> Wide:
    """Replace each categorical column by one column of 0 and 1 per code that occurs.

    Regressions need it without the `first`, which the others would predict perfectly.
    """
    parts = []
    for j in range(x.shape[1]):
        column = x[:, [j]]
        if categorical[j]:
            codes = _codes(column)[0 if first else 1 :]
            column = np.where(np.isnan(column), np.nan, column == codes)
        parts.append(column)
    return np.concatenate(parts, axis=1)


def from_one_hot(completed: Wide, x: Table, categorical: Flags, *, first: bool = True) -> Table:
    """The inverse of `one_hot` for a completed table: the code whose column is largest."""
    columns, start = [], 0
    for j in range(x.shape[1]):
        codes = _codes(x[:, j]) if categorical[j] else np.zeros(1)
        stop = start + len(codes) - (categorical[j] and not first)
        part = completed[:, start:stop]
        if categorical[j] and not first:
            part = np.column_stack([1 - part.sum(1), part])
        columns.append(codes[part.argmax(1)] if categorical[j] else part[:, 0])
        start = stop
    return np.stack(columns, axis=1)


def _codes(column: Float[np.ndarray, "..."]) -> Float[np.ndarray, " C"]:
    return np.unique(column[~np.isnan(column)])


def centres(x: Table, categorical: Flags) -> Float[np.ndarray, " D"]:
    """The mean of each column, or its most frequent code (of several, the smallest)."""
    found = np.nanmean(x, axis=0)
    for j in np.flatnonzero(categorical):
        codes, counts = np.unique(x[~np.isnan(x[:, j]), j], return_counts=True)
        found[j] = codes[counts.argmax()]
    return found


@dataclass(frozen=True, kw_only=True)
class Mean(AbstractPeer):
    """The mean of the column, or its most frequent code: the baseline of every comparison."""

    def _complete(self, x: Table, categorical: Flags) -> Table:
        return np.broadcast_to(centres(x, categorical), x.shape)
