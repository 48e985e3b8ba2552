"""What users say about columns: by name or position, and refused with the remedy."""

import numpy as np
import pandas as pd
import pytest

from columns.cases import DAYS, NAN, columns_of, exactly, schema_of
from miwae.columns import infer_schema
from miwae.columns.kinds import LABELS
from miwae.errors import DataError, SettingsError
from miwae.frames import columns


def labels_with(settings, names):
    frame = pd.DataFrame([[1, 2], [3, 4], [5, 6]], columns=names)
    schema = infer_schema(columns(frame), column_kinds=settings)
    return [known.kind.label for known in schema.columns]


@pytest.mark.parametrize(
    ("key", "names", "position"),
    [
        ("age", ["age", "size"], 0),
        (1, ["age", "size"], 1),
        (-1, ["age", "size"], 1),
        (np.int64(0), ["age", "size"], 0),
        (1, [1, 0], 0),  # a name is meant where there is one
        ("1", [1, 0], 0),
        (0, [7, 8], 0),
        (("a", "b"), pd.MultiIndex.from_tuples([("a", "b"), ("c", "d")]), 0),
    ],
)
def test_columns_are_named_or_counted(key, names, position):
    expected = ["integer", "integer"]
    expected[position] = "categorical"
    assert labels_with({key: "categorical"}, names) == expected


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("aeg", "did you mean 'age'?"),
        ("sizes", "did you mean 'size'?"),
        ("colour", "there are age, size"),
        (2, "there are age, size"),
        (-3, "there are age, size"),
        (True, "there are age, size"),
        (1.0, "there are age, size"),
    ],
)
@pytest.mark.parametrize("what", ["column_kinds", "bounds"])
def test_columns_that_do_not_exist(what, key, hint):
    table = columns_of(age=[1, 2], size=[3, 4])
    value = "integer" if what == "column_kinds" else (0, 10)
    message = f"{what} names the column {key!r}, which does not exist; {hint}"
    with pytest.raises(SettingsError, match=exactly(message)):
        infer_schema(table, **{what: {key: value}})


def test_of_many_columns_some_are_named():
    table = columns_of(**{f"c{i}": [1, 2] for i in range(100)})
    listed = ", ".join(f"c{i}" for i in range(20))
    message = f"names the column 'zzz', which does not exist; there are {listed}, and 80 more"
    with pytest.raises(SettingsError, match=exactly(f"column_kinds {message}")):
        infer_schema(table, column_kinds={"zzz": "integer"})


def test_a_column_is_named_once():
    table = columns_of(age=[1, 2], size=[3, 4])
    with pytest.raises(SettingsError, match=exactly("column_kinds names the column 'age' twice")):
        infer_schema(table, column_kinds={"age": "integer", 0: "categorical"})


@pytest.mark.parametrize("kind", ["numeric", "Continuous", "", None.__class__, 3])
def test_unknown_kinds_are_answered_with_those_that_exist(kind):
    message = f"column 'a': the kind {kind!r} is not one of {', '.join(LABELS)}"
    with pytest.raises(SettingsError, match=exactly(message)):
        infer_schema(columns_of(a=[1.0, 2.0]), column_kinds={"a": kind})


def test_only_ordinal_columns_have_an_order():
    message = (
        "column 'a': there is no kind 'categorical:a<b'; after a colon comes the order of "
        "'ordinal:low<middle<high' or, in text files, 'datetime:day-first' or "
        "'datetime:month-first'"
    )
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of(["a", "b"], "categorical:a<b")


@pytest.mark.parametrize(
    ("values", "dtype", "order", "levels"),
    [
        (["b", "c", "a"], None, "c<a<b", ("c", "a", "b")),
        (["low", "high", None], None, " low < middle < high ", ("low", "high")),
        (["high", "low"], None, "low<middle<high", ("low", "high")),
        (["b", "a"], pd.CategoricalDtype(["z", "b", "a"]), "a<b", ("a", "b")),
        ([10, 9, 8], "category", "9<8<10", (9, 8, 10)),
        ([0.5, 1234567.0], "category", "1234567<0.5", (1234567.0, 0.5)),
    ],
)
def test_levels_can_be_ordered(values, dtype, order, levels):
    known = schema_of(values, f"ordinal:{order}", dtype=dtype)
    assert (known.kind.label, known.reason) == ("ordinal", "specified by the user")
    assert known.kind.levels == levels
    assert known.storage == ("text" if dtype is None else "category")


