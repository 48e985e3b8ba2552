import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor
from sklearn.impute import KNNImputer

from miwae.errors import DataError, SettingsError
from miwae.evaluation._amputation import ampute
from miwae.evaluation._metrics import accuracy, mse
from miwae.evaluation.peers import PEERS, complete
from miwae.evaluation.peers._base import Mean, from_one_hot, one_hot
from miwae.evaluation.peers._chained import Iterative, MissForest
from miwae.evaluation.peers._knn import KNN, VIMKNN
from miwae.evaluation.peers._pca import PCA, fit_components

NAN = np.nan
SMALL = {"missforest": {"n_trees": 20, "n_jobs": 1}}


def numbers(x):
    return np.zeros(np.asarray(x).shape[1], dtype=bool)


def mixed(n=120, seed=0):
    """Two numbers, two categories and a fifth column, all of one hidden cause; holes in all."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal(n)
    x = np.column_stack(
        [
            z + 0.2 * rng.standard_normal(n),
            100 * z + 10 * rng.standard_normal(n),
            np.digitize(z, [-0.6, 0.6]) * 1.0,
            (z + 0.2 * rng.standard_normal(n) > 0) * 1.0,
            rng.standard_normal(n),
        ]
    )
    hidden = ampute(x, 0.25, "mcar-exact", rng=rng)
    return x, hidden, np.array([False, False, True, True, False])


@pytest.mark.parametrize("name", PEERS)
def test_every_peer_keeps_the_contract(name):
    x, hidden, categorical = mixed()
    given = np.where(hidden, np.nan, x)
    before = given.copy()
    first, again = (
        PEERS[name](seed=1, **SMALL.get(name, {})).fit_transform(given, categorical)
        for _ in range(2)
    )
    np.testing.assert_array_equal(given, before)
    np.testing.assert_array_equal(first, again)
    np.testing.assert_array_equal(first[~hidden], x[~hidden])
    assert np.isfinite(first).all()
    assert set(first[:, 2]) <= {0.0, 1.0, 2.0}
    assert set(first[:, 3]) <= {0.0, 1.0}


@pytest.mark.parametrize("name", [name for name in PEERS if name != "mean"])
def test_every_peer_beats_the_mean_where_columns_tell_of_each_other(name):
    x, hidden, categorical = mixed()
    given = np.where(hidden, np.nan, x)
    scored = hidden & (np.arange(5) == 0), hidden & categorical

    def scores(peer):
        filled = peer.fit_transform(given, categorical)
        return mse(x, filled, scored[0]), accuracy(x, filled, scored[1])

    error, right = scores(PEERS[name](**SMALL.get(name, {})))
    mean_error, mean_right = scores(Mean())
    assert error < 0.6 * mean_error
    assert right > mean_right + 0.1


@pytest.mark.parametrize("name", PEERS)
def test_a_complete_table_and_a_single_column_are_no_trouble(name):
    x = np.array([[1.0], [2.0], [NAN], [6.0]])
    peer = PEERS[name](**SMALL.get(name, {}))
    np.testing.assert_array_equal(peer.fit_transform(x[:2], numbers(x)), x[:2])
    assert np.isfinite(peer.fit_transform(x, numbers(x))).all()


def test_what_no_peer_can_use():
    flags = np.array([False, True])
    with pytest.raises(DataError, match="column 0 has no observed value"):
        Mean().fit_transform(np.array([[NAN, 0.0], [NAN, 1.0]]), flags)
    with pytest.raises(DataError, match="column 0 has an infinite value"):
        Mean().fit_transform(np.array([[np.inf, 0.0], [NAN, 1.0]]), flags)
    with pytest.raises(DataError, match="column 1 is categorical"):
        Mean().fit_transform(np.array([[1.0, 0.5], [NAN, 1.0]]), flags)
    with pytest.raises(SettingsError, match="'median' is not one of mean, knn"):
        complete("median", np.ones((2, 2)), flags, 0)


def test_mean_and_mode_by_hand():
    x = np.array([[1.0, 2.0], [3.0, 1.0], [NAN, 2.0], [NAN, 1.0], [8.0, NAN]])
    filled = complete("mean", x, np.array([False, True]), 0)
    np.testing.assert_array_equal(filled[2:4, 0], 4.0)
    assert filled[4, 1] == 1.0  # of two equally frequent ones the smaller


def test_one_hot_and_back():
    x = np.array([[0.5, 3.0], [1.5, 0.0], [2.5, NAN]])
    flags = np.array([False, True])
    coded = one_hot(x, flags)
    np.testing.assert_array_equal(coded, [[0.5, 0, 1], [1.5, 1, 0], [2.5, NAN, NAN]])
    coded[2, 1:] = [0.4, 0.6]
    completed = [[0.5, 3], [1.5, 0], [2.5, 3]]
    np.testing.assert_array_equal(from_one_hot(coded, x, flags), completed)
    shorter = np.delete(coded, 1, axis=1)  # the first code is what the others leave
    np.testing.assert_array_equal(one_hot(x, flags, first=False)[:2], shorter[:2])
    np.testing.assert_array_equal(from_one_hot(shorter, x, flags, first=False), completed)


# k nearest neighbours.


def test_knn_is_that_of_scikit_learn_where_one_column_tells():
    """With one other column, Gower's and the Euclidean distance have the same neighbours."""
    x, hidden, _ = mixed(300)
    x = x[:, :2]
    given = np.where(hidden[:, :2], np.nan, x)
    for count in (1, 5, 15):
        ours = KNN(n_neighbours=count).fit_transform(given, numbers(x))
        theirs = KNNImputer(n_neighbors=count).fit_transform(given)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_gower_distances_by_hand():
    """From row 0, which lacks column 0: over its three other columns, of ranges 10 and 4.

    Row 1: (2/10 + 0/4 + 1) / 3 = 0.4; row 2, without column 1: (1/4 + 0) / 2 = 0.125;
    row 3: (10/10 + 4/4 + 1) / 3 = 1.
    """
    x = np.array([[NAN, 0, 0, 0], [1, 2, 0, 1], [2, NAN, 1, 0], [4, 10, 4, 1]])
    flags = np.array([False, False, False, True])
    found = [KNN(n_neighbours=k).fit_transform(x, flags)[0, 0] for k in (1, 2, 3)]
    np.testing.assert_allclose(found, [2.0, (2 + 1) / 2, (2 + 1 + 4) / 3])


