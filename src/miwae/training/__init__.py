"""How a model is fitted: settings, runs on arrays and on streams, results."""

from miwae.training._checkpoint import DAMAGE, load_header, load_tree, require_finite, save_tree
from miwae.training._history import TrainingProgress, TrainingRecord, TrainingResult, Unseen
from miwae.training._holdout import Evaluation
from miwae.training._loop import fit, refit_amortizer
from miwae.training._programs import compilation_time
from miwae.training._settings import TrainingSettings
from miwae.training._state import TrainingState, initial_state
from miwae.training._stream import fit_stream

__all__ = [
    "DAMAGE",
    "Evaluation",
    "TrainingProgress",
    "TrainingRecord",
    "TrainingResult",
    "TrainingSettings",
    "TrainingState",
    "Unseen",
    "compilation_time",
    "fit",
    "fit_stream",
    "initial_state",
    "load_header",
    "load_tree",
    "refit_amortizer",
    "require_finite",
    "save_tree",
]
