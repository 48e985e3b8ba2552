"""A table known from its parts: exact summaries, and a uniform sample of its rows.

Both are the same however the rows are cut into parts, and parts can be merged in any grouping.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, final

import numpy as np
from jaxtyping import Int, UInt64

from miwae.columns._column import Column
from miwae.columns._order import RowOrder
from miwae.columns._parts import joined, taken, unlike
from miwae.columns._summary import Summary, summarise

# Samples are joined once there are so many pieces of them, or so many times the rows wanted.
MOST_PIECES, MOST_SURPLUS = 64, 1.5


class _Piece(NamedTuple):
    """Some rows that may be part of the sample: those of the smallest priorities will be."""

    priorities: UInt64[np.ndarray, " N"]
    rows: Int[np.ndarray, " N"]  # their place in the whole table
    columns: tuple[Column, ...]

    def below(self, limit: int) -> "_Piece":
        chosen = np.flatnonzero(self.priorities <= np.uint64(limit))
        if len(chosen) == len(self.rows):
            return self
        columns = tuple(taken(column, chosen) for column in self.columns)
        return _Piece(self.priorities[chosen], self.rows[chosen], columns)


@final
@dataclass(frozen=True, kw_only=True)
class Overview:
    """What learning needs of a table that nobody holds as a whole."""

    seed: int  # decides which rows are sampled
    most: int  # rows of the sample
    n_rows: int
    summaries: tuple[Summary, ...]
    orders: tuple[RowOrder, ...]
    pieces: tuple[_Piece, ...]
    limit: int = 2**64 - 1  # no row of a larger priority is part of the sample

    @classmethod
    def of(cls, columns: Sequence[Column], first_row: int, *, seed: int, most: int) -> "Overview":
        """The overview of a part that begins at this row of the table."""
        n_rows = len(columns[0].missing) if columns else 0
        rows = first_row + np.arange(n_rows)
        return cls(
            seed=seed,
            most=most,
            n_rows=n_rows,
            summaries=tuple(map(summarise, columns)),
            orders=tuple(map(RowOrder.of, columns)),
            pieces=(_Piece(_priorities(seed, first_row, n_rows), rows, tuple(columns)),),
        )

    def followed_by(self, other: "Overview") -> "Overview":
        """The overview of both parts, of which the other comes after this one."""
        limit, columns = min(self.limit, other.limit), self.pieces[0].columns
        return replace(
            self,
            n_rows=self.n_rows + other.n_rows,
            summaries=tuple(map(_merged, columns, self.summaries, other.summaries)),
            orders=tuple(map(RowOrder.followed_by, self.orders, other.orders)),
            pieces=(*self.pieces, *(piece.below(limit) for piece in other.pieces)),
            limit=limit,
        )._compact()

    def sample(self) -> tuple[Column, ...]:
        """The sampled rows, in the order of the table: all of them, if they are few enough."""
        rows, columns = self._sampled().pieces[0][1:]
        return tuple(replace(column, place=lambda i: f"row {rows[i]}") for column in columns)

    @property
    def n_sampled(self) -> int:
        return min(self.n_rows, self.most)

    def _compact(self) -> "Overview":
        n_held = sum(len(piece.rows) for piece in self.pieces)
        few = n_held <= MOST_SURPLUS * self.most and len(self.pieces) <= MOST_PIECES
        return self if few else self._sampled()

    def _sampled(self) -> "Overview":
        """The same with the sample so far, and no other rows, in a single piece."""
        held = np.concatenate([piece.priorities for piece in self.pieces])
        limit = self.limit
        if len(held) > self.most:
            limit = int(np.partition(held, self.most - 1)[self.most - 1])
        pieces = [piece.below(limit) for piece in self.pieces]
        columns = zip(*(piece.columns for piece in pieces), strict=True)
        rows = np.concatenate([piece.rows for piece in pieces])
        kept = np.concatenate([piece.priorities for piece in pieces])
        return replace(
            self, pieces=(_Piece(kept, rows, tuple(map(joined, columns))),), limit=limit
        )


def _merged(column: Column, one: Summary, other: Summary) -> Summary:
    if one.storage != other.storage and one.n_observed and other.n_observed:
        raise unlike(column.name, one.storage, other.storage)
    return one.merged(other)


def _priorities(seed: int, first_row: int, n_rows: int) -> UInt64[np.ndarray, " N"]:
    """Random numbers that belong to the places of rows: a counter gives four for each count."""
    skipped = first_row % 4
    counter = np.random.Philox(key=seed).advance(first_row // 4)
    return counter.random_raw(skipped + n_rows)[skipped:]
