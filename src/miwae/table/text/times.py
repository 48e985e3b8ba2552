"""Dates and times as people write them, read and written in a column's own manner."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np

__all__ = ["TimeStyle", "parsed_times"]

_CLOCK = re.compile(
    r"(?P<glue>[T ])(?P<hour>\d{2}):(?P<minute>\d{2})"
    r"(?::(?P<second>\d{2})(?:(?P<point>[.,])(?P<fraction>\d{1,9}))?)?"
    r"(?P<zone>Z|[+-]\d{2}:?\d{2})?"
)

# By the order of year, month and day.
_DATES = {
    "ymd": re.compile(r"(?P<y>\d{4})(?P<mark>[-/])(?P<m>\d{2})(?P=mark)(?P<d>\d{2})"),
    "dmy": re.compile(r"(?P<d>\d{1,2})(?P<mark>[/.])(?P<m>\d{1,2})(?P=mark)(?P<y>\d{4})"),
    "mdy": re.compile(r"(?P<m>\d{1,2})(?P<mark>/)(?P<d>\d{1,2})(?P=mark)(?P<y>\d{4})"),
}

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FIRST = (datetime(1, 1, 2, tzinfo=UTC) - _EPOCH).total_seconds()
_LAST = (datetime(9999, 12, 30, tzinfo=UTC) - _EPOCH).total_seconds()


@dataclass(frozen=True)
class TimeStyle:
    """The manner in which a column writes its times.

    Attributes:
        order: of year, month and day: "ymd", "dmy" or "mdy".
        mark: between them.
        padded: whether days and months have two digits always.
        glue: between date and clock, "T" or " "; "" where there are only dates.
        seconds: whether the clock shows them.
        decimals: the most digits of a fraction of a second.
        point: the mark before that fraction.
        zone: "Z", an offset from UTC such as "+01:00", or nothing.
    """

    order: str
    mark: str
    padded: bool = True
    glue: str = ""
    seconds: bool = False
    decimals: int = 0
    point: str = "."
    zone: str = ""

    @property
    def _unit(self) -> float:
        """The smallest step that is shown, in seconds; none below a microsecond."""
        if not self.glue:
            return 86400.0
        return 10.0 ** -min(self.decimals, 6) if self.seconds else 60.0

    def text(self, seconds: float) -> str:
        """A time since 1970, rounded to what the column shows."""
        local = min(max(seconds, _FIRST), _LAST) + _offset(self.zone)
        when = _EPOCH + timedelta(seconds=round(local / self._unit) * self._unit)
        width = 2 if self.padded else 1
        parts = {"y": f"{when.year:04d}", "m": f"{when.month:0{width}d}"}
        parts["d"] = f"{when.day:0{width}d}"
        date = self.mark.join(parts[letter] for letter in self.order)
        return date + self._clock(when) if self.glue else date

    def _clock(self, when: datetime) -> str:
        text = f"{self.glue}{when:%H:%M}"
        if self.seconds:
            text += f":{when:%S}"
        if self.decimals:
            text += self.point + f"{when.microsecond:06d}".ljust(9, "0")[: self.decimals]
        return text + self.zone


def _offset(zone: str) -> float:
    """Seconds to add to UTC."""
    if zone in {"", "Z"}:
        return 0.0
    digits = zone[1:].replace(":", "")
    return float(zone[0] + "1") * (int(digits[:2]) * 3600 + int(digits[2:]) * 60)


def _seconds(date: re.Match[str], clock: re.Match[str] | None) -> float:
    """Seconds since 1970; ValueError if there is no such day or hour."""
    hour, minute, second, fraction, zone = (
        ("0", "0", "0", "0", "")
        if clock is None
        else (
            value or "0" for value in clock.group("hour", "minute", "second", "fraction", "zone")
        )
    )
    day = datetime(
        int(date["y"]), int(date["m"]), int(date["d"]), int(hour), int(minute), int(second), 0, UTC
    )
    whole = (day - _EPOCH) // timedelta(seconds=1) - _offset("" if zone == "0" else zone)
    return whole + int(fraction) / 10 ** len(fraction)


def _day_or_month_first(texts: Sequence[str]) -> str | None:
    """Which comes first between slashes: a part above 12 tells; None if no part does, or both."""
    parts = [text.split("/", 2)[:2] for text in texts]
    day_first = any(int(first) > 12 for first, _ in parts)
    month_first = any(int(second) > 12 for _, second in parts)
    if day_first == month_first:
        return None
    return "dmy" if day_first else "mdy"


def _order(texts: Sequence[str]) -> str | None:
    """The order of year, month and day in a column, if all its texts start with dates alike."""
    if all(_DATES["ymd"].match(text) for text in texts):
        return "ymd"
    matches = [_DATES["dmy"].match(text) for text in texts]
    marks = {match["mark"] if match else None for match in matches}
    if marks == {"/"}:
        return _day_or_month_first(texts)
    return "dmy" if marks == {"."} else None


def _style(
    order: str, dates: Sequence[re.Match[str]], clocks: Sequence[re.Match[str] | None]
) -> TimeStyle | None:
    """What a column's texts have in common; None if they are of several kinds."""
    mark, clock = dates[0]["mark"], clocks[0]
    padded = all(len(date["d"]) == len(date["m"]) == 2 for date in dates)
    if any(date["mark"] != mark for date in dates):
        return None
    if clock is None:
        return TimeStyle(order, mark, padded) if not any(clocks) else None
    shown = [c for c in clocks if c is not None]
    if len(shown) < len(clocks) or len({c["zone"] is None for c in shown}) > 1:
        return None
    points = [c["point"] for c in shown if c["point"]]
    return TimeStyle(
        order,
        mark,
        padded,
        glue=clock["glue"],
        seconds=any(c["second"] is not None for c in shown),
        decimals=max(len(c["fraction"] or "") for c in shown),
        point=points[0] if points else ".",
        zone=clock["zone"] or "",
    )


def parsed_times(
    texts: Sequence[str], order: str | None = None
) -> tuple[np.ndarray, TimeStyle] | None:
    """Seconds since 1970 (in UTC, or as if there), and the manner of writing.

    Args:
        texts: of the column.
        order: of year, month and day, where the texts themselves do not tell it.

    Returns:
        None if the texts are not all times of one manner, or if day and month cannot be told
        apart.
    """
    # Most columns are no times, and their first text shows it.
    if not texts or not _order_is_possible(texts[0]):
        return None
    order = _order(texts) or order
    if order is None:
        return None
    dates: list[re.Match[str]] = []
    clocks: list[re.Match[str] | None] = []
    for text in texts:
        date = _DATES[order].match(text)
        clock = _CLOCK.fullmatch(text, date.end()) if date else None
        if date is None or (clock is None and date.end() < len(text)):
            return None
        dates.append(date)
        clocks.append(clock)
    style = _style(order, dates, clocks)
    if style is None:
        return None
    try:
        return np.array([_seconds(d, c) for d, c in zip(dates, clocks, strict=True)]), style
    except ValueError:
        return None


def _order_is_possible(text: str) -> bool:
    return any(pattern.match(text) for pattern in _DATES.values())
