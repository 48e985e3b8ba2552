"""Which tables are read, and what to do about those that are not."""

import sys
from collections.abc import Mapping
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Bool, Int

from miwae.columns import check_names
from miwae.errors import DataError

# `Cells` by position of the column. The values are Any, since a check of types at run time would
# ask the mapping for one of them, and they can be expensive to compute.
CellsByColumn: TypeAlias = Mapping[int, Any]

# Indicators of missing cells, and numbers of copies and rows, by name.
NewColumns: TypeAlias = Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]]

FRAMES = {"numpy": "ndarray", "pandas": "DataFrame", "polars": "DataFrame", "pyarrow": "Table"}

# What people pass instead of a table, and what to do about it.
REMEDIES = {
    ("pandas", "Series"): "pass series.to_frame()",
    ("polars", "LazyFrame"): "pass frame.collect()",
    ("polars", "Series"): "pass series.to_frame()",
    ("pyarrow", "RecordBatch"): "pass pyarrow.Table.from_batches([batch])",
    ("scipy.sparse", "sparray"): "pass array.toarray()",
    ("scipy.sparse", "spmatrix"): "pass matrix.toarray()",
}


def is_frame(x: Any) -> bool:
    """Whether it is a table of some library, also of one that is not read."""
    # `collect` first: listing the columns of a lazy frame can be expensive.
    marks = ("collect", "column_names", "columns")
    return isinstance(x, Mapping) or any(hasattr(x, name) for name in marks)


def as_frame(x: Any) -> Any:
    """A frame of some library as it is, and an array of all that scikit-learn takes for one."""
    frame = checked(x if is_frame(x) else _as_array(x))
    n_rows, n_columns = frame.shape
    if not n_rows or not n_columns:
        raise DataError(
            f"Found array with {n_rows} sample(s) and {n_columns} feature(s) "
            f"(shape=({n_rows}, {n_columns})) while a minimum of 1 is required."
        )
    return frame


def _as_array(x: Any) -> np.ndarray:
    from sklearn.utils import check_array

    if isinstance(x, np.ma.MaskedArray):  # scikit-learn would read what is masked
        numbers = np.issubdtype(x.dtype, np.number) or x.dtype == np.bool_
        x = np.ma.filled(x.astype(np.float64 if numbers else object), np.nan)
    # Any dtype is kept, and any size: `as_frame` says what is wrong with an empty table.
    options: Any = {"dtype": None, "ensure_min_samples": 0, "ensure_min_features": 0}
    return np.asarray(check_array(x, ensure_all_finite=False, **options))


def checked(frame: Any) -> Any:
    """The same frame, if it is one that is read; a matrix of numpy as an array."""
    names(frame)
    return np.asarray(frame) if isinstance(frame, np.ndarray) else frame


def names(frame: Any) -> tuple[str, ...]:
    """The labels of the columns as text; x0, x1, ... for arrays."""
    library = library_of(frame)
    if library == "numpy":
        return tuple(f"x{position}" for position in range(frame.shape[1]))
    found = tuple(map(str, frame.column_names if library == "pyarrow" else frame.columns))
    check_names(found)
    return found


def library_of(frame: Any) -> str:
    """The library of a frame, which somebody has imported if there is such a frame."""
    for library, name in FRAMES.items():
        if _is(frame, library, name):
            if library == "numpy":
                _check_array(frame)
            return library
    cls = type(frame)
    remedy = "pass a pandas or polars DataFrame (often frame.to_pandas()), a pyarrow Table, or "
    remedy += "a numpy array of two axes"
    for (library, name), special in REMEDIES.items():
        if _is(frame, library, name):
            remedy = special
    raise DataError(f"{cls.__module__}.{cls.__qualname__} is not a table that is read: {remedy}")


def _is(frame: Any, library: str, name: str) -> bool:
    cls = getattr(sys.modules.get(library), name, None)
    return isinstance(cls, type) and isinstance(frame, cls)


def _check_array(array: np.ndarray) -> None:
    if isinstance(array, np.ma.MaskedArray):
        raise DataError("masked arrays are not read: pass array.filled(numpy.nan)")
    if array.dtype.names is not None:
        raise DataError("structured arrays are not read: pass pandas.DataFrame(array)")
    if array.dtype.kind == "c":
        raise DataError("Complex data not supported: pass real and imaginary parts as columns")
    if array.ndim != 2:
        raise DataError(
            f"a table needs an array of 2 axes, not {array.ndim}: use reshape(-1, 1) for a "
            "single column, reshape(1, -1) for a single row"
        )
