"""One of several values: binary, categorical, ordinal."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, final

import numpy as np
from jaxtyping import Float

from miwae.columns._column import Column, Ends, Numbers
from miwae.columns._summary import MOST_DISTINCT, Summary
from miwae.columns._values import storage_of
from miwae.columns.kinds._base import (
    AbstractKind,
    Encoding,
    Family,
    Limits,
    Recognised,
    level_array,
)
from miwae.columns.kinds._number import short

# Two whole numbers in fewer cells than this are two numbers, not a choice of two.
FEWEST_BINARY = 5


@final
@dataclass(frozen=True, kw_only=True)
class Coded(AbstractKind):
    """One of several levels, which the model knows by their place."""

    label: str  # "binary", "categorical" or "ordinal"
    levels: tuple[Any, ...]  # that occur, in the column's own order

    @classmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """Booleans, text and categories that repeat, two whole numbers."""
        values, n_distinct = summary.values or (), summary.n_distinct
        what = "text" if column.storage == "text" else "categories"
        if column.storage == "boolean":
            label, reason = "binary", "true or false"
        elif column.storage == "number":
            few = summary.n_observed < FEWEST_BINARY or bounds is not None
            if not summary.is_whole or n_distinct != 2 or (few and values != (0.0, 1.0)):
                return None
            # Codes begin at 0 or 1; 2008 and 2009 are numbers, of which there are others.
            if not {-1.0, 0.0, 1.0} & set(values):
                return None
            label, reason = "binary", "two values, {} and {}".format(*map(short, values))
        elif column.storage not in ("text", "category"):
            return None
        elif n_distinct == 2:
            label, reason = "binary", f"{what} with two values"
        elif column.ordered:
            label, reason = "ordinal", f"ordered categories, {n_distinct} observed"
        else:
            label, reason = "categorical", f"{what} with {n_distinct} distinct values"
        return Recognised(cls(label=label, levels=values), reason)

    @classmethod
    def specified(cls, label: str, column: Column, summary: Summary, bounds: Limits) -> "Coded":
        """Any values of which there are not too many; text needs an order to be ordinal."""
        if summary.values is None:
            raise column.refusal(label, f"it has more than {MOST_DISTINCT} distinct values")
        if label == "binary" and summary.n_distinct > 2:
            raise column.refusal(label, f"it has {summary.n_distinct} distinct values, not 2")
        if label == "ordinal" and column.storage == "text":
            why = "text has no order; give it, as 'ordinal:low<middle<high'"
            raise column.refusal(label, why)
        return cls(label=label, levels=summary.values)

    def reads(self, column: Column) -> bool:
        """Numbers are read as levels where some level is a number."""
        is_text = column.storage in ("text", "category")
        return is_text or any(map(_is_number, self.levels))

    def encoded(self, column: Column) -> Encoding:
        codes = self._codes(column)
        new = ~column.missing & (codes < 0)
        events = column.unusable(new, "was not seen in fitting")
        return Encoding(codes, ~column.missing & ~new, None, events)

    def decoded(self, y: Numbers) -> np.ndarray:
        codes = np.clip(np.rint(y), 0, len(self.levels) - 1).astype(int)
        return level_array(self.levels)[codes]

    @property
    def family(self) -> Family:
        n = len(self.levels)
        name = "ordinal" if self.label == "ordinal" else "category"
        return Family(name, values=range(n), shares=[1 / n] * n)

    def interval(self, limits: Ends, point: Float[np.ndarray, " N"]) -> Ends:
        """Without an order, the most probable level is both ends."""
        if self.label == "ordinal":
            return limits
        return np.broadcast_to(point[None], limits.shape)

    def _codes(self, column: Column) -> Float[np.ndarray, " N"]:
        """The place of each value among the levels, -1 where it is none of them."""
        if column.storage in ("text", "category"):
            place_of = np.array(self._places(column.levels) or [-1.0])
            index = np.where(column.missing, 0, column.values).astype(int)
            return place_of[index]
        column.require_finite()
        known = np.where(column.missing, 0.0, column.values)
        distinct, inverse = np.unique(known, return_inverse=True)
        values = distinct.tolist()
        if column.storage == "boolean":
            values = [bool(value) for value in values]
        return np.array(self._places(values))[inverse]

    def _places(self, values: Sequence[Any]) -> list[float]:
        """The places of values among the levels, -1 where they are none of them.

        Values of the same type come first: 1, True and "1" are three levels where a column has all
        of them. Where it does not, flags are the numbers 0 and 1, and text is the number that it
        spells, since the same table can be stored in all these ways.
        """
        exact, loose = {}, {}
        for i, level in enumerate(self.levels):
            exact.setdefault(_exactly(level), float(i))
            if _is_number(level):
                loose.setdefault(level, []).append(float(i))
        spelled = all(_is_number(level) for level in self.levels)
        places = []
        for value in values:
            number = value if _is_number(value) else _spelled(value) if spelled else None
            similar = loose.get(number, [])
            places.append(exact.get(_exactly(value), similar[0] if len(similar) == 1 else -1.0))
        return places


def _exactly(level: Any) -> tuple[Any, Any]:
    """A key by which True and 1, which Python calls equal, are two levels."""
    return storage_of(type(level)), level


def _is_number(level: Any) -> bool:
    return storage_of(type(level)) in ("number", "boolean")


def _spelled(text: Any) -> float | None:
    try:
        return float(text) if isinstance(text, str) else None
    except ValueError:
        return None
