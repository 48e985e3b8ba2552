"""How a model is fitted: settings, runs on arrays and on streams, results."""

from miwae.training.history import TrainingProgress, TrainingRecord, TrainingResult
from miwae.training.loop import fit, refit_amortizer
from miwae.training.settings import TrainingSettings
from miwae.training.state import TrainingState, initial_state
from miwae.training.stream import fit_stream

__all__ = [
    "TrainingProgress",
    "TrainingRecord",
    "TrainingResult",
    "TrainingSettings",
    "TrainingState",
    "fit",
    "fit_stream",
    "initial_state",
    "refit_amortizer",
]
