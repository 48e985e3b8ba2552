"""Random keys outside of compiled functions, by NumPy.

`jax.random` gives the same keys, but compiles a program for each operation and shape: together a
second in each new process.
"""

from typing import TypeVar

import jax
import numpy as np
from jaxtyping import Array, Key, UInt32

from miwae._shapes import OneKey

# Of Threefry-2x32 (Salmon et al., 2011): rotations of its rounds, and the parity of its key words.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA

Words = TypeVar("Words", np.ndarray, Array)


def threefry(words: tuple[Words, Words], high: Words, low: Words) -> tuple[Words, Words]:
    """Two random words for each counter: Threefry-2x32 with 20 rounds, as `jax.random` has it.

    Written out, the rounds become one vectorised loop on a CPU. JAX's own loops over arrays take
    five times as long there, and its `rbg` generator fifteen times: a tenth of a training step.
    """
    keys = (*words, words[0] ^ words[1] ^ np.uint32(PARITY))
    high, low = high + keys[0], low + keys[1]
    for i in range(5):
        for distance in ROTATIONS[i % 2]:
            high = high + low
            low = (low << np.uint32(distance)) | (low >> np.uint32(32 - distance))
            low = low ^ high
        high, low = high + keys[(i + 1) % 3], low + keys[(i + 2) % 3] + np.uint32(i + 1)
    return high, low


def key_of(seed: int) -> OneKey:
    """The threefry key of a seed, of which the last 32 bits count.

    Examples:
        >>> bool(key_of(5) == jax.random.key(5, impl="threefry2x32"))
        True
    """
    return _key(np.array([0, seed & 0xFFFFFFFF], dtype=np.uint32))


def fold_in(key: OneKey, number: int) -> OneKey:
    """Another key for each number, as `jax.random.fold_in`.

    Examples:
        >>> bool(fold_in(key_of(1), 7) == jax.random.fold_in(key_of(1), 7))
        True
    """
    if not _is_threefry(key):
        return jax.random.fold_in(key, number)
    return _key(_folded(key, np.array([number], dtype=np.uint32))[0])


def split(key: OneKey, n: int = 2) -> list[OneKey]:
    """Several keys from one, as `jax.random.split`.

    Examples:
        >>> bool(split(key_of(1), 3)[2] == jax.random.split(key_of(1), 3)[2])
        True
    """
    if not _is_threefry(key):
        return list(jax.random.split(key, n))
    return [_key(words) for words in _folded(key, np.arange(n, dtype=np.uint32))]


def words_from(key: OneKey) -> UInt32[np.ndarray, "2"]:
    """Two random words: `jax.random.bits(key, (2,))`."""
    if not _is_threefry(key):
        return np.asarray(jax.random.bits(key, (2,), dtype=np.uint32))
    return np.bitwise_xor.reduce(_folded(key, np.arange(2, dtype=np.uint32)), axis=1)


def _is_threefry(key: OneKey) -> bool:
    return str(jax.random.key_impl(key)) == "threefry2x32"


def _folded(key: OneKey, numbers: UInt32[np.ndarray, " N"]) -> UInt32[np.ndarray, "N 2"]:
    """The words of the key that each number gives."""
    first, second = np.asarray(jax.random.key_data(key))[:, None]
    return np.stack(threefry((first, second), np.zeros_like(numbers), numbers), axis=1)


def _key(words: UInt32[np.ndarray, "2"]) -> Key[Array, ""]:
    return jax.random.wrap_key_data(jax.device_put(words), impl="threefry2x32")
