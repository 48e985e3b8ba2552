"""Numbers: of any size, above zero, within bounds, or whole."""

from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float

from miwae.columns._column import Column, Flags, Numbers
from miwae.columns._scales import Scale, choose_scale
from miwae.columns._summary import Summary
from miwae.columns._values import MOST_WHOLE, value_text
from miwae.columns.kinds._base import AbstractKind, Bounds, Encoding, Family, Limits, Recognised
from miwae.events import Event

# Where numbers from exactly 0 on end exactly here, no number can be above.
NATURAL_BOUNDS = {1.0: "shares", 100.0: "percentages"}

# Whole numbers that each occur so often on average are a scale (1 to 5), which ends at its ends.
OFTEN = 20

# Standard deviations. Farther out the model makes no difference, and squares would overflow.
FARTHEST = 1e9


class AbstractScaled(AbstractKind):
    """A kind that is modelled on a scale on which it looks normal."""

    scale: Scale  # to the scale of the model
    bounds: Bounds = (None, None)  # given by the user; observed values beyond are not used

    def encoded(self, column: Column) -> Encoding:
        present, events = usable(column, self.bounds)
        if self.scale.shape == "log":
            below = present & (column.values <= 0)
            events += column.unusable(below, "is not above 0")
            present &= ~below
        x = column.values[present]
        return Encoding(on_scale(self.scale, x, present), present, self.scale.log_slope(x), events)

    @property
    def family(self) -> Family:
        own = self.scale.shape == "identity"
        return Family("number", stretch=() if own else self.scale.stretch())

    @property
    def remark(self) -> str:
        own = self.scale.shape == "identity"
        return "" if own else f"modelled on {self.scale.words} scale"


@final
@dataclass(frozen=True, kw_only=True)
class Number(AbstractScaled):
    """A number, modelled by a Student-t distribution on a scale on which it looks normal."""

    label: str  # "continuous", "positive", "bounded" or "integer"
    scale: Scale  # to the scale of the model
    whole: bool = False  # imputed values are whole numbers
    lower: float | None = None  # no imputed value is below; None for no limit
    upper: float | None = None  # no imputed value is above; None for no limit
    bounds: Bounds = (None, None)  # as the user gave them

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """Whatever is stored as numbers and is nothing more special."""
        label, reason = number_label(summary, bounds)
        return Recognised(cls._learned(label, column, summary, bounds), reason)

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Number":
        """Numbers and booleans, if the label says nothing that an observed cell contradicts."""
        x = column.values
        if column.storage in ("text", "category"):
            raise column.refusal(label, "it holds text", ~column.missing)
        if label == "positive" and summary.lowest <= 0:
            raise column.refusal(label, "it has values that are not above 0", x <= 0)
        if label == "integer" and not summary.all_whole:
            raise column.refusal(label, "it has values that are not whole", x != np.rint(x))
        return cls._learned(label, column, summary, bounds)

    @classmethod
    def _learned(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Number":
        lower, upper = number_limits(label, summary, bounds)
        return cls(
            label=label,
            scale=choose_scale(column.observed_values),
            whole=label == "integer" or summary.whole,
            lower=lower,
            upper=upper,
            bounds=bounds or (None, None),
        )

    def decoded(self, y: Numbers) -> np.ndarray:
        return decoded_number(self.scale.inverse(y), self.limits, whole=self.whole)


def number_label(summary: Summary, bounds: Limits) -> tuple[str, str]:
    """Which of the four sorts of numbers it is, and why."""
    lowest, highest = short(summary.lowest), short(summary.highest)
    if summary.is_whole:
        return "integer", f"whole numbers from {lowest} to {highest}"
    if bounds is not None:
        return "bounded", "bounds were given"
    also = "; none is above 1" if summary.looks_like_shares else ""
    if summary.lowest > 0:
        return "positive", f"all observed numbers are above 0, from {lowest} to {highest}{also}"
    if summary.lowest == 0 and summary.highest in NATURAL_BOUNDS:
        what = NATURAL_BOUNDS[summary.highest]
        return "bounded", f"all observed numbers are {what} from 0 to {highest}"
    if summary.lowest == 0:
        return "bounded", f"no observed number is below 0, the largest is {highest}{also}"
    return "continuous", f"numbers from {lowest} to {highest}"


def number_limits(label: str, summary: Summary, bounds: Limits) -> Bounds:
    lower, upper = bounds or (None, None)
    low, high = summary.lowest, summary.highest
    if lower is None and label == "positive":
        lower = low / 2
    if bounds is not None:  # whoever gives one bound and leaves the other out wants no other
        return lower, upper
    if label in ("bounded", "integer") and low >= 0:
        lower = 1.0 if label == "integer" and low > 0 else 0.0
    if label in ("bounded", "integer") and low == 0 and high in NATURAL_BOUNDS:
        upper = high
    if label in ("bounded", "positive") and summary.looks_like_shares:
        upper = 1.0
    if label == "integer" and summary.n_observed >= OFTEN * summary.n_distinct:
        lower, upper = low, high
    return lower, upper


def short(value: float) -> str:
    """A number for a sentence: whole ones in full."""
    whole = value.is_integer() and abs(value) < MOST_WHOLE
    return value_text(value) if whole else f"{value:g}"


def outside(x: Float[np.ndarray, " N"], bounds: Bounds) -> Flags:
    lower, upper = bounds
    slack = 1e-7  # a bound that the column holds in single precision is still that bound
    below = False if lower is None else x < lower - slack * abs(lower)
    above = False if upper is None else x > upper + slack * abs(upper)
    return np.zeros(len(x), dtype=bool) | below | above


def usable(column: Column, bounds: Bounds) -> tuple[Flags, tuple[Event, ...]]:
    """Where a column has numbers that are finite and within bounds, and events about others."""
    column.require_finite()
    wrong = ~column.missing & outside(column.values, bounds)
    events = column.unusable(wrong, f"is outside its bounds {bounds}")
    return ~column.missing & ~wrong, events


def on_scale(scale: Scale, x: Numbers, seen: Flags) -> Float[np.ndarray, " N"]:
    """Values of seen cells on the scale of the model, zeros elsewhere."""
    values = np.zeros(len(seen))
    with np.errstate(over="ignore"):
        values[seen] = np.clip(scale.forward(x), -FARTHEST, FARTHEST)
    return values


def decoded_number(x: Numbers, limits: tuple[float, float], *, whole: bool) -> Numbers:
    """Numbers clipped to the limits of the column, and rounded if it has whole numbers."""
    lower, upper = limits
    if whole:
        x, lower, upper = np.rint(x), np.ceil(lower), np.floor(upper)
    return np.clip(x, lower, upper)
