"""Single columns of frames: what is missing, what fits, and details of each library."""

import datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from frames.cases import cell, cells_of
from miwae.columns import Cells
from miwae.errors import DataError
from miwae.frames import arrow_schema, columns, completed, names, with_columns


@pytest.fixture
def floats():
    return pd.DataFrame({"a": [1.0, np.nan], "b": [2.0, 3.0]})


# Values that count as missing.


@pytest.mark.parametrize(
    ("frame", "missing"),
    [
        (np.array([[1.0], [-999.0]]), [False, True]),
        (np.array([[-999], [2]]), [True, False]),
        (np.array([["?"], ["x"]]), [True, False]),
        (np.array([["?"], [-999]], object), [True, True]),
        (np.array([[True], [False]]), [False, False]),
        (pd.DataFrame({"a": [1, -999]}), [False, True]),
        (pd.DataFrame({"a": pd.array([1, None, -999], "Int64")}), [False, True, True]),
        (pd.DataFrame({"a": ["?", "x"]}), [True, False]),
        (pd.DataFrame({"a": pd.Categorical(["?", "x"])}), [True, False]),
        (pd.DataFrame({"a": pd.Categorical([-999, 5])}), [True, False]),
        (pd.DataFrame({"a": pd.to_datetime(["1900-01-01", "2000-01-01"])}), [True, False]),
        (pd.DataFrame({"a": [datetime.date(1900, 1, 1), None]}), [True, True]),
        (pl.DataFrame({"a": [1, -999]}), [False, True]),
        (pl.DataFrame({"a": ["?", None, "x"]}), [True, True, False]),
        (pl.DataFrame({"a": ["?", "x"]}, schema={"a": pl.Categorical}), [True, False]),
        (pl.DataFrame({"a": ["?", "x"]}, schema={"a": pl.Enum(["x", "?"])}), [True, False]),
        (pl.DataFrame({"a": [datetime.date(1900, 1, 1), None]}), [True, True]),
        (pl.DataFrame({"a": [datetime.time(1), datetime.time(2)]}), [True, False]),
        (pl.DataFrame({"a": [datetime.timedelta(hours=1), None]}), [False, True]),
        (pd.DataFrame({"a": [datetime.time(1), datetime.time(2)]}), [True, False]),
        (pa.table({"a": [1.5, -999.0]}), [False, True]),
        (pa.table({"a": pa.array(["?", "x"]).dictionary_encode()}), [True, False]),
    ],
)
def test_missing_values_are_found_in_columns_of_their_kind(frame, missing):
    sentinels = (np.array(-999), "?", np.nan, None, pd.NaT, datetime.date(1900, 1, 1), [1])
    sentinels += (datetime.time(1),)
    (column,) = columns(frame, sentinels)
    np.testing.assert_array_equal(column.missing, missing)
    np.testing.assert_array_equal(np.isnan(column.values), missing)
    assert "?" not in column.levels
    assert -999 not in column.levels


def test_zero_as_missing_value_says_nothing_about_false():
    frame = pd.DataFrame({"flag": [True, False], "count": [0, 1], "text": ["0", "1"]})
    assert [column.n_observed for column in columns(frame, (0,))] == [2, 1, 2]
    assert [column.n_observed for column in columns(frame, (False,))] == [1, 2, 2]


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("make", [np.asarray, lambda x: pa.table({"a": x[:, 0]}), pl.DataFrame])
def test_a_missing_value_is_compared_in_the_precision_of_the_column(make, dtype):
    frame = make(np.array([[-999.9], [np.inf], [1.0]], dtype))
    # What overflows to infinity is not infinity.
    (column,) = columns(frame, (-999.9, 1e300, 10**400))
    assert column.missing.tolist() == [True, False, False]


