"""What a table itself says about how far its imputations can be trusted."""

import numpy as np

from miwae.columns import is_sparse
from miwae.events import Event
from miwae.tabular._encoding import EncodedTable

FEW_ROWS = 50  # with fewer, hardly anything can be learned or checked
MUCH_MISSING = 0.5  # share of the cells of modelled columns
COPIES = 0.2  # share of the rows that are equal to an earlier one


def advice(table: EncodedTable) -> tuple[Event, ...]:
    """Events about columns with hardly any values, and about tables with little to learn from."""
    return (
        *_of_idle_conditions(table),
        *_of_sparse_columns(table),
        *_of_rows(table),
        *_of_columns(table),
    )


def _of_idle_conditions(table: EncodedTable) -> list[Event]:
    """Conditions that hold for none of the missing cells may be misspelt."""
    events = []
    for known, gap in zip(table.schema.columns, table.gaps, strict=True):
        n_missing = int(gap.missing.sum())
        if known.not_applicable and n_missing and not gap.n_not_applicable:
            text = (
                f"column {known.name!r}: the condition {known.not_applicable!r} holds for none of "
                "its missing cells, so that all of them apply: is it spelt as the table is?"
            )
            events.append(Event("role", known.name, n_missing, text))
    return events


def _of_sparse_columns(table: EncodedTable) -> list[Event]:
    events = []
    for name, gap in zip(table.schema.names, table.gaps, strict=True):  # constants, too
        missing, is_imputed, n_not_applicable = gap
        n_missing = int(np.count_nonzero(missing))
        n_observed = len(missing) - n_missing - n_not_applicable
        if not is_imputed or not is_sparse(n_observed, n_missing):
            continue
        text = (
            f"column {name!r} has a value in {n_observed} of {n_observed + n_missing} rows: what "
            "is imputed is hardly more than a guess; the role 'ignore' (--ignore) leaves it as it "
            "is"
        )
        events.append(Event("few values", name, n_observed, text))
    return events


def _of_rows(table: EncodedTable) -> list[Event]:
    n_rows, events = int(table.trainable.sum()), []
    if 0 < n_rows < FEW_ROWS:
        there = "there is only 1 row" if n_rows == 1 else f"there are only {n_rows} rows"
        text = f"{there} to learn from: what is imputed may be no better than the mean"
        events.append(Event("few values", None, n_rows, text))
    whole = table.x[table.observed.all(axis=1)]
    if n_rows < FEW_ROWS or not whole.size:
        return events
    n_copies = len(whole) - len(np.unique(whole, axis=0))
    if n_copies > COPIES * n_rows and table.x.shape[1] > 2:
        text = (
            f"{n_copies} of {n_rows} rows are equal to others in all modelled columns: if they "
            "are copies or repeated measurements, rows are not independent, held-out cells are "
            "easier than missing ones, and intervals are too short"
        )
        events.append(Event("dependent rows", None, n_copies, text))
    return events


def _of_columns(table: EncodedTable) -> list[Event]:
    n_cells, n_observed, events = table.observed.size, int(np.count_nonzero(table.observed)), []
    if n_observed < (1 - MUCH_MISSING) * n_cells:
        text = (
            f"{1 - n_observed / n_cells:.0%} of the cells of the modelled columns are missing: "
            "for statistics, n_models=10, bootstrap=True (--n-models 10 --bootstrap) tell how "
            "much that matters"
        )
        events.append(Event("few values", None, n_cells - n_observed, text))
    if len(table.schema.modelled) == 1:
        (position,) = table.schema.modelled
        name, gap = table.schema.names[position], table.gaps[position]
        if gap.is_imputed and gap.missing.any():
            text = (
                f"column {name!r} is the only one that is modelled: nothing says more about its "
                "missing cells than its mean or mode"
            )
            events.append(Event("few values", name, int(gap.missing.sum()), text))
    return events
