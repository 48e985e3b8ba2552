"""Times: as coarse as the observed ones, of one sort, within the day."""

import datetime

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from columns.cases import column_of, schema_of
from miwae.columns import infer_schema
from miwae.errors import DataError
from miwae.frames import columns

RNG = np.random.default_rng(0)
DAY = 86400
seconds = st.lists(st.integers(-(10**9), 2 * 10**9), min_size=2, max_size=30)


@settings(max_examples=50, deadline=None)
@given(seconds, st.sampled_from([DAY, 3600, 60, 1]), st.sampled_from([0, 1800, -7200, 17]))
def test_times_come_back_as_coarse_as_they_were(values, unit, phase):
    """Also if all are as far beyond a whole day or hour: midnight somewhere, half past eight."""
    values = [value // unit * unit + phase for value in values]
    column = column_of(values, "datetime64[s]")
    kind = schema_of(column).kind
    if not kind.modelled:
        return  # a constant
    y = kind.encoded(column).values.astype(np.float32).astype(float)
    cells = kind.decoded(y)
    assert kind.step >= unit
    np.testing.assert_array_equal((cells - values[0]) % kind.step, 0)
    # 2^-24 of some standard deviations, stretched: at most a step away where steps are days.
    slope = np.exp(-kind.scale.log_slope(column.values))
    error = np.abs(cells - column.values)
    assert np.all(error <= kind.step / 2 + 2.0**-22 * (np.abs(y) + 1) * slope + 1)


@pytest.mark.parametrize(
    ("times", "step"),
    [
        (["2020-01-01", "1850-06-01"], DAY),
        (["2020-01-01 05:00", "2020-06-01"], 3600),
        (["2020-01-01 05:30:01.123456", "2020-06-01"], 0),
        (["2020-01-01 00:00:00.050", "2020-06-01 00:00:00.010"], 1e-3),
    ],
)
@pytest.mark.parametrize("kind", [None, "datetime", "continuous"])
def test_imputed_times_are_as_coarse_as_the_observed(times, step, kind):
    assert schema_of(times, kind, dtype="datetime64[us]").kind.step == step


def test_imputed_days_are_days():
    days = pd.to_datetime(["2020-01-01", "2021-05-05", "1969-12-31"])
    cells = schema_of(days).kind.decoded(np.linspace(-3, 3, 301))
    assert np.all(cells % DAY == 0)
    assert len(np.unique(cells)) > 100


def test_short_durations_are_not_rounded_away():
    assert schema_of([100, 250], dtype="timedelta64[ns]").kind.step == 0
    assert schema_of([DAY, 0, 3600], dtype="timedelta64[s]").kind.step == 3600


def test_instants_have_no_logarithm():
    """1970 is a convention: days in its January are not close to nothing, but short spans are."""
    spans = DAY * np.ceil(np.exp(RNG.normal(3, 2, size=400)))
    known = schema_of(spans.astype("datetime64[s]"))
    assert known.kind.label == "datetime"
    assert known.reason == "stored as times; modelled on an inverse hyperbolic sine scale"
    durations = schema_of(spans.astype("timedelta64[s]"))
    assert durations.reason == "stored as durations; modelled on a logarithmic scale"
    assert schema_of(spans).reason.endswith("; modelled on a logarithmic scale")


def test_dates_of_birth_with_a_date_before_1970():
    frame = pl.DataFrame({"born": [datetime.date(1931, 5, 1), None, datetime.date(2004, 2, 29)]})
    (known,) = infer_schema(columns(frame)).columns
    assert (known.kind.label, known.kind.step) == ("datetime", DAY)
    assert known.kind.limits == (-np.inf, np.inf)


@pytest.mark.parametrize(
    ("times", "ends"),
    [
        ([datetime.time(0, 10), datetime.time(23, 50)], ["00:00:00", "23:59:00"]),
        ([datetime.time(0, 30), datetime.time(22, 30)], ["00:30:00", "23:30:00"]),
        ([datetime.time(0, 0, 1), datetime.time(23, 59)], ["00:00:00", "23:59:59"]),
    ],
)
def test_times_of_day_stay_within_the_day_and_in_their_steps(times, ends):
    cells = schema_of(times, dtype=object).kind.decoded(np.array([-50.0, 50.0]))
    assert [str(datetime.timedelta(seconds=s)).zfill(8) for s in cells] == ends


def test_durations_do_not_become_negative_where_none_was():
    low = np.array([-50.0])
    assert schema_of([60, 600, 6000], dtype="timedelta64[s]").kind.decoded(low)[0] >= 0
    assert schema_of([-60, 600, 6000], dtype="timedelta64[s]").kind.decoded(low)[0] < -60


# One sort of times is not another.

INSTANTS = [datetime.datetime(2020, 1, 1), datetime.datetime(2020, 3, 1, 12), None]
SPANS = [datetime.timedelta(hours=30), datetime.timedelta(hours=2), None]
CLOCKS = [datetime.time(8, 15), datetime.time(23, 59), None]
SORTS = {
    "instants": (
        pd.Series(INSTANTS, dtype="datetime64[s]"),
        pd.Series(INSTANTS, dtype=object),
        pl.Series(INSTANTS, dtype=pl.Datetime("ms")),
        pa.array(INSTANTS, pa.timestamp("us", "Europe/Paris")),
        pa.array(INSTANTS, pa.date32()),
        np.array(INSTANTS, "datetime64[s]"),
    ),
    "durations": (
        pd.Series(SPANS, dtype="timedelta64[s]"),
        pd.Series(SPANS, dtype=object),
        pl.Series(SPANS, dtype=pl.Duration("us")),
        pa.array(SPANS, pa.duration("ms")),
        np.array(SPANS, "timedelta64[s]"),
    ),
    "times of day": (
        pd.Series(CLOCKS, dtype=object),
        pl.Series(CLOCKS, dtype=pl.Time),
        pa.array(CLOCKS, pa.time32("s")),
    ),
}
ALL_SORTS = [(sort, cells) for sort, several in SORTS.items() for cells in several]


def column_of_any(cells):
    """A column of the library that its cells are of."""
    if isinstance(cells, np.ndarray):
        return columns(cells[:, None])[0]
    library = {pd.Series: pd.DataFrame, pl.Series: pl.DataFrame}.get(type(cells), pa.table)
    return columns(library({"x0": cells}))[0]


@pytest.mark.parametrize(("before", "cells"), ALL_SORTS)
def test_one_sort_of_times_is_not_taken_for_another(before, cells):
    (known,) = infer_schema([column_of_any(cells)]).columns
    for now, others in ALL_SORTS:
        column = column_of_any(others)
        if now == before:
            assert known.encoded(column).seen.tolist() == [True, True, False]
            continue
        with pytest.raises(DataError) as raised:
            known.encoded(column)
        assert str(raised.value).startswith(
            f"column 'x0' was learned as datetime from {before}, but now holds {now} "
            f"({column.dtype}), such as "
        )
        assert str(raised.value).endswith(f" in row 0: convert it to {before}, or fit again")


@pytest.mark.parametrize(
    ("cells", "shown"),
    [(INSTANTS, "2020-01-01 00:00:00"), (SPANS, "1 day, 6:00:00"), (CLOCKS, "8:15:00")],
)
def test_times_that_are_refused_are_shown_as_people_write_them(cells, shown):
    with pytest.raises(DataError, match=f"such as {shown} in row 0: convert it$"):
        schema_of([1.5, 2.5]).encoded(column_of(cells, object))
