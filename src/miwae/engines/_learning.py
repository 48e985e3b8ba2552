"""A model learned from the parts of a table: one exact pass, and a uniform sample of its rows."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from miwae import frames
from miwae._arrays import require_at_least
from miwae._words import counted
from miwae.columns import TIMES, Column, Overview, Schema, infer_schema
from miwae.documents import MANY_ROWS
from miwae.errors import DataError
from miwae.events import Event
from miwae.tabular import EncodedTable, FittedTable, TableSettings

# Rows that a model is trained on, at most: training visits 960,000, each several times. With more
# rows than a fraction of that each would be visited hardly more than once.
SAMPLE_ROWS = MANY_ROWS


class Parts(NamedTuple):
    """What is known of the parts of a table after one pass."""

    overview: Overview
    arrow: bytes  # the types of the columns, those of all parts united
    first: Any  # the first row, as a frame

    @property
    def n_missing(self) -> list[int]:
        """Of each column."""
        return [order.n_missing for order in self.overview.orders]

    def followed_by(self, other: "Parts") -> "Parts":
        """What is known of both, of which the other comes after this one."""
        overview = self.overview.followed_by(other.overview)
        return Parts(overview, _united(self.arrow, other.arrow), self.first)


def batches_of(source: Any) -> Iterator[Any]:
    """Frames, from any source of them; record batches become tables.

    A source is an iterable, one frame, a data set of pyarrow, a lazy frame of polars, or has a
    stream of Arrow.
    """
    if _is_frame(source):
        batches = iter([source])
    elif hasattr(source, "to_batches"):
        batches = iter(source.to_batches())
    elif hasattr(source, "collect_batches"):
        batches = iter(source.collect_batches(maintain_order=True))
    elif hasattr(source, "__arrow_c_stream__"):
        batches = iter(pa.RecordBatchReader.from_stream(source))
    else:
        batches = iter(source)
    for batch in batches:
        yield pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch


def _is_frame(source: Any) -> bool:
    try:
        frames.names(source)
    except DataError:
        return False
    return True


def gathered(
    batches: Iterable[Any],
    *,
    seed: int,
    marks: tuple[Any, ...] = (),
    sample_rows: int | None = None,
    callback: Callable[[int], None] | None = None,
) -> Parts:
    """Go once through the parts of a table, which may have their columns in another order.

    The callback gets the number of rows so far.

    Raises:
        DataError: there is no row, or a part has other columns, or another type of them.
    """
    known = {"seed": seed, "marks": marks, "sample_rows": sample_rows, "callback": callback}
    return complete_parts(gathered_from(batches, 0, **known))


def complete_parts(found: Parts | None) -> Parts:
    """What is known of a table, which must have a row."""
    if found is None:
        raise DataError("there is nothing to learn from: the parts have no rows")
    return found


def gathered_from(
    batches: Iterable[Any],
    first_row: int,
    *,
    seed: int,
    marks: tuple[Any, ...] = (),
    sample_rows: int | None = None,
    names: Sequence[str] = (),
    callback: Callable[[int], None] | None = None,
) -> Parts | None:
    """What is known of some rows of a table, which begin at this one; None without any.

    The columns are put in the order of `names`; by default in that of the first part.
    """
    known = _of_columns(_understood(batches, marks, names), first_row, seed, sample_rows)
    return _last(known, callback)


def gathered_columns(
    readings: Iterable[Any], *, seed: int, callback: Callable[[int], None] | None = None
) -> Parts:
    """Go once through the parts of a document, whose columns have been read."""
    parts = ((own.columns, own.arrow_schema(), None) for own in readings)
    return complete_parts(_last(_of_columns(parts, 0, seed, None), callback))


def _understood(
    batches: Iterable[Any], marks: tuple[Any, ...], names: Sequence[str]
) -> Iterator[tuple[Sequence[Column], bytes, Any]]:
    """The columns of each part, their types, and its first row."""
    for batch in batches:
        names = names or frames.names(batch)
        frame = _in_order(batch, names)
        if frames.n_rows(frame):
            columns = frames.columns(frame, marks)
            yield columns, frames.arrow_schema(columns, frame), frame[:1]


def _of_columns(
    parts: Iterable[tuple[Sequence[Column], bytes, Any]],
    first_row: int,
    seed: int,
    sample_rows: int | None,
) -> Iterator[Parts]:
    """What is known after each part."""
    most = SAMPLE_ROWS if sample_rows is None else sample_rows
    require_at_least(1, sample_rows=most)
    found, row = None, first_row
    for columns, arrow, first in parts:
        own = Parts(Overview.of(columns, row, seed=seed, most=most), arrow, first)
        found, row = own if found is None else found.followed_by(own), row + own.overview.n_rows
        yield found


def _last(found: Iterable[Parts], callback: Callable[[int], None] | None) -> Parts | None:
    last = None
    for last in found:
        if callback is not None:
            callback(last.overview.n_rows)
    return last


def united(one: Parts | None, other: Parts | None) -> Parts | None:
    """What is known of rows, and of those that come after them."""
    if one is None or other is None:
        return one or other
    return one.followed_by(other)


def _in_order(frame: Any, names: Sequence[str]) -> Any:
    own = frames.names(frame)
    if own == tuple(names):
        return frame
    if sorted(own) != sorted(names):
        raise DataError(
            f"a part has the columns {', '.join(own)}, but the first has {', '.join(names)}: give "
            "all parts the same columns"
        )
    return frames.keep(frame, [own.index(name) for name in names])


def _united(before: bytes, more: bytes) -> bytes:
    """Types that hold the values of both; what cannot be united is as it was first."""
    if before == more:
        return before
    read = lambda own: pa.ipc.read_schema(pa.BufferReader(own))  # noqa: E731
    known, new = read(before), read(more)
    fields = []
    for field in known:
        try:
            united = pa.unify_schemas(
                [pa.schema([field]), pa.schema([new.field(field.name)])],
                promote_options="permissive",
            )
        except pa.ArrowException:
            united = pa.schema([field])
        fields.append(united.field(0))
    return pa.schema(fields).serialize().to_pybytes()


def inferred(parts: Parts, asked: Mapping[str, Any]) -> tuple[Schema, tuple[Column, ...]]:
    """The kinds of the columns, known from all rows, and the sample."""
    overview, sample = parts.overview, parts.overview.sample()
    known = {"summaries": overview.summaries, "orders": overview.orders}
    schema = infer_schema(sample, **asked, **known)
    for column, summary, order in zip(schema.columns, *known.values(), strict=True):
        n_infinite = order.n_rows - order.n_missing - summary.n_observed
        if column.kind.modelled and column.storage in ("number", *TIMES) and n_infinite:
            raise DataError(
                f"column {column.name!r} has {counted(n_infinite, 'infinite value')}: only finite "
                "numbers can be modelled; correct them, or mark them as missing"
            )
    return schema, sample


def learned(
    parts: Parts,
    settings: TableSettings,
    *,
    asked: Mapping[str, Any],
    marks: tuple[Any, ...] = (),
    zeros_if_empty: bool = False,
    **work: Any,
) -> FittedTable:
    """Learn from the sample; `asked` is what the user says to `infer_schema`."""
    schema, sample = inferred(parts, asked)
    table = EncodedTable.of(schema, sample, zeros_if_empty=zeros_if_empty)
    fitted = FittedTable.fit(table, settings, marks=marks, arrow=parts.arrow, **work)
    overview = parts.overview
    if overview.n_sampled == overview.n_rows:
        return fitted
    text = (
        f"learned from {overview.n_sampled:,} rows, a uniform sample of {overview.n_rows:,}; "
        "kinds, levels and ranges are those of all rows"
    )
    event = Event("rows", None, overview.n_rows - overview.n_sampled, text)
    incomplete = np.flatnonzero(parts.n_missing).tolist()
    return replace(fitted, incomplete=tuple(incomplete), events=(*fitted.events, event))
