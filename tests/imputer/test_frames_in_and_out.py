"""Frames in, frames of the same kind out, with possible values in their holes."""

import copy

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from imputer.libraries import (
    COLUMNS,
    FRAMES,
    LEVELS,
    N_ROWS,
    ORDERED,
    cells_of,
    completed_of,
    holes_of,
    is_missing,
    types_of,
)
from imputer.tables import make, numbers, same_bits
from miwae.errors import DataError, DataWarning
from miwae.events import Event

every_frame = pytest.mark.parametrize("name", FRAMES)


@every_frame
def test_the_frame_comes_back_as_it_came(name):
    frame, _, completed = completed_of(name)
    original = FRAMES[name][0]()
    assert type(completed) is type(frame)
    assert types_of(completed) == types_of(original)
    if isinstance(frame, pd.DataFrame):
        assert completed.index.identical(original.index)
        assert completed.columns.identical(original.columns)
    for j, holes in holes_of(name).items():
        before, after = cells_of(original, j), cells_of(completed, j)
        assert repr(cells_of(frame, j)) == repr(before)  # the user's own table is untouched
        for i in range(N_ROWS):
            if i in holes:
                assert not is_missing(after[i])
            else:
                assert repr(after[i]) == repr(before[i])
                assert type(after[i]) is type(before[i])


@every_frame
def test_kinds_are_the_same_in_every_library(name):
    _, imputer, _ = completed_of(name)
    kinds = [column.kind.label for column in imputer.schema_.columns]
    assert kinds == [
        "continuous",
        "positive",
        "integer",
        "binary",
        "categorical",
        "ordinal",
        "datetime",
    ]
    decisions = [event for event in imputer.events_ if event.about == "kind"]
    assert decisions == [
        Event("kind", c.name, 1, f"column {c.name!r} is {c.kind.label}: {c.reason}")
        for c in imputer.schema_.columns
    ]


@every_frame
def test_imputed_cells_are_possible_values(name):
    _, _, completed = completed_of(name)
    holes = holes_of(name)
    columns = dict(zip(COLUMNS, range(len(COLUMNS)), strict=True))
    filled = {
        column: [cells_of(completed, j)[i] for i in holes[j]] for column, j in columns.items()
    }
    assert all(np.isfinite(float(x)) for x in filled["score"])
    assert all(x > 0 for x in filled["size"])
    assert all(x == int(x) and x >= 1 for x in filled["number"])
    for column, levels in LEVELS.items():
        assert set(filled[column]) <= levels
    for when in filled["when"]:
        instant = pd.Timestamp(when)
        utc = instant.tz_convert("UTC") if instant.tz else instant
        # Paris midnights are whole hours of UTC; the others were written as whole days.
        coarse = "h" if str(instant.tz) == "Europe/Paris" else "D"
        assert utc == utc.floor(coarse)


def test_the_same_cells_in_another_library_get_the_same_values():
    """To the bit, if the cells are the same: float64, and text in alphabetical order."""
    _, _, reference = completed_of("numpy, objects")
    others = [
        pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in COLUMNS.items()}),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS),
    ]
    for frame in others:
        completed = make(column_kinds=ORDERED).fit_transform(frame)
        assert type(completed) is type(frame)
        for j in range(len(COLUMNS)):
            assert cells_of(completed, j) == cells_of(reference, j)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_keep_their_precision(dtype):
    x = numbers().to_numpy(dtype=dtype)
    before = x.copy()
    out = make().fit_transform(x)
    assert type(out) is np.ndarray
    assert out.dtype == dtype
    assert out.shape == x.shape
    assert same_bits(x, before)
    assert same_bits(out[~np.isnan(x)], x[~np.isnan(x)])
    assert np.isfinite(out).all()


def test_categories_that_a_few_rows_lack_are_added_whichever_is_imputed(words):
    _, imputer = words
    for cells, x in (([None, "b"], [8.0, 1.0]), ([None, "b"], [0.0, 1.0]), ([None], [8.0])):
        new = pd.DataFrame({"word": pd.Series(cells, dtype="category"), "x": x})
        completed = imputer.transform(new)["word"]
        declared = new["word"].cat.categories.tolist()
        added = [level for level in ("a", "b", "c") if level not in declared]
        assert completed.cat.categories.tolist() == declared + added
        assert completed.iloc[0] == ("c" if x[0] == 8.0 else "a")


def test_a_category_without_a_place_in_the_order_is_named(words):
    _, imputer = words
    declared = pd.CategoricalDtype(["a", "b"], ordered=True)
    new = pd.DataFrame({"word": pd.Series([None], dtype=declared), "x": [8.0]})
    with pytest.raises(DataError, match="'c' is not among the categories of column 'word'"):
        imputer.transform(new)


@pytest.mark.parametrize(
    "row",
    [
        pd.DataFrame([{"word": float("nan"), "x": 8.0}]),
        pd.DataFrame([{"word": None, "x": 8.0}]),
        pl.DataFrame([{"word": None, "x": 8.0}]),
        pa.table({"word": pa.nulls(1), "x": [8.0]}),
    ],
    ids=["floats", "objects", "polars", "pyarrow"],
)
def test_a_row_without_a_word_is_completed_whatever_its_type(words, row):
    imputer = copy.deepcopy(words[1])
    assert list(imputer.transform(row)["word"]) in (["c"], [pa.scalar("c")])
    said = [(event.column, event.count) for event in imputer.events_ if event.about == "type"]
    assert said == [("word", 1)]


def test_words_are_not_added_to_categories_that_are_numbers(words):
    _, imputer = words
    new = pd.DataFrame({"word": pd.Categorical([1, None]), "x": [4.0, 8.0]})
    with pytest.warns(DataWarning), pytest.raises(DataError, match="'c' is not among the categor"):
        imputer.transform(new)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_numbers_and_times_without_a_type_are_completed(library):
    days = pd.Series(pd.date_range("2024-01-01", periods=40, freq="D"))
    frame = pd.DataFrame({"t": days.where(days.index % 4 > 0), "x": np.arange(40.0) ** 1.1})
    imputer = make().fit(frame)
    row = {
        "pandas": pd.DataFrame({"t": [None], "x": [None]}),
        "polars": pl.DataFrame({"t": [None], "x": [None]}),
        "pyarrow": pa.table({"t": pa.nulls(1), "x": pa.nulls(1)}),
    }[library]
    completed = imputer.transform(row)
    frame_out = completed if library == "pandas" else completed.to_pandas()
    assert frame_out.notna().all(axis=None)
    assert abs((frame_out["t"].iloc[0] - days.mean()).days) < 10


def test_what_a_masked_array_masks_is_missing():
    rows = np.array([[1, 2], [-999, 4], [5, 6]] * 20)
    completed = make().fit_transform(np.ma.masked_equal(rows, -999))
    plain = make().fit_transform(np.where(rows == -999, np.nan, rows))
    assert np.array_equal(completed, plain)


def test_flags_in_a_column_of_nothing_are_flags():
    flag = [True, False, None, True, False]
    imputer = make().fit(pd.DataFrame({"flag": flag, "x": [1.0, 2.0, 2.5, 3.0, 4.0]}))
    completed = imputer.transform(pd.DataFrame({"flag": [None], "x": [2.0]}))
    assert isinstance(completed["flag"].tolist()[0], bool)
