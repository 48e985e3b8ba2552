"""Column kinds: every rule with its reason, what users can tell, and what is refused."""

import datetime
import math
import re

import numpy as np
import pandas as pd
import polars as pl
import pytest

from miwae.errors import DataError, SettingsError
from miwae.table.base import Column
from miwae.table.frames import as_table
from miwae.table.schema import (
    FEW_LEVELS,
    KINDS,
    MOST_COUNTED,
    MOST_LEVELS,
    MOST_POINTS,
    infer_schema,
    word,
)
from miwae.table.transforms import choose_transform, standardisation

NAN = float("nan")
RNG = np.random.default_rng(0)


def columns_of(**cells):
    table = as_table(pd.DataFrame({name: pd.Series(values) for name, values in cells.items()}))
    return [table.column(i) for i in range(len(table.names))]


def schema_of(values, kind=None, bounds=None, dtype=None):
    (column,) = columns_of(a=pd.Series(values, dtype=dtype))
    told = None if kind is None else {"a": kind}
    limits = None if bounds is None else {"a": bounds}
    return infer_schema([column], column_kinds=told, bounds=limits).columns[0]


def exactly(message):
    return f"^{re.escape(message)}$"


def ordered(*levels):
    return pd.CategoricalDtype(list(levels), ordered=True)


def words(n_distinct, n_observed):
    return [f"w{i % n_distinct:05d}" for i in range(n_observed)]


DAYS = ["2020-01-01", "2020-03-01", None, "1969-12-31"]

# Values, dtype, kind, reason: one line for each rule, and for tables as people have them.
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
    "one_observed": ([None, 7.5], None, "constant", "all 1 observed cells are equal"),
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
    values, dtype, kind, reason = RULES[rule]
    known = schema_of(values, dtype=dtype)
    assert known.kind == kind
    if reason is not None:
        assert known.reason == reason
    assert known.modelled == (kind not in ("empty", "constant", "identifier"))


def test_the_rules_reach_every_kind():
    assert {kind for _, _, kind, _ in RULES.values()} == set(KINDS)


@pytest.mark.parametrize("rule", RULES)
def test_inference_does_not_depend_on_the_order_of_rows(rule):
    values, dtype, _, _ = RULES[rule]
    series = pd.Series(values * 3, dtype=dtype)
    orders = [np.random.default_rng(seed).permutation(len(series)) for seed in range(5)]
    shuffled = [schema_of(series.iloc[order].reset_index(drop=True)) for order in orders]
    assert all(known == schema_of(series) for known in shuffled)


def test_counts_are_told_by_variance_and_mean_exactly():
    # Mean 1 and variance 1: n sum(x^2) - (sum x)^2 = n sum x, which rounding must not decide.
    at_limit = [0, 0, 1, 1, 1, 3] * 7
    assert np.mean(np.square(at_limit)) - np.mean(at_limit) ** 2 == np.mean(at_limit)
    assert schema_of(at_limit).kind == "count"
    assert schema_of([0, 0, 1, 1, 2, 2, 1, 2] * 7).kind == "integer"


@pytest.mark.parametrize(("zeros", "kind"), [(5, "count"), (4, "integer")])
def test_counts_have_a_twentieth_of_zeros(zeros, kind):
    assert schema_of([0] * zeros + list(range(1, 101 - zeros))).kind == kind


def repeated(values, times=20):
    return [value for value in values for _ in range(times)]


def test_numbers_that_take_few_values_are_modelled_by_them():
    known = schema_of([*repeated([0.5, 1.0, 2.5]), *repeated([1.0]), NAN])
    assert (known.kind, known.points) == ("positive", ((0.5, 0.25), (1.0, 0.5), (2.5, 0.25)))
    assert known.reason.endswith("; modelled by its 3 values")
    assert known.transform == standardisation(np.array(repeated([0.5, 1.0, 1.0, 2.5])))
    assert schema_of(repeated([-0.7, 1.4])).kind == "continuous"
    assert [value for value, _ in schema_of(repeated([1, 2, 5])).points] == [1.0, 2.0, 5.0]


