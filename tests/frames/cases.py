"""Frames of every library that the contract of `miwae.frames` runs over.

Each frame has four rows, and the row `HOLE` is missing wherever the type can say so. To add a
type, add a column to a builder, and what it must read as, in the same order, to `EXPECTED`.
"""

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from miwae.columns import Cells

__all__ = ["EXPECTED", "FRAMES", "HOLE", "Expected", "cell", "cells_of"]

HOLE = 1
NAN = float("nan")


def cells_of(frame):
    """The cells as Python objects, by column."""
    if isinstance(frame, pd.DataFrame):
        return [frame.iloc[:, i].tolist() for i in range(frame.shape[1])]
    if isinstance(frame, pl.DataFrame):
        return [series.to_list() for series in frame]
    if isinstance(frame, pa.Table):
        return [column.to_pylist() for column in frame.columns]
    return frame.T.tolist()


def cell(row, value):
    """A value for one cell, in its neutral form."""
    values = np.empty(1, np.float64 if isinstance(value, float) else object)
    values[:] = [value]
    return Cells(np.array([row]), values)


class Expected(NamedTuple):
    """What a column reads as, a value for the hole, and the cell that it becomes.

    Without `fill`, no value fits the type.
    """

    storage: str
    values: tuple[float, ...]
    fill: Any = None
    cell: Any = None
    levels: tuple[Any, ...] = ()
    ordered: bool = False
    whole: bool = False


def number(fill, cell, *, values=(1.0, NAN, 3.0, 4.0), whole=False):
    return Expected("number", values, fill, cell, whole=whole)


def text(storage="text", *, levels=("a", "b"), ordered=False):
    """`levels[1], hole, levels[0], levels[1]`, filled with the last level."""
    return Expected(storage, (1.0, NAN, 0.0, 1.0), levels[-1], levels[-1], levels, ordered)


def time(fill, cell, *, values=(1577836800.0, NAN, 1577923200.0, -86400.0)):
    return Expected("time", values, fill, cell)


def span(fill, cell):
    return Expected("duration", (1.5, NAN, 86400.0, -2.0), fill, cell)


def clock(fill, cell):
    return Expected("clock", (3600.0, NAN, 1.0, 86399.0), fill, cell)


BOOLEAN = Expected("boolean", (1.0, NAN, 0.0, 1.0), 1.0, True)
OTHER = Expected("other", (NAN, NAN, NAN, NAN))

FLAGS = [True, None, False, True]
WORDS = ["b", None, "a", "b"]
INTEGERS = [1, None, 3, 4]
FLOATS = [1.0, None, 3.0, 4.0]
PRICES = [Decimal("1.25"), None, Decimal("3.00"), Decimal("4.50")]
DATES = [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2), datetime.date(1969, 12, 31)]
INSTANTS = [day and datetime.datetime(day.year, day.month, day.day) for day in DATES]
AWARE = [instant and instant.replace(tzinfo=datetime.UTC) for instant in INSTANTS]
SPANS = [datetime.timedelta(seconds=seconds) for seconds in (1.5, 0, 86400, -2)]
SPANS[HOLE] = None
CLOCKS = [datetime.time(1), None, datetime.time(0, 0, 1), datetime.time(23, 59, 59)]
LISTS = [[1], None, [], [2, 3]]

PRICE_VALUES = (1.25, NAN, 3.0, 4.5)

# A noon in winter, in seconds and otherwise.
NOON = 1577880000.0
NOON_INSTANT = datetime.datetime(2020, 1, 1, 12)
NOON_AWARE = NOON_INSTANT.replace(tzinfo=datetime.UTC)


