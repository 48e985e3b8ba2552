"""What deciding on a kind has to know of a column: exact, and mergeable over parts of a table."""

from collections import defaultdict
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from jaxtyping import Float, Int

from miwae.columns._column import Column, Storage
from miwae.columns._values import MOST_WHOLE, TIMES
from miwae.errors import DataError

# Distinct values are listed up to this many; a column with more of them has "many".
MOST_DISTINCT = 2_000

# The model counts in float32, which has no odd numbers beyond.
MOST_COUNTED = 2**24

# Seconds, from the coarsest: imputed times are as coarse as the observed ones.
STEPS = (86_400.0, 3_600.0, 60.0, 1.0, 1e-3)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Facts about the observed cells of a column; `a.merged(b)` are those of both parts."""

    storage: Storage
    n_observed: int  # cells that have a value
    whole: bool  # numbers are stored as integers
    all_whole: bool  # all numbers are whole, however they are stored
    lowest: float  # the smallest number or time; infinite without any
    highest: float  # the largest one; minus infinity without any
    # The distinct values in the column's own order, None if more than `MOST_DISTINCT`:
    # numbers, or levels of text and categories.
    values: tuple[Any, ...] | None
    counts: tuple[int, ...]  # how often each of them occurs
    declared: tuple[Any, ...]  # the levels that a column of categories declares, in their order
    n_zero: int  # cells that are exactly 0
    total: int  # sum of the numbers, where they can be counts
    squares: int  # sum of their squares, likewise
    # The coarsest step in seconds that all times are apart from each other; 0 for none.
    step: float

    @property
    def n_distinct(self) -> int:
        """How many distinct values there are; one more than can be listed if many."""
        return MOST_DISTINCT + 1 if self.values is None else len(self.values)

    @property
    def is_whole(self) -> bool:
        """Whole numbers, rather than numbers too large for float64 to have anything else."""
        small = max(-self.lowest, self.highest) <= MOST_WHOLE
        return self.whole or (self.all_whole and small)

    @property
    def phase(self) -> float:
        """Seconds that all times are beyond a multiple of the step, as midnight often is."""
        return self.lowest % self.step if self.step else 0.0

    @property
    def looks_like_shares(self) -> bool:
        """Numbers from 0 to 1 of which the largest comes near 1."""
        # If they are no shares, little is lost: imputed values stay near the observed range.
        return self.lowest >= 0 and 0.5 < self.highest <= 1

    def merged(self, other: "Summary") -> "Summary":
        """The summary of the cells of both, which must be stored alike."""
        known = {(type(level), level) for level in self.declared}
        more = (level for level in other.declared if (type(level), level) not in known)
        declared = (*self.declared, *more)
        if not other.n_observed or not self.n_observed:
            return replace(self if self.n_observed else other, declared=declared)
        if self.storage != other.storage:
            raise DataError(
                f"one part of a column is stored as {self.storage}, another as {other.storage}: "
                "give all parts the same type"
            )
        values, counts = _merged_values(self, other, declared)
        all_whole = self.all_whole and other.all_whole
        lowest, highest = min(self.lowest, other.lowest), max(self.highest, other.highest)
        countable = _are_countable(lowest, highest, all_whole=all_whole)
        return Summary(
            storage=self.storage,
            n_observed=self.n_observed + other.n_observed,
            whole=self.whole and other.whole,
            all_whole=all_whole,
            lowest=lowest,
            highest=highest,
            values=values,
            counts=counts,
            declared=declared,
            n_zero=self.n_zero + other.n_zero,
            total=self.total + other.total if countable else 0,
            squares=self.squares + other.squares if countable else 0,
            step=_step(np.array([self.lowest, other.lowest]), min(self.step, other.step)),
        )


def summarise(column: Column) -> Summary:
    """The summary of a column. Numbers that are not finite are not counted."""
    x = column.observed_values
    is_text = column.storage in ("text", "category")
    finite = x[np.isfinite(x)]
    found, counts = np.unique(finite, return_counts=True)
    levels = [column.levels[int(code)] for code in found] if is_text else found.tolist()
    many = len(found) > MOST_DISTINCT
    numbers = np.zeros(0) if is_text else finite
    lowest, highest = float(numbers.min(initial=np.inf)), float(numbers.max(initial=-np.inf))
    all_whole = bool(np.all(numbers == np.rint(numbers)))
    countable = _are_countable(lowest, highest, all_whole=all_whole)
    total, squares = _exact_sums(numbers.astype(np.int64)) if countable else (0, 0)
    return Summary(
        storage=column.storage,
        n_observed=len(finite),
        whole=column.whole,
        all_whole=all_whole,
        lowest=lowest,
        highest=highest,
        values=None if many else tuple(levels),
        counts=() if many else tuple(counts.tolist()),
        declared=column.levels if column.storage == "category" else (),
        n_zero=int(np.count_nonzero(numbers == 0)),
        total=total,
        squares=squares,
        step=_step(numbers) if column.storage in TIMES and len(numbers) else 0.0,
    )


def _are_countable(lowest: float, highest: float, *, all_whole: bool) -> bool:
    return all_whole and max(-lowest, highest) <= MOST_COUNTED


def _exact_sums(x: Int[np.ndarray, " N"]) -> tuple[int, int]:
    """Sums of countable numbers and of their squares, which together can exceed 64 bits."""
    high, low = np.divmod(x * x, MOST_COUNTED)
    return int(x.sum()), int(high.sum()) * MOST_COUNTED + int(low.sum())


def _step(x: Float[np.ndarray, " N"], coarsest: float = np.inf) -> float:
    return next((s for s in STEPS if s <= coarsest and _are_apart_by(s, x)), 0.0)


def _are_apart_by(step: float, x: Float[np.ndarray, " N"]) -> bool:
    # Seconds since 1970 are a little off where they are not whole.
    rounding = 4 * np.spacing(np.abs(x).max())
    since = x - x.min()
    return bool(np.all(np.abs(since - np.rint(since / step) * step) <= rounding))


def _merged_values(
    a: Summary, b: Summary, declared: tuple[Any, ...]
) -> tuple[tuple[Any, ...] | None, tuple[int, ...]]:
    counts: dict[tuple[type, Any], int] = defaultdict(int)
    for part in (a, b):
        for value, count in zip(part.values or (), part.counts, strict=True):
            counts[type(value), value] += count  # True and 1, which are equal, are two levels
    if a.values is None or b.values is None or len(counts) > MOST_DISTINCT:
        return None, ()
    # As a column orders its levels: as declared, or sorted, by type where there are several.
    place = {(type(level), level): i for i, level in enumerate(declared)}
    ordered = sorted(counts, key=lambda key: (place.get(key, 0), key[0].__name__, key[1]))
    return tuple(value for _, value in ordered), tuple(counts[key] for key in ordered)
