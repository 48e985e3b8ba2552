"""Columns of Python objects: what they hold, and what is put between their cells."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from columns.cases import NAN
from miwae.columns import Cells, filled_objects, read_objects
from miwae.errors import DataError

DATE, CLOCK = datetime.date(2020, 1, 1), datetime.time(8, 15)
SPAN = datetime.timedelta(hours=30)


def objects(values):
    return np.fromiter(values, object, len(values))


def read(values, missing_values=()):
    return read_objects(objects(values), "a", missing_values, "object")


def filled(values, cell, storage=None):
    """The first cell, replaced."""
    value = objects([cell]) if isinstance(cell, str) else np.array([cell])
    cells = Cells(np.array([0]), value, storage=storage)
    return filled_objects(objects(values), cells, "a")[0]


@pytest.mark.parametrize(
    ("values", "storage", "numbers"),
    [
        ([1, 2.5, None], "number", [1, 2.5, NAN]),
        ([Decimal("1.5"), np.int8(2), NAN], "number", [1.5, 2, NAN]),
        ([True, None, False], "boolean", [1, NAN, 0]),
        (["b", "a", None], "text", [1, 0, NAN]),
        ([1, True, "1"], "text", [1, 0, 2]),
        ([DATE, datetime.datetime(1970, 1, 1, 1), None], "time", [1577836800, 3600, NAN]),
        ([SPAN, None], "duration", [108_000, NAN]),
        ([CLOCK, None], "clock", [29_700, NAN]),
        ([DATE, CLOCK], "other", [NAN, NAN]),
        ([DATE, 1], "other", [NAN, NAN]),
        ([[1], None], "other", [NAN, NAN]),
        ([np.timedelta64(1, "M"), None], "other", [NAN, NAN]),
    ],
)
def test_what_they_hold(values, storage, numbers):
    column = read(values)
    assert column.storage == storage
    np.testing.assert_array_equal(column.values, numbers)
    assert column.missing.tolist() == [value is None or value is NAN for value in values]
    assert not column.typed


def test_only_integers_are_whole():
    assert read([1, np.int8(2), None]).whole
    assert not read([1, 2.0]).whole
    assert not read([None]).whole


def test_cells_that_count_as_missing_do_not_count_for_the_type():
    column = read([1, "?", 0, 2], ("?",))
    assert column.storage == "number"
    assert column.missing.tolist() == [False, True, False, False]
    assert read([True, 0, "x"], (0,)).missing.tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("rest", "value", "cell"),
    [
        ([1, 2], 2.6, 3),
        ([1.5, 2], 2.5, 2.5),
        ([Decimal("1.5")], 2.25, Decimal("2.25")),
        ([True], 0.0, False),
        ([DATE], 86_400.0, datetime.date(1970, 1, 2)),
        ([SPAN], 60.0, datetime.timedelta(minutes=1)),
        ([CLOCK], 3600.0, datetime.time(1)),
        ([CLOCK], 1e9, datetime.time(23, 59, 59, 999_999)),
        ([np.datetime64("2020-01-01")], 86_400.0, np.datetime64("1970-01-02")),
        (["b"], "a", "a"),
        (["?", 1, 2], 2.6, 3),  # a mark for missing cells that are not filled
    ],
)
def test_values_are_of_the_type_of_the_other_cells(rest, value, cell):
    found = filled([None, *rest], value)
    assert (type(found), found) == (type(cell), cell)


@pytest.mark.parametrize(
    ("storage", "cell"),
    [
        ("time", datetime.datetime(1970, 1, 1, 1)),
        ("duration", datetime.timedelta(hours=1)),
        ("clock", datetime.time(1)),
        ("boolean", True),
        ("number", 3600.0),
        (None, 3600.0),
    ],
)
def test_without_other_cells_the_storage_says_what_values_are(storage, cell):
    assert filled([None, None], 3600.0, storage) == cell


def test_instants_are_in_the_zone_of_the_first():
    zone = datetime.timezone(datetime.timedelta(hours=2))
    found = filled([None, datetime.datetime(2020, 1, 1, tzinfo=zone)], 0.0)
    assert found == datetime.datetime(1970, 1, 1, 2, tzinfo=zone)
    assert found.tzinfo is zone


def test_the_array_itself_is_not_changed():
    array = objects([None, 1])
    filled_objects(array, Cells(np.array([0]), np.array([2.0])), "a")
    assert array.tolist() == [None, 1]


def test_values_that_do_not_fit_are_refused():
    with pytest.raises(DataError, match="column 'a' holds text: fill it with levels, not with"):
        filled([None, "x"], 1.0)
    with pytest.raises(DataError, match="column 'a' of type object cannot be filled"):
        filled([None, [1]], 1.0)
    with pytest.raises(DataError, match="column 'a' cannot store inf"):
        filled([None, 1], np.inf)


def test_the_last_day_of_all_is_not_rounded_to_the_next():
    days = np.array([datetime.date(2020, 1, 1), datetime.date(9999, 12, 31), None], dtype=object)
    filled = filled_objects(days, Cells(np.array([2]), np.array([3e11])), "a")
    assert filled[2] == datetime.date.max


def test_instants_of_pandas_beyond_the_year_9999_are_read():
    late = pd.Timestamp(np.datetime64("20000-01-01", "s"))
    column = read_objects(np.array([late, None], dtype=object), "a", (), "object")
    assert column.values[0] == np.datetime64("20000-01-01", "s").astype(float)
