"""What a command reports: text on standard error, or one JSON document."""

import contextlib
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, final

from miwae.cli._options import STARTED
from miwae.cli._source import Inspected
from miwae.cli._views import console_on, print_inspection
from miwae.columns import Cells
from miwae.documents import Reading
from miwae.events import Event

if TYPE_CHECKING:
    from miwae._progress import Progressor


class Report(NamedTuple):
    """What a command did."""

    data: Mapping[str, Any]  # for JSON
    parts: Sequence[str]  # of one line for people
    events: Sequence[Event] = ()  # every automatic decision


@final
@dataclass(frozen=True)
class Reporter:
    """Where a command reports to."""

    output: str  # of the result; JSON goes to stdout, or to stderr if the result is there ("-")
    as_json: bool = False  # one JSON document at the end instead of text
    quiet: bool = False  # no text

    @property
    def shows_text(self) -> bool:
        """Whether people read along."""
        return not self.as_json and not self.quiet

    def progress(self) -> "contextlib.AbstractContextManager[Progressor]":
        """Bars, if text is wanted."""
        from miwae._progress import progressor

        return progressor(self.shows_text)

    def show(self, file: Inspected) -> None:
        """What each column is taken for, and what is missing, before long work begins."""
        if self.shows_text:
            print_inspection(console_on(sys.stderr), file)

    def finish(self, report: Report) -> None:
        """What was done."""
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
    """What was filled, and what was not."""
    left = _left_missing(file.reading, cells)
    n_filled = file.inspection.n_missing - sum(left.values())
    done = {"filled_cells": n_filled, "left_missing": left, "imputations": n_imputations}
    what = f"{n_imputations} imputations of " if n_imputations else "filled "
    parts = [f"{what}{n_filled} cells"]
    parts += [f"{count} cells of {name!r} stay missing" for name, count in left.items()]
    events = [*events, *_of_fixed_cells(file.reading, cells)]
    return Report({**file.as_data(), **done}, parts, events)


def nothing_missing(file: Inspected) -> Report:
    """That there was nothing to do."""
    done = {"filled_cells": 0, "left_missing": {}, "imputations": 0}
    return Report({**file.as_data(), **done}, ["nothing is missing: the table is as it was"])


def fitted(file: Inspected, events: Sequence[Event]) -> Report:
    """That a model was written."""
    return Report(file.as_data(), ["fitted"], events)


def scored(scores: Any, events: Sequence[Event]) -> Report:
    """The mean of the scores."""
    n_rows, mean = len(scores), float(scores.mean())
    line = f"{n_rows} rows, mean log-density {mean:.4f}"
    return Report({"rows": n_rows, "mean_log_density": mean}, [line], events)


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
