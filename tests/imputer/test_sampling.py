"""Completed copies, and expectations over them."""

import numpy as np
import pandas as pd
import pytest

from imputer.tables import COVARIANCE, factor_rows, same_bits, with_holes
from miwae import MultiplyImputed
from miwae.errors import DataError, SettingsError


def test_copies_agree_where_observed_and_differ_elsewhere(linear):
    frame, imputer = linear
    draws = imputer.sample(frame, 4)
    assert isinstance(draws, MultiplyImputed)
    assert len(draws) == 4
    pd.testing.assert_frame_equal(draws.complete(0), frame, check_exact=True)
    copies = np.stack([completed.to_numpy() for completed in draws])
    holes = frame.isna().to_numpy()
    assert np.isfinite(copies).all()
    assert same_bits(copies[:, ~holes], np.repeat(frame.to_numpy()[~holes][None], 4, axis=0))
    assert (np.ptp(copies[:, holes], axis=0) > 0).all()
    again = np.stack([completed.to_numpy() for completed in imputer.sample(frame, 4)])
    assert same_bits(again, copies)


def test_equal_rows_get_their_own_draws(linear):
    _, imputer = linear
    twins = pd.DataFrame([[1.0, np.nan, np.nan]] * 3, columns=list("abc"))
    completed = imputer.transform(twins)
    assert same_bits(completed.iloc[[0]], completed.iloc[[2]])
    drawn = imputer.sample(twins, 1).complete(1)["b"]
    assert drawn.nunique() == 3


@pytest.mark.parametrize("n", [0, -1])
def test_at_least_one_completedis_drawn(linear, n):
    with pytest.raises(SettingsError, match="n_imputations"):
        linear[1].sample(linear[0], n)


def test_draws_scatter_around_the_imputation(trained):
    _, imputer = trained
    rows = pd.DataFrame(with_holes(factor_rows(30, 11), 0.5, 11), columns=list("abc"))
    holes = rows.isna().to_numpy()
    n = 100
    copies = np.stack([c.to_numpy()[holes] for c in imputer.sample(rows, n)])
    error = copies.std(axis=0) / np.sqrt(n)
    z = (copies.mean(axis=0) - imputer.transform(rows).to_numpy()[holes]) / error
    # Both have Monte Carlo errors; those of the draws' mean are the larger ones.
    assert np.sqrt(np.mean(z**2)) < 2
    assert np.abs(z).max() < 5


def test_draws_have_the_variance_of_the_model(trained):
    """Var(x_b | x_a) of the Gaussian model, in closed form."""
    _, imputer = trained
    rows = pd.DataFrame([[0.5, np.nan, np.nan]], columns=list("abc"))
    drawn = imputer.sample(rows, 100)
    spread = np.std([completed.loc[0, "b"] for completed in drawn])
    exact = np.sqrt(COVARIANCE[1, 1] - COVARIANCE[0, 1] ** 2 / COVARIANCE[0, 0])
    assert spread == pytest.approx(exact, rel=0.3)


def test_the_expectation_of_a_linear_function(trained):
    _, imputer = trained
    rows = pd.DataFrame(with_holes(factor_rows(30, 13), 0.4, 13), columns=list("abc"))
    weights = np.array([1.0, 2.0, -1.0])
    answer = imputer.expectation(rows, lambda frame: frame.to_numpy() @ weights)
    copies = np.stack([c.to_numpy() @ weights for c in imputer.sample(rows, 100)])
    np.testing.assert_allclose(answer, copies.mean(axis=0), rtol=1e-12)
    error = copies.std(axis=0) / 10
    exact = imputer.transform(rows).to_numpy() @ weights
    incomplete = rows.isna().any(axis=1).to_numpy()
    assert (np.abs(answer - exact)[incomplete] < 5 * error[incomplete]).all()
    np.testing.assert_allclose(answer[~incomplete], exact[~incomplete], rtol=1e-12)
    vectors = imputer.expectation(rows, lambda frame: frame, n_imputations=3)
    assert vectors.shape == (30, 3)


@pytest.mark.parametrize("h", [lambda f: 1.0, lambda f: f.to_numpy()[:-1], lambda f: f.T])
def test_a_function_that_is_not_of_rows_is_refused(linear, h):
    with pytest.raises(DataError, match="must return one value for each of the 33 rows"):
        linear[1].expectation(linear[0], h, n_imputations=2)
