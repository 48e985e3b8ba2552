"""What columns are taken for: every rule with its reason, and what users can say instead."""

import numpy as np
import pandas as pd
import pytest

from columns.cases import DAYS, NAN, column_of, columns_of, exactly, ordered, schema_of, words
from miwae.columns import Column, infer_schema
from miwae.columns._summary import MOST_COUNTED, MOST_DISTINCT
from miwae.columns.kinds import LABELS, Instant
from miwae.columns.kinds._unmodelled import FEW_LEVELS
from miwae.errors import DataError

RNG = np.random.default_rng(0)

# Values, dtype, label, reason: one line for each rule, and for tables as people have them.
RULES = {
    "empty": ([None, NAN], None, "empty", "no cell is observed"),
    "empty_float": ([NAN, NAN], "float64", "empty", "no cell is observed"),
    "empty_category": ([None], pd.CategoricalDtype(["x"]), "empty", "no cell is observed"),
    "lists": ([[1], None, [2]], None, "identifier", "values of type object cannot be modelled"),
    "constant_number": ([2.5, NAN, 2.5], None, "constant", "all 2 observed cells are equal"),
    "constant_integer": ([3, 3, 3], None, "constant", "all 3 observed cells are equal"),
    "constant_flag": ([True, True], None, "constant", "all 2 observed cells are equal"),
    "constant_text": (["x", None, "x"], None, "constant", "all 2 observed cells are equal"),
    "constant_time": (["2020-01-01"] * 2, "datetime64[s]", "constant", None),
    "constant_category": (["x", None], pd.CategoricalDtype(["w", "x"]), "constant", None),
    "huge_ids": (
        [10**18 + 63, 10**18 + 64, 10**18 + 65, 10**18 + 66],
        None,
        "identifier",
        "whole numbers too large to be told apart",
    ),
    "one_observed": ([None, 7.5], None, "constant", "only one cell is observed"),
    "flags": ([True, False, True], None, "binary", "true or false"),
    "flags_nullable": ([True, None, False], "boolean", "binary", "true or false"),
    "yes_no": (["yes", "no", None], None, "binary", "text with two values"),
    "two_categories": (["u", "v"], "category", "binary", "categories with two values"),
    "two_ordered": (["u", "v"], ordered("v", "u"), "binary", "categories with two values"),
    "text": (["r", "g", "b", "r"], None, "categorical", "text with 3 distinct values"),
    "categories": (
        ["r", "g", "b"],
        "category",
        "categorical",
        "categories with 3 distinct values",
    ),
    "ordered": (["S", "M", "L"], ordered("S", "M", "L", "XL"), "ordinal", None),
    "dates": (DAYS, "datetime64[ns]", "datetime", "stored as times"),
    "durations": ([1, 2, None], "timedelta64[s]", "datetime", "stored as durations"),
    "zero_one": ([0, 1], None, "binary", "two values, 0 and 1"),
    "zero_one_float": ([0.0, NAN, 1.0], None, "binary", "two values, 0 and 1"),
    "coded": ([1, 2, 2, 1, 2], None, "binary", "two values, 1 and 2"),
    "two_numbers": ([1, 2, 2, 1], None, "integer", "whole numbers from 1 to 2"),
    "counts": ([0, 0, 1, 0, 7, 2], None, "count", "whole numbers from 0 to 7, 50% of them 0"),
    "counts_float": ([0.0, NAN, 0, 9, 1], None, "count", None),
    "even_numbers_with_0": ([0, 1, 2, 1, 2], None, "integer", "whole numbers from 0 to 2"),
    "few_zeros": ([0, *range(20, 60)], None, "integer", "whole numbers from 0 to 59"),
    "negative_zeros": ([-5, 0, 0, 0, 9], None, "integer", "whole numbers from -5 to 9"),
    "codes_of_3": ([1, 2, 3, 3, 2, 1], None, "integer", "whole numbers from 1 to 3"),
    "years": ([1987.0, NAN, 2020, 1999], None, "integer", "whole numbers from 1987 to 2020"),
    "ids": ([1234567, 1234570, 1234569], None, "integer", "whole numbers from 1234567 to 1234570"),
    "zip_codes": (
        ["01234", "98765", *words(9, 9)],
        None,
        "identifier",
        "text with 11 distinct values in 11 cells",
    ),
    "positive": (
        [0.5, 1.25, NAN, 20000.0],
        None,
        "positive",
        "all observed numbers are above 0, from 0.5 to 20000; modelled on a logarithmic scale",
    ),
    "shares": ([0, 0.25, 1], None, "bounded", "all observed numbers are shares from 0 to 1"),
    "percent": (
        [0, 12.5, 100],
        None,
        "bounded",
        "all observed numbers are percentages from 0 to 100",
    ),
    "no_negative": (
        [0, 12.5, 40],
        None,
        "bounded",
        "no observed number is below 0, the largest is 40",
    ),
    "temperatures": ([-10.5, 0.0, 30.0], None, "continuous", "numbers from -10.5 to 30"),
    "huge_floats": ([1e20, -2e21, 5e19], None, "continuous", "numbers from -2e+21 to 1e+20"),
    "huge_integers": (
        [2**60, 2**61],
        None,
        "integer",
        "whole numbers from 1.15292e+18 to 2.30584e+18",
    ),
    "many_zeros_huge": ([0, 0, 2**25], None, "integer", None),
}