def pandas_frame():
    utc = pd.Series(AWARE, dtype="datetime64[ms, UTC]")
    columns = [
        pd.Series(FLOATS, dtype="float64"),
        pd.Series(FLOATS, dtype="float32"),
        pd.Series([1, 2, 3, 4], dtype="int16"),
        pd.Series([True, True, False, True]),
        pd.Series(INTEGERS, dtype="Int64"),
        pd.Series(INTEGERS, dtype="UInt8"),
        pd.Series(FLOATS, dtype="Float32"),
        pd.Series(FLAGS, dtype="boolean"),
        pd.Series(WORDS, dtype="string"),
        pd.Series(WORDS, dtype="str"),
        pd.Series(WORDS, dtype=pd.CategoricalDtype(["a", "b", "never"])),
        pd.Series([5, None, 7, 5], dtype=pd.CategoricalDtype([7, 5, 6], ordered=True)),
        pd.Series(INSTANTS, dtype="datetime64[ns]"),
        pd.Series(INSTANTS, dtype="datetime64[s]"),
        utc.dt.tz_convert("Europe/Paris"),
        pd.Series(SPANS, dtype="timedelta64[us]"),
        pd.Series(["2020-01", None, "2020-02", "2020-03"], dtype="period[M]"),
        pd.Series(INTEGERS, dtype="int32[pyarrow]"),
        pd.Series(FLOATS, dtype="double[pyarrow]"),
        pd.Series(FLAGS, dtype="bool[pyarrow]"),
        pd.Series(WORDS, dtype=pd.ArrowDtype(pa.string())),
        pd.Series(AWARE, dtype=pd.ArrowDtype(pa.timestamp("us", "Europe/Paris"))),
        pd.Series(DATES, dtype=pd.ArrowDtype(pa.date32())),
        pd.Series(SPANS, dtype=pd.ArrowDtype(pa.duration("ms"))),
        pd.Series(CLOCKS, dtype=pd.ArrowDtype(pa.time64("us"))),
        pd.Series(PRICES, dtype=pd.ArrowDtype(pa.decimal128(7, 2))),
        pd.Series(
            pd.arrays.ArrowExtensionArray(
                pa.chunked_array([pa.array(["a", "b"]).dictionary_encode().take([1, None, 0, 1])])
            )
        ),
        pd.Series([True, None, False, True], dtype=object),
        pd.Series([1, None, 3, np.int8(4)], dtype=object),
        pd.Series([1, NAN, 3.0, np.float32(4)], dtype=object),
        pd.Series(PRICES, dtype=object),
        pd.Series(WORDS, dtype=object),
        pd.Series(DATES, dtype=object),
        pd.Series(INSTANTS, dtype=object),
        pd.Series([x and pd.Timestamp(x) for x in AWARE], dtype=object),
        pd.Series(SPANS, dtype=object),
        pd.Series([x and pd.Timedelta(x) for x in SPANS], dtype=object),
        pd.Series([x and np.timedelta64(x, "ms") for x in SPANS], dtype=object),
        pd.Series(CLOCKS, dtype=object),
        pd.Series([x and x.replace(tzinfo=datetime.UTC) for x in CLOCKS], dtype=object),
        pd.Series(["b", pd.NA, 2, "b"], dtype=object),
        pd.Series(LISTS, dtype=object),
        pd.Series([b"b", None, b"a", b"b"], dtype=object),
        pd.Series(FLOATS, dtype="float64").astype("Sparse[float64]"),
        pd.Series([None] * 4, dtype=object),
    ]
    frame = pd.concat(columns, axis=1)
    # Labels that are not text, and an index with duplicates.
    labels: list[Any] = [f"c{i}" for i in range(frame.shape[1])]
    labels[:3] = [7, ("pair", 2), "plain"]
    frame.columns = pd.Index(labels, tupleize_cols=False)
    frame.index = pd.MultiIndex.from_tuples([("x", 1), ("x", 1), ("y", 2), ("x", 1)])
    frame.attrs = {"source": "here"}
    return frame


PANDAS = [
    number(2.5, 2.5),
    number(2.5, 2.5),
    number(2.6, 3, values=(1.0, 2.0, 3.0, 4.0), whole=True),
    BOOLEAN._replace(values=(1.0, 1.0, 0.0, 1.0), fill=0.0, cell=False),
    number(2.6, 3, whole=True),
    number(-2.6, 0, whole=True),
    number(2.5, 2.5),
    BOOLEAN,
    text(),
    text(),
    text("category", levels=("a", "b", "never")),
    text("category", levels=(7, 5, 6), ordered=True),
    time(NOON, pd.Timestamp(NOON_INSTANT)),
    time(NOON + 0.4, pd.Timestamp(NOON_INSTANT)),
    time(NOON + 0.004, pd.Timestamp("2020-01-01 13:00:00.004", tz="Europe/Paris")),
    span(2.5, pd.Timedelta(seconds=2.5)),
    time(NOON, pd.Period("2020-01"), values=(1577836800.0, NAN, 1580515200.0, 1583020800.0)),
    number(2.6, 3, whole=True),
    number(2.5, 2.5),
    BOOLEAN,
    text(),
    time(NOON, pd.Timestamp("2020-01-01 13:00:00", tz="Europe/Paris")),
    time(NOON + 1, datetime.date(2020, 1, 2)),
    span(2.5, pd.Timedelta(seconds=2.5)),
    clock(2.5, datetime.time(0, 0, 2, 500000)),
    number(2.126, Decimal("2.13"), values=PRICE_VALUES),
    text("category"),
    BOOLEAN,
    number(2.6, 3, whole=True),
    number(2.5, 2.5),
    number(2.5, Decimal("2.5"), values=PRICE_VALUES),
    text(),
    time(NOON + 1, datetime.date(2020, 1, 2)),
    time(NOON, NOON_INSTANT),
    time(NOON, pd.Timestamp(NOON_AWARE)),
    span(2.5, datetime.timedelta(seconds=2.5)),
    span(2.5, pd.Timedelta(seconds=2.5)),
    span(2.5, np.timedelta64(2500, "ms")),
    clock(2.5, datetime.time(0, 0, 2, 500000)),
    clock(1e9, datetime.time(23, 59, 59, 999999, tzinfo=datetime.UTC)),
    text(levels=(2, "b"))._replace(values=(1.0, NAN, 0.0, 1.0)),
    OTHER,
    OTHER,
    number(2.5, np.float64(2.5)),
    number(2.5, 2.5, values=(NAN, NAN, NAN, NAN)),
]


