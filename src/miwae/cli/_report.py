"""What a command reports: text on standard error, or one JSON document."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console
from rich.table import Table

from miwae._words import counted
from miwae.cli._options import STARTED
from miwae.cli._source import Inspected
from miwae.cli._visible import VisibleConsole, on_one_line
from miwae.columns import Cells, Inspection
from miwae.documents import Reading
from miwae.events import Event

if TYPE_CHECKING:
    from miwae._progress import Progressor
    from miwae.tabular import Quality


class Report(NamedTuple):
    data: Mapping[str, Any]  # for JSON
    parts: Sequence[str]  # of one line for people: what was done, and what is to say of it
    events: Sequence[Event] = ()  # every automatic decision
    quality: "Quality | None" = None  # of the columns to show


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
            if report.quality:
                print_quality(console_on(sys.stderr), report.quality)
            where = "" if path is None else f" -> {path}"
            done, *rest = report.parts
            texts.append("; ".join([f"{done} in {seconds:.1f} s{where}", *rest]))
            sys.stderr.write("".join(f"{on_one_line(text)}\n" for text in texts))
        if self.as_json:
            ending = {"events": [event._asdict() for event in events]}
            ending |= {"seconds": round(seconds, 2), "output": path}
            stream = sys.stderr if path is None else sys.stdout
            stream.write(json.dumps({**report.data, **ending}, indent=2) + "\n")
            stream.flush()


def imputed(
    file: Inspected,
    cells: Mapping[int, Cells],
    events: Sequence[Event],
    n_imputations: int,
    quality: "Quality",
) -> Report:
    left, fixed = {}, []
    for position, column in enumerate(file.reading.columns):
        count = column.n_missing
        if position in cells:
            fixed += (own := _fixed_cells(file.reading, position))
            count += sum(event.count for event in own) - len(cells[position].rows)
        if count:
            left[column.name] = count
    n_filled = file.inspection.n_missing - sum(left.values())
    done = {"filled_cells": n_filled, "left_missing": left, "imputations": n_imputations}
    done["quality"] = quality.as_data()
    what = f"{counted(n_imputations, 'imputation')} of " if n_imputations else "filled "
    parts = [f"{what}{counted(n_filled, 'cell')}"]
    for name, count in left.items():
        stay = "stays" if count == 1 else "stay"
        parts.append(f"{counted(count, 'cell')} of {name!r} {stay} missing")
    filled = quality.of(file.reading.columns[position].name for position in cells)
    return Report({**file.as_data(), **done}, parts, [*events, *fixed], filled)


def fitted(file: Inspected, events: Sequence[Event], quality: "Quality") -> Report:
    return Report({**file.as_data(), "quality": quality.as_data()}, ["fitted"], events, quality)


def nothing_missing(file: Inspected) -> Report:
    done = {"filled_cells": 0, "left_missing": {}, "imputations": 0}
    return Report({**file.as_data(), **done}, ["copied the table", "nothing is missing"])


def described(file: Inspected, events: Sequence[Event], quality: "Quality") -> Report:
    return fitted(file, events, quality)._replace(parts=["described"])


def scored(scores: Any, events: Sequence[Event]) -> Report:
    n_rows, mean = len(scores), float(scores.mean())
    parts = [f"scored {counted(n_rows, 'row')}", f"the mean log-density is {mean:.4f}"]
    return Report({"rows": n_rows, "mean_log_density": mean}, parts, events)


def _fixed_cells(reading: Reading, position: int) -> list[Event]:
    """Missing cells of a column that cannot be overwritten, such as formulas."""
    column, events = reading.columns[position], []
    for what, where in reading.document.fixed(position).items():
        if count := int((where & column.missing).sum()):
            stay = counted(count, "missing cell stays", "missing cells stay")
            stay = f"{stay} missing: {what} are not overwritten"
            text = f"column {column.name!r}: {stay}"
            events.append(Event("not filled", column.name, count, text))
    return events


def console_on(stream: Any) -> Console:
    """Wide enough for a table where there is no terminal whose width would be known."""
    width = None if stream.isatty() else 110
    # Names of columns and files are not markup.
    return VisibleConsole(file=stream, highlight=False, markup=False, emoji=False, width=width)


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
    taken = ", ".join(f'"{word}" {counted(n, "time")}' for word, n in words.items())
    size = (counted(inspection.n_rows, "row"), counted(len(inspection.columns), "column"))
    console.print(
        f"{name}: {', '.join(size)}, {counted(inspection.n_missing, 'cell')} missing "
        f"({share:.1%})" + (f": {taken}" if taken else ""),
        soft_wrap=True,
    )
    document = file.reading.document
    if len(document.sheets) > 1:
        others = [repr(sheet) for sheet in document.sheets if sheet != document.sheet]
        rest = "the other is" if len(others) == 1 else "the others are"
        text = f"sheet {document.sheet!r}; {rest} {', '.join(others)}"
        console.print(text, soft_wrap=True)
    if document.remark:
        console.print(document.remark, soft_wrap=True)
    if count := document.n_comments:
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


def print_quality(console: Console, quality: "Quality") -> None:
    """How well the imputed columns are predicted."""
    (first, *numbers, last), *_ = quality.rows()
    view = view_of([first], numbers)
    view.add_column(last)
    for cells in quality.rows()[1:]:
        view.add_row(*cells)
    console.print(view)


def print_patterns(console: Console, inspection: Inspection) -> None:
    """Which columns are missing together, the most frequent patterns first."""
    view = view_of([], ["rows"])
    view.add_column("missing together")
    for pattern in inspection.patterns:
        view.add_row(str(pattern.n_rows), ", ".join(pattern.missing) or "nothing")
    more = inspection.n_patterns - len(inspection.patterns)
    if more > 0:
        view.add_row("", f"... and {counted(more, 'further pattern')}")
    console.print()
    console.print(view)


def print_cells(console: Console, reading: Reading, *cells: Mapping[int, Cells]) -> None:
    """The first imputed cells of each column: means, and lower and upper ends of intervals."""
    numbers = reading.document.row_numbers()
    names = (reading.document.row_word, "column", "imputed", "90 % interval")
    view = view_of(names, title="some of the completed cells")
    shown = [reading.frame(own, as_text=True).columns for own in cells]
    for position in cells[0]:
        column = reading.columns[position]
        for row in column.missing.nonzero()[0][:2]:
            values = [str(columns[position][row]) for columns in shown]
            interval = "" if column.storage == "text" else f"{values[1]} to {values[2]}"
            view.add_row(str(numbers[row]), column.name, values[0], interval)
    console.print(view)
