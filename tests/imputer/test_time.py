"""Instants, durations and times of day."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from imputer.tables import make
from miwae.errors import DataError


@pytest.mark.parametrize("dtype", ["Float64", "boolean", "timedelta64[ns]"])
def test_times_are_not_filled_into_a_column_of_another_type(dtype):
    when = pd.to_datetime(["2024-01-01", "2024-01-05", None, "2024-01-09"])
    imputer = make().fit(pd.DataFrame({"when": when, "x": [1.0, 2.0, 2.5, 3.0]}))
    with pytest.raises(DataError, match="'when' was learned as datetime.*convert it to instants"):
        imputer.transform(pd.DataFrame({"when": pd.Series([None], dtype=dtype), "x": [2.0]}))
    for nothing in (pd.NaT, None, np.nan):
        completed = imputer.transform(pd.DataFrame({"when": [nothing], "x": [2.0]}))
        assert completed["when"].dt.year.tolist() == [2024]


DAYS_AND_SPANS = {
    "datetime64[s]": [1704067200, 1704412800, None, 1704758400],
    "timedelta64[s]": [3600, 7200, None, 10800],
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy"])
@pytest.mark.parametrize("learned", DAYS_AND_SPANS)
def test_durations_are_not_filled_with_instants_nor_instants_with_durations(learned, library):
    frames = {
        dtype: pd.DataFrame({"t": pd.Series(ticks, dtype=dtype), "x": [1.0, 2.0, 2.5, 3.0]})
        for dtype, ticks in DAYS_AND_SPANS.items()
    }
    convert = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "pyarrow": pa.Table.from_pandas,
        "numpy": lambda frame: frame[["t"]].to_numpy(),
    }[library]
    other = next(dtype for dtype in DAYS_AND_SPANS if dtype != learned)
    imputer = make().fit(convert(frames[learned]))
    with pytest.raises(DataError, match="column '(t|x0)' was learned as datetime from .* or fit"):
        imputer.transform(convert(frames[other]))
    # Also where no cell tells what they are.
    with pytest.raises(DataError, match="is of type .* here: convert it to .* or fit again"):
        imputer.transform(convert(frames[other].iloc[[2]]))
    imputer.transform(convert(frames[learned].iloc[[2]]))


@pytest.mark.parametrize(
    "cells",
    [
        [
            datetime.timedelta(hours=1),
            datetime.timedelta(hours=2),
            None,
            datetime.timedelta(days=1),
        ],
        [datetime.time(8, 15), datetime.time(9), None, datetime.time(23, 5)],
    ],
)
def test_objects_of_times_are_completed_in_a_row_of_its_own(cells):
    frame = pd.DataFrame({"t": pd.Series(cells, dtype=object), "x": [1.0, 2.0, 2.5, 3.0]})
    imputer = make().fit(frame)
    (alone,), together = imputer.transform(frame.iloc[[2]])["t"], imputer.transform(frame)["t"]
    assert type(alone) is type(cells[0])
    assert alone == together.iloc[2]


def test_numbers_are_not_filled_into_a_column_of_times():
    imputer = make().fit(pd.DataFrame({"n": [3.5, 1.0, 2.5], "x": [1.0, 2.0, 2.5]}))
    with pytest.raises(DataError, match="'n' was learned as positive from number, but is of type"):
        imputer.transform(pd.DataFrame({"n": pd.to_datetime([None]), "x": [2.0]}))
