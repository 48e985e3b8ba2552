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

__all__ = ["is_null", "native_type", "read_series", "values_for", "with_type"]

WIDE = (nw.Int128, nw.UInt128)  # numpy has no such integers
WORDS = (nw.String, nw.Categorical, nw.Enum)

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


def native_type(native: Any) -> Any:
    """The type of a column in its own library."""
    return native.type if hasattr(native, "type") else native.dtype


def is_null(native: Any) -> bool:
    """Whether a column has the type of columns that nothing is known about."""
    return str(native_type(native)).lower() == "null"


def with_type(native: Any, cells: Cells) -> Any:
    """The column with a type for these cells, if it has none."""
    if not is_null(native) or cells.storage not in TYPES:
        return native
    return nw.from_native(native, series_only=True).cast(TYPES[cells.storage]).to_native()


def _dtype(series: nw.Series) -> Any:
    """Narwhals' type; it does not know dates stored as milliseconds."""
    date = str(native_type(series.to_native())).startswith("date64")
    return nw.Date() if date else series.dtype


def _scale(series: nw.Series) -> int | None:
    """Digits after the point of decimals, which are the only types that have a scale."""
    return getattr(native_type(series.to_native()), "scale", None)


def read_series(
    native: Any, name: str, missing_values: tuple[Any, ...], dtype: str = ""
) -> Column:
    """A column in neutral form.

    Args:
        native: a series of polars or pandas, or a chunked array.
        name: of the column.
        missing_values: what counts as missing besides null and NaN.
        dtype: the name of the type, if it is not what the column itself says.
    """
    label = dtype or str(native_type(native))
    series = nw.from_native(native, series_only=True)
    missing = series.is_null().to_numpy()
    if is_null(native):
        nothing = np.full(len(missing), np.nan)
        column = number_column(name, nothing, missing, (), whole=False, dtype=label)
        return replace(column, typed=False)
    if series.dtype == nw.Boolean:
        values = series.fill_null(value=False).to_numpy()
        return boolean_column(name, values, missing, missing_values, dtype=label)
    numbers = _numbers(series)
    if numbers is not None:
        values, whole = numbers
        return number_column(name, values, missing, missing_values, whole=whole, dtype=label)
    if series.dtype in WORDS:
        return _read_words(series, name, missing_values, label)
    if series.dtype == nw.Time:
        # Only as nanoseconds are all times of day integers of one size.
        ticks = series.cast(nw.Time()).cast(nw.Int64()).fill_null(0).to_numpy()
        return tick_column(
            name, ticks, missing, missing_values, unit="ns", storage="clock", dtype=label
        )
    if _dtype(series) in (nw.Date, nw.Datetime, nw.Duration):
        return replace(read_array(series.to_numpy(), name, missing_values), dtype=label)
    return other_column(name, missing, dtype=label)


def _numbers(series: nw.Series) -> tuple[np.ndarray, bool] | None:
    """Numbers in their own precision, and whether they are whole; None for what is no number."""
    scale = _scale(series)
    if series.dtype in WIDE or scale is not None:
        return series.cast(nw.Float64()).to_numpy(), scale is None or scale <= 0
    if series.dtype.is_integer():
        return series.fill_null(0).to_numpy(), True
    return (series.to_numpy(), False) if series.dtype.is_float() else None


def _read_words(
    series: nw.Series, name: str, missing_values: tuple[Any, ...], label: str
) -> Column:
    """Text; categories, of which a Categorical of polars declares none; those of an Enum."""
    if series.dtype == nw.String:
        return read_text(series.to_numpy(), name, missing_values, label)
    if series.dtype == nw.Categorical:
        column = read_text(series.to_numpy(), name, missing_values, label)
        return replace(column, storage="category")
    words, levels = read_text(series.to_numpy(), name, (), label), series.dtype.categories
    codes = np.append(as_codes(np.array(words.levels, object), levels, name), -1)
    codes = codes[np.where(words.missing, -1, words.values).astype(np.int64)]
    return coded_column(name, "category", codes, levels, missing_values, dtype=label)


def values_for(native: Any, cells: Cells, name: str) -> list[Any] | np.ndarray:
    """The values of cells in a form of which the library can make its own type.

    Text and decimals are lists, times arrays of numpy's types, times of day integers.

    Raises:
        DataError: if no value fits the type.
    """
    series, values = nw.from_native(native, series_only=True), cells.values
    dtype, own = _dtype(series), native_type(native)
    if dtype == nw.Boolean:
        return as_booleans(values, name)
    if dtype.is_integer():
        integer = np.dtype(str(dtype).lower().replace("128", "64"))
        return as_whole_numbers(values, integer, name)
    if dtype.is_float():
        return as_numbers(values, name)
    if _scale(series) is not None:
        return as_decimals(cells, own.precision, own.scale, name)
    if dtype in WORDS:
        if dtype == nw.Enum:
            as_codes(values, dtype.categories, name)  # refuses what is no category
        return as_texts(values, name)
    if dtype == nw.Time:
        return ticks_of_day(as_finite(values, name), getattr(own, "unit", "ns"))
    if dtype in (nw.Date, nw.Datetime, nw.Duration):
        unit = "D" if dtype == nw.Date else dtype.time_unit
        kind = "timedelta64" if dtype == nw.Duration else "datetime64"
        return ticks_of(as_finite(values, name), unit).astype(f"{kind}[{unit}]")
    raise cannot_fill(name, str(own))
