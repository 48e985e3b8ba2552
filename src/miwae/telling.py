"""What the command line says: text on standard error, or one JSON document."""

import json
import sys
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from miwae.atomic import require_directory, write_atomically
from miwae.errors import SettingsError
from miwae.table.base import AbstractTable, Column
from miwae.table.inspection import Inspection, as_data
from miwae.table.text import TextTable

if TYPE_CHECKING:
    from miwae.evaluation import Summary
    from miwae.imputer import MIWAEImputer

__all__ = [
    "STARTED",
    "Comparison",
    "Speaker",
    "comment_lines",
    "console_on",
    "plot_comparisons",
    "print_cells",
    "print_comparisons",
    "print_inspection",
    "print_patterns",
    "require_plots",
    "tell_record",
    "words_taken",
]

STARTED = time.monotonic()


def console_on(stream: Any) -> Console:
    """Wide enough for a table where there is no terminal whose width would be known."""
    return Console(
        file=stream,
        highlight=False,
        # Names of columns and files are not markup.
        markup=False,
        emoji=False,
        width=None if stream.isatty() else 110,
    )


class Speaker:
    """Tells what happens, as text on standard error, or at the end as one JSON document.

    The document goes to standard output, unless that is where the table goes.
    """

    def __init__(self, *, as_json: bool, quiet: bool, to_stdout: bool) -> None:
        self.talks = not as_json and not quiet
        self.as_json = as_json
        self.stream = sys.stdout if to_stdout else sys.stderr
        self.data: dict[str, Any] = {}

    def inspection(self, source: str, table: AbstractTable, inspection: Inspection) -> None:
        """What each column is taken for, and what is missing."""
        self.data |= {
            "file": source,
            "taken_as_missing": words_taken(table),
            "comment_lines": comment_lines(table),
            **as_data(inspection),
        }
        if self.talks:
            print_inspection(console_on(sys.stderr), source, table, inspection)

    def imputed(
        self,
        table: AbstractTable,
        columns: list[Column],
        imputer: "MIWAEImputer",
        output: str,
        n_imputations: int,
    ) -> None:
        """What was filled, and what was not."""
        left = {
            known.name: _n_left(table, position, column, known.kind)
            for position, (known, column) in enumerate(
                zip(imputer.schema_.columns, columns, strict=True)
            )
        }
        left = {name: count for name, count in left.items() if count}
        n_missing = sum(int(column.missing.sum()) for column in columns)
        self.data["filled_cells"] = n_missing - sum(left.values())
        self.data["left_missing"] = left
        self.data["imputations"] = n_imputations
        what = f"{n_imputations} imputations of " if n_imputations else "filled "
        lines = [f"{what}{self.data['filled_cells']} cells"]
        lines += [f"{count} cells of {name!r} stay missing" for name, count in left.items()]
        self._end(imputer, output, lines)

    def nothing_missing(self, output: str) -> None:
        """That there was nothing to do."""
        self.data |= {"filled_cells": 0, "left_missing": {}, "imputations": 0, "events": []}
        self._closed(output, ["nothing is missing: the table is as it was"])

    def fitted(self, imputer: "MIWAEImputer", output: str) -> None:
        """That a model was written."""
        self._end(imputer, output, ["fitted"])

    def scored(self, scores: Any, events: list[str], output: str) -> None:
        """The mean of the scores."""
        self.data |= {
            "events": list(events),
            "rows": len(scores),
            "mean_log_density": float(scores.mean()),
        }
        if self.talks:
            where = "" if output == "-" else f" -> {output}"
            sys.stderr.write("".join(f"{event}\n" for event in events))
            line = f"{len(scores)} rows, mean log-density {scores.mean():.4f}{where}\n"
            sys.stderr.write(line)
        self._write_json()

    def _end(self, imputer: "MIWAEImputer", output: str, lines: list[str]) -> None:
        self.data["events"] = list(imputer.events_)
        if self.talks:
            # What each column was taken for has been said before.
            kinds = {
                f"column {known.name!r} is {known.kind}: {known.reason}"
                for known in imputer.schema_.columns
            }
            events = [event for event in imputer.events_ if event not in kinds]
            sys.stderr.write("".join(f"{event}\n" for event in events))
        self._closed(output, lines)

    def _closed(self, output: str, lines: list[str]) -> None:
        seconds = time.monotonic() - STARTED
        self.data["seconds"] = round(seconds, 2)
        self.data["output"] = None if output == "-" else output
        if self.talks:
            where = "" if output == "-" else f" -> {output}"
            sys.stderr.write("; ".join(lines) + f" in {seconds:.1f} s{where}\n")
        self._write_json()

    def _write_json(self) -> None:
        if self.as_json:
            self.stream.write(json.dumps(self.data, indent=2) + "\n")
            self.stream.flush()