def test_knn_without_a_shared_column_is_the_mean():
    x = np.array([[NAN, 3.0], [1.0, NAN], [5.0, NAN]])
    assert KNN(n_neighbours=2).fit_transform(x, numbers(x))[0, 0] == 3.0


def test_cross_validation_wants_many_neighbours_in_noise_and_few_on_a_curve():
    rng = np.random.default_rng(0)
    t = rng.random(200)
    curve = np.column_stack([t, np.sin(20 * t), np.cos(20 * t)])
    noise = rng.standard_normal((200, 3))
    few, many = (KNN().choose(x, numbers(x)) for x in (curve, noise))
    assert few <= 7
    assert many >= 13


def test_vim_takes_a_missing_cell_for_a_value_beyond_the_largest():
    """Row 0 lacks both columns. VIM: the nearest donor is row 1, which lacks the same cell.

    Column 1 is scaled to 0 and 1, its missing cells stand at 2: distances 0, 2 and 1.
    """
    x = np.array([[NAN, NAN, 0.0], [7.0, NAN, 0.0], [1.0, 0.0, 0.0], [3.0, 10.0, 0.0]])
    first, second, median = (
        VIMKNN(n_neighbours=k).fit_transform(x, numbers(x))[0, 0] for k in (1, 2, 3)
    )
    assert (first, second, median) == (7.0, 5.0, 3.0)


# Principal components.


def low_rank(noise=0.0, n=80, p=8, rank=2):
    rng = np.random.default_rng(4)
    x = rng.standard_normal((n, rank)) @ rng.standard_normal((rank, p))
    return x + noise * rng.standard_normal((n, p)) + np.arange(p)


def test_components_recover_an_exactly_low_rank_table():
    x = low_rank()
    hidden = ampute(x, 0.2, "mcar-exact", rng=np.random.default_rng(0))
    fit = fit_components(np.where(hidden, np.nan, x), 2, 1e-12)
    np.testing.assert_allclose(fit, x, atol=1e-4)


def test_without_holes_it_is_the_shrunk_decomposition_of_the_textbook():
    """Josse & Husson (2012): singular values d become (d^2 - s^2) / d, all at once."""
    x, count = low_rank(noise=0.5), 2
    n, p = x.shape
    z = (x - x.mean(0)) / x.std(0)
    u, d, vt = np.linalg.svd(z, full_matrices=False)
    residual_variance = (d[count:] ** 2).sum() / ((n - 1 - count) * (p - count))
    shrunk = (d**2 - n * residual_variance) / d
    expected = (u[:, :count] * shrunk[:count]) @ vt[:count] * x.std(0) + x.mean(0)
    np.testing.assert_allclose(fit_components(x, count), expected, rtol=1e-10)


