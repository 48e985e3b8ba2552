"""A table learned from its parts, and a fitted table applied to the parts of a large one."""

from miwae.engines._large import AbstractLarge, LargeCsv, LargeParquet
from miwae.engines._learning import (
    Parts,
    batches_of,
    complete_parts,
    gathered,
    gathered_from,
    learned,
    united,
)
from miwae.engines._parts import PART_ROWS, Outcome, Part, complete_part, outcome_of, parts_of
from miwae.engines._runs import Run, digest_of
from miwae.engines._streams import completed_stream
from miwae.engines._worker import Worker

__all__ = ["Worker"]  # what other engines need; the rest is for `miwae.dask`
