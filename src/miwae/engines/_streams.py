"""Streams of batches, completed one after the other."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any

import pyarrow as pa

from miwae import frames
from miwae.engines._learning import batches_of
from miwae.engines._worker import Worker
from miwae.events import Event
from miwae.tabular import FittedTable


def completed_stream(
    batches: Any,
    fitted: FittedTable,
    extra: Mapping[str, Any],
    of_frame: Callable[[Any], Any],
    remember: Callable[[Sequence[Event]], None],
) -> Iterator[Any]:
    """Tables of Arrow completed by a worker, other frames by a function of each."""
    worker = Worker(fitted, extra)
    for is_arrow, group in groupby(batches_of(batches), lambda batch: isinstance(batch, pa.Table)):
        if not is_arrow:
            yield from (of_frame(own) if frames.n_rows(own) else own for own in group)
            continue
        for part in worker.stream(group):
            remember(part.events)
            yield part.table
