"""Numbers that take few values, each of them often: modelled by the shares of the values."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Bool, Float

from miwae.columns._column import Column, Ends, Numbers
from miwae.columns._scales import Scale, standardisation
from miwae.columns._summary import Summary
from miwae.columns.kinds._base import AbstractKind, Encoding, Family, Limits, Recognised
from miwae.columns.kinds._number import (
    OFTEN,
    decoded_number,
    number_label,
    number_limits,
    on_scale,
    usable,
)

# Numbers that take at most so many values, each often, are modelled by the shares of the values.
MOST_POINTS = 12

# The least distance of such values, relative to the largest, that single precision keeps apart.
APART = 1e-4

# A few rounding errors of single precision.
ROUNDING = 1e-6


@final
@dataclass(frozen=True, kw_only=True)
class Points(AbstractKind):
    """A number that takes few values (1 to 5, stars in halves)."""

    label: str  # "continuous", "positive", "bounded" or "integer"
    scale: Scale  # to the scale of the model: standardisation
    values: tuple[float, ...]  # that occur, in increasing order
    shares: tuple[float, ...]  # of the observed cells that have each of them
    whole: bool = False  # imputed values are whole numbers
    lower: float | None = None  # no imputed value is below; None for no limit
    upper: float | None = None  # no imputed value is above; None for no limit

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """At most twelve values, each twenty times on average, and no bounds that allow others."""
        values, n = summary.values, summary.n_observed
        if bounds is not None or values is None or len(values) > MOST_POINTS:
            return None
        if column.storage != "number" or n < OFTEN * len(values):
            return None
        scale = standardisation(column.observed_values)
        if not _are_apart(scale, np.array(values)):
            return None
        label, reason = number_label(summary, None)
        lower, upper = number_limits(label, summary, None)
        kind = cls(
            label=label,
            scale=scale,
            values=values,
            shares=tuple((np.array(summary.counts) / n).tolist()),
            whole=label == "integer" or summary.whole,
            lower=lower,
            upper=upper,
        )
        return Recognised(kind, reason)

    def encoded(self, column: Column) -> Encoding:
        """To the model a value that was not seen is the nearest that was."""
        present, events = usable(column, (None, None))
        x = column.values[present]
        nearest = self._nearest(x)
        new = np.zeros(len(present), dtype=bool)
        new[present] = ~self._are_equal(x, nearest)
        then = "taken for the nearest known value by the model"
        events += column.unusable(new, "was not seen in fitting", then)
        return Encoding(on_scale(self.scale, nearest, present), present, None, events)

    def decoded(self, y: Numbers) -> np.ndarray:
        """Means may lie between the values; draws, which single precision rounds, do not."""
        x = self.scale.inverse(y)
        nearest = self._nearest(x)
        x = np.where(self._are_equal(x, nearest), nearest, x)
        x = np.clip(x, self.values[0], self.values[-1])
        return decoded_number(x, self.limits, whole=self.whole)

    @property
    def family(self) -> Family:
        scaled = self.scale.forward(np.array(self.values)).tolist()
        return Family("points", values=scaled, shares=self.shares)

    @property
    def remark(self) -> str:
        return f"modelled by its {len(self.values)} values"

    def interval(self, limits: Ends, point: Float[np.ndarray, " N"]) -> Ends:
        """Values that occur: where two models differ, a quantile can lie between two of them."""
        return self.scale.forward(self._nearest(self.scale.inverse(limits)))

    def _nearest(self, x: Float[np.ndarray, "..."]) -> Float[np.ndarray, "..."]:
        values = np.array(self.values)
        above = np.clip(np.searchsorted(values, x), 1, len(values) - 1)
        low, high = values[above - 1], values[above]
        with np.errstate(over="ignore"):
            return np.where(x - low <= high - x, low, high)

    def _are_equal(self, x: Numbers, nearest: Numbers) -> Bool[np.ndarray, " H"]:
        """Where single precision on the scale of the model cannot tell both apart."""
        with np.errstate(over="ignore"):
            y, point = self.scale.forward(x), self.scale.forward(nearest)
            return np.abs(y - point) <= ROUNDING * np.maximum(1.0, np.abs(point))


def _are_apart(scale: Scale, values: Float[np.ndarray, " V"]) -> bool:
    with np.errstate(over="ignore"):
        scaled = scale.forward(values)
    if not np.isfinite(scaled).all():
        return False
    return bool(np.all(np.diff(scaled) > APART * max(1.0, np.abs(scaled).max())))
