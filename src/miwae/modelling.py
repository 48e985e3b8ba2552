"""The model behind a table: built from its schema, fitted to its arrays, asked for imputations."""

import dataclasses
import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple, TypeVar

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from miwae.arrays import require_at_least
from miwae.inference.imputation import impute_multiple, impute_single, quantiles
from miwae.inference.likelihood import log_likelihood
from miwae.inference.sampling import RowReport, SamplingSettings, compile_sampling
from miwae.model.build import linear_autoencoder, linear_core
from miwae.model.latent import Autoencoder
from miwae.model.linear import FactorAnalysis
from miwae.model.observations import (
    AbstractObservation,
    Bernoulli,
    Categorical,
    Count,
    Heterogeneous,
    Ordinal,
    Part,
    Stretch,
    StretchedNormal,
    StudentT,
)
from miwae.randomness import row_keys
from miwae.table.schema import NUMERIC, ColumnSchema, Schema
from miwae.threads import side_by_side
from miwae.training.loop import Progress, Record, fit, fit_stream
from miwae.training.settings import TrainingSettings
from miwae.training.state import TrainingState, initial_state

__all__ = [
    "Architecture",
    "FittedModel",
    "TableModel",
    "empty_model",
    "fit_model",
    "observation_of",
    "remaining",
    "statistic_scale",
    "stream_state",
    "training_settings",
    "update_model",
]

T = TypeVar("T")

# Below this many observed cells there is too little to learn more than the linear core from.
FEWEST_CELLS = 100

# Seconds that compiling the training takes, more or less.
COMPILATION = 8.0

# Rows that the linear core is fitted to, at most: more hardly change it.
CORE_ROWS = 5_000

# Under the scale of a column: a share of the deviation of its noise in the linear core.
FLOOR_SHARE = 0.2
LOWEST_FLOOR, HIGHEST_FLOOR = 0.02, 0.3

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

# Monte Carlo error of an imputation, in standard deviations of its column. Its square adds to the
# squared error: half a percent of a column's variance.
TOLERANCE = 0.07

# Of a stretched scale, in standard deviations: a smaller one is none of float32, and nobody's.
SMALLEST_UNIT = 1e-25

# Cells of statistics that are held at once while rows are imputed.
CHUNK_CELLS = 2**24


@dataclass(frozen=True, kw_only=True)
class Architecture:
    """The sizes of the networks."""

    n_latent: int = 10
    n_hidden: int = 128
    n_layers: int = 3

    def __post_init__(self) -> None:
        require_at_least(1, n_latent=self.n_latent, n_hidden=self.n_hidden)
        require_at_least(0, n_layers=self.n_layers)


def observation_of(schema: Schema) -> AbstractObservation:
    """The observation model of the modelled columns, in their order."""
    columns = [schema.columns[position] for position in schema.modelled]
    of_kind = lambda kinds: [i for i, c in enumerate(columns) if c.kind in kinds]  # noqa: E731
    stretches = {i: s for i in of_kind(NUMERIC) if (s := _stretch(columns[i])) is not None}
    straight = [i for i in of_kind(NUMERIC) if i not in stretches]
    parts = [
        Part(family(len(chosen)), tuple(chosen))
        for family, chosen in (
            (_student_t, straight),
            (Bernoulli, of_kind({"binary"})),
            (Count, of_kind({"count"})),
        )
        if chosen
    ]
    if stretches:
        parts.append(Part(_stretched(tuple(stretches.values())), tuple(stretches)))
    for family, kind in ((_categorical, "categorical"), (_ordinal, "ordinal")):
        for chosen in _of_similar_size(columns, of_kind({kind})):
            parts.append(
                Part(family(tuple(len(columns[i].levels) for i in chosen)), tuple(chosen))
            )
    return parts[0].observation if len(parts) == 1 else _heterogeneous(tuple(parts))


# Equinox lets a property stand for an abstract field; a type checker takes it for an argument.
_categorical: Callable[[tuple[int, ...]], AbstractObservation] = Categorical  # pyright: ignore
_ordinal: Callable[[tuple[int, ...]], AbstractObservation] = Ordinal  # pyright: ignore
_heterogeneous: Callable[[tuple[Part, ...]], AbstractObservation] = Heterogeneous  # pyright: ignore


