"""A user's own table in an experiment: its matrix of numbers, and a summary of the results."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from miwae.columns import Column, Schema
from miwae.columns.kinds import Coded
from miwae.errors import DataError
from miwae.evaluation._metrics import Flags, Table


class Matrix(NamedTuple):
    x: Table
    categorical: Flags
    names: tuple[str, ...]
    imputed: Flags  # columns that are more than predictors of the others


def as_matrix(schema: Schema, columns: Sequence[Column]) -> Matrix:
    """Numbers unchanged and categories as codes, NaN where missing; other columns are left out."""
    parts, categorical, names, imputed = [], [], [], []
    for position in schema.modelled:
        known, column = schema.columns[position], columns[position]
        values, seen, *_ = known.encoded(column)
        coded = isinstance(known.kind, Coded)
        parts.append(np.where(seen, values if coded else column.values, np.nan))
        categorical.append(coded)
        names.append(known.name)
        imputed.append(known.role != "predictor")
    if len(parts) < 2:
        raise DataError("a comparison needs at least two columns with different values")
    if not any(imputed):
        raise DataError("a comparison needs a column that is more than a predictor")
    flags = np.array(categorical), np.array(imputed)
    return Matrix(np.stack(parts, axis=1), flags[0], tuple(names), flags[1])


class Summary(NamedTuple):
    """The mean results of a method over masks; None for a metric without cells to measure."""

    method: str
    n_masks: int
    mse: float | None  # in units of the columns' variances
    mse_deviation: float | None  # standard deviation over masks
    mae: float | None
    crps: float | None
    accuracy: float | None
    log_loss: float | None
    seconds: float
    error: str | None  # the last failure, if any


def summarise(records: Iterable[dict[str, Any]]) -> list[Summary]:
    """One summary per method, the most accurate first: by error, or else by accuracy."""
    by_method = defaultdict(list)
    for record in records:
        by_method[record["method"]].append(record)
    lines = [_summary(method, own) for method, own in by_method.items()]
    error = lambda s: float("inf") if s.mse is None else s.mse  # noqa: E731
    return sorted(lines, key=lambda s: (error(s), 0 if s.accuracy is None else -s.accuracy))


# Differences of errors that are not worth a word: this share of ours, or so many standard errors.
LITTLE, ERRORS = 0.05, 2.0

# What is compared, and how to read it from a record: less is better.
COMPARED: dict[str, Callable[[dict[str, Any]], float | None]] = {
    "squared error": lambda record: record.get("mse"),
    "wrong categories": lambda record: 1 - record["accuracy"] if "accuracy" in record else None,
}


class Standing(NamedTuple):
    """How a method stands among the others by one measure, on the same hidden cells."""

    measure: str
    best: float  # the smallest error of the others
    error: float  # that of the method
    better: tuple[str, ...]  # methods with clearly smaller errors, the best first
    as_good: tuple[str, ...]


def standings(records: Sequence[dict[str, Any]], method: str) -> list[Standing]:
    """Which other methods are better than one, or as good; by each measure of the records."""
    found = []
    for measure, error_of in COMPARED.items():
        errors = defaultdict(dict)
        for record in records:
            if (error := error_of(record)) is not None:
                errors[record["method"]][record["mask"]] = error
        own = errors.pop(method, {})
        pairs = {name: _gain(own, theirs) for name, theirs in errors.items()}
        gains = {name: pair for name, pair in pairs.items() if pair is not None}
        if by_gain := sorted(gains, key=lambda name: -gains[name][0]):
            better = tuple(name for name in by_gain if gains[name][0] > gains[name][1])
            as_good = tuple(name for name in by_gain if abs(gains[name][0]) <= gains[name][1])
            best, ours = (float(np.mean([*e.values()])) for e in (errors[by_gain[0]], own))
            found.append(Standing(measure, best, ours, better, as_good))
    return found


def _gain(own: dict[int, float], other: dict[int, float]) -> tuple[float, float] | None:
    """By how much the other errors are smaller on average, and what would be nothing."""
    masks = sorted(own.keys() & other.keys())
    if not masks:
        return None
    gains = np.array([own[mask] - other[mask] for mask in masks])
    chance = ERRORS * gains.std(ddof=1) / np.sqrt(len(gains)) if len(gains) > 1 else 0.0
    little = LITTLE * np.mean([own[mask] for mask in masks])
    return float(gains.mean()), float(max(chance, little))


def _summary(method: str, records: list[dict[str, Any]]) -> Summary:
    fine = [record for record in records if "error" not in record]

    def mean(name: str) -> float | None:
        values = [record[name] for record in fine if name in record]
        return float(np.mean(values)) if values else None

    errors = [record["mse"] for record in fine if "mse" in record]
    return Summary(
        method=method,
        n_masks=len(fine),
        mse_deviation=float(np.std(errors, ddof=1)) if len(errors) > 1 else None,
        seconds=float(np.mean([record["seconds"] for record in records])),
        error=next((r["error"] for r in reversed(records) if "error" in r), None),
        **{name: mean(name) for name in ("mse", "mae", "crps", "accuracy", "log_loss")},
    )
