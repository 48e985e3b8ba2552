"""Adapters of tables: read exactly, fill only what is named, keep everything else."""

import copy
import datetime
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from miwae.errors import DataError
from miwae.table.base import AbstractTable, Fill
from miwae.table.excel import ExcelTable
from miwae.table.frames import as_table
from miwae.table.text import TextTable
from table.cases import EXPECTED, FRAMES, HOLE

CELLS = [(frame, i) for frame, columns in EXPECTED.items() for i in range(len(columns))]
FILLABLE = [(frame, i) for frame, i in CELLS if EXPECTED[frame][i].fill is not None]
UNFILLABLE = [(frame, i) for frame, i in CELLS if EXPECTED[frame][i].fill is None]

every_frame = pytest.mark.parametrize("frame", FRAMES)
every_column = pytest.mark.parametrize(("frame", "position"), CELLS)


def columns_of(native):
    """The cells as Python objects, by column."""
    if isinstance(native, pd.DataFrame):
        return [native.iloc[:, i].tolist() for i in range(native.shape[1])]
    if isinstance(native, pl.DataFrame):
        return [series.to_list() for series in native]
    if isinstance(native, pa.Table):
        return [column.to_pylist() for column in native.columns]
    if isinstance(native, TextTable):
        return [native.texts(i) for i in range(len(native.names))]
    if isinstance(native, ExcelTable):
        return [native.cells(i).tolist() for i in range(len(native.names))]
    return native.T.tolist()


def shown(native):
    """Cells in a form that compares, with their types; NaN is equal to NaN."""
    return [[(type(cell), repr(cell)) for cell in column] for column in columns_of(native)]


def assert_same_frame(one, two):
    """Everything but the cells."""
    assert type(one) is type(two)
    if isinstance(one, pd.DataFrame):
        assert one.dtypes.tolist() == two.dtypes.tolist()
        pd.testing.assert_index_equal(one.index, two.index, exact=True)
        pd.testing.assert_index_equal(one.columns, two.columns, exact=True)
        assert one.attrs == two.attrs
    elif isinstance(one, pl.DataFrame):
        assert one.schema == two.schema
        assert one.shape == two.shape
    elif isinstance(one, pa.Table):
        assert one.schema.equals(two.schema, check_metadata=True)
    elif isinstance(one, AbstractTable):
        assert (one.names, one.n_rows) == (two.names, two.n_rows)
        if isinstance(one, TextTable):
            assert one.rows(0, 0).to_bytes() == two.rows(0, 0).to_bytes()  # header and format
    else:
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.flags.f_contiguous == two.flags.f_contiguous


def fill_of(expected, rows=(HOLE,)):
    dtype = object if expected.levels else np.float64
    values = np.empty(len(rows), dtype)
    values[:] = expected.fill
    return Fill(np.array(rows), values)


def fill_all(frame):
    return {i: fill_of(EXPECTED[frame][i]) for f, i in FILLABLE if f == frame}


@pytest.fixture
def floats():
    return as_table(pd.DataFrame({"a": [1.0, np.nan], "b": [2.0, 3.0]}))


# The contract.


@every_frame
def test_size_and_names(frame):
    native = FRAMES[frame]()
    table = as_table(native)
    assert table.native is native
    assert table.n_rows == 4
    assert len(table.names) == len(EXPECTED[frame])
    assert as_table(table) is table


@every_column
def test_a_column_reads_as_what_it_holds(frame, position):
    expected = EXPECTED[frame][position]
    column = as_table(FRAMES[frame]()).column(position)
    assert column.storage == expected.storage
    assert column.values.dtype == np.float64
    np.testing.assert_array_equal(column.values, expected.values)
    if expected.storage != "other":
        np.testing.assert_array_equal(column.missing, np.isnan(expected.values))
    else:
        np.testing.assert_array_equal(column.missing, np.arange(4) == HOLE)
    assert column.levels == expected.levels
    assert [type(level) for level in column.levels] == [type(level) for level in expected.levels]
    assert (column.ordered, column.whole) == (expected.ordered, expected.whole)
    assert column.name == as_table(FRAMES[frame]()).names[position]
    assert column.dtype


