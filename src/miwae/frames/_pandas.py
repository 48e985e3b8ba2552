"""Tables of pandas: index and labels of any kind, and columns of numpy, pyarrow and its own.

The one file here that imports a library of frames: it is imported for frames of pandas only.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from miwae import columns
from miwae.columns import TIMES, Cells, Column, Marks
from miwae.errors import DataError
from miwae.frames._array import filled_array, read_array
from miwae.frames._arrow import filled_arrow, read_arrow
from miwae.frames._checks import CellsByColumn, NewColumns
from miwae.frames._series import read_series, values_for

# Replacing a column of a shallow copy splits the block that holds it, into up to three blocks.
# Pandas warns when a column is added to a frame of more than 100 blocks.
MOST_APART = 45


def read_pandas(series: Any, name: str, marks: Marks) -> Column:
    dtype, label = series.dtype, str(series.dtype)
    if isinstance(dtype, np.dtype):
        column = read_array(series.to_numpy(), name, marks)
        # Pandas makes floats of columns without any value.
        return column if dtype.kind != "f" or column.n_observed else replace(column, typed=False)
    if isinstance(dtype, pd.SparseDtype):
        dense = read_pandas(series.sparse.to_dense(), name, marks)
        return replace(dense, dtype=label, typed=True)
    if isinstance(dtype, pd.PeriodDtype):
        column = read_array(_starts(series), name, marks)
        return replace(column, dtype=label, typed=True)
    if isinstance(dtype, pd.ArrowDtype):
        return read_arrow(_chunked(series), name, marks, label)
    if isinstance(dtype, pd.CategoricalDtype):
        found = series.cat.codes.to_numpy(), dtype.categories.tolist(), marks
        ordered = bool(dtype.ordered)
        return columns.coded_column(name, "category", *found, ordered=ordered, dtype=label)
    if isinstance(dtype, pd.StringDtype):
        codes, words = pd.factorize(series.array)
        found = columns.sorted_levels(codes, words.tolist())
        return columns.coded_column(name, "text", *found, marks, dtype=label)
    return read_series(series, name, marks)


def _starts(series: Any) -> np.ndarray:
    """The instants at which periods begin."""
    return series.dt.to_timestamp().to_numpy()


def _chunked(series: Any) -> Any:
    import pyarrow as pa

    data = series.array.__arrow_array__()
    return data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])


def completed_pandas(frame: Any, cells: CellsByColumn, names: Sequence[str]) -> Any:
    """A copy with some cells replaced, and the same index, labels, types and attributes."""
    # From version 3 on, pandas copies what two frames have in common when one is written to.
    deep = len(cells) > MOST_APART or int(pd.__version__.partition(".")[0]) < 3
    out = frame.copy(deep=deep)
    for position, part in cells.items():
        own = frame.iloc[:, position]
        filled = _filled(_with_type(own, part, names[position]), part, names[position])
        if isinstance(filled, np.ndarray) and filled.dtype == own.dtype:
            # Written into the memory of the copy. Pandas refuses a numpy array of a single time.
            out.iloc[:, position] = pd.array(filled) if filled.dtype.kind in "Mm" else filled
        else:
            # The type is given, or pandas would turn objects that are all text into text.
            out.isetitem(position, pd.Series(filled, index=frame.index, dtype=filled.dtype))
    return out


def _with_type(series: Any, cells: Cells, name: str) -> Any:
    """The column with a type for these cells, if it has no other value and no declared type.

    Such columns are floats or objects. Objects can hold everything, but instants get a type.
    """
    kind = series.dtype.kind if isinstance(series.dtype, np.dtype) else ""
    dtype = _type_for(cells)
    if dtype is None or not (kind == "f" or (kind == "O" and cells.storage == "time")):
        return series
    if pd.isna(np.delete(series.to_numpy(), cells.rows)).all():
        return pd.Series([None] * len(series), index=series.index, dtype=dtype)
    if kind == "f" and cells.storage in TIMES:
        raise columns.cannot_fill(name, str(series.dtype))
    return series


def _type_for(cells: Cells) -> Any:
    """The type of this version of pandas for such values, None for numbers and flags."""
    if cells.storage in ("text", "category"):
        words = {isinstance(value, str) for value in cells.levels or cells.values.tolist()}
        # Text is of type str, or object; categories can be numbers.
        return pd.Series(["a"]).dtype if words == {True} else object if True in words else None
    examples = {"time": pd.Timestamp(0), "duration": pd.Timedelta(0)}
    if cells.storage in examples:
        return pd.Series([examples[cells.storage]]).dtype
    return object if cells.storage == "clock" else None


def _filled(series: Any, cells: Cells, name: str) -> Any:
    dtype = series.dtype
    if isinstance(dtype, np.dtype):
        return filled_array(series.to_numpy(), cells, name)
    if isinstance(dtype, pd.SparseDtype):
        dense = _filled(series.sparse.to_dense(), cells, name)
        try:
            return pd.Series(dense).astype(dtype).array
        except (TypeError, ValueError) as error:
            raise DataError(
                f"column {name!r} of type {dtype} cannot be filled: make it dense by "
                "Series.sparse.to_dense()"
            ) from error
    if isinstance(dtype, pd.PeriodDtype):
        filled = filled_array(_starts(series), cells, name)
        return pd.Series(filled).dt.to_period(dtype.freq).array
    if isinstance(dtype, pd.ArrowDtype):
        return pd.arrays.ArrowExtensionArray(filled_arrow(_chunked(series), cells, name))
    if isinstance(dtype, pd.CategoricalDtype):
        dtype = _with_levels(dtype, cells)
        codes = series.cat.codes.to_numpy().astype(np.int64)
        codes[cells.rows] = columns.as_codes(cells.values, dtype.categories.tolist(), name)
        return pd.Categorical.from_codes(codes, dtype=dtype)
    values, array = values_for(series, cells, name), series.array.copy()
    zoned = isinstance(dtype, pd.DatetimeTZDtype)
    array[cells.rows] = (
        pd.DatetimeIndex(values).tz_localize("UTC") if zoned else pd.array(values, dtype=dtype)
    )
    return array


def _with_levels(dtype: Any, cells: Cells) -> Any:
    """The type with the learned levels that it lacks, after its own.

    All of them, so that the type does not depend on which level is drawn. Nothing is added to
    ordered levels, since the place of a new one is unknown.
    """
    known = dtype.categories.tolist()
    lacking = [level for level in cells.levels if level not in known]
    if dtype.ordered or not lacking:
        return dtype
    try:
        more = pd.Index(lacking, dtype=dtype.categories.dtype if known else None)
    except (TypeError, ValueError):  # words beside numbers: refused if one of them is drawn
        return dtype
    return pd.CategoricalDtype(dtype.categories.append(more))


def pandas_with_columns(frame: Any, more: NewColumns, *, first: bool) -> Any:
    """With further columns; where labels have several levels, the name is the first of them."""
    if not more:
        return frame.copy()
    further = pd.DataFrame(dict(more), index=frame.index)
    if frame.columns.nlevels > 1:
        blank = ("",) * (frame.columns.nlevels - 1)
        labels = [(name, *blank) for name in more]
        further.columns = pd.MultiIndex.from_tuples(labels, names=frame.columns.names)
    # At once: columns that are inserted one by one are stored one by one.
    out = pd.concat([further, frame] if first else [frame, further], axis=1)
    out.columns = out.columns.set_names(frame.columns.names)
    out.attrs = dict(frame.attrs)
    return out
