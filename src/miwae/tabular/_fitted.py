"""A table that has been learned: a frozen value that imputes, draws and scores."""

import functools
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple, final

import numpy as np
from jaxtyping import Array, Bool, Float, Int, Key

from miwae._deadlines import Deadline
from miwae._keys import fold_in
from miwae._progress import Progressor
from miwae._threads import require_own_process
from miwae._words import counted
from miwae.columns import Cells, Column, Schema, Storage, stored_text
from miwae.errors import DataError
from miwae.events import Event
from miwae.inference import RowReport
from miwae.tabular._advice import advice
from miwae.tabular._calibration import calibrated
from miwae.tabular._drift import drift
from miwae.tabular._encoding import EncodedTable, ImputedCells
from miwae.tabular._ensemble import Ensemble
from miwae.tabular._fitting import FittedModel, fit_ensemble, seed_key, too_few_cells, update_model
from miwae.tabular._observation import TableModel
from miwae.tabular._quality import Quality, quality_of
from miwae.tabular._settings import TableSettings, training_settings
from miwae.training import TrainingRecord, TrainingSettings

IMPUTING = 2**30  # folded into the key of a seed; models, whose keys it is split into, are fewer

LATE = 2.0  # seconds after a deadline that are worth an event

SILENT = Progressor()


class LevelProbabilities(NamedTuple):
    """How probable each level is in the missing cells of a column."""

    rows: Int[np.ndarray, " H"]  # of the missing cells
    levels: tuple[Any, ...]
    values: Float[np.ndarray, "H V"]  # one row for each cell; they sum to 1
    storage: Storage  # of the column: what the levels stand for, where they are numbers

    @property
    def level_cells(self) -> Cells:
        """The levels as cells of the column, to write them as it does."""
        places, levels = np.arange(len(self.levels)), np.fromiter(self.levels, object)
        return Cells(places, levels, storage=self.storage, levels=self.levels)

    def by_level(self, n_rows: int) -> dict[str, Float[np.ndarray, " N"]]:
        """Those of each level in all rows of the table, NaN where the cell is observed."""
        p = np.full((n_rows, len(self.levels)), np.nan)
        p[self.rows] = self.values
        return {stored_text(level, self.storage): p[:, v] for v, level in enumerate(self.levels)}


class Imputed(NamedTuple):
    """Imputed cells by position of the column, and how the sampling of each row went."""

    cells: ImputedCells
    report: RowReport
    events: tuple[Event, ...]


