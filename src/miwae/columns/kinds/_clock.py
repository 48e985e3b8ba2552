"""Times of day that are written as whole numbers: 1305 is five past one in the afternoon."""

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from jaxtyping import Bool, Float

from miwae.columns._column import Column, Numbers
from miwae.columns._scales import Scale, standardisation
from miwae.columns._summary import Summary
from miwae.columns._values import DAY
from miwae.columns.kinds._base import Encoding, Limits, Recognised
from miwae.columns.kinds._number import AbstractScaled, on_scale, short

# Of a hundred endings of a number sixty are minutes: so many different ones are no coincidence.
# Years from 1900 to 1959 are, and have one hour only.
FEWEST_MINUTES, FEWEST_HOURS = 20, 6

MIDNIGHT = 24 * 60


@final
@dataclass(frozen=True, kw_only=True)
class Clock(AbstractScaled):
    """A time of day as HHMM, modelled by its minutes: only valid times are imputed."""

    label: ClassVar[str] = "clock"
    scale: Scale  # from minutes since midnight to the scale of the model
    lower: float | None = 0.0  # 1 where midnight is written as 2400 only
    upper: float | None = 2359.0  # 2400 where that occurs

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """Whole numbers that are all valid times, of many minutes and several hours."""
        usable = column.storage == "number" and summary.is_whole and summary.values is not None
        if not usable or bounds is not None or not cls._are_times(summary):
            return None
        hours, minutes = np.divmod(np.array(summary.values), 100)
        if len(set(minutes[hours > 0])) < FEWEST_MINUTES or len(set(hours)) < FEWEST_HOURS:
            return None
        lowest, highest = short(summary.lowest), short(summary.highest)
        reason = f"times of day, hours and minutes as one number, from {lowest} to {highest}"
        return Recognised(cls._learned(column, summary), reason)

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Clock":
        if column.storage != "number":
            raise column.refusal(label, "it does not hold numbers such as 1305", ~column.missing)
        if not cls._are_times(summary):
            raise column.refusal(label, "not all are times of day", ~_are_times(column.values))
        return cls._learned(column, summary)

    @classmethod
    def _are_times(cls, summary: Summary) -> bool:
        values = np.array([np.nan] if summary.values is None else summary.values)
        return bool(_are_times(values).all())

    @classmethod
    def _learned(cls, column: Column, summary: Summary) -> "Clock":
        late = summary.highest == 2400
        return cls(
            scale=standardisation(_minutes(column.observed_values)),
            lower=float(late and summary.lowest > 0),
            upper=2400.0 if late else 2359.0,
        )

    def encoded(self, column: Column) -> Encoding:
        column.require_finite()
        wrong = ~column.missing & ~_are_times(column.values)
        events = column.unusable(wrong, "is not a time of day")
        seen = ~column.missing & ~wrong
        x = _minutes(column.values[seen])
        return Encoding(on_scale(self.scale, x, seen), seen, self.scale.log_slope(x), events)

    @property
    def period(self) -> float:
        return float(DAY)

    def amounts(self, values: Numbers) -> Numbers:
        return 60 * _minutes(values)

    def decoded(self, y: Numbers) -> np.ndarray:
        minutes = np.clip(np.rint(self.scale.inverse(y)), 0, MIDNIGHT)
        hour, minute = np.divmod(minutes, 60)
        return np.clip(100 * hour + minute, *self.limits)


def _are_times(x: Float[np.ndarray, " N"]) -> Bool[np.ndarray, " N"]:
    with np.errstate(invalid="ignore"):
        return (x >= 0) & (x <= 2400) & (x % 100 < 60) & (x == np.rint(x))


def _minutes(x: Numbers) -> Numbers:
    hour, minute = np.divmod(x, 100)
    return 60 * hour + minute
