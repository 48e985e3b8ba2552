"""Summaries: exact, and the same however the rows of a column are cut into parts."""

import dataclasses
import datetime
from functools import reduce

import numpy as np
import pandas as pd
import pytest

from columns.cases import NAN, column_of, ordered, schema_of, words
from miwae.columns import infer_schema
from miwae.columns._summary import MOST_COUNTED, MOST_DISTINCT, Summary, summarise
from miwae.errors import DataError

RNG = np.random.default_rng(0)
N = 60
DAY = 86_400


def with_holes(values, dtype=None):
    """A series in which every seventh cell is missing."""
    series = pd.Series(values, dtype=dtype)
    series[::7] = None
    return series


def clocks(minutes):
    return [datetime.time(int(m) // 60, int(m) % 60) for m in minutes]


SECONDS = RNG.integers(-(10**9), 2 * 10**9, N)
SERIES = {
    "numbers": with_holes(RNG.normal(size=N)),
    "halves": with_holes(RNG.integers(-9, 9, N) / 2),
    "shares": with_holes(RNG.random(N)),
    "huge": with_holes(RNG.normal(size=N) * 1e300),
    "whole": with_holes(RNG.integers(-50, 50, N), "Int64"),
    "whole_floats": with_holes(RNG.integers(20, 2000, N).astype(float)),
    "whole_but_one": with_holes([*RNG.integers(0, 9, N - 1).astype(float), 2.5]),
    "too_large_to_count": with_holes([*RNG.integers(0, 9, N - 1), 2**40], "Int64"),
    "counts": with_holes(RNG.poisson(1.0, N) ** 2, "Int64"),
    "large_counts": with_holes(MOST_COUNTED - RNG.integers(0, 2, N), "Int64"),
    "ratings": with_holes(RNG.integers(1, 4, N).astype(float)),
    "text": with_holes([*words(7, N)]),
    "names": with_holes([*words(N, N)]),
    "categories": with_holes([*words(5, N)], pd.CategoricalDtype(words(6, 6)[::-1])),
    "ordered": with_holes(["L", "S", "M"] * (N // 3), ordered("S", "M", "L", "XL")),
    "numeric_categories": with_holes([3, 1, 2] * (N // 3), "category"),
    "booleans": with_holes(RNG.random(N) < 0.5, "boolean"),
    "instants": with_holes(SECONDS.astype("datetime64[s]")),
    "days": with_holes((SECONDS // DAY * DAY + 3600).astype("datetime64[s]")),
    "milliseconds": with_holes((RNG.integers(0, 10**12, N)).astype("datetime64[ms]")),
    "microseconds": with_holes((RNG.integers(0, 10**15, N)).astype("datetime64[us]")),
    "durations": with_holes((60 * RNG.integers(-99, 99, N)).astype("timedelta64[s]")),
    "clocks": with_holes(clocks(15 * RNG.integers(0, 96, N)), object),
    "constant": with_holes(np.full(N, 2.5)),
    "constant_day": with_holes(np.full(N, "2020-01-01", "datetime64[s]")),
    "empty": pd.Series([NAN] * N),
    "lists": pd.Series([[1], [2]] * (N // 2)),
}


def halves(series):
    return [np.arange(N // 2), np.arange(N // 2, N)]


def single_rows(series):
    return [np.array([i]) for i in range(N)]


def with_empty_parts(series):
    nothing = np.zeros(0, dtype=int)
    return [nothing, np.arange(20), nothing, np.flatnonzero(series.isna()), np.arange(20, N)]


def by_value(series):
    column = column_of(series)
    order = np.argsort(column.values, kind="stable")
    return np.array_split(order, 7)


def random(series):
    rng = np.random.default_rng(1)
    return np.array_split(rng.permutation(N), np.sort(rng.integers(0, N, 4)))


CUTS = [halves, single_rows, with_empty_parts, by_value, random]
every_cut = pytest.mark.parametrize("cut", CUTS)


def parts_of(name, cut):
    series = SERIES[name]
    rows = cut(series)
    if cut is with_empty_parts:  # whose missing cells are there twice
        series = pd.concat([series.iloc[own] for own in rows], ignore_index=True)
        ends = np.cumsum([len(own) for own in rows])
        rows = np.split(np.arange(len(series)), ends[:-1])
    return series, [series.iloc[own].reset_index(drop=True) for own in rows]


def merged_over(parts):
    return reduce(Summary.merged, (summarise(column_of(part)) for part in parts))


@every_cut
@pytest.mark.parametrize("name", SERIES)
def test_the_merged_summary_of_parts_is_that_of_the_whole(name, cut):
    whole, parts = parts_of(name, cut)
    assert merged_over(parts) == summarise(column_of(whole))


@every_cut
@pytest.mark.parametrize("name", SERIES)
def test_kinds_are_inferred_alike_from_merged_summaries(name, cut):
    whole, parts = parts_of(name, cut)
    column = column_of(whole)
    merged = infer_schema([column], summaries=[merged_over(parts)])
    assert merged == infer_schema([column])


@pytest.mark.parametrize("name", SERIES)
def test_merging_does_not_depend_on_the_order_of_parts(name):
    _, parts = parts_of(name, by_value)
    one = merged_over(parts)
    assert merged_over(parts[::-1]) == one
    first, *rest = (summarise(column_of(part)) for part in parts)
    assert first.merged(reduce(Summary.merged, rest)) == one


def test_a_summary_lists_values_and_counts_in_the_order_of_the_column():
    text = summarise(column_of(["b", "a", None, "b"]))
    assert (text.values, text.counts, text.n_observed) == (("a", "b"), (1, 2), 3)
    sizes = summarise(column_of(["L", "S", "L"], ordered("S", "M", "L")))
    assert (sizes.values, sizes.declared) == (("S", "L"), ("S", "M", "L"))
    numbers = summarise(column_of([2.5, NAN, -1.0, 2.5, 0.0]))
    assert (numbers.values, numbers.counts) == ((-1.0, 0.0, 2.5), (1, 1, 2))
    assert (numbers.lowest, numbers.highest, numbers.n_zero) == (-1.0, 2.5, 1)
    assert not numbers.all_whole


def test_levels_of_several_types_stay_apart():
    one = summarise(column_of([1, "1", True], object))
    two = summarise(column_of(["1", True, "x"], object))
    assert repr(one.merged(two).values) == "(True, 1, '1', 'x')"
    assert one.merged(two).counts == (2, 1, 2, 1)


def test_parts_that_declare_other_categories_have_the_categories_of_both():
    one = summarise(column_of(["b", "a"], pd.CategoricalDtype(["b", "a"])))
    two = summarise(column_of(["c", "a"], pd.CategoricalDtype(["a", "c"])))
    both = one.merged(two)
    assert (both.declared, both.values, both.counts) == (("b", "a", "c"),) * 2 + ((1, 2, 1),)


def test_parts_that_are_stored_differently_are_refused():
    number, text = summarise(column_of([1.5])), summarise(column_of(["x"]))
    with pytest.raises(DataError, match="stored as number, another as text: give all parts the"):
        number.merged(text)
    nothing = summarise(column_of([None, None]))
    assert nothing.merged(text) == text == text.merged(nothing)


def test_sums_are_exact_beyond_the_digits_of_a_float():
    x = np.full(1000, MOST_COUNTED, dtype=np.int64)
    x[0] -= 1
    found = summarise(column_of(x))
    assert found.total == sum(x.tolist())
    assert found.squares == sum(value**2 for value in x.tolist())


@pytest.mark.parametrize(("n", "is_listed"), [(MOST_DISTINCT, True), (MOST_DISTINCT + 1, False)])
def test_distinct_values_are_listed_up_to_a_number(n, is_listed):
    x = np.arange(n) + 0.5
    whole = summarise(column_of(x))
    assert (whole.values is not None) == is_listed
    assert whole.n_distinct == n
    assert summarise(column_of(x[: n // 2])).merged(summarise(column_of(x[n // 2 :]))) == whole


def test_numbers_that_are_not_finite_are_not_counted():
    assert summarise(column_of([1.5, np.inf, -np.inf])) == summarise(column_of([1.5]))


@pytest.mark.parametrize(
    ("times", "step", "phase"),
    [
        (["2020-01-01", "1850-06-01"], DAY, 0),
        (["2020-01-01 08:30", "2020-06-01 08:30"], DAY, 8.5 * 3600),
        (["2020-01-01 05:00", "2020-06-01"], 3600, 0),
        (["2020-01-01 05:30", "2020-06-01"], 60, 0),
        (["2020-01-01 05:30:01", "2020-06-01"], 1, 0),
        (["2020-01-01 05:30:01.123", "2020-06-01 00:00:00.457"], 1e-3, None),
        (["2020-01-01 05:30:01.123456", "2020-06-01"], 0, 0),
    ],
)
def test_times_have_the_coarsest_step_that_all_share(times, step, phase):
    found = summarise(column_of(times, "datetime64[us]"))
    assert found.step == step
    if phase is not None:
        assert found.phase == phase
    one, two = (summarise(column_of([time], "datetime64[us]")) for time in times)
    assert one.step == two.step == DAY
    assert one.merged(two).step == step


def test_a_summary_of_all_rows_decides_where_a_sample_would_err():
    """Of a sample come scales only; its values are fewer than there are."""
    rare = column_of([*words(3, 30), "w99"])
    sample = column_of(words(3, 30))
    known = infer_schema([sample], summaries=[summarise(rare)]).columns[0]
    assert known.kind.levels == ("w00000", "w00001", "w00002", "w99")
    numbers, few = column_of([0.5, 3.0, 1e6]), column_of([0.5, 3.0])
    assert schema_of(few).kind.upper is None
    wide = infer_schema([few], summaries=[summarise(numbers)]).columns[0]
    assert wide.reason.startswith("all observed numbers are above 0, from 0.5 to 1000000")
    integers = dataclasses.replace(summarise(column_of([1, 2, 9])), whole=False, all_whole=False)
    assert not infer_schema([column_of([1, 2, 9])], summaries=[integers]).columns[0].kind.whole


def test_an_order_that_the_user_gives_is_one_of_all_rows():
    known = infer_schema(
        [column_of(["a", "c"])],
        column_kinds={"a": "ordinal:c<b<a"},
        summaries=[summarise(column_of(["a", "b", "c"]))],
    ).columns[0]
    assert known.kind.levels == ("c", "b", "a")
