"""A fitted table applied to the parts of a table that is too large for one process."""

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
