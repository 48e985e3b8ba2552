"""The columns of a table, read and understood: what learning and imputing start from."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Bool, Float, Int

from miwae.columns import Cells, Column, ColumnSchema, Schema
from miwae.events import Event


class _Gap(NamedTuple):
    """The missing cells of a column, and whether they will be imputed."""

    missing: Bool[np.ndarray, " N"]
    is_imputed: bool
    n_not_applicable: int  # further cells without a value, which do not apply


@final
@dataclass(frozen=True)
class EncodedTable:
    """The rows of a table on the scale of the model, and its missing cells."""

    schema: Schema  # what the columns are taken for
    x: Float[np.ndarray, "N D"]  # the modelled columns
    observed: Bool[np.ndarray, "N D"]  # where the model has a value
    # log dy/dx of the changes of scale, summed over the observed cells of a row.
    log_slope: Float[np.ndarray, " N"]
    gaps: tuple[_Gap, ...]  # for each column, its missing cells and whether they will be imputed
    events: tuple[Event, ...]  # values that the model cannot use, and cells that will stay missing

    @classmethod
    def of(
        cls, schema: Schema, columns: Sequence[Column], *, zeros_if_empty: bool = False
    ) -> "EncodedTable":
        """Put the modelled columns on the scale of the model.

        Raises:
            DataError: a column of another type than learned, or with infinite values.
        """
        n_rows = len(columns[0].missing) if columns else 0
        positions = schema.modelled
        x = np.zeros((n_rows, len(positions)), dtype=np.float32)
        observed = np.zeros(x.shape, dtype=bool)
        log_slope = np.zeros(n_rows)
        events: list[Event] = []
        for j, position in enumerate(positions):
            values, seen, slope, own = schema.columns[position].encoded(columns[position])
            x[seen, j] = values[seen]
            observed[:, j] = seen
            if slope is not None:
                log_slope[seen] += slope
            events += own
        gaps = []
        for known, read in zip(schema.columns, columns, strict=True):
            column = known.gaps(read, columns)
            known.require_room(column)
            events += known.not_filled(column, zeros_if_empty=zeros_if_empty)
            events += _new_type(known, column)
            is_imputed = known.is_imputed(column, zeros_if_empty=zeros_if_empty)
            gaps.append(_Gap(column.missing, is_imputed, read.n_missing - column.n_missing))
        return cls(schema, x, observed, log_slope, tuple(gaps), tuple(events))

    @property
    def n_rows(self) -> int:
        """Rows of the table."""
        return len(self.x)

    @property
    def needed(self) -> Bool[np.ndarray, " N"]:
        """Rows with a missing cell in a modelled column that is imputed."""
        needed = np.zeros(self.n_rows, dtype=bool)
        for position in self.schema.modelled:
            if self.gaps[position].is_imputed:
                needed |= self.gaps[position].missing
        return needed

    @property
    def used(self) -> Bool[np.ndarray, "N D"]:
        """Observed cells that others are imputed from: not those of targets."""
        return self.observed & ~np.isin(self.schema.modelled, self.schema.targets)

    @property
    def trainable(self) -> Bool[np.ndarray, " N"]:
        """Rows with an observed cell in a modelled column."""
        return np.asarray(self.observed.any(axis=1))


def _new_type(known: ColumnSchema, column: Column) -> tuple[Event, ...]:
    """An event about a column without values, whose type is that of nothing."""
    unlike = column.storage != known.storage and not column.typed
    if column.n_observed or not column.n_missing or not unlike or not known.kind.modelled:
        return ()
    text = (
        f"column {known.name!r} has no value here that would show its type: as it was learned, it "
        f"is completed as {known.storage}"
    )
    return (Event("type", known.name, column.n_missing, text),)


@final
class ImputedCells(Mapping[int, Cells]):
    """Imputed cells by position of the column; each column's are computed when asked for."""

    def __init__(
        self, table: EncodedTable, rows: Int[np.ndarray, " H"], values: Float[np.ndarray, "H D"]
    ) -> None:
        self._table, self._rows = table, rows
        self.scaled = values  # of these rows, on the scale of the model
        self._place = {position: j for j, position in enumerate(table.schema.modelled)}
        gaps = enumerate(table.gaps)
        self._positions = [i for i, gap in gaps if gap.is_imputed and gap.missing.any()]

    def __iter__(self) -> Iterator[int]:
        return iter(self._positions)

    def __len__(self) -> int:
        return len(self._positions)

    def __contains__(self, position: object) -> bool:
        return position in self._positions

    def __getitem__(self, position: int) -> Cells:
        if position not in self:
            raise KeyError(position)
        missing = self._table.gaps[position].missing
        rows = np.flatnonzero(missing)
        if position in self._place:
            y = self.scaled[missing[self._rows], self._place[position]]
        else:
            y = np.zeros(len(rows))
        return self._table.schema.columns[position].cells(rows, y)