@pytest.mark.parametrize(
    "frame",
    [
        np.array([[2**53], [2**53 + 1], [0]]),
        pd.DataFrame({"a": pd.array([2**53, 2**53 + 1, None], "Int64")}),
        pl.DataFrame({"a": [2**53, 2**53 + 1, None]}),
        pa.table({"a": [2**53, 2**53 + 1, None]}),
    ],
)
def test_large_integers_are_compared_and_kept_exactly(frame):
    (column,) = columns(frame, (2**53 + 1, 0))
    assert column.missing.tolist() == [False, True, True]
    assert cells_of(completed(frame, {0: cell(2, 7.0)})) == [[2**53, 2**53 + 1, 7]]


def test_a_mark_does_not_make_numbers_text():
    frame = pd.DataFrame({"a": pd.Series(["?", 1, 2, "?"], dtype=object)})
    assert columns(frame)[0].levels == (1, 2, "?")
    (column,) = columns(frame, ("?",))
    assert (column.storage, column.whole) == ("number", True)
    assert completed(frame, {0: cell(0, 3.2)})["a"].tolist() == [3, 1, 2, "?"]


# Objects.


def test_mixed_objects_are_levels_sorted_by_type_and_value():
    array = np.array([["b", 2, True, 1, 1.0, "a", 2]], object).T
    (column,) = columns(array)
    assert column.storage == "text"
    assert [(type(level), level) for level in column.levels] == [
        (bool, True),
        (float, 1.0),
        (int, 1),
        (int, 2),
        (str, "a"),
        (str, "b"),
    ]
    assert column.values.tolist() == [5, 3, 0, 2, 1, 4, 3]
    assert completed(array, {0: cell(0, True)})[0, 0] is True


@pytest.mark.parametrize(
    "nothing", [None, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.float32("nan")]
)
def test_every_nothing_is_missing_among_objects(nothing):
    (column,) = columns(np.array([["a"], [nothing]], object))
    assert column.missing.tolist() == [False, True]
    assert column.levels == ("a",)


@pytest.mark.parametrize("unit", ["M", "Y"])
def test_months_and_years_are_no_durations(unit):
    """They are no number of seconds."""
    array = np.array([[np.timedelta64(3, unit)], [None], [np.timedelta64(4, unit)]], object)
    assert columns(array)[0].storage == "other"
    typed = np.array([[3], [4]], f"timedelta64[{unit}]")
    assert columns(typed)[0].storage == "other"


def test_instants_without_a_zone_are_read_as_utc_and_written_to_the_microsecond():
    instant = datetime.datetime(2024, 6, 1, 12, 0, 0, 123456)
    array = np.array([[instant], [None], [instant]], object)
    value = float(columns(array)[0].values[0])
    assert completed(array, {0: cell(1, value)})[1, 0] == instant


PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6}


@pytest.mark.parametrize("unit", PER_SECOND)
@pytest.mark.parametrize("library", ["numpy", "pandas", "zone", "polars", "pyarrow"])
def test_times_survive_the_way_through_seconds(library, unit):
    rng = np.random.default_rng(0)
    ticks = rng.integers(-(10**9), 2 * 10**9, 1000) * PER_SECOND[unit]
    ticks += rng.integers(0, PER_SECOND[unit], 1000)
    times = ticks.astype(f"datetime64[{unit}]")
    utc = pd.DataFrame({"t": times})["t"].dt.tz_localize("UTC")
    frame = {
        "numpy": lambda: times[:, None],
        "pandas": lambda: pd.DataFrame({"t": times}),
        "zone": lambda: pd.DataFrame({"t": utc.dt.tz_convert("Europe/Paris")}),
        "polars": lambda: pl.DataFrame({"t": times.astype("datetime64[us]")}),
        "pyarrow": lambda: pa.table({"t": pa.array(times, pa.timestamp(unit, "Asia/Tokyo"))}),
    }[library]()
    cells = Cells(np.arange(1000), columns(frame)[0].values)
    assert cells_of(completed(frame, {0: cells})) == cells_of(frame)


