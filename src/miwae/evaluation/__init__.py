"""How good imputations are: hidden cells, metrics, other imputers, and experiments with them."""

from miwae.evaluation import _metrics as metrics
from miwae.evaluation import peers
from miwae.evaluation._amputation import MECHANISMS, ampute
from miwae.evaluation._protocol import (
    Completed,
    Experiment,
    hidden_cells,
    in_sample,
    key_of,
    new_rows,
)
from miwae.evaluation._tables import Standing, Summary, as_matrix, standings, summarise

__all__ = [
    "MECHANISMS",
    "Completed",
    "Experiment",
    "Standing",
    "Summary",
    "ampute",
    "as_matrix",
    "hidden_cells",
    "in_sample",
    "key_of",
    "metrics",
    "new_rows",
    "peers",
    "standings",
    "summarise",
]
