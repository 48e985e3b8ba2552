"""The scikit-learn estimator: an incomplete table in, a completed one of the same kind out."""

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from jaxtyping import Float
from sklearn import get_config
from sklearn.base import BaseEstimator, OneToOneFeatureMixin, TransformerMixin
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted, validate_data

from miwae import _parameters as given
from miwae import frames
from miwae._arrays import checked_weights, require_at_least
from miwae._callers import warn_of
from miwae._extras import extra
from miwae._outline import Outline
from miwae.columns import Cells, Schema, infer_schema
from miwae.errors import SettingsError
from miwae.events import Event
from miwae.pooling import MultiplyImputed
from miwae.report import Report, report_on
from miwae.tabular import EncodedTable, FittedTable, Quality, TableSettings
from miwae.training import TrainingRecord

if TYPE_CHECKING:
    import pyarrow as pa

    from miwae.engines import Parts

__all__ = ["MIWAEImputer"]


class _Fitted(NamedTuple):
    """What a fit leaves behind, assigned at once when it has succeeded."""

    table: FittedTable
    named: bool  # all labels of the table were text
    later: list[Event]  # of rows that were imputed since


@dataclass(kw_only=True, eq=False, repr=False)  # a constructor of scikit-learn only stores
class MIWAEImputer(OneToOneFeatureMixin, TransformerMixin, BaseEstimator):
    """Complete tables with a deep latent variable model.

    The model is learned from the incomplete table itself, under the assumption that cells are
    missing at random. Columns may be numbers, booleans, text, categories or times, in a pandas or
    polars DataFrame, a pyarrow Table or a numpy array; what comes out is of the same kind, with
    the same index, columns and types, and every observed cell as it was.

    Args:
        n_latent: dimension of the latent variable of a row.
        n_hidden: units per hidden layer.
        n_layers: hidden layers of encoder and decoder.
        batch_size: rows per training step; by default 64, or 32 of fewer than 500 rows.
        n_samples: K, latent samples per row in training; with more, small tables are overfitted
            sooner.
        n_imputation_samples: latent samples per row in imputation, at most: easy rows need
            fewer.
        max_steps: training steps; by default as many as the table is worth, at most 15,000.
        max_time: seconds that `fit` may take, and each later call that imputes; None for no limit.
            It is exceeded only where the linear start and one compilation take longer, or where
            there are so many rows that they need longer with few latent samples. With a limit
            results depend on the machine.
        early_stopping: hold a few observed cells out and stop when they are predicted no better.
        column_kinds: kinds that you know better than their inference, by column:
            {"zip": "categorical", "size": "ordinal:S<M<L", "name": "identifier"}.
        bounds: (lower, upper) by column, None for no limit: {"share": (0, 1)}.
        roles: what columns are for, by column: "ignore" (not part of the model, and returned as it
            is), "predictor" (used, but not imputed), "target" (imputed, but not used to impute
            others): {"id": "ignore", "year": "predictor", "y": "target"}.
        not_applicable: where missing cells of a column do not apply and are not imputed, by
            column: {"garage_year": "garage == 0"}; comparisons by ==, !=, <, <=, >, >=, joined by
            "and".
        missing_values: a value, or several, that mean "missing" besides NaN, None and null.
        keep_empty_features: keep columns without any observed cell, filled with 0 if they hold
            numbers; by default they are dropped, as in scikit-learn.
        add_indicator: append a column that says which cells were missing for each column that had
            missing cells when fitted. Labels that are not text become x0, x1, ..., as in
            scikit-learn, which takes no frame with both.
        objective: "miwae", or "mvae" for the looser bound.
        n_models: fit so many models, with other initial weights and other cells held out, two at a
            time, and average their predictions.
        bootstrap: fit each model to a bootstrap sample of the rows, so that with several (ten,
            say) `sample` and `interval` reflect the uncertainty of the model as well: proper
            multiple imputation, at some cost in accuracy.
        device: "cpu", "gpu" or "tpu"; by default JAX's own choice.
        random_state: random seed; the same seed gives the same result.
        verbose: 1 shows progress on standard error.

    Attributes:
        schema_: what each column was taken for, and why: `print(imputer.schema_)`.
        history_: the bound and the score of held-out cells during training, one record each.
        quality_: how well each column is predicted, on observed cells that training did not see,
            beside the mean or mode: `print(imputer.quality_)`; `quality_["age"].verdict`.
        events_: every automatic decision, as `Event(about, column, count, text)`.
        output_schema_: the types, as a schema of pyarrow, that parts of a table get on a cluster
            (`miwae.dask`, `miwae.spark`), whatever types a part has by itself.
        n_features_in_: number of columns.
        feature_names_in_: their names, if all are text.

    Examples:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(40, 1)) @ np.ones((1, 3))
        >>> x[0, 0] = np.nan
        >>> imputer = MIWAEImputer(max_steps=20, random_state=0)
        >>> bool(abs(imputer.fit_transform(x)[0, 0] - x[0, 1]) < 0.5)
        True
    """

    n_latent: int = 10
    n_hidden: int = 128
    n_layers: int = 3
    batch_size: int | None = None
    n_samples: int = 5
    n_imputation_samples: int = 2_000
    max_steps: int | None = None
    max_time: float | int | None = None
    early_stopping: bool = True
    column_kinds: Mapping[Any, str] | None = None
    bounds: Mapping[Any, Any] | None = None
    roles: Mapping[Any, str] | None = None
    not_applicable: Mapping[Any, str] | None = None
    missing_values: Any = np.nan
    keep_empty_features: bool = False
    add_indicator: bool = False
    objective: str = "miwae"
    n_models: int = 2
    bootstrap: bool = False
    device: str | None = None
    random_state: Any = None
    verbose: int = 0

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "MIWAEImputer":
        """Learn from an incomplete table what its columns are and how they depend on each other.

        A fit that fails or is interrupted leaves the imputer as it was. `y` is ignored. The bound
        of each row is multiplied by its `sample_weight`, as of a survey.
        """
        with given.working(self) as work:
            settings, named, table, arrow = self._understood(X)
            work["weights"] = checked_weights(sample_weight, table.n_rows)
            known = {"marks": given.marks_of(self), "arrow": arrow}
            fitted = FittedTable.fit(table, settings, **known, **work)
        return self._learned(_Fitted(fitted, named, []), X)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> "MIWAEImputer":
        """Go through some more rows once, and learn from them.

        The first call, on an imputer that has not been fitted, decides from these rows what the
        columns are, so they should be typical. Later batches need not be kept. `y` is ignored, and
        weights are relative to those of the same batch.
        """
        if hasattr(self, "_fitted"):
            now, _, table = self._read(X)
            before = now._fitted
        else:
            settings, named, table, arrow = self._understood(X)
            start = FittedTable.start(table, settings, given.marks_of(self), arrow)
            before = _Fitted(start, named, [])
        with given.working(self) as work:
            weights = checked_weights(sample_weight, table.n_rows)
            fitted = before.table.updated(table, progress=work["progress"], weights=weights)
        later = [*before.later, *_new(table.events, [*fitted.events, *before.later])]
        self._fitted = before._replace(table=fitted, later=later)
        return self

    def fit_stream(self, batches: Any, *, sample_rows: int | None = None) -> "MIWAEImputer":
        """Learn from a table of any size, in one pass over batches: frames, or record batches.

        Kinds, levels and ranges are those of all rows. The model is trained on a uniform sample
        (262,144 rows by default), which does not depend on how rows are cut into batches. A table
        that is no larger than the sample gives the model that `fit` gives.
        """
        from miwae.engines import batches_of, gathered

        parts, most = batches_of(batches), {"sample_rows": sample_rows}
        return self._fit_parts(lambda **known: gathered(parts, **most, **known))

    def transform_stream(self, batches: Any) -> Iterator[Any]:
        """Complete a table of any size, batch by batch, with the values that `transform` gives.

        Batches of Arrow come out as tables of the types in `output_schema_`, cut otherwise.
        """
        from miwae.engines import completed_stream

        check_is_fitted(self)
        now = copy.copy(self)
        return completed_stream(batches, *now._saved(), now.transform, now._remember)

    def transform(self, X: Any) -> Any:
        """Fill the missing cells with their conditional means, or most probable categories.

        The table has the columns that were fitted; a single row will do. A row gets the same
        values wherever it stands and whatever stands beside it.
        """
        now, frame, table, imputed = self._computed(X, FittedTable.means)
        now._remember(imputed.events)
        completed = now._filled(frame, imputed.cells, table)
        asked = given.output_of(now) or get_config()["transform_output"]
        return frames.to_library(completed, asked) if asked in ("pandas", "polars") else completed

    def sample(self, X: Any, n_imputations: int = 20) -> MultiplyImputed:
        """Draw completed copies of a table, for statistics that know what is missing.

        The copies are dealt out to the models in turn. They differ by the uncertainty of the
        missing values given a model, and by what the models disagree on; with `bootstrap` they
        disagree as much as models of other samples of rows would.
        """
        require_at_least(1, n_imputations=n_imputations)
        now, frame, table, (copies, events) = self._computed(X, FittedTable.draws, n_imputations)
        now._remember(events)
        kept = now._outline.kept
        place = {position: i for i, position in enumerate(kept)}
        cells = [{place[i]: own for i, own in drawn.items() if i in place} for drawn in copies]
        not_imputed = [table.schema.names[i] for i in kept if i in table.schema.skipped]
        return MultiplyImputed(frames.keep(frame, kept), cells, not_imputed=not_imputed)

    def interval(self, X: Any, level: float = 0.9) -> tuple[Any, Any]:
        """Tables of lower and upper limits, between which a missing cell lies with probability.

        Observed cells are their own limits. Columns without an order have their most probable
        value in both. The interval is central; both tables are of the same kind as `X`.
        """
        if not 0 < level < 1:
            raise SettingsError(f"level must lie strictly between 0 and 1, not {level}")
        levels = ((1 - level) / 2, (1 + level) / 2)
        now, frame, table, limits = self._computed(X, FittedTable.quantiles, levels)
        lower, upper = (now._filled(frame, cells, table) for cells in limits)
        return lower, upper

    def expectation(
        self, X: Any, h: Callable[[Any], Any], *, n_imputations: int = 100
    ) -> Float[np.ndarray, "N ..."]:
        """`E[h(x) | x_obs]` of each row, for any function of completed rows.

        Args:
            X: a table with the columns that were fitted.
            h: from a completed table, of the same kind as `X`, to one number (or vector) per row.
            n_imputations: completed copies over which it is averaged.
        """
        return self.sample(X, n_imputations).expectation(h)

    def score_samples(self, X: Any) -> Float[np.ndarray, " N"]:
        """Estimated log-density of the observed cells of each row, in the units of the table.

        Categories, counts and numbers that take few values contribute probabilities.
        """
        return self._computed(X, FittedTable.log_prob)[-1]

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`: larger is better."""
        return float(np.mean(self.score_samples(X)))

    def probabilities(self, X: Any) -> dict[str, Any]:
        """For each column of categories with missing cells, the probability of each level.

        Tables of the same kind as `X`, with its index and a column for each level; NaN in rows
        whose cell is observed.
        """
        _, frame, table, found = self._computed(X, FittedTable.probabilities)
        return {
            table.schema.names[position]: frames.of_columns(frame, own.by_level(table.n_rows))
            for position, own in found.items()
        }

    def diagnostics(self, X: Any) -> Any:
        """How the sampling of each row goes: a table like `X` with its index, and four columns.

        `n_samples` (0 for rows with nothing to impute), `effective_sample_size`, `pareto_k` (above
        0.7: do not trust this row) and `smoothed` (the weights were unreliable with all the latent
        samples that the row may have, and were smoothed). For numpy's arrays, a tuple of four
        arrays with these names.
        """
        now, frame, _, imputed = self._computed(X, FittedTable.means)
        now._remember(imputed.events)
        report = imputed.report
        if isinstance(frame, np.ndarray):
            return report
        return frames.of_columns(frame, report._asdict())

    def report(self, X: Any, title: str = "table") -> Report:
        """A page about the table and its imputation: missing cells, columns, quality, the model.

        It shows itself in a notebook; `report.save("report.html")` writes one file that opens
        offline, and `report.data` has the same as plain data.

        Args:
            X: a table with the columns that were fitted.
            title: the heading of the page.
        """
        extra("jinja2")
        now, frame, _, imputed = self._computed(X, FittedTable.means)
        now._remember(imputed.events)
        columns = frames.columns(frame, given.marks_of(now))
        command = f"{self!r}.fit(table).report(table)"
        return report_on(now._table, columns, imputed=imputed, title=title, command=command)

    def save(self, path: str | Path) -> None:
        """Write everything that `load` needs to one file (safetensors; nothing in it is code)."""
        check_is_fitted(self)
        table, extra = self._saved()
        table.save(path, extra)

    @classmethod
    def load(cls, path: str | Path) -> "MIWAEImputer":
        """Read an imputer that `save`, or `miwae fit`, wrote; it imputes bit for bit as it did.

        Raises:
            FileFormatError: not such a file, truncated, or of a version that is not known.
        """
        table, extra = FittedTable.load(path)
        imputer = given.restored(cls, table, extra, path)
        imputer._fitted = _Fitted(table, bool(extra.get("named", True)), [])
        return imputer

    def _saved(self) -> tuple[FittedTable, dict[str, Any]]:
        """What a file has of it: the table that was learned, and its own settings."""
        now = copy.copy(self)
        extra = {**given.settings_of(now, given.marks_of(now)), "named": now._fitted.named}
        return replace(now._table, events=tuple(now.events_)), extra

    @property
    def output_schema_(self) -> "pa.Schema":
        from miwae.engines import Worker

        return Worker(*self._saved()).schema

    @property
    def schema_(self) -> Schema:
        return self._fitted.table.schema

    @property
    def history_(self) -> tuple[TrainingRecord, ...]:
        return self._fitted.table.history

    @property
    def quality_(self) -> Quality:
        return self._fitted.table.quality

    @property
    def events_(self) -> list[Event]:
        fitted = self._fitted
        return [*fitted.table.events, *fitted.later]

    @property
    def n_features_in_(self) -> int:
        return len(self._fitted.table.schema.columns)

    @property
    def feature_names_in_(self) -> np.ndarray:
        if not self._fitted.named:
            raise AttributeError("the columns that were fitted have no names that are all text")
        return np.asarray(self.schema_.names, dtype=object)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` returns."""
        check_is_fitted(self)
        now = copy.copy(self)
        names: Any = super(MIWAEImputer, now).get_feature_names_out(input_features)
        return np.asarray(now._outline.names(list(names)), dtype=object)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_fitted")

    def _understood(self, X: Any) -> tuple[TableSettings, bool, EncodedTable, bytes]:
        """A table to learn from: settings, whether it has names, its kinds and its types."""
        settings, asked = given.asked_of(self)
        frame = frames.as_frame(X)
        columns = frames.columns(frame, given.marks_of(self))
        schema = infer_schema(columns, **asked)
        table = EncodedTable.of(schema, columns, zeros_if_empty=self.keep_empty_features)
        return settings, given.are_named(frame), table, frames.arrow_schema(columns, frame)

    def _fit_parts(self, gather: "Callable[..., Parts]") -> "MIWAEImputer":
        """Learn from what is gathered, with a seed, about the parts of a table."""
        from miwae.engines import learned

        settings, asked = given.asked_of(self)
        known = {"marks": given.marks_of(self), "zeros_if_empty": self.keep_empty_features}
        with given.working(self) as work:
            parts = gather(seed=settings.seed, marks=known["marks"])
            fitted = learned(parts, settings, asked=asked, **known, **work)
        return self._learned(_Fitted(fitted, given.are_named(parts.first), []), parts.first)

    def _read(self, X: Any) -> tuple["MIWAEImputer", Any, EncodedTable]:
        """New rows, and the imputer as it is now: it may be fitted again in another thread."""
        check_is_fitted(self)
        now = copy.copy(self)
        frame = frames.as_frame(X)
        validate_data(now, frame, reset=False, skip_check_array=True)
        columns = frames.columns(frame, given.marks_of(now))
        table = now._table.encoded(columns, zeros_if_empty=now.keep_empty_features)
        kept_empty = ("empty",) if now.keep_empty_features else ()
        warn_of(table.events, "value", "drift", "not filled", *kept_empty)
        return now, frame, table

    def _computed(
        self, X: Any, method: Callable[..., Any], *arguments: Any
    ) -> tuple["MIWAEImputer", Any, EncodedTable, Any]:
        """The imputer as it is now, new rows, and what a method of `FittedTable` makes of them."""
        check_is_fitted(self)
        with given.working(self) as work:
            now, frame, table = self._read(X)
            result = method(now._table, table, *arguments, **work)
        now._remember(table.events)
        return now, frame, table, result

    @property
    def _table(self) -> FittedTable:
        """What was learned, with as many latent samples as are asked for now."""
        table, n_samples = self._fitted.table, self.n_imputation_samples
        if table.settings.n_imputation_samples == n_samples:
            return table
        return replace(table, settings=replace(table.settings, n_imputation_samples=n_samples))

    def _remember(self, events: Sequence[Event]) -> None:
        self._fitted.later.extend(_new(events, self.events_))
        warn_of(events, "time")

    @property
    def _outline(self) -> Outline:
        how = {"keep_empty": self.keep_empty_features, "add_indicator": self.add_indicator}
        return Outline.of(self._fitted.table, **how)

    def _filled(self, frame: Any, cells: Mapping[int, Cells], table: EncodedTable) -> Any:
        labels = list(self.get_feature_names_out()) if self.add_indicator else ()
        return self._outline.filled(frame, cells, table, labels)

    def _learned(self, fitted: _Fitted, X: Any) -> "MIWAEImputer":
        self._fitted = fitted
        self._outline.warn_of_dropped(X, self.schema_.names)
        warn_of(fitted.table.events, "time")
        return self


def _new(events: Sequence[Event], known: Sequence[Event]) -> list[Event]:
    return [event for event in events if event not in known]