def test_held_out_cells_find_enough_components():
    """Shrinkage makes further ones harmless, so that held-out cells hardly tell them apart."""
    x = low_rank(noise=0.3, n=200)
    hidden = ampute(x, 0.1, "mcar-exact", rng=np.random.default_rng(0))
    given = np.where(hidden, np.nan, x)
    errors = [mse(x, fit_components(given, count), hidden) for count in range(6)]
    assert np.argmin(errors) == 2
    assert errors[PCA().choose(given)] < 1.2 * min(errors) < 0.2 * errors[1]


# missForest.


def test_a_round_predicts_columns_in_the_order_of_their_holes():
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40, 4))
    missing = np.zeros(x.shape, dtype=bool)
    missing[:9, 1] = missing[30:35, 3] = True
    start = np.where(missing, 0.0, x)
    peer = MissForest(n_trees=5, n_jobs=1)
    found = peer._round(start, missing, numbers(x), np.random.default_rng(7))
    expected, seeds = start.copy(), np.random.default_rng(7)
    for j in (3, 1):  # fewest first; column 1 sees what column 3 has become
        others, rows = np.delete(expected, j, axis=1), missing[:, j]
        forest = RandomForestRegressor(
            5, max_features=2, random_state=int(seeds.integers(2**31)), n_jobs=1
        )
        forest.fit(others[~rows], expected[~rows, j])
        expected[rows, j] = forest.predict(others[rows])
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("steps", "expected"),
    [
        ([8.0, 4.0, 2.0, 3.0, 1.0], 14.0),  # the fourth step is longer: what the third gave
        ([5.0 / 2**k for k in range(10)], 5 * (2 - 2.0**-9)),  # ten rounds at most
    ],
)
def test_it_stops_when_steps_grow_and_returns_the_round_before(monkeypatch, steps, expected):
    # The large cell makes the sum of squares, by which changes are divided, as good as constant.
    x = np.array([[NAN, 1e6], [0.0, 1e6], [0.0, 1e6]])
    remaining = iter(steps)

    def move(self, table, missing, categorical, rng):
        return np.where(missing, table + next(remaining), table)

    monkeypatch.setattr(MissForest, "_round", move)
    assert MissForest().fit_transform(x, numbers(x))[0, 0] == expected


def test_it_goes_on_while_numbers_or_categories_still_settle(monkeypatch):
    """Numbers move by 1, 2, ... but ever fewer categories change: 2 of 2, 1 of 2, then 1 again."""
    x = np.array([[NAN, NAN], [1e3, NAN], [1e3, 0.0], [1e3, 1.0], [1e3, 1.0]])
    tables = iter([(1, 0, 0), (3, 1, 0), (6, 0, 0), (0, 0, 0)])

    def move(self, table, missing, categorical, rng):
        number, *codes = next(tables)
        table = table.copy()
        table[0, 0], table[:2, 1] = number, codes
        return table

    monkeypatch.setattr(MissForest, "_round", move)
    filled = MissForest().fit_transform(x, np.array([False, True]))
    np.testing.assert_array_equal(filled[:2], [[3, 1], [1e3, 0]])


def test_forests_find_what_no_line_can():
    rng = np.random.default_rng(0)
    z = rng.uniform(-1, 1, 300)
    x = np.column_stack([z, z**2])
    given = x.copy()
    given[::4, 1] = np.nan
    scored = np.isnan(given)
    forest, line = (
        mse(x, peer.fit_transform(given, numbers(x)), scored)
        for peer in (MissForest(n_trees=20, n_jobs=1), Iterative())
    )
    assert forest < 0.02 * line
    assert line == pytest.approx(x[:, 1].var(), rel=0.2)


def test_iterative_recovers_a_linear_relation():
    x = np.random.default_rng(0).standard_normal((100, 3)) @ np.array(
        [[1, 0, 1], [0, 1, -2], [0, 0, 0]]
    )
    given = x.copy()
    given[::3, 2] = np.nan
    np.testing.assert_allclose(Iterative().fit_transform(given, numbers(x)), x, atol=1e-3)


def test_where_the_copula_fails_a_line_says_so_and_standard_output_stays_clean(
    monkeypatch, capsys
):
    def failing(self, X):
        print("Invalid lower & upper bounds")
        raise ValueError

    monkeypatch.setattr(np, "round_", np.round, raising=False)
    monkeypatch.setattr("gcimpute.gaussian_copula.GaussianCopula.fit_transform", failing)
    x = np.array([[1.0, 2.0], [np.nan, 3.0], [2.0, 4.0]])
    with pytest.raises(DataError, match="gcimpute finds no bounds"):
        complete("copula", x, np.zeros(2, dtype=bool), 0)
    assert capsys.readouterr().out == ""
