"""How the numbers of a column follow each other: exact, and mergeable over parts."""

from typing import NamedTuple

import numpy as np

from miwae.columns._column import Column


class RowOrder(NamedTuple):
    """The steps from row to row; they mean nothing where a value is missing."""

    n_rows: int
    n_missing: int
    first: float  # NaN without rows
    last: float
    least_step: float = np.inf  # from one row to the next
    largest_step: float = -np.inf

    @classmethod
    def of(cls, column: Column) -> "RowOrder":
        x = column.values
        if not len(x):
            return cls(0, 0, np.nan, np.nan)
        with np.errstate(invalid="ignore", over="ignore"):
            steps = np.diff(x)
        least, largest = steps.min(initial=np.inf), steps.max(initial=-np.inf)
        ends = float(x[0]), float(x[-1])
        return cls(len(x), column.n_missing, *ends, float(least), float(largest))

    def followed_by(self, other: "RowOrder") -> "RowOrder":
        """Of both parts, of which the other comes after this one."""
        if not self.n_rows or not other.n_rows:
            return self if self.n_rows else other
        steps = [self.least_step, other.first - self.last, other.least_step]
        largest = [self.largest_step, steps[1], other.largest_step]
        return RowOrder(
            self.n_rows + other.n_rows,
            self.n_missing + other.n_missing,
            self.first,
            other.last,
            float(np.min(steps)),
            float(np.max(largest)),
        )