@pytest.mark.parametrize("rule", RULES)
def test_kinds_and_their_reasons(rule):
    values, dtype, label, reason = RULES[rule]
    known = schema_of(values, dtype=dtype)
    assert known.kind.label == label
    if reason is not None:
        assert known.reason == reason
    assert known.kind.modelled == (label not in ("empty", "constant", "identifier"))
    assert not known.specified


def test_the_rules_reach_every_label():
    # Clock times need many values: tests/columns/kinds/test_clock.py has them.
    assert {label for _, _, label, _ in RULES.values()} | {"clock"} == set(LABELS)


@pytest.mark.parametrize("rule", RULES)
def test_inference_does_not_depend_on_the_order_of_rows(rule):
    values, dtype, _, _ = RULES[rule]
    series = pd.Series(values * 3, dtype=dtype)
    orders = [np.random.default_rng(seed).permutation(len(series)) for seed in range(5)]
    shuffled = [schema_of(series.iloc[order].reset_index(drop=True)) for order in orders]
    assert all(known == schema_of(series) for known in shuffled)


@pytest.mark.parametrize(
    ("n_distinct", "n_observed", "label"),
    [
        (FEW_LEVELS, FEW_LEVELS, "categorical"),
        (FEW_LEVELS + 1, FEW_LEVELS + 1, "identifier"),
        (FEW_LEVELS + 1, 2 * FEW_LEVELS + 1, "identifier"),
        (FEW_LEVELS + 1, 2 * FEW_LEVELS + 2, "categorical"),
        (1000, 2000, "categorical"),
        (MOST_DISTINCT, 2 * MOST_DISTINCT, "categorical"),
        (MOST_DISTINCT + 1, 4 * MOST_DISTINCT, "identifier"),
    ],
)
def test_text_of_many_values_is_a_name(n_distinct, n_observed, label):
    known = schema_of([*words(n_distinct, n_observed), None])
    assert known.kind.label == label
    assert len(known.kind.levels) == (n_distinct if label == "categorical" else 0)


def test_declared_categories_are_categories_until_there_are_too_many():
    assert schema_of(words(50, 50), dtype="category").kind.label == "categorical"
    n = MOST_DISTINCT + 1
    too_many = schema_of(words(n, n), dtype="category")
    assert too_many.kind.label == "identifier"
    assert too_many.reason == "more than 2000 distinct values are too many for categories"


# What users can specify.


@pytest.mark.parametrize(
    ("values", "dtype", "labels"),
    [
        ([1, 2, 3, 0], None, "continuous integer count categorical ordinal bounded identifier"),
        ([1, 2], None, "continuous positive integer count binary categorical ordinal"),
        ([0.5, 1.5], None, "continuous positive bounded binary categorical ordinal identifier"),
        (["x", "y"], None, "binary categorical identifier"),
        (["x", "y", "x"], ordered("y", "x"), "binary categorical ordinal identifier"),
        ([True, False], None, "binary categorical ordinal continuous integer count identifier"),
        (DAYS, "datetime64[s]", "datetime categorical ordinal identifier"),
        ([5, 5], None, "constant identifier"),
        ([NAN], None, "empty identifier"),
        ([[1]], None, "identifier"),
    ],
)
def test_every_possible_kind_can_be_specified(values, dtype, labels):
    for label in labels.split():
        known = schema_of(values, label, dtype=dtype)
        assert known.kind.label == label
        assert known.specified
        assert known.reason.split(";")[0] == "specified by the user"


@pytest.mark.parametrize("label", ["continuous", "integer", "positive", "bounded"])
def test_numbers_on_a_column_of_times_are_times(label):
    known = schema_of(DAYS, label, dtype="datetime64[s]")
    assert isinstance(known.kind, Instant)
    assert known.kind == schema_of(DAYS, dtype="datetime64[s]").kind


