"""Tables of pandas."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Int

from miwae.errors import DataError
from miwae.table.base import AbstractTable, Column, Fill
from miwae.table.frames.arrays import fill_array, read_array
from miwae.table.frames.arrow import fill_arrow, read_arrow
from miwae.table.frames.shared import (
    booleans,
    check_names,
    codes_of,
    column_of_booleans,
    column_of_codes,
    column_of_numbers,
    column_of_others,
    numbers_of,
    refuse_fill,
    sorted_levels,
    texts,
    whole_numbers,
)

__all__ = ["PandasTable"]

# Columns stored one by one, beyond which pandas warns whoever adds another.
MOST_APART = 90


def _is_masked(series: Any) -> bool:
    """Whether its type is one of Int64, Float64, boolean and their kin."""
    import pandas as pd

    masked = (pd.arrays.IntegerArray, pd.arrays.FloatingArray, pd.arrays.BooleanArray)
    return isinstance(series.array, masked)


def _read(series: Any, name: str, missing_values: tuple[Any, ...]) -> Column:
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        return _named(_read(series.sparse.to_dense(), name, missing_values), dtype)
    if isinstance(dtype, np.dtype):
        return read_array(series.to_numpy(), name, missing_values)
    if isinstance(dtype, pd.DatetimeTZDtype):
        utc = series.array.tz_convert(None).to_numpy()
        return _named(read_array(utc, name, missing_values), dtype)
    if isinstance(dtype, pd.ArrowDtype):
        return read_arrow(_chunked(series), name, missing_values, str(dtype))
    if isinstance(dtype, pd.CategoricalDtype):
        codes, levels = series.cat.codes.to_numpy(), dtype.categories.tolist()
        ordered = bool(dtype.ordered)
        return column_of_codes(
            name, "category", codes, levels, missing_values, ordered=ordered, dtype=str(dtype)
        )
    if isinstance(dtype, pd.StringDtype):
        codes, words = pd.factorize(series.array)
        codes, levels = sorted_levels(codes, words.tolist())
        return column_of_codes(name, "text", codes, levels, missing_values, dtype=str(dtype))
    if _is_masked(series):
        return _read_masked(series, name, missing_values)
    return column_of_others(name, series.isna().to_numpy(), dtype=str(dtype))


def _named(column: Column, dtype: Any) -> Column:
    """The column under the name of the type that it has in the table."""
    return replace(column, dtype=str(dtype))


def _read_masked(series: Any, name: str, missing_values: tuple[Any, ...]) -> Column:
    dtype, missing = series.dtype, series.isna().to_numpy()
    # Anything can stand for the missing cells here, and 0 is a value of all three.
    values = series.array.to_numpy(dtype.numpy_dtype, na_value=dtype.type(0))
    if dtype.kind == "b":
        return column_of_booleans(name, values, missing, missing_values, dtype=str(dtype))
    return column_of_numbers(
        name, values, missing, missing_values, whole=dtype.kind != "f", dtype=str(dtype)
    )


def _chunked(series: Any) -> Any:
    """The data of a column that pyarrow holds."""
    import pyarrow as pa

    data = series.array.__arrow_array__()
    return data if isinstance(data, pa.ChunkedArray) else pa.chunked_array([data])


def _filled(series: Any, fill: Fill, name: str) -> Any:
    """A series of the same type and index with some cells replaced."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.SparseDtype):
        return _filled_sparse(series, fill, name)
    if isinstance(dtype, np.dtype):
        array = fill_array(series.to_numpy(), fill, name)
    elif isinstance(dtype, pd.DatetimeTZDtype):
        utc = fill_array(series.array.tz_convert(None).to_numpy(), fill, name)
        array = pd.DatetimeIndex(utc).tz_localize("UTC").tz_convert(dtype.tz).array
    elif isinstance(dtype, pd.ArrowDtype):
        array = pd.arrays.ArrowExtensionArray(fill_arrow(_chunked(series), fill, name))
    elif isinstance(dtype, pd.CategoricalDtype):
        dtype = _with_levels(dtype, fill)
        codes = series.cat.codes.to_numpy().astype(np.int64)
        codes[fill.rows] = codes_of(fill.values, dtype.categories.tolist(), name)
        array = pd.Categorical.from_codes(codes, dtype=dtype)
    else:
        array = series.array.copy()
        array[fill.rows] = pd.array(_in_dtype(series, fill.values, name), dtype=dtype)
    # The type is named, or objects that are all text would become text.
    return pd.Series(array, index=series.index, dtype=dtype)


def _with_levels(dtype: Any, fill: Fill) -> Any:
    """With the levels that were learned, after those of a few rows that happened to lack some.

    All of them, so that the type does not depend on which of them is drawn. Where levels have an
    order, it is not known where others belong.
    """
    import pandas as pd

    known = dtype.categories.tolist()
    lacking = [level for level in fill.levels if level not in known]
    if dtype.ordered or not lacking:
        return dtype
    try:
        more = pd.Index(lacking, dtype=dtype.categories.dtype if known else None)
    except (TypeError, ValueError):  # words beside numbers: whoever needs one will be told
        return dtype
    return pd.CategoricalDtype(dtype.categories.append(more))


