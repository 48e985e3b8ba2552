import numpy as np
import pytest

from miwae._arrays import as_incomplete, require_at_least, require_trainable
from miwae.errors import DataError, SettingsError

NAN = float("nan")


def test_nan_means_missing_unless_told_otherwise():
    x, observed = as_incomplete([[1, NAN], [3, 4]])
    assert x.dtype == np.float32
    np.testing.assert_array_equal(observed, [[True, False], [True, True]])
    np.testing.assert_array_equal(x, [[1.0, NAN], [3.0, 4.0]])


def test_an_indicator_wins_and_missing_cells_keep_what_they_hold():
    given = np.array([[True, False], [False, True]])
    x, observed = as_incomplete(np.array([[1.0, 7.0], [np.inf, 4.0]]), given)
    np.testing.assert_array_equal(observed, given)
    np.testing.assert_array_equal(x, [[1.0, 7.0], [np.inf, 4.0]])


@pytest.mark.parametrize(
    ("x", "observed", "n_features", "words"),
    [
        ([1.0, 2.0], None, None, r"x\[None, :\]"),
        ([["a", "b"]], None, None, "array of numbers"),
        ([[1.0], [1.0, 2.0]], None, None, "array of numbers"),
        ([[1.0, 2.0]], None, 3, "3 features, but x has 2"),
        ([[1.0, 2.0]], [[1, 0]], None, "boolean"),
        ([[1.0, 2.0]], [[True]], None, "shape"),
        ([[1.0, 2.0], [3.0, np.inf]], None, None, "row 1, column 1 is inf"),
        ([[NAN, 2.0]], [[True, True]], None, "row 0, column 0 is nan"),
    ],
)
def test_unusable_arrays_are_refused_by_name(x, observed, n_features, words):
    with pytest.raises(DataError, match=words):
        as_incomplete(x, observed, n_features)


def test_a_number_too_large_for_single_precision_is_refused():
    with np.errstate(over="ignore"), pytest.raises(DataError, match="row 0, column 1"):
        as_incomplete(np.array([[1.0, 1e300]]))


@pytest.mark.parametrize(
    ("observed", "words"),
    [
        ([[True, True], [False, False]], "row 1 has no observed cell"),
        ([[True, False], [True, False]], "column 1 has no observed cell"),
        (np.zeros((0, 3), dtype=bool), "nothing to learn"),
        (np.zeros((3, 0), dtype=bool), "nothing to learn"),
    ],
)
def test_rows_and_columns_without_cells_cannot_be_learned_from(observed, words):
    with pytest.raises(DataError, match=words):
        require_trainable(np.asarray(observed))


def test_empty_columns_may_be_allowed_but_empty_rows_not():
    require_trainable(np.array([[True, False], [True, False]]), columns=False)
    with pytest.raises(DataError, match="row 0"):
        require_trainable(np.array([[False, False], [True, True]]), columns=False)


def test_counts_are_refused_by_name():
    require_at_least(1, n_latent=1, n_hidden=3)
    with pytest.raises(SettingsError, match="n_hidden must be at least 1, not 0"):
        require_at_least(1, n_latent=1, n_hidden=0)


@pytest.mark.parametrize(
    ("value", "message"),
    [(0, "n must be at least 1, not 0"), (2.5, "n must be a whole number, not 2.5"), ("a", "'a'")],
)
def test_counts_are_whole_numbers(value, message):
    with pytest.raises(SettingsError, match=message):
        require_at_least(1, n=value)


def test_cells_too_large_for_single_precision_are_named():
    with pytest.raises(DataError, match=r"row 1, column 0 is 1e\+20 .* standardise"):
        as_incomplete([[1.0, 2.0], [1e20, 3.0]])
