"""How large a model is and how it is trained, where the user has not said it."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool

from miwae._arrays import require_at_least
from miwae.training import TrainingSettings

# Steps between evaluations of held-out cells, at first and as a share of the steps so far, and how
# many may pass without improvement: 250 steps at least, later as many again as were needed.
EVALUATE_EVERY, EVALUATE_GROWTH = 25, 0.1
PATIENCE = 10

# Steps that are worth a longer compilation.
LONG_RUN = 2_000

# Held-out cells are learned from at last, for this share of the steps that led to the best state.
FINISH = 0.3

# Steps for the amortizer alone, at last.
POLISH = 500

# Rows below which a step takes half as many of them.
SMALL_TABLE = 500

# Twice the optimiser's usual rate: averaged weights bear it, and get further in as many steps.
LEARNING_RATE = 2e-3

# Of weights over steps: about the last two hundred.
AVERAGING = 0.995


@dataclass(frozen=True, kw_only=True)
class TableSettings:
    """How a table is learned and imputed, whatever its columns are."""

    n_latent: int = 10  # dimension of the latent variable of a row
    n_hidden: int = 128  # units per hidden layer
    n_layers: int = 3  # hidden layers of encoder and decoder
    batch_size: int | None = None  # rows per training step; None for as many as suit the table
    n_samples: int = 5  # K, latent samples per row in training
    n_imputation_samples: int = 2_000  # latent samples per row in imputation, at most
    max_steps: int | None = None  # training steps, at most; None for as many as the table is worth
    # Hold a few observed cells out and stop when they are predicted no better.
    early_stopping: bool = True
    objective: str = "miwae"  # "miwae", or "mvae" for the looser bound
    n_models: int = 2  # how many models are fitted and averaged
    bootstrap: bool = False  # fit each model to a bootstrap sample of the rows
    seed: int = 0  # of all random numbers

    def __post_init__(self) -> None:
        require_at_least(
            1,
            n_imputation_samples=self.n_imputation_samples,
            n_models=self.n_models,
            n_latent=self.n_latent,
            n_hidden=self.n_hidden,
        )
        require_at_least(0, n_layers=self.n_layers, seed=self.seed)


def training_settings(
    settings: TableSettings, observed: Bool[np.ndarray, "N D"]
) -> TrainingSettings:
    """How to train on so many cells, where the user has not said it.

    The learning rate stays as it is and weights are averaged, so that the end of training need not
    be known beforehand: held-out cells tell it (docs/accuracy.md).
    """
    n_cells = max(int(observed.sum()), 1)
    steps = _most_steps(n_cells) if settings.max_steps is None else settings.max_steps
    batch_size = settings.batch_size
    held_out = float(np.clip(500 / n_cells, 0.05, 0.2)) if settings.early_stopping else 0.0
    return TrainingSettings(
        objective=settings.objective,
        n_samples=settings.n_samples,
        batch_size=_usual_batch(len(observed)) if batch_size is None else batch_size,
        max_steps=steps,
        learning_rate=LEARNING_RATE,
        averaging=AVERAGING,
        evaluate_every=min(EVALUATE_EVERY, max(steps // 4, 1)),
        evaluate_growth=EVALUATE_GROWTH,
        evaluation_rows=512,
        evaluation_samples=64,
        held_out=held_out,
        patience=PATIENCE if settings.early_stopping else None,
        finish=FINISH if settings.early_stopping else 0.0,
        polish=min(POLISH, steps),
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