@pytest.mark.parametrize("make", [pl.DataFrame, pa.table])
def test_times_of_day_are_read_to_the_nanosecond(make):
    ticks = pa.array([3_600_000_000_001, None], pa.int64()).cast(pa.time64("ns"))
    frame = make({"t": pl.Series(ticks) if make is pl.DataFrame else ticks})
    assert columns(frame)[0].values[0] == 3600 + 1e-9


# What cannot be stored.


@pytest.mark.parametrize(
    "frame",
    [
        pd.DataFrame({"a": pd.Categorical(["x", None])}),
        pl.DataFrame({"a": pl.Series(["x", None], dtype=pl.Enum(["x"]))}),
    ],
)
def test_a_value_that_is_no_category_is_refused(frame):
    with pytest.raises(DataError, match="'new' is not among the categories of column 'a'"):
        completed(frame, {0: cell(1, "new")})


def test_categories_that_a_few_rows_lack_are_added_in_the_order_of_the_levels():
    frame = pd.DataFrame({"a": pd.Categorical(["b", None])})

    def levels(value, learned, frame=frame):
        cells = Cells(np.array([1]), np.array([value], object), levels=learned)
        return completed(frame, {0: cells})["a"].cat.categories.tolist()

    assert levels("a", ("c", "a", "b")) == levels("b", ("c", "a", "b")) == ["b", "c", "a"]
    numbers = pd.DataFrame({"a": pd.Categorical([1, None])})
    assert levels(1, ("word",), numbers) == [1]  # which cannot be beside numbers
    ordered = pd.DataFrame({"a": pd.Categorical(["b", None], ordered=True)})
    assert levels("b", ("a", "b"), ordered) == ["b"]
    with pytest.raises(DataError, match="'a' is not among the categories of column 'a'"):
        levels("a", ("a", "b"), ordered)


def test_a_dictionary_grows_by_the_values_its_batch_happened_not_to_need():
    chunks = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["z", None]).dictionary_encode()]
    filled = completed(pa.table({"a": pa.chunked_array(chunks)}), {0: cell(3, "new")})
    assert filled["a"].to_pylist() == ["x", "y", "z", "new"]
    assert filled["a"].type == chunks[0].type
    filled.validate(full=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "frame",
    [
        np.array([[1], [2]]),
        pd.DataFrame({"x0": pd.array([True, None], "boolean")}),
        pl.DataFrame({"x0": [1, None]}),
        pa.table({"x0": pa.array([1, None], pa.timestamp("s"))}),
    ],
)
def test_what_is_not_finite_does_not_fit_whole_numbers(frame, value):
    with pytest.raises(DataError, match=f"column 'x0' cannot store {value}"):
        completed(frame, {0: cell(1, value)})


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
@pytest.mark.parametrize("make", [np.asarray, lambda x: pa.table({"a": x[:, 0]}), pl.DataFrame])
def test_integers_are_the_nearest_that_fit(make, dtype):
    cells = Cells(np.array([0, 1]), np.array([-1e300, 1e300]))
    (low, high) = cells_of(completed(make(np.zeros((2, 1), dtype)), {0: cells}))[0]
    info = np.iinfo(dtype)
    assert low == info.min
    assert info.max - 2048 <= high <= info.max


def test_text_takes_no_numbers_and_numbers_no_text(floats):
    with pytest.raises(DataError, match="holds numbers"):
        completed(floats, {0: cell(1, "x")})
    for dtype in (object, "str", "string"):
        words = pd.DataFrame({"w": pd.Series(["x", None], dtype=dtype)})
        with pytest.raises(DataError, match="holds text"):
            completed(words, {0: cell(1, 1.0)})


def test_longer_text_is_not_cut():
    filled = completed(np.array([["a"], ["b"]]), {0: cell(1, "long")})
    assert filled.tolist() == [["a"], ["long"]]


def test_complex_columns_are_refused_by_name():
    with pytest.raises(DataError, match="Complex data not supported: column 'a'"):
        columns(pd.DataFrame({"a": [1j]}))


# Details of the libraries.