@final
@dataclass(frozen=True, kw_only=True)
class FittedTable:
    """What was learned from a table. Nothing ever changes it: `updated` gives another one.

    Training ends by its deadline; after a deadline, rows get as few latent samples as possible.
    """

    schema: Schema  # what the columns are taken for
    settings: TableSettings  # with which it was learned
    # The members of the ensemble; none where there is nothing to model.
    models: tuple[FittedModel, ...] = ()
    training: TrainingSettings | None = None  # settings of the training; None where there was none
    incomplete: tuple[int, ...] = ()  # positions of the columns that had missing cells
    marks: tuple[Any, ...] = ()  # values that mean "missing" besides the usual ones
    events: tuple[Event, ...] = ()  # every automatic decision
    quality: Quality = Quality()  # how well held-out cells were predicted
    # The types of the columns, as `frames.arrow_schema` writes them; empty if they are not known.
    arrow: bytes = b""

    @classmethod
    def fit(
        cls,
        table: EncodedTable,
        settings: TableSettings | None = None,
        *,
        marks: tuple[Any, ...] = (),
        deadline: Deadline | None = None,
        progress: Progressor = SILENT,
        weights: Float[np.ndarray, " N"] | None = None,
        arrow: bytes = b"",
    ) -> "FittedTable":
        """Learn how the columns of a table depend on each other, from rows with these weights."""
        fresh = cls.start(table, settings or TableSettings(), marks, arrow)
        return fresh._trained(table, fresh.settings, deadline, progress, weights)

    @classmethod
    def start(
        cls,
        table: EncodedTable,
        settings: TableSettings,
        marks: tuple[Any, ...] = (),
        arrow: bytes = b"",
    ) -> "FittedTable":
        """What is known before training; `updated` goes on from it, batch by batch."""
        return cls(
            schema=table.schema,
            settings=settings,
            incomplete=tuple(i for i, gap in enumerate(table.gaps) if gap.missing.any()),
            marks=marks,
            arrow=arrow,
            events=(
                *(column.event() for column in table.schema.columns),
                *table.events,
                *advice(table),
            ),
        )

    def updated(
        self,
        table: EncodedTable,
        *,
        progress: Progressor = SILENT,
        weights: Float[np.ndarray, " N"] | None = None,
    ) -> "FittedTable":
        """Go through some more rows once, and learn from them, with these weights."""
        trainable = table.trainable
        own = None if weights is None else weights[trainable]
        if not trainable.any() or (own is not None and not own.any()):
            return self
        require_own_process()
        now = self
        if not self.models:
            first = replace(self.settings, max_steps=1)
            now = self._trained(table, first, None, progress, weights)
        assert now.training is not None
        x, observed = now._model.padded(table.x[trainable], table.observed[trainable])
        models = tuple(
            update_model(model, x, observed, settings=now.training, weights=own)
            for model in now.models
        )
        return replace(now, models=models, events=_united(now.events, _of_models(models)))

    def _trained(
        self,
        table: EncodedTable,
        settings: TableSettings,
        deadline: Deadline | None,
        progress: Progressor,
        weights: Float[np.ndarray, " N"] | None = None,
    ) -> "FittedTable":
        require_own_process()
        trainable = table.trainable
        x, observed = self._model.padded(table.x[trainable], table.observed[trainable])
        events = self.events
        n_unused = int(np.count_nonzero(~trainable)) if table.x.shape[1] else 0
        if n_unused:
            such = counted(n_unused, "row has", "rows have")
            text = f"{such} no observed cell in the modelled columns: not fitted"
            events += (Event("rows", None, n_unused, text),)
        if not x.size:
            return replace(self, events=events)
        training = training_settings(settings, observed)
        limit = None if deadline is None else deadline.at
        hidden = np.zeros(x.shape[1], dtype=bool)
        hidden[self._model.place] = np.isin(self.schema.modelled, self.schema.targets)
        models = fit_ensemble(
            self._model.observation,
            x,
            observed,
            settings,
            training,
            limit,
            progress,
            weights=None if weights is None else weights[trainable],
            hidden=hidden,
        )
        events = _united(events, _of_models(models))
        if deadline is not None and not too_few_cells(observed):
            events += _untrained(models, deadline)
        models = calibrated(self.schema, self._model, x, observed, models)
        held_out = [model.held_out for model in models if model.held_out is not None]
        quality = quality_of(self.schema, self._model, x, observed, held_out)
        events += self._of_quality(quality)
        models = tuple(model._replace(held_out=None) for model in models)
        return replace(self, models=models, training=training, events=events, quality=quality)

    def _of_quality(self, quality: Quality) -> tuple[Event, ...]:
        """Events about columns with missing cells that nothing is known about."""
        names = {self.schema.names[position] for position in self.incomplete}
        events = (own.event() for own in quality if own.column in names)
        return tuple(event for event in events if event is not None)

    def require_columns(self, names: Sequence[str], *, named: bool = True) -> None:
        """Refuse a table with other columns than those that were learned, or in another order.

        Where those had no names, they are only counted.

        Raises:
            DataError: names the columns that are absent, unknown or elsewhere.
        """
        known = self.schema.names
        if named and tuple(names) != known:
            absent = [name for name in known if name not in names]
            extra = [name for name in names if name not in known]
            what = [f"lacks {', '.join(absent)}"] if absent else []
            what += [f"has the unknown {', '.join(extra)}"] if extra else []
            wrong = " and ".join(what) or "has its columns in another order"
            raise DataError(f"the table {wrong}; the model was fitted to {', '.join(known)}")
        if len(names) != len(known):
            raise DataError(
                f"the table has {counted(len(names), 'column')}, but the model was fitted to "
                f"{len(known)}"
            )

    def encoded(self, columns: Sequence[Column], *, zeros_if_empty: bool = False) -> EncodedTable:
        """New rows, read as what was learned."""
        table = EncodedTable.of(self.schema, columns, zeros_if_empty=zeros_if_empty)
        if not self.models:
            return table
        require_own_process()
        far = drift(table, columns, self._model, self.models[0].autoencoder, self._keys[0])
        return replace(table, events=(*table.events, *far))

    def means(
        self,
        table: EncodedTable,
        *,
        deadline: Deadline | None = None,
        progress: Progressor = SILENT,
    ) -> Imputed:
        """Conditional means of the missing cells, or their most probable categories."""
        rows, x, observed = self._needed(table)
        report = RowReport.empty(table.n_rows)
        if not len(rows):
            return Imputed(ImputedCells(table, rows, table.x[rows]), report, ())
        ensemble = self._ensemble("imputing", deadline, progress)
        values, own = ensemble.means(x, observed)
        cells = ImputedCells(table, rows, values[:, self._model.place])
        events = (*_of_weights(own), *_too_late(len(rows), deadline))
        return Imputed(cells, _spread(report, rows, own), events)

    def draws(
        self,
        table: EncodedTable,
        n_imputations: int,
        *,
        deadline: Deadline | None = None,
        progress: Progressor = SILENT,
    ) -> tuple[list[dict[int, Cells]], tuple[Event, ...]]:
        """Draws of the missing cells from their joint distribution, and what happened."""
        rows, x, observed = self._needed(table)
        if not len(rows):
            return [
                dict(ImputedCells(table, rows, table.x[rows])) for _ in range(n_imputations)
            ], ()
        ensemble = self._ensemble("sampling", deadline, progress)
        copies, report = ensemble.draws(x, observed, n_imputations)
        place = self._model.place
        cells = [dict(ImputedCells(table, rows, copy[:, place])) for copy in copies]
        return cells, (*_of_weights(report), *_too_late(len(rows), deadline))

    def quantiles(
        self,
        table: EncodedTable,
        levels: tuple[float, ...],
        *,
        imputed: Imputed | None = None,
        deadline: Deadline | None = None,
        progress: Progressor = SILENT,
    ) -> list[ImputedCells]:
        """Quantiles of each missing cell, for each of some levels.

        Columns without an order have their most probable value at all levels: that of `imputed`,
        what `means` gives for the same table, where that is known.
        """
        rows, x, observed = self._needed(table)
        limits = np.repeat(table.x[rows][None], len(levels), axis=0)
        if len(rows):
            place = self._model.place
            ensemble = self._ensemble("quantiles", deadline, progress)
            limits = ensemble.quantiles(x, observed, levels)[:, :, place]
            known = imputed or self.means(table, deadline=deadline, progress=progress)
            point = known.cells.scaled
            for j, position in enumerate(self.schema.modelled):
                kind = self.schema.columns[position].kind
                limits[:, :, j] = kind.interval(limits[:, :, j], point[:, j])
        return [ImputedCells(table, rows, limit) for limit in limits]

    def probabilities(
        self,
        table: EncodedTable,
        *,
        deadline: Deadline | None = None,
        progress: Progressor = SILENT,
    ) -> dict[int, LevelProbabilities]:
        """Probabilities of the levels of each missing cell, by position of a coded column."""
        rows, x, observed = self._needed(table)
        if not len(rows):
            return {}
        ensemble = self._ensemble("probabilities", deadline, progress)
        _, mean, _ = ensemble.statistics(x, observed, slice(None))
        found = {}
        for position, place in zip(self.schema.modelled, self._model.levels, strict=True):
            known = self.schema.columns[position]
            missing, is_imputed, _ = table.gaps[position]
            if known.kind.levels and is_imputed and missing.any():
                values = mean[missing[rows], place]
                values /= values.sum(axis=1, keepdims=True)  # the rounding of single precision
                own = np.flatnonzero(missing), known.kind.levels, values, known.storage
                found[position] = LevelProbabilities(*own)
        return found

    def log_prob(
        self,
        table: EncodedTable,
        *,
        deadline: Deadline | None = None,
        progress: Progressor = SILENT,
    ) -> Float[np.ndarray, " N"]:
        """Estimated log-density of the observed cells of each row, in the units of the table."""
        if not self.models:
            return np.zeros(table.n_rows)
        ensemble = self._ensemble("scoring", deadline, progress)
        log_prob = ensemble.log_prob(*self._model.padded(table.x, table.observed))
        return np.where(table.trainable, log_prob + table.log_slope, 0.0)

    @property
    def history(self) -> tuple[TrainingRecord, ...]:
        """The training of the first model."""
        return self.models[0].history if self.models else ()

    def _needed(
        self, table: EncodedTable
    ) -> tuple[np.ndarray, Float[np.ndarray, "H F"], Bool[np.ndarray, "H F"]]:
        """The rows that have something to impute, as the observation model has them."""
        needed = table.needed if self.models else np.zeros(table.n_rows, dtype=bool)
        return np.flatnonzero(needed), *self._model.padded(table.x[needed], table.used[needed])

    @functools.cached_property
    def _model(self) -> TableModel:
        return TableModel.of(self.schema)

    @functools.cached_property
    def _keys(self) -> list[Key[Array, ""]]:
        """From which each model samples."""
        key = fold_in(seed_key(self.settings), IMPUTING)
        return [fold_in(key, i) for i in range(len(self.models))]

    def _ensemble(self, what: str, deadline: Deadline | None, progress: Progressor) -> Ensemble:
        require_own_process()
        return Ensemble(
            [model.autoencoder for model in self.models],
            scale=self._model.scale,
            n_samples=self.settings.n_imputation_samples,
            keys=self._keys,
            callback=progress.rows(what),
            deadline=None if deadline is None else deadline.at,
        )

    def save(self, path: str | Path, extra: dict[str, Any] | None = None) -> None:
        """Write what `load` needs to one file (safetensors, no code); `load` returns `extra`."""
        from miwae.tabular._file import save_table

        save_table(path, self, extra or {})

    @classmethod
    def load(cls, path: str | Path) -> tuple["FittedTable", dict[str, Any]]:
        """Read what `save` wrote, and its `extra`; it imputes bit for bit as it did.

        Raises:
            FileFormatError: not such a file, truncated, or of a version that is not known.
        """
        from miwae.tabular._file import load_table

        return load_table(path)


