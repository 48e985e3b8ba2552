"""What a report says, as values: the page shows them, and has them as JSON inside."""

import math
import platform
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from typing import Any, NamedTuple

import numpy as np

from miwae.columns import (
    TIMES,
    Cells,
    Column,
    ColumnSchema,
    Inspection,
    Schema,
    missing_associations,
    missing_cells,
    missing_correlations,
    seconds_text,
    stored_text,
)
from miwae.inference import RowReport
from miwae.tabular import EncodedTable, FittedTable, Imputed, LevelProbabilities

UNRELIABLE = 0.7  # Pareto's k above which importance weights cannot be trusted
EXAMPLES = 4  # imputed cells that a card shows
MOST_PAIRS = 8  # pairs of columns that are missing together, or predict each other's gaps
CLEAR = 0.2  # correlations and associations below are not worth a line
MOST_SCORED = 1_000  # rows among which odd ones are looked for
SCORING_SAMPLES = 128  # latent samples of each of them: enough to find the oddest
ODD_ROWS = 5

VERSIONS = ("miwae", "jax", "numpy", "scipy", "scikit-learn", "narwhals")


@dataclass(frozen=True)
class Example:
    row: int  # as the program counts that shows the table
    value: str
    lower: str = ""  # of the 90 % interval; empty for categories
    upper: str = ""
    probability: float | None = None  # of a category


@dataclass(frozen=True, kw_only=True)
class ColumnFacts:
    name: str
    kind: str
    reason: str
    n_missing: int
    share_missing: float
    n_distinct: int
    n_imputed: int
    quality: Mapping[str, Any] | None  # on held-out cells; None if it was not measured
    errors: tuple[str, str]  # on held-out cells, and those of the mean or mode, for people
    relative_error: float | None  # to the mean or mode, on held-out cells
    examples: tuple[Example, ...]
    remarks: tuple[str, ...]  # events and hints about it

    @property
    def verdict(self) -> str:
        """In a few words, how far imputed cells of the column can be trusted."""
        if self.quality is not None:
            return str(self.quality["verdict"])
        return "not measured" if self.n_imputed or not self.n_missing else "not imputed"


class Pair(NamedTuple):
    first: str
    second: str
    strength: float


@dataclass(frozen=True, kw_only=True)
class WeightFacts:
    n_rows: int  # that were sampled
    n_unreliable: int
    median_samples: float
    median_effective: float


class OddRow(NamedTuple):
    row: int  # as the program counts that shows the table
    log_density: float
    n_observed: int


@dataclass(frozen=True, kw_only=True)
class Facts:
    title: str
    row_word: str  # what a row is called: a line of a text file
    n_rows: int
    n_missing: int
    n_imputed: int
    columns: tuple[ColumnFacts, ...]
    patterns: tuple[Mapping[str, Any], ...]
    n_patterns: int
    together: tuple[Pair, ...]
    predictors: tuple[Pair, ...]  # the first is missing, depending on the second
    n_models: int
    training: tuple[Mapping[str, Any], ...]  # records of the first model
    weights: WeightFacts | None
    odd_rows: tuple[OddRow, ...]
    n_scored: int
    events: tuple[Mapping[str, Any], ...]
    settings: Mapping[str, Any]
    versions: Mapping[str, str]
    command: str

    def as_data(self) -> dict[str, Any]:
        """For JSON, which has no NaN."""
        return _plain(asdict(self))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _plain(own) for name, own in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(own) for own in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def facts_of(
    fitted: FittedTable,
    columns: Sequence[Column],
    inspection: Inspection,
    imputed: Imputed,
    *,
    title: str,
    command: str,
) -> Facts:
    """Everything that the page says."""
    events = tuple(dict.fromkeys((*fitted.events, *imputed.events)))
    odd, n_scored = _odd_rows(fitted, columns)
    return Facts(
        title=title,
        row_word=_place(columns, 0)[0],
        n_rows=inspection.n_rows,
        n_missing=inspection.n_missing,
        n_imputed=sum(len(cells.rows) for cells in imputed.cells.values()),
        columns=_of_columns(fitted, columns, inspection, imputed.cells, events),
        patterns=tuple(asdict(pattern) for pattern in inspection.patterns),
        n_patterns=inspection.n_patterns,
        together=_together(columns),
        predictors=_predictors(columns, fitted.schema),
        n_models=len(fitted.models),
        training=tuple(record._asdict() for record in fitted.history),
        weights=_of_weights(imputed.report),
        odd_rows=odd,
        n_scored=n_scored,
        events=tuple(event._asdict() for event in events),
        settings=asdict(fitted.settings),
        versions={"Python": platform.python_version()}
        | {name: metadata.version(name) for name in VERSIONS},
        command=command,
    )