def _n_left(table: AbstractTable, position: int, column: Column, kind: str) -> int:
    """Missing cells of a column that stay so: it is not modelled, or they cannot be written."""
    if kind in ("identifier", "empty"):
        return int(column.missing.sum())
    return sum(int((column.missing & where).sum()) for where in table.fixed(position).values())


def words_taken(table: AbstractTable) -> dict[str, int] | None:
    """Which words of a text were taken as missing."""
    return table.missing_words() if isinstance(table, TextTable) else None


def comment_lines(table: AbstractTable) -> int:
    """How many lines before the names of a text are taken for comments."""
    return table.n_comments if isinstance(table, TextTable) else 0


def print_inspection(
    console: Console, source: str, table: AbstractTable, inspection: Inspection
) -> None:
    """One line on the table, one for each column, and hints."""
    share = inspection.n_missing / max(inspection.n_cells, 1)
    words = words_taken(table)
    taken = ""
    if words:
        taken = ": " + ", ".join(f'"{word}" {count} times' for word, count in words.items())
    console.print(
        f"{'standard input' if source == '-' else source}: {inspection.n_rows} rows, "
        f"{len(inspection.columns)} columns, {inspection.n_missing} cells missing "
        f"({share:.1%}){taken}",
        soft_wrap=True,
    )
    if count := comment_lines(table):
        lines = "the first line begins" if count == 1 else f"the first {count} lines begin"
        console.print(
            f"{lines} with #: not read as part of the table, and kept in text files",
            soft_wrap=True,
        )
    view = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("column", "kind"):
        view.add_column(name, no_wrap=True)
    view.add_column("missing", justify="right", no_wrap=True)
    view.add_column("", justify="right", no_wrap=True)
    view.add_column("because")
    for column in inspection.columns:
        share = column.n_missing / max(inspection.n_rows, 1)
        percent = f"{share:.1%}" if column.n_missing else ""
        view.add_row(column.name, column.kind, str(column.n_missing), percent, column.reason)
    console.print(view)
    for hint in inspection.hints:
        remedy = " If so: --na VALUE" if hint.endswith("?") else ""
        console.print(hint + remedy, soft_wrap=True)


def print_patterns(console: Console, inspection: Inspection) -> None:
    """Which columns are missing together, the most frequent patterns first."""
    view = Table(box=None, pad_edge=False, header_style="bold")
    view.add_column("rows", justify="right", no_wrap=True)
    view.add_column("missing together")
    for pattern in inspection.patterns:
        view.add_row(str(pattern.n_rows), ", ".join(pattern.missing) or "nothing")
    more = inspection.n_patterns - len(inspection.patterns)
    if more > 0:
        view.add_row("", f"... and {more} further patterns")
    console.print()
    console.print(view)


def print_cells(
    console: Console,
    table: AbstractTable,
    columns: list[Column],
    completed: Any,
    lower: Any,
    upper: Any,
) -> None:
    """The first imputed cells of each column, with their intervals."""
    view = Table(
        title="some of the completed cells", box=None, pad_edge=False, title_justify="left"
    )
    for name in ("row", "column", "imputed", "90 % interval"):
        view.add_column(name, no_wrap=True)
    for position, column in enumerate(columns):
        for row in column.missing.nonzero()[0][:2]:
            values = [frame.texts(position)[row] for frame in (completed, lower, upper)]
            interval = "" if column.storage == "text" else f"{values[1]} to {values[2]}"
            view.add_row(str(row + 1), column.name, values[0], interval)
    console.print(view)


