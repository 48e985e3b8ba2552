"""What is known of imputed cells: columns in the completed table, and files beside it."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from miwae.cli._options import Uncertainty
from miwae.columns import Cells
from miwae.documents import (
    FLAG,
    Document,
    Frame,
    Reading,
    require_free_names,
    require_writable,
    write_frame,
)
from miwae.errors import SettingsError

if TYPE_CHECKING:
    from miwae.tabular import EncodedTable, FittedTable, Imputed, LevelProbabilities

DECIMALS = 4

# What is added to the name of a column for the ends of its intervals.
ENDS = (".lower", ".upper")


def require_uncertainty(more: Uncertainty, output: str, n_imputations: int) -> None:
    """Refuse, before long work, what could not be written."""
    asked = [option for option, value in more._asdict().items() if value]
    if asked and n_imputations:
        raise SettingsError(
            f"--{asked[0]} is about a single completed table: leave out -m {n_imputations}"
        )
    if more.interval is not None and not 0 < more.interval < 1:
        raise SettingsError(f"--interval {more.interval:g} must lie between 0 and 1, as 0.9 does")
    files = {"probabilities": more.probabilities, "diagnostics": more.diagnostics}
    paths = {option: path for option, path in files.items() if path is not None}
    for option, path in paths.items():
        if path == "-" or path == output or list(paths.values()).count(path) > 1:
            raise SettingsError(f"--{option} {path}: it needs a file of its own")
        require_writable(None, path)


def require_room(document: Document, output: str, more: Uncertainty) -> None:
    """Refuse, before long work, a table that has a column called as one that will be added."""
    words = ((FLAG,) if more.flag else ()) + (() if more.interval is None else ENDS)
    require_free_names(document, output, words)


def interval_limits(
    fitted: "FittedTable",
    table: "EncodedTable",
    level: float,
    imputed: "Imputed | None",
    **work: Any,
) -> dict[str, dict[int, Cells]]:
    """The ends of central intervals, by what is added to the names of columns with an order."""
    levels = ((1 - level) / 2, (1 + level) / 2)
    unordered = ("binary", "categorical")
    kinds = [column.kind.label for column in fitted.schema.columns]
    limits = fitted.quantiles(table, levels, imputed=imputed, **work)
    return {
        end: {i: cells[i] for i in cells if kinds[i] not in unordered}
        for end, cells in zip(ENDS, limits, strict=True)
    }


def write_beside(
    reading: Reading,
    more: Uncertainty,
    imputed: "Imputed | None" = None,
    found: "Mapping[int, LevelProbabilities] | None" = None,
) -> None:
    if more.probabilities is not None:
        _write_probabilities(reading, found or {}, more.probabilities)
    if more.diagnostics is not None:
        _write_diagnostics(reading.document, imputed, more.diagnostics)


def _write_probabilities(
    reading: Reading, found: "Mapping[int, LevelProbabilities]", path: str
) -> None:
    """One line for each level of each imputed cell, in the order of the rows."""
    document, lines = reading.document, []
    for position, own in found.items():
        texts = reading.texts(position, own.level_cells)
        for row, values in zip(own.rows.tolist(), own.values.tolist(), strict=True):
            lines += [(row, position, *pair) for pair in zip(texts, values, strict=True)]
    lines.sort(key=lambda line: line[:2])
    numbers = document.row_numbers().tolist()
    shown = [(numbers[row], document.names[j], *rest) for row, j, *rest in lines]
    names = (document.row_word, "column", "level", "probability")
    write_frame(Frame.of_rows(names, shown), path, decimals=DECIMALS)


def _write_diagnostics(document: Document, imputed: "Imputed | None", path: str) -> None:
    """One line for each row with imputed cells; None if nothing was imputed."""
    names = (document.row_word, "n_samples", "effective_sample_size", "pareto_k", "smoothed")
    if imputed is None:
        write_frame(Frame.of_rows(names, []), path)
        return
    sampled = np.flatnonzero(imputed.report.n_samples)
    columns = (document.row_numbers(), *imputed.report)
    values = tuple(np.asarray(column)[sampled].tolist() for column in columns)
    write_frame(Frame(names, values), path, decimals=DECIMALS)