def _of_models(models: Sequence[FittedModel]) -> list[Event]:
    """What happened in training: once what happened to all models, by number what did not."""
    texts: dict[str, None] = {}
    for i, model in enumerate(models):
        for text in model.events:
            shared = all(text in other.events for other in models)
            texts[text if shared else f"model {i + 1} of {len(models)}: {text}"] = None
    return [Event("training", None, 1, text) for text in texts]


def _untrained(models: Sequence[FittedModel], deadline: Deadline) -> tuple[Event, ...]:
    """How many models time did not suffice to train."""
    n_linear = sum(int(model.state.step) == 0 for model in models)
    if n_linear == 0:
        return ()
    of_them = "" if n_linear == len(models) else f" for {n_linear} of {len(models)} models"
    text = (
        f"{deadline.option} left no time for a training step{of_them}: the table is completed by "
        f"the linear start, a factor analysis; a larger {deadline.option} allows more"
    )
    return (Event("time", None, n_linear, text),)


def _too_late(n_rows: int, deadline: Deadline | None) -> tuple[Event, ...]:
    """By how much imputation has missed its deadline, if that is worth a word."""
    over = 0.0 if deadline is None else time.monotonic() - deadline.at
    if deadline is None or over < LATE:
        return ()
    text = (
        f"{deadline.option} was exceeded by {over:.0f} s: compilation and "
        f"{counted(n_rows, 'row')} with as few latent samples as possible took that long"
    )
    return (Event("time", None, n_rows, text),)


def _united(events: tuple[Event, ...], more: Sequence[Event]) -> tuple[Event, ...]:
    return (*events, *(event for event in more if event not in events))


def _spread(report: RowReport, rows: np.ndarray, own: RowReport) -> RowReport:
    """The report of all rows from that of the sampled ones."""
    for into, out in zip(report, own, strict=True):
        into[rows] = out
    return report


def _of_weights(report: RowReport) -> tuple[Event, ...]:
    """How many rows had unreliable weights, and what was done."""
    n_bad = int(report.smoothed.sum())
    if not n_bad:
        return ()
    text = (
        f"{n_bad} of {counted(len(report.smoothed), 'incomplete row')} "
        f"{'has' if n_bad == 1 else 'have'} unreliable importance weights (Pareto k above 0.7 "
        "with as many latent samples as are allowed): what is imputed there may be off by more "
        "than intervals say; diagnostics (--diagnostics FILE) show where"
    )
    return (Event("weights", None, n_bad, text),)
