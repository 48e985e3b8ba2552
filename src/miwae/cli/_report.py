"""What the command line reports: text on standard error, or one JSON document."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

from miwae.cli._options import STARTED, Source
from miwae.columns import Cells, Inspection
from miwae.documents import Reading
from miwae.events import Event

if TYPE_CHECKING:
    from miwae._progress import Progressor

__all__ = ["Report", "console_on", "print_cells", "print_inspection", "print_patterns"]


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


class Report:
    """Reports what happens, as text on standard error, or at the end as one JSON document.

    The document goes to standard output, unless that is where the table goes.
    """

    def __init__(self, *, as_json: bool, quiet: bool, to_stdout: bool) -> None:
        self.speaks = not as_json and not quiet
        self.as_json = as_json
        self.stream = sys.stdout if to_stdout else sys.stderr
        self.data: dict[str, Any] = {}

    def progress(self) -> "contextlib.AbstractContextManager[Progressor]":
        """Bars, if text is wanted."""
        from miwae._progress import progressor

        return progressor(self.speaks)

    def inspection(self, file: Source, reading: Reading, inspection: Inspection) -> None:
        """What each column is taken for, and what is missing."""
        self.data |= {
            "file": file.name,
            "taken_as_missing": reading.missing_words(),
            "comment_lines": file.document.n_comments,
            **inspection.as_data(),
        }
        if self.speaks:
            print_inspection(console_on(sys.stderr), file, reading, inspection)

    def imputed(
        self,
        reading: Reading,
        cells: Mapping[int, Cells],
        events: Sequence[Event],
        output: str,
        n_imputations: int,
    ) -> None:
        """What was filled, and what was not."""
        left = _left_missing(reading, cells)
        n_missing = sum(column.n_missing for column in reading.columns)
        self.data["filled_cells"] = n_missing - sum(left.values())
        self.data["left_missing"] = left
        self.data["imputations"] = n_imputations
        what = f"{n_imputations} imputations of " if n_imputations else "filled "
        lines = [f"{what}{self.data['filled_cells']} cells"]
        lines += [f"{count} cells of {name!r} stay missing" for name, count in left.items()]
        events = [*events, *_of_fixed_cells(reading, cells), *_of_dates(reading)]
        self._end(events, output, lines)

    def nothing_missing(self, output: str) -> None:
        """That there was nothing to do."""
        self.data |= {"filled_cells": 0, "left_missing": {}, "imputations": 0}
        self._end([], output, ["nothing is missing: the table is as it was"])

    def fitted(self, events: Sequence[Event], output: str) -> None:
        """That a model was written."""
        self._end(events, output, ["fitted"])

    def scored(self, scores: Any, events: Sequence[Event], output: str) -> None:
        """The mean of the scores."""
        self.data |= {"rows": len(scores), "mean_log_density": float(scores.mean())}
        line = f"{len(scores)} rows, mean log-density {scores.mean():.4f}"
        self._end(events, output, [line])

    def _end(self, events: Sequence[Event], output: str, lines: list[str]) -> None:
        events = list(dict.fromkeys(events))
        seconds = time.monotonic() - STARTED
        self.data["events"] = [event._asdict() for event in events]
        self.data["seconds"] = round(seconds, 2)
        self.data["output"] = None if output == "-" else output
        if self.speaks:
            # What each column was taken for has been shown before.
            texts = [event.text for event in events if event.about != "kind"]
            sys.stderr.write("".join(f"{text}\n" for text in texts))
            where = "" if output == "-" else f" -> {output}"
            sys.stderr.write("; ".join(lines) + f" in {seconds:.1f} s{where}\n")
        if self.as_json:
            self.stream.write(json.dumps(self.data, indent=2) + "\n")
            self.stream.flush()


def _left_missing(reading: Reading, cells: Mapping[int, Cells]) -> dict[str, int]:
    """Missing cells that stay so, by column: it is not imputed, or they cannot be overwritten."""
    left = {}
    for position, column in enumerate(reading.columns):
        count = column.n_missing
        if position in cells:
            count = sum(_n_fixed(reading, position).values())
        if count:
            left[column.name] = count
    return left


def _n_fixed(reading: Reading, position: int) -> dict[str, int]:
    missing = reading.columns[position].missing
    fixed = reading.document.fixed(position)
    return {what: int((where & missing).sum()) for what, where in fixed.items()}


def _of_fixed_cells(reading: Reading, cells: Mapping[int, Cells]) -> list[Event]:
    """Missing cells that cannot be overwritten."""
    events = []
    for position in cells:
        name = reading.columns[position].name
        for what, count in _n_fixed(reading, position).items():
            stay = "cell stays" if count == 1 else "cells stay"
            text = f"column {name!r}: {count} missing {stay} missing: {what} are not overwritten"
            events += [Event("not filled", name, count, text)] if count else []
    return events


def _of_dates(reading: Reading) -> list[Event]:
    """Dates that could be read in two ways, and were read as those that were learned."""
    return [
        Event(
            "dates",
            name,
            1,
            f"column {name!r}: nothing in these rows shows whether the day or the month comes "
            "first; read as learned; write all cells as 2024-12-31 to be sure",
        )
        for name in reading.ambiguous
    ]


def print_inspection(
    console: Console, file: Source, reading: Reading, inspection: Inspection
) -> None:
    """One line on the table, one for each column, and hints."""
    share = inspection.n_missing / max(inspection.n_cells, 1)
    words = reading.missing_words()
    taken = ""
    if words:
        taken = ": " + ", ".join(f'"{word}" {count} times' for word, count in words.items())
    console.print(
        f"{'standard input' if file.name == '-' else file.name}: {inspection.n_rows} rows, "
        f"{len(inspection.columns)} columns, {inspection.n_missing} cells missing "
        f"({share:.1%}){taken}",
        soft_wrap=True,
    )
    if count := file.document.n_comments:
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
        remedy = f" If so: {hint.option}" if hint.option else ""
        console.print(hint.text + remedy, soft_wrap=True)


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
    reading: Reading,
    cells: Mapping[int, Cells],
    lower: Mapping[int, Cells],
    upper: Mapping[int, Cells],
) -> None:
    """The first imputed cells of each column, with their intervals."""
    view = Table(
        title="some of the completed cells", box=None, pad_edge=False, title_justify="left"
    )
    for name in ("row", "column", "imputed", "90 % interval"):
        view.add_column(name, no_wrap=True)
    shown = [reading.frame(own, as_text=True).columns for own in (cells, lower, upper)]
    for position in cells:
        column = reading.columns[position]
        for row in column.missing.nonzero()[0][:2]:
            values = [str(columns[position][row]) for columns in shown]
            interval = "" if column.storage == "text" else f"{values[1]} to {values[2]}"
            view.add_row(str(row + 1), column.name, values[0], interval)
    console.print(view)