def _student_t(n_features: int) -> AbstractObservation:
    return StudentT(n_features, _floors(n_features))


def _stretched(stretches: tuple[Stretch, ...]) -> AbstractObservation:
    return StretchedNormal(stretches, _floors(len(stretches)))  # pyright: ignore


def _floors(n_features: int) -> Float[Array, " D"]:
    """To begin with; `_with_floors` sets those of a fit."""
    return jax.numpy.asarray(np.full(n_features, HIGHEST_FLOOR, dtype=np.float32))


def _with_floors(observation: AbstractObservation, core: FactorAnalysis) -> AbstractObservation:
    """Floors under the scales: a share of what the linear core leaves unexplained in a column.

    The paper's floor of 0.1 is too high for columns that follow from the others, and hides it; for
    columns with repeated values a lower one lets the model spend itself on them.
    """
    noise = np.asarray(core.noise)
    floors = np.clip(FLOOR_SHARE * np.sqrt(noise), LOWEST_FLOOR, HIGHEST_FLOOR)
    heterogeneous = isinstance(observation, Heterogeneous)
    parts = [p.observation for p in observation.parts] if heterogeneous else [observation]
    floored, start = [], 0
    for part in parts:
        own = floors[start : start + part.n_inputs].astype(np.float32)
        start += part.n_inputs
        if isinstance(part, StudentT | StretchedNormal):
            part = eqx.tree_at(lambda p: p.scale_floor, part, jax.numpy.asarray(own))
        floored.append(part)
    if not heterogeneous:
        return floored[0]
    return eqx.tree_at(lambda o: [p.observation for p in o.parts], observation, floored)


def _stretch(column: ColumnSchema) -> Stretch | None:
    """How a column returns from its scale to the user's, in units of its standard deviation."""
    scale = column.transform
    if scale is None or scale.shape == "identity":
        return None
    if scale.shape == "log":
        up, down, centre = 1.0, 0.0, scale.centre - math.log(scale.deviation)
    else:
        up = max(scale.unit / scale.deviation / 2, SMALLEST_UNIT)
        down, centre = -up, scale.centre
    return Stretch(up, down, scale.spread, centre, scale.lowest, scale.highest)


def statistic_scale(schema: Schema) -> Float[np.ndarray, " S"]:
    """The unit of error of each statistic: 1 on standardised scales and for probabilities."""
    columns = [schema.columns[position] for position in schema.modelled]
    observation = observation_of(schema)
    parts = (
        observation.parts
        if isinstance(observation, Heterogeneous)
        else (Part(observation, tuple(range(len(columns)))),)
    )
    return np.concatenate(
        [
            np.array([columns[i].spread for i in part.columns], dtype=np.float32)
            if isinstance(part.observation, Count)
            else np.ones(part.observation.n_statistics, dtype=np.float32)
            for part in parts
        ]
    )


def _of_similar_size(columns: Sequence[ColumnSchema], chosen: list[int]) -> list[list[int]]:
    """Coded columns in groups in which no one has more than twice the levels of another.

    Within a part, columns are padded to the largest.
    """
    groups: list[list[int]] = []
    for i in sorted(chosen, key=lambda i: len(columns[i].levels)):
        if groups and len(columns[i].levels) <= 2 * len(columns[groups[-1][0]].levels):
            groups[-1].append(i)
        else:
            groups.append([i])
    return [sorted(group) for group in groups]


class FittedModel(NamedTuple):
    """One member of an ensemble: the model, and what further training needs."""

    autoencoder: Autoencoder
    state: TrainingState
    history: tuple[Record, ...]
    events: tuple[str, ...]