@pytest.mark.parametrize(("frame", "position"), FILLABLE)
def test_fill_changes_the_named_cell_only(frame, position):
    native, expected = FRAMES[frame](), EXPECTED[frame][position]
    before = shown(native)
    filled = as_table(native).fill({position: fill_of(expected)}).native
    assert columns_of(filled)[position][HOLE] == expected.cell
    assert type(columns_of(filled)[position][HOLE]) is type(expected.cell)
    after = shown(filled)
    before_elsewhere, after_elsewhere = copy.deepcopy((before, after))
    for cells in (before_elsewhere, after_elsewhere):
        cells[position][HOLE] = None
    assert after_elsewhere == before_elsewhere
    assert_same_frame(filled, native)
    assert shown(native) == before  # nothing in place


@pytest.mark.parametrize(("frame", "position"), UNFILLABLE)
def test_what_no_value_fits_is_refused(frame, position):
    table = as_table(FRAMES[frame]())
    with pytest.raises(DataError, match="cannot be filled"):
        table.fill({position: Fill(np.array([HOLE]), np.array([1.0]))})


@every_frame
def test_filled_cells_read_as_what_they_were_filled_with(frame):
    filled = as_table(FRAMES[frame]()).fill(fill_all(frame))
    for position in fill_all(frame):
        expected, column = EXPECTED[frame][position], filled.column(position)
        assert not column.missing[HOLE]
        if expected.levels:
            assert column.levels[int(column.values[HOLE])] == expected.fill
        # Only the rounding of the type is between what goes in and what comes out.
        again = filled.fill({position: fill_of(expected)})
        np.testing.assert_array_equal(again.column(position).values, column.values)
        others = np.arange(4) != HOLE
        if not expected.levels:
            np.testing.assert_array_equal(column.values[others], np.array(expected.values)[others])


@every_frame
def test_values_go_in_as_they_came_out(frame):
    """Every observed cell, written again from its neutral form, is the same cell."""
    table = as_table(FRAMES[frame]())
    fills = {}
    for f, i in FILLABLE:
        column = table.column(i) if f == frame else None
        if column is None or column.n_observed < 2:
            continue
        row = np.flatnonzero(~column.missing)[:1]  # the others say of which type objects are
        value = column.values[row]
        if column.levels:
            value = np.array([column.levels[int(value[0])]], object)
        fills[i] = Fill(row, value)
    assert columns_equal(columns_of(table.fill(fills).native), columns_of(table.native))


def columns_equal(one, two):
    """Equality of values; an object 1 may have become 1.0."""
    same = lambda a, b: a is b or (a != a and b != b) or a == b  # noqa: E731
    return all(
        same(a, b)
        for left, right in zip(one, two, strict=True)
        for a, b in zip(left, right, strict=True)
        if a is not pd.NA
    )


@every_frame
def test_no_fills_give_an_equal_frame_of_its_own(frame):
    native = FRAMES[frame]()
    filled = as_table(native).fill({}).native
    assert shown(filled) == shown(native)
    assert_same_frame(filled, native)
    if not isinstance(native, pa.Table):  # which nobody can change
        assert filled is not native


@every_frame
def test_rows_and_stacked_are_inverse(frame):
    native = FRAMES[frame]()
    table = as_table(native)
    parts = [table.rows(0, 1), table.rows(1, 3), table.rows(3, 4)]
    assert [part.n_rows for part in parts] == [1, 2, 1]
    assert shown(parts[1].native) == [column[1:3] for column in shown(native)]
    assert_same_frame(parts[1].rows(0, 0).native, table.rows(0, 0).native)
    whole = type(table).stacked(parts)
    assert shown(whole.native) == shown(native)
    if isinstance(native, pd.DataFrame):
        assert whole.native.index.tolist() == [0, 1, 2, 3]
        assert whole.native.dtypes.tolist() == native.dtypes.tolist()
    elif frame != "numpy_fortran":  # layout is not kept
        assert_same_frame(whole.native, native)


