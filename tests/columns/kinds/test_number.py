"""Numbers: their limits, their scales, and the values that the model cannot use."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from columns.cases import NAN, codes, column_of, exactly, not_usable, schema_of
from miwae.columns import Scale
from miwae.columns._scales import choose_scale
from miwae.columns.kinds import Number
from miwae.errors import DataError

numbers = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=30)
integers = st.lists(st.integers(-1000, 1000), min_size=2, max_size=30)
LOGNORMAL = np.exp(np.random.default_rng(0).normal(size=200))


def come_back(values, dtype, kind):
    """The kind, and the observed cells as they come back from single precision."""
    column = column_of([*values, None], dtype)
    known = schema_of(column, kind).kind
    if not known.modelled:
        return known, None
    y = known.encoded(column).values[:-1].astype(np.float32)
    return known, known.decoded(y.astype(np.float64))


@settings(max_examples=50, deadline=None)
@given(numbers, st.sampled_from([None, "continuous"]))
def test_numbers_come_back(values, kind):
    known, cells = come_back(values, "float64", kind)
    if not isinstance(known, Number):
        assert cells is None or cells.tolist() == values
        return
    # The model computes in float32: 2^-24 of the standardised value, stretched by dx/dy.
    x = np.array(values)
    y = known.scale.forward(x)
    slack = 2.0**-23 * (np.abs(y) + 1e-3) * np.exp(-known.scale.log_slope(x))
    whole = 0.5 if known.whole else 0.0
    np.testing.assert_array_less(np.abs(cells - x), 1.01 * slack + whole + 1e-9 + 1e-15 * abs(x))


@settings(max_examples=50, deadline=None)
@given(st.sampled_from(["integer", None]), integers)
def test_integers_come_back_exactly(kind, values):
    _, cells = come_back(values, "Int64", kind)
    assert cells is None or cells.tolist() == values


@pytest.mark.parametrize(
    ("values", "kind", "bounds", "limits"),
    [
        ([-1.5, 2.5], None, None, (None, None)),
        ([0.5, 3.0, 1.25], None, None, (0.25, None)),
        ([0, 0.5, 1], None, None, (0, 1)),
        ([0, 0.5, 0.9], None, None, (0, 1)),
        ([0.2, 0.5, 1], None, None, (0.1, 1)),
        ([0.2, 0.5, 0.9], None, None, (0.1, 1)),  # shares, perhaps
        ([0.2, 0.5, 1.1], None, None, (0.1, None)),
        ([0.02, 0.03, 0.05], None, None, (0.01, None)),
        ([-0.2, 0.5, 0.9], None, None, (None, None)),
        ([0.2, 0.5, 0.9], "continuous", None, (None, None)),
        ([0.2, 0.5, 0.9], None, (0, None), (0, None)),
        ([0, 0.5, 100], None, None, (0, 100)),
        ([0, 0.5, 99], None, None, (0, None)),
        ([0, 0, 0, 9], None, None, (0, None)),
        ([5, 8, 9], None, None, (1, None)),
        ([0, 8, 9, 10, 11], None, None, (0, None)),
        ([-5, 8, 9], None, None, (None, None)),
        ([1, 2, 3] * 20, None, None, (1, 3)),  # a scale, or codes
        ([1, 2, 3] * 19, None, None, (1, None)),
        ([-2, 0, 1, 2] * 20, None, None, (-2, 2)),
        ([-2, 0, 1, 2] * 20, None, (None, 5), (None, 5)),
        ([0, *range(30, 60), 100], None, None, (0, 100)),
        ([0.5, 3.0, 1.25], None, (0, 4), (0, 4)),
        ([0.5, 3.0, 1.25], None, (None, 4), (None, 4)),
        ([0.5, 3.0, 1.25], None, (0.5, None), (0.5, None)),
        ([5, 8, 9], None, (None, 10), (None, 10)),
        ([5, 8, 9], None, (2, None), (2, None)),
        ([0, 0.5, 1], None, (0, None), (0, None)),
        ([5, 8, 9], "count", (None, 10), (0, 10)),
        ([0.5, 3.0], "positive", (None, 10), (0.25, 10)),
        ([0.5, 3.0], "continuous", None, (None, None)),
        ([0.5, 3.0], "continuous", (0, None), (0, None)),
        ([0.25, 3.0], "bounded", None, (0, None)),
        ([0.5, 3.0], None, (-np.inf, np.inf), (-np.inf, np.inf)),
    ],
)
def test_limits(values, kind, bounds, limits):
    known = schema_of(values, kind, bounds).kind
    assert (known.lower, known.upper) == limits
    low, high = limits
    assert known.limits == (-np.inf if low is None else low, np.inf if high is None else high)


def test_a_limit_of_shares_changes_nothing_but_the_limit():
    x = np.random.default_rng(0).uniform(0.1, 0.95, 200)
    shares, lengths = schema_of(x), schema_of(2 * x)
    assert (shares.kind.label, lengths.kind.label) == ("positive", "positive")
    assert shares.reason.endswith("; none is above 1")
    assert "above 1" not in lengths.reason
    assert shares.kind.scale == choose_scale(x)


@pytest.mark.parametrize(
    ("values", "kind", "bounds", "low", "high", "whole"),
    [
        ([0.5, 3.0, 1.25], None, (0.4, 3.1), 0.4, 3.1, False),
        ([0.0, 0.3, 1.0], None, None, 0.0, 1.0, False),
        ([0.0, 33.3, 100.0], None, None, 0.0, 100.0, False),
        ([1, 5, 9], None, (0.5, 9.9), 1, 9, True),
        ([1, 5, 9], None, None, 1, 13, True),
        ([0, 0, 0, 9], "count", (None, 9.5), 0, 9, True),
        ([0.5, 3.0], "positive", None, 0.25, 1e9, False),
        ([1, 5, 9], "positive", None, 1, 13, True),
        ([-3, 5, 9], "continuous", None, -9, 15, True),
    ],
)
def test_numbers_stay_in_their_limits(values, kind, bounds, low, high, whole):
    cells = schema_of(values, kind, bounds).kind.decoded(np.linspace(-50, 50, 1001))
    assert low <= cells.min() <= cells.max() <= high
    if bounds is not None and kind is None:
        assert (cells.min(), cells.max()) == (low, high)  # which are reached
    assert np.all(cells == np.rint(cells)) == whole


def test_whole_numbers():
    def whole(values, kind=None):
        return schema_of(values, kind).kind.whole

    assert whole([1, 2, 9])
    assert whole([1.0, 2.0, 9.0])  # integers with missing values are stored so
    assert whole([1, 2, 9], "continuous")  # the column cannot hold others
    assert not whole([1.0, 2.0, 9.0], "continuous")
    assert not whole([1e17, 3e18, 2e20])


def test_decoding_is_the_inverse_of_the_scale():
    scale = Scale(shape="asinh", shift=2.0, unit=3.0, centre=0.5, spread=2.0)
    y = np.linspace(-2, 2, 9)
    cells = Number(label="continuous", scale=scale).decoded(y)
    np.testing.assert_allclose(cells, 2 + 3 * np.sinh(0.5 + 2 * y), rtol=1e-15)


# What the model cannot use.


def test_numbers_without_a_logarithm():
    known = schema_of(LOGNORMAL)
    assert known.kind.scale.shape == "log"
    column = column_of([0.0, 1.0, NAN, -12.5])
    result = known.encoded(column)
    assert result.seen.tolist() == [False, True, False, False]
    assert result.events == (not_usable("0", "is not above 0", 2),)
    assert result.log_slope is not None
    assert result.log_slope.tolist() == known.kind.scale.log_slope(np.ones(1)).tolist()


@pytest.mark.parametrize("label", ["bounded", "positive", "integer", "count"])
def test_numbers_outside_the_given_bounds(label):
    known = schema_of([1, 2, 4, 9], label, (0, 10))
    result = known.encoded(column_of([10.0, 11.0, NAN, -1.0, 10.000001]))
    assert result.seen.tolist() == [True, False, False, False, label != "count"]
    assert result.events[0] == not_usable("11", "is outside its bounds (0.0, 10.0)", 2)
    assert len(result.events) == 1 + (label == "count")  # of which 10.000001 is none


def test_a_number_below_its_bounds_is_one_event_also_on_a_logarithmic_scale():
    known = schema_of(LOGNORMAL, bounds=(0, None))
    assert known.kind.scale.shape == "log"
    below = not_usable("-1", "is outside its bounds (0.0, None)")
    assert codes(known, [-1.0])[1] == (below,)
    assert codes(known, [0.0])[1] == (not_usable("0", "is not above 0"),)


def test_limits_that_nobody_gave_are_no_bounds():
    for values in ([0.0, 0.5, 1.0], [0.5, 2.0, 3.0], [1, 2, 3] * 100):
        known = schema_of(values)
        assert known.kind.lower is not None
        assert all(known.encoded(column_of([0.01, 20.0])).seen)


def test_numbers_far_out_stay_numbers_of_float32():
    result = schema_of([-0.5, 1.5, 2.0]).encoded(column_of([1e300, -1e300, 1.7e308, 5.0]))
    y = result.values.astype(np.float32)
    assert np.isfinite(y**2).all()
    assert np.sign(y).tolist() == [1, -1, 1, 1]
    assert y[0] > 1e6 > y[3]
    assert np.isfinite(result.log_slope).all()


@pytest.mark.parametrize("kind", [None, "continuous", "count", "categorical"])
@pytest.mark.parametrize("value", [np.inf, -np.inf])
def test_infinite_numbers_are_refused_by_row(kind, value):
    message = (
        f"column 'a' has the value {value} in row 1: only finite numbers can be modelled; "
        "correct it, or mark it as missing"
    )
    with pytest.raises(DataError, match=exactly(message)):
        schema_of([0, 3, 7], kind).encoded(column_of([NAN, value, value]))