def fit_model(
    observation: AbstractObservation,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    *,
    architecture: Architecture,
    settings: TrainingSettings,
    key: Key[Array, ""],
    callback: Callable[[Progress], None] | None = None,
    n_imputation_samples: int | None = None,
    copies_of: np.ndarray | None = None,
) -> FittedModel:
    """Fit the linear core, then the deep model that starts from it.

    Args:
        observation: the observation model.
        x: rows on the scale of the model.
        observed: True where a cell was seen; each row and column has such a cell.
        architecture: of the networks.
        settings: of the training.
        key: for initial weights, held-out cells, minibatches and codes.
        callback: told of the progress of training.
        n_imputation_samples: if given, what imputing these rows with so many codes will need is
            compiled along with the training.
        copies_of: for each row of a bootstrap sample, which row it is a copy of: copies have the
            same cells held out, or the others would give them away.
    """
    key_core, key_weights, key_fit = jax.random.split(key, 3)
    rows = _core_rows(observed, key_core)
    core = linear_core(
        observation,
        x[rows],
        observed[rows],
        n_latent=architecture.n_latent,
        noise_floor=LOWEST_FLOOR**2,
    )
    observation = _with_floors(observation, core)
    autoencoder = _assembled(observation, core, architecture, key_weights)
    why = _why_linear(observed, settings)
    if why is not None:
        return FittedModel(autoencoder, stream_state(autoencoder, settings, key_fit), (), (why,))
    later = (
        []
        if n_imputation_samples is None
        else [lambda: _compile_means(autoencoder, x, observed, n_imputation_samples)]
    )
    fitted = fit(
        autoencoder,
        x,
        observed,
        settings=settings,
        key=key_fit,
        callback=callback,
        compilations=later,
        copies_of=copies_of,
    )
    state = stream_state(fitted.autoencoder, settings, key_fit, fitted.state)
    return FittedModel(fitted.autoencoder, state, fitted.history, fitted.events)


def _why_linear(observed: Bool[np.ndarray, "N D"], settings: TrainingSettings) -> str | None:
    """A reason not to train beyond the linear core, if there is one."""
    n_cells = int(observed.sum())
    if n_cells < FEWEST_CELLS:
        return f"only {n_cells} cells are observed: the model stays linear"
    if settings.max_seconds is not None and settings.max_seconds < COMPILATION:
        return (
            f"the time left ({settings.max_seconds:.1f} s) would go into compilation: the model "
            "stays linear"
        )
    return None


def _means_settings(n_samples: int, n_members: int = 1) -> SamplingSettings:
    """The error of a mean over members is smaller than that of each."""
    tolerance = TOLERANCE * math.sqrt(n_members)
    return SamplingSettings(n_samples=n_samples, tolerance=tolerance, min_ess=20.0)


def _compile_means(
    autoencoder: Autoencoder,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    n_samples: int,
) -> None:
    """Prepare `TableModel.means` for as many incomplete rows as these have."""
    needed = ~observed.all(axis=1)
    if not needed.any():
        return
    rows = slice(0, _chunk_size(autoencoder.generative.observation.n_statistics))
    part = (x[needed][rows], observed[needed][rows])
    keys = row_keys(jax.random.key(0), *part)
    compile_sampling(autoencoder, *part, keys, _means_settings(n_samples))


def _core_rows(observed: Bool[np.ndarray, "N D"], key: Key[Array, ""]) -> np.ndarray:
    """Some of many rows, with each column observed at least once."""
    n_rows = len(observed)
    if n_rows <= CORE_ROWS:
        return np.arange(n_rows)
    rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
    chosen = rng.choice(n_rows, CORE_ROWS, replace=False)
    rare = np.flatnonzero(~observed[chosen].any(axis=0))
    return np.sort(np.append(chosen, observed[:, rare].argmax(axis=0)))


def _assembled(
    observation: AbstractObservation,
    core: FactorAnalysis,
    architecture: Architecture,
    key: Key[Array, ""],
) -> Autoencoder:
    return linear_autoencoder(
        observation,
        core,
        n_hidden=architecture.n_hidden,
        n_layers=architecture.n_layers,
        key=key,
    )


def empty_model(
    observation: AbstractObservation, architecture: Architecture, settings: TrainingSettings
) -> tuple[Autoencoder, TrainingState]:
    """A model of the right structure, to load another one's arrays into."""
    n_inputs, n_latent = observation.n_inputs, architecture.n_latent
    core = FactorAnalysis(
        *(
            jax.numpy.asarray(a, dtype=jax.numpy.float32)
            for a in (np.zeros((n_inputs, n_latent)), np.full(n_inputs, 0.5), np.ones(n_inputs))
        )
    )
    autoencoder = _assembled(observation, core, architecture, jax.random.key(0))
    return autoencoder, stream_state(autoencoder, settings, jax.random.key(0))


