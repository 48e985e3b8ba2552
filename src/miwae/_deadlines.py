"""Time limits: when they end, and which option set them. All times are by `time.monotonic()`."""

import time
from typing import NamedTuple


class Deadline(NamedTuple):
    """The end of a time limit."""

    at: float
    option: str = "max_time"  # as the user gave it: `max_time` or `--max-time`


def remaining(deadline: float | None) -> float | None:
    """Seconds until a deadline."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)


def share(deadline: float | None, part: float | int, rest: int) -> float | None:
    """The deadline of a part of the work that is left: it gets its share of the time."""
    now = time.monotonic()
    return None if deadline is None else now + (deadline - now) * part / rest
