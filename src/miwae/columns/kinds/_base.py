"""What every kind of column has to know."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Float

from miwae.columns._column import Column, Ends, Flags, Numbers
from miwae.columns._summary import Summary
from miwae.events import Event

# (lower, upper), None for no limit, as the user gave them.
Bounds: TypeAlias = tuple[float | None, float | None]
Limits: TypeAlias = Bounds | None  # None where the user gave none


class Family(NamedTuple):
    """What the observation model has to know of a column."""

    name: Literal["number", "count", "category", "ordinal", "points"]
    stretch: tuple[float, ...] = ()  # of a number on another scale, as `Scale.stretch` gives it
    values: Sequence[float] = ()  # that the column can take, where they are few
    shares: Sequence[float] = ()  # how often it takes them, roughly


class Encoding(NamedTuple):
    """A column as the model sees it."""

    # On the scale of the model; they mean nothing where `seen` is False.
    values: Float[np.ndarray, " N"]
    seen: Flags  # where the model has a value
    # log dy/dx of the change of scale, one per seen cell; None where values have probabilities.
    log_slope: Numbers | None = None
    events: tuple[Event, ...] = ()  # values that the model cannot use as they are

    @classmethod
    def nothing(cls, n_rows: int) -> "Encoding":
        return cls(np.zeros(n_rows), np.zeros(n_rows, dtype=bool))


class Recognised(NamedTuple):
    """A kind, and why a column is taken for it."""

    kind: "AbstractKind"
    reason: str


class AbstractKind(abc.ABC):
    """What a column is taken for: how it is recognised, encoded, modelled, decoded and bounded.

    A kind is a frozen dataclass whose fields are what it has learned of its column. To add one,
    subclass this, implement what is abstract, put the class into `KINDS_IN_ORDER`
    (columns/kinds/__init__.py) and a line into tests/columns/cases.py: the contract tests run on
    it.
    """

    modelled: ClassVar[bool] = True  # whether the model knows columns of this kind
    label: str  # the word for users: "positive", "ordinal", ...
    levels: tuple[Any, ...] = ()  # the values that cells can have, where these are levels
    lower: float | None = None  # no imputed number is below; None for no limit
    upper: float | None = None  # no imputed number is above; None for no limit

    @classmethod
    @abc.abstractmethod
    def recognised(cls, column: Column, summary: Summary, bounds: Limits) -> Recognised | None:
        """The kind of a column (or a sample of its rows) that looks like this one, None if not.

        Kinds are asked in the order of `KINDS_IN_ORDER`, each knowing that those before declined.
        The summary is of all rows.
        """

    @classmethod
    def specified(
        cls, label: str, column: Column, summary: Summary, bounds: Limits
    ) -> "AbstractKind":
        """The kind of a column that the user asks for by one of its `LABELS`, or a `DataError`."""
        raise NotImplementedError(f"{cls.__name__} has no label by which users can ask for it")

    def reads(self, column: Column) -> bool:
        """Whether new cells stored like this can be encoded."""
        return column.storage not in ("text", "category")

    @abc.abstractmethod
    def encoded(self, column: Column) -> Encoding:
        """The cells of a column on the scale of the model; a `DataError` if one is infinite."""

    @abc.abstractmethod
    def decoded(self, y: Numbers) -> np.ndarray:
        """Cells from values on the scale of the model: numbers, seconds, or levels."""

    @property
    @abc.abstractmethod
    def family(self) -> Family | None:
        """The observation model of the column; None if it is not modelled."""

    @property
    def remark(self) -> str:
        """How the column is modelled, shown after the reason for its kind; often empty."""
        return ""

    @property
    def unit(self) -> float:
        """The unit of Monte Carlo error on the scale of the model."""
        return 1.0

    @property
    def limits(self) -> tuple[float, float]:
        """What no imputed number may be below and above."""
        lower = -np.inf if self.lower is None else self.lower
        return lower, np.inf if self.upper is None else self.upper

    @property
    def period(self) -> float:
        """After which values repeat, as times of day do after 24 hours; mostly infinite."""
        return np.inf

    def amounts(self, values: Numbers) -> Numbers:
        """Cells as numbers of which differences and means make sense: of times, seconds."""
        return values

    def interval(self, limits: Ends, point: Float[np.ndarray, " N"]) -> Ends:
        """The ends of intervals from quantiles of the cells and their single imputation."""
        return limits


def level_array(levels: Sequence[Any]) -> np.ndarray:
    """Levels as an array that keeps them as they are: numbers as floats, others as objects."""
    if all(isinstance(level, float) for level in levels):
        return np.array(levels, dtype=np.float64)
    return np.fromiter(levels, object, len(levels))
