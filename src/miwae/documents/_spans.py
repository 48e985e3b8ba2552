"""Pieces of a buffer of bytes, known by their positions: no file is copied cell by cell."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int, UInt8

Bytes: TypeAlias = UInt8[np.ndarray, " B"]
Places: TypeAlias = Int[np.ndarray, " N"]


class Spans(NamedTuple):
    """Pieces of a buffer: the i-th is `buffer[starts[i]:ends[i]]`."""

    starts: Places
    ends: Places

    def taken(self, which: np.ndarray | slice) -> "Spans":
        return Spans(self.starts[which], self.ends[which])


def span_bytes(data: Bytes, spans: Spans) -> list[bytes]:
    view = data.data
    pairs = zip(spans.starts.tolist(), spans.ends.tolist(), strict=True)
    return [bytes(view[start:end]) for start, end in pairs]


def spliced(data: Bytes, changes: Iterable[tuple[Spans, Sequence[bytes]]]) -> bytes:
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