def _of_columns(
    fitted: FittedTable,
    columns: Sequence[Column],
    inspection: Inspection,
    cells: Mapping[int, Cells],
    events: Sequence[Any],
) -> tuple[ColumnFacts, ...]:
    quality = {own.column: own for own in fitted.quality}
    examples = _examples(fitted, columns, cells)
    texts: dict[str | None, list[str]] = {}
    for event in events:
        if event.about not in ("kind", "quality"):  # the card says these itself
            texts.setdefault(event.column, []).append(event.text)
    for hint in inspection.hints:
        texts.setdefault(hint.column, []).append(hint.text)
    facts = []
    for i, own in enumerate(inspection.columns):
        judged = quality.get(own.name)
        facts.append(
            ColumnFacts(
                name=own.name,
                kind=own.kind,
                reason=own.reason,
                n_missing=own.n_missing,
                share_missing=own.n_missing / max(inspection.n_rows, 1),
                n_distinct=own.n_distinct,
                n_imputed=len(cells[i].rows) if i in cells else 0,
                quality=None if judged is None else judged._asdict(),
                errors=("", "") if judged is None else judged.shown,
                relative_error=None if judged is None else judged.relative_error,
                examples=examples.get(i, ()),
                remarks=tuple(texts.get(own.name, ())),
            )
        )
    return tuple(facts)


def _examples(
    fitted: FittedTable, columns: Sequence[Column], cells: Mapping[int, Cells]
) -> dict[int, tuple[Example, ...]]:
    """Some imputed cells of each column, with intervals.

    What a row gets is independent of the other rows, so only those that are shown are sampled.
    """
    shown = _rows_to_show(cells)
    if not shown:
        return {}
    rows = np.unique(np.concatenate(list(shown.values())))
    table = fitted.encoded([taken(column, rows) for column in columns])
    lower, upper = fitted.quantiles(table, (0.05, 0.95))
    coded = any(fitted.schema.columns[i].kind.levels for i in shown)
    likely = fitted.probabilities(table) if coded else {}
    examples = {}
    for i, own in shown.items():
        known, texts = fitted.schema.columns[i], []
        for row in own:
            value = cells[i].values[np.searchsorted(cells[i].rows, row)]
            place = np.searchsorted(rows, row)
            ends = (_at(limit, i, place) for limit in (lower, upper))
            ends = () if known.kind.levels or not known.kind.modelled else ends
            said = (shown_value(known, v) for v in (value, *ends))
            p = float(_at(likely, i, place).max()) if i in likely else None
            texts.append(Example(_place(columns, row)[1], *said, probability=p))
        examples[i] = tuple(texts)
    return examples


def _rows_to_show(cells: Mapping[int, Cells]) -> dict[int, np.ndarray]:
    """Some rows for each column: those that others show already, and more spread over the table.

    Columns share rows because the intervals of a row take long.
    """
    chosen, shown = np.zeros(0, dtype=int), {}
    for i, own in cells.items():
        shared = np.intersect1d(own.rows, chosen)[:EXAMPLES]
        others = np.setdiff1d(own.rows, shared)
        places = np.linspace(0, len(others) - 1, EXAMPLES - len(shared)).astype(int)
        more = others[np.unique(places)] if len(others) else others
        shown[i] = np.union1d(shared, more)
        chosen = np.union1d(chosen, more)
    return shown