@every_frame
def test_keep_takes_columns_by_position(frame):
    table = as_table(FRAMES[frame]())
    last = len(table.names) - 1
    kept = table.keep([last, 0])
    cells = shown(table.native)
    assert shown(kept.native) == [cells[last], cells[0]]
    if not frame.startswith("numpy"):
        assert kept.names == (table.names[last], table.names[0])
    none = table.keep([])
    assert none.names == ()
    assert none.n_rows == 4


@every_frame
def test_a_table_without_columns_keeps_its_length(frame):
    none = as_table(FRAMES[frame]()).keep([])
    assert none.rows(1, 3).n_rows == 2
    assert type(none).stacked([none, none]).n_rows == 8
    flags = np.array([True, False, True, True])
    more = none.with_columns({"flag": flags}, first=True)
    assert more.n_rows == 4
    if frame == "text":
        assert more.to_bytes() == b"flag\r\ntrue\r\nfalse\r\ntrue\r\ntrue"


@every_frame
def test_a_table_without_rows_is_read(frame):
    none = as_table(FRAMES[frame]()).rows(0, 0)
    for position, expected in enumerate(EXPECTED[frame]):
        column = none.column(position)
        assert column.values.shape == column.missing.shape == (0,)
        if column.dtype not in ("object", "Excel") and not frame.startswith("numpy_str"):
            assert column.storage == expected.storage


@every_frame
@pytest.mark.parametrize("first", [True, False])
def test_with_columns_adds_them_in_order(frame, first):
    native = FRAMES[frame]()
    further = {"flag": np.array([True, False, True, True]), "count": np.array([4, 3, 2, 1])}
    table = as_table(native).with_columns(further, first=first)
    own, new = columns_of(native), [[True, False, True, True], [4, 3, 2, 1]]
    if frame == "text":
        new = [["true", "false", "true", "true"], ["4", "3", "2", "1"]]
    assert columns_equal(columns_of(table.native), [*new, *own] if first else [*own, *new])
    if not frame.startswith("numpy"):
        names = as_table(native).names
        assert table.names == (("flag", "count", *names) if first else (*names, "flag", "count"))
        with pytest.raises(DataError, match="two columns are named 'flag'"):
            table.with_columns({"flag": np.array([True] * 4)}, first=first)
    own_places = list(range(2, len(own) + 2) if first else range(len(own)))
    changed = ("bool", "str", "datetime", "timedelta", "fortran")
    if frame not in {f"numpy_{dtype}" for dtype in changed}:
        assert_same_frame(
            table.keep(own_places).native, as_table(native).keep(range(len(own))).native
        )


# Values that count as missing.


@pytest.mark.parametrize(
    ("native", "missing"),
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
        (pl.DataFrame({"a": [datetime.date(1900, 1, 1), None]}), [True, True]),
        (pl.DataFrame({"a": [datetime.time(1), datetime.time(2)]}), [True, False]),
        (pl.DataFrame({"a": [datetime.timedelta(hours=1), None]}), [False, True]),
        (pd.DataFrame({"a": [datetime.time(1), datetime.time(2)]}), [True, False]),
        (pa.table({"a": [1.5, -999.0]}), [False, True]),
        (pa.table({"a": pa.array(["?", "x"]).dictionary_encode()}), [True, False]),
    ],
)
def test_missing_values_are_found_in_columns_of_their_kind(native, missing):
    sentinels = (np.array(-999), "?", np.nan, None, pd.NaT, datetime.date(1900, 1, 1), [1])
    sentinels += (datetime.time(1),)
    column = as_table(native).column(0, sentinels)
    np.testing.assert_array_equal(column.missing, missing)
    np.testing.assert_array_equal(np.isnan(column.values), missing)
    assert "?" not in column.levels
    assert -999 not in column.levels


