"""The table of any library, by an adapter that imports nothing the user has not imported."""

import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from miwae.errors import DataError
from miwae.table.base import AbstractTable
from miwae.table.frames.arrays import NumpyTable
from miwae.table.frames.arrow import ArrowTable
from miwae.table.frames.pandas import PandasTable
from miwae.table.frames.polars import PolarsTable

__all__ = ["ArrowTable", "NumpyTable", "PandasTable", "PolarsTable", "as_table"]

ADAPTERS: dict[tuple[str, str], Callable[[Any], AbstractTable]] = {
    ("pandas", "DataFrame"): PandasTable,
    ("polars", "DataFrame"): PolarsTable,
    ("pyarrow", "Table"): ArrowTable,
}

# What people pass instead of a table, and what to do about it.
REMEDIES: dict[tuple[str, str], str] = {
    ("pandas", "Series"): "pass series.to_frame()",
    ("polars", "LazyFrame"): "pass frame.collect()",
    ("polars", "Series"): "pass series.to_frame()",
    ("pyarrow", "RecordBatch"): "pass pyarrow.Table.from_batches([batch])",
    ("scipy.sparse", "sparray"): "pass array.toarray()",
    ("scipy.sparse", "spmatrix"): "pass matrix.toarray()",
}


def _is(frame: Any, library: str, name: str) -> bool:
    """Whether it is of a type of a library: if so, somebody has imported the library."""
    cls = getattr(sys.modules.get(library), name, None)
    return isinstance(cls, type) and isinstance(frame, cls)


def as_table(frame: Any) -> AbstractTable:
    """The adapter of a table.

    Args:
        frame: a pandas or polars DataFrame, a pyarrow Table, an array of two axes, or a table
            that is adapted already.

    Raises:
        DataError: if it is nothing of that kind, or two of its columns have the same name.
    """
    if isinstance(frame, AbstractTable):
        return frame
    if isinstance(frame, np.ndarray):
        return NumpyTable(frame)
    for (library, name), adapter in ADAPTERS.items():
        if _is(frame, library, name):
            return adapter(frame)
    cls = type(frame)
    remedy = "pass a pandas or polars DataFrame (often frame.to_pandas()), a pyarrow Table, or "
    remedy += "a numpy array of two axes"
    for (library, name), special in REMEDIES.items():
        if _is(frame, library, name):
            remedy = special
    raise DataError(f"{cls.__module__}.{cls.__qualname__} is not a table that is read: {remedy}")
