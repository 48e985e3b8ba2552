"""A random key for each row, from the row's own content.

What is drawn for a row then does not depend on its place, its neighbours, or how rows are cut into
chunks.
"""

from typing import TypeAlias

import jax
import numpy as np
from jaxtyping import UInt32, UInt64

from miwae._shapes import KeyWords, OneKey, Table, TableSeen

State: TypeAlias = UInt64[np.ndarray, " N"]

GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # the increment of splitmix64


def row_hashes(x: Table, observed: TableSeen) -> KeyWords:
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
    return _cut(state)


def occurrences(hashes: KeyWords) -> UInt32[np.ndarray, " N"]:
    """For each row, how many rows before it are the same.

    Examples:
        >>> occurrences(np.array([[1, 1], [2, 2], [1, 1]], dtype=np.uint32))
        array([0, 0, 1], dtype=uint32)
    """
    state = _joined(hashes)
    order = np.argsort(state, kind="stable")
    ordered = state[order]
    counts = np.empty(len(hashes), dtype=np.uint32)
    counts[order] = np.arange(len(hashes)) - np.searchsorted(ordered, ordered)
    return counts


def _mixed(state: State) -> State:
    """The finaliser of splitmix64: every bit of the result depends on every bit of the state."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


def row_keys(
    key: OneKey, x: Table, observed: TableSeen, *, tell_duplicates_apart: bool = False
) -> KeyWords:
    """The words of a threefry key for each row, folded from its observed cells.

    Words, not keys: what JAX does with an array of keys is compiled for each number of rows. The
    key has to be a threefry key, the default of `jax.random.key`: others do not keep rows apart
    under `vmap`. To tell duplicates apart, how often the same row came before is folded in as
    well: identical rows then get independent draws, which depend on their order only.
    """
    hashes = row_hashes(x, observed)
    seed = _joined(np.asarray(jax.random.key_data(key)).reshape(1, 2))
    state = _mixed(_joined(hashes) ^ _mixed(seed))
    if tell_duplicates_apart:
        state = _mixed(state + occurrences(hashes).astype(np.uint64) * GOLDEN + GOLDEN)
    return _cut(state)


def numbers_of(words: KeyWords, salt: UInt64[np.ndarray, " N"]) -> State:
    """A random number for each row and a number of its own."""
    return _mixed(_joined(words) + (salt + np.uint64(1)) * GOLDEN)


def _cut(state: State) -> KeyWords:
    return np.stack([state >> np.uint64(32), state & np.uint64(0xFFFFFFFF)], 1).astype(np.uint32)


def _joined(words: KeyWords) -> State:
    return (words[:, 0].astype(np.uint64) << np.uint64(32)) | words[:, 1].astype(np.uint64)