def _place(columns: Sequence[Column], row: Any) -> tuple[str, int]:
    """The word and the number of a row, as the program counts that shows the table."""
    word, number = columns[0].place(int(row)).rsplit(" ", 1)
    return word, int(number)


def _at(cells: Mapping[int, Cells | LevelProbabilities], position: int, row: Any) -> Any:
    own = cells[position]
    return own.values[np.searchsorted(own.rows, row)]


def taken(column: Column, rows: np.ndarray) -> Column:
    """Some rows of a column."""
    return replace(column, values=column.values[rows], missing=column.missing[rows])


def shown_value(known: ColumnSchema, value: Any) -> str:
    """An imputed value as people write it, without more digits than it is worth."""
    if known.storage in TIMES:
        text = seconds_text(float(value), known.storage).split(".")[0].removesuffix(" 00:00:00")
        return text.removesuffix(":00") if known.storage == "clock" else text
    if known.storage == "number" and isinstance(value, float | np.floating):
        whole = known.kind.label in ("integer", "count") or abs(value) >= 1e4
        return f"{value:.0f}" if whole and abs(value) < 1e15 else f"{value:.4g}"
    return stored_text(value, known.storage)


def _together(columns: Sequence[Column]) -> tuple[Pair, ...]:
    correlations = missing_correlations(missing_cells(columns))
    correlations = np.tril(np.nan_to_num(correlations), -1)
    return _strongest(columns, correlations)


def _predictors(columns: Sequence[Column], schema: Schema) -> tuple[Pair, ...]:
    """What missing cells depend on, among the columns that others are imputed from."""
    used = np.isin(np.arange(len(columns)), schema.modelled)
    used[list(schema.targets)] = False
    return _strongest(columns, np.nan_to_num(missing_associations(columns)) * used)


def _strongest(columns: Sequence[Column], strength: np.ndarray) -> tuple[Pair, ...]:
    order = np.argsort(-np.abs(strength), axis=None, kind="stable")[:MOST_PAIRS]
    pairs = (np.unravel_index(place, strength.shape) for place in order)
    found = (Pair(columns[i].name, columns[j].name, float(strength[i, j])) for i, j in pairs)
    return tuple(pair for pair in found if abs(pair.strength) >= CLEAR)


def _of_weights(report: RowReport) -> WeightFacts | None:
    sampled = report.n_samples > 0
    if not sampled.any():
        return None
    return WeightFacts(
        n_rows=int(sampled.sum()),
        n_unreliable=int(np.count_nonzero(report.pareto_k[sampled] > UNRELIABLE)),
        median_samples=float(np.median(report.n_samples[sampled])),
        median_effective=float(np.median(report.effective_sample_size[sampled])),
    )


def _odd_rows(fitted: FittedTable, columns: Sequence[Column]) -> tuple[tuple[OddRow, ...], int]:
    """The rows whose observed cells are least probable, and among how many rows."""
    n_rows = len(columns[0].missing)
    rows = np.arange(n_rows)
    if n_rows > MOST_SCORED:
        rows = np.sort(np.random.default_rng(0).choice(n_rows, MOST_SCORED, replace=False))
    table: EncodedTable = fitted.encoded([taken(column, rows) for column in columns])
    if not fitted.models:
        return (), 0
    settings = replace(fitted.settings, n_imputation_samples=SCORING_SAMPLES)
    scores = replace(fitted, settings=settings).log_prob(table)
    scores = np.where(table.trainable, scores, np.inf)
    lowest = np.argsort(scores, kind="stable")[:ODD_ROWS]
    n_observed = table.observed.sum(axis=1)
    numbers = (_place(columns, rows[i])[1] for i in lowest)
    odd = (
        OddRow(number, float(scores[i]), int(n_observed[i]))
        for number, i in zip(numbers, lowest, strict=True)
    )
    return tuple(row for row in odd if np.isfinite(row.log_density)), len(rows)
