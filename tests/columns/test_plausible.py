from dataclasses import replace

import numpy as np
import pytest

from columns.cases import column_of, schema_of
from miwae.columns._plausible import EVERYTHING, plausible_range

RNG = np.random.default_rng(7)
NORMAL = RNG.normal(50.0, 10.0, 120)

# Columns as they are, in which nothing is impossible.
USUAL = {
    "normal": NORMAL,
    "incomes": RNG.lognormal(10.0, 1.0, 1000),
    "a wide lognormal": RNG.lognormal(0.0, 3.0, 500),
    "Cauchy": RNG.standard_cauchy(500),
    "Pareto": RNG.pareto(1.0, 500),
    "many zeros": np.where(RNG.random(500) < 0.9, 0.0, RNG.lognormal(6.0, 2.0, 500)),
    "counts": RNG.negative_binomial(0.2, 0.02, 500).astype(float),
    "one rare value": np.append(np.zeros(200), [1e9]),
    "two groups": np.append(NORMAL, 1e6 * NORMAL[:10]),
    "few": np.array([1.0, 2.0, 3.0, 1e300]),
    "rounding errors": np.append(np.repeat([0.3, 0.1 + 0.2], 100), [0.5]),
    "all sizes": np.array([-1.7e308, 1.7e308, 5e-324, 0.0] * 20),
}


@pytest.mark.parametrize("name", USUAL)
def test_usual_columns_have_no_impossible_values(name):
    x = USUAL[name]
    low, high = plausible_range(x)
    assert low <= x.min()
    assert x.max() <= high


@pytest.mark.parametrize("value", [1e12, -1e12, 1e300, -1.7e308])
@pytest.mark.parametrize("name", ["normal", "incomes"])
def test_a_value_far_beyond_all_others_is_impossible(name, value):
    low, high = plausible_range(np.append(USUAL[name], [value]))
    assert not low <= value <= high
    # The limits do not know how wild it is.
    assert plausible_range(np.append(USUAL[name], [value / 10])) == (low, high)


@pytest.mark.parametrize("wild", [[1e12, 1e12], [1e8, -1e8, 1e15], [1e6, 1e300, -1e300, 1e9]])
def test_a_few_values_far_beyond_all_others_are_impossible(wild):
    low, high = plausible_range(np.append(NORMAL[:96], wild))
    assert -1e4 < low < NORMAL.min()
    assert NORMAL.max() < high < 1e4


def test_a_limit_does_not_depend_on_units_or_the_order_of_rows():
    x = np.append(NORMAL, [1e9])
    low, high = plausible_range(x)
    assert plausible_range(x[::-1]) == (low, high)
    assert plausible_range(1024.0 * x) == pytest.approx((1024 * low, 1024 * high))


def test_power_laws_are_cut_as_seldom_as_intended():
    n = sum(_is_cut(RNG.pareto(0.7, 100)) for _ in range(2000))
    assert n <= 3  # 0.2 expected


def _is_cut(x) -> bool:
    low, high = plausible_range(x)
    return bool(((x < low) | (x > high)).any())


def test_kinds_limits_and_scales_are_those_of_the_rest():
    usual = schema_of(NORMAL)
    wild = schema_of(np.append(NORMAL, [-1e300]))
    assert (wild.kind, wild.reason) == (usual.kind, usual.reason)
    whole = np.rint(np.append(NORMAL, 60.0))
    assert schema_of(np.append(whole, [0.5e12 + 0.5])).kind == schema_of(whole).kind
    answers = np.repeat([1.0, 2.0, 3.0], 40)
    assert schema_of(np.append(answers, [99999.0])).kind == schema_of(answers).kind
    shares = schema_of(np.append(RNG.random(100), [5e9]))
    assert shares.kind.upper == 1.0


def test_dates_of_the_year_9999_are_impossible_among_others():
    days = np.datetime64("2020-01-01", "s") + RNG.integers(0, 365, 100) * np.timedelta64(
        86400, "s"
    )
    known = schema_of(np.append(days, [np.datetime64("9999-12-31", "s")]))
    assert known.kind == schema_of(days).kind


def test_an_event_names_row_and_value():
    x = np.append(NORMAL, [1e300, 51.0])
    result = schema_of(x).encoded(column_of(x))
    (event,) = result.events
    assert (event.about, event.column, event.count) == ("value", "a", 1)
    assert "the value 1e+300 in row 120 is impossible" in event.text
    assert result.seen.tolist() == [True] * 120 + [False, True]
    in_file = replace(column_of(x), place=lambda row: f"line {row + 2}")
    (event,) = schema_of(x).encoded(in_file).events
    assert "in line 122 is impossible" in event.text


def test_new_rows_are_judged_by_those_that_were_fitted():
    known = schema_of(NORMAL)
    result = known.encoded(column_of([50.0, 1e15, 90.0]))
    assert result.seen.tolist() == [True, False, True]


def test_what_the_user_says_is_possible():
    x = np.append(NORMAL, [1e6])
    assert schema_of(x, bounds=(0.0, 1e7)).encoded(column_of(x)).seen.all()
    assert schema_of(x, bounds=(0.0, None)).encoded(column_of(x)).seen.sum() == 120
    codes = np.append(np.repeat([1.0, 2.0], 50), [999999.0])
    assert schema_of(codes, kind="categorical").kind.levels[-1] == 999999
    assert schema_of(codes, kind="categorical").plausible == EVERYTHING
