"""Experiments: hide cells, let methods impute them, compare; one record for each attempt.

An attempt is identified by the fields in `KEY`. Which cells are hidden depends on the seed and the
mask number only: all methods see the same missing cells, in any order, and after a resume.
"""

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Int

from miwae.errors import DataError
from miwae.evaluation import _metrics as metrics
from miwae.evaluation._amputation import ampute
from miwae.evaluation._metrics import Draws, Flags, Hidden, Table

KEY = ("protocol", "data", "method", "mechanism", "rate", "standardise", "mask", "seed")

# Added to the seed, so that hidden cells, new rows and methods use independent random numbers.
CELLS, ROWS = 1, 2

Record: TypeAlias = dict[str, Any]
Records: TypeAlias = Iterator[Record]
Methods: TypeAlias = Mapping[str, Callable[..., Any]]  # by name
Masks: TypeAlias = Iterable[int]  # numbers: 0, 1, 2, ...
Done: TypeAlias = Container[tuple[Any, ...]]  # attempts, as `key_of` identifies them


class Completed(NamedTuple):
    """The result of a method that can draw several imputations; others return the table alone."""

    table: Table
    draw: Callable[[], Draws]  # several completed tables; not timed


class Experiment(NamedTuple):
    """A table, and how cells of it are hidden.

    Numbers are centred and divided by the standard deviation of their column, computed from all
    cells of `x` ("complete", as in the paper) or from the cells that are not hidden ("observed",
    as in practice). Methods get these units, and errors are measured in them.
    """

    data: str  # the name of the table, for the records
    x: Table  # NaN where a cell is missing already; categories as codes 0, 1, ...
    categorical: Flags
    mechanism: str = "mcar-exact"  # one of `MECHANISMS`
    rate: float = 0.5  # the share of the observed cells to hide
    seed: int = 0  # of hidden cells, new rows and methods
    standardise: Literal["complete", "observed"] = "complete"
    losing: Flags | None = None  # the columns of which cells are hidden; all by default


def in_sample(experiment: Experiment, methods: Methods, masks: Masks, done: Done = ()) -> Records:
    """Complete the table itself, with each method and each mask.

    A record has the fields of `KEY`, `seconds`, and the metrics: `mse`, `rmse`, `mae`,
    `wasserstein` and `crps` of numbers, `accuracy` and `log_loss` of categories, if there are any;
    or `error`. The CRPS of a single table is its absolute error, by definition. The log-loss needs
    a method that draws: a single wrong category would make it infinite.

    A method is called with (x with NaN, categorical, seed) and returns x completed: an array, or
    `Completed`. Attempts that are `done` are skipped.
    """
    return _records(experiment, "in-sample", methods, masks, done)


def new_rows(
    experiment: Experiment, methods: Methods, masks: Masks, done: Done = (), *, share: float = 0.2
) -> Records:
    """Fit on a part of the incomplete rows and complete the others; records as in `in_sample`.

    Each mask has its own split of the rows, of which a `share` is new; `standardise="observed"`
    uses only the rows that methods are fitted on. A method is called with (x with NaN,
    categorical, seed) and returns a function that completes other rows.
    """
    n_rows = len(experiment.x)
    n_new = round(share * n_rows)
    if not 0 < n_new < n_rows:
        raise DataError(
            f"{n_new} of the {n_rows} rows of {experiment.data} are new with a share of "
            f"{share:g}: some have to be new, and some to be learned from"
        )
    return _records(experiment, "new-rows", methods, masks, done, n_new)


