"""Frames of every library: read exactly, complete only the named cells, keep everything else."""

import copy
import subprocess
import sys
from collections.abc import Mapping

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from frames.cases import EXPECTED, FRAMES, HOLE, cell, cells_of
from miwae.columns import Cells
from miwae.errors import DataError
from miwae.frames import (
    as_frame,
    columns,
    completed,
    keep,
    n_rows,
    names,
    renamed,
    stacked,
    to_library,
    with_columns,
)
from miwae.frames._checks import checked, is_frame

CELLS = [(name, i) for name, expected in EXPECTED.items() for i in range(len(expected))]
FILLABLE = [(name, i) for name, i in CELLS if EXPECTED[name][i].fill is not None]
UNFILLABLE = [(name, i) for name, i in CELLS if EXPECTED[name][i].fill is None]

every_frame = pytest.mark.parametrize("name", FRAMES)
every_column = pytest.mark.parametrize(("name", "position"), CELLS)


def shown(frame):
    """Cells in a form that compares, with their types; NaN is equal to NaN."""
    return [[(type(cell), repr(cell)) for cell in column] for column in cells_of(frame)]


def rows(frame, start, stop):
    if isinstance(frame, pd.DataFrame):
        return frame.iloc[start:stop]
    return frame[start:stop] if isinstance(frame, np.ndarray) else frame.slice(start, stop - start)


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
    else:
        assert one.dtype == two.dtype
        assert one.shape == two.shape
        assert one.flags.f_contiguous == two.flags.f_contiguous


def cells_for(expected):
    dtype = object if expected.levels else np.float64
    return Cells(np.array([HOLE]), np.array([expected.fill], dtype))


def cells_for_all(name):
    return {i: cells_for(EXPECTED[name][i]) for other, i in FILLABLE if other == name}


def columns_equal(one, two):
    """Equality of values; an object 1 may have become 1.0."""
    same = lambda a, b: a is b or (a != a and b != b) or a == b  # noqa: E731
    return all(
        same(a, b)
        for left, right in zip(one, two, strict=True)
        for a, b in zip(left, right, strict=True)
        if a is not pd.NA
    )


# The contract.


@every_frame
def test_size_and_names(name):
    frame = FRAMES[name]()
    assert checked(frame) is frame
    assert n_rows(frame) == 4
    assert len(names(frame)) == len(EXPECTED[name])
    assert is_frame(frame) != isinstance(frame, np.ndarray)


@every_column
def test_a_column_reads_as_what_it_holds(name, position):
    expected = EXPECTED[name][position]
    column = columns(FRAMES[name]())[position]
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
    assert column.name == names(FRAMES[name]())[position]
    assert column.typed == (column.dtype not in ("object", "Null", "null"))
    assert column.dtype


@pytest.mark.parametrize(("name", "position"), FILLABLE)
def test_the_named_cell_changes_and_no_other(name, position):
    frame, expected = FRAMES[name](), EXPECTED[name][position]
    before = shown(frame)
    filled = completed(frame, {position: cells_for(expected)})
    assert cells_of(filled)[position][HOLE] == expected.cell
    assert type(cells_of(filled)[position][HOLE]) is type(expected.cell)
    after = shown(filled)
    before_elsewhere, after_elsewhere = copy.deepcopy((before, after))
    for cells in (before_elsewhere, after_elsewhere):
        cells[position][HOLE] = None
    assert after_elsewhere == before_elsewhere
    assert_same_frame(filled, frame)
    assert shown(frame) == before  # nothing in place


@pytest.mark.parametrize(("name", "position"), UNFILLABLE)
def test_what_no_value_fits_is_refused(name, position):
    with pytest.raises(DataError, match="cannot be filled"):
        completed(FRAMES[name](), {position: cell(HOLE, 1.0)})


@every_frame
def test_completed_cells_read_as_what_was_put_into_them(name):
    cells = cells_for_all(name)
    filled = completed(FRAMES[name](), cells)
    again = columns(completed(filled, cells))
    for position, column in enumerate(columns(filled)):
        expected = EXPECTED[name][position]
        if position not in cells:
            continue
        assert not column.missing[HOLE]
        if expected.levels:
            assert column.levels[int(column.values[HOLE])] == expected.fill
        # Only the rounding of the type is between what goes in and what comes out.
        np.testing.assert_array_equal(again[position].values, column.values)
        others = np.arange(4) != HOLE
        if not expected.levels:
            np.testing.assert_array_equal(column.values[others], np.array(expected.values)[others])


