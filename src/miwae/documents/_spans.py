"""Pieces of a buffer of bytes, known by their positions: no file is copied cell by cell."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
from jaxtyping import Int, UInt8

__all__ = ["Spans", "index_type", "span_bytes", "spliced"]


class Spans(NamedTuple):
    """Pieces of a buffer: the i-th is `buffer[starts[i]:ends[i]]`."""

    starts: Int[np.ndarray, " N"]
    ends: Int[np.ndarray, " N"]

    def part(self, start: int, stop: int | None) -> "Spans":
        """Some consecutive pieces."""
        return Spans(self.starts[start:stop], self.ends[start:stop])

    def taken(self, which: np.ndarray) -> "Spans":
        """Some pieces, by their numbers or flags."""
        return Spans(self.starts[which], self.ends[which])


def index_type(n_bytes: int) -> type[np.signedinteger]:
    """The smallest integer type that counts the bytes of a buffer: there are two per cell."""
    return np.int32 if n_bytes < 2**31 else np.int64


def span_bytes(data: UInt8[np.ndarray, " B"], spans: Spans) -> list[bytes]:
    """The bytes of each piece."""
    view = data.data
    pairs = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return [bytes(view[start:end]) for start, end in pairs]


def spliced(
    data: UInt8[np.ndarray, " B"], changes: Iterable[tuple[Spans, Sequence[bytes]]]
) -> bytes:
    """The buffer with some pieces replaced by others, and all other bytes as they are."""
    new = [
        place
        for spans, pieces in changes
        for place in zip(spans.starts.tolist(), spans.ends.tolist(), pieces, strict=True)
    ]
    view, out, done = data.data, [], 0
    for start, end, piece in sorted(new):
        out += [view[done:start], piece]
        done = end
    return b"".join([*out, view[done:]])
