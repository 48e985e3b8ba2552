"""Tables for people: what a file holds, and what was imputed."""

from collections.abc import Mapping, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from miwae.cli._source import Inspected
from miwae.columns import Cells, Inspection
from miwae.documents import Reading


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
    """One line about the table, one for each column, and hints."""
    console.print(_headline(file), soft_wrap=True)
    if count := file.reading.document.n_comments:
        lines = "the first line begins" if count == 1 else f"the first {count} lines begin"
        text = f"{lines} with #: not read as part of the table, and kept in text files"
        console.print(text, soft_wrap=True)
    console.print(_columns_view(file.inspection))
    for hint in file.inspection.hints:
        remedy = f" If so: {hint.option}" if hint.option else ""
        console.print(hint.text + remedy, soft_wrap=True)


def _headline(file: Inspected) -> str:
    """How large the table is, how much is missing, and how that was written."""
    name = "standard input" if file.name == "-" else file.name
    inspection, words = file.inspection, file.reading.missing_words() or {}
    share = inspection.n_missing / max(inspection.n_cells, 1)
    taken = ", ".join(f'"{word}" {count} times' for word, count in words.items())
    return (
        f"{name}: {inspection.n_rows} rows, {len(inspection.columns)} columns, "
        f"{inspection.n_missing} cells missing ({share:.1%})" + (f": {taken}" if taken else "")
    )


def _columns_view(inspection: Inspection) -> Table:
    view = view_of(["column", "kind"], ["missing", ""])
    view.add_column("because")
    for column in inspection.columns:
        share = column.n_missing / max(inspection.n_rows, 1)
        percent = f"{share:.1%}" if column.n_missing else ""
        view.add_row(column.name, column.kind, str(column.n_missing), percent, column.reason)
    return view


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


def print_cells(
    console: Console,
    reading: Reading,
    cells: Mapping[int, Cells],
    lower: Mapping[int, Cells],
    upper: Mapping[int, Cells],
) -> None:
    """The first imputed cells of each column, with their intervals."""
    names = ("row", "column", "imputed", "90 % interval")
    view = view_of(names, title="some of the completed cells")
    shown = [reading.frame(own, as_text=True).columns for own in (cells, lower, upper)]
    for position in cells:
        column = reading.columns[position]
        for row in column.missing.nonzero()[0][:2]:
            values = [str(columns[position][row]) for columns in shown]
            interval = "" if column.storage == "text" else f"{values[1]} to {values[2]}"
            view.add_row(str(row + 1), column.name, values[0], interval)
    console.print(view)