@every_frame
def test_values_go_in_as_they_came_out(name):
    """Every observed cell, written again from its neutral form, is the same cell."""
    frame = FRAMES[name]()
    cells = {}
    for position, column in enumerate(columns(frame)):
        if (name, position) in UNFILLABLE or column.n_observed < 2:
            continue
        row = int(np.flatnonzero(~column.missing)[0])  # the others say of which type objects are
        value = float(column.values[row])
        cells[position] = cell(row, column.levels[int(value)] if column.levels else value)
    assert columns_equal(cells_of(completed(frame, cells)), cells_of(frame))


@every_frame
def test_no_cells_give_an_equal_frame_of_its_own(name):
    frame = FRAMES[name]()
    filled = completed(frame, {})
    assert shown(filled) == shown(frame)
    assert_same_frame(filled, frame)
    if not isinstance(frame, pa.Table):  # which nobody can change
        assert filled is not frame


@every_frame
def test_parts_stacked_are_the_whole(name):
    frame = FRAMES[name]()
    whole = stacked([rows(frame, 0, 1), rows(frame, 1, 3), rows(frame, 3, 4)])
    assert shown(whole) == shown(frame)
    if isinstance(frame, pd.DataFrame):
        assert whole.index.tolist() == [0, 1, 2, 3]
        assert whole.dtypes.tolist() == frame.dtypes.tolist()
        assert whole.columns.equals(frame.columns)
    elif name != "numpy_fortran":  # layout is not kept
        assert_same_frame(whole, frame)


@every_frame
def test_keep_takes_columns_by_position(name):
    frame = FRAMES[name]()
    last = len(names(frame)) - 1
    kept = keep(frame, [last, 0])
    cells = shown(frame)
    assert shown(kept) == [cells[last], cells[0]]
    if not name.startswith("numpy"):
        assert names(kept) == (names(frame)[last], names(frame)[0])
        assert_same_frame(keep(frame, range(last + 1)), frame)
    none = keep(frame, [])
    assert names(none) == ()
    assert n_rows(none) == 4


@every_frame
def test_a_frame_without_columns_keeps_its_length(name):
    none = keep(FRAMES[name](), [])
    assert columns(none) == []
    assert n_rows(completed(none, {})) == 4
    assert n_rows(stacked([none, none])) == 8
    flags = np.array([True, False, True, True])
    assert cells_of(with_columns(none, {"flag": flags}, first=True)) == [flags.tolist()]


@every_frame
def test_a_frame_without_rows_is_read_and_completed(name):
    none = rows(FRAMES[name](), 0, 0)
    for column, expected in zip(columns(none), EXPECTED[name], strict=True):
        assert column.values.shape == column.missing.shape == (0,)
        if column.dtype != "object":
            assert column.storage == expected.storage
    nothing = {
        i: Cells(np.empty(0, np.int64), np.empty(0, object if column.levels else np.float64))
        for i, column in enumerate(columns(none))
        if (name, i) in FILLABLE and column.storage not in ("text", "category")
    }
    assert_same_frame(completed(none, nothing), none)


@every_frame
@pytest.mark.parametrize("first", [True, False])
def test_with_columns_adds_them_in_order(name, first):
    frame = FRAMES[name]()
    further = {"flag": np.array([True, False, True, True]), "count": np.array([4, 3, 2, 1])}
    before, more = shown(frame), with_columns(frame, further, first=first)
    own, new = cells_of(frame), [[True, False, True, True], [4, 3, 2, 1]]
    assert columns_equal(cells_of(more), [*new, *own] if first else [*own, *new])
    assert shown(frame) == before
    if not name.startswith("numpy"):
        labels = names(frame)
        assert names(more) == (("flag", "count", *labels) if first else (*labels, "flag", "count"))
        with pytest.raises(DataError, match="two columns are named 'flag'"):
            with_columns(more, {"flag": np.array([True] * 4)}, first=first)
    own_places = list(range(2, len(own) + 2) if first else range(len(own)))
    changed = ("bool", "str", "datetime", "timedelta", "fortran")
    if name not in {f"numpy_{dtype}" for dtype in changed}:
        assert_same_frame(keep(more, own_places), keep(frame, range(len(own))))
    assert shown(with_columns(frame, {}, first=first)) == before


@every_frame
def test_the_cells_of_each_column_are_asked_for_once(name):
    asked = []

    class Lazy(Mapping):
        def __getitem__(self, position):
            asked.append(position)
            return eager[position]

        def __iter__(self):
            return iter(eager)

        def __len__(self):
            return len(eager)

    eager = cells_for_all(name)
    assert shown(completed(FRAMES[name](), Lazy())) == shown(completed(FRAMES[name](), eager))
    assert asked == list(eager)


