"""A user's own table in an experiment: its matrix of numbers, and a summary of the results."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
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


def as_matrix(schema: Schema, columns: Sequence[Column]) -> Matrix:
    """Numbers unchanged and categories as codes, NaN where missing; other columns are left out."""
    parts, categorical, names = [], [], []
    for position in schema.modelled:
        known, column = schema.columns[position], columns[position]
        values, seen, *_ = known.encoded(column)
        coded = isinstance(known.kind, Coded)
        parts.append(np.where(seen, values if coded else column.values, np.nan))
        categorical.append(coded)
        names.append(known.name)
    if len(parts) < 2:
        raise DataError("a comparison needs at least two columns with different values")
    return Matrix(np.stack(parts, axis=1), np.array(categorical), tuple(names))


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
