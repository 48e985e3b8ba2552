"""What every other method offers, so that all can be compared in one loop."""

import abc
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import DataError

__all__ = ["AbstractPeer", "from_one_hot", "one_hot"]

STREAM = 20_120_112  # any number that nobody else adds to a seed


@dataclass(frozen=True, kw_only=True)
class AbstractPeer(abc.ABC):
    """A method that completes a table.

    A new one implements `_complete`, which may rely on checked input and need not care about
    observed cells, and gets a line in `PEERS` and in the contract tests.

    Attributes:
        seed: of all its randomness; the same seed gives the same table.
    """

    seed: int = 0

    def fit_transform(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
        """A copy of the table without NaN; observed cells bit for bit.

        Args:
            x: numbers, and codes 0, 1, ... in categorical columns; NaN where missing.
            categorical: which columns hold codes.

        Raises:
            DataError: a column without any value, an infinite value, or one that is no code.
        """
        _require_usable(x, categorical)
        missing = np.isnan(x)
        if not missing.any():
            return x.copy()
        return np.where(missing, self._complete(x, categorical), x)

    def _generator(self) -> np.random.Generator:
        """Its own stream: cells that the same seed has hidden must not be drawn first again."""
        return np.random.default_rng([self.seed, STREAM])

    @abc.abstractmethod
    def _complete(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
        """A table that has values in the missing cells of `x`, which it does not change."""


def _require_usable(x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]) -> None:
    for j in range(x.shape[1]):
        values = x[~np.isnan(x[:, j]), j]
        if len(values) == 0:
            raise DataError(f"column {j} has no observed value to impute from: leave it out")
        if np.isinf(values).any():
            raise DataError(f"column {j} has an infinite value: correct it, or make it NaN")
        if categorical[j] and ((values < 0) | (values != np.rint(values))).any():
            raise DataError(f"column {j} is categorical, but not all values are codes 0, 1, ...")


def one_hot(
    x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"], *, first: bool = True
) -> Float[np.ndarray, "N E"]:
    """Each categorical column as one column of 0 and 1 for each code that occurs.

    Args:
        x: the table.
        categorical: which columns hold codes.
        first: also for the first code, which is what the others leave. Regressions must not see
            it: a column that is the rest of others is predicted perfectly, and from nothing else.
    """
    parts = []
    for j in range(x.shape[1]):
        column = x[:, [j]]
        if categorical[j]:
            codes = _codes(column)[0 if first else 1 :]
            column = np.where(np.isnan(column), np.nan, column == codes)
        parts.append(column)
    return np.concatenate(parts, axis=1)


def from_one_hot(
    completed: Float[np.ndarray, "N E"],
    x: Float[np.ndarray, "N D"],
    categorical: Bool[np.ndarray, " D"],
    *,
    first: bool = True,
) -> Float[np.ndarray, "N D"]:
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
