"""How large a model is and how it is trained, where the user has not said it."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from jaxtyping import Bool

from miwae._arrays import require_at_least
from miwae.errors import SettingsError
from miwae.inference import BOUNDS
from miwae.training import TrainingSettings

# Steps between evaluations of held-out cells, at first and as a share of the steps so far, and how
# many may pass without improvement: 250 steps at least, later as many again as were needed.
EVALUATE_EVERY, EVALUATE_GROWTH = 25, 0.1
PATIENCE = 10

# Held-out cells are learned from at last, for this share of the steps that led to the best state.
FINISH = 0.3

# Rows below which a step takes half as many of them, and half as many steps train and polish
# (experiments/small.py).
SMALL_TABLE = 500

# Steps for the amortizer alone, at last.
POLISH, POLISH_OF_FEW = 500, 250

# Twice the optimiser's usual rate: averaged weights bear it, and get further in as many steps.
LEARNING_RATE = 2e-3

# Latent samples per row: more would need gigabytes for a single row.
MOST_SAMPLES = 1_000_000

# Of weights over steps: about the last two hundred.
AVERAGING = 0.995

# Rows, and rows per column, from which on a model does not overfit: then a fixed number of steps
# whose size falls to zero is faster and as accurate (diary.md), and bears a larger rate.
LARGE_TABLE, LARGE_PER_COLUMN = 4_000, 100
ANNEALED_STEPS, ANNEALED_RATE = 4_000, 4e-3
EVALUATIONS = 20  # of such a run
HELD_OUT_OF_MANY = 1_000  # cells, enough to judge each column by


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
        if self.objective not in BOUNDS:
            words = ", ".join(BOUNDS)
            raise SettingsError(f"objective must be one of {words}, not {self.objective!r}")
        if self.n_imputation_samples > MOST_SAMPLES:
            raise SettingsError(
                f"n_imputation_samples must be at most {MOST_SAMPLES}, not "
                f"{self.n_imputation_samples}: more than that does not fit into memory"
            )


def training_settings(
    settings: TableSettings, observed: Bool[np.ndarray, "N D"]
) -> TrainingSettings:
    """How to train on so many cells, where the user has not said it (experiments/diary.md)."""
    n_cells = max(int(observed.sum()), 1)
    n_columns = int(observed.any(axis=0).sum())  # without those that pad the table
    least = max(LARGE_TABLE, LARGE_PER_COLUMN * n_columns)
    large = settings.early_stopping and len(observed) >= least
    steps = settings.max_steps
    if steps is None:
        steps = _annealed_steps(n_cells) if large else _most_steps(n_cells, len(observed))
    own = _annealed(steps, n_cells) if large else _stopped_early(settings, steps, n_cells)
    batch_size = settings.batch_size
    return TrainingSettings(
        objective=settings.objective,
        n_samples=settings.n_samples,
        batch_size=_usual_batch(len(observed)) if batch_size is None else batch_size,
        averaging=AVERAGING,
        evaluation_rows=512,
        evaluation_samples=64,
        max_steps=steps,
        polish=min(_polish(len(observed)), steps),
        **own,
    )


def _annealed(steps: int, n_cells: int) -> dict[str, Any]:
    """With a rate that falls to zero at the last step."""
    return {
        "learning_rate": ANNEALED_RATE,
        "annealed": True,
        "evaluate_every": max(steps // EVALUATIONS, 1),
        "held_out": min(HELD_OUT_OF_MANY / n_cells, 0.05),
        "patience": None,
        "min_improvement": 0.0,
    }


def _stopped_early(settings: TableSettings, steps: int, n_cells: int) -> dict[str, Any]:
    """Until held-out cells no longer improve, if the user has not turned that off.

    The rate stays as it is and weights are averaged: the end need not be known beforehand.
    """
    stopping = {
        "held_out": float(np.clip(500 / n_cells, 0.05, 0.2)),
        "patience": PATIENCE,
        "finish": FINISH,
    }
    return {
        "learning_rate": LEARNING_RATE,
        "evaluate_every": min(EVALUATE_EVERY, max(steps // 4, 1)),
        "evaluate_growth": EVALUATE_GROWTH,
        **(stopping if settings.early_stopping else {"patience": None}),
    }


def _annealed_steps(n_cells: int) -> int:
    """Of several hundred thousand cells there is more to learn."""
    return int(ANNEALED_STEPS * np.clip(np.sqrt(n_cells / 300_000), 1, 3.75))


def _most_steps(n_cells: int, n_rows: int) -> int:
    """Enough for held-out cells to stop most runs before; large tables can use still more."""
    small = 2 * n_cells if n_rows < SMALL_TABLE else 4 * n_cells
    large = 24 * np.sqrt(n_cells)
    most = 12_000 if n_cells < 10_000 else 4_000  # imputing many rows takes its time as well
    return int(max(np.clip(small, 500, most), min(large, 15_000)))


def _polish(n_rows: int) -> int:
    return POLISH_OF_FEW if n_rows < SMALL_TABLE else POLISH


def _usual_batch(n_rows: int) -> int:
    """Of few rows, fewer in a step: as accurate, and faster."""
    return 32 if n_rows < SMALL_TABLE else 64