def stream_state(
    autoencoder: Autoencoder,
    settings: TrainingSettings,
    key: Key[Array, ""],
    trained: TrainingState | None = None,
) -> TrainingState:
    """The state from which `update_model` goes on, with the optimiser as training left it."""
    state = initial_state(autoencoder, settings, key, n_rows=1)
    if trained is None:
        return state
    kept = lambda s: (s.optimizer_state, s.key, s.step, s.step_scale)  # noqa: E731
    return eqx.tree_at(kept, state, kept(trained))


def update_model(
    model: FittedModel,
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"],
    *,
    settings: TrainingSettings,
    callback: Callable[[Progress], None] | None = None,
) -> FittedModel:
    """Go through some more rows once; the weights are the last ones, which a file holds too."""
    settings = dataclasses.replace(settings, schedule="constant", averaging=0.0)
    fitted = fit_stream(model.state, [(x, observed)], settings=settings, callback=callback)
    return FittedModel(
        fitted.autoencoder,
        fitted.state,
        (*model.history, *fitted.history),
        (*model.events, *fitted.events),
    )


def _chunk_size(width: int) -> int:
    """Rows at once, if so many numbers are held of each."""
    return int(np.clip(CHUNK_CELLS // max(width, 1), 256, 2**16))


class TableModel:
    """An ensemble of fitted models, asked for imputations of rows on their own scale.

    Each answer covers all rows, is computed in chunks of bounded memory, and does not depend on
    how they are cut.

    Args:
        autoencoders: the members.
        scale: the unit of Monte Carlo error for each statistic.
        n_samples: L, the most codes per row and member.
        key: of all random numbers.
        callback: told how many rows are finished, and of how many.
        deadline: by `time.monotonic()`; after it rows get as few codes as possible.
    """

    def __init__(
        self,
        autoencoders: Sequence[Autoencoder],
        *,
        scale: Float[np.ndarray, " S"],
        n_samples: int,
        key: Key[Array, ""],
        callback: Callable[[int, int], None] | None = None,
        deadline: float | None = None,
    ) -> None:
        self.autoencoders = tuple(autoencoders)
        self.scale = scale
        self.n_samples = n_samples
        self.key = key
        self.callback = callback
        self.deadline = deadline

    def means(
        self, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
    ) -> tuple[Float[np.ndarray, "N D"], RowReport]:
        """The single imputation of each cell."""
        observation = self.autoencoders[0].generative.observation
        settings = _means_settings(self.n_samples, len(self.autoencoders))
        filled, reports = np.empty_like(x), []
        for rows, done in self._chunks(len(x), observation.n_statistics):
            results = self._of_each(
                lambda autoencoder, key, told, rows=rows: impute_single(
                    autoencoder,
                    x[rows],
                    observed[rows],
                    key=key,
                    settings=settings,
                    scale=self.scale,
                    callback=told,
                    deadline=self.deadline,
                ),
                done,
                len(x),
            )
            if len(results) == 1:
                filled[rows] = results[0].x
            else:
                mean = np.mean([result.mean for result in results], axis=0)
                filled[rows] = np.asarray(observation.point(jax.numpy.asarray(mean)))
            reports.append(_combined([result.report for result in results]))
        return filled, _stacked(reports)

    def draws(
        self, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"], n_imputations: int
    ) -> tuple[Float[np.ndarray, "M N D"], RowReport]:
        """Completed copies, dealt out to the members in turn."""
        settings = SamplingSettings(n_samples=self.n_samples, tolerance=TOLERANCE)
        copies = np.empty((n_imputations, *x.shape), dtype=np.float32)
        reports = []
        n_asked = min(len(self.autoencoders), n_imputations)
        for i, (autoencoder, key) in enumerate(self._members()):
            own = range(i, n_imputations, len(self.autoencoders))
            if not own:
                continue
            keys = row_keys(key, x, observed, tell_duplicates_apart=True)
            width = autoencoder.generative.observation.n_statistics + len(own) * x.shape[1]
            parts = []
            for rows, done in self._chunks(len(x), width):
                result = impute_multiple(
                    autoencoder,
                    x[rows],
                    observed[rows],
                    n_imputations=len(own),
                    keys=keys[rows],
                    settings=settings,
                    scale=self.scale,
                    callback=self._told(i * len(x) + done, n_asked, len(x)),
                    deadline=self.deadline,
                )
                copies[own.start :: own.step, rows] = result.x
                parts.append(result.report)
            reports.append(_stacked(parts))
        return copies, _combined(reports)

    def quantiles(
        self,
        x: Float[np.ndarray, "N D"],
        observed: Bool[np.ndarray, "N D"],
        levels: tuple[float, ...],
    ) -> Float[np.ndarray, "Q N D"]:
        """Quantiles of each missing cell, of the members' mixture."""
        settings = SamplingSettings(n_samples=self.n_samples, tolerance=None)
        several = len(self.autoencoders) > 1
        # A mixture's quantiles are those of its members' pooled quantiles on a fine grid.
        fine = max(200, int(4 / min(min(level, 1 - level) for level in levels)))
        asked = tuple(i / fine for i in range(1, fine)) if several else levels
        out = np.empty((len(levels), *x.shape), dtype=np.float32)
        for rows, done in self._chunks(len(x), len(asked) * x.shape[1]):
            parts = self._of_each(
                lambda autoencoder, key, told, rows=rows: (
                    quantiles(
                        autoencoder,
                        x[rows],
                        observed[rows],
                        levels=asked,
                        key=key,
                        settings=settings,
                        callback=told,
                        deadline=self.deadline,
                    ).x
                ),
                done,
                len(x),
            )
            pooled = np.concatenate(parts)
            out[:, rows] = np.quantile(pooled, levels, axis=0) if several else pooled
        return out

    def log_prob(
        self, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
    ) -> Float[np.ndarray, " N"]:
        """Estimated log p(x_obs) of each row, of the members' mixture."""
        parts = np.empty((len(self.autoencoders), len(x)))
        width = self.autoencoders[0].generative.observation.n_statistics
        for rows, done in self._chunks(len(x), width):
            parts[:, rows] = self._of_each(
                lambda autoencoder, key, told, rows=rows: (
                    log_likelihood(
                        autoencoder,
                        x[rows],
                        observed[rows],
                        key=key,
                        n_samples=self.n_samples,
                        callback=told,
                    ).log_prob
                ),
                done,
                len(x),
            )
        return np.logaddexp.reduce(parts, axis=0) - np.log(len(parts))

    def _of_each(
        self,
        ask: Callable[[Autoencoder, Key[Array, ""], Callable[[int, int], None]], T],
        before: int,
        n_rows: int,
    ) -> list[T]:
        """What each member answers, two of them at a time.

        Args:
            ask: a member, with its key, and a callback for the rows that it has finished.
            before: rows of earlier chunks.
            n_rows: in all.
        """
        members = self._members()
        finished = [0] * len(members)

        def one(i: int, check: Callable[[], None]) -> T:
            def told(now: int, _: int) -> None:
                check()
                finished[i] = now
                if self.callback is not None:
                    self.callback(before + sum(finished) // len(members), n_rows)

            return ask(*members[i], told)

        return side_by_side([partial(one, i) for i in range(len(members))])

    def _members(self) -> list[tuple[Autoencoder, Key[Array, ""]]]:
        return [(a, jax.random.fold_in(self.key, i)) for i, a in enumerate(self.autoencoders)]

    def _chunks(self, n_rows: int, width: int) -> list[tuple[slice, int]]:
        size = _chunk_size(width)
        return [(slice(first, first + size), first) for first in range(0, n_rows, size)]

    def _told(self, before: int, turns: int, n_rows: int) -> Callable[[int, int], None] | None:
        """Tells of the rows of a chunk, where all are gone through in so many turns."""
        if self.callback is None:
            return None
        callback = self.callback
        return lambda now, _: callback((before + now) // turns, n_rows)


def _combined(reports: Sequence[RowReport]) -> RowReport:
    """Of several members: the codes of all, and the least reliable of them."""
    with np.errstate(invalid="ignore"):
        return RowReport(
            np.sum([r.n_samples for r in reports], axis=0),
            np.min([r.effective_sample_size for r in reports], axis=0),
            np.max([r.pareto_k for r in reports], axis=0),
            np.any([r.smoothed for r in reports], axis=0),
        )


def _stacked(reports: Sequence[RowReport]) -> RowReport:
    """Of several chunks."""
    return RowReport(*(np.concatenate(parts) for parts in zip(*reports, strict=True)))


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
