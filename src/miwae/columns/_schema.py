"""What each column of a table is taken for, and why."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from miwae._words import counted, visible
from miwae.columns._column import Cells, Column, Storage
from miwae.columns._conditions import checked_condition, holds
from miwae.columns._order import RowOrder
from miwae.columns._plausible import EVERYTHING, Range, plausible_range, without_impossible
from miwae.columns._summary import Summary, summarise
from miwae.columns._user_settings import (
    Role,
    by_position,
    checked_bounds,
    checked_role,
    require_kind,
)
from miwae.columns._values import TIMES, value_text
from miwae.columns.kinds import (
    KINDS_IN_ORDER,
    LABELS,
    Constant,
    Count,
    Empty,
    Instant,
    Number,
    Skipped,
)
from miwae.columns.kinds._base import AbstractKind, Bounds, Encoding, Limits, Recognised
from miwae.columns.kinds._number import outside
from miwae.columns.kinds._unmodelled import all_equal, is_row_number
from miwae.errors import DataError, SettingsError
from miwae.events import Event


@dataclass(frozen=True, kw_only=True)
class ColumnSchema:
    name: str
    kind: AbstractKind  # how it is encoded, modelled and decoded; `kind.label` is the word for it
    reason: str  # why, in words
    storage: Storage  # how the table stored it when it was learned
    example: str = ""  # a cell as the file wrote it; empty where the table has types
    specified: bool = False  # the user gave the kind
    plausible: Range = EVERYTHING  # numbers beyond are impossible, judged by all others
    role: Role = "both"  # whether it is used and imputed
    # Where this holds, missing cells do not apply: they are not imputed. "" for nowhere.
    not_applicable: str = ""

    def encoded(self, column: Column) -> Encoding:
        """New cells of the column on the scale of the model.

        Values that the model does not know (an unseen category, a zero where only positive numbers
        were seen, a number outside the bounds that were given or far beyond all others) are left
        out of it, and an event says so; the cells themselves stay as they are.
        """
        if not self.kind.modelled or not column.n_observed:
            return Encoding.nothing(len(column.missing))
        same_time = TIMES.get(self.storage) == TIMES.get(column.storage)
        if column.storage == "other" or not same_time or not self.kind.reads(column):
            raise self.wrong_type(column)
        usual, wild = without_impossible(column, self.plausible)
        encoding = self.kind.encoded(usual)
        return encoding._replace(events=(*wild, *encoding.events))

    def cells(self, rows: np.ndarray, y: Float[np.ndarray, " H"]) -> Cells:
        lower, upper = self.kind.limits
        values = self.kind.decoded(np.asarray(y, dtype=np.float64))
        return Cells(rows, values, lower, upper, self.storage, self.kind.levels)

    def is_imputed(self, column: Column, *, zeros_if_empty: bool) -> bool:
        """Whether missing cells are filled, by zeros where numbers had no value at all."""
        if self.role == "predictor":
            return False
        if isinstance(self.kind, Empty):
            return zeros_if_empty and column.storage in ("number", "boolean")
        return not isinstance(self.kind, Skipped)

    def gaps(self, column: Column, columns: Sequence[Column]) -> Column:
        """The column of a table without the missing cells that do not apply."""
        if not self.not_applicable:
            return column
        return replace(column, missing=column.missing & ~holds(self.not_applicable, columns))

    def event(self) -> Event:
        text = f"column {self.name!r} is {self.kind.label}: {self.reason}"
        return Event("kind", self.name, 1, text)

    def not_filled(self, column: Column, *, zeros_if_empty: bool) -> tuple[Event, ...]:
        """An event about a column whose missing cells stay missing."""
        n_missing = column.n_missing
        if not n_missing or self.is_imputed(column, zeros_if_empty=zeros_if_empty):
            return ()
        stay = counted(n_missing, "missing cell stays", "missing cells stay")
        if self.role in ("ignore", "predictor"):
            text = f"column {self.name!r} is {self._how_unfilled()}: its {stay} missing"
            return (Event("role", self.name, n_missing, text),)
        if isinstance(self.kind, Empty):
            text = f"column {self.name!r} has no observed cell: nothing is imputed"
            return (Event("empty", self.name, n_missing, text),)
        text = f"column {self.name!r} is not modelled: its {stay} missing"
        if column.n_observed and column.storage != "other":
            text += "; give its kind to have it imputed"
        return (Event("not filled", self.name, n_missing, text),)

    def _how_unfilled(self) -> str:
        """What a role makes of a column that is not imputed, in words."""
        if self.role == "ignore":
            return "ignored"
        if isinstance(self.kind, Skipped):
            return "not modelled, and predicts nothing"
        return "a predictor, which is not imputed"

    def require_room(self, column: Column) -> None:
        """Refuse, before long work, a column whose type cannot hold what will be imputed."""
        if isinstance(self.kind, Empty | Skipped) or not column.n_missing or not column.typed:
            return
        if TIMES.get(self.storage) != TIMES.get(column.storage):
            before = TIMES.get(self.storage, self.storage)
            remedy = f"convert it to {before}, or fit again"
            raise self._changed(f"is of type {column.dtype} here: {remedy}")
        values = (self.kind.value,) if isinstance(self.kind, Constant) else self.kind.levels
        has_text = any(isinstance(value, str) for value in values)
        if has_text and column.storage in ("number", "boolean", *TIMES):
            raise self.wrong_type(column)

    def wrong_type(self, column: Column) -> DataError:
        """What to raise for a column that holds something else than when it was learned."""
        what = f"{TIMES.get(column.storage, column.storage)} ({column.dtype})"
        if column.storage == "other":
            what = f"values of type {column.dtype}"
        elif column.n_observed:
            row = int(np.argmin(column.missing))
            what += f", such as {column.text(row)} in {column.place(row)}"
        times = TIMES.get(self.storage)
        remedy = f"convert it to {times}, or fit again" if times else "convert it"
        return self._changed(f"now holds {what}: {remedy}")

    def _changed(self, how: str) -> DataError:
        learned = f"learned as {self.kind.label} from {TIMES.get(self.storage, self.storage)}"
        return DataError(f"column {self.name!r} was {learned}, but {how}")


@dataclass(frozen=True)
class Schema:
    columns: tuple[ColumnSchema, ...]

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(column.name for column in self.columns)

    @property
    def modelled(self) -> tuple[int, ...]:
        """Positions of the columns that the model knows."""
        return tuple(i for i, column in enumerate(self.columns) if column.kind.modelled)

    @property
    def targets(self) -> tuple[int, ...]:
        """Positions of the columns that are imputed, but not used to impute others."""
        return tuple(i for i, column in enumerate(self.columns) if column.role == "target")

    @property
    def empty(self) -> tuple[int, ...]:
        return tuple(i for i, c in enumerate(self.columns) if isinstance(c.kind, Empty))

    @property
    def skipped(self) -> tuple[int, ...]:
        return tuple(i for i, c in enumerate(self.columns) if isinstance(c.kind, Skipped))

    def __str__(self) -> str:
        names = [visible(column.name) for column in self.columns]
        width = max(map(len, names), default=0)
        pairs = zip(names, self.columns, strict=True)
        lines = (f"{n:{width}}  {c.kind.label:11}  {visible(c.reason)}" for n, c in pairs)
        return "\n".join(lines)


def infer_schema(
    columns: Sequence[Column],
    *,
    column_kinds: Mapping[Any, Any] | None = None,
    bounds: Mapping[Any, Any] | None = None,
    roles: Mapping[Any, Any] | None = None,
    not_applicable: Mapping[Any, Any] | None = None,
    rest: Role = "both",
    summaries: Sequence[Summary] | None = None,
    orders: Sequence[RowOrder] | None = None,
) -> Schema:
    """Decide what each column is, by its storage and its observed cells.

    What the user knows better is given by name or position: `column_kinds`, where "ordinal:a<b<c"
    also gives the order of the levels, `bounds`, (lower, upper) with None for no limit, `roles`,
    and `not_applicable`, conditions such as "garage == 0" under which missing cells are not
    imputed. Columns without a role have that of the `rest`. The `summaries` and `orders` are of
    all rows, where `columns` has a sample of them.
    """
    names = [column.name for column in columns]
    kinds = by_position(names, column_kinds, "column_kinds")
    for position, kind in kinds.items():
        require_kind(names[position], kind)
    pairs = by_position(names, bounds, "bounds").items()
    limits = {position: checked_bounds(names[position], pair) for position, pair in pairs}
    given = by_position(names, roles, "roles").items()
    parts: dict[int, Role] = {
        position: checked_role(names[position], role) for position, role in given
    }
    given = by_position(names, not_applicable, "not_applicable").items()
    where = {position: checked_condition(names[position], c, names) for position, c in given}
    known = map(summarise, columns) if summaries is None else summaries
    steps = map(RowOrder.of, columns) if orders is None else orders
    both = enumerate(zip(columns, known, steps, strict=True))
    user = lambda i: (kinds.get(i), limits.get(i), parts.get(i), where.get(i))  # noqa: E731
    asked = lambda i: _Asked(*user(i))  # noqa: E731
    return Schema(tuple(_column_schema(*own, asked(i), rest) for i, own in both))


class _Asked(NamedTuple):
    """What the user says about a column; None for what is left to us."""

    kind: str | None
    bounds: Limits
    role: Role | None
    not_applicable: str | None


def _column_schema(
    column: Column, summary: Summary, order: RowOrder, user: _Asked, rest: Role
) -> ColumnSchema:
    asked, bounds, role, condition = user
    plausible = _plausible(column, asked, bounds)
    usual, _ = without_impossible(column, plausible)
    # Facts of all rows, unless one of them is impossible, whether it was sampled or not.
    is_usual = plausible[0] <= summary.lowest and summary.highest <= plausible[1]
    facts = summary if is_usual else summarise(usual)
    if role == "ignore":
        kind, reason, bounds = Skipped(), "ignored, as specified by the user", None
    elif not any(user) and is_row_number(column, summary, order):
        kind, reason = Skipped(), "row numbers: ignored; give it a kind or a role to have it used"
    elif asked is None:
        if column.storage in ("number", *TIMES):
            column.require_finite()
        found = (cls.recognised(usual, facts, bounds) for cls in KINDS_IN_ORDER)
        kind, reason = next(recognised for recognised in found if recognised is not None)
    else:
        kind, reason = _specified(asked, usual, facts, bounds)
    if bounds is not None:
        _require_within(column, kind, bounds)
    remark = kind.remark
    if asked is None and role in ("predictor", "target") and isinstance(kind, Skipped):
        remark = f"give its kind to have it used as a {role}"
    reason = f"{reason}; {remark}" if remark else reason
    return ColumnSchema(
        name=column.name,
        kind=kind,
        reason=reason,
        storage=column.storage,
        example=column.example,
        specified=asked is not None,
        plausible=plausible,
        role=role or rest,
        not_applicable=condition or "",
    )


def _plausible(column: Column, asked: str | None, bounds: Limits) -> Range:
    """Which numbers are possible; the user's bounds, and levels that she asks for, always are."""
    numbers = asked is None or LABELS[asked.partition(":")[0]] in (Number, Count, Instant)
    if not numbers or column.storage not in ("number", *TIMES):
        return EVERYTHING
    low, high = plausible_range(column.observed_values)
    lower, upper = bounds or (None, None)
    return -np.inf if lower is not None else low, np.inf if upper is not None else high


