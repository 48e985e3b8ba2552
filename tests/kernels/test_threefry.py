import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend.random import threefry_2x32
from scipy import stats

from miwae.kernels._threefry import bits, fold_in, normal, pair_of_bits, split_key, uniform

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 5)).astype(np.float32)
OBSERVED = RNG.uniform(size=X.shape) < 0.6
KEY = jax.random.key(11)


def data(keys):
    return np.asarray(jax.random.key_data(keys))


@pytest.mark.parametrize("shape", [(6,), (3, 5), (2, 3, 4)])
def test_words_are_those_of_jax(shape):
    """Of an implementation of Threefry-2x32 that is not ours, for the same counters."""
    n_pairs = -(-np.prod(shape) // 2)
    counters = jnp.concatenate([jnp.arange(n_pairs), jnp.zeros(n_pairs)]).astype(jnp.uint32)
    expected = threefry_2x32(jax.random.key_data(KEY), counters)[: np.prod(shape)]
    np.testing.assert_array_equal(bits(KEY, shape), expected.reshape(shape))


@pytest.mark.parametrize("keys", [KEY, jax.random.split(KEY, 4)], ids=["one key", "four"])
def test_a_pair_is_the_halves_of_its_words(keys):
    shape = (3, 5, 4)
    np.testing.assert_array_equal(jnp.stack(pair_of_bits(keys, shape)), bits(keys, (2, *shape)))


@pytest.mark.parametrize("sampler", [bits, uniform, normal])
def test_with_a_key_for_each_row_a_row_has_its_own_numbers(sampler):
    keys = jax.random.split(KEY, 4)
    drawn = sampler(keys, (2, 3, 4))
    for i in range(4):
        np.testing.assert_array_equal(drawn[..., i], sampler(keys[i], (2, 3)))


def test_keys_of_any_kind_will_do():
    drawn = uniform(jax.random.key(0, impl="rbg"), (2, 3))
    assert len(np.unique(drawn)) == 6


def test_uniform_numbers_are_uniform():
    drawn = np.asarray(uniform(KEY, (100_000,)))
    assert drawn.min() >= 0
    assert drawn.max() < 1
    assert stats.kstest(drawn, "uniform").pvalue > 1e-3


def test_normal_numbers_are_normal_and_finite(monkeypatch):
    assert stats.kstest(np.asarray(normal(KEY, (100_000,))), "norm").pvalue > 1e-3
    ends = jnp.array([0.0, 0.5, 1 - 2.0**-23])  # of what `uniform` can return
    monkeypatch.setattr("miwae.kernels._threefry.uniform", lambda *_: ends)
    low, middle, high = np.asarray(normal(KEY, (3,)))
    assert (low, high) == pytest.approx((-high, stats.norm.isf(2.0**-24)), rel=1e-2)
    assert middle == pytest.approx(0.0, abs=1e-6)


def test_keys_are_split_row_by_row():
    keys = jax.random.split(KEY, 3)
    first, second = split_key(keys, 2)
    for i in range(3):
        expected = data(jax.random.split(keys[i], 2))
        np.testing.assert_array_equal(data(first)[i], expected[0])
        np.testing.assert_array_equal(data(second)[i], expected[1])
    np.testing.assert_array_equal(
        np.stack([data(k) for k in split_key(KEY, 2)]), data(jax.random.split(KEY, 2))
    )


def test_numbers_are_folded_in_row_by_row():
    keys = jax.random.split(KEY, 3)
    same = data(fold_in(keys, jnp.asarray(5)))
    own = data(fold_in(keys, jnp.asarray([5, 6, 7])))
    for i in range(3):
        np.testing.assert_array_equal(same[i], data(jax.random.fold_in(keys[i], 5)))
        np.testing.assert_array_equal(own[i], data(jax.random.fold_in(keys[i], 5 + i)))
