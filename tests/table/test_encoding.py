"""From cells to the arrays of the model and back: nothing is confused, nothing leaves its kind."""

import datetime
import re
from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miwae.errors import DataError
from miwae.table.base import Column
from miwae.table.encoding import decode, encode
from miwae.table.frames import as_table
from miwae.table.schema import MOST_COUNTED, ColumnSchema, Schema, infer_schema
from miwae.table.transforms import Transform

NAN = float("nan")


def column_of(values, dtype=None, name="a"):
    return as_table(pd.DataFrame({name: pd.Series(values, dtype=dtype)})).column(0)


def learned(values, dtype=None, kind=None, bounds=None):
    return infer_schema(
        [column_of(values, dtype)],
        column_kinds=None if kind is None else {"a": kind},
        bounds=None if bounds is None else {"a": bounds},
    )


def encoded(schema, values, dtype=None):
    return encode(schema, [column_of(values, dtype)])


def codes(schema, values, dtype=None):
    """The codes of a column, None where the model does not see a cell, and the events."""
    result = encoded(schema, values, dtype)
    cells = zip(result.x[:, 0].tolist(), result.observed[:, 0].tolist(), strict=True)
    return [x if seen else None for x, seen in cells], result.events


def decoded(schema, y):
    return decode(schema.columns[0], np.asarray(y, dtype=np.float64))


def scale_of(schema, position=0):
    transform = schema.columns[position].transform
    assert transform is not None
    return transform


def exactly(message):
    return f"^{re.escape(message)}$"


def event(value, what, count="1 such cell"):
    return (
        f"column 'a': the value {value} {what} ({count}): kept in the table, treated as missing "
        "by the model"
    )


# There and back.

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)
integers = st.lists(st.integers(-1000, 1000), min_size=2, max_size=30)
counts = st.lists(st.integers(0, 10_000), min_size=2, max_size=30)
text = st.lists(st.text(max_size=5), min_size=2, max_size=30)
mixed = st.lists(
    st.one_of(st.integers(0, 3), st.booleans(), st.sampled_from("0123")), min_size=2, max_size=30
)
seconds = st.lists(st.integers(-(10**9), 2 * 10**9), min_size=2, max_size=30)
flags = st.lists(st.booleans(), min_size=2, max_size=30)


def roundtrip(values, dtype, kind, *, holes=1):
    """A column, its schema, and its observed cells as they come back."""
    column = column_of([*values, *[None] * holes], dtype)
    schema = infer_schema([column], column_kinds={"a": kind} if kind else None)
    result = encode(schema, [column])
    assert result.events == ()
    if not schema.modelled:
        return None  # a constant
    np.testing.assert_array_equal(result.observed[:, 0], ~column.missing)
    assert np.all(result.x[column.missing, 0] == 0)
    seen = ~column.missing
    return column, schema, decoded(schema, result.x[seen, 0])


@settings(max_examples=50, deadline=None)
@given(numbers, st.sampled_from([None, "continuous"]))
def test_numbers_come_back(values, kind):
    back = roundtrip(values, "float64", kind)
    if back is None:
        return
    column, schema, cells = back
    if schema.columns[0].transform is None:  # two values, or counts
        assert cells.tolist() == values
        return
    # The model computes in float32: 2^-24 of the standardised value, stretched by dx/dy.
    transform = scale_of(schema)
    x = column.values[~column.missing]
    y = transform.forward(x)
    slack = 2.0**-23 * (np.abs(y) + 1e-3) * np.exp(-transform.log_slope(x))
    whole = 0.5 if schema.columns[0].whole else 0.0
    np.testing.assert_array_less(np.abs(cells - x), 1.01 * slack + whole + 1e-9 + 1e-15 * abs(x))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["integer", None]), integers)
def test_integers_come_back_exactly(kind, values):
    back = roundtrip(values, "Int64", kind)
    if back is not None:
        column, schema, cells = back
        np.testing.assert_array_equal(cells, column.values[~column.missing])


