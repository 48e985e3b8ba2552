import jax
import numpy as np
import pytest

from miwae._keys import fold_in, key_of, split, words_from


def words(key):
    return np.asarray(jax.random.key_data(key))


@pytest.mark.parametrize("seed", [0, 1, 12345, 2**31, 2**32 - 1])
def test_keys_are_those_of_jax(seed):
    key, same = key_of(seed), jax.random.key(np.uint32(seed), impl="threefry2x32")
    np.testing.assert_array_equal(words(key), words(same))
    for number in (0, 1, 2**30 + 1, 2**32 - 1):
        own, its = fold_in(key, number), jax.random.fold_in(same, np.uint32(number))
        np.testing.assert_array_equal(words(own), words(its))
    for own, its in zip(split(key, 3), jax.random.split(same, 3), strict=True):
        np.testing.assert_array_equal(words(own), words(its))
    np.testing.assert_array_equal(words_from(key), jax.random.bits(same, (2,), dtype=np.uint32))


def test_keys_of_other_generators_stay_what_they_are():
    key = jax.random.key(3, impl="rbg")
    assert str(jax.random.key_impl(split(key)[1])) == "rbg"
    np.testing.assert_array_equal(words(fold_in(key, 5)), words(jax.random.fold_in(key, 5)))
    assert words_from(key).shape == (2,)
