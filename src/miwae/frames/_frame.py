"""What can be done with a frame of any of the four libraries; nothing is changed in place."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import narwhals as nw
import numpy as np

from miwae.columns import Cells, Column, check_names
from miwae.frames._array import array_with_columns, completed_array, read_array
from miwae.frames._arrow import filled_arrow, read_arrow
from miwae.frames._checks import CellsByColumn, NewColumns, checked, library_of, names
from miwae.frames._series import read_series, values_for, with_type

READERS = {"numpy": read_array, "polars": read_series, "pyarrow": read_arrow}


def _pandas() -> Any:
    """The file for pandas, which is imported when there is a frame of it."""
    return importlib.import_module("miwae.frames._pandas")


def n_rows(frame: Any) -> int:
    return checked(frame).shape[0]


def columns(frame: Any, missing_values: tuple[Any, ...] = ()) -> list[Column]:
    """The columns in neutral form; the memory of numpy's floats is not copied.

    `missing_values` count as missing besides the library's own (null, NaN, NaT, None).
    """
    library, frame = library_of(frame), checked(frame)
    read = _pandas().read_pandas if library == "pandas" else READERS[library]
    if library == "numpy":
        series = frame.T
    else:
        series = (one.to_native() for one in _wide(frame).iter_columns())
    pairs = zip(series, names(frame), strict=True)
    return [read(one, name, missing_values) for one, name in pairs]


def _wide(frame: Any) -> nw.DataFrame[Any]:
    return nw.from_native(frame, eager_only=True)


def completed(frame: Any, cells: CellsByColumn) -> Any:
    """A copy with some cells replaced: all others bit for bit, with the same types and labels.

    A column without any value, of the type that its library gives to empty columns, gets a type
    that fits the cells. The cells of each column are asked for once, one after the other.
    """
    library, frame, labels = library_of(frame), checked(frame), names(frame)
    if library == "numpy":
        return completed_array(frame, cells)
    if library == "pandas":
        return _pandas().completed_pandas(frame, cells, labels)
    out = frame.clone() if library == "polars" else frame
    for position, part in cells.items():
        if library == "polars":
            out.replace_column(position, _filled_polars(frame.to_series(position), part))
        else:
            filled = filled_arrow(frame.column(position), part, labels[position])
            field = frame.schema.field(position).with_type(filled.type)
            out = out.set_column(position, field, filled)
    return out


def _filled_polars(series: Any, cells: Cells) -> Any:
    """Taken from the old values and the new ones below them, which copies any type exactly."""
    import polars as pl

    series = with_type(series, cells)
    values = pl.Series(values_for(series, cells, series.name), dtype=series.dtype)
    order = np.arange(len(series))
    order[cells.rows] = len(series) + np.arange(len(cells.rows))
    return pl.concat([series, values]).gather(order)


def with_columns(frame: Any, columns: NewColumns, *, first: bool) -> Any:
    """With further columns of flags or integers, before all others or after them."""
    library, frame = library_of(frame), checked(frame)
    if library == "numpy":
        return array_with_columns(frame, columns, first=first)
    check_names([*names(frame), *columns])
    if library == "pandas":
        return _pandas().pandas_with_columns(frame, columns, first=first)
    wide = _wide(frame)
    further = [nw.new_series(n, v, backend=wide.implementation) for n, v in columns.items()]
    order = np.arange(frame.shape[1] + len(further))
    order = np.roll(order, len(further)) if first else order
    return keep(wide.with_columns(*further).to_native(), order.tolist())


def of_columns(frame: Any, columns: Mapping[str, np.ndarray]) -> Any:
    """A frame of the same library, length and index, with these columns instead of its own."""
    library, frame = library_of(frame), checked(frame)
    if library == "numpy":
        return np.stack(list(columns.values()), axis=1) if columns else frame[:, :0]
    check_names(list(columns))
    if library == "pandas":
        return type(frame)(dict(columns), index=frame.index)
    if not columns:
        return _without_columns(library, n_rows(frame))
    return nw.from_dict(dict(columns), backend=_wide(frame).implementation).to_native()


def keep(frame: Any, positions: Sequence[int]) -> Any:
    library, frame = library_of(frame), checked(frame)
    if library == "numpy":
        return frame[:, list(positions)]
    if library == "pandas":
        return frame.iloc[:, list(positions)]
    if not positions:
        return _without_columns(library, n_rows(frame))
    return _wide(frame)[:, list(positions)].to_native()


def _without_columns(library: str, length: int) -> Any:
    """A frame of this length without columns; narwhals would lose the length."""
    if library == "polars":
        import polars as pl

        return pl.DataFrame(height=length)
    import pyarrow as pa

    return pa.table({"rows": pa.nulls(length)}).select([])


def renamed(frame: Any, names: Sequence[str]) -> Any:
    """With these names, where some labels are not text; labels of several levels stay."""
    if library_of(frame) != "pandas":
        return frame
    labels = frame.columns
    if labels.nlevels > 1 or all(isinstance(label, str) for label in labels):
        return frame
    return frame.set_axis(names, axis=1).rename_axis(columns=labels.name)


def stacked(frames: Sequence[Any]) -> Any:
    """Frames of the same columns, one below the other; rows of pandas are numbered from 0."""
    library = library_of(frames[0])
    if library == "numpy":
        return np.concatenate(frames)
    if library == "pandas":
        import pandas as pd

        return pd.concat(frames, ignore_index=True)
    if not frames[0].shape[1]:
        return _without_columns(library, sum(map(n_rows, frames)))
    return nw.concat([_wide(frame) for frame in frames], how="vertical").to_native()


def to_library(frame: Any, library: Literal["pandas", "polars"]) -> Any:
    """The frame in another library, with the types that are usual there; arrays stay arrays."""
    if library_of(frame) == "numpy":
        return frame
    return _wide(frame).to_pandas() if library == "pandas" else _wide(frame).to_polars()