def _filled_sparse(series: Any, fill: Fill, name: str) -> Any:
    dense = _filled(series.sparse.to_dense(), fill, name)
    try:
        return dense.astype(series.dtype)
    except (TypeError, ValueError) as error:
        raise DataError(
            f"column {name!r} of type {series.dtype} cannot be filled: make it dense by "
            "Series.sparse.to_dense()"
        ) from error


def _in_dtype(series: Any, values: np.ndarray, name: str) -> Any:
    """The values for one of pandas' own types of one value per cell."""
    import pandas as pd

    dtype = series.dtype
    if isinstance(dtype, pd.StringDtype):
        return texts(values, name)
    if not _is_masked(series):
        raise refuse_fill(name, str(dtype))
    if dtype.kind == "b":
        return booleans(values, name)
    if dtype.kind in "iu":
        return whole_numbers(values, dtype.numpy_dtype, name)
    return numbers_of(values, name)


@final
class PandasTable(AbstractTable):
    """A `pandas.DataFrame`. Columns are found by position: labels can be anything."""

    def __init__(self, frame: Any) -> None:
        self._names = tuple(str(label) for label in frame.columns)
        check_names(self._names)
        self._frame = frame

    @property
    def native(self) -> Any:
        """The frame."""
        return self._frame

    @property
    def names(self) -> tuple[str, ...]:
        """The labels of the columns, as text."""
        return self._names

    @property
    def n_rows(self) -> int:
        """Its length."""
        return len(self._frame)

    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form."""
        return _read(self._frame.iloc[:, position], self._names[position], missing_values)

    def with_types(self, storages: Mapping[int, str]) -> "PandasTable":
        """Columns of floats, as those without a value are by default, get a type.

        So do columns of objects that should hold instants: all others can be objects.
        """
        import pandas as pd

        # Of the version of pandas that is there: text is of type str, or object.
        types = {
            "text": pd.Series(["a"]).dtype,
            "category": pd.Series(["a"]).dtype,
            "time": pd.Series([pd.Timestamp(0)]).dtype,
            "duration": pd.Series([pd.Timedelta(0)]).dtype,
            "clock": np.dtype(object),
        }
        frame = self._frame
        for position, storage in storages.items():
            now, untyped = frame.dtypes.iloc[position], "fO" if storage == "time" else "f"
            if storage in types and isinstance(now, np.dtype) and now.kind in untyped:
                frame = frame.copy() if frame is self._frame else frame
                empty = pd.Series([None] * len(frame), index=frame.index, dtype=types[storage])
                frame.isetitem(position, empty)
        return PandasTable(frame)

    def fill(self, fills: Mapping[int, Fill]) -> "PandasTable":
        """A copy with some cells replaced, and the same index, labels, types and attributes."""
        import pandas as pd

        # From version 3 on, pandas copies what two frames have in common when one is written to.
        frame = self._frame.copy(deep=int(pd.__version__.partition(".")[0]) < 3)
        for position, fill in fills.items():
            own = self._frame.iloc[:, position]
            frame.isetitem(position, _filled(own, fill, self._names[position]))
        # Columns that were replaced one by one are stored one by one, until they are copied.
        return PandasTable(frame.copy() if len(fills) > MOST_APART else frame)

    def keep(self, positions: Sequence[int]) -> "PandasTable":
        """Only some of the columns."""
        return PandasTable(self._frame.iloc[:, list(positions)])

    def rows(self, start: int, stop: int) -> "PandasTable":
        """Some consecutive rows."""
        return PandasTable(self._frame.iloc[start:stop])

    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "PandasTable":
        """With further columns of flags or integers."""
        import pandas as pd

        own = self._frame
        if not columns:
            return PandasTable(own.copy())
        further = pd.DataFrame(dict(columns), index=own.index)
        if own.columns.nlevels > 1:
            blank = ("",) * (own.columns.nlevels - 1)
            labels = [(name, *blank) for name in columns]
            further.columns = pd.MultiIndex.from_tuples(labels, names=own.columns.names)
        # At once: columns that are inserted one by one are stored one by one.
        frame = pd.concat([further, own] if first else [own, further], axis=1)
        frame.columns = frame.columns.set_names(own.columns.names)
        frame.attrs = dict(own.attrs)
        return PandasTable(frame)

    def named(self, names: Sequence[str]) -> "PandasTable":
        """With these names, where some labels are not text; labels of several levels stay."""
        labels = self._frame.columns
        if labels.nlevels > 1 or all(isinstance(label, str) for label in labels):
            return self
        frame = self._frame.set_axis(names, axis=1)
        return PandasTable(frame.rename_axis(columns=labels.name))

    @classmethod
    def stacked(cls, tables: Sequence["PandasTable"]) -> "PandasTable":
        """Tables of the same columns, one below the other, the rows numbered from 0."""
        import pandas as pd

        return PandasTable(pd.concat([table.native for table in tables], ignore_index=True))