def polars_frame():
    colours = pl.Enum(["b", "a", "never"])
    columns = [
        pl.Series(INTEGERS, dtype=pl.Int8),
        pl.Series(INTEGERS, dtype=pl.UInt64),
        pl.Series(INTEGERS, dtype=pl.Int128),
        pl.Series(INTEGERS, dtype=pl.UInt128),
        pl.Series([1.0, None, NAN, 4.0], dtype=pl.Float32),
        pl.Series(FLOATS, dtype=pl.Float64),
        pl.Series(FLAGS, dtype=pl.Boolean),
        pl.Series(WORDS, dtype=pl.String),
        pl.Series(WORDS, dtype=pl.Categorical),
        pl.Series(["a", None, "b", "a"], dtype=colours),
        pl.Series(DATES, dtype=pl.Date),
        pl.Series(INSTANTS, dtype=pl.Datetime("ms")),
        pl.Series(AWARE, dtype=pl.Datetime("us", "Europe/Paris")),
        pl.Series(SPANS, dtype=pl.Duration("ns")),
        pl.Series(CLOCKS, dtype=pl.Time),
        pl.Series(PRICES, dtype=pl.Decimal(7, 2)),
        pl.Series(LISTS, dtype=pl.List(pl.Int64)),
        pl.Series([{"k": 1}, None, {"k": 2}, {"k": 3}], dtype=pl.Struct({"k": pl.Int8})),
        pl.Series([{1}, None, {2}, {3}], dtype=pl.Object),
        pl.Series([None] * 4, dtype=pl.Null),
    ]
    return pl.DataFrame([series.alias(f"c{i}") for i, series in enumerate(columns)])


POLARS = [
    number(300.0, 127, whole=True),
    number(2.6, 3, whole=True),
    number(2.6, 3, whole=True),
    number(2.6, 3, whole=True),
    number(2.5, 2.5, values=(1.0, NAN, NAN, 4.0)),
    number(2.5, 2.5),
    BOOLEAN,
    text(),
    text("category"),
    text("category", levels=("b", "a", "never")),
    time(NOON + 1, datetime.date(2020, 1, 2)),
    time(NOON + 0.0004, NOON_INSTANT),
    time(NOON, NOON_AWARE),
    span(2.5, datetime.timedelta(seconds=2.5)),
    clock(2.5, datetime.time(0, 0, 2, 500000)),
    number(2.126, Decimal("2.13"), values=PRICE_VALUES),
    OTHER,
    OTHER,
    OTHER,
    Expected("number", (NAN, NAN, NAN, NAN)),
]


def arrow_table():
    ordered = pa.DictionaryArray.from_arrays(
        pa.array([1, None, 0, 1], pa.int8()), pa.array(["z", "a", "never"]), ordered=True
    )
    columns = [
        pa.array(INTEGERS, pa.int8()),
        pa.array(INTEGERS, pa.uint64()),
        pa.array([1.0, None, NAN, 4.0], pa.float32()),
        pa.array([1.0, None, 3.0, 4.0], pa.float16()),
        pa.array(FLOATS, pa.float64()),
        pa.array(FLAGS, pa.bool_()),
        pa.array(WORDS, pa.string()),
        pa.array(WORDS, pa.large_string()),
        pa.array(WORDS, pa.string_view()),
        ordered,
        # Two chunks of different dictionaries.
        pa.chunked_array(
            [pa.array(part).dictionary_encode() for part in (["b", None], ["a", "b"])]
        ),
        pa.array(INSTANTS, pa.timestamp("s")),
        pa.array(AWARE, pa.timestamp("ns", "Europe/Paris")),
        pa.array(DATES, pa.date32()),
        pa.array(DATES, pa.date64()),
        pa.array(SPANS, pa.duration("ms")),
        pa.array(CLOCKS, pa.time32("s")),
        pa.array(CLOCKS, pa.time64("us")),
        pa.array(PRICES, pa.decimal128(7, 2)),
        pa.array(INTEGERS, pa.decimal256(40, 0)),
        pa.array(LISTS, pa.list_(pa.int64())),
        pa.array([b"b", None, b"a", b"b"], pa.binary()),
        pa.nulls(4),
    ]
    names = [f"c{i}" for i in range(len(columns))]
    table = pa.table(columns, names=names)
    field = table.schema.field(0).with_metadata({"unit": "kg"})
    table = table.set_column(0, field, table.column(0))
    return table.replace_schema_metadata({"source": "here"})