@pytest.mark.parametrize(
    "values",
    [
        [5e-324, 1e-323],
        [-1.7e308, 1.7e308],
        [0.1, 0.2, 0.3, 1e9],
        [1 + 2.0**-52, 1 + 2.0**-51, 7.5],
    ],
)
def test_values_that_single_precision_cannot_tell_apart_are_no_points(values):
    assert schema_of([*repeated(values[:-1], 30), *repeated(values[-1:])]).points == ()


def test_values_of_any_size_can_be_few():
    for values in ([1.5e308, 1.6e308, 1.7e308], [1 + 2.0**-52, 1 + 2.0**-51], [1e-300, 2e-300]):
        assert [value for value, _ in schema_of(repeated(values)).points] == values


def test_a_column_with_bounds_may_take_any_number_within():
    assert schema_of(repeated([1, 2, 5]), None, (0, 10)).points == ()


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        (repeated([0.5, 1.0, 2.5])[1:], None),  # not often enough
        (repeated(np.arange(MOST_POINTS + 1) + 0.5), None),  # too many
        (repeated([0.5, 1.0, 2.5]), "continuous"),  # told to be any number
        (repeated([1, 2, 5]), "integer"),
        (repeated([0, 1]), None),  # a choice of two
        (repeated([0, 0, 1, 9]), None),  # counts
        (pd.to_datetime(repeated(["2020-01-01", "2021-01-01"])), None),
    ],
)
def test_other_columns_are_not(values, kind):
    assert schema_of(values, kind).points == ()


@pytest.mark.parametrize(
    ("n_distinct", "n_observed", "kind"),
    [
        (FEW_LEVELS, FEW_LEVELS, "categorical"),
        (FEW_LEVELS + 1, FEW_LEVELS + 1, "identifier"),
        (FEW_LEVELS + 1, 2 * FEW_LEVELS + 1, "identifier"),
        (FEW_LEVELS + 1, 2 * FEW_LEVELS + 2, "categorical"),
        (1000, 2000, "categorical"),
        (MOST_LEVELS, 2 * MOST_LEVELS, "categorical"),
        (MOST_LEVELS + 1, 4 * MOST_LEVELS, "identifier"),
    ],
)
def test_text_of_many_values_is_a_name(n_distinct, n_observed, kind):
    known = schema_of([*words(n_distinct, n_observed), None])
    assert known.kind == kind
    assert len(known.levels) == (n_distinct if kind == "categorical" else 0)


def test_declared_categories_are_categories_until_there_are_too_many():
    assert schema_of(words(50, 50), dtype="category").kind == "categorical"
    too_many = schema_of(words(MOST_LEVELS + 1, MOST_LEVELS + 1), dtype="category")
    assert too_many.kind == "identifier"
    assert too_many.reason == f"{MOST_LEVELS + 1} distinct values are too many for categories"


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
    known = schema_of(values, dtype=dtype)
    assert [(type(v), v) for v in known.levels] == [(type(v), v) for v in levels]


@pytest.mark.parametrize(
    ("values", "dtype", "constant"),
    [
        ([2.5, NAN], None, 2.5),
        ([7, 7], None, 7.0),
        ([True, True], None, 1.0),
        (["x", None], None, "x"),
        (["2020-01-01", None], "datetime64[s]", 1577836800.0),
        (["x", None], pd.CategoricalDtype(["w", "x"]), "x"),
    ],
)
def test_constants_keep_their_value(values, dtype, constant):
    assert schema_of(values, dtype=dtype).constant == constant


# Limits of what is imputed.


