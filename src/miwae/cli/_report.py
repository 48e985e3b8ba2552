"""What a command reports: text on standard error, or one JSON document."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from miwae.cli._options import STARTED
from miwae.cli._source import Inspected
from miwae.columns import Cells, Inspection
from miwae.documents import Reading
from miwae.events import Event

if TYPE_CHECKING:
    from miwae._progress import Progressor


class Report(NamedTuple):
    data: Mapping[str, Any]  # for JSON
    parts: Sequence[str]  # of one line for people
    events: Sequence[Event] = ()  # every automatic decision


class Reporter(NamedTuple):
    output: str  # of the result; JSON goes to stdout, or to stderr if the result is there ("-")
    as_json: bool = False  # one JSON document at the end instead of text
    quiet: bool = False  # no text

    @property
    def shows_text(self) -> bool:
        return not self.as_json and not self.quiet

    def progress(self) -> "contextlib.AbstractContextManager[Progressor]":
        from miwae._progress import progressor

        return progressor(self.shows_text)

    def show(self, file: Inspected) -> None:
        if self.shows_text:
            print_inspection(console_on(sys.stderr), file)

    def finish(self, report: Report) -> None:
        events = list(dict.fromkeys(report.events))
        seconds = time.monotonic() - STARTED
        path = None if self.output == "-" else self.output
        if self.shows_text:
            # The kinds of the columns have been shown before.
            texts = [event.text for event in events if event.about != "kind"]
            where = "" if path is None else f" -> {path}"
            texts.append("; ".join(report.parts) + f" in {seconds:.1f} s{where}")
            sys.stderr.write("".join(f"{text}\n" for text in texts))
        if self.as_json:
            ending = {"events": [event._asdict() for event in events]}
            ending |= {"seconds": round(seconds, 2), "output": path}
            stream = sys.stderr if path is None else sys.stdout
            stream.write(json.dumps({**report.data, **ending}, indent=2) + "\n")
            stream.flush()


def imputed(
    file: Inspected, cells: Mapping[int, Cells], events: Sequence[Event], n_imputations: int
) -> Report:
    left, fixed = {}, []
    for position, column in enumerate(file.reading.columns):
        count = column.n_missing
        if position in cells:
            fixed += (own := _fixed_cells(file.reading, position))
            count = sum(event.count for event in own)
        if count:
            left[column.name] = count
    n_filled = file.inspection.n_missing - sum(left.values())
    done = {"filled_cells": n_filled, "left_missing": left, "imputations": n_imputations}
    what = f"{n_imputations} imputations of " if n_imputations else "filled "
    parts = [f"{what}{n_filled} cells"]
    parts += [f"{count} cells of {name!r} stay missing" for name, count in left.items()]
    return Report({**file.as_data(), **done}, parts, [*events, *fixed])


def nothing_missing(file: Inspected) -> Report:
    done = {"filled_cells": 0, "left_missing": {}, "imputations": 0}
    return Report({**file.as_data(), **done}, ["nothing is missing: the table is as it was"])


def scored(scores: Any, events: Sequence[Event]) -> Report:
    n_rows, mean = len(scores), float(scores.mean())
    line = f"{n_rows} rows, mean log-density {mean:.4f}"
    return Report({"rows": n_rows, "mean_log_density": mean}, [line], events)


def _fixed_cells(reading: Reading, position: int) -> list[Event]:
    """Missing cells of a column that cannot be overwritten, such as formulas."""
    column, events = reading.columns[position], []
    for what, where in reading.document.fixed(position).items():
        if count := int((where & column.missing).sum()):
            stay = "cell stays" if count == 1 else "cells stay"
            stay = f"{count} missing {stay} missing: {what} are not overwritten"
            text = f"column {column.name!r}: {stay}"
            events.append(Event("not filled", column.name, count, text))
    return events


def console_on(stream: Any) -> Console:
    """Wide enough for a table where there is no terminal whose width would be known."""
    width = None if stream.isatty() else 110
    # Names of columns and files are not markup.
    return Console(file=stream, highlight=False, markup=False, emoji=False, width=width)


def view_of(left: Sequence[str], right: Sequence[str] = (), title: str | None = None) -> Table:
    """A table with columns that are not wrapped, flush left and right."""
    view = Table(title=title, box=None, pad_edge=False, title_justify="left", header_style="bold")
    for name in left:
        view.add_column(name, no_wrap=True)
    for name in right:
        view.add_column(name, justify="right", no_wrap=True)
    return view


def print_inspection(console: Console, file: Inspected) -> None:
    name = "standard input" if file.source.name == "-" else file.source.name
    inspection, words = file.inspection, file.reading.missing_words() or {}
    share = inspection.n_missing / max(inspection.n_cells, 1)
    taken = ", ".join(f'"{word}" {count} times' for word, count in words.items())
    console.print(
        f"{name}: {inspection.n_rows} rows, {len(inspection.columns)} columns, "
        f"{inspection.n_missing} cells missing ({share:.1%})" + (f": {taken}" if taken else ""),
        soft_wrap=True,
    )
    if count := file.reading.document.n_comments:
        lines = "the first line begins" if count == 1 else f"the first {count} lines begin"
        text = f"{lines} with #: not read as part of the table, and kept in text files"
        console.print(text, soft_wrap=True)
    view = view_of(["column", "kind"], ["missing", ""])
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
    view = view_of([], ["rows"])
    view.add_column("missing together")
    for pattern in inspection.patterns:
        view.add_row(str(pattern.n_rows), ", ".join(pattern.missing) or "nothing")
    more = inspection.n_patterns - len(inspection.patterns)
    if more > 0:
        view.add_row("", f"... and {more} further patterns")
    console.print()
    console.print(view)


def print_cells(console: Console, reading: Reading, *cells: Mapping[int, Cells]) -> None:
    """The first imputed cells of each column: means, and lower and upper ends of intervals."""
    names = ("row", "column", "imputed", "90 % interval")
    view = view_of(names, title="some of the completed cells")
    shown = [reading.frame(own, as_text=True).columns for own in cells]
    for position in cells[0]:
        column = reading.columns[position]
        for row in column.missing.nonzero()[0][:2]:
            values = [str(columns[position][row]) for columns in shown]
            interval = "" if column.storage == "text" else f"{values[1]} to {values[2]}"
            view.add_row(str(row + 1), column.name, values[0], interval)
    console.print(view)
