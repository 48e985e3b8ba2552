"""Random keys: one for a whole batch, or one for each row.

With one key for each row, derived from the row's own content, what is drawn for a row does not
depend on its place, its neighbours, or how rows are cut into chunks.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key, UInt32, UInt64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of splitmix64

# Of Threefry-2x32 (Salmon et al., 2011): rotations of its rounds, and the parity of its key words.
ROTATIONS = ((13, 15, 26, 6), (17, 29, 16, 24))
PARITY = 0x1BD11BDA

__all__ = [
    "bits",
    "fold_in",
    "normal",
    "occurrences",
    "row_hashes",
    "row_keys",
    "split_key",
    "uniform",
]


def _threefry(
    words: tuple[Array, Array], high: UInt32[Array, "..."], low: UInt32[Array, "..."]
) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
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


def _words(key: Key[Array, "..."]) -> tuple[UInt32[Array, "..."], UInt32[Array, "..."]]:
    """The two words of a threefry key, or two that stand for a single key of another kind."""
    data = jax.random.key_data(key)
    if data.shape[-1] != 2:
        data = jax.random.bits(key, (2,), dtype=jnp.uint32)
    return data[..., 0], data[..., 1]


@functools.partial(jax.jit, static_argnames="shape")
def bits(key: Key[Array, "..."], shape: tuple[int, ...]) -> UInt32[Array, "..."]:
    """Random words of a shape whose last axis is the rows.

    Args:
        key: a single key, or one for each row, which alone then decides on the row's words.
        shape: `(..., B)`.
    """
    alone = key.ndim == 0
    n_words = math.prod(shape if alone else shape[:-1])
    first, second = (word.reshape(1, -1) for word in _words(key))
    counter = jax.lax.iota(jnp.uint32, -(-n_words // 2))[:, None]
    pair = _threefry((first, second), counter, jnp.zeros_like(counter))
    return jnp.concatenate(pair)[:n_words].reshape(shape)


def uniform(key: Key[Array, "..."], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Uniform numbers in [0, 1), multiples of 2^-23; arguments as those of `bits`."""
    one_to_two = (bits(key, shape) >> np.uint32(9)) | np.uint32(0x3F800000)
    return jax.lax.bitcast_convert_type(one_to_two, jnp.float32) - 1.0


def normal(key: Key[Array, "..."], shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers; arguments as those of `bits`."""
    centred = 2 * (uniform(key, shape) + 2.0**-24) - 1  # neither -1 nor 1
    return math.sqrt(2) * jax.lax.erf_inv(centred)


@jax.jit
def fold_in(key: Key[Array, "..."], data: Array | int) -> Key[Array, "..."]:
    """Fold a number into a key, or into each row's: the same for all rows, or one for each."""
    words = _words(key)
    low = jnp.broadcast_to(jnp.asarray(data).astype(jnp.uint32), words[0].shape)
    return jax.random.wrap_key_data(
        jnp.stack(_threefry(words, jnp.zeros_like(low), low), axis=-1), impl="threefry2x32"
    )


def split_key(key: Key[Array, "..."], n: int) -> tuple[Key[Array, "..."], ...]:
    """Split a single key, or each row's key, into n of the same shape."""
    return tuple(fold_in(key, i) for i in range(n))


def row_hashes(
    x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
) -> UInt32[np.ndarray, "N 2"]:
    """Two words that depend on the observed cells of a row and on which they are.

    A multiply-xorshift hash (the mixing of splitmix64) over the columns, vectorised over rows.
    """
    bits = np.where(observed, x + 0.0, 0.0).astype(np.float32).view(np.uint32).astype(np.uint64)
    cells = (bits << np.uint64(1)) | observed.astype(np.uint64)
    state = np.full(x.shape[0], GOLDEN, dtype=np.uint64)
    for column in range(x.shape[1]):
        state = (state ^ cells[:, column]) * np.uint64(0xBF58476D1CE4E5B9)
        state ^= state >> np.uint64(31)
        state = state * np.uint64(0x94D049BB133111EB) + np.uint64(column + 1)
        state ^= state >> np.uint64(29)
    return np.stack([state >> np.uint64(32), state & np.uint64(0xFFFFFFFF)], 1).astype(np.uint32)


def occurrences(hashes: UInt32[np.ndarray, "N 2"]) -> UInt32[np.ndarray, " N"]:
    """For each row, how many rows before it are the same.

    Example:
        >>> occurrences(np.array([[1, 1], [2, 2], [1, 1]], dtype=np.uint32))
        array([0, 0, 1], dtype=uint32)
    """
    order = np.lexsort((np.arange(len(hashes)), hashes[:, 1], hashes[:, 0]))
    ordered = hashes[order]
    new = np.ones(len(hashes), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.arange(len(hashes))
    first = np.maximum.accumulate(np.where(new, place, 0))
    counts = np.empty(len(hashes), dtype=np.uint32)
    counts[order] = place - first
    return counts


def _mixed(state: UInt64[np.ndarray, " N"]) -> UInt64[np.ndarray, " N"]:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the state."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def row_keys(
    key: Key[Array, ""],
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    *,
    tell_duplicates_apart: bool = False,
) -> UInt32[np.ndarray, "N 2"]:
    """The words of a threefry key for each row, folded from its observed cells.

    Words, not keys: what JAX does with an array of keys is compiled for each number of rows.

    Args:
        key: a threefry key (the default kind of `jax.random.key`): others do not keep rows apart
            under `vmap`.
        x: rows.
        observed: True where a cell was seen.
        tell_duplicates_apart: also fold in how often the same row came before, so that identical
            rows get independent draws; the result then depends on the order among identical rows
            only.
    """
    hashes = row_hashes(x, observed)
    seed = _joined(np.asarray(jax.random.key_data(key)).reshape(1, 2))
    state = _mixed(_joined(hashes) ^ _mixed(seed))
    if tell_duplicates_apart:
        state = _mixed(state + occurrences(hashes).astype(np.uint64) * GOLDEN + GOLDEN)
    words = np.stack([state >> np.uint64(32), state & np.uint64(0xFFFFFFFF)], axis=1)
    return words.astype(np.uint32)


def _joined(words: UInt32[np.ndarray, "N 2"]) -> UInt64[np.ndarray, " N"]:
    return (words[:, 0].astype(np.uint64) << np.uint64(32)) | words[:, 1].astype(np.uint64)