@pytest.mark.parametrize(
    ("values", "kind", "bounds", "limits"),
    [
        ([-1.5, 2.5], None, None, (None, None)),
        ([0.5, 3.0, 1.25], None, None, (0.25, None)),
        ([0, 0.5, 1], None, None, (0, 1)),
        ([0, 0.5, 0.9], None, None, (0, 1)),
        ([0.2, 0.5, 1], None, None, (0.1, 1)),
        ([0.2, 0.5, 0.9], None, None, (0.1, 1)),  # shares, perhaps
        ([0.2, 0.5, 1.1], None, None, (0.1, None)),
        ([0.02, 0.03, 0.05], None, None, (0.01, None)),
        ([-0.2, 0.5, 0.9], None, None, (None, None)),
        ([0.2, 0.5, 0.9], "continuous", None, (None, None)),
        ([0.2, 0.5, 0.9], None, (0, None), (0, None)),
        ([0, 0.5, 100], None, None, (0, 100)),
        ([0, 0.5, 99], None, None, (0, None)),
        ([0, 0, 0, 9], None, None, (0, None)),
        ([5, 8, 9], None, None, (1, None)),
        ([0, 8, 9, 10, 11], None, None, (0, None)),
        ([-5, 8, 9], None, None, (None, None)),
        ([1, 2, 3] * 20, None, None, (1, 3)),  # a scale, or codes
        ([1, 2, 3] * 19, None, None, (1, None)),
        ([-2, 0, 1, 2] * 20, None, None, (-2, 2)),
        ([-2, 0, 1, 2] * 20, None, (None, 5), (None, 5)),
        ([0, *range(30, 60), 100], None, None, (0, 100)),
        ([0.5, 3.0, 1.25], None, (0, 4), (0, 4)),
        ([0.5, 3.0, 1.25], None, (None, 4), (None, 4)),
        ([0.5, 3.0, 1.25], None, (0.5, None), (0.5, None)),
        ([5, 8, 9], None, (None, 10), (None, 10)),
        ([5, 8, 9], None, (2, None), (2, None)),
        ([0, 0.5, 1], None, (0, None), (0, None)),
        ([5, 8, 9], "count", (None, 10), (0, 10)),
        ([0.5, 3.0], "positive", (None, 10), (0.25, 10)),
        ([0.5, 3.0], "continuous", None, (None, None)),
        ([0.5, 3.0], "continuous", (0, None), (0, None)),
        ([0.25, 3.0], "bounded", None, (0, None)),
        ([0.5, 3.0], None, (-np.inf, np.inf), (-np.inf, np.inf)),
    ],
)
def test_limits(values, kind, bounds, limits):
    known = schema_of(values, kind, bounds)
    assert (known.lower, known.upper) == limits


def test_a_limit_of_shares_changes_nothing_but_the_limit():
    x = np.random.default_rng(0).uniform(0.1, 0.95, 200)
    shares, lengths = schema_of(x), schema_of(2 * x)
    assert (shares.kind, lengths.kind) == ("positive", "positive")
    assert shares.reason.endswith("; none is above 1")
    assert "above 1" not in lengths.reason
    assert shares.transform == choose_transform(x)


def test_bounds_say_that_numbers_are_numbers():
    assert schema_of([0.5, 3.0], None, (0, 4)).kind == "bounded"
    assert schema_of([0.5, 3.0], None, (0, 4)).reason.startswith("bounds were given")
    assert schema_of([3, 7, 7, 3, 3, 7]).kind == "binary"
    assert schema_of([3, 7, 7, 3, 3, 7], None, (0, 10)).kind == "integer"
    assert schema_of([0, 0, 0, 9], None, (0, 10)).kind == "integer"
    # Levels are within bounds if the observed cells are.
    assert schema_of([0, 1, 1], None, (0, 1)).kind == "binary"
    assert schema_of([3, 7, 9], "categorical", (0, 10)).levels == (3.0, 7.0, 9.0)
    assert schema_of([7, 7], None, (0, 10)).kind == "constant"
    assert schema_of([NAN, NAN], None, (0, 10)).kind == "empty"


