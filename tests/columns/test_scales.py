"""Scales: exact inverses, the likelihood that chooses them, numbers at the limits of float64."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miwae.columns._scales import WIDENED, Scale, choose_scale

EPS = np.finfo(np.float64).eps

RNG = np.random.default_rng(0)
NORMAL = RNG.normal(size=2000)
SHARES_OF_ZERO = RNG.random(2000)

DATA = {
    "normal": NORMAL,
    "uniform": RNG.random(2000),
    "lognormal": np.exp(NORMAL),
    "cauchy": RNG.standard_cauchy(2000),
    "zero_inflated": np.where(SHARES_OF_ZERO < 0.4, 0.0, np.exp(NORMAL)),
    "mostly_zero": np.where(SHARES_OF_ZERO < 0.8, 0.0, np.exp(2 * NORMAL)),
    "negative_skew": -np.exp(NORMAL),
    "two_values": np.array([3.0, 7.0, 7.0, 3.0, 7.0]),
    "huge": 1e300 * NORMAL,
    "huge_positive": 1e300 * np.exp(NORMAL),
    "minute": 1e-200 * NORMAL,
    "integers": np.arange(100.0),
    "beyond_2_53": 2.0**53 + 2.0 * np.arange(1000),
    "one_wild": np.append(NORMAL, 1e9),
}
every_column = pytest.mark.parametrize("x", DATA.values(), ids=DATA)

parameters = st.fixed_dictionaries(
    {
        "shape": st.sampled_from(["identity", "log", "asinh"]),
        "shift": st.floats(-100, 100),
        "unit": st.floats(0.01, 100),
        "centre": st.floats(-10, 10),
        "spread": st.floats(0.1, 10),
    }
)
values = st.lists(st.floats(0.001, 1e6), min_size=1, max_size=20, unique=True).map(np.array)


def signed(scale, x):
    """Also negative numbers, where the scale has them."""
    return x if scale.shape == "log" else np.concatenate([-x, x])


@settings(max_examples=200, deadline=None)
@given(parameters, values)
def test_the_inverse_is_exact_to_rounding(parameters, x):
    scale = Scale(**parameters)
    x = signed(scale, x)
    back = scale.inverse(scale.forward(x))
    # What is rounded is g(x), of a size up to |g(x)| + |centre|, and is stretched by dx/dg.
    g = dataclasses.replace(scale, centre=0.0, spread=1.0).forward
    shaped = np.abs(g(x)) + abs(scale.centre)
    stretch = np.exp(-scale.log_slope(x)) / scale.spread
    size = np.abs(x) + abs(scale.shift) + shaped * stretch
    assert np.all(np.abs(back - x) <= 8 * EPS * size)


@settings(max_examples=200, deadline=None)
@given(parameters, values)
def test_scales_are_monotone(parameters, x):
    scale = Scale(**parameters)
    x = np.sort(signed(scale, x))
    assert np.all(np.diff(scale.forward(x)) >= 0)
    apart = np.diff(x) > 1e-9 * (np.abs(x[1:]) + abs(scale.shift))
    assert np.all(np.diff(scale.forward(x))[apart] > 0)


@settings(max_examples=200, deadline=None)
@given(parameters, values)
def test_log_slope_is_the_log_of_the_derivative(parameters, x):
    scale = Scale(**parameters)
    x = signed(scale, x)
    # Central differences: the error is of second order in a step small against all lengths.
    step = 1e-4 * (scale.unit if scale.shape == "asinh" else np.abs(x))
    slope = (scale.forward(x + step) - scale.forward(x - step)) / ((x + step) - (x - step))
    rounding = 1e3 * EPS * (np.abs(x) + 100 + 10) / step
    np.testing.assert_array_less(np.abs(np.log(slope) - scale.log_slope(x)), 1e-6 + 20 * rounding)


@every_column
def test_a_chosen_scale_is_standardised_and_inverted(x):
    scale = choose_scale(x)
    y = scale.forward(x)
    # A mean of numbers beyond 2^53 is rounded to even numbers, of which there are 289 in an sd.
    tolerance = 2e-3 if x.min() >= 2**53 else 1e-12
    assert abs(y.mean()) < tolerance
    assert abs(y.std() - 1) < tolerance
    reach = np.abs(x).max() if scale.shape != "log" else x * np.abs(np.log(x)).max()
    assert np.all(np.abs(scale.inverse(y) - x) <= 16 * EPS * reach)


@every_column
def test_the_choice_has_the_largest_likelihood_of_a_normal_distribution(x):
    """`log N(y | 0, 1) + log dy/dx` per cell: the choice beats the user's own scale, or is it."""
    scale = choose_scale(x)
    unit = np.abs(x).max()
    own = Scale(centre=unit * (x / unit).mean(), spread=unit * (x / unit).std())

    def log_likelihood(scale):
        return np.mean(-0.5 * scale.forward(x) ** 2 + scale.log_slope(x))

    gain = log_likelihood(scale) - log_likelihood(own)
    assert gain > 0.1 if scale.shape != "identity" else abs(gain) < 1e-9


