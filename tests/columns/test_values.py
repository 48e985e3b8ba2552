"""Single values: what they are, whether they stand for nothing, how people write them."""

import datetime
import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest

from miwae.columns._values import (
    check_names,
    is_missing,
    key_of,
    keys_of,
    require_free,
    seconds_of,
    seconds_text,
    storage_of,
    value_text,
)
from miwae.errors import DataError


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (1.0, "1"),
        (-0.0, "0"),
        (1234567.0, "1234567"),
        (0.1, "0.1"),
        (1e300, "1e+300"),
        (math.inf, "inf"),
        (2, "2"),
        (True, "True"),
        ("x", "x"),
    ],
)
def test_values_as_people_write_them(value, text):
    assert value_text(value) == text


@pytest.mark.parametrize(
    ("value", "storage"),
    [
        (True, "boolean"),
        (np.bool_(True), "boolean"),
        (1, "number"),
        (np.int8(1), "number"),
        (1.5, "number"),
        (Decimal("1.5"), "number"),
        (Fraction(1, 3), "number"),
        ("x", "text"),
        (np.str_("x"), "text"),
        (datetime.date(2020, 1, 1), "time"),
        (datetime.datetime(2020, 1, 1), "time"),
        (pd.Timestamp("2020-01-01"), "time"),
        (np.datetime64("2020-01-01"), "time"),
        (datetime.timedelta(1), "duration"),
        (np.timedelta64(1, "s"), "duration"),
        (datetime.time(8), "clock"),
        ([1], None),
        (1j, None),
        (b"x", None),
    ],
)
def test_the_storage_of_types(value, storage):
    assert storage_of(type(value)) == storage


@pytest.mark.parametrize(
    "value",
    [None, math.nan, np.float32("nan"), pd.NA, pd.NaT, np.datetime64("NaT"), Decimal("NaN")],
)
def test_what_stands_for_nothing(value):
    assert is_missing(value)


@pytest.mark.parametrize("value", [0, "", False, math.inf, "NA", [], np.array([np.nan])])
def test_what_does_not(value):
    assert not is_missing(value)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (datetime.date(1970, 1, 2), 86400.0),
        (datetime.datetime(1969, 12, 31, 23, 59, 59), -1.0),
        (
            datetime.datetime(
                1970, 1, 1, 2, tzinfo=datetime.timezone(datetime.timedelta(hours=2))
            ),
            0,
        ),
        (np.datetime64("1970-01-01T00:00:00.5"), 0.5),
        (datetime.timedelta(days=1, milliseconds=5), 86400.005),
        (np.timedelta64(90, "m"), 5400.0),
        (datetime.time(1, 2, 3, 500_000), 3723.5),
    ],
)
def test_times_in_seconds(value, seconds):
    assert seconds_of(value) == seconds


@pytest.mark.parametrize(
    ("seconds", "storage", "text"),
    [
        (0.0, "time", "1970-01-01 00:00:00"),
        (-86400.0, "time", "1969-12-31 00:00:00"),
        (5400.0, "duration", "1:30:00"),
        (86400.0 * 2, "duration", "2 days, 0:00:00"),
        (3600.0, "clock", "1:00:00"),
        (1e20, "time", "1e+20"),
    ],
)
def test_times_as_people_write_them(seconds, storage, text):
    assert seconds_text(seconds, storage) == text


def test_equal_values_of_different_types_are_kept_apart():
    assert key_of(0) == key_of(0.0) == key_of(Decimal(0))
    assert len({key_of(0), key_of(False), key_of("0")}) == 3
    assert key_of(datetime.date(2020, 1, 1)) == key_of(np.datetime64("2020-01-01"))
    assert key_of([1]) is None
    assert keys_of((math.nan, None, np.array(-9), "x")) == {("number", -9), ("text", "x")}


def test_names_occur_once():
    check_names(["a", "b"])
    with pytest.raises(DataError, match="^two columns are named 'a': rename one of them$"):
        check_names(["a", "b", "a"])


def test_names_that_will_be_added_must_be_free():
    require_free(("a", "a.upper"), ("a.lower",))
    with pytest.raises(DataError, match="a column 'a.lower' already"):
        require_free(("a", "a.lower"), ("b.lower", "a.lower"))