def test_a_value_outside_its_bounds_is_named():
    message = (
        "column 'a' has the value 1234567.5 in row 2, outside its bounds (0.0, 10.0) "
        "(2 such cells): correct it, mark it as missing, or widen the bounds"
    )
    with pytest.raises(DataError, match=exactly(message)):
        schema_of([0.5, NAN, 1234567.5, -1.0], None, (0, 10))
    assert schema_of([0.0, 2.5, 10.0], None, (0, 10)).upper == 10  # limits are allowed


@pytest.mark.parametrize(
    ("values", "dtype", "kind"),
    [
        (["x", "y", "z"], None, "categorical"),
        ([True, False], None, "binary"),
        (DAYS, "datetime64[s]", "datetime"),
        ([[1], [2]], None, "identifier"),
    ],
)
def test_only_numbers_have_bounds(values, dtype, kind):
    message = (
        f"bounds were given for column 'a', which is {kind}: only columns of numbers can have "
        "bounds"
    )
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of(values, None, (0, 1), dtype)


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


# What users can tell.


@pytest.mark.parametrize(
    ("values", "dtype", "kinds"),
    [
        ([1, 2, 3, 0], None, "continuous integer count categorical ordinal bounded identifier"),
        ([1, 2], None, "continuous positive integer count binary categorical ordinal"),
        ([0.5, 1.5], None, "continuous positive bounded binary categorical ordinal identifier"),
        (["x", "y"], None, "binary categorical identifier"),
        (["x", "y", "x"], ordered("y", "x"), "binary categorical ordinal identifier"),
        ([True, False], None, "binary categorical ordinal continuous integer count identifier"),
        (DAYS, "datetime64[s]", "datetime continuous categorical ordinal integer identifier"),
        ([5, 5], None, "constant identifier"),
        ([NAN], None, "empty identifier"),
        ([[1]], None, "identifier"),
    ],
)
def test_every_possible_kind_is_taken_as_told(values, dtype, kinds):
    for kind in kinds.split():
        known = schema_of(values, kind, dtype=dtype)
        assert known.kind == kind
        assert known.reason.split(";")[0] == "as told"


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
        ([1.0], "empty", "it has observed cells; use 'identifier' to leave it as it is"),
        (["x", "y"], "continuous", "it holds text (row 0: x)"),
        ([None, "x", "y"], "datetime", "it holds text (row 1: x)"),
        ([NAN, 1, 2], "datetime", "it does not hold times (row 1: 1)"),
        (["x", "y"], "ordinal", "text has no order; give it, as 'ordinal:low<middle<high'"),
        ([1.0, -np.inf], "continuous", "only finite numbers can be modelled (row 1: -inf)"),
        ([[1]], "categorical", "values of type object cannot be modelled; use 'identifier'"),
        ([[1]], "ordinal:a<b", "values of type object cannot be modelled; use 'identifier'"),
    ],
)
def test_a_kind_that_cells_contradict_is_refused_with_the_cell(values, kind, message):
    name = kind.partition(":")[0]
    with pytest.raises(DataError, match=exactly(f"column 'a' cannot be {name}: {message}")):
        schema_of(values, kind)


@pytest.mark.parametrize("kind", ["continuous", "binary", "categorical", "count", "ordinal"])
def test_a_part_of_a_table_may_have_too_little_to_see_a_kind(kind):
    constant = schema_of([1, 1, NAN], kind)
    assert constant.kind == "constant"
    assert constant.reason == f"told to be {kind}, but all 2 observed cells are equal"
    empty = schema_of([NAN, NAN], kind)
    assert empty.kind == "empty"
    assert empty.reason == f"told to be {kind}, but no cell is observed"


def test_numbers_told_to_be_categories_may_not_be_too_many():
    assert len(schema_of(range(MOST_LEVELS), "categorical").levels) == MOST_LEVELS
    message = f"it has {MOST_LEVELS + 1} distinct values, more than {MOST_LEVELS}"
    with pytest.raises(DataError, match=exactly(f"column 'a' cannot be categorical: {message}")):
        schema_of(range(MOST_LEVELS + 1), "categorical")