def test_columns_of_floats_are_the_memory_of_the_frame():
    array = np.array([[1.0, 2.0], [3.0, np.nan]])
    assert all(np.shares_memory(column.values, array) for column in columns(array))
    frame = pd.DataFrame({"a": [1.0, np.nan]})
    assert np.shares_memory(columns(frame)[0].values, frame["a"].to_numpy())
    series = pl.Series("a", [1.0, 2.0])
    assert np.shares_memory(columns(series.to_frame())[0].values, series.to_numpy())


def test_bits_of_observed_cells_are_kept():
    """Signed zeros, and the payload of NaNs that are not replaced."""
    bits = np.array([0x7FF8000000000123, 0x8000000000000000, 0, 0x7FF8000000000000], np.uint64)
    floats = bits.view(np.float64)
    expected = bits.copy()
    expected[2] = np.array([2.5]).view(np.uint64)[0]
    frames = [
        floats[:, None],
        pd.DataFrame({"a": floats}),
        pl.DataFrame({"a": floats}),
        pa.table({"a": pa.array(floats)}),
    ]
    for frame in frames:
        filled = completed(frame, {0: cell(2, 2.5)})
        out = filled[:, 0] if isinstance(filled, np.ndarray) else filled["a"].to_numpy()
        assert out.view(np.uint64).tolist() == expected.tolist()


def test_multiindex_columns_keep_their_levels():
    labels = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["letter", "digit"])
    frame = pd.DataFrame([[1.0, np.nan], [3.0, 4.0]], columns=labels)
    assert names(frame) == ("('a', 1)", "('b', 2)")
    filled = completed(frame, {1: cell(0, 2.0)})
    assert filled.to_numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    assert filled.columns.equals(labels)
    more = with_columns(frame, {"flag": np.array([True, False])}, first=True)
    assert more.columns.tolist() == [("flag", ""), ("a", 1), ("b", 2)]
    assert more.columns.names == ["letter", "digit"]
    words = Cells(np.array([0, 1]), np.array(["x", "y"], object), storage="text")
    empty = frame.assign(**{}).mask(frame > 0)
    assert completed(empty, {1: words}).iloc[:, 1].tolist() == ["x", "y"]


def test_the_original_does_not_follow_its_copy(floats):
    copy = completed(floats, {})
    copy.iloc[0, 0] = 99.0
    assert floats.iloc[0, 0] == 1.0


@pytest.mark.parametrize(
    ("dtype", "result"),
    [
        (np.float32, np.float32),
        (np.int8, np.int64),
        (bool, np.int64),
        (object, object),
        ("U1", object),
    ],
)
def test_arrays_with_further_columns_have_a_type_for_all(dtype, result):
    array = np.array([[1], [0]]).astype(dtype)
    counts = {"flag": np.array([True, False]), "count": np.array([300, -5])}
    more = with_columns(array, counts, first=False)
    assert more.dtype == result
    assert more[:, 2].tolist() == [300, -5]
    assert more[0, 0] == array[0, 0]


def test_levels_that_only_other_columns_have_are_not_levels_of_a_polars_categorical():
    frame = pl.DataFrame({"a": ["y", "x"], "b": ["z", None]}).cast(pl.Categorical)
    assert [column.levels for column in columns(frame)] == [("x", "y"), ("z",)]


def test_a_null_in_an_arrow_dictionary_is_missing():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["b", None, "a"]))
    (column,) = columns(pa.table({"a": array}))
    assert column.missing.tolist() == [False, True, False]
    assert (column.levels, column.values[0], column.values[2]) == (("b", "a"), 0.0, 1.0)


def test_a_dictionary_of_numbers_is_read_exactly():
    values = pa.array([2**62, 2**62 + 1])
    array = pa.DictionaryArray.from_arrays(pa.array([1, None, 0], pa.uint8()), values)
    (column,) = columns(pa.table({"a": array}))
    assert column.levels == (2**62, 2**62 + 1)
    np.testing.assert_array_equal(column.values, [1.0, np.nan, 0.0])


