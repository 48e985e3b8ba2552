"""Dates and times as people write them, read and written in the format of their column."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeAlias

import numpy as np

_CLOCK = (
    r"(?P<hour>\d{1,2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:(?P<point>[.,])(?P<fraction>\d{1,9}))?)?"
    r"(?P<half> ?(?:[AP]M|[ap]m))?(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)

# By the order of year, month (m as a number, b by its name) and day.
_DATES = {
    "ymd": r"(?P<y>\d{4})(?P<mark>[-/])(?P<m>\d{2})(?P=mark)(?P<d>\d{2})",
    "dmy": r"(?P<d>\d{1,2})(?P<mark>[/.])(?P<m>\d{1,2})(?P=mark)(?P<y>\d{4})",
    "mdy": r"(?P<m>\d{1,2})(?P<mark>/)(?P<d>\d{1,2})(?P=mark)(?P<y>\d{4})",
    "dby": r"(?P<d>\d{1,2})(?P<mark>[- ])(?P<b>[A-Za-z]{3,9})(?P=mark)(?P<y>\d{4})",
    "bdy": r"(?P<b>[A-Za-z]{3,9}) (?P<d>\d{1,2})(?P<mark>,? )(?P<y>\d{4})",
}

# Dates with or without a clock; "" for times of day.
_TIMES = {
    order: re.compile(f"{date}(?:(?P<glue>[T ]){_CLOCK})?") for order, date in _DATES.items()
}
_TIMES[""] = re.compile(f"(?P<mark>)(?P<glue>){_CLOCK}")

# What a text is made of: the groups of a pattern, None where it has no clock.
_Parts: TypeAlias = dict[str, Any]

_MONTHS = tuple(
    "january february march april may june july august september october november december".split()
)

_DAY = 86400.0
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
# The first and last day that any time zone can express.
_FIRST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH).total_seconds()
_LAST = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds()


@dataclass(frozen=True)
class TimeFormat:
    order: str  # of year, month and day: a key of _TIMES
    mark: str  # between them; before the year for "bdy"
    padded: bool = True  # days and months always have two digits
    month: str = ""  # January as this column would write it; "" where months are numbers
    glue: str = ""  # between date and clock, "T" or " "; "" where there are only dates
    padded_hour: bool = True  # hours always have two digits
    seconds: bool = False  # the clock shows them
    decimals: int = 0  # the most digits of a fraction of a second
    point: str = "."  # the mark before that fraction
    half: str = ""  # "AM" as this column would write it; "" where the clock has 24 hours
    zone: str = ""  # "Z", an offset from UTC such as "+01:00", or nothing

    @property
    def has_date(self) -> bool:
        """Whether it is an instant, rather than a time of day."""
        return bool(self.order)

    def text(self, seconds: Any, lower: float = -np.inf, upper: float = np.inf) -> str:
        """Seconds since 1970 or since midnight, rounded to what the column shows."""
        has_clock = bool(self.glue) or not self.has_date
        unit = 10.0 ** -min(self.decimals, 6) if self.seconds else 60.0 if has_clock else _DAY
        first, last = (_FIRST, _LAST) if self.has_date else (0.0, _DAY - unit)
        local = min(max(seconds, first), last) + _offset(self.zone)
        when = _EPOCH + timedelta(seconds=round(local / unit) * unit)
        width, month = 2 if self.padded else 1, _MONTHS[when.month - 1]
        parts = {
            "y": f"{when.year:04d}",
            "m": f"{when.month:0{width}d}",
            "d": f"{when.day:0{width}d}",
            "b": _in_case_of(self.month, month if len(self.month) > 3 else month[:3]),
        }
        if self.order == "bdy":
            date = f"{parts['b']} {parts['d']}{self.mark}{parts['y']}"
        else:
            date = self.mark.join(parts[letter] for letter in self.order)
        return date + self._clock(when) if has_clock else date

    def _clock(self, when: datetime) -> str:
        hour = (when.hour % 12 or 12) if self.half else when.hour
        text = f"{self.glue}{hour:0{2 if self.padded_hour else 1}d}:{when:%M}"
        if self.seconds:
            text += f":{when:%S}"
        if self.decimals:
            text += self.point + f"{when.microsecond:06d}".ljust(9, "0")[: self.decimals]
        if self.half and when.hour >= 12:
            return text + self.half.replace("A", "P").replace("a", "p") + self.zone
        return text + self.half + self.zone


def _in_case_of(example: str, word: str) -> str:
    if example.isupper():
        return word.upper()
    return word.lower() if example.islower() else word.title()


def _offset(zone: str) -> float:
    if zone in {"", "Z"}:
        return 0.0
    digits = zone[1:].replace(":", "")
    return float(zone[0] + "1") * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


def _seconds(parts: _Parts) -> float:
    """Seconds since 1970 or midnight; ValueError if there is no such day or hour."""
    when = _EPOCH
    if "y" in parts:
        name = parts.get("b", "").lower()
        names = _MONTHS if len(name) > 3 else [month[:3] for month in _MONTHS]
        month = names.index(name) + 1 if name else int(parts["m"])
        when = datetime(int(parts["y"]), month, int(parts["d"]), tzinfo=UTC)
    if parts["hour"] is not None:
        hour, half = int(parts["hour"]), (parts["half"] or "").lower()
        if half and not 1 <= hour <= 12:
            raise ValueError(f"there is no {hour} o'clock{half}")
        hour = hour % 12 + 12 * ("p" in half) if half else hour
        minute, second = int(parts["minute"]), int(parts["second"] or 0)
        when = when.replace(hour=hour, minute=minute, second=second)
    fraction = parts["fraction"] or "0"
    whole = (when - _EPOCH) // timedelta(seconds=1) - _offset(parts["zone"] or "")
    return whole + int(fraction) / 10 ** len(fraction)


def _order(texts: Sequence[str]) -> str | None:
    """The order of year, month and day, if all texts are times of the same format.

    Between slashes, numbers above 12 show which is the day; None if nothing shows it.
    """
    for order in ("ymd", "dby", "bdy", ""):
        if all(map(_TIMES[order].fullmatch, texts)):
            return order
    dates = [_TIMES["dmy"].fullmatch(text) for text in texts]
    marks = {date["mark"] if date else None for date in dates}
    if marks != {"/"}:
        return "dmy" if marks == {"."} else None
    day_first, month_first = (any(int(date[k]) > 12 for date in dates if date) for k in "dm")
    if day_first == month_first:
        return None
    return "dmy" if day_first else "mdy"


def _format(order: str, times: Sequence[_Parts]) -> TimeFormat | None:
    """What a column's texts have in common; None if they are of several formats."""
    first, clocks = times[0], [parts for parts in times if parts["hour"] is not None]
    if any(parts["mark"] != first["mark"] for parts in times) or 0 < len(clocks) < len(times):
        return None
    padded = all(len(parts[k]) == 2 for parts in times for k in set(order) & {"d", "m"})
    names = [parts["b"] for parts in times] if "b" in order else []
    if len({len(name) > 3 for name in names if name.lower() != "may"}) > 1:
        return None
    full = any(len(name) > 3 for name in names)
    month = _in_case_of(names[0], "january" if full else "jan") if names else ""
    if not clocks:
        return TimeFormat(order, first["mark"], padded, month)
    of_one_kind = all(len({c[name] is None for c in clocks}) == 1 for name in ("zone", "half"))
    if not of_one_kind or (first["zone"] and not order):
        return None
    return TimeFormat(
        order,
        first["mark"],
        padded,
        month,
        glue=first["glue"],
        padded_hour=all(len(c["hour"]) == 2 for c in clocks),
        seconds=any(c["second"] is not None for c in clocks),
        decimals=max(len(c["fraction"] or "") for c in clocks),
        point=next((c["point"] for c in clocks if c["point"]), "."),
        half=(first["half"] or "").replace("P", "A").replace("p", "a"),
        zone=first["zone"] or "",
    )


def parsed_times(
    texts: Sequence[str], order: str | None = None
) -> tuple[np.ndarray, TimeFormat] | None:
    """Seconds since 1970 (in UTC, or as if in UTC) or midnight, and the format.

    None if the texts are not all times of one format, or if neither they nor `order` show which
    number is the day and which the month.
    """
    # The first text shows that most columns hold no times.
    if not texts or not any(pattern.fullmatch(texts[0]) for pattern in _TIMES.values()):
        return None
    shown = _order(texts)
    order = order if shown is None else shown
    if order is None:
        return None
    times = [match.groupdict() for match in map(_TIMES[order].fullmatch, texts) if match]
    form = _format(order, times) if len(times) == len(texts) else None
    if form is None:
        return None
    try:
        return np.array([_seconds(parts) for parts in times]), form
    except ValueError:
        return None
