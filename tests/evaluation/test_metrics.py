import numpy as np
import pytest
from scipy.stats import norm

from miwae.errors import DataError
from miwae.evaluation import metrics

TRUTH = np.array([[1.0, 10.0], [2.0, 20.0], [3.0, np.nan]])
IMPUTED = np.array([[1.0, 14.0], [5.0, 17.0], [np.nan, 0.0]])
SCORED = np.array([[True, True], [True, True], [False, False]])  # errors 0, 4, 3, -3


def test_errors_by_hand():
    assert metrics.mse(TRUTH, IMPUTED, SCORED) == pytest.approx((0 + 16 + 9 + 9) / 4)
    assert metrics.rmse(TRUTH, IMPUTED, SCORED) == pytest.approx(np.sqrt(34 / 4))
    assert metrics.mae(TRUTH, IMPUTED, SCORED) == pytest.approx(10 / 4)


def test_deviations_leave_out_missing_cells_and_spare_constant_columns():
    x = np.array([[1.0, 7.0, np.nan], [3.0, 7.0, np.nan], [np.nan, 7.0, np.nan]])
    np.testing.assert_array_equal(metrics.column_deviations(x), [1.0, 1.0, 1.0])
    x[:, 1] = [0.0, 3.0, 6.0]
    assert metrics.column_deviations(x)[1] == pytest.approx(np.sqrt(6))


def test_accuracy_by_hand():
    truth = np.array([[0.0], [1.0], [2.0], [1.0]])
    imputed = np.array([[0.0], [2.0], [2.0], [0.0]])
    scored = np.array([[True], [True], [True], [False]])
    assert metrics.accuracy(truth, imputed, scored) == pytest.approx(2 / 3)


def test_log_loss_by_hand():
    truth = np.array([0.0, 1.0, 1.0])
    probabilities = np.array([[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]])
    two = np.array([True, True, False])
    assert metrics.log_loss(truth, probabilities, two) == pytest.approx(np.log(8) / 2)
    certain = np.array([False, False, True])
    assert metrics.log_loss(truth, probabilities, certain) == pytest.approx(36.04, abs=0.01)


def test_crps_by_hand():
    """Draws 0, 1, 3 of a cell that is 2: distances 2, 1, 1 from it and 1, 3, 2 between them."""
    samples = np.array([0.0, 3.0, 1.0]).reshape(3, 1, 1)
    truth, scored = np.array([[2.0]]), np.array([[True]])
    assert metrics.crps(truth, samples, scored) == pytest.approx(4 / 3 - (1 + 3 + 2) / 3 / 2)


@pytest.mark.parametrize("n_draws", [2, 3, 20])
def test_crps_of_normal_draws_is_that_of_the_normal_for_any_number_of_draws(n_draws):
    y, n = 0.7, 40_000
    samples = np.random.default_rng(n_draws).standard_normal((n_draws, n, 1))
    exact = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    found = metrics.crps(np.full((n, 1), y), samples, np.ones((n, 1), dtype=bool))
    assert found == pytest.approx(exact, abs=4 * 1.0 / np.sqrt(n))


def test_energy_score_by_hand():
    """A row (0, 0) and the draws (3, 4) and (0, 0): distances 5 and 0, and 5 between them."""
    samples = np.array([[[3.0, 4.0]], [[0.0, 0.0]]])
    truth = np.zeros((1, 2))
    assert metrics.energy_score(truth, samples, np.array([[True, True]])) == pytest.approx(0.0)
    # Only the second cell is scored: distances 4 and 0, and 4 between them.
    truth[0, 1] = -1.0
    found = metrics.energy_score(truth, samples, np.array([[False, True]]))
    assert found == pytest.approx((5 + 1) / 2 - 4 / 2)


def test_energy_score_of_single_cells_is_the_crps():
    rng = np.random.default_rng(0)
    samples, truth = rng.standard_normal((7, 50, 3)), rng.standard_normal((50, 3))
    scored = np.arange(3) == rng.integers(3, size=50)[:, None]
    expected = metrics.crps(truth, samples, scored)
    assert metrics.energy_score(truth, samples, scored) == pytest.approx(expected)


def test_energy_score_prefers_draws_that_belong_together():
    rng = np.random.default_rng(0)
    truth = np.repeat(rng.standard_normal((3_000, 1)), 2, axis=1)
    together = np.repeat(rng.standard_normal((10, 3_000, 1)), 2, axis=2)
    apart = rng.standard_normal((10, 3_000, 2))
    scored = np.ones(truth.shape, dtype=bool)
    right, wrong = (metrics.energy_score(truth, draws, scored) for draws in (together, apart))
    assert right < wrong - 0.02
    same = metrics.crps(truth, together, scored), metrics.crps(truth, apart, scored)
    assert same[0] == pytest.approx(same[1], abs=0.05)


def test_intervals_by_hand():
    lower, upper = np.array([[1.0, 0.0], [3.0, 0.0]]), np.array([[2.0, 9.0], [5.0, 30.0]])
    truth, scored = TRUTH[:2], np.ones((2, 2), dtype=bool)
    assert metrics.coverage(truth, lower, upper, scored) == pytest.approx(2 / 4)
    assert metrics.width(lower, upper, scored) == pytest.approx((1 + 9 + 2 + 30) / 4)


def test_wasserstein_by_hand():
    """Sorted values 0, 1, 3 against 5, 6, 8: all five apart; the second column equal but mixed."""
    truth = np.array([[0.0, 1.0, 9.0], [1.0, 2.0, 9.0], [3.0, 3.0, 9.0]])
    imputed = np.array([[5.0, 3.0, 0.0], [6.0, 1.0, 0.0], [8.0, 2.0, 0.0]])
    scored = np.array([[True, True, False]] * 3)
    assert metrics.wasserstein(truth, imputed, scored) == pytest.approx((5 + 0) / 2)


def test_nothing_to_score_is_an_error():
    nothing = np.zeros(TRUTH.shape, dtype=bool)
    for metric in (metrics.mse, metrics.rmse, metrics.mae, metrics.accuracy, metrics.wasserstein):
        with pytest.raises(DataError, match="no cell is scored"):
            metric(TRUTH, IMPUTED, nothing)
    with pytest.raises(DataError, match="at least two draws, not 1"):
        metrics.crps(TRUTH, IMPUTED[None], SCORED)
