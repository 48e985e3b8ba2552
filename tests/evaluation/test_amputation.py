import numpy as np
import pytest

from miwae.errors import DataError, SettingsError
from miwae.evaluation._amputation import KEPT, MECHANISMS, ampute


def table(n=4_000, p=8, seed=0):
    """Dependent numbers of different scales, and a column of codes."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((n, 2)) @ rng.standard_normal((2, p)) + rng.standard_normal((n, p))
    x[:, -1] = rng.integers(4, size=n)
    return x * 10.0 ** np.arange(p)


def hide(x, rate, mechanism, seed=0):
    return ampute(x, rate, mechanism, rng=np.random.default_rng(seed))


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.8])
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_rate_is_the_wanted_one_and_missing_cells_are_never_chosen(mechanism, rate):
    x = table()
    missing = np.random.default_rng(1).random(x.shape) < 0.3
    x[missing] = np.nan
    hidden = hide(x, rate, mechanism)
    assert not hidden[missing].any()
    n_observed = (~missing).sum()
    error = abs(hidden.sum() / n_observed - rate)
    assert error < (1 / n_observed if mechanism == "mcar-exact" else 4 * 0.5 / np.sqrt(n_observed))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_only_the_columns_that_are_to_lose_cells_do(mechanism):
    x, losing = table(), np.arange(8) % 4 == 1
    hidden = ampute(x, 0.4, mechanism, rng=np.random.default_rng(0), losing=losing)
    assert hidden.any(axis=0).tolist() == losing.tolist()
    assert abs(hidden[:, losing].mean() - 0.4) < 4 * 0.5 / np.sqrt(2 * len(x))


@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_the_generator_decides(mechanism):
    x = table(200)
    first, again, other = (hide(x, 0.4, mechanism, seed) for seed in (3, 3, 4))
    np.testing.assert_array_equal(first, again)
    assert (first != other).any()


def test_exact_hides_exactly_so_many_and_every_cell_equally_often():
    x = table(20, 5)
    total = sum(hide(x, 0.37, "mcar-exact", seed).astype(int) for seed in range(2_000))
    assert all(hide(x, 0.37, "mcar-exact", seed).sum() == 37 for seed in range(20))
    standard_error = np.sqrt(0.37 * 0.63 / 2_000)
    assert np.abs(total / 2_000 - 0.37).max() < 4.5 * standard_error


def test_mar_depends_on_columns_that_stay_and_on_nothing_else():
    x = table()
    hidden = hide(x, 0.4, "mar")
    drivers = ~hidden.any(0)
    assert 1 <= drivers.sum() < x.shape[1]
    changed = np.where(drivers, x, np.random.default_rng(9).permutation(x))
    np.testing.assert_array_equal(hide(changed, 0.4, "mar"), hidden)
    driver = x[:, np.flatnonzero(drivers)[0]]
    shifts = [
        abs(driver[h].mean() - driver[~h].mean()) / driver.std() for h in hidden[:, ~drivers].T
    ]
    assert max(shifts) > 0.5  # and it really depends on them


def test_self_masking_hides_larger_values_more_often():
    x = table(20_000)
    hidden = hide(x, 0.3, "mnar-self")
    for j in range(x.shape[1] - 1):
        fifths = np.array_split(hidden[np.argsort(x[:, j]), j], 5)
        shares = [fifth.mean() for fifth in fifths]
        assert (np.diff(shares) > 0).all()
        assert shares[0] < 0.1 < 0.6 < shares[-1]
    by_code = [hidden[x[:, -1] == code, -1].mean() for code in np.unique(x[:, -1])]
    assert (np.diff(by_code) > 0).all()


@pytest.mark.parametrize("rate", [0.2, 0.6])
def test_quantiles_hide_one_end_or_both_and_a_part_only(rate):
    x = table()[:, :-1]
    level = (np.argsort(np.argsort(x, axis=0), axis=0) + 0.5) / len(x)
    tail = 2 * rate / (1 + rate)
    upper, lower, both = (hide(x, rate, f"mnar-{side}") for side in ("upper", "lower", "both"))
    assert level[upper].min() > 1 - tail - 1e-9
    assert level[lower].max() < tail + 1e-9
    assert abs(level - 0.5)[both].min() > (1 - tail) / 2 - 1e-9
    inside = upper[level > 1 - tail].mean()
    assert inside == pytest.approx((1 + rate) / 2, abs=0.02)


@pytest.mark.parametrize("mechanism", [name for name in MECHANISMS if name != "mcar-exact"])
def test_columns_keep_two_cells(mechanism):
    x = table(4)
    for seed in range(50):
        assert ((~hide(x, 0.75, mechanism, seed)).sum(0) >= KEPT).all()


def test_exact_moves_to_other_columns_where_one_must_keep_its_cells():
    x = table(40, 3)
    x[2:, 0] = np.nan
    hidden = hide(x, 0.5, "mcar-exact")
    assert hidden.sum() == 41
    assert not hidden[:, 0].any()


def test_constant_and_empty_columns_are_no_trouble():
    x = np.column_stack([table(50, 3), np.ones(50), np.full(50, np.nan)])
    for mechanism in MECHANISMS:
        assert hide(x, 0.3, mechanism).any()


def test_errors_say_what_is_wrong():
    x = table(10)
    with pytest.raises(SettingsError, match="'mcra' is not one of mcar, mcar-exact"):
        hide(x, 0.5, "mcra")
    for rate in (0.0, 1.0, 50.0, float("nan")):
        with pytest.raises(SettingsError, match="rate must be between 0 and 1"):
            hide(x, rate, "mcar")
    with pytest.raises(SettingsError, match="too high for 'mar' with 3 columns"):
        hide(x[:, :3], 0.7, "mar")
    with pytest.raises(DataError, match="every column keeps 2, which leaves 16"):
        hide(x[:4], 0.8, "mcar-exact")
    x[3, 1] = np.inf
    with pytest.raises(DataError, match="column 1 has an infinite value in row 3"):
        hide(x, 0.5, "mcar")