@pytest.mark.parametrize(
    ("values", "kind", "message"),
    [
        ([NAN, 0.0], "positive", "it has values that are not above 0 (row 1: 0)"),
        ([1.0, -2.5], "positive", "it has values that are not above 0 (row 1: -2.5)"),
        ([NAN, 1, 1234567.5], "integer", "it has values that are not whole (row 2: 1234567.5)"),
        ([1, 2.5], "count", "it has values that are not whole (row 1: 2.5)"),
        ([1, -2], "count", "it has values below 0 (row 1: -2)"),
        (
            [0, MOST_COUNTED + 1],
            "count",
            "it has values above 16777216; use 'integer' (row 1: 16777217)",
        ),
        ([1, 2, 3], "binary", "it has 3 distinct values, not 2"),
        ([1, 2], "constant", "it has 2 distinct values"),
        ([1.0], "empty", "it has observed cells; use 'identifier' to keep it as it is"),
        (["x", "y"], "continuous", "it holds text (row 0: x)"),
        (["x", "y"], "count", "it holds text (row 0: x)"),
        ([None, "x", "y"], "datetime", "it does not hold times (row 1: x)"),
        ([NAN, 1, 2], "datetime", "it does not hold times (row 1: 1)"),
        (["x", "y"], "ordinal", "text has no order; give it, as 'ordinal:low<middle<high'"),
        ([[1]], "categorical", "values of type object cannot be modelled; use 'identifier'"),
        ([[1]], "ordinal:a<b", "values of type object cannot be modelled; use 'identifier'"),
    ],
)
def test_a_kind_that_cells_contradict_is_refused_with_the_cell(values, kind, message):
    label = kind.partition(":")[0]
    with pytest.raises(DataError, match=exactly(f"column 'a' cannot be {label}: {message}")):
        schema_of(values, kind)


@pytest.mark.parametrize("label", ["continuous", "binary", "categorical", "count", "ordinal"])
def test_a_part_of_a_table_may_have_too_little_to_see_a_kind(label):
    constant = schema_of([1, 1, NAN], label)
    assert constant.kind.label == "constant"
    assert constant.reason == f"specified as {label}, but all 2 observed cells are equal"
    empty = schema_of([NAN, NAN], label)
    assert empty.kind.label == "empty"
    assert empty.reason == f"specified as {label}, but no cell is observed"


@pytest.mark.parametrize("kind", ["categorical", "ordinal:a<b"])
def test_specified_categories_may_not_be_too_many(kind):
    assert len(schema_of(range(MOST_DISTINCT), "categorical").kind.levels) == MOST_DISTINCT
    n = MOST_DISTINCT + 1
    values = words(n, n) if ":" in kind else range(n)
    with pytest.raises(DataError, match=": it has more than 2000 distinct values$"):
        schema_of(values, kind)


@pytest.mark.parametrize("kind", [None, "continuous", "count", "categorical", "constant"])
def test_infinite_numbers_are_named(kind):
    message = (
        "column 'a' has the value inf in row 2: only finite numbers can be modelled; correct it, "
        "or mark it as missing"
    )
    with pytest.raises(DataError, match=exactly(message)):
        schema_of([1.0, NAN, np.inf], kind)
    assert schema_of([1.0, np.inf], "identifier").kind.label == "identifier"


def test_scales_are_part_of_the_reason():
    wild = RNG.standard_cauchy(500)
    assert schema_of(wild).reason.endswith("; modelled on an inverse hyperbolic sine scale")
    assert schema_of(wild, "continuous").reason == (
        "specified by the user; modelled on an inverse hyperbolic sine scale"
    )
    assert schema_of(np.exp(RNG.normal(size=500))).reason.endswith("on a logarithmic scale")
    assert "scale" not in schema_of(RNG.normal(size=500)).reason


# New cells of a known column.