def test_zero_as_missing_value_says_nothing_about_false():
    table = as_table(pd.DataFrame({"flag": [True, False], "count": [0, 1], "text": ["0", "1"]}))
    assert table.column(0, (0,)).n_observed == 2
    assert table.column(1, (0,)).n_observed == 1
    assert table.column(2, (0,)).n_observed == 2
    assert table.column(0, (False,)).n_observed == 1
    assert table.column(1, (False,)).n_observed == 2


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_missing_value_is_compared_in_the_precision_of_the_column(dtype):
    table = as_table(np.array([[-999.9], [np.inf], [1.0]], dtype))
    # What overflows to infinity is not infinity.
    assert table.column(0, (-999.9, 1e300, 10**400)).missing.tolist() == [True, False, False]


def test_large_integers_are_compared_exactly():
    table = as_table(np.array([[2**53], [2**53 + 1]]))
    assert table.column(0, (2**53 + 1,)).missing.tolist() == [False, True]


def test_a_mark_does_not_make_numbers_text():
    table = as_table(pd.DataFrame({"a": pd.Series(["?", 1, 2, "?"], dtype=object)}))
    assert table.column(0).levels == (1, 2, "?")
    column = table.column(0, ("?",))
    assert (column.storage, column.whole) == ("number", True)
    filled = table.fill({0: Fill(np.array([0]), np.array([3.2]))}).native
    assert filled["a"].tolist() == [3, 1, 2, "?"]


# Objects.


def test_mixed_objects_are_levels_sorted_by_type_and_value():
    array = np.array([["b", 2, True, 1, 1.0, "a", 2]], object).T
    column = as_table(array).column(0)
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
    filled = as_table(array).fill({0: Fill(np.array([0]), np.array([True], object))})
    assert filled.native[0, 0] is True


@pytest.mark.parametrize(
    "nothing", [None, np.nan, pd.NA, pd.NaT, Decimal("NaN"), np.float32("nan")]
)
def test_every_nothing_is_missing_among_objects(nothing):
    column = as_table(np.array([["a"], [nothing]], object)).column(0)
    assert column.missing.tolist() == [False, True]
    assert column.levels == ("a",)


@pytest.mark.parametrize("unit", ["M", "Y"])
def test_months_and_years_are_no_durations(unit):
    """They are no number of seconds."""
    array = np.array([[np.timedelta64(3, unit)], [None], [np.timedelta64(4, unit)]], object)
    assert as_table(array).column(0).storage == "other"


def test_instants_without_a_zone_are_read_as_utc_and_written_to_the_microsecond():
    instant = datetime.datetime(2024, 6, 1, 12, 0, 0, 123456)
    array = np.array([[instant], [None], [instant]], object)
    values = as_table(array).column(0).values
    filled = as_table(array).fill({0: Fill(np.array([1]), values[:1])})
    assert filled.native[1, 0] == instant


@pytest.mark.parametrize("unit", ["s", "ms", "us"])
def test_times_survive_the_way_through_seconds(unit):
    rng = np.random.default_rng(0)
    ticks = rng.integers(-(10**9), 2 * 10**9, 1000) * {"s": 1, "ms": 10**3, "us": 10**6}[unit]
    ticks += rng.integers(0, {"s": 1, "ms": 10**3, "us": 10**6}[unit], 1000)
    frame = pd.DataFrame({"t": ticks.astype(f"datetime64[{unit}]")})
    table = as_table(frame)
    fill = Fill(np.arange(1000), table.column(0).values)
    pd.testing.assert_frame_equal(table.fill({0: fill}).native, frame)


# What cannot be stored.


@pytest.mark.parametrize(
    "native",
    [
        pd.DataFrame({"a": pd.Categorical(["x", None])}),
        pl.DataFrame({"a": pl.Series(["x", None], dtype=pl.Enum(["x"]))}),
    ],
)
def test_a_value_that_is_no_category_is_refused(native):
    fill = Fill(np.array([1]), np.array(["new"], object))
    with pytest.raises(DataError, match="'new' is not among the categories of column 'a'"):
        as_table(native).fill({0: fill})


