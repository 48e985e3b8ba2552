"""Numbers as people write them: $1,045.76, 1.0 %, 1,766."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

_CURRENCY = "[$€£¥]"
# By decimal mark; what separates thousands is another mark, an apostrophe or a space.
_NUMBERS = {
    mark: re.compile(
        rf"(?P<sign>[+-]?)(?P<prefix>(?:{_CURRENCY}\s?)?)(?P<inner>[+-]?)"
        rf"(?P<digits>0|[1-9]\d*|[1-9]\d{{0,2}}(?P<thousands>[{other}'\u00a0\u202f ])\d{{3}}"
        rf"(?:(?P=thousands)\d{{3}})*)(?P<fraction>(?:[{mark}]\d+)?)"
        rf"(?P<suffix>(?:\s?(?:%|{_CURRENCY}))?)",
        re.ASCII,
    )
    for mark, other in ((".", ","), (",", "."))
}


@dataclass(frozen=True)
class Dress:
    """What surrounds the digits of all numbers of a column."""

    prefix: str = ""  # "$", with the space after it
    suffix: str = ""  # "%" or "€", with the space before it
    thousands: str = ""  # between groups of three digits
    inner: bool = False  # the sign comes after the prefix

    def of(self, text: str, mark: str) -> str:
        """A plain number, dressed."""
        sign = "-" if text.startswith("-") else ""
        digits, point, fraction = text.lstrip("-").partition(mark)
        if self.thousands and digits.isdecimal():
            digits = f"{int(digits):,}".replace(",", self.thousands)
        before = self.prefix + sign if self.inner else sign + self.prefix
        return before + digits + point + fraction + self.suffix

    def off(self, text: str) -> str:
        """A number without its dress."""
        bare = text.replace(self.prefix, "", 1).replace(self.suffix, "", 1)
        return bare.replace(self.thousands, "") if self.thousands else bare


UNDRESSED = Dress()


class _Parts(NamedTuple):
    prefix: str
    suffix: str
    thousands: str | None  # None if there are too few digits to show it
    inner: bool | None  # None without a sign


def common_dress(texts: Sequence[str], mark: str, *, sure: bool) -> Dress | None:
    """What all texts have in common, if they are numbers of one format; otherwise None.

    Unless the decimal mark is `sure`, 1,766 might be between one and two.
    """
    found = [_NUMBERS[mark].fullmatch(text) for text in texts]
    if not found or not all(found):
        return None
    parts = [_parts(one) for one in found if one is not None]
    prefix, suffix = parts[0][:2]
    thousands = {part.thousands for part in parts} - {None}
    inner = {part.inner for part in parts} - {None}
    one_format = all((part.prefix, part.suffix) == (prefix, suffix) for part in parts)
    if not one_format or len(thousands) > 1 or len(inner) > 1:
        return None
    own = Dress(prefix, suffix, next(iter(thousands), None) or "", inner == {True})
    doubtful = own.thousands in (".", ",") and not sure
    if doubtful and not any(mark in text or text.count(own.thousands) > 1 for text in texts):
        return None
    return own


def _parts(found: re.Match[str]) -> _Parts:
    few = len(found["digits"]) <= 3
    signs = (found["sign"], found["inner"])
    inner = bool(signs[1]) if any(signs) else None
    return _Parts(
        found["prefix"], found["suffix"], None if few else found["thousands"] or "", inner
    )
