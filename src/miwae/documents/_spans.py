"""Pieces of a buffer of bytes, known by their positions: no file is copied cell by cell."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

__all__ = ["Spans", "appended", "index_type", "pasted", "span_bytes"]


class Spans(NamedTuple):
    """Pieces of a buffer: the i-th is `buffer[starts[i]:ends[i]]`."""

    starts: Int[np.ndarray, " N"]
    ends: Int[np.ndarray, " N"]

    def part(self, start: int, stop: int) -> "Spans":
        """Some consecutive pieces."""
        return Spans(self.starts[start:stop], self.ends[start:stop])

    def taken(self, which: np.ndarray) -> "Spans":
        """Some pieces, by their numbers or flags."""
        return Spans(self.starts[which], self.ends[which])

    def replaced(self, rows: np.ndarray, new: "Spans") -> "Spans":
        """A copy with some pieces that are elsewhere in the buffer."""
        starts = self.starts.astype(new.starts.dtype)
        ends = self.ends.astype(new.ends.dtype)
        starts[rows], ends[rows] = new
        return Spans(starts, ends)


def index_type(n_bytes: int) -> type[np.signedinteger]:
    """The smallest integer type that counts the bytes of a buffer: there are two per cell."""
    return np.int32 if n_bytes < 2**31 else np.int64


def span_bytes(data: UInt8[np.ndarray, " B"], spans: Spans) -> list[bytes]:
    """The bytes of each piece."""
    view = data.data
    pairs = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return [bytes(view[start:end]) for start, end in pairs]


def appended(
    data: UInt8[np.ndarray, " B"], pieces: Sequence[bytes]
) -> tuple[UInt8[np.ndarray, " C"], Spans]:
    """A longer buffer, and where the new pieces are in it."""
    lengths = np.fromiter(map(len, pieces), dtype=np.int64, count=len(pieces))
    ends = len(data) + np.cumsum(lengths)
    longer = np.concatenate([data, np.frombuffer(b"".join(pieces), dtype=np.uint8)])
    small = index_type(len(longer))
    return longer, Spans((ends - lengths).astype(small), ends.astype(small))


def pasted(data: UInt8[np.ndarray, " B"], columns: Sequence[Spans]) -> bytes:
    """All pieces, row after row: the first of each column, the second of each, ..."""
    starts = np.stack([spans.starts for spans in columns], axis=1).reshape(-1).astype(np.int64)
    lengths = np.stack([s.ends - s.starts for s in columns], axis=1).reshape(-1)
    # The bytes of piece i are at starts[i] + 0, 1, 2, ...: one range over all, shifted by piece.
    before = np.cumsum(lengths, dtype=np.int64) - lengths
    places = np.repeat(starts - before, lengths)
    places += np.arange(len(places))
    return data[places].tobytes()