def _records(
    e: Experiment, protocol: str, methods: Methods, masks: Masks, done: Done, n_new: int = 0
) -> Records:
    n_rows = len(e.x)
    for mask in masks:
        order = np.random.default_rng([e.seed, mask, ROWS]).permutation(n_rows)
        new = np.isin(np.arange(n_rows), order[:n_new])
        x, hidden = hidden_cells(e, mask, ~new)
        given, scored = np.where(hidden, np.nan, x), new if n_new else ~new

        def attempt(method: Any) -> Any:
            result = method(given[~new], e.categorical, e.seed + mask)  # noqa: B023
            return result(given[new]) if n_new else result  # noqa: B023

        for name, method in methods.items():
            identity = (protocol, e.data, name, e.mechanism, e.rate, e.standardise, mask, e.seed)
            if identity not in done:
                outcome = _outcome(partial(attempt, method), e, x[scored], hidden[scored])
                yield dict(zip(KEY, identity, strict=True)) | outcome


def key_of(record: Record) -> tuple[Any, ...]:
    return tuple(record[field] for field in KEY)


def hidden_cells(e: Experiment, mask: int, known_rows: Any = ...) -> tuple[Table, Hidden]:
    """The standardised table, and the cells to hide from methods."""
    rng = np.random.default_rng([e.seed, mask, CELLS])
    hidden = ampute(e.x, e.rate, e.mechanism, rng=rng, losing=e.losing)
    known = e.x if e.standardise == "complete" else np.where(hidden, np.nan, e.x)[known_rows]
    mean = np.where(e.categorical, 0.0, np.nanmean(known, axis=0))
    deviation = np.where(e.categorical, 1.0, metrics.column_deviations(known))
    return (e.x - mean) / deviation, hidden


def _outcome(
    attempt: Callable[[], Any], experiment: Experiment, truth: Table, hidden: Hidden
) -> Record:
    start = time.perf_counter()
    try:
        result = attempt()
        seconds = time.perf_counter() - start
        table = result.table if isinstance(result, Completed) else result
        completed = np.asarray(table, dtype=float)
        _require_complete(completed, truth, hidden)
        draws = result.draw() if isinstance(result, Completed) else None
    except Exception as error:  # one method that fails must not stop the others
        text = f"{type(error).__name__}: {error}"
        return {"seconds": time.perf_counter() - start, "error": text}
    outcome: Record = {"seconds": seconds}
    numbers, codes = hidden & ~experiment.categorical, hidden & experiment.categorical
    if numbers.any():
        for metric in (metrics.mse, metrics.rmse, metrics.mae, metrics.wasserstein):
            outcome[metric.__name__] = metric(truth, completed, numbers)
        outcome["crps"] = outcome["mae"] if draws is None else metrics.crps(truth, draws, numbers)
    if codes.any():
        outcome["accuracy"] = metrics.accuracy(truth, completed, codes)
        if draws is not None:
            # Counted in the whole table: the scored rows may lack a category.
            n_codes = np.nanmax(experiment.x, axis=0).astype(int) + 1
            outcome["log_loss"] = _log_loss(truth, draws, codes, n_codes)
    return outcome


def _log_loss(truth: Table, draws: Draws, codes: Hidden, n_codes: Int[np.ndarray, " D"]) -> float:
    """Of hidden categories, with shares of draws, and of one that is all categories evenly."""
    total = 0.0
    for j in np.flatnonzero(codes.any(0)):
        counts = (draws[:, :, j, None] == np.arange(n_codes[j])).sum(0)
        shares = (counts + 1 / n_codes[j]) / (len(draws) + 1)
        total += metrics.log_loss(truth[:, j], shares, codes[:, j]) * codes[:, j].sum()
    return total / codes.sum()


def _require_complete(completed: np.ndarray, truth: Table, hidden: Hidden) -> None:
    if completed.shape != truth.shape:
        raise DataError(f"the completed table has the shape {completed.shape}, not {truth.shape}")
    if not np.isfinite(completed[hidden]).all():
        raise DataError(f"{(~np.isfinite(completed[hidden])).sum()} hidden cells were not imputed")
    observed = ~hidden & ~np.isnan(truth)
    if not np.array_equal(completed[observed], truth[observed]):
        raise DataError("observed cells were changed")
