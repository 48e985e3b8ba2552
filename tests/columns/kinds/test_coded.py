"""One of several levels: kept apart by type, known however they are stored."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from columns.cases import NAN, codes, column_of, not_usable, ordered, schema_of
from miwae.columns.kinds import Coded

text = st.lists(st.text(max_size=5), min_size=2, max_size=30)
mixed = st.lists(
    st.one_of(st.integers(0, 3), st.booleans(), st.sampled_from("0123")), min_size=2, max_size=30
)


@settings(max_examples=50, deadline=None)
@given(st.one_of(text, mixed))
def test_levels_come_back_with_their_types(values):
    column = column_of([*values, None, None], object)
    known = schema_of(column, "categorical")
    if not known.kind.modelled:
        return  # a constant
    result = known.encoded(column)
    cells = known.kind.decoded(result.values[result.seen])
    assert cells.tolist() == values
    if known.storage == "text":  # else they are numbers, 0.0 or 1.0 for booleans
        assert list(map(type, cells)) == list(map(type, values))


@pytest.mark.parametrize(
    ("values", "dtype", "levels"),
    [
        (["b", "a", None, "c"], None, ("a", "b", "c")),
        (["M", "S", None], ordered("S", "M", "L"), ("S", "M")),
        (["L", "S", "M", None], ordered("S", "never", "M", "L"), ("S", "M", "L")),
        ([True, None, False], "boolean", (0.0, 1.0)),
        ([2, 1, 1, 1, 2], None, (1.0, 2.0)),
        ([7, 5, 6], pd.CategoricalDtype([7, 5, 9, 6]), (7, 5, 6)),
        ([1, "1", True, 2], object, (True, 1, 2, "1")),
    ],
)
def test_levels_are_those_that_occur_in_the_order_of_the_column(values, dtype, levels):
    found = schema_of(values, dtype=dtype).kind.levels
    assert [(type(v), v) for v in found] == [(type(v), v) for v in levels]


def test_values_between_places_are_the_nearest_level_and_those_outside_the_outermost():
    y = np.array([-7.0, -0.4, 0.4, 0.6, 1.2, 1.9, 2.4, 99.0])
    cells = schema_of(["a", "b", "c"]).kind.decoded(y)
    assert cells.tolist() == ["a", "a", "a", "b", "b", "c", "c", "c"]


def test_levels_that_are_sequences_stay_whole():
    pairs = (("a", 1), ("b", 2))
    kind = Coded(label="binary", levels=pairs)
    assert kind.decoded(np.array([1.0, 0.0])).tolist() == [pairs[1], pairs[0]]


def test_intervals_of_pandas_are_levels():
    ages = pd.cut(pd.Series([5, 25, 70, 30]), [0, 18, 65, 120])
    known = schema_of(ages)
    assert known.kind.label == "ordinal"
    backwards = ages.iloc[::-1].reset_index(drop=True)
    assert codes(known, backwards) == ([1.0, 2.0, 1.0, 0.0], ())


@pytest.mark.parametrize(("label", "has_order"), [("categorical", False), ("ordinal", True)])
def test_only_ordered_levels_have_intervals(label, has_order):
    kind = Coded(label=label, levels=("a", "b", "c"))
    limits, point = np.array([[0.0], [2.0]]), np.array([1.0])
    expected = limits if has_order else np.array([[1.0], [1.0]])
    np.testing.assert_array_equal(kind.interval(limits, point), expected)


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
    "known",
    [
        schema_of([3, 1, 2], "categorical"),
        schema_of([3.0, 1.0, 2.0], "ordinal"),
        schema_of([3, 1, 2], dtype=pd.CategoricalDtype([1, 2, 3])),
    ],
    ids=["integers", "floats", "categories"],
)
def test_numeric_levels_are_known_however_they_are_stored(known, values, dtype):
    assert codes(known, values, dtype) == ([0.0, 1.0, 2.0, None], ())


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
    "known",
    [
        schema_of([True, False]),
        schema_of([0, 1, 1]),
        schema_of([True, False], dtype=pd.CategoricalDtype([False, True])),
    ],
    ids=["flags", "numbers", "categories"],
)
def test_booleans_are_zero_and_one(known, values, dtype):
    assert codes(known, values, dtype) == ([1.0, 0.0, None], ())


def test_one_and_true_and_the_text_1_are_three_levels_where_a_column_has_them():
    values = [1, "1", True, "x", 1.5]
    known = schema_of(values, dtype=object)
    assert [repr(level) for level in known.kind.levels] == ["True", "1.5", "1", "'1'", "'x'"]
    assert codes(known, values, object) == ([2.0, 3.0, 0.0, 4.0, 1.0], ())
    # Rows of one type only are stored in another way, and mean the same.
    assert codes(known, [1, 1]) == ([2.0, 2.0], ())
    assert codes(known, [1.0, 1.5]) == ([2.0, 1.0], ())
    assert codes(known, [True, True]) == ([0.0, 0.0], ())
    assert codes(known, ["x", "1"]) == ([4.0, 3.0], ())
    assert codes(known, [False, True]) == (
        [None, 0.0],
        (not_usable("False", "was not seen in fitting"),),
    )


def test_text_is_not_taken_for_a_number_where_text_was_learned():
    known = schema_of([1, 2, "x", "1.0"], dtype=object)
    levels = known.kind.levels
    found, events = codes(known, ["1.0", "1", "x", 2], object)
    assert found == [levels.index("1.0"), None, levels.index("x"), float(levels.index(2))]
    assert events == (not_usable("1", "was not seen in fitting"),)


def test_large_integers_are_not_confused():
    known = schema_of([2**53, 2**53 + 1], dtype=pd.CategoricalDtype([2**53, 2**53 + 1]))
    found, _ = codes(known, [2**53 + 1, 2**53], pd.CategoricalDtype([2**53 + 1, 2**53]))
    assert found == [1.0, 0.0]


def test_another_order_of_categories_changes_nothing():
    known = schema_of(["S", "M", "L"], dtype=pd.CategoricalDtype(["S", "M", "L"], ordered=True))
    for order in (["L", "M", "S"], ["M", "XL", "S", "L"]):
        found, events = codes(known, ["S", None, "L", "M"], pd.CategoricalDtype(order))
        assert (found, events) == ([0.0, None, 2.0, 1.0], ())


def test_an_order_that_the_user_gave_holds_for_new_rows():
    known = schema_of(["high", "low", None, "low"], "ordinal:low<middle<high")
    found, events = codes(known, ["low", "high", "middle"])
    assert found == [0.0, 1.0, None]
    assert events == (not_usable("middle", "was not seen in fitting"),)


# What the model does not know.


def test_unseen_levels_are_an_event_and_not_used():
    known = schema_of(["a", "b", "a"])
    found, events = codes(known, ["b", "new", None, "other", "new"])
    assert found == [1.0, None, None, None, None]
    assert events == (not_usable("new", "was not seen in fitting", 3),)
    # A category that is declared but has no cell is no news.
    assert codes(known, ["a"], pd.CategoricalDtype(["new", "a"])) == ([0.0], ())


def test_unseen_numeric_levels():
    known = schema_of([1, 2, 3], "categorical")
    found, events = codes(known, [1234567.0, 2.0, NAN])
    assert (found, events) == (
        [None, 1.0, None],
        (not_usable("1234567", "was not seen in fitting"),),
    )
    found, events = codes(known, ["2", "two", "nan", "inf"])
    assert found == [1.0, None, None, None]
    assert events == (not_usable("two", "was not seen in fitting", 3),)


@pytest.mark.parametrize("storage", ["number", "boolean"])
def test_missing_cells_have_no_code(storage):
    values = [1.0, NAN, 0.0] if storage == "number" else [True, None, False]
    column = column_of(values, None if storage == "number" else "boolean")
    result = Coded(label="binary", levels=(0.0, 1.0)).encoded(column)
    np.testing.assert_array_equal(result.values[result.seen], [1, 0])
    np.testing.assert_array_equal(result.seen, [True, False, True])


def test_rows_are_encoded_alone_as_among_others():
    values = [1, "1", None, True, "new", 2.5]
    known = schema_of([1, "1", True, 2.5, "x"], dtype=object)
    whole, _ = codes(known, values, object)
    alone = [codes(known, [value], object)[0][0] for value in values]
    assert alone == whole
