import numpy as np
import pytest
from scipy import stats

from miwae.columns import density_curve, level_shares, visible_range


def test_a_density_integrates_to_one_and_is_that_of_the_values():
    x = np.random.default_rng(0).normal(size=20_000)
    places, heights = density_curve(x, -5.0, 5.0)
    step = places[1] - places[0]
    assert (heights * step).sum() == pytest.approx(1, abs=1e-6)
    assert np.abs(heights - stats.norm.pdf(places)).max() < 0.03


def test_no_density_below_zero_is_lost_where_the_axis_ends():
    x = np.random.default_rng(0).exponential(size=5_000)
    low, high = visible_range(x)
    assert low == 0
    places, heights = density_curve(x[x <= high], low, high)
    assert (heights * (places[1] - places[0])).sum() == pytest.approx(1, abs=1e-6)
    assert heights[0] > 0.8  # e^0 is 1: nothing has leaked


def test_an_axis_has_no_room_for_one_extreme_value():
    x = np.append(np.random.default_rng(0).normal(size=999), 1e6)
    assert visible_range(x)[1] < 20
    assert visible_range(np.ones(3)) == (0.5, 1.5)


def test_shares_add_up_and_have_the_order_of_the_levels():
    observed = np.array(["b", "b", "a", "c"], object)
    shares = level_shares(observed, [np.array(["a", "b"], object), np.array(["c", "c"], object)])
    assert shares.levels[0] == "b"  # the most frequent
    assert shares.observed.sum() == pytest.approx(1)
    assert shares.imputed.sum(axis=1) == pytest.approx([1, 1])
    ordered = level_shares(observed, [], ("c", "b", "a"))
    assert ordered.observed.tolist() == [0.25, 0.5, 0.25]
    numbers = level_shares(np.array([3.0, 1.0]), [np.array([2.0])])
    assert numbers.levels == (1.0, 2.0, 3.0)
    assert numbers.imputed.tolist() == [[0, 1, 0]]
