"""The error for a kind that the observed cells contradict."""

import numpy as np
from jaxtyping import Bool

from miwae.columns._column import Column
from miwae.columns.kinds._base import cell_text
from miwae.errors import DataError


def refuse(
    column: Column, label: str, why: str, offending: Bool[np.ndarray, " N"] | None = None
) -> DataError:
    """What to raise for a column that cannot be of the kind that the user gave.

    Args:
        column: with its cells.
        label: of the kind.
        why: not.
        offending: True for cells that contradict the kind, of which the first is shown.
    """
    where = ""
    if offending is not None and (offending & ~column.missing).any():
        row = int(np.flatnonzero(offending & ~column.missing)[0])
        where = f" (row {row}: {cell_text(column, row)})"
    return DataError(f"column {column.name!r} cannot be {label}: {why}{where}")
