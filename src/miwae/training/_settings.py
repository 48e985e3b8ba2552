"""The settings of a training run, checked when they are made."""

from dataclasses import dataclass, fields

from miwae._arrays import require_at_least
from miwae.errors import SettingsError
from miwae.inference import BOUNDS, ESTIMATORS


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """How to train: everything besides the model, the data and the random key.

    Attributes:
        objective: the bound to maximise: "miwae", or "mvae" for the mean of one-sample bounds.
        estimator: of the gradient: "dreg", "path" or "standard"; see `inference.gradients`.
        trained: "all", or "amortizer" to leave the generative model unchanged.
        n_samples: K, latent samples per row and step.
        batch_size: rows per step; at most the number of rows is used.
        max_steps: number of gradient steps.
        max_seconds: of the run, with compilation; the last part is kept for `finish`. Steps are
            taken only as far as they fit. None for no limit.
        optimizer: "adam", or "adamw" with `weight_decay` on the weights of dense networks.
        learning_rate: the largest learning rate.
        schedule: of the learning rate: "constant", or "cosine", which ends at zero at `max_steps`.
        warmup_steps: steps in which the learning rate grows linearly, before the schedule.
        annealed: let the step size fall to zero from chunk to chunk, along half a cosine, until
            `max_steps` or until the time is up, whichever comes first. Unlike a schedule it needs
            no compilation for each number of steps.
        weight_decay: for "adamw".
        clip: largest norm of the gradient.
        input_dropout: share of the observed cells that are hidden from the encoder, drawn anew in
            each step; the bound still includes them.
        averaging: decay of an exponential moving average of the weights, which is the result
            (0.99 averages about a hundred steps); 0 returns the last weights.
        evaluate_every: steps between evaluations, at least. Each evaluation is followed by a
            checkpoint and a call of the callback.
        evaluate_growth: steps between evaluations as a share of the steps so far, if that is more:
            short runs are evaluated often, long runs not too often.
        held_out: share of the observed cells that training does not see, to evaluate the model
            on; 0 for none.
        monitor: the score of the held-out cells: "log_density", or "error", the mean squared error
            of the conditional means.
        patience: evaluations without improvement after which training stops; None for no early
            stopping.
        min_improvement: relative improvement of the monitor that counts; less may be noise.
        finish: after early stopping, training continues from the best state on all observed cells,
            the held-out ones included, for this share of the steps that led there; 0 skips this.
        polish: steps for the amortizer alone, after all others.
        evaluation_rows: largest number of rows with held-out cells that are evaluated.
        evaluation_samples: latent samples per row in an evaluation.
        max_rollbacks: how often a run that diverges or meets NaN may return to its last good state
            and continue with half the step size; after that it fails.
        divergence: fall of the mean bound below its best, in nats per observed cell, that counts
            as divergence. Each row counts with at least -100 nats per cell.
    """

    objective: str = "miwae"
    estimator: str = "dreg"
    trained: str = "all"
    n_samples: int = 20
    batch_size: int = 64
    max_steps: int = 2_000
    max_seconds: float | None = None
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
    annealed: bool = False
    weight_decay: float = 1e-4
    clip: float = 5.0
    input_dropout: float = 0.0
    averaging: float = 0.0
    evaluate_every: int = 200
    evaluate_growth: float = 0.0
    held_out: float = 0.0
    monitor: str = "log_density"
    patience: int | None = 10
    min_improvement: float = 1e-3
    finish: float = 0.0
    polish: int = 0
    evaluation_rows: int = 1024
    evaluation_samples: int = 100
    max_rollbacks: int = 3
    divergence: float = 10.0

    def __post_init__(self) -> None:
        for name, names in _CHOICES.items():
            if (value := getattr(self, name)) not in names:
                raise SettingsError(f"{name} must be one of {', '.join(names)}, not {value!r}")
        for name in [field.name for field in fields(self) if field.type is int]:
            require_at_least(0 if name in _MAY_BE_ZERO else 1, **{name: getattr(self, name)})
        if self.patience is not None:
            require_at_least(1, patience=self.patience)
        for what, (holds, names) in _RANGES.items():
            for name in names:
                if not holds(value := getattr(self, name)):  # NaN is in no range
                    raise SettingsError(f"{name} must be {what}, not {value}")
        if self.finish > 0 and self.schedule != "constant":
            raise SettingsError("finish continues at a constant rate: use schedule='constant'")


_CHOICES = {
    "objective": tuple(BOUNDS),
    "estimator": ESTIMATORS,
    "trained": ("all", "amortizer"),
    "optimizer": ("adam", "adamw"),
    "schedule": ("constant", "cosine"),
    "monitor": ("log_density", "error"),
}

_MAY_BE_ZERO = ("warmup_steps", "max_rollbacks", "polish")

_RANGES = {
    "in [0, 1)": (lambda a: 0 <= a < 1, ("held_out", "input_dropout", "averaging")),
    "positive": (lambda a: a > 0, ("learning_rate", "clip", "divergence")),
    "at least 0": (lambda a: a >= 0, ("evaluate_growth", "finish", "min_improvement")),
    "at least 0 or None": (lambda a: a is None or a >= 0, ("max_seconds",)),
}
