"""Random keys: one for a whole batch, or one for each row.

With one key for each row, derived from the row's own content, what is drawn for a row does not
depend on its place, its neighbours, or how rows are cut into chunks.
"""

from collections.abc import Callable

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key, UInt32, UInt64

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of splitmix64

__all__ = ["fold_rows", "occurrences", "random_rows", "row_hashes", "row_keys", "split_key"]


def random_rows(
    sampler: Callable[[Key[Array, ""], tuple[int, ...]], Array],
    key: Key[Array, "..."],
    shape: tuple[int, ...],
) -> Array:
    """Random numbers of a shape whose last axis is the rows.

    Args:
        sampler: such as `jax.random.normal`, a function of a key and a shape.
        key: a single key, or one for each row.
        shape: `(..., B)`.
    """
    if key.ndim == 0:
        return sampler(key, shape)
    return jax.vmap(lambda own: sampler(own, shape[:-1]), out_axes=-1)(key)


def split_key(key: Key[Array, "..."], n: int) -> tuple[Key[Array, "..."], ...]:
    """Split a single key, or each row's key, into n of the same shape."""
    if key.ndim == 0:
        return tuple(jax.random.split(key, n))
    return tuple(jax.vmap(lambda own: jax.random.split(own, n), out_axes=1)(key))


def fold_rows(key: Key[Array, " B"], data: Array) -> Key[Array, " B"]:
    """Fold a number into each row's key: the same for all rows, or one for each."""
    if data.ndim == 0:
        return jax.vmap(jax.random.fold_in, in_axes=(0, None))(key, data)
    return jax.vmap(jax.random.fold_in)(key, data)


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
) -> Key[Array, " N"]:
    """A key for each row, folded from its observed cells.

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
    return jax.random.wrap_key_data(jax.numpy.asarray(words.astype(np.uint32)))


def _joined(words: UInt32[np.ndarray, "N 2"]) -> UInt64[np.ndarray, " N"]:
    return (words[:, 0].astype(np.uint64) << np.uint64(32)) | words[:, 1].astype(np.uint64)
