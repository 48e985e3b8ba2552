"""How large a model is and how it is trained, where the user has not said it."""

import time
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from miwae.arrays import require_at_least
from miwae.training import TrainingSettings

__all__ = ["Architecture", "remaining", "training_settings"]

# Steps between evaluations of held-out cells, at first and as a share of the steps so far, and how
# many may pass without improvement: 250 steps at least, later as many again as were needed.
EVALUATE_EVERY, EVALUATE_GROWTH = 25, 0.1
PATIENCE = 10

# Steps that are worth a longer compilation.
LONG_RUN = 2_000

# Held-out cells are learned from at last, for this share of the steps that led to the best state.
FINISH = 0.3

# Rows below which a step takes half as many of them.
SMALL_TABLE = 500

# Twice the optimiser's usual rate: averaged weights bear it, and get further in as many steps.
LEARNING_RATE = 2e-3

# Of weights over steps: about the last two hundred.
AVERAGING = 0.995


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The sizes of the networks."""

    n_latent: int = 10
    n_hidden: int = 128
    n_layers: int = 3

    def __post_init__(self) -> None:
        require_at_least(1, n_latent=self.n_latent, n_hidden=self.n_hidden)
        require_at_least(0, n_layers=self.n_layers)


def training_settings(
    observed: Bool[np.ndarray, "N D"],
    *,
    objective: str,
    n_samples: int,
    batch_size: int | None,
    max_steps: int | None,
    early_stopping: bool,
    max_seconds: float | None,
) -> TrainingSettings:
    """How to train on so many cells, where the user has not said it.

    The learning rate stays as it is and weights are averaged, so that the end of training need not
    be known beforehand: held-out cells tell it (docs/accuracy.md).
    """
    n_cells = max(int(observed.sum()), 1)
    steps = _most_steps(n_cells) if max_steps is None else max_steps
    held_out = float(np.clip(500 / n_cells, 0.05, 0.2)) if early_stopping else 0.0
    return TrainingSettings(
        objective=objective,
        n_samples=n_samples,
        batch_size=_usual_batch(len(observed)) if batch_size is None else batch_size,
        max_steps=steps,
        max_seconds=max_seconds,
        learning_rate=LEARNING_RATE,
        averaging=AVERAGING,
        shards=1,  # the other core is at another member of the ensemble
        evaluate_every=min(EVALUATE_EVERY, max(steps // 4, 1)),
        evaluate_growth=EVALUATE_GROWTH,
        evaluation_rows=512,
        evaluation_samples=50,
        held_out=held_out,
        patience=PATIENCE if early_stopping else None,
        finish=FINISH if early_stopping else 0.0,
        hasty=steps < LONG_RUN,
    )


def _most_steps(n_cells: int) -> int:
    """Enough for held-out cells to stop most runs before; large tables can use still more."""
    small, large = 4 * n_cells, 24 * np.sqrt(n_cells)
    most = 12_000 if n_cells < 10_000 else 4_000  # imputing many rows takes its time as well
    return int(max(np.clip(small, 500, most), min(large, 15_000)))


def _usual_batch(n_rows: int) -> int:
    """Of few rows, fewer in a step: as accurate, and faster."""
    return 32 if n_rows < SMALL_TABLE else 64


def remaining(deadline: float | None) -> float | None:
    """Seconds until a deadline."""
    return None if deadline is None else max(deadline - time.monotonic(), 0.0)
