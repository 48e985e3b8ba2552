"""The scikit-learn estimator: a table with holes in, a completed table of the same kind out."""

import contextlib
import dataclasses
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import jax
import numpy as np
from jaxtyping import Array, Bool, Float, Key
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import Tags, check_array, check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from miwae.arrays import require_at_least
from miwae.errors import DataError, DataWarning, SettingsError
from miwae.inference.sampling import RowReport
from miwae.modelling.ensemble import TableModel
from miwae.modelling.fitting import FittedModel, compile_imputation, fit_model, update_model
from miwae.modelling.observation import observation_of, statistic_scale
from miwae.modelling.settings import Architecture, remaining, training_settings
from miwae.multiple import MultiplyImputed
from miwae.persistence import load_imputer, save_imputer
from miwae.progress import Progressor, progressor
from miwae.table.agreement import (
    ambiguous_dates,
    fixed_cells,
    require_fillable,
    require_names,
    unfilled,
)
from miwae.table.base import AbstractTable, Column, Gaps
from miwae.table.encoding import Encoded, Fills, encode, nearest_point
from miwae.table.frames import as_table
from miwae.table.schema import ColumnSchema, Schema, infer_schema
from miwae.threads import WORKERS, meanwhile, one_thread_each, side_by_side
from miwae.training import TrainingProgress, TrainingRecord, TrainingSettings

__all__ = ["MIWAEImputer"]

IMPUTING = 2**30  # folded into the key of a seed; models, whose keys it is split into, are fewer