def _specified(asked: str, column: Column, summary: Summary, bounds: Limits) -> Recognised:
    """The kind that the user gave, unless there are too few values to show it."""
    label, _, order = asked.partition(":")
    kind = LABELS[label]
    if kind is Number and column.storage in TIMES:
        kind = Instant
    if kind.modelled or kind is Constant:
        if column.storage == "other":
            why = f"values of type {column.dtype} cannot be modelled; use 'identifier'"
            raise column.refusal(label, why)
        if column.n_observed == 0:
            return Recognised(Empty(), f"specified as {label}, but no cell is observed")
        if column.storage in ("number", *TIMES):
            column.require_finite()
    if order and summary.values is not None:
        column, summary = _ordered(column, summary, order)
    given = kind.specified(label, column, summary, bounds)
    if given.modelled and summary.n_distinct == 1:
        only = Constant.specified(label, column, summary, None)
        return Recognised(only, f"specified as {label}, but {all_equal(summary.n_observed)}")
    return Recognised(given, "specified by the user")


def _require_within(column: Column, kind: AbstractKind, bounds: Bounds) -> None:
    if isinstance(kind, Skipped) or column.storage != "number":
        raise SettingsError(
            f"bounds were given for column {column.name!r}, which is {kind.label}: only columns "
            "of numbers can have bounds"
        )
    beyond = np.flatnonzero(~column.missing & outside(column.values, bounds))
    if len(beyond):
        row, such = int(beyond[0]), counted(len(beyond), "such cell")
        raise DataError(
            f"column {column.name!r} has the value {column.text(row)} in {column.place(row)}, "
            f"outside its bounds {bounds} ({such}): "
            "correct it, mark it as missing, or widen the bounds"
        )


def _ordered(column: Column, summary: Summary, order: str) -> tuple[Column, Summary]:
    """The column as one of ordered categories, its values in the order that the user gave."""
    if column.storage not in ("text", "category"):
        raise SettingsError(
            f"column {column.name!r}: numbers have an order already, use 'ordinal'"
        )
    wanted = [level.strip() for level in order.split("<")]
    values = summary.values or ()
    words = [value_text(value) for value in values]
    # Where two values (1 and "1") have the same word, an order cannot tell them apart either.
    named_once = len(set(wanted)) == len(wanted) and len(set(words)) == len(words)
    if not named_once or not set(words) <= set(wanted):
        raise SettingsError(
            f"column {column.name!r}: the order {order!r} must name each of the values "
            f"{', '.join(words)} once"
        )
    place = [words.index(word) for word in wanted if word in words]
    categories = replace(column, storage="category", ordered=True)
    ordered, counts = tuple(values[i] for i in place), tuple(summary.counts[i] for i in place)
    return categories, replace(summary, values=ordered, counts=counts)
