"""Points in time, durations and times of day."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from miwae.columns._column import Column, Numbers
from miwae.columns._scales import Scale, choose_scale
from miwae.columns._summary import Summary
from miwae.columns._values import DAY, TIMES
from miwae.columns.kinds._base import Limits, Recognised
from miwae.columns.kinds._number import AbstractScaled

# The finest step of Python's datetime.
MICROSECOND = 1e-6


@final
@dataclass(frozen=True, kw_only=True)
class Instant(AbstractScaled):
    """A time, modelled like a number of seconds and imputed as coarse as the observed ones."""

    label: ClassVar[str] = "datetime"
    scale: Scale  # to the scale of the model
    step: float = 0.0  # imputed times are multiples of so many seconds; 0 for no rounding
    # Seconds that all of them are beyond such a multiple, as midnight is in most zones.
    phase: float = 0.0
    lower: float | None = None  # no imputed time is before; None for no limit
    upper: float | None = None  # no imputed time is after; None for no limit

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        if column.storage not in TIMES:
            return None
        what = "times" if column.storage == "time" else TIMES[column.storage]
        return Recognised(cls._learned(column, summary), f"stored as {what}")

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Instant":
        if column.storage not in TIMES:
            raise column.refusal(label, "it does not hold times", ~column.missing)
        return cls._learned(column, summary)

    @classmethod
    def _learned(cls, column: Column, summary: Summary) -> "Instant":
        lower = upper = None
        if column.storage in ("duration", "clock") and summary.lowest >= 0:
            lower = summary.phase
        if column.storage == "clock":  # the last time before midnight
            step = summary.step or MICROSECOND
            upper = summary.phase + step * (math.ceil((DAY - summary.phase) / step) - 1)
        return cls(
            # The zero of instants and times of day is a convention, that of durations is not.
            scale=choose_scale(column.observed_values, has_zero=column.storage == "duration"),
            step=summary.step,
            phase=summary.phase,
            lower=lower,
            upper=upper,
        )

    @property
    def period(self) -> float:
        is_of_day = self.upper is not None
        return float(DAY) if is_of_day else math.inf

    def decoded(self, y: Numbers) -> np.ndarray:
        x = self.scale.inverse(y)
        if self.step:
            x = np.rint((x - self.phase) / self.step) * self.step + self.phase
        return np.clip(x, *self.limits)
