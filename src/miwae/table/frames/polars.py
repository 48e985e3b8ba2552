"""Tables of polars."""

from collections.abc import Mapping, Sequence
from typing import Any, final

import numpy as np
from jaxtyping import Bool, Int

from miwae.table.base import AbstractTable, Column, Fill, Storage
from miwae.table.frames.shared import (
    booleans,
    check_names,
    codes_of,
    column_of_booleans,
    column_of_codes,
    column_of_numbers,
    column_of_others,
    column_of_ticks,
    decimals,
    finite,
    numbers_of,
    refuse_fill,
    texts,
    ticks_of,
    ticks_of_day,
    whole_numbers,
)

__all__ = ["PolarsTable"]


def _unit(dtype: Any) -> str | None:
    """Numpy's name of the unit in which times are stored, None for what is no time."""
    import polars as pl

    base = dtype.base_type()
    if base == pl.Date:
        return "D"
    if base == pl.Time:
        return "ns"
    return dtype.time_unit if base in (pl.Datetime, pl.Duration) else None


def _integer(dtype: Any) -> np.dtype:
    """Numpy's type of the same integers; of 128 bits, only those that fit into 64."""
    return np.dtype(str(dtype).lower().replace("128", "64"))


def _read(series: Any, missing_values: tuple[Any, ...]) -> Column:
    import polars as pl

    name, dtype, missing = series.name, series.dtype, series.is_null().to_numpy()
    base, label = dtype.base_type(), str(dtype)
    if base == pl.Boolean:
        values = series.fill_null(value=False).to_numpy()
        return column_of_booleans(name, values, missing, missing_values, dtype=label)
    if dtype.is_integer() and base not in (pl.Int128, pl.UInt128):
        values = series.fill_null(0).to_numpy()
        return column_of_numbers(name, values, missing, missing_values, whole=True, dtype=label)
    if dtype.is_numeric() or base == pl.Null:
        # Floats keep their precision, in which missing values are compared.
        values = (series if dtype.is_float() else series.cast(pl.Float64)).to_numpy()
        whole = dtype.is_integer() or (base == pl.Decimal and dtype.scale == 0)
        return column_of_numbers(name, values, missing, missing_values, whole=whole, dtype=label)
    if base == pl.Enum:
        codes, levels = _codes(series.to_physical()), dtype.categories.to_list()
        return column_of_codes(name, "category", codes, levels, missing_values, dtype=label)
    if base in (pl.String, pl.Categorical):
        return _read_text(series, missing_values)
    unit = _unit(dtype)
    if unit is None:
        return column_of_others(name, missing, dtype=label)
    ticks = _codes(series.to_physical())
    sorts: dict[Any, Storage] = {pl.Duration: "duration", pl.Time: "clock"}
    return column_of_ticks(
        name,
        ticks,
        missing,
        missing_values,
        unit=unit,
        storage=sorts.get(base, "time"),
        dtype=label,
    )


def _read_text(series: Any, missing_values: tuple[Any, ...]) -> Column:
    """Text, and Categorical, whose categories belong to all columns and are not declared."""
    import polars as pl

    storage = "text" if series.dtype == pl.String else "category"
    words = series.cast(pl.String)
    levels = words.drop_nulls().unique().sort()
    codes = _codes(words.cast(pl.Enum(levels)).to_physical())
    return column_of_codes(
        series.name, storage, codes, levels.to_list(), missing_values, dtype=str(series.dtype)
    )


def _codes(series: Any) -> Int[np.ndarray, " N"]:
    """Integers, -1 for null."""
    import polars as pl

    return series.cast(pl.Int64).fill_null(-1).to_numpy()


def _filled(series: Any, fill: Fill) -> Any:
    """Taken from the old values and the new ones below them, which copies any type exactly."""
    import polars as pl

    order = np.arange(len(series))
    order[fill.rows] = len(series) + np.arange(len(fill.rows))
    return pl.concat([series, _in_dtype(series.dtype, fill, series.name)]).gather(order)


def _in_dtype(dtype: Any, fill: Fill, name: str) -> Any:
    """The values as a series of the column's type."""
    import polars as pl

    base, values = dtype.base_type(), fill.values
    if base == pl.Boolean:
        return pl.Series(booleans(values, name))
    if dtype.is_integer():
        return pl.Series(whole_numbers(values, _integer(dtype), name)).cast(dtype)
    if dtype.is_float():
        return pl.Series(numbers_of(values, name)).cast(dtype)
    if base == pl.Decimal:
        return pl.Series(decimals(fill, dtype.precision, dtype.scale, name), dtype=dtype)
    if base in (pl.String, pl.Categorical, pl.Enum):
        if base == pl.Enum:
            codes_of(values, dtype.categories.to_list(), name)  # refuses what is no category
        return pl.Series(texts(values, name), dtype=dtype)
    unit = _unit(dtype)
    if unit is None:
        raise refuse_fill(name, str(dtype))
    to_ticks = ticks_of_day if base == pl.Time else ticks_of
    return pl.Series(to_ticks(finite(values, name), unit)).cast(dtype)


@final
class PolarsTable(AbstractTable):
    """A `polars.DataFrame`."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    @property
    def native(self) -> Any:
        """The frame."""
        return self._frame

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return tuple(self._frame.columns)

    @property
    def n_rows(self) -> int:
        """Its length."""
        return self._frame.height

    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form."""
        return _read(self._frame.to_series(position), missing_values)

    def with_types(self, storages: Mapping[int, str]) -> "PolarsTable":
        """Columns of type Null get one that can hold something."""
        import polars as pl

        types: dict[str, Any] = {
            "number": pl.Float64(),
            "boolean": pl.Boolean(),
            "text": pl.String(),
            "category": pl.String(),
            "time": pl.Datetime("us"),
            "duration": pl.Duration("us"),
            "clock": pl.Time(),
        }
        null = [i for i in storages if self._frame.dtypes[i] == pl.Null and storages[i] in types]
        casts = {self._frame.columns[i]: types[storages[i]] for i in null}
        return PolarsTable(self._frame.cast(casts) if casts else self._frame)

    def fill(self, fills: Mapping[int, Fill]) -> "PolarsTable":
        """A copy with some cells replaced, and the same schema."""
        frame = self._frame.clone()
        for position, fill in fills.items():
            frame.replace_column(position, _filled(frame.to_series(position), fill))
        return PolarsTable(frame)

    def keep(self, positions: Sequence[int]) -> "PolarsTable":
        """Only some of the columns."""
        import polars as pl

        if not positions:  # where a selection forgets the length
            return PolarsTable(pl.DataFrame(height=self.n_rows))
        return PolarsTable(self._frame[:, list(positions)])

    def rows(self, start: int, stop: int) -> "PolarsTable":
        """Some consecutive rows."""
        return PolarsTable(self._frame.slice(start, stop - start))

    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "PolarsTable":
        """With further columns of flags or integers."""
        import polars as pl

        check_names([*self.names, *columns])
        own = self._frame.get_columns()
        further = [pl.Series(name, values) for name, values in columns.items()]
        if not further:
            return PolarsTable(self._frame.clone())
        return PolarsTable(pl.DataFrame([*further, *own] if first else [*own, *further]))

    @classmethod
    def stacked(cls, tables: Sequence["PolarsTable"]) -> "PolarsTable":
        """Tables of the same columns, one below the other."""
        import polars as pl

        if not tables[0].names:  # where concatenation forgets the length
            return PolarsTable(pl.DataFrame(height=sum(table.n_rows for table in tables)))
        return PolarsTable(pl.concat([table.native for table in tables]))