ARROW = [
    number(-300.0, -128, whole=True),
    number(2.6, 3, whole=True),
    number(2.5, 2.5, values=(1.0, NAN, NAN, 4.0)),
    number(2.5, 2.5),
    number(2.5, 2.5),
    BOOLEAN,
    text(),
    text(),
    text(),
    text("category", levels=("z", "a", "never"), ordered=True),
    Expected("category", (0.0, NAN, 1.0, 0.0), "a", "a", ("b", "a")),
    time(NOON + 0.4, NOON_INSTANT),
    time(NOON, pd.Timestamp("2020-01-01 13:00:00", tz="Europe/Paris")),
    time(NOON + 1, datetime.date(2020, 1, 2)),
    time(NOON + 1, datetime.date(2020, 1, 2)),
    span(2.5, datetime.timedelta(seconds=2.5)),
    clock(1e9, datetime.time(23, 59, 59)),
    clock(-1.0, datetime.time(0)),
    number(1e9, Decimal("99999.99"), values=PRICE_VALUES),
    number(2.6, Decimal("3"), whole=True),
    OTHER,
    OTHER,
    Expected("number", (NAN, NAN, NAN, NAN)),
]


def object_array():
    array = np.empty((4, 3), object)
    array[:, 0] = INTEGERS
    array[:, 1] = WORDS
    array[:, 2] = [(1,), None, (2,), (3,)]
    return array


FRAMES: dict[str, Callable[[], Any]] = {
    "pandas": pandas_frame,
    "polars": polars_frame,
    "pyarrow": arrow_table,
    "numpy_float64": lambda: np.array([[1.0, NAN], [NAN, 2.0], [3.0, 3.0], [4.0, 4.0]]),
    "numpy_float32": lambda: np.array([[1.0], [NAN], [3.0], [4.0]], np.float32),
    "numpy_int64": lambda: np.array([[1, 5], [2, 6], [3, 7], [4, 8]]),
    "numpy_bool": lambda: np.array([[True], [True], [False], [True]]),
    "numpy_object": object_array,
    "numpy_str": lambda: np.array([["b", "bb"], ["c", "aa"], ["a", "aa"], ["b", "bb"]]),
    "numpy_datetime": lambda: np.array(INSTANTS, "datetime64[s]")[:, None],
    "numpy_timedelta": lambda: np.array(SPANS, "timedelta64[ms]")[:, None],
    "numpy_fortran": lambda: np.array([[1.0, 9.0], [NAN, 2.0], [3.0, 3.0], [4.0, 4.0]], order="F"),
}

EXPECTED: dict[str, list[Expected]] = {
    "pandas": PANDAS,
    "polars": POLARS,
    "pyarrow": ARROW,
    "numpy_float64": [number(2.5, 2.5), number(1.5, 1.5, values=(NAN, 2.0, 3.0, 4.0))],
    "numpy_float32": [number(2.5, 2.5)],
    "numpy_int64": [
        number(2.6, 3, values=(1.0, 2.0, 3.0, 4.0), whole=True),
        number(-1.5, -2, values=(5.0, 6.0, 7.0, 8.0), whole=True),
    ],
    "numpy_bool": [BOOLEAN._replace(values=(1.0, 1.0, 0.0, 1.0), fill=0.0, cell=False)],
    "numpy_object": [number(2.6, 3, whole=True), text(), OTHER],
    "numpy_str": [
        Expected("text", (1.0, 2.0, 0.0, 1.0), "a", "a", ("a", "b", "c")),
        Expected("text", (1.0, 0.0, 0.0, 1.0), "bb", "bb", ("aa", "bb")),
    ],
    "numpy_datetime": [time(NOON + 0.6, NOON_INSTANT + datetime.timedelta(seconds=1))],
    "numpy_timedelta": [span(2.5, datetime.timedelta(seconds=2.5))],
    "numpy_fortran": [number(2.5, 2.5), number(1.5, 1.5, values=(9.0, 2.0, 3.0, 4.0))],
}