def test_infinite_numbers_are_named():
    message = (
        "column 'a' has the value inf in row 2: only finite numbers can be modelled; correct it, "
        "or mark it as missing"
    )
    with pytest.raises(DataError, match=exactly(message)):
        schema_of([1.0, NAN, np.inf])
    assert schema_of([1.0, np.inf], "identifier").kind == "identifier"


@pytest.mark.parametrize(
    ("values", "dtype", "order", "levels"),
    [
        (["b", "c", "a"], None, "c<a<b", ("c", "a", "b")),
        (["low", "high", None], None, " low < middle < high ", ("low", "high")),
        (["high", "low"], None, "low<middle<high", ("low", "high")),
        (["b", "a"], pd.CategoricalDtype(["z", "b", "a"]), "a<b", ("a", "b")),
        ([10, 9, 8], "category", "9<8<10", (9, 8, 10)),
        ([0.5, 1234567.0], "category", "1234567<0.5", (1234567.0, 0.5)),
        (["a<b"[:1], "b"], None, "b<a", ("b", "a")),
    ],
)
def test_an_order_that_is_told(values, dtype, order, levels):
    known = schema_of(values, f"ordinal:{order}", dtype=dtype)
    assert (known.kind, known.reason) == ("ordinal", "as told")
    assert known.levels == levels
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


@pytest.mark.parametrize("kind", ["numeric", "Continuous", "", None.__class__, 3])
def test_unknown_kinds_are_answered_with_those_that_exist(kind):
    message = f"column 'a': the kind {kind!r} is not one of {', '.join(KINDS)}"
    (column,) = columns_of(a=[1.0, 2.0])
    with pytest.raises(SettingsError, match=exactly(message)):
        infer_schema([column], column_kinds={"a": kind})


def test_only_ordinal_columns_have_an_order():
    message = (
        "column 'a': the kind 'categorical:a<b' is none; after a colon stands the order of "
        "'ordinal:low<middle<high' or, in text files, 'datetime:day-first' or "
        "'datetime:month-first'"
    )
    with pytest.raises(SettingsError, match=exactly(message)):
        schema_of(["a", "b"], "categorical:a<b")


# By name and by position.


def kinds_with(settings, names):
    frame = pd.DataFrame([[1, 2], [3, 4], [5, 6]], columns=names)
    table = as_table(frame)
    columns = [table.column(i) for i in range(2)]
    return [known.kind for known in infer_schema(columns, column_kinds=settings).columns]


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
    assert kinds_with({key: "categorical"}, names) == expected


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
    columns = columns_of(age=[1, 2], size=[3, 4])
    value = "integer" if what == "column_kinds" else (0, 10)
    message = f"{what} names the column {key!r}, which does not exist; {hint}"
    with pytest.raises(SettingsError, match=exactly(message)):
        infer_schema(columns, **{what: {key: value}})


def test_of_many_columns_some_are_named():
    columns = columns_of(**{f"c{i}": [1, 2] for i in range(100)})
    listed = ", ".join(f"c{i}" for i in range(20))
    message = f"names the column 'zzz', which does not exist; there are {listed}, and 80 more"
    with pytest.raises(SettingsError, match=exactly(f"column_kinds {message}")):
        infer_schema(columns, column_kinds={"zzz": "integer"})


def test_a_column_is_named_once():
    columns = columns_of(age=[1, 2], size=[3, 4])
    with pytest.raises(SettingsError, match=exactly("column_kinds names the column 'age' twice")):
        infer_schema(columns, column_kinds={"age": "integer", 0: "categorical"})


# Scales and resolutions.


def test_scales_are_told_in_the_reason():
    wild = RNG.standard_cauchy(500)
    assert schema_of(wild).reason.endswith("; modelled on an inverse hyperbolic sine scale")
    assert schema_of(wild, "continuous").reason == (
        "as told; modelled on an inverse hyperbolic sine scale"
    )
    assert schema_of(np.exp(RNG.normal(size=500))).reason.endswith("on a logarithmic scale")
    assert "scale" not in schema_of(RNG.normal(size=500)).reason


