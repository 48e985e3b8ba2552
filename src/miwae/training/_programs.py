"""The compiled training program: which runs share one, and how long it takes to compile."""

import functools
from collections.abc import Callable

from miwae._arrays import padded_size
from miwae._compilation import seconds_to_compile
from miwae.inference import conditional_mean
from miwae.model import Autoencoder
from miwae.training._settings import TrainingSettings
from miwae.training._steps import Advanced, advance

FEWEST_ROWS = 512  # tables of fewer rows share a program

# Settings that the compiled program of a step depends on.
_STRUCTURE = (
    *("objective", "estimator", "n_samples", "batch_size", "optimizer", "learning_rate", "clip"),
    *("schedule", "warmup_steps", "weight_decay", "input_dropout", "averaging"),
)


def n_padded(n_rows: int) -> int:
    """Rows of the arrays that the program gets."""
    return padded_size(max(n_rows, FEWEST_ROWS))


def _structure_of(settings: TrainingSettings) -> TrainingSettings:
    names = _STRUCTURE if settings.schedule == "constant" else (*_STRUCTURE, "max_steps")
    return TrainingSettings(**{name: getattr(settings, name) for name in names})


def compiled_for(
    autoencoder: Autoencoder, n_rows: int, settings: TrainingSettings
) -> tuple[object, ...]:
    """What decides whether two runs share a training program."""
    return autoencoder, n_padded(n_rows), _structure_of(settings)


def compilation_time(autoencoder: Autoencoder, n_rows: int, settings: TrainingSettings) -> float:
    """Predicted time until the first step, and until a first row is sampled."""
    estimand = conditional_mean(autoencoder.generative.observation)
    sampling = seconds_to_compile("sampling", autoencoder, estimand)
    training = seconds_to_compile("training", *compiled_for(autoencoder, n_rows, settings))
    return sampling + training


def training_program(settings: TrainingSettings) -> Callable[..., Advanced]:
    """The compiled training program, shared by all runs that can share one."""
    return functools.partial(advance, settings=_structure_of(settings))
