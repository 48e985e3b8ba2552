"""How a column writes its cells: learned from the observed ones, used for the imputed ones."""

import math
from dataclasses import dataclass
from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float

from miwae.columns import Cells
from miwae.documents._dress import UNDRESSED, Dress
from miwae.documents._times import TimeFormat
from miwae.errors import DataError

# Digits of numbers in columns that write exponents, or that have no numbers to imitate.
DIGITS = 6

# Decimal digits that float64 keeps. Later ones are rounding errors of the program that wrote the
# file, which had 26.69543 and wrote 26.695430000000002.
SURE_DIGITS = 15

# Whole numbers below are written in full; float64 does not have all of those above.
MOST_WHOLE = 2.0**53

# float64 has no digits further after the decimal mark. A cell may show more, but imitating
# 100,000 of them in each imputed cell would take quadratic time.
MOST_DECIMALS = 324

# Rounds to the sure digits; by default numbers of a million digits would be too large.
_SURE = Context(prec=SURE_DIGITS, Emax=MAX_EMAX, Emin=MIN_EMIN)

# An instant in which no two parts are equal: 1999-03-25 09:45:30.123456.
_INSTANT = 922355130.123456


@dataclass(frozen=True)
class NumberFormat:
    """How a column writes numbers: digits after the decimal mark, and whether with exponents."""

    decimals: int = 0
    exponent: bool = False
    mark: str = "."
    dress: Dress = UNDRESSED  # currency, per cent, thousands

    def text(self, value: Any, lower: float = -np.inf, upper: float = np.inf) -> str:
        """A number, rounded to what the column shows, but not across its bounds."""
        number = float(value)
        if not np.isfinite(number):
            raise DataError(f"cannot fill a cell with {number}")
        text = self._rounded(number)
        if not lower <= float(text) <= upper:
            inwards = 1 if float(text) < lower else -1
            text = self._rounded(float(text) + inwards * self._step(number))
        if not lower <= float(text) <= upper:
            text = f"{Decimal(repr(number)):f}"  # the bounds are closer than the last digit
        if text.startswith("-") and float(text) == 0:
            text = text[1:]
        return self.dress.of(text.replace(".", self.mark), self.mark)

    def plain(self, text: str) -> str:
        """A cell as Python writes numbers."""
        return self.dress.off(text).replace(self.mark, ".")

    def _rounded(self, number: float) -> str:
        if not self.exponent:
            return f"{number:.{min(self.decimals, MOST_DECIMALS)}f}"
        whole = number.is_integer() and abs(number) < MOST_WHOLE
        return f"{number:.0f}" if whole else f"{number:.{DIGITS}g}"

    def _step(self, number: float) -> float:
        """One in the last digit that is written."""
        first = math.floor(math.log10(abs(number))) if self.exponent and number else 0
        return 10.0 ** (first + 1 - DIGITS if self.exponent else -self.decimals)


def decimals_of(text: str) -> int:
    """How many digits after its point a number without exponent shows, but no rounding errors."""
    decimals = len(text.partition(".")[2])
    if len(text) <= SURE_DIGITS or not decimals:
        return decimals
    rounded = _SURE.create_decimal(text)
    if rounded.compare(Decimal(text)) == 0:
        return decimals
    return max(0, -int(rounded.normalize(_SURE).as_tuple().exponent))


def most_decimals(cells: np.ndarray, values: Float[np.ndarray, " C"]) -> int:
    """The most of `decimals_of`, for many cells (of bytes) at once, and the numbers they are."""
    lengths, points = np.strings.str_len(cells), np.strings.find(cells, b".")
    decimals = np.where(points < 0, 0, lengths - points - 1)
    long = (lengths > SURE_DIGITS) & (points >= 0)
    most = int(decimals[~long].max(initial=0))
    cells, decimals = cells[long], decimals[long]
    with np.errstate(divide="ignore"):
        sure = SURE_DIGITS - 1 - np.floor(np.log10(np.abs(values[long])))
    # Zeros at the end are shown in all cells of a column, and no rounding errors.
    at_most = np.where(np.strings.endswith(cells, b"0"), decimals, np.minimum(decimals, sure))
    for place in np.argsort(-at_most):
        if at_most[place] <= most:
            break
        most = max(most, decimals_of(bytes(cells[place]).decode()))
    return most


@dataclass(frozen=True)
class BooleanFormat:
    words: tuple[str, str]

    def text(self, value: Any, lower: float = -np.inf, upper: float = np.inf) -> str:
        return self.words[int(bool(value))]


CellFormat: TypeAlias = NumberFormat | BooleanFormat | TimeFormat

# Of columns that show none: a number in a column of text is written with few digits.
NO_FORMAT = NumberFormat(exponent=True)


def cell_texts_of(cells: Cells, form: CellFormat) -> list[str]:
    """Imputed values as a column writes them; levels are text already."""
    values = cells.values.tolist()
    return [v if isinstance(v, str) else form.text(v, cells.lower, cells.upper) for v in values]


def example_of(form: CellFormat) -> str:
    """A cell from which the format of a column can be read again."""
    if isinstance(form, NumberFormat) and form.dress != UNDRESSED:
        return form.text(1234567.5)
    if not isinstance(form, TimeFormat):
        return form.text(1.5e-7)
    if not form.has_date:
        return form.text(_INSTANT % 86400)
    # A day above 12 cannot be a month; where the month has a name, a day below 10 shows padding.
    return form.text(_INSTANT - 20 * 86400 if form.month else _INSTANT)