@pytest.mark.parametrize(
    ("name", "shape"),
    [
        ("normal", "identity"),
        ("uniform", "identity"),
        ("lognormal", "log"),
        ("cauchy", "asinh"),
        ("zero_inflated", "asinh"),
        ("mostly_zero", "asinh"),
        ("negative_skew", "asinh"),
        ("huge", "identity"),
        ("huge_positive", "log"),
        ("minute", "identity"),
        ("integers", "identity"),
        ("beyond_2_53", "identity"),
        ("one_wild", "asinh"),
    ],
)
def test_the_choice(name, shape):
    assert choose_scale(DATA[name]).shape == shape


def test_zeros_are_where_the_scale_of_positive_numbers_with_zeros_starts():
    for name in ("zero_inflated", "mostly_zero"):
        x = DATA[name]
        scale = choose_scale(x)
        assert (scale.shift, scale.unit) == (0.0, np.median(x[x > 0]))


@pytest.mark.parametrize("factor", [1e-6, 0.5, 3.0, 1e6])
@every_column
def test_another_unit_changes_neither_the_choice_nor_the_result(x, factor):
    one, two = choose_scale(x), choose_scale(x * factor)
    assert one.shape == two.shape
    # Whole numbers beyond 2^53 are not whole in another unit: a 289th of their spread is lost.
    tolerance = 4e-3 if x.min() >= 2**53 else 1e-9
    np.testing.assert_allclose(two.forward(x * factor), one.forward(x), atol=tolerance)


@pytest.mark.parametrize("name", ["normal", "cauchy", "negative_skew", "one_wild"])
@pytest.mark.parametrize("shift", [-1e4, 17.0])
def test_another_origin_changes_neither_the_choice_nor_the_result(name, shift):
    x = DATA[name]
    one = choose_scale(x, has_zero=False)
    two = choose_scale(x + shift, has_zero=False)
    assert (one.shape, two.shape) == (choose_scale(x).shape, one.shape)
    np.testing.assert_allclose(two.forward(x + shift), one.forward(x), atol=1e-6)


@pytest.mark.parametrize("name", ["lognormal", "zero_inflated"])
def test_without_a_zero_no_scale_refers_to_it(name):
    x = DATA[name]
    scale = choose_scale(x, has_zero=False)
    assert (scale.shape, scale.shift) == ("asinh", np.median(x))


@every_column
def test_the_choice_does_not_depend_on_the_order_of_rows(x):
    shuffled = np.random.default_rng(1).permutation(x)
    assert choose_scale(shuffled) == choose_scale(x)  # bit for bit


@every_column
def test_values_far_out_are_drawn_back_to_the_widened_range(x):
    scale = choose_scale(x)
    margin = WIDENED * (x.max() - x.min())
    above = scale.forward(np.array([x.max() + margin]))[0]
    assert scale.highest == pytest.approx(above)
    if scale.shape == "log":
        y = scale.forward(x)
        assert scale.lowest == pytest.approx(y.min() - WIDENED * (y.max() - y.min()))
    else:
        below = scale.forward(np.array([x.min() - margin]))[0]
        assert scale.lowest == pytest.approx(below)
    far = scale.inverse(np.array([-1e30, 1e30, -np.inf, np.inf]))
    ends = scale.inverse(np.array([scale.lowest, scale.highest]))
    np.testing.assert_array_equal(far, np.tile(ends, 2))
    assert ends[0] < x.min() < x.max() < ends[1]
    assert np.isfinite(ends).all()


@pytest.mark.parametrize(
    "x",
    [
        np.array([-1.7e308, 0.0, 1.0, 1.7e308]),
        np.append(np.linspace(1, 2, 40), [1e300, 2e300]),
        np.append(1 + np.spacing(1.0) * np.arange(40), [1e300, 2e300]),
        np.append(np.zeros(9), [1e-300, 1e300]),
    ],
)
def test_the_largest_numbers_stay_numbers(x):
    scale = choose_scale(x)
    y = scale.forward(x)
    assert np.isfinite(y).all()
    assert np.isfinite(scale.log_slope(x)).all()
    assert np.isfinite(scale.inverse(np.array([-np.inf, np.inf]))).all()
    order = np.argsort(x)
    assert np.all(np.diff(y[order]) >= 0)


def test_a_spread_of_some_units_in_the_last_place_survives():
    ulp = np.spacing(1e6)
    x = 1e6 + ulp * np.random.default_rng(0).integers(0, 9, 200)
    scale = choose_scale(x)
    assert scale.shape == "identity"
    np.testing.assert_array_equal(scale.inverse(scale.forward(x)), x)
    assert scale.spread / ulp == pytest.approx(np.std((x - 1e6) / ulp))


@pytest.mark.parametrize("value", [0.0, 0.1, -3.0, 1e6 + 1e-12, 1e300])
@pytest.mark.parametrize("count", [1, 3, 10])
def test_equal_numbers_come_back_whatever_the_model_says(value, count):
    scale = choose_scale(np.full(count, value))
    assert dataclasses.astuple(scale) == ("identity", 0.0, 1.0, value, 1.0, 1.0, 0.0, 0.0)
    np.testing.assert_array_equal(scale.inverse(np.array([-5.0, 0.0, 5.0])), np.full(3, value))