def test_a_dictionary_grows_by_the_values_its_batch_happened_not_to_need():
    chunks = [pa.array(["x", "y"]).dictionary_encode(), pa.array(["z", None]).dictionary_encode()]
    filled = as_table(pa.table({"a": pa.chunked_array(chunks)})).fill(
        {0: Fill(np.array([3]), np.array(["new"], object))}
    )
    assert filled.native["a"].to_pylist() == ["x", "y", "z", "new"]
    assert filled.native["a"].type == chunks[0].type
    filled.native.validate(full=True)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "native",
    [
        np.array([[1], [2]]),
        pd.DataFrame({"x0": pd.array([True, None], "boolean")}),
        pl.DataFrame({"x0": [1, None]}),
        pa.table({"x0": pa.array([1, None], pa.timestamp("s"))}),
    ],
)
def test_what_is_not_finite_does_not_fit_whole_numbers(native, value):
    with pytest.raises(DataError, match=f"column 'x0' cannot store {value}"):
        as_table(native).fill({0: Fill(np.array([1]), np.array([value]))})


@pytest.mark.parametrize("dtype", [np.int64, np.uint64, np.int8])
def test_integers_are_the_nearest_that_fit(dtype):
    table = as_table(np.zeros((2, 1), dtype))
    filled = table.fill({0: Fill(np.array([0, 1]), np.array([-1e300, 1e300]))}).native
    info = np.iinfo(dtype)
    assert filled[0, 0] == info.min
    assert info.max - 2048 <= filled[1, 0] <= info.max


def test_text_takes_no_numbers_and_numbers_no_text(floats):
    with pytest.raises(DataError, match="holds numbers"):
        floats.fill({0: Fill(np.array([1]), np.array(["x"], object))})
    for dtype in (object, "str", "string"):
        words = as_table(pd.DataFrame({"w": pd.Series(["x", None], dtype=dtype)}))
        with pytest.raises(DataError, match="holds text"):
            words.fill({0: Fill(np.array([1]), np.array([1.0]))})


def test_longer_text_is_not_cut():
    filled = as_table(np.array([["a"], ["b"]])).fill({0: Fill(np.array([1]), np.array(["long"]))})
    assert filled.native.tolist() == [["a"], ["long"]]


# Frames that are refused.


@pytest.mark.parametrize(
    ("native", "message"),
    [
        (np.array([[1j]]), "Complex data not supported"),
        (pd.DataFrame([[1, 2]], columns=["a", "a"]), "two columns are named 'a': rename"),
        (pd.DataFrame([[1, 2]], columns=[1, "1"]), "two columns are named '1'"),
        (pa.table([[1], [2]], names=["a", "a"]), "two columns are named 'a'"),
        (np.zeros(3), r"2 axes, not 1: use reshape\(-1, 1\)"),
        (np.zeros(3, [("a", float)]), "structured"),
        (np.ma.masked_array(np.zeros((2, 2))), "masked"),
        (pl.LazyFrame({"a": [1]}), r"LazyFrame .*pass frame\.collect\(\)"),
        (pd.Series([1]), r"to_frame\(\)"),
        (pa.record_batch({"a": [1]}), "from_batches"),
        ([[1.0]], "builtins.list is not a table"),
    ],
)
def test_what_is_no_table_is_refused_with_the_remedy(native, message):
    with pytest.raises(DataError, match=message):
        as_table(native)


def test_complex_columns_are_refused_by_name():
    with pytest.raises(DataError, match="Complex data not supported: column 'a'"):
        as_table(pd.DataFrame({"a": [1j]})).column(0)


# Details of the libraries.