class MIWAEImputer(TransformerMixin, BaseEstimator):
    """Complete tables with a deep latent variable model.

    The model is learned from the incomplete table itself, under the assumption that cells are
    missing at random. Columns may be numbers, booleans, text, categories or times, in a pandas or
    polars DataFrame, a pyarrow Table or a numpy array; what comes out is of the same kind, with
    the same index, columns and types, and every observed cell as it was.

    Args:
        n_latent: dimension of the code of a row.
        n_hidden: units per hidden layer.
        n_layers: hidden layers of encoder and decoder.
        batch_size: rows per training step; by default 64, or 32 of fewer than 500 rows.
        n_samples: K, codes per row in training; with more, small tables are overfitted sooner.
        n_imputation_samples: L, codes per row in imputation, at most: easy rows need fewer.
        max_steps: training steps; by default as many as the table is worth, at most 15,000.
        max_time: seconds that `fit` may take (compilation cannot be interrupted), and each later
            call that imputes; None for no limit. With a limit results depend on the machine.
        early_stopping: hold a few observed cells out and stop when they are predicted no better.
        column_kinds: kinds that you know better than their inference, by column:
            {"zip": "categorical", "size": "ordinal:S<M<L", "name": "identifier"}.
        bounds: (lower, upper) by column, None for no limit: {"share": (0, 1)}.
        missing_values: a value, or several, that mean "missing" besides NaN, None and null.
        keep_empty_features: keep columns without any observed cell, filled with 0 if they hold
            numbers; by default they are dropped, as in scikit-learn.
        add_indicator: append a column that tells which cells were missing for each column that had
            missing cells when fitted. Labels that are not text become x0, x1, ..., as in
            scikit-learn, which takes no frame with both.
        objective: "miwae", or "mvae" for the cruder bound.
        n_models: fit so many models, with other initial weights and other cells held out, two at a
            time, and take the mean of what they say.
        bootstrap: fit each model to a bootstrap sample of the rows, so that with several (ten,
            say) `sample` and `interval` reflect the uncertainty of the model as well: proper
            multiple imputation, at some cost in accuracy.
        device: "cpu", "gpu" or "tpu"; by default JAX's own choice.
        random_state: a seed, for the same result each time.
        verbose: 1 shows progress on standard error.

    Attributes:
        schema_: what each column was taken for, and why: `print(imputer.schema_)`.
        history_: the bound and the score of held-out cells during training, one record each.
        events_: every automatic decision, in words.
        n_features_in_: number of columns.
        feature_names_in_: their names, if all are text.

    Example:
        >>> import numpy as np
        >>> x = np.random.default_rng(0).normal(size=(40, 1)) @ np.ones((1, 3))
        >>> x[0, 0] = np.nan
        >>> imputer = MIWAEImputer(max_steps=20, random_state=0)
        >>> bool(abs(imputer.fit_transform(x)[0, 0] - x[0, 1]) < 0.5)
        True
    """

    schema_: Schema
    history_: tuple[TrainingRecord, ...]
    events_: list[str]
    n_features_in_: int
    models_: tuple[FittedModel, ...]
    settings_: TrainingSettings | None
    architecture_: Architecture
    seed_: int
    incomplete_: tuple[int, ...]
    specimens_: tuple[str, ...]

    def __init__(
        self,
        *,
        n_latent: int = 10,
        n_hidden: int = 128,
        n_layers: int = 3,
        batch_size: int | None = None,
        n_samples: int = 5,
        n_imputation_samples: int = 2_000,
        max_steps: int | None = None,
        max_time: float | int | None = None,
        early_stopping: bool = True,
        column_kinds: Mapping[Any, str] | None = None,
        bounds: Mapping[Any, Any] | None = None,
        missing_values: Any = np.nan,
        keep_empty_features: bool = False,
        add_indicator: bool = False,
        objective: str = "miwae",
        n_models: int = 2,
        bootstrap: bool = False,
        device: str | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.n_latent = n_latent
        self.n_hidden = n_hidden
        self.n_layers = n_layers
        self.batch_size = batch_size
        self.n_samples = n_samples
        self.n_imputation_samples = n_imputation_samples
        self.max_steps = max_steps
        self.max_time = max_time
        self.early_stopping = early_stopping
        self.column_kinds = column_kinds
        self.bounds = bounds
        self.missing_values = missing_values
        self.keep_empty_features = keep_empty_features
        self.add_indicator = add_indicator
        self.objective = objective
        self.n_models = n_models
        self.bootstrap = bootstrap
        self.device = device
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------ learning

    def fit(self, X: Any, y: Any = None) -> "MIWAEImputer":
        """Learn what the columns are and how they hang together.

        Args:
            X: the incomplete table.
            y: ignored, as in all of scikit-learn's transformers.
        """
        self._check_settings()
        deadline = self._deadline()
        with self._all_or_nothing():
            table, columns = self._read(X, reset=True)
            encoded = self._start(columns)
            with self._device(), self._progress() as progress:
                self._train(encoded, deadline, progress)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> "MIWAEImputer":
        """Go through some more rows once, and learn from them.

        The first call, on an imputer that has not been fitted, decides from these rows what the
        columns are, so they should be typical. Later batches need not be kept.

        Args:
            X: an incomplete table with the same columns.
            y: ignored.
        """
        with self._all_or_nothing():
            self._learn_more(X)
        return self

    def _learn_more(self, X: Any) -> None:
        self._check_settings()
        first = not hasattr(self, "schema_")
        table, columns = self._read(X, reset=first)
        encoded = self._start(columns) if first else self._encode(columns)
        trainable = encoded.observed.any(axis=1)
        if not encoded.x.shape[1] or not trainable.any():
            return
        with self._device(), self._progress() as progress:
            if not self.models_:
                self._train(encoded, None, progress, max_steps=1)
            assert self.settings_ is not None
            self.models_ = tuple(
                update_model(
                    model,
                    encoded.x[trainable],
                    encoded.observed[trainable],
                    settings=self.settings_,
                )
                for model in self.models_
            )
        self.history_ = self.models_[0].history
        self.events_ += [
            event for model in self.models_ for event in model.events if event not in self.events_
        ]

    @contextlib.contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """Whatever goes wrong, an interruption too, leaves the imputer as it was."""
        before = {k: list(v) if isinstance(v, list) else v for k, v in vars(self).items()}
        try:
            yield
        except BaseException:
            vars(self).clear()
            vars(self).update(before)
            raise

    def _start(self, columns: Sequence[Column]) -> Encoded:
        """What can be said before training; everything fitted before is forgotten."""
        self.schema_ = infer_schema(columns, column_kinds=self.column_kinds, bounds=self.bounds)
        self.events_ = [
            f"column {known.name!r} is {known.kind}: {known.reason}"
            for known in self.schema_.columns
        ]
        self.incomplete_ = tuple(i for i, c in enumerate(columns) if c.missing.any())
        self.specimens_ = tuple(column.specimen for column in columns)
        stays = map(self._unfilled, self.schema_.columns, columns)
        self.events_ += [event for event in stays if event is not None]
        self.seed_ = int(check_random_state(self.random_state).randint(2**31 - 1))
        self.models_, self.history_, self.settings_ = (), (), None
        self.architecture_ = self._architecture()
        return encode(self.schema_, columns)

    def _train(
        self,
        encoded: Encoded,
        deadline: float | None,
        progress: Progressor,
        max_steps: int | None = None,
    ) -> None:
        trainable = encoded.observed.any(axis=1)
        x, observed = encoded.x[trainable], encoded.observed[trainable]
        if encoded.x.shape[1] and not trainable.all():
            self.events_.append(
                f"{int((~trainable).sum())} rows have no observed cell in the modelled columns: "
                "not used in fitting"
            )
        if not x.size:
            return
        observation = observation_of(self.schema_)
        self.settings_ = settings = training_settings(
            observed,
            objective=self.objective,
            n_samples=self.n_samples,
            batch_size=self.batch_size,
            max_steps=self.max_steps if max_steps is None else max_steps,
            early_stopping=self.early_stopping,
            max_seconds=None,
        )

        def member(i: int, check: Callable[[], None]) -> FittedModel:
            rows = self._rows_of(i, observed)
            left = remaining(deadline)
            turns = -(-(self.n_models - i) // WORKERS)
            return fit_model(
                observation,
                x[rows],
                observed[rows],
                architecture=self.architecture_,
                settings=_within(settings, None if left is None else left / turns),
                key=keys[i],
                callback=_checked(check, progress.training(i, self.n_models)),
                copies_of=rows,
            )

        keys = jax.random.split(self._seed_key(), self.n_models)
        together = one_thread_each() if self.n_models > 1 else contextlib.nullcontext()
        warm_up = partial(
            compile_imputation,
            observation,
            x,
            observed,
            architecture=self.architecture_,
            settings=_within(settings, remaining(deadline)),
            n_samples=self.n_imputation_samples,
        )
        with together, meanwhile(warm_up):
            models = side_by_side([partial(member, i) for i in range(self.n_models)])
        self.models_ = tuple(models)
        self.history_ = models[0].history
        self.events_ += _told_of([model.events for model in models])

    def _rows_of(self, member: int, observed: Bool[np.ndarray, "N D"]) -> np.ndarray:
        """The rows that a model is fitted to: all, or a bootstrap sample of its own."""
        n_rows = len(observed)
        if not self.bootstrap:
            return np.arange(n_rows)
        rng = np.random.default_rng([self.seed_, member])
        drawn = rng.integers(n_rows, size=n_rows)
        # Each column has to be seen at least once: a row that sees it comes on top.
        unseen = observed[:, ~observed[drawn].any(axis=0)]
        needed = np.unique([rng.choice(np.flatnonzero(seen)) for seen in unseen.T])
        return np.sort(np.concatenate([drawn, needed.astype(drawn.dtype)]))

    # ------------------------------------------------------------------ imputing

    def transform(self, X: Any) -> Any:
        """Fill the missing cells with their conditional means, or most probable categories.

        A row gets the same values wherever it stands and whatever stands beside it.

        Args:
            X: a table with the columns that were fitted; a single row will do.

        Returns:
            The completed table, of the same kind.
        """
        table, gaps, (values, observed, _, _) = self._prepared(X)
        needed = self._needed(gaps)
        if needed.any():
            with self._asked("imputing") as model:
                report = model.means(values, observed, needed, out=values)
            self._tell_of_weights(report)
        return self._as_asked(self._completed(table, gaps, values).native)

    def _as_asked(self, native: Any) -> Any:
        """Of the library that `set_output` names, with its own types.

        scikit-learn's wrapper knows arrays and frames of the library asked for; of others it
        makes columns of objects.
        """
        asked = getattr(self, "_sklearn_output_config", {}).get("transform")
        library = type(native).__module__.split(".")[0]
        if asked == "pandas" and library in ("polars", "pyarrow"):
            return native.to_pandas()
        if asked == "polars" and library in ("pandas", "pyarrow"):
            import polars

            return polars.DataFrame(native)
        return native

    def sample(self, X: Any, n_imputations: int = 20) -> MultiplyImputed:
        """Draw several completed copies of a table, for statistics that know what is missing.

        The copies are dealt out to the models in turn. They differ by the uncertainty of the
        missing values given a model, and by what the models disagree on; with `bootstrap` they
        disagree as much as models of other samples of rows would.

        Args:
            X: a table with the columns that were fitted.
            n_imputations: M.
        """
        require_at_least(1, n_imputations=n_imputations)
        table, gaps, encoded = self._prepared(X)
        needed = self._needed(gaps)
        copies: Any = [None] * n_imputations
        if needed.any():
            with self._asked("sampling") as model:
                part = (encoded.x[needed], encoded.observed[needed])
                copies, report = model.draws(*part, n_imputations)
            self._tell_of_weights(report)
        values = encoded.x.copy()

        def fills_of(copy: Any) -> Fills:
            if needed.any():
                values[needed] = copy
            return self._fills(gaps, values)

        dropped = self._dropped()
        kept = [i for i in range(len(gaps)) if i not in dropped]
        place = {position: i for i, position in enumerate(kept)}
        fills = [
            {place[i]: fill for i, fill in fills_of(copy).items() if i in place} for copy in copies
        ]
        completable = [place[i] for i in kept if self.schema_.columns[i].kind != "identifier"]
        return MultiplyImputed(table.keep(kept), fills, completable=completable)

    def interval(self, X: Any, level: float = 0.9) -> tuple[Any, Any]:
        """Tables of lower and upper limits, between which a missing cell lies with probability.

        Observed cells are their own limits. Columns without an order have their most probable
        value in both.

        Args:
            X: a table with the columns that were fitted.
            level: of the central interval.

        Returns:
            The pair (lower, upper), each of the same kind as `X`.
        """
        if not 0 < level < 1:
            raise SettingsError(f"level must lie strictly between 0 and 1, not {level}")
        table, gaps, (values, observed, _, _) = self._prepared(X)
        needed = self._needed(gaps)
        limits = np.repeat(values[None], 2, axis=0)
        if needed.any():
            part = (values[needed], observed[needed])
            with self._asked("imputing") as model:
                limits[:, needed] = model.quantiles(*part, ((1 - level) / 2, (1 + level) / 2))
                model.means(values, observed, needed, out=values)
            for j, position in enumerate(self.schema_.modelled):
                column = self.schema_.columns[position]
                if column.kind in ("categorical", "binary"):
                    limits[:, :, j] = values[:, j]
                elif column.points:  # between two values, of two models, lies none
                    assert column.transform is not None
                    ends = nearest_point(column, column.transform.inverse(limits[:, :, j]))
                    limits[:, :, j] = column.transform.forward(ends)
        lower, upper = (self._completed(table, gaps, limit).native for limit in limits)
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
        draws = self.sample(X, n_imputations)
        total: Any = None
        for copy in draws:
            value = np.asarray(h(copy), dtype=np.float64)
            if value.ndim == 0 or len(value) != draws.n_rows:
                raise DataError(
                    f"h must return one value for each of the {draws.n_rows} rows, but returned "
                    f"an array of shape {value.shape}"
                )
            total = value if total is None else total + value
        return total / n_imputations

    def score_samples(self, X: Any) -> Float[np.ndarray, " N"]:
        """Estimated log-density of the observed cells of each row, in the units of the table.

        Categories, counts and numbers that take few values have probabilities in it.
        """
        _, _, encoded = self._prepared(X)
        if not self.models_:
            return np.zeros(len(encoded.x))
        with self._asked("scoring") as model:
            log_prob = model.log_prob(encoded.x, encoded.observed)
        return np.where(encoded.observed.any(axis=1), log_prob + encoded.log_slope, 0.0)

    def score(self, X: Any, y: Any = None) -> float:
        """The mean of `score_samples`: larger is better."""
        return float(np.mean(self.score_samples(X)))

    def diagnostics(self, X: Any) -> RowReport:
        """How the sampling of each row goes.

        Returns:
            `n_samples` (0 for rows with nothing to impute), `effective_sample_size`, `pareto_k`
            (above 0.7: do not trust this row) and `smoothed` (the weights were unreliable: more
            codes were drawn and their weights smoothed), an array each.
        """
        _, gaps, (values, observed, _, _) = self._prepared(X)
        report = RowReport.empty(len(values))
        needed = self._needed(gaps)
        if needed.any():
            with self._asked("sampling") as model:
                part = model.means(values, observed, needed, out=values)
            for into, out in zip(report, part, strict=True):
                into[needed] = out
        return report

    # ------------------------------------------------------------------ files

    def save(self, path: str | Path) -> None:
        """Write everything that `load` needs to one file (safetensors; nothing in it is code)."""
        check_is_fitted(self, "schema_")
        save_imputer(path, self)

    @classmethod
    def load(cls, path: str | Path) -> "MIWAEImputer":
        """Read an imputer that `save` wrote; it imputes bit for bit as it did.

        Raises:
            FileFormatError: not such a file, truncated, or of a version that is not known.
        """
        imputer = cls()
        load_imputer(path, imputer)
        return imputer

    # ------------------------------------------------------------------ scikit-learn

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns that `transform` returns."""
        check_is_fitted(self, "schema_")
        names = self._names_in(input_features)
        dropped = self._dropped()
        kept = [name for i, name in enumerate(names) if i not in dropped]
        flags = [f"missingindicator_{names[i]}" for i in self._flagged()]
        return np.asarray(kept + flags, dtype=object)

    def _names_in(self, input_features: Any) -> list[str]:
        own = getattr(self, "feature_names_in_", None)
        if input_features is None:
            return [f"x{i}" for i in range(self.n_features_in_)] if own is None else list(own)
        given = list(input_features)
        if own is not None and given != list(own):
            raise ValueError("input_features is not equal to feature_names_in_")
        if len(given) != self.n_features_in_:
            raise ValueError(
                "input_features should have length equal to number of features "
                f"({self.n_features_in_}), got {len(given)}"
            )
        return given

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.categorical = True
        tags.input_tags.string = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "schema_")

    # ------------------------------------------------------------------ inside

    def _check_settings(self) -> None:
        require_at_least(1, n_imputation_samples=self.n_imputation_samples, n_models=self.n_models)
        if self.max_time is not None:
            if not isinstance(self.max_time, int | float | np.number) or not self.max_time > 0:
                raise SettingsError(f"max_time must be positive or None, not {self.max_time!r}")
        self._architecture()

    def _architecture(self) -> Architecture:
        return Architecture(n_latent=self.n_latent, n_hidden=self.n_hidden, n_layers=self.n_layers)

    def _deadline(self) -> float | None:
        return None if self.max_time is None else time.monotonic() + self.max_time

    def _progress(self) -> contextlib.AbstractContextManager[Progressor]:
        return progressor(self.verbose > 0)

    @contextlib.contextmanager
    def _device(self) -> Iterator[None]:
        if self.device is None:
            yield
            return
        try:
            device = jax.devices(self.device)[0]
        except RuntimeError as error:
            raise SettingsError(f"device={self.device!r} is not available: {error}") from error
        with jax.default_device(device):
            yield

    @contextlib.contextmanager
    def _asked(self, what: str) -> Iterator[TableModel]:
        """The fitted model, with what it needs to answer."""
        with self._device(), self._progress() as progress:
            yield TableModel(
                [model.autoencoder for model in self.models_],
                scale=statistic_scale(self.schema_),
                n_samples=self.n_imputation_samples,
                key=self._key(),
                callback=progress.rows(what),
                deadline=self._deadline(),
            )

    def _key(self) -> Key[Array, ""]:
        return jax.random.fold_in(self._seed_key(), IMPUTING)

    def _seed_key(self) -> Key[Array, ""]:
        # Of this kind whatever JAX's default is: no other keeps rows apart.
        return jax.random.key(self.seed_, impl="threefry2x32")

    def _missing_values(self) -> tuple[Any, ...]:
        given = self.missing_values
        several = isinstance(given, list | tuple | set | frozenset | np.ndarray)
        return tuple(given) if several else (given,)

    def _read(self, X: Any, *, reset: bool) -> tuple[AbstractTable, list[Column]]:
        """The table and its columns, with scikit-learn's checks of names and numbers."""
        if not isinstance(X, AbstractTable) and not _is_frame(X):
            X = _as_array(X)
        table = as_table(X)
        if isinstance(X, AbstractTable):
            self._check_names(X, reset=reset)
        else:
            validate_data(self, X, reset=reset, skip_check_array=True)
        if table.n_rows == 0 or not table.names:
            raise DataError(
                f"Found array with {table.n_rows} sample(s) and {len(table.names)} feature(s) "
                f"(shape=({table.n_rows}, {len(table.names)})) while a minimum of 1 is required."
            )
        columns = [table.column(i, self._missing_values()) for i in range(len(table.names))]
        return (table, columns) if reset else self._as_learned(table, columns)

    def _as_learned(
        self, table: AbstractTable, columns: list[Column]
    ) -> tuple[AbstractTable, list[Column]]:
        """As what was learned, where in these rows it may look like something else, or nothing."""
        missing = self._missing_values()
        empty = {
            i: known.storage
            for i, (known, column) in enumerate(zip(self.schema_.columns, columns, strict=True))
            if not column.n_observed and known.kind not in ("empty", "identifier")
        }
        if empty:
            table = table.with_types(empty)
            for i in empty:
                before, columns[i] = columns[i].dtype, table.column(i, missing)
                event = (
                    f"column {table.names[i]!r} has no value here, and its type {before} says "
                    f"nothing: completed as {columns[i].dtype}"
                )
                if columns[i].dtype != before and event not in self.events_:
                    self.events_.append(event)
        for i, (known, specimen) in enumerate(
            zip(self.schema_.columns, self.specimens_, strict=True)
        ):
            before = columns[i]
            if before.storage == known.storage and before.n_observed:
                continue
            columns[i] = table.as_learned(i, known.storage, specimen, missing)
            event = ambiguous_dates(before, columns[i], specimen)
            if event is not None and event not in self.events_:
                self.events_.append(event)
        return table, columns

    def _check_names(self, table: AbstractTable, *, reset: bool) -> None:
        names = np.asarray(table.names, dtype=object)
        if reset:
            self.feature_names_in_, self.n_features_in_ = names, len(names)
        else:
            known = tuple(getattr(self, "feature_names_in_", ()))
            require_names(table.names, known, self.n_features_in_)

    def _prepared(self, X: Any) -> tuple[AbstractTable, list[Gaps], Encoded]:
        """The table, and of its columns no more than what is needed from here on."""
        check_is_fitted(self, "schema_")
        table, columns = self._read(X, reset=False)
        encoded = self._encode(columns)
        for i, (known, column) in enumerate(zip(self.schema_.columns, columns, strict=True)):
            if table.typed:
                require_fillable(known, column)
            for event in (self._unfilled(known, column), *fixed_cells(table, i, known, column)):
                if event is not None and event not in self.events_:
                    self._tell(event)
        return table, [column.gaps for column in columns], encoded

    def _encode(self, columns: Sequence[Column]) -> Encoded:
        encoded = encode(self.schema_, columns)
        for event in encoded.events:
            self._tell(event)
        return encoded

    def _tell(self, event: str) -> None:
        """Remember something about new rows, and warn: it is about data, not about us."""
        if event not in self.events_:
            self.events_.append(event)
        warnings.warn(event, DataWarning, stacklevel=4)

    def _tell_of_weights(self, report: RowReport) -> None:
        """Say how many rows had unreliable weights, and what was done."""
        n_again = int(report.smoothed.sum())
        if n_again == 0:
            return
        event = (
            f"{n_again} of {len(report.smoothed)} incomplete rows have unreliable importance "
            "weights (Pareto k above 0.7 with all the codes they may have): their weights were "
            "smoothed; see diagnostics"
        )
        if event not in self.events_:
            self.events_.append(event)

    def _needed(self, gaps: Sequence[Gaps]) -> Bool[np.ndarray, " N"]:
        """Rows with a missing cell in a modelled column."""
        needed = np.zeros(len(gaps[0].missing), dtype=bool)
        for position in self.schema_.modelled if self.models_ else ():
            needed |= gaps[position].missing
        return needed

    def _unfilled(self, known: ColumnSchema, column: Column) -> str | None:
        return unfilled(known, column, keep_empty=self.keep_empty_features)

    def _fills(self, gaps: Sequence[Gaps], values: Float[np.ndarray, "N D"]) -> Fills:
        return Fills(self.schema_, gaps, values, keep_empty=self.keep_empty_features)

    def _dropped(self) -> frozenset[int]:
        if self.keep_empty_features:
            return frozenset()
        empty = [i for i, known in enumerate(self.schema_.columns) if known.kind == "empty"]
        return frozenset(empty)

    def _flagged(self) -> tuple[int, ...]:
        return self.incomplete_ if self.add_indicator else ()

    def _completed(
        self, table: AbstractTable, gaps: Sequence[Gaps], values: Float[np.ndarray, "N D"]
    ) -> AbstractTable:
        """The table filled, without empty columns, with indicators, as the settings say."""
        names = table.names
        table = table.fill(self._fills(gaps, values))
        dropped = self._dropped()
        if dropped:
            table = table.keep([i for i in range(len(names)) if i not in dropped])
        if self._flagged():
            flags = {f"missingindicator_{names[i]}": gaps[i].missing for i in self._flagged()}
            # scikit-learn refuses frames of which some labels are text and others are not.
            named = list(self.get_feature_names_out())
            table = table.with_columns(flags, first=False).named(named)
        return table


def _checked(
    check: Callable[[], None], callback: Callable[[TrainingProgress], None] | None
) -> Callable[[TrainingProgress], None]:
    """Look whether to go on each time that training has something to tell."""

    def told(progress: TrainingProgress) -> None:
        check()
        if callback is not None:
            callback(progress)

    return told


def _told_of(events: Sequence[Sequence[str]]) -> list[str]:
    """What happened to several models: once what happened to all, by number what did not."""
    told = {}
    for i, own in enumerate(events):
        for event in own:
            shared = all(event in others for others in events)
            told[event if shared else f"model {i + 1} of {len(events)}: {event}"] = None
    return list(told)


def _within(settings: TrainingSettings, seconds: float | None) -> TrainingSettings:
    return settings if seconds is None else dataclasses.replace(settings, max_seconds=seconds)


def _is_frame(X: Any) -> bool:
    """A table of some library, or of none that is read, rather than what becomes an array."""
    if isinstance(X, Mapping):
        return True
    return hasattr(X, "column_names") or hasattr(X, "columns") or hasattr(X, "collect")


def _as_array(X: Any) -> np.ndarray:
    """Arrays, lists of lists, and what scikit-learn takes for an array."""
    if isinstance(X, np.ma.MaskedArray):  # of which scikit-learn would take what is masked
        numbers = np.issubdtype(X.dtype, np.number) or X.dtype == np.bool_
        X = np.ma.filled(X.astype(np.float64 if numbers else object), np.nan)
    keep_dtype: Any = None
    return np.asarray(check_array(X, dtype=keep_dtype, ensure_all_finite=False))