def test_chunks_without_new_cells_are_the_very_same():
    table = pa.table({"a": pa.chunked_array([[1.0, 2.0], [None, 4.0]])})
    filled = completed(table, {0: cell(2, 3.0)}).column(0)
    assert [chunk.to_pylist() for chunk in filled.chunks] == [[1.0, 2.0], [3.0, 4.0]]
    old, new = table.column(0).chunk(0), filled.chunk(0)
    assert new.buffers()[1].address == old.buffers()[1].address


def test_sparse_counts_keep_what_they_do_not_store():
    sparse = pd.arrays.SparseArray([0.0, np.nan, 5.0], fill_value=0.0)
    frame = pd.DataFrame({"a": sparse})
    np.testing.assert_array_equal(columns(frame)[0].values, [0.0, np.nan, 5.0])
    filled = completed(frame, {0: cell(1, 2.0)})
    assert filled["a"].dtype == frame["a"].dtype
    assert filled["a"].tolist() == [0.0, 2.0, 5.0]


@pytest.mark.parametrize(
    "frame",
    [
        pa.table({"a": pa.array([Decimal("0.01"), None], pa.decimal128(5, 2))}),
        pl.DataFrame({"a": pl.Series([Decimal("0.01"), None], dtype=pl.Decimal(5, 2))}),
    ],
)
def test_decimals_are_rounded_within_their_bounds(frame):
    def filled(value, **bounds):
        cells = Cells(np.array([1]), np.array([value]), **bounds)
        return cells_of(completed(frame, {0: cells}))[0][1]

    assert filled(0.005) == Decimal("0.00")
    assert filled(0.005, lower=0.005) == Decimal("0.01")
    assert filled(0.996, upper=0.997) == Decimal("0.99")
    assert filled(0.1, lower=0.1, upper=0.1) == Decimal("0.10")


@pytest.mark.parametrize("step", [1, 2, 3])
@pytest.mark.parametrize("dtype", [np.float64, object])
def test_a_completed_frame_of_many_columns_is_not_in_pieces(dtype, step):
    frame = pd.DataFrame(np.ones((3, 130), dtype), columns=[f"c{i}" for i in range(130)])
    filled = completed(frame, {i: cell(0, 2.0) for i in range(0, 120, step)})
    filled["new"] = 1  # pandas warns if the frame is in many pieces, and warnings are errors
    assert filled["c0"].tolist() == [2.0, 1.0, 1.0]
    assert filled["c0"].dtype == dtype
    assert frame["c0"].tolist() == [1.0, 1.0, 1.0]


def test_columns_that_are_not_completed_are_no_part_of_the_given_frame():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0]})
    filled = completed(frame, {0: cell(1, 3.0)})
    filled.loc[0, "b"] = 9.0
    filled.loc[0, "a"] = 9.0
    assert frame["b"].tolist() == [1.0, 2.0]
    assert frame["a"].tolist()[0] == 1.0


@pytest.mark.parametrize("dtype", ["datetime64[s]", "datetime64[ns]", "timedelta64[us]"])
def test_a_single_row_of_times_is_completed(dtype):
    frame = pd.DataFrame({"t": pd.Series([None], dtype=dtype), "x": [1.0]})
    out = completed(frame, {0: cell(0, 86400.0)})
    assert out["t"].dtype == frame["t"].dtype
    assert out["t"].to_numpy()[0].astype(dtype.partition("[")[0] + "[s]").astype(int) == 86400


@pytest.mark.parametrize("dtype", [pl.Int128, pl.UInt128])
def test_integers_that_arrow_does_not_have_are_whole_numbers_in_its_schema(dtype):
    frame = pl.DataFrame({"a": pl.Series([1, None, 3], dtype=dtype), "b": ["x", "y", None]})
    schema = pa.ipc.read_schema(pa.BufferReader(arrow_schema(columns(frame), frame)))
    assert schema.field("a").type == pa.int64()
    assert schema.field("b").type == frame.select("b").to_arrow().schema.field("b").type
