"""Kinds of columns: one class each."""

from miwae.columns.kinds._base import AbstractKind, Bounds
from miwae.columns.kinds._clock import Clock
from miwae.columns.kinds._coded import Coded
from miwae.columns.kinds._count import Count
from miwae.columns.kinds._instant import Instant
from miwae.columns.kinds._number import Number
from miwae.columns.kinds._points import Points
from miwae.columns.kinds._unmodelled import Constant, Empty, Skipped

# A column is of the first kind that recognises it.
KINDS_IN_ORDER = (Skipped, Empty, Constant, Coded, Instant, Clock, Count, Points, Number)

# The words that a user can give, and the class that each stands for.
LABELS: dict[str, type[AbstractKind]] = {
    **dict.fromkeys(("continuous", "positive", "bounded", "integer"), Number),
    "count": Count,
    **dict.fromkeys(("binary", "categorical", "ordinal"), Coded),
    "datetime": Instant,
    "clock": Clock,
    "constant": Constant,
    "empty": Empty,
    "identifier": Skipped,
}
