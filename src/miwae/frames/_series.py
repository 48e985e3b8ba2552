"""Columns as narwhals sees them: of polars, of pyarrow, and of pandas' extension types."""

from dataclasses import replace
from typing import Any

import narwhals as nw
import numpy as np

from miwae.columns import (
    Cells,
    Column,
    as_booleans,
    as_codes,
    as_decimals,
    as_finite,
    as_numbers,
    as_texts,
    as_whole_numbers,
    boolean_column,
    cannot_fill,
    coded_column,
    number_column,
    other_column,
    tick_column,
    ticks_of,
    ticks_of_day,
)
from miwae.frames._array import read_array, read_text

__all__ = ["dtype_of", "read_series", "values_for", "with_type"]

WIDE = (nw.Int128, nw.UInt128)  # numpy has no such integers
WORDS = (nw.String, nw.Categorical, nw.Enum)
INSTANTS = (nw.Date, nw.Datetime, nw.Duration)

# For columns of the type that a library gives to nothing.
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
    """The type of a column in narwhals' terms, and of all that narwhals does not know.

    None is the type of columns that nothing is known about.
    """
    own = _own_type(native)
    if hasattr(own, "scale"):  # as decimals have, of any number of bits
        return nw.Decimal
    if str(own).startswith("date64"):
        return nw.Date
    return None if str(own).lower() == "null" else nw.from_native(native, series_only=True).dtype


def with_type(native: Any, cells: Cells) -> Any:
    """The column with a type for these cells, if it has none."""
    if dtype_of(native) is not None or cells.storage not in TYPES:
        return native
    return nw.from_native(native, series_only=True).cast(TYPES[cells.storage]).to_native()


def read_series(
    native: Any, name: str, missing_values: tuple[Any, ...], label: str = ""
) -> Column:
    """A column in neutral form.

    Args:
        native: a series of polars or pandas, or a chunked array.
        name: of the column.
        missing_values: what counts as missing besides null and NaN.
        label: the name of the type, if it is not what the column itself says.
    """
    label, dtype = label or str(_own_type(native)), dtype_of(native)
    series = nw.from_native(native, series_only=True)
    missing = series.is_null().to_numpy()
    if dtype is None:
        nothing = np.full(len(missing), np.nan)
        column = number_column(name, nothing, missing, (), whole=False, dtype=label)
        return replace(column, typed=False)
    if dtype == nw.Boolean:
        values = series.fill_null(value=False).to_numpy()
        return boolean_column(name, values, missing, missing_values, dtype=label)
    if dtype.is_numeric():
        values, whole = _numbers(series, dtype)
        return number_column(name, values, missing, missing_values, whole=whole, dtype=label)
    if dtype == nw.Enum:
        codes = nw.from_native(native.to_physical(), series_only=True)
        codes = codes.cast(nw.Int64()).fill_null(-1).to_numpy()
        levels = dtype.categories
        return coded_column(name, "category", codes, levels, missing_values, dtype=label)
    if dtype in WORDS:  # a Categorical of polars declares no categories
        column = read_text(series.to_numpy(), name, missing_values, label)
        return replace(column, storage="text" if dtype == nw.String else "category")
    if dtype == nw.Time:
        # Only as nanoseconds are all times of day integers of one size.
        ticks = series.cast(nw.Time()).cast(nw.Int64()).fill_null(0).to_numpy()
        return tick_column(
            name, ticks, missing, missing_values, unit="ns", storage="clock", dtype=label
        )
    if dtype in INSTANTS:
        return replace(read_array(series.to_numpy(), name, missing_values), dtype=label)
    return other_column(name, missing, dtype=label)


def _numbers(series: nw.Series, dtype: Any) -> tuple[np.ndarray, bool]:
    """Numbers in their own precision, if numpy has it, and whether they are whole."""
    if dtype == nw.Decimal:
        return series.cast(nw.Float64()).to_numpy(), _own_type(series.to_native()).scale <= 0
    if dtype in WIDE:
        return series.cast(nw.Float64()).to_numpy(), True
    return (series.fill_null(0) if dtype.is_integer() else series).to_numpy(), dtype.is_integer()


def values_for(native: Any, cells: Cells, name: str) -> list[Any] | np.ndarray:
    """The values of cells in a form of which the library can make its own type.

    Text and decimals are lists, times arrays of numpy's types, times of day integers.

    Raises:
        DataError: if no value fits the type.
    """
    values, dtype, own = cells.values, dtype_of(native), _own_type(native)
    if dtype == nw.Boolean:
        return as_booleans(values, name)
    if dtype == nw.Decimal:
        return as_decimals(cells, own.precision, own.scale, name)
    if dtype is not None and dtype.is_integer():
        integer = np.dtype(str(dtype).lower().replace("128", "64"))
        return as_whole_numbers(values, integer, name)
    if dtype is not None and dtype.is_float():
        return as_numbers(values, name)
    if dtype in WORDS:
        if dtype == nw.Enum:
            as_codes(values, dtype.categories, name)  # refuses what is no category
        return as_texts(values, name)
    if dtype == nw.Time:
        return ticks_of_day(as_finite(values, name), getattr(own, "unit", "ns"))
    if dtype in INSTANTS:
        unit = "D" if dtype == nw.Date else dtype.time_unit
        kind = "timedelta64" if dtype == nw.Duration else "datetime64"
        return ticks_of(as_finite(values, name), unit).astype(f"{kind}[{unit}]")
    raise cannot_fill(name, str(own))
