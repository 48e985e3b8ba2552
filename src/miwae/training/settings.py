"""How to train: numbers and names, checked once."""

from dataclasses import dataclass

from miwae.arrays import require_at_least
from miwae.errors import SettingsError
from miwae.inference.bounds import BOUNDS
from miwae.inference.gradients import ESTIMATORS

__all__ = ["TrainingSettings"]


@dataclass(frozen=True, kw_only=True)
class TrainingSettings:
    """Everything that decides a training run besides the data, the model and the key.

    Attributes:
        objective: the bound: "miwae", or "mvae" for the mean of one-sample bounds.
        estimator: of the gradient: "dreg", "path" or "standard".
        trained: "all", or "amortizer" to keep the generative model as it is.
        n_samples: K, codes per row and step.
        shards: parts that a batch is decoded in, whose programs do not depend on each other: XLA's
            CPU runtime then runs them on two cores, where it leaves one idle on matrices of this
            size. A setting, not the number of the machine's cores, so that results do not depend
            on where they are computed.
        devices: over how many devices the shards of a batch are spread, each with a copy of the
            model; `shards` has to be a multiple. The numbers are those of one device, but for
            rounding.
        batch_size: rows per step; at most the number of rows is used.
        max_steps: gradient steps in all.
        max_seconds: stop at the next evaluation after this time (less what `finish` will need),
            None for no limit.
        optimizer: "adam", or "adamw" with `weight_decay` on the weights of dense networks.
        learning_rate: its largest value.
        schedule: "constant", or "cosine" down to zero at `max_steps`.
        warmup_steps: of linear growth before the schedule.
        weight_decay: for "adamw".
        clip: largest norm of the gradient.
        input_dropout: share of the observed cells that are hidden from the encoder in a step, each
            time others; the bound still counts them.
        averaging: the result is an average of the weights over the last steps, each step's share
            smaller than the next one's by this factor (0.99: about a hundred steps); 0 for the
            last weights.
        evaluate_every: steps per compiled chunk; between chunks come evaluation, checkpoint and
            callback.
        evaluate_growth: chunks grow to this share of the steps taken so far, so that a run that
            is over soon is judged often, and a long one not too often.
        held_out: share of the observed cells masked again to judge the model by; 0 for none.
        monitor: what decides on the held-out cells: "log_density", or "error" (mean squared error
            of the conditional means).
        patience: evaluations without improvement before training stops, None for no early
            stopping.
        min_improvement: by which fraction of the best value the monitor has to improve to count: a
            noisy one always finds "a new best".
        finish: after the last evaluation, training goes on from the best state with the held-out
            cells among the others, for this share of the steps that led there; 0 for not at all.
        evaluation_rows: at most so many rows with held-out cells are evaluated.
        evaluation_samples: codes per row in an evaluation.
        hasty: compile sooner, and take slightly longer steps: for runs of seconds.
        max_rollbacks: how often a run that meets NaN or diverges goes back to its last good state,
            with half the step, before it gives up.
        divergence: nats per observed cell below the best chunk so far that count as divergence; no
            single row counts with less than -100 a cell.
    """

    objective: str = "miwae"
    estimator: str = "dreg"
    trained: str = "all"
    n_samples: int = 20
    shards: int = 2
    devices: int = 1
    batch_size: int = 64
    max_steps: int = 2_000
    max_seconds: float | None = None
    optimizer: str = "adam"
    learning_rate: float = 1e-3
    schedule: str = "constant"
    warmup_steps: int = 0
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
    evaluation_rows: int = 1024
    evaluation_samples: int = 100
    hasty: bool = False
    max_rollbacks: int = 3
    divergence: float = 10.0

    def __post_init__(self) -> None:
        require_at_least(
            1,
            n_samples=self.n_samples,
            shards=self.shards,
            devices=self.devices,
            batch_size=self.batch_size,
            max_steps=self.max_steps,
            evaluate_every=self.evaluate_every,
            evaluation_rows=self.evaluation_rows,
            evaluation_samples=self.evaluation_samples,
        )
        require_at_least(0, warmup_steps=self.warmup_steps, max_rollbacks=self.max_rollbacks)
        _require_one_of(tuple(BOUNDS), objective=self.objective)
        _require_one_of(("all", "amortizer"), trained=self.trained)
        _require_one_of(ESTIMATORS, estimator=self.estimator)
        _require_one_of(("adam", "adamw"), optimizer=self.optimizer)
        _require_one_of(("constant", "cosine"), schedule=self.schedule)
        _require_one_of(("log_density", "error"), monitor=self.monitor)
        if self.shards % self.devices:
            raise SettingsError(
                f"shards ({self.shards}) must be a multiple of devices ({self.devices})"
            )
        if not 0 <= self.held_out < 1:
            raise SettingsError(f"held_out must be in [0, 1), not {self.held_out}")
        if not 0 <= self.input_dropout < 1:
            raise SettingsError(f"input_dropout must be in [0, 1), not {self.input_dropout}")
        if not self.evaluate_growth >= 0:
            raise SettingsError(f"evaluate_growth must be at least 0, not {self.evaluate_growth}")
        if not self.finish >= 0:
            raise SettingsError(f"finish must be at least 0, not {self.finish}")
        if self.finish > 0 and self.schedule != "constant":
            raise SettingsError("finish goes on at the constant rate: it needs that schedule")
        if not 0 <= self.averaging < 1:
            raise SettingsError(f"averaging must be in [0, 1), not {self.averaging}")
        if not self.learning_rate > 0:
            raise SettingsError(f"learning_rate must be positive, not {self.learning_rate}")
        if not self.clip > 0:
            raise SettingsError(f"clip must be positive, not {self.clip}")
        if not self.divergence > 0:
            raise SettingsError(f"divergence must be positive, not {self.divergence}")
        if not self.min_improvement >= 0:
            raise SettingsError(f"min_improvement must be at least 0, not {self.min_improvement}")
        if self.max_seconds is not None and not self.max_seconds >= 0:
            raise SettingsError(f"max_seconds must be at least 0 or None, not {self.max_seconds}")
        if self.patience is not None:
            require_at_least(1, patience=self.patience)


def _require_one_of(names: tuple[str, ...], **settings: str) -> None:
    for setting, value in settings.items():
        if value not in names:
            raise SettingsError(f"{setting} must be one of {', '.join(names)}, not {value!r}")