@pytest.mark.parametrize(
    ("values", "order", "shown"),
    [
        (["a", "b", "c"], "a<b", "a, b, c"),
        (["a", "b"], "a<b<a", "a, b"),
        (["a", "b"], "a,b", "a, b"),
        ([1, "1", "x"], "1<x", "1, 1, x"),
    ],
)
def test_an_order_names_each_value_once(values, order, shown):
    message = f"column 'a': the order {order!r} must name each of the values {shown} once"
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of(values, f"ordinal:{order}")


@pytest.mark.parametrize("values", [[1, 2, 3], [True, False]])
def test_numbers_need_no_order(values):
    message = "column 'a': numbers have an order already, use 'ordinal'"
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of(values, "ordinal:3<2<1")


# Bounds.


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        ((2, 1), "bounds of 'a': 2 is not below 1"),
        ((1, 1), "bounds of 'a': 1 is not below 1"),
        (5, "bounds of 'a' must be a pair of numbers, not 5"),
        ((1, 2, 3), "bounds of 'a' must be a pair of numbers, not (1, 2, 3)"),
        (("low", 2), "bounds of 'a' must be a pair of numbers, not ('low', 2)"),
        ((NAN, 2), "bounds of 'a' must be a pair of numbers, not (nan, 2)"),
        ((None, NAN), "bounds of 'a' must be a pair of numbers, not (None, nan)"),
        ((0, 10**400), f"bounds of 'a' must be a pair of numbers, not (0, {10**400})"),
    ],
)
def test_bounds_that_make_no_sense(pair, message):
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of([0.5, 1.5], None, pair)


@pytest.mark.parametrize(
    ("values", "dtype", "label"),
    [
        (["x", "y", "z"], None, "categorical"),
        ([True, False], None, "binary"),
        (DAYS, "datetime64[s]", "datetime"),
        ([[1], [2]], None, "identifier"),
    ],
)
def test_only_numbers_have_bounds(values, dtype, label):
    message = (
        f"bounds were given for column 'a', which is {label}: only columns of numbers can have "
        "bounds"
    )
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of(values, None, (0, 1), dtype)


def test_a_value_outside_its_bounds_is_named():
    message = (
        "column 'a' has the value 1234567.5 in row 2, outside its bounds (0.0, 10.0) "
        "(2 such cells): correct it, mark it as missing, or widen the bounds"
    )
    with pytest.raises(DataError, match=exactly(message)):
        schema_of([0.5, NAN, 1234567.5, -1.0], None, (0, 10))
    assert schema_of([0.0, 2.5, 10.0], None, (0, 10)).kind.upper == 10  # limits are allowed


def test_bounds_say_that_numbers_are_numbers():
    def label(values, kind=None, bounds=(0, 10)):
        return schema_of(values, kind, bounds).kind.label

    assert label([0.5, 3.0]) == "bounded"
    assert schema_of([0.5, 3.0], None, (0, 4)).reason.startswith("bounds were given")
    assert schema_of([0, 7, 7, 0, 0, 7]).kind.label == "binary"
    assert label([0, 7, 7, 0, 0, 7]) == "integer"
    assert label([0, 0, 0, 9]) == "integer"
    # Levels are within bounds if the observed cells are.
    assert label([0, 1, 1], bounds=(0, 1)) == "binary"
    assert schema_of([3, 7, 9], "categorical", (0, 10)).kind.levels == (3.0, 7.0, 9.0)
    assert label([7, 7]) == "constant"
    assert label([NAN, NAN]) == "empty"