class Comparison(NamedTuple):
    """What methods did on one table."""

    source: str
    names: tuple[str, ...]  # of the columns that were compared
    summaries: "list[Summary]"  # the most accurate first
    records: list[dict[str, Any]]

    def as_data(self) -> dict[str, Any]:
        """For JSON."""
        return {
            "file": self.source,
            "columns": list(self.names),
            "methods": [summary._asdict() for summary in self.summaries],
            "records": self.records,
        }


def tell_record(record: dict[str, Any], n_masks: int) -> None:
    """One line for each attempt, since some take long."""
    parts = [f"{name} {record[name]:.4f}" for name in ("mse", "accuracy") if name in record]
    result = record.get("error") or ", ".join(parts)
    sys.stderr.write(
        f"{record['data']}  mask {record['mask'] + 1} of {n_masks}  {record['method']}: {result} "
        f"({record['seconds']:.1f} s)\n"
    )


# What is told of each method, where there is anything to tell: title, field, format.
TOLD = (
    ("squared error", "mse", ".3f"),
    ("absolute error", "mae", ".3f"),
    ("CRPS", "crps", ".3f"),
    ("right categories", "accuracy", ".1%"),
    ("log-loss", "log_loss", ".3f"),
    ("seconds", "seconds", ".1f"),
)


def print_comparisons(console: Console, compared: list[Comparison]) -> None:
    """One table for each file, the most accurate method first."""
    for comparison in compared:
        view = Table(
            title=f"{comparison.source}: {len(comparison.names)} columns",
            box=None,
            pad_edge=False,
            title_justify="left",
            header_style="bold",
        )
        view.add_column("method", no_wrap=True)
        lines = comparison.summaries
        told = [t for t in TOLD if any(getattr(line, t[1]) is not None for line in lines)]
        for title, *_ in told:
            view.add_column(title, justify="right", no_wrap=True)
        for line in lines:
            view.add_row(line.method, *(_told(line, name, form) for _, name, form in told))
        console.print(view)
        for line in lines:
            if line.error is not None:
                console.print(f"{line.method} failed: {line.error}", soft_wrap=True)
        console.print("Errors on hidden cells, in units of the deviations of their columns.\n")


def _told(line: "Summary", name: str, form: str) -> str:
    value = getattr(line, name)
    if value is None:
        return ""
    spread = line.mse_deviation if name == "mse" else None
    return f"{value:{form}}" + (f" ± {spread:{form}}" if spread is not None else "")


def require_plots(path: str) -> None:
    """Find out before long work whether there can be a picture.

    Raises:
        SettingsError: matplotlib is not installed, or does not know the kind of file.
        MiwaeError: there is no such directory, or it may not be written to.
    """
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise SettingsError("--plot needs matplotlib: pip install 'miwae[plots]'") from error
    if not path.endswith((".png", ".svg", ".pdf")):
        raise SettingsError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    require_directory(path)


def plot_comparisons(compared: list[Comparison], path: str) -> None:
    """Squared error with its deviation over masks, or wrong categories; a panel for each file."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 0.6 + 2.6 * len(compared)), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(len(compared), 1, squeeze=False)[:, 0]
    for panel, comparison in zip(panels, compared, strict=True):
        lines = [line for line in comparison.summaries if line.n_masks][::-1]
        names = [f"{line.method} ({line.seconds:.0f} s)" for line in lines]
        colours = ["C3" if line.method == "miwae" else "0.65" for line in lines]
        if any(line.mse is not None for line in lines):
            spread = [line.mse_deviation or 0.0 for line in lines]
            panel.barh(names, [line.mse for line in lines], xerr=spread, color=colours, capsize=3)
            panel.set(title=comparison.source, xlabel="squared error on hidden cells")
        else:  # a table of categories
            panel.barh(names, [1 - (line.accuracy or 0.0) for line in lines], color=colours)
            panel.set(title=comparison.source, xlabel="share of wrong categories, hidden cells")
        for side in ("top", "right"):
            panel.spines[side].set_visible(False)
    write_atomically(path, lambda file: figure.savefig(file, format=path[-3:], dpi=150))
