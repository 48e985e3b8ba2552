"""Times as integers of a unit: no digit is lost on the way to seconds and back."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miwae.columns import PER_SECOND, SECONDS_PER, tick_column, ticks_of, ticks_of_day

# float64 has 15 digits: seconds of this century in microseconds, of a day in nanoseconds.
EXACT = {"W": 10**5, "D": 10**6, "h": 10**7, "m": 10**9, "s": 10**12, "ms": 10**14, "us": 10**15}


def seconds(ticks, unit, missing_values=()):
    missing = np.zeros(len(ticks), bool)
    return tick_column(
        "a", ticks, missing, missing_values, unit=unit, storage="time", dtype="datetime64"
    )


@settings(max_examples=100, deadline=None)
@given(st.sampled_from(sorted(EXACT)), st.data())
def test_ticks_come_back(unit, data):
    ticks = data.draw(st.lists(st.integers(-EXACT[unit], EXACT[unit]), min_size=1, max_size=9))
    column = seconds(np.array(ticks), unit)
    assert ticks_of(column.values, unit).tolist() == ticks


@pytest.mark.parametrize("unit", [*PER_SECOND, *SECONDS_PER])
def test_a_tick_is_so_many_seconds(unit):
    per_tick = SECONDS_PER.get(unit) or 1 / PER_SECOND[unit]
    assert seconds(np.array([0, 1, -1]), unit).values.tolist() == pytest.approx(
        [0, per_tick, -per_tick]
    )


@pytest.mark.parametrize("unit", [*PER_SECOND, *SECONDS_PER])
def test_times_beyond_the_type_are_its_last(unit):
    low, high = ticks_of(np.array([-1e30, 1e30]), unit).tolist()
    assert low < 0 < high < 2**63
    assert low == pytest.approx(-high)


def test_times_of_day_end_before_midnight():
    assert ticks_of_day(np.array([-5.0, 0.4, 86_400.0]), "s").tolist() == [0, 0, 86_399]
    assert ticks_of_day(np.array([86_400.0]), "us").tolist() == [86_400 * 10**6 - 1]


def test_instants_that_count_as_missing():
    column = seconds(np.array([0, 1, 2]), "D", (np.datetime64("1970-01-02"), 2))
    assert column.missing.tolist() == [False, True, False]
