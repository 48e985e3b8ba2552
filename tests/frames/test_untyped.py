"""Columns without a declared type: what they become depends on the cells that they get."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from frames.cases import cells_of
from miwae.columns import Cells
from miwae.errors import DataError
from miwae.frames import columns, completed

NOTHING = {
    "floats": pd.DataFrame({"a": [np.nan, np.nan]}, index=["p", "q"]),
    "marks": pd.DataFrame({"a": [-999.0, np.nan]}, index=["p", "q"]),
    "objects": pd.DataFrame({"a": pd.Series([None, None], ["p", "q"], object)}),
    "pandas with pyarrow": pd.DataFrame(
        {"a": pd.Series([None, None], ["p", "q"], pd.ArrowDtype(pa.null()))}
    ),
    "polars": pl.DataFrame({"a": [None, None]}),
    "pyarrow": pa.table({"a": pa.nulls(2)}),
}

PANDAS = ("floats", "marks", "objects")
TEXT, TIME, DURATION = (pd.Series([x]).dtype for x in ("a", pd.Timestamp(0), pd.Timedelta(0)))
NOON = datetime.datetime(2020, 1, 1, 12)
LATE = datetime.time(23, 59)

# Values of a storage, the cell that they become, and the type that each column gets.
STORED = {
    "number": (2.5, 2.5, (np.float64, np.float64, object, pa.float64(), pl.Float64)),
    "boolean": (1.0, True, (np.float64, np.float64, object, pa.bool_(), pl.Boolean)),
    "text": ("b", "b", (TEXT, TEXT, object, pa.string(), pl.String)),
    "category": ("b", "b", (TEXT, TEXT, object, pa.string(), pl.String)),
    "time": (1577880000.0, NOON, (TIME, TIME, TIME, pa.timestamp("us"), pl.Datetime("us"))),
    "duration": (
        1.5,
        datetime.timedelta(seconds=1.5),
        (DURATION, DURATION, object, pa.duration("us"), pl.Duration("us")),
    ),
    "clock": (86340.0, LATE, (object, object, object, pa.time64("us"), pl.Time)),
}


def cells_of_storage(storage, value, length=2):
    values = np.array([value] * length, object if isinstance(value, str) else np.float64)
    levels = ("a", "b") if isinstance(value, str) else ()
    return Cells(np.arange(length), values, storage=storage, levels=levels)


@pytest.mark.parametrize("storage", STORED)
@pytest.mark.parametrize("name", NOTHING)
def test_a_column_without_value_and_type_gets_that_of_its_cells(name, storage):
    frame, (value, expected, types) = NOTHING[name], STORED[storage]
    (column,) = columns(frame, (-999,))
    assert not column.typed
    filled = completed(frame, {0: cells_of_storage(storage, value)})
    assert cells_of(filled) == [[expected, expected]]
    if isinstance(filled, pa.Table):
        assert filled.schema.field(0).type == types[3]
    elif isinstance(filled, pl.DataFrame):
        assert filled.schema["a"] == types[4]
    elif name == "pandas with pyarrow":
        assert filled["a"].dtype == pd.ArrowDtype(types[3])
    else:
        assert filled["a"].dtype == types[PANDAS.index(name)]
    if isinstance(filled, pd.DataFrame):
        assert filled.index.tolist() == ["p", "q"]
        assert filled.columns.tolist() == ["a"]
    assert columns(filled)[0].n_observed == 2


@pytest.mark.parametrize("name", NOTHING)
def test_cells_that_are_not_given_stay_missing_under_the_new_type(name):
    frame = NOTHING[name]
    if name == "marks":  # its first cell is a number for all that `completed` knows
        frame = frame.iloc[::-1]
    cells = Cells(np.array([1]), np.array(["b"], object), storage="text")
    filled = completed(frame, {0: cells})
    if name == "marks":
        assert filled["a"].isna().tolist() == [True, False]
    (column,) = columns(filled)
    assert (column.storage, column.missing.tolist()) == ("text", [True, False])


def test_floats_with_a_value_are_typed_and_take_neither_words_nor_times():
    frame = pd.DataFrame({"a": [1.0, np.nan]})
    assert columns(frame)[0].typed
    with pytest.raises(DataError, match="column 'a' holds numbers"):
        completed(frame, {0: Cells(np.array([1]), np.array(["b"], object), storage="text")})
    for storage in ("time", "duration", "clock"):
        with pytest.raises(DataError, match="column 'a' of type float64 cannot be filled"):
            completed(frame, {0: Cells(np.array([1]), np.array([0.0]), storage=storage)})


def test_categories_that_are_numbers_stay_numbers_in_a_column_of_floats():
    frame = pd.DataFrame({"a": [np.nan, np.nan]})
    values = np.array([7, 5], object)
    cells = Cells(np.arange(2), values, storage="category", levels=(7, 5))
    assert completed(frame, {0: cells})["a"].tolist() == [7.0, 5.0]
    mixed = Cells(np.arange(2), np.array([7, "b"], object), storage="text", levels=(7, "b"))
    assert completed(frame, {0: mixed})["a"].tolist() == [7, "b"]


def test_arrays_and_nullable_types_without_values_are_typed():
    """They can hold nothing else, whatever is put into them."""
    for frame in (
        np.full((2, 1), np.nan),
        pd.DataFrame({"a": pd.array([None, None], "Float64")}),
        pd.DataFrame({"a": pd.arrays.SparseArray([np.nan, np.nan])}),
        pd.DataFrame({"a": pd.Series([pd.NaT, pd.NaT])}),
        pl.DataFrame({"a": [None, None]}, schema={"a": pl.Float64}),
        pa.table({"a": pa.nulls(2, pa.float64())}),
    ):
        assert columns(frame)[0].typed
        with pytest.raises(DataError):
            completed(frame, {0: cells_of_storage("text", "b")})


@pytest.mark.parametrize(
    "frame",
    [
        np.array([["?"], ["?"]]),
        pd.DataFrame({"a": pd.Series([None, "?"], dtype="string")}),
        pd.DataFrame({"a": pd.Series([None, "?"], dtype="str")}),
        pl.DataFrame({"a": [None, "?"]}),
        pa.table({"a": [None, "?"]}),
    ],
)
def test_text_without_values_is_text(frame):
    (column,) = columns(frame, ("?",))
    assert (column.storage, column.levels, column.typed) == ("text", (), True)
    assert column.n_observed == 0


def test_objects_with_instants_keep_their_type_beside_new_ones():
    day = datetime.date(2020, 1, 1)
    frame = pd.DataFrame({"a": pd.Series([day, None], dtype=object)})
    cells = Cells(np.array([1]), np.array([86400.0]), storage="time")
    assert completed(frame, {0: cells})["a"].tolist() == [day, datetime.date(1970, 1, 2)]
