"""The interface of all other methods, so that one loop can compare them."""

import abc
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import DataError

__all__ = ["AbstractPeer", "from_one_hot", "one_hot"]

STREAM = 20_120_112  # an arbitrary number that nothing else adds to a seed


@dataclass(frozen=True, kw_only=True)
class AbstractPeer(abc.ABC):
    """A method that completes a table.

    A new method implements `_complete`, which gets checked input and may change observed cells,
    and is added to `PEERS` and to the contract tests.

    Attributes:
        seed: random seed.
    """

    seed: int = 0

    def fit_transform(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
        """A completed copy of the table; observed cells do not change.

        Args:
            x: numbers, and codes 0, 1, ... in categorical columns; NaN where missing.
            categorical: True for columns of category codes.

        Raises:
            DataError: a column without any value, an infinite value, or an invalid code.
        """
        _require_usable(x, categorical)
        missing = np.isnan(x)
        if not missing.any():
            return x.copy()
        return np.where(missing, self._complete(x, categorical), x)

    def _generator(self) -> np.random.Generator:
        """Independent of the random numbers that hid cells with the same seed."""
        return np.random.default_rng([self.seed, STREAM])

    @abc.abstractmethod
    def _complete(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
        """A table with values in the missing cells of `x`; `x` itself must not change."""


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
    """Replace each categorical column by one column of 0 and 1 per code that occurs.

    Args:
        x: the table.
        categorical: True for columns of category codes.
        first: whether the first code has a column too. For regressions it must not: it is one
            minus the sum of the others, which would predict it perfectly.
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
