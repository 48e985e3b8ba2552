"""Columns as narwhals sees them: of polars, of pyarrow, and of pandas' extension types."""

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np
from jaxtyping import Int

from miwae import columns
from miwae.columns import Cells, Column, Marks
from miwae.frames._array import in_dtype, read_array

WIDE: tuple[Any, ...] = (nw.Int128, nw.UInt128)  # numpy has no such integers
WORDS: tuple[Any, ...] = (nw.String, nw.Categorical, nw.Enum)
INSTANTS: tuple[Any, ...] = (nw.Date, nw.Datetime, nw.Duration)

# What columns of the null type become, by the storage of their cells.
TYPES: dict[str, Any] = {
    "number": nw.Float64(),
    "boolean": nw.Boolean(),
    "text": nw.String(),
    "category": nw.String(),
    "time": nw.Datetime("us"),
    "duration": nw.Duration("us"),
    "clock": nw.Time(),
}


def _own_type(native: Any) -> Any:
    return native.type if hasattr(native, "type") else native.dtype


def dtype_of(native: Any) -> Any:
    """Narwhals' type of a column, also where narwhals does not know it; None for the null type."""
    own = _own_type(native)
    if hasattr(own, "scale"):  # only decimals have one, of any number of bits
        return nw.Decimal
    if str(own).startswith("date64"):
        return nw.Date
    if str(own) in ("halffloat", "Float16"):  # unknown to older versions
        return nw.Float32
    return None if str(own).lower() == "null" else nw.from_native(native, series_only=True).dtype


def with_type(native: Any, cells: Cells) -> Any:
    """The column with a type for these cells, if it is of the null type."""
    if dtype_of(native) is not None or cells.storage not in TYPES:
        return native
    return nw.from_native(native, series_only=True).cast(TYPES[cells.storage]).to_native()


def read_series(native: Any, name: str, marks: Marks, label: str = "") -> Column:
    """A column in neutral form; `label` is the name of its type, if it is not its own."""
    label, dtype = label or str(_own_type(native)), dtype_of(native)
    series = nw.from_native(native, series_only=True)
    if dtype in WORDS:
        storage = "text" if dtype == nw.String else "category"
        return columns.coded_column(name, storage, *_codes(native), marks, dtype=label)
    missing = series.is_null().to_numpy()
    if dtype == nw.Time:
        # Only as nanoseconds are all times of day integers of one size.
        ticks = series.cast(nw.Time()).cast(nw.Int64()).fill_null(0).to_numpy()
        return columns.tick_column(
            name, ticks, missing, marks, unit="ns", storage="clock", dtype=label
        )
    array = _as_array(series, dtype)
    if array is None:
        return columns.other_column(name, missing, dtype=label)
    column = read_array(array, name, marks, missing)
    whole = column.whole or dtype in WIDE or getattr(_own_type(native), "scale", 1) <= 0
    return replace(column, dtype=label, whole=whole, typed=dtype is not None)


def _codes(series: Any) -> tuple[Int[np.ndarray, " N"], list[str]]:
    """Codes, -1 for null, and levels of a column of polars."""
    # A Categorical declares no levels: its own are those of all columns.
    import polars as pl

    words = series.cast(pl.String)
    declared = series.dtype == pl.Enum
    levels = series.dtype.categories if declared else words.drop_nulls().unique().sort()
    codes = words.cast(pl.Enum(levels)).to_physical()
    return codes.cast(pl.Int64).fill_null(-1).to_numpy(), levels.to_list()


def _as_array(series: nw.Series, dtype: Any) -> np.ndarray | None:
    """Numbers, flags and instants in an array of their own precision, None for anything else."""
    if dtype is None:
        return np.full(len(series), np.nan)
    if dtype == nw.Boolean:
        return series.fill_null(value=False).to_numpy()
    if dtype in (*WIDE, nw.Decimal):
        return series.cast(nw.Float64()).to_numpy()
    if dtype.is_integer():
        return series.fill_null(0).to_numpy()
    return series.to_numpy() if dtype.is_float() or dtype in INSTANTS else None


def values_for(native: Any, cells: Cells, name: str) -> list[Any] | np.ndarray:
    """The values of cells in a form of which the library can make its own type."""
    values, dtype, own = cells.values, dtype_of(native), _own_type(native)
    if dtype == nw.Decimal:
        return columns.as_decimals(cells, own.precision, own.scale, name)
    if dtype in WORDS:
        if dtype == nw.Enum:
            columns.as_codes(values, dtype.categories, name)  # refuses what is no category
        return columns.as_texts(values, name)
    if dtype == nw.Time:
        unit = getattr(own, "unit", "ns")
        ticks = columns.ticks_of_day(columns.as_finite(values, name), unit)
        return ticks.astype(np.int32 if unit in ("s", "ms") else np.int64)
    if (similar := _numpy_type(dtype)) is None:
        raise columns.cannot_fill(name, str(own))
    return in_dtype(np.dtype(similar), values, name)


def _numpy_type(dtype: Any) -> str | None:
    """Numpy's name of the type, or of the widest like it."""
    if dtype == nw.Date:
        return "datetime64[D]"
    if dtype in INSTANTS:
        return f"{'timedelta64' if dtype == nw.Duration else 'datetime64'}[{dtype.time_unit}]"
    if dtype == nw.Boolean:
        return "bool"
    if dtype is None or not dtype.is_numeric():
        return None
    return str(dtype).lower().replace("128", "64") if dtype.is_integer() else "float64"