def test_importing_the_adapters_imports_no_library():
    code = (
        "import sys, numpy as np; from miwae.table.frames import as_table;"
        "as_table(np.array([['a', None]], object)).column(0);"
        "sys.exit(any(m in sys.modules for m in ('pandas', 'polars', 'pyarrow')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_multiindex_columns_keep_their_levels():
    columns = pd.MultiIndex.from_tuples([("a", 1), ("b", 2)], names=["letter", "digit"])
    frame = pd.DataFrame([[1.0, np.nan], [3.0, 4.0]], columns=columns)
    table = as_table(frame)
    assert table.names == ("('a', 1)", "('b', 2)")
    filled = table.fill({1: Fill(np.array([0]), np.array([2.0]))}).native
    assert filled.to_numpy().tolist() == [[1.0, 2.0], [3.0, 4.0]]
    more = table.with_columns({"flag": np.array([True, False])}, first=True).native
    assert more.columns.tolist() == [("flag", ""), ("a", 1), ("b", 2)]
    assert more.columns.names == ["letter", "digit"]


def test_the_original_does_not_follow_its_copy(floats):
    copy_ = floats.fill({}).native
    copy_.iloc[0, 0] = 99.0
    assert floats.native.iloc[0, 0] == 1.0


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
    more = as_table(array).with_columns(counts, first=False).native
    assert more.dtype == result
    assert more[:, 2].tolist() == [300, -5]
    assert more[0, 0] == array[0, 0]


def test_levels_that_only_other_columns_have_are_not_levels_of_a_polars_categorical():
    frame = pl.DataFrame({"a": ["y", "x"], "b": ["z", None]}).cast(pl.Categorical)
    assert as_table(frame).column(0).levels == ("x", "y")
    assert as_table(frame).column(1).levels == ("z",)


def test_a_null_in_an_arrow_dictionary_is_missing():
    array = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2]), pa.array(["b", None, "a"]))
    column = as_table(pa.table({"a": array})).column(0)
    assert column.missing.tolist() == [False, True, False]
    assert (column.levels, column.values[0], column.values[2]) == (("b", "a"), 0.0, 1.0)


def test_chunks_without_fills_are_the_very_same():
    table = pa.table({"a": pa.chunked_array([[1.0, 2.0], [None, 4.0]])})
    fill = Fill(np.array([2]), np.array([3.0]))
    filled = as_table(table).fill({0: fill}).native.column(0)
    assert [chunk.to_pylist() for chunk in filled.chunks] == [[1.0, 2.0], [3.0, 4.0]]
    old, new = table.column(0).chunk(0), filled.chunk(0)
    assert new.buffers()[1].address == old.buffers()[1].address


def test_sparse_counts_keep_what_they_do_not_store():
    sparse = pd.arrays.SparseArray([0.0, np.nan, 5.0], fill_value=0.0)
    frame = pd.DataFrame({"a": sparse})
    table = as_table(frame)
    np.testing.assert_array_equal(table.column(0).values, [0.0, np.nan, 5.0])
    filled = table.fill({0: Fill(np.array([1]), np.array([2.0]))}).native
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
    table = as_table(frame)

    def filled(value, **bounds):
        fill = Fill(np.array([1]), np.array([value]), **bounds)
        return columns_of(table.fill({0: fill}).native)[0][1]

    assert filled(0.005) == Decimal("0.00")
    assert filled(0.005, lower=0.005) == Decimal("0.01")
    assert filled(0.996, upper=0.997) == Decimal("0.99")
    assert filled(0.1, lower=0.1, upper=0.1) == Decimal("0.10")


def test_a_filled_frame_of_many_columns_is_not_in_pieces():
    frame = pd.DataFrame(np.ones((3, 130)), columns=[f"c{i}" for i in range(130)])
    fills = {i: Fill(np.array([0]), np.array([2.0])) for i in range(120)}
    completed = as_table(frame).fill(fills).native
    completed["new"] = 1  # of which pandas would warn, which is an error here
    assert completed["c0"].tolist() == [2.0, 1.0, 1.0]


def test_columns_that_are_not_filled_are_no_part_of_the_given_frame():
    frame = pd.DataFrame({"a": [1.0, np.nan], "b": [1.0, 2.0]})
    completed = as_table(frame).fill({0: Fill(np.array([1]), np.array([3.0]))}).native
    completed.loc[0, "b"] = 9.0
    completed.loc[0, "a"] = 9.0
    assert frame["b"].tolist() == [1.0, 2.0]
    assert frame["a"].tolist()[0] == 1.0