# Frames that are refused.


@pytest.mark.parametrize(
    ("frame", "message"),
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
        (pl.Series([1]), r"to_frame\(\)"),
        (pa.record_batch({"a": [1]}), "from_batches"),
        ([[1.0]], "builtins.list is not a table"),
        ({"a": [1.0]}, "builtins.dict is not a table"),
    ],
)
def test_what_is_no_table_is_refused_with_the_remedy(frame, message):
    for function in (names, columns):
        with pytest.raises(DataError, match=message):
            function(frame)


def test_sparse_matrices_are_refused_with_the_remedy():
    sparse = pytest.importorskip("scipy.sparse")
    with pytest.raises(DataError, match=r"pass array\.toarray\(\)"):
        checked(sparse.csr_array([[1.0]]))


def test_tables_that_are_not_read_count_as_frames_and_arrays_do_not():
    """So that they are refused with a remedy, and not made arrays of objects."""
    for frame in (pl.LazyFrame(), pa.record_batch({"a": [1]}), {"a": [1]}):
        assert is_frame(frame)
    for array in (np.zeros((1, 1)), [[1.0]], ((1.0,),)):
        assert not is_frame(array)


def test_a_matrix_is_completed_as_an_array():
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix([[1.0, np.nan]])
    assert type(checked(matrix)) is np.ndarray
    assert columns(matrix)[1].missing.tolist() == [True]
    assert completed(matrix, {1: cell(0, 2.0)}).tolist() == [[1.0, 2.0]]


# Libraries.


def test_importing_frames_imports_no_library():
    code = (
        "import sys, numpy as np; from miwae.frames import columns;"
        "columns(np.array([['a', None]], object));"
        "sys.exit(any(m in sys.modules for m in ('pandas', 'polars', 'pyarrow', 'jax')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("library", ["pandas", "polars"])
@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_frame_in_another_library_has_the_same_cells(make, library):
    frame = make({"number": [1.5, 2.0], "word": ["a", "b"], "count": [1, 2]})
    other = to_library(frame, library)
    assert type(other).__module__.split(".")[0] == library
    assert cells_of(other) == cells_of(frame)
    assert names(other) == names(frame)
    assert [column.storage for column in columns(other)] == ["number", "text", "number"]
    if type(other) is type(frame):
        assert other is frame


def test_arrays_are_of_no_other_library():
    array = np.zeros((2, 2))
    assert to_library(array, "pandas") is array


def test_labels_that_are_no_text_are_renamed():
    frame = pd.DataFrame([[1, 2]], columns=pd.Index([0, "b"], name="labels"))
    assert renamed(frame, ["0", "b"]).columns.tolist() == ["0", "b"]
    assert renamed(frame, ["0", "b"]).columns.name == "labels"
    assert frame.columns.tolist() == [0, "b"]
    text = pd.DataFrame({"a": [1]})
    assert renamed(text, ["other"]) is text
    levels = pd.DataFrame([[1]], columns=pd.MultiIndex.from_tuples([("a", 1)]))
    assert renamed(levels, ["other"]) is levels
    for frame in (pl.DataFrame({"a": [1]}), pa.table({"a": [1]}), np.zeros((1, 1))):
        assert renamed(frame, ["other"]) is frame


@pytest.mark.parametrize("x", [np.empty((0, 3)), np.empty((3, 0)), pd.DataFrame({"a": []})])
def test_tables_without_cells_are_no_input(x):
    with pytest.raises(DataError, match="minimum of 1 is required"):
        as_frame(x)


def test_what_is_masked_is_missing_whatever_lies_below():
    rows = np.ma.masked_equal([[1, 2], [-999, 4]], -999)
    np.testing.assert_array_equal(as_frame(rows), [[1.0, 2.0], [np.nan, 4.0]])
    flags = np.ma.masked_array([[True, False]], [[False, True]])
    np.testing.assert_array_equal(as_frame(flags), [[1.0, np.nan]])
    words = np.ma.masked_array([["a", "b"]], [[False, True]])
    assert [columns(as_frame(words))[i].n_missing for i in range(2)] == [0, 1]


def test_lists_become_arrays_and_frames_stay_as_they_are():
    assert as_frame([[1, 2.5], [3, 4]]).tolist() == [[1.0, 2.5], [3.0, 4.0]]
    frame = pd.DataFrame({"a": [1.0]})
    assert as_frame(frame) is frame