def test_whole_numbers():
    assert schema_of([1, 2, 9]).whole
    assert schema_of([1.0, 2.0, 9.0]).whole  # integers with holes are stored so
    assert schema_of([1, 2, 9], "continuous").whole  # the column cannot hold others
    assert not schema_of([1.0, 2.0, 9.0], "continuous").whole
    assert schema_of([1.0, 2.0, 9.0], "count").whole
    assert not schema_of([1e17, 3e18, 2e20]).whole


@pytest.mark.parametrize(
    ("times", "resolution"),
    [
        (["2020-01-01", "1850-06-01"], 86400),
        (["2020-01-01 05:00", "2020-06-01"], 3600),
        (["2020-01-01 05:30", "2020-06-01"], 60),
        (["2020-01-01 05:30:01", "2020-06-01"], 1),
        (["2020-01-01 05:30:01.123", "2020-06-01 00:00:00.457"], 1e-3),
        (["2020-01-01 05:30:01.123456", "2020-06-01"], 0),
        (["2020-01-01 00:00:00.050", "2020-06-01 00:00:00.010"], 1e-3),
    ],
)
def test_imputed_times_are_as_coarse_as_the_observed(times, resolution):
    assert schema_of(times, dtype="datetime64[us]").resolution == resolution
    assert schema_of(times, "continuous", dtype="datetime64[us]").resolution == resolution


def test_short_durations_are_not_rounded_away():
    assert schema_of([100, 250], dtype="timedelta64[ns]").resolution == 0
    assert schema_of([86400, 0, 3600], dtype="timedelta64[s]").resolution == 3600


def test_instants_have_no_logarithm():
    """1970 is a convention: days in its January are not close to nothing, but short spans are."""
    seconds = 86400 * np.ceil(np.exp(RNG.normal(3, 2, size=400)))
    known = schema_of(seconds.astype("datetime64[s]"))
    assert known.kind == "datetime"
    assert known.reason == "stored as times; modelled on an inverse hyperbolic sine scale"
    spans = schema_of(seconds.astype("timedelta64[s]"))
    assert spans.reason == "stored as durations; modelled on a logarithmic scale"
    assert schema_of(seconds).reason.endswith("; modelled on a logarithmic scale")


def test_dates_of_birth_with_a_date_before_1970():
    frame = pl.DataFrame({"born": [datetime.date(1931, 5, 1), None, datetime.date(2004, 2, 29)]})
    (known,) = infer_schema([as_table(frame).column(0)]).columns
    assert (known.kind, known.resolution) == ("datetime", 86400)
    assert (known.lower, known.upper) == (None, None)


# The table as a whole.


def test_a_schema_lists_its_columns():
    columns = columns_of(age=[31, 45, 52], name=words(9, 9)[:3], colour=["r", "r", "r"])
    schema = infer_schema(columns, column_kinds={"name": "identifier"})
    assert schema.modelled == (0,)
    assert str(schema) == (
        "age     integer      whole numbers from 31 to 52\n"
        "name    identifier   as told\n"
        "colour  constant     all 3 observed cells are equal"
    )
    assert str(infer_schema([])) == ""


def test_missing_cells_are_not_read():
    """Whatever an adapter leaves in `values` where a cell is missing."""
    missing = np.array([False, True, False, False])
    kinds = set()
    for rest in (np.nan, np.inf, -1e9, 0.5):
        column = Column(
            name="a",
            storage="number",
            values=np.array([2.0, rest, 3.0, 5.0]),
            missing=missing,
        )
        known = infer_schema([column], bounds={"a": (0, 9)}).columns[0]
        kinds.add((known.kind, known.reason, known.transform))
    assert len(kinds) == 1


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
def test_words(value, text):
    assert word(value) == text
