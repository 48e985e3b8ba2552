"""Counts: whole numbers from zero on, often zero."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from miwae.columns._column import Column, Numbers
from miwae.columns._summary import MOST_COUNTED, Summary
from miwae.columns.kinds._base import AbstractKind, Bounds, Encoding, Family, Limits, Recognised
from miwae.columns.kinds._number import decoded_number, short, usable

# A column of counts, rather than of whole numbers, has at least this share of zeros.
ZEROS = 0.05


@final
@dataclass(frozen=True, kw_only=True)
class Count(AbstractKind):
    """The number of events, which the model sees as it is."""

    label: ClassVar[str] = "count"
    spread: float  # standard deviation, at least 1
    lower: float = 0.0  # no imputed value is below
    upper: float | None = None  # no imputed value is above; None for no limit
    bounds: Bounds = (None, None)  # as the user gave them

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """Zeros, and a variance that is larger than the mean."""
        whole = column.storage == "number" and summary.is_whole
        if not whole or bounds or summary.lowest < 0 or summary.highest > MOST_COUNTED:
            return None
        n, total, zeros = summary.n_observed, summary.total, summary.n_zero / summary.n_observed
        # In exact sums: a variance of at least the mean.
        if summary.n_zero < ZEROS * n or n * summary.squares - total**2 < n * total:
            return None
        reason = f"whole numbers from 0 to {short(summary.highest)}, {zeros:.0%} of them 0"
        return Recognised(cls._learned(column, None), reason)

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Count":
        """Whole numbers from zero on that single precision can count."""
        x = column.values
        if column.storage in ("text", "category"):
            raise column.refusal(label, "it holds text", ~column.missing)
        if not summary.all_whole:
            raise column.refusal(label, "it has values that are not whole", x != np.rint(x))
        if summary.lowest < 0:
            raise column.refusal(label, "it has values below 0", x < 0)
        if summary.highest > MOST_COUNTED:
            why = f"it has values above {MOST_COUNTED}; use 'integer'"
            raise column.refusal(label, why, x > MOST_COUNTED)
        return cls._learned(column, bounds)

    @classmethod
    def _learned(cls, column: Column, bounds: Limits) -> "Count":
        lower, upper = bounds or (None, None)
        return cls(
            # Sorted, so that the order of rows does not change the rounding of sums.
            spread=max(float(np.sort(column.observed_values).std()), 1.0),
            lower=0.0 if lower is None else lower,
            upper=upper,
            bounds=bounds or (None, None),
        )

    def encoded(self, column: Column) -> Encoding:
        present, events = usable(column, self.bounds)
        x = column.values
        wrong = present & ~((x >= 0) & (x == np.rint(x)))
        events += column.unusable(wrong, "is not a count")
        large = present & (x > MOST_COUNTED)
        events += column.unusable(large, "is too large for a count")
        return Encoding(x, present & ~wrong & ~large, None, events)

    def decoded(self, y: Numbers) -> np.ndarray:
        return decoded_number(y, self.limits, whole=True)

    @property
    def family(self) -> Family:
        return Family("count")

    @property
    def unit(self) -> float:
        return self.spread