@settings(max_examples=50, deadline=None)
@given(counts)
def test_counts_are_encoded_as_they_are(values):
    back = roundtrip(values, "Int64", "count")
    if back is None:
        return
    column, schema, cells = back
    np.testing.assert_array_equal(cells, values)
    np.testing.assert_array_equal(encode(schema, [column]).x[:-1, 0], values)


@settings(max_examples=50, deadline=None)
@given(st.one_of(text, mixed))
def test_levels_come_back_with_their_types(values):
    n_distinct = len({(type(value), value) for value in values})
    back = roundtrip(values, object, "categorical" if n_distinct > 1 else None, holes=2)
    if back is not None:
        _, schema, cells = back
        assert cells.tolist() == values
        if schema.columns[0].storage == "text":  # else they are numbers, 0.0 or 1.0 for flags
            assert list(map(type, cells)) == list(map(type, values))


@settings(max_examples=50, deadline=None)
@given(flags)
def test_flags_come_back(values):
    back = roundtrip(values, "boolean", None)
    if back is not None:
        assert back[2].tolist() == [float(value) for value in values]


@settings(max_examples=50, deadline=None)
@given(seconds, st.sampled_from([86400, 3600, 60, 1]), st.sampled_from([0, 1800, -7200, 17]))
def test_times_come_back_as_coarse_as_they_were(values, unit, phase):
    """Also if all are as far beyond a whole day or hour: midnight somewhere, half past eight."""
    values = [value // unit * unit + phase for value in values]
    back = roundtrip(values, "datetime64[s]", "datetime")
    if back is None:
        return
    column, schema, cells = back
    step = schema.columns[0].resolution
    assert step >= unit
    np.testing.assert_array_equal((cells - values[0]) % step, 0)
    # 2^-24 of some standard deviations, stretched: at most a step away where steps are days.
    y = scale_of(schema).forward(column.values[:-1])
    slope = np.exp(-scale_of(schema).log_slope(column.values[:-1]))
    error = np.abs(cells - column.values[:-1])
    assert np.all(error <= step / 2 + 2.0**-22 * (np.abs(y) + 1) * slope + 1)


def test_a_row_collects_the_change_of_scale_of_its_observed_cells():
    table = as_table(
        pd.DataFrame(
            {
                "a": np.append(np.exp(np.random.default_rng(0).normal(size=99)), NAN),
                "b": np.append(NAN, np.arange(99) + 0.5),
                "c": ["x", "y"] * 50,
                "d": [0, 0, 1, 9] * 25,
            }
        )
    )
    columns = [table.column(i) for i in range(4)]
    schema = infer_schema(columns)
    assert [known.kind for known in schema.columns] == ["positive", "positive", "binary", "count"]
    a, b = scale_of(schema, 0), scale_of(schema, 1)
    expected = np.zeros(100)
    expected[:-1] += a.log_slope(columns[0].values[:-1])
    expected[1:] += b.log_slope(columns[1].values[1:])
    np.testing.assert_allclose(encode(schema, columns).log_slope, expected, rtol=1e-12)


@pytest.mark.parametrize(
    "values",
    [[0.1, 0.7, 1e4 / 3], [1.5e308, 1.6e308, 1.7e308], [1 + 2.0**-52, 1 + 2.0**-51]],
)
def test_single_precision_leaves_no_trace_beside_the_values_of_a_column(values):
    schema = learned(values * 20)
    result = encoded(schema, [*values, NAN])
    assert not result.events
    assert decoded(schema, result.x[:-1, 0]).tolist() == values


def test_means_of_numbers_that_take_few_values_stay_between_them():
    schema = learned([0.5, 1.5, 9.5] * 20)
    low, high = scale_of(schema).forward(np.array([0.5, 9.5]))
    between = decoded(schema, [low - 1, low + 1e-3, high - 1e-3, high + 1])
    assert between[0] == 0.5 < between[1] < between[2] < 9.5 == between[3]


def test_a_new_value_is_the_nearest_to_the_model_and_that_is_told():
    schema = learned([0.5, 1.5, 9.5] * 20)
    new = encoded(schema, [0.5, 1.2, 1e300, -7.0, 9.5, NAN])
    known = encoded(schema, [0.5, 1.5, 9.5, 0.5, 9.5, NAN])
    np.testing.assert_array_equal(new.x, known.x)
    assert new.events == (
        "column 'a': the value 1.2 was not seen in fitting (3 such cells): kept in the table, "
        "taken for the nearest known value by the model",
    )


def test_values_with_probabilities_have_no_change_of_scale():
    schema = learned([0.5, 1.5, 2.5] * 20)
    assert schema.columns[0].points
    assert not encoded(schema, [0.5, NAN, 2.5, 7.0]).log_slope.any()


def test_only_modelled_columns_are_encoded_in_their_order():
    table = as_table(
        pd.DataFrame({"k": [1, 1, 1], "s": ["x", "y", "x"], "e": [NAN] * 3, "n": [1.5, NAN, 2.5]})
    )
    columns = [table.column(i) for i in range(4)]
    result = encode(infer_schema(columns), columns)
    np.testing.assert_array_equal(result.x[:, 0], [0, 1, 0])
    np.testing.assert_array_equal(result.observed, [[True, True], [True, False], [True, True]])
    assert result.x.dtype == np.float32
    empty = encode(Schema(()), [])
    assert (empty.x.shape, empty.events) == ((0, 0), ())


# What is decoded respects the kind.


@pytest.mark.parametrize(
    ("values", "kind", "bounds", "low", "high", "whole"),
    [
        ([0.5, 3.0, 1.25], None, (0.4, 3.1), 0.4, 3.1, False),
        ([0.0, 0.3, 1.0], None, None, 0.0, 1.0, False),
        ([0.0, 33.3, 100.0], None, None, 0.0, 100.0, False),
        ([1, 5, 9], None, (0.5, 9.9), 1, 9, True),
        ([1, 5, 9], None, None, 1, 13, True),
        ([0, 0, 0, 9], None, None, 0, 1e9, True),
        ([0, 0, 0, 9], "count", (None, 9.5), 0, 9, True),
        ([0.5, 3.0], "positive", None, 0.25, 1e9, False),
        ([1, 5, 9], "positive", None, 1, 13, True),
        ([-3, 5, 9], "continuous", None, -9, 15, True),
    ],
)
def test_numbers_stay_in_their_limits(values, kind, bounds, low, high, whole):
    schema = learned(values, None, kind, bounds)
    y = np.linspace(-50, 50, 1001)
    cells = decoded(schema, y)
    assert low <= cells.min() <= cells.max() <= high
    if bounds is not None and kind is None:
        assert (cells.min(), cells.max()) == (low, high)  # which are reached
    assert np.all(np.diff(cells) >= 0)
    assert np.all(cells == np.rint(cells)) == whole


def test_times_are_multiples_of_their_resolution():
    days = pd.to_datetime(["2020-01-01", "2021-05-05", "1969-12-31"])
    cells = decoded(learned(days), np.linspace(-3, 3, 301))
    assert np.all(cells % 86400 == 0)
    assert len(np.unique(cells)) > 100


def test_codes_between_levels_are_the_nearest_and_those_outside_the_outermost():
    schema = learned(["a", "b", "c"])
    cells = decoded(schema, [-7.0, -0.4, 0.4, 0.6, 1.2, 1.9, 2.4, 99.0])
    assert cells.tolist() == ["a", "a", "a", "b", "b", "c", "c", "c"]


@pytest.mark.parametrize(
    ("values", "dtype", "cells"),
    [
        ([2.5, NAN], None, [2.5, 2.5]),
        (["x", None], None, ["x", "x"]),
        ([True, True], None, [1.0, 1.0]),
    ],
)
def test_a_constant_is_always_itself(values, dtype, cells):
    assert decoded(learned(values, dtype), [-3.0, 8.0]).tolist() == cells


def test_levels_that_are_sequences_stay_whole():
    pairs = [("a", 1), ("b", 2)]
    known = ColumnSchema(
        name="a", kind="binary", reason="", storage="category", levels=tuple(pairs)
    )
    assert decode(known, np.array([1.0, 0.0])).tolist() == pairs[::-1]


def test_intervals_are_levels():
    ages = pd.cut(pd.Series([5, 25, 70, 30]), [0, 18, 65, 120])
    schema = learned(ages)
    assert schema.columns[0].kind == "ordinal"
    found, events = codes(schema, ages.iloc[::-1].reset_index(drop=True))
    assert (found, events) == ([1.0, 2.0, 1.0, 0.0], ())


# The same values, stored in another way.

AS_NUMBERS = [
    ([1, 2, 3, None], "Int64"),
    ([1.0, 2.0, 3.0, NAN], "float64"),
    ([1, 2, 3, None], pd.CategoricalDtype([3, 2, 1])),
    ([1.0, 2.0, 3.0, None], pd.CategoricalDtype([1.0, 2.0, 3.0])),
    (["1", "2", "3", None], None),
    (["1", " 2.0", "3e0", None], None),
    (["1", "2", "3", None], "category"),
    ([1, 2.0, np.int8(3), None], object),
]


@pytest.mark.parametrize(("values", "dtype"), AS_NUMBERS)
@pytest.mark.parametrize(
    "schema",
    [
        learned([3, 1, 2], None, "categorical"),
        learned([3.0, 1.0, 2.0], None, "ordinal"),
        learned([3, 1, 2], pd.CategoricalDtype([1, 2, 3])),
    ],
    ids=["integers", "floats", "categories"],
)
def test_numeric_levels_are_known_however_they_are_stored(schema, values, dtype):
    assert codes(schema, values, dtype) == ([0.0, 1.0, 2.0, None], ())


@pytest.mark.parametrize(
    ("values", "dtype"),
    [
        ([True, False, None], "boolean"),
        ([1, 0, None], "Int64"),
        ([1.0, 0.0, NAN], None),
        ([True, False, None], object),
        ([True, False, None], pd.CategoricalDtype([True, False])),
        (["1", "0", None], None),
    ],
)
@pytest.mark.parametrize(
    "schema",
    [
        learned([True, False]),
        learned([0, 1, 1]),
        learned([True, False], pd.CategoricalDtype([False, True])),
    ],
    ids=["flags", "numbers", "categories"],
)
def test_flags_are_zero_and_one(schema, values, dtype):
    assert codes(schema, values, dtype) == ([1.0, 0.0, None], ())


def test_one_and_true_and_the_text_1_are_three_levels_where_a_column_has_them():
    values = [1, "1", True, "x", 1.5]
    schema = learned(values, object)
    assert [repr(level) for level in schema.columns[0].levels] == [
        "True",
        "1.5",
        "1",
        "'1'",
        "'x'",
    ]
    assert codes(schema, values, object) == ([2.0, 3.0, 0.0, 4.0, 1.0], ())
    # Rows of one type only are stored in another way, and mean the same.
    assert codes(schema, [1, 1]) == ([2.0, 2.0], ())
    assert codes(schema, [1.0, 1.5]) == ([2.0, 1.0], ())
    assert codes(schema, [True, True]) == ([0.0, 0.0], ())
    assert codes(schema, ["x", "1"]) == ([4.0, 3.0], ())
    assert codes(schema, [False, True]) == (
        [None, 0.0],
        (event("0", "was not seen in fitting"),),
    )


def test_text_is_not_taken_for_a_number_where_text_was_learned():
    schema = learned([1, 2, "x", "1.0"], object)
    levels = schema.columns[0].levels
    found, events = codes(schema, ["1.0", "1", "x", 2], object)
    assert found == [levels.index("1.0"), None, levels.index("x"), float(levels.index(2))]
    assert events == (event("1", "was not seen in fitting"),)


def test_large_integers_are_not_confused():
    schema = learned([2**53, 2**53 + 1], pd.CategoricalDtype([2**53, 2**53 + 1]))
    found, _ = codes(schema, [2**53 + 1, 2**53], pd.CategoricalDtype([2**53 + 1, 2**53]))
    assert found == [1.0, 0.0]


def test_another_order_of_categories_changes_nothing():
    schema = learned(["S", "M", "L"], pd.CategoricalDtype(["S", "M", "L"], ordered=True))
    for order in (["L", "M", "S"], ["M", "XL", "S", "L"]):
        found, events = codes(schema, ["S", None, "L", "M"], pd.CategoricalDtype(order))
        assert (found, events) == ([0.0, None, 2.0, 1.0], ())


def test_an_order_that_was_told_holds_for_new_rows():
    schema = learned(["high", "low", None, "low"], None, "ordinal:low<middle<high")
    found, events = codes(schema, ["low", "high", "middle"])
    assert found == [0.0, 1.0, None]
    assert events == (event("middle", "was not seen in fitting"),)


# What the model does not know.


def test_unseen_levels_are_told_and_left_out():
    schema = learned(["a", "b", "a"])
    found, events = codes(schema, ["b", "new", None, "other", "new"])
    assert found == [1.0, None, None, None, None]
    assert events == (event("new", "was not seen in fitting", "3 such cells"),)
    # A category that is declared but has no cell is no news.
    assert codes(schema, ["a"], pd.CategoricalDtype(["new", "a"])) == ([0.0], ())


def test_unseen_numeric_levels():
    schema = learned([1, 2, 3], None, "categorical")
    found, events = codes(schema, [1234567.0, 2.0, NAN])
    assert (found, events) == (
        [None, 1.0, None],
        (event("1234567", "was not seen in fitting"),),
    )
    found, events = codes(schema, ["2", "two", "nan", "inf"])
    assert found == [1.0, None, None, None]
    assert events == (event("two", "was not seen in fitting", "3 such cells"),)


def test_numbers_without_a_logarithm():
    schema = learned(np.exp(np.random.default_rng(0).normal(size=200)))
    assert scale_of(schema).shape == "log"
    result = encoded(schema, [0.0, 1.0, NAN, -1234567.5])
    assert result.observed[:, 0].tolist() == [False, True, False, False]
    assert result.events == (event("0", "is not above 0", "2 such cells"),)
    assert result.x[:, 0].tolist() == [0.0, result.x[1, 0], 0.0, 0.0]
    assert result.log_slope.tolist() == [0.0, result.log_slope[1], 0.0, 0.0]


@pytest.mark.parametrize("kind", ["bounded", "positive", "integer", "count"])
def test_numbers_outside_the_given_bounds(kind):
    schema = learned([1, 2, 4, 9], None, kind, (0, 10))
    result = encoded(schema, [10.0, 11.0, NAN, -1.0, 10.000001])
    assert result.observed[:, 0].tolist() == [True, False, False, False, kind != "count"]
    told = event("11", "is outside its bounds (0.0, 10.0)", "2 such cells")
    assert result.events[0] == told
    assert len(result.events) == 1 + (kind == "count")  # of which 10.000001 is none


def test_bounds_on_a_logarithmic_scale_are_told_once():
    x = np.exp(np.random.default_rng(0).normal(size=200))
    schema = learned(x, bounds=(0, None))
    assert scale_of(schema).shape == "log"
    assert encoded(schema, [-1.0]).events == (event("-1", "is outside its bounds (0.0, None)"),)
    assert encoded(schema, [0.0]).events == (event("0", "is not above 0"),)


def test_limits_that_nobody_gave_are_no_bounds():
    for values in ([0.0, 0.5, 1.0], [0.5, 2.0, 3.0], [1, 2, 3] * 100):
        schema = learned(values)
        assert schema.columns[0].lower is not None
        assert not [e for e in encoded(schema, [0.01, 200.0]).events if "bounds" in e]


def test_what_is_no_count():
    schema = learned([0, 0, 0, 9])
    found, events = codes(schema, [2.5, -1.0, 3.0, NAN, MOST_COUNTED, 1e300])
    assert found == [None, None, 3.0, None, MOST_COUNTED, None]
    assert events == (
        event("2.5", "is not a count", "2 such cells"),
        event("1e+300", "is too large for a count"),
    )


def test_numbers_far_out_stay_numbers_of_float32():
    schema = learned([-0.5, 1.5, 2.0])
    result = encoded(schema, [1e300, -1e300, 1.7e308, 5.0])
    assert np.isfinite(result.x**2).all()
    assert np.sign(result.x[:, 0]).tolist() == [1, -1, 1, 1]
    assert result.x[0, 0] > 1e6 > result.x[3, 0]
    assert np.isfinite(result.log_slope).all()


@pytest.mark.parametrize("kind", [None, "continuous", "count"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_numbers_are_refused_by_row(kind, value):
    message = (
        f"column 'a' has the value {value} in row 1: only finite numbers can be modelled; "
        "correct it, or mark it as missing"
    )
    with pytest.raises(DataError, match=exactly(message)):
        encoded(learned([0, 3, 7], None, kind), [NAN, value, value])


@pytest.mark.parametrize(
    ("before", "after", "what", "now"),
    [
        ([1.5, 2.5], ["x", "2"], "positive from number", "text (str), such as x in row 0"),
        ([1, 2, 9], pd.Categorical([1, 2]), "integer from number", None),
        (["x", "y"], [NAN, 1.0], "binary from text", "number (float64), such as 1 in row 1"),
        (["x", "y"], [True, False], "binary from text", "boolean (bool), such as 1 in row 0"),
        ([1.5, 2.5], pd.to_datetime(["2020-01-01"]), "positive from number", None),
        (
            pd.to_datetime(["2020-01-01", "2021-01-01"]),
            [12, 13],
            "datetime from instants",
            "number (int64), such as 12 in row 0",
        ),
        ([0, 1, 1], pd.to_datetime(["2020-01-01"]), "binary from number", None),
        (["x", "y"], [[1], [2]], "binary from text", "values of type object"),
        ([1.5, 2.5], [[1], [2]], "positive from number", "values of type object"),
    ],
)
def test_columns_of_another_type_are_refused(before, after, what, now):
    schema = learned(before)
    start = f"column 'a' was learned as {what}, but now holds "
    with pytest.raises(DataError) as raised:
        encoded(schema, after)
    assert str(raised.value).startswith(start)
    remedy = "convert it" + " to instants, or fit again" * ("instants" in what)
    assert str(raised.value).endswith(f": {remedy}")
    if now is not None:
        assert str(raised.value) == f"{start}{now}: {remedy}"


INSTANTS = [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 3, 1, 12), None]
SPANS = [datetime.timedelta(hours=30), datetime.timedelta(hours=2), None]
CLOCKS = [datetime.time(8, 15), datetime.time(23, 59), None]
SORTS = {
    "instants": (
        pd.Series(INSTANTS, dtype="datetime64[s]"),
        pd.Series(INSTANTS, dtype=object),
        pl.Series(INSTANTS, dtype=pl.Datetime("ms")),
        pa.array(INSTANTS, pa.timestamp("us", "Europe/Paris")),
        pa.array(INSTANTS, pa.date32()),
        np.array(INSTANTS, "datetime64[s]"),
    ),
    "durations": (
        pd.Series(SPANS, dtype="timedelta64[s]"),
        pd.Series(SPANS, dtype=object),
        pl.Series(SPANS, dtype=pl.Duration("us")),
        pa.array(SPANS, pa.duration("ms")),
        np.array(SPANS, "timedelta64[s]"),
    ),
    "times of day": (
        pd.Series(CLOCKS, dtype=object),
        pl.Series(CLOCKS, dtype=pl.Time),
        pa.array(CLOCKS, pa.time32("s")),
    ),
}
ALL_SORTS = [(sort, cells) for sort, columns in SORTS.items() for cells in columns]


def column_of_any(cells):
    """A column of the library that its cells are of."""
    if isinstance(cells, np.ndarray):
        return as_table(cells[:, None]).column(0)
    library = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}.get(type(cells), pa.table)
    return as_table(library({"x0": cells})).column(0)


@pytest.mark.parametrize(("before", "cells"), ALL_SORTS)
def test_one_sort_of_times_is_not_taken_for_another(before, cells):
    schema = infer_schema([column_of_any(cells)])
    for now, others in ALL_SORTS:
        column = column_of_any(others)
        if now == before:
            assert encode(schema, [column]).observed[:, 0].tolist() == [True, True, False]
            continue
        with pytest.raises(DataError) as raised:
            encode(schema, [column])
        assert str(raised.value).startswith(
            f"column 'x0' was learned as datetime from {before}, but now holds {now} "
            f"({column.dtype}), such as "
        )
        assert str(raised.value).endswith(f" in row 0: convert it to {before}, or fit again")


@pytest.mark.parametrize(
    ("cells", "shown"),
    [(INSTANTS, "2020-01-01 00:00:00"), (SPANS, "1 day, 6:00:00"), (CLOCKS, "8:15:00")],
)
def test_times_that_are_refused_are_shown_as_people_write_them(cells, shown):
    with pytest.raises(DataError, match=f"such as {shown} in row 0: convert it$"):
        encoded(learned([1.5, 2.5]), cells, object)


@pytest.mark.parametrize(
    ("times", "ends"),
    [
        ([datetime.time(0, 10), datetime.time(23, 50)], ["00:00:00", "23:59:00"]),
        ([datetime.time(0, 30), datetime.time(22, 30)], ["00:30:00", "23:30:00"]),
        ([datetime.time(0, 0, 1), datetime.time(23, 59)], ["00:00:00", "23:59:59"]),
    ],
)
def test_times_of_day_stay_within_the_day_and_in_their_steps(times, ends):
    cells = decoded(learned(times, object), [-50.0, 50.0])
    assert [str(datetime.timedelta(seconds=s)).zfill(8) for s in cells] == ends


def test_durations_do_not_become_negative_where_none_was():
    spans = learned([60, 600, 6000], "timedelta64[s]")
    assert decoded(spans, [-50.0])[0] >= 0
    assert decoded(learned([-60, 600, 6000], "timedelta64[s]"), [-50.0])[0] < -60


@pytest.mark.parametrize(
    "schema",
    [
        learned([1.5, 2.5]),
        learned(["x", "y"]),
        learned([0, 0, 9]),
        learned(pd.to_datetime(["2020-01-01", "2021-01-01"])),
    ],
)
@pytest.mark.parametrize(
    ("values", "dtype"),
    [([None, None], None), ([NAN, NAN], None), ([None], "category"), ([None], "boolean")],
)
def test_a_column_without_values_is_of_any_type(schema, values, dtype):
    result = encoded(schema, values, dtype)
    assert not result.observed.any()
    assert not result.x.any()
    assert result.events == ()


def test_missing_cells_are_not_read():
    schema = learned(np.exp(np.random.default_rng(0).normal(size=200)))
    column = column_of([1.0, NAN, 2.0])
    results = [
        encode(schema, [replace(column, values=np.array([1.0, rest, 2.0]))])
        for rest in (NAN, np.inf, -5.0, 1e300)
    ]
    for result in results:
        assert result.events == ()
        np.testing.assert_array_equal(result.x, results[0].x)
        np.testing.assert_array_equal(result.log_slope, results[0].log_slope)


@pytest.mark.parametrize("storage", ["number", "boolean"])
def test_codes_of_missing_cells_are_not_read(storage):
    known = ColumnSchema(name="a", kind="binary", reason="", storage="number", levels=(0.0, 1.0))
    column = Column(
        name="a",
        storage=storage,
        values=np.array([1.0, NAN, 0.0]),
        missing=np.array([False, True, False]),
    )
    result = encode(Schema((known,)), [column])
    np.testing.assert_array_equal(result.x[:, 0], [1, 0, 0])
    np.testing.assert_array_equal(result.observed[:, 0], [True, False, True])


def test_rows_are_encoded_alone_as_among_others():
    values = [1, "1", None, True, "new", 2.5]
    schema = learned([1, "1", True, 2.5, "x"], object)
    whole = encoded(schema, values, object)
    for row, value in enumerate(values):
        alone = encoded(schema, [value], object)
        assert alone.x[0, 0] == whole.x[row, 0]
        assert alone.observed[0, 0] == whole.observed[row, 0]


def test_decode_of_a_scale_is_its_inverse():
    known = ColumnSchema(
        name="a",
        kind="continuous",
        reason="",
        storage="number",
        transform=Transform(shape="asinh", shift=2.0, unit=3.0, centre=0.5, spread=2.0),
    )
    y = np.linspace(-2, 2, 9)
    np.testing.assert_allclose(decode(known, y), 2 + 3 * np.sinh(0.5 + 2 * y), rtol=1e-15)
