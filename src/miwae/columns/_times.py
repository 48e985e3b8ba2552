"""Times as integers of some unit, and as seconds.

Whole seconds and their fraction are converted separately, since their product in float64 has fewer
digits than either.
"""

import numpy as np
from jaxtyping import Float, Int

DAY = 86400
PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
SECONDS_PER = {"m": 60, "h": 3600, "D": DAY, "W": 7 * DAY}


def seconds_from_ticks(ticks: Int[np.ndarray, " N"], unit: str) -> Float[np.ndarray, " N"]:
    if unit in SECONDS_PER:
        return ticks * float(SECONDS_PER[unit])
    whole, part = np.divmod(ticks.astype(np.int64), PER_SECOND[unit])
    return whole + part / PER_SECOND[unit]


def ticks_of(seconds: Float[np.ndarray, " H"], unit: str) -> Int[np.ndarray, " H"]:
    """The nearest whole number of units."""
    if unit in SECONDS_PER:
        limit = float(2**31 - 1)  # days are stored in 32 bits
        return np.rint(np.clip(seconds / SECONDS_PER[unit], -limit, limit)).astype(np.int64)
    per = PER_SECOND[unit]
    limit = float(2**63 // per - 2048)  # 2048 below what 64 bits hold, float64 has a number
    whole, part = np.divmod(np.clip(seconds, -limit, limit), 1.0)
    return whole.astype(np.int64) * per + np.rint(part * per).astype(np.int64)


def ticks_of_day(seconds: Float[np.ndarray, " H"], unit: str) -> Int[np.ndarray, " H"]:
    """The nearest time of one day: from midnight to the last unit before the next."""
    return np.clip(ticks_of(seconds, unit), 0, DAY * PER_SECOND[unit] - 1)
