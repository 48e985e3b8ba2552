import jax
import numpy as np

from miwae._row_keys import occurrences, row_hashes, row_keys

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)).astype(np.float32)
OBSERVED = RNG.uniform(size=X.shape) < 0.6
KEY = jax.random.key(11)


def test_a_hash_belongs_to_the_row_and_not_to_its_place():
    order = RNG.permutation(len(X))
    np.testing.assert_array_equal(
        row_hashes(X[order], OBSERVED[order]), row_hashes(X, OBSERVED)[order]
    )
    np.testing.assert_array_equal(row_hashes(X[3:4], OBSERVED[3:4]), row_hashes(X, OBSERVED)[3:4])


def test_a_hash_cannot_read_missing_cells():
    for content in (np.nan, 0.0, 1e9, np.inf):
        stored = np.where(OBSERVED, X, np.float32(content))
        np.testing.assert_array_equal(row_hashes(stored, OBSERVED), row_hashes(X, OBSERVED))


def test_a_hash_takes_both_zeros_for_the_same():
    zeros = np.zeros((1, 3), dtype=np.float32)
    seen = np.ones((1, 3), dtype=bool)
    np.testing.assert_array_equal(row_hashes(-zeros, seen), row_hashes(zeros, seen))


def test_different_rows_have_different_hashes():
    # 4,096 rows that differ in one bit, one column or one indicator: by chance alone the
    # probability of any collision of 64 bits is below 1e-12.
    codes = (np.arange(2**12)[:, None] >> np.arange(12)) & 1
    x = codes[:, :6].astype(np.float32)
    observed = codes[:, 6:].astype(bool)
    observable = np.concatenate([np.where(observed, x, 0.0), observed], axis=1)
    hashes = row_hashes(x, observed)
    assert len(np.unique(hashes, axis=0)) == len(np.unique(observable, axis=0))


def test_a_missing_cell_is_not_an_observed_zero():
    x = np.zeros((2, 2), dtype=np.float32)
    hashes = row_hashes(x, np.array([[True, True], [True, False]]))
    assert not np.array_equal(hashes[0], hashes[1])


def test_occurrences_count_the_same_rows_before():
    x = X[[4, 2, 4, 4, 2, 0]]
    observed = OBSERVED[[4, 2, 4, 4, 2, 0]]
    np.testing.assert_array_equal(occurrences(row_hashes(x, observed)), [0, 0, 1, 2, 1, 0])


def test_row_keys_follow_their_rows_in_any_order_and_subset():
    keys = row_keys(KEY, X, OBSERVED)
    chosen = RNG.permutation(len(X))[:7]
    np.testing.assert_array_equal(row_keys(KEY, X[chosen], OBSERVED[chosen]), keys[chosen])
    assert len(np.unique(keys, axis=0)) == len(X)
    assert not np.array_equal(row_keys(jax.random.key(12), X, OBSERVED), keys)


def test_identical_rows_are_told_apart_only_when_asked():
    x, observed = X[[1, 1, 2]], OBSERVED[[1, 1, 2]]
    same = row_keys(KEY, x, observed)
    apart = row_keys(KEY, x, observed, tell_duplicates_apart=True)
    np.testing.assert_array_equal(same[0], same[1])
    assert len(np.unique(apart, axis=0)) == 3
