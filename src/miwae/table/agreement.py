"""Whether a table agrees with what was learned, and what to say of cells that stay missing."""

from collections.abc import Sequence

from miwae.errors import DataError
from miwae.table.base import TIMES, AbstractTable, Column
from miwae.table.encoding import wrong_type
from miwae.table.schema import CODED, ColumnSchema

__all__ = ["ambiguous_dates", "fixed_cells", "require_fillable", "require_names", "unfilled"]


def require_names(given: Sequence[str], known: Sequence[str], n_known: int) -> None:
    """The columns that were learned, in their order.

    Args:
        given: names in this table.
        known: names that were learned, none of columns that had none.
        n_known: how many columns were learned.

    Raises:
        DataError: names the columns that are absent, unknown or elsewhere.
    """
    if known and list(given) != list(known):
        absent = [name for name in known if name not in given]
        extra = [name for name in given if name not in known]
        what = ([f"lacks {', '.join(absent)}"] if absent else []) + (
            [f"has the unknown {', '.join(extra)}"] if extra else []
        )
        raise DataError(
            "the table "
            + (" and ".join(what) or "has its columns in another order")
            + f"; the model was fitted to {', '.join(known)}"
        )
    if len(given) != n_known:
        raise DataError(
            f"X has {len(given)} features, but MIWAEImputer is expecting "
            f"{n_known} features as input"
        )


def require_fillable(known: ColumnSchema, column: Column) -> None:
    """Refuse to fill a column with what it cannot hold.

    Raises:
        DataError: names the column and its types.
    """
    _require_room_for_text(known, column)
    _require_times(known, column)


def _require_room_for_text(known: ColumnSchema, column: Column) -> None:
    """Text, where no observed cell tells: a column of objects can hold it, others cannot."""
    values = (*known.levels, known.constant) if known.kind in (*CODED, "constant") else ()
    has_text = any(isinstance(value, str) for value in values) and column.dtype != "object"
    if has_text and column.missing.any() and column.storage in ("number", "boolean", *TIMES):
        raise wrong_type(known, column)


def _require_times(known: ColumnSchema, column: Column) -> None:
    """Times of the same sort, and none into what holds none."""
    filled = known.kind not in ("empty", "identifier") and column.missing.any()
    # Objects without any value can become durations and times of day; of an instant it would not
    # be known whether it is a date.
    if (
        column.dtype == "object"
        and known.storage in ("duration", "clock")
        and not column.n_observed
    ):
        return
    if filled and TIMES.get(known.storage) != TIMES.get(column.storage):
        before = TIMES.get(known.storage, known.storage)
        raise DataError(
            f"column {known.name!r} was learned as {known.kind} from {before}, but is of type "
            f"{column.dtype} here: convert it to {before}, or fit again"
        )


def ambiguous_dates(before: Column, column: Column, specimen: str) -> str | None:
    """What to say of dates that could be read in two ways, and were read as others before.

    Args:
        before: the column by itself: text, where its cells do not tell what they are.
        column: as it was read.
        specimen: of the column that was learned.
    """
    if not before.n_observed or (before.storage, column.storage) != ("text", "time"):
        return None
    return (
        f"column {column.name!r}: nothing in these rows tells whether the day or the month comes "
        f"first; read as learned, as in {specimen}; write all cells as 2024-12-31 to be sure"
    )


def unfilled(known: ColumnSchema, column: Column, *, keep_empty: bool) -> str | None:
    """What to say of a column that is not completed, if it is none."""
    n_missing = int(column.missing.sum())
    if known.kind == "identifier" and n_missing:
        modelled = column.n_observed and column.storage != "other"
        remedy = "; give its kind to have it imputed" if modelled else ""
        return (
            f"column {known.name!r} is not modelled: its {n_missing} missing cells stay "
            f"missing{remedy}"
        )
    if known.kind == "empty":
        what = "kept" if keep_empty else "dropped"
        return (
            f"column {known.name!r} has no observed cell: {what} "
            f"(keep_empty_features={keep_empty})"
        )
    return None


def fixed_cells(
    table: AbstractTable, position: int, known: ColumnSchema, column: Column
) -> list[str]:
    """What to say of missing cells that cannot be overwritten."""
    if known.kind in ("empty", "identifier"):
        return []  # of which nothing is filled
    counts = {
        what: int((where & column.missing).sum()) for what, where in table.fixed(position).items()
    }
    return [
        f"column {known.name!r}: {count} missing {'cell stays' if count == 1 else 'cells stay'} "
        f"missing, since {what} are not overwritten"
        for what, count in counts.items()
        if count
    ]