@pytest.mark.parametrize(
    ("before", "after", "what", "now"),
    [
        ([1.5, 2.5], ["x", "2"], "positive from number", "text (str), such as x in row 0"),
        ([1, 2, 9], pd.Categorical([1, 2]), "integer from number", None),
        (["x", "y"], [NAN, 1.0], "binary from text", "number (float64), such as 1 in row 1"),
        (["x", "y"], [True, False], "binary from text", "boolean (bool), such as True in row 0"),
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
    known = schema_of(before)
    start = f"column 'a' was learned as {what}, but now holds "
    with pytest.raises(DataError) as raised:
        known.encoded(column_of(after))
    assert str(raised.value).startswith(start)
    remedy = "convert it" + " to instants, or fit again" * ("instants" in what)
    assert str(raised.value).endswith(f": {remedy}")
    if now is not None:
        assert str(raised.value) == f"{start}{now}: {remedy}"


@pytest.mark.parametrize(
    "known",
    [
        schema_of([1.5, 2.5]),
        schema_of(["x", "y"]),
        schema_of([0, 0, 9]),
        schema_of(pd.to_datetime(["2020-01-01", "2021-01-01"])),
    ],
)
@pytest.mark.parametrize(
    ("values", "dtype"),
    [([None, None], None), ([NAN, NAN], None), ([None], "category"), ([None], "boolean")],
)
def test_a_column_without_values_is_of_any_type(known, values, dtype):
    result = known.encoded(column_of(values, dtype))
    assert not result.seen.any()
    assert result.events == ()


@pytest.mark.parametrize(
    ("before", "after", "dtype", "message"),
    [
        (
            DAYS[:2],
            [NAN, NAN],
            "Float64",
            "column 'a' was learned as datetime from instants, but is of type Float64 here: "
            "convert it to instants, or fit again",
        ),
        (
            ["x", "y"],
            [None],
            "Int64",
            "column 'a' was learned as binary from text, but now holds number (Int64): convert it",
        ),
        (
            ["x", "x"],
            [None],
            "boolean",
            "column 'a' was learned as constant from text, but now holds boolean (boolean): "
            "convert it",
        ),
    ],
)
def test_columns_that_cannot_hold_what_will_be_imputed_are_refused(before, after, dtype, message):
    known = schema_of(before, dtype="datetime64[s]" if before == DAYS[:2] else None)
    with pytest.raises(DataError, match=exactly(message)):
        known.require_room(column_of(after, dtype))


def test_missing_cells_that_stay_missing_are_an_event():
    names = column_of([*words(9, 9), None, None])
    known = schema_of(names)
    assert not known.is_imputed(names, zeros_if_empty=True)
    (event,) = known.not_filled(names, zeros_if_empty=True)
    assert (event.about, event.column, event.count) == ("not filled", "a", 2)
    assert event.text == (
        "column 'a' is not modelled: its 2 missing cells stay missing; give its kind to have it "
        "imputed"
    )
    lists = column_of([[1], None])
    assert schema_of(lists).not_filled(lists, zeros_if_empty=False)[0].text.endswith("missing")
    full = column_of(words(9, 9))
    assert schema_of(full).not_filled(full, zeros_if_empty=False) == ()


def test_columns_without_any_value_are_filled_by_request_only():
    empty = column_of([NAN, NAN])
    known = schema_of(empty)
    (event,) = known.not_filled(empty, zeros_if_empty=False)
    assert (event.about, event.count) == ("empty", 2)
    assert known.is_imputed(empty, zeros_if_empty=True)
    assert known.not_filled(empty, zeros_if_empty=True) == ()
    assert known.cells(np.array([0, 1]), np.array([3.0, -3.0])).values.tolist() == [0.0, 0.0]
    text = column_of([None], pd.CategoricalDtype(["x"]))
    assert not schema_of(text).is_imputed(text, zeros_if_empty=True)


def test_imputed_cells_have_the_limits_and_levels_of_their_column():
    shares = schema_of([0.0, 0.5, 1.0]).cells(np.array([3, 5]), np.array([-50.0, 50.0]))
    assert shares.rows.tolist() == [3, 5]
    assert shares.values.tolist() == [0.0, 1.0]
    assert (shares.lower, shares.upper, shares.storage) == (0.0, 1.0, "number")
    colours = schema_of(["r", "g", "b"]).cells(np.array([0]), np.array([1.2]))
    assert (colours.values.tolist(), colours.levels) == (["g"], ("b", "g", "r"))


# The table as a whole.


def test_a_schema_lists_its_columns():
    columns = columns_of(age=[31, 45, 52], name=words(9, 9)[:3], colour=["r", "r", "r"])
    schema = infer_schema(
        [*columns, column_of([NAN], name="e")], column_kinds={"name": "identifier"}
    )
    assert schema.names == ("age", "name", "colour", "e")
    assert (schema.modelled, schema.skipped, schema.empty) == ((0,), (1,), (3,))
    assert str(schema) == (
        "age     integer      whole numbers from 31 to 52\n"
        "name    identifier   specified by the user\n"
        "colour  constant     all 3 observed cells are equal\n"
        "e       empty        no cell is observed"
    )
    assert str(infer_schema([])) == ""


def test_what_a_column_is_taken_for_is_an_event():
    event = schema_of([31, 45, 52]).event()
    assert (event.about, event.column) == ("kind", "a")
    assert str(event) == "column 'a' is integer: whole numbers from 31 to 52"


def test_the_example_of_a_file_is_kept():
    column = Column(
        name="a",
        storage="time",
        values=np.array([0.0, 86400.0]),
        missing=np.array([False, False]),
        example="31.12.2024",
    )
    assert schema_of(column).example == "31.12.2024"
