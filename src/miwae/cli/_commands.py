"""The commands that impute, fit, score and inspect. Each step from file to file is taken once."""

import json
import shutil
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from miwae._atomic import require_directory
from miwae._deadlines import Deadline
from miwae.cli import _options as options
from miwae.cli import _report as reports
from miwae.cli._options import DEFAULT, Format, deadline, require_time, with_format
from miwae.cli._report import Report, Reporter, console_on, print_cells
from miwae.cli._source import Inspected, Source, inspected, keep_programs, opened
from miwae.documents import Frame, Reading, require_writable, write, write_frame, write_long
from miwae.errors import DataError, SettingsError
from miwae.events import Event

if TYPE_CHECKING:
    from miwae.tabular import EncodedTable, FittedTable

# Shares of --max-time that fitting may use: imputation and writing, or writing, have the rest.
FITTING, ONLY_FITTING = 0.6, 0.9

# Seconds that imputing a row takes at least, more or less.
PER_ROW = 3e-4


@with_format
def impute(
    source: options.Input,
    output: options.Output = "-",
    n_imputations: options.Copies = 0,
    model: options.ModelFile = None,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    form: Format = DEFAULT,
    n_models: options.Models = None,
    bootstrap: options.Bootstrap = False,
    seed: options.OptionalSeed = None,
    max_time: options.MaxTime = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Impute the missing values of a table; observed cells keep their exact characters."""
    require_time(max_time)
    part_of_model = "are part of a model: leave them out, or refit"
    if model is not None and (kind or bounds):
        raise SettingsError(f"--kind and --bounds {part_of_model}")
    if model is not None and (n_models is not None or bootstrap or seed is not None):
        raise SettingsError(f"--seed, --n-models and --bootstrap {part_of_model}")
    reporter = Reporter(output, as_json, quiet)
    started, writing = time.monotonic(), 0.0
    file = opened(source, form, kind, bounds)
    require_writable(file.document, output, long=n_imputations > 0)
    if model is not None:
        ready = _loaded(model, file)
        known = Inspected.of(file, ready.reading, ready.fitted.schema)
        reporter.show(known)
    else:
        known = inspected(file)
        # Writing a table takes as long as reading it.
        writing = max(n_imputations, 1) * (time.monotonic() - started)
        reporter.show(known)
        if not n_imputations and not known.inspection.n_missing:
            write(known.reading, output)
            reporter.finish(reports.nothing_missing(known))
            return
        limit = deadline(max_time, FITTING, writing + PER_ROW * known.inspection.n_rows)
        ready = _learned(known, reporter, limit, seed, n_models=n_models, bootstrap=bootstrap)
    limit = deadline(max_time, later=writing)
    cells, events = _write_imputed(ready, n_imputations, reporter, limit)
    reporter.finish(reports.imputed(known, cells, (*ready.events, *events), n_imputations))


@with_format
def fit(
    source: options.Input,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="The file of the model.")
    ],
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    form: Format = DEFAULT,
    n_models: options.Models = None,
    bootstrap: options.Bootstrap = False,
    seed: options.Seed = 0,
    max_time: options.MaxTime = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Learn a model from a table, to impute or score other rows with."""
    require_time(max_time)
    if output == "-":
        raise SettingsError("a model goes to a file, not to standard output: -o MODEL")
    require_directory(output)
    reporter = Reporter(output, as_json, quiet)
    known = inspected(opened(source, form, kind, bounds))
    reporter.show(known)
    limit = deadline(max_time, ONLY_FITTING)
    ready = _learned(known, reporter, limit, seed, n_models=n_models, bootstrap=bootstrap)
    ready.fitted.save(output)
    reporter.finish(Report(known.as_data(), ["fitted"], ready.events))


@with_format
def score(
    source: options.Input,
    model: Annotated[str, typer.Option(metavar="MODEL", help="A fitted model.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="One line per row; - is stdout.")
    ] = "-",
    form: Format = DEFAULT,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate the log-density of the observed cells of each row: low ones are unusual."""
    reporter = Reporter(output, as_json, quiet)
    file = opened(source, form)
    require_writable(None, output)
    ready = _loaded(model, file)
    with reporter.progress() as progress:
        scores = ready.fitted.log_prob(ready.table, progress=progress)
    write_frame(Frame(("log_density",), (scores.tolist(),)), output, decimals=6)
    reporter.finish(reports.scored(scores, ready.events))


@with_format
def inspect(
    source: options.Input,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    form: Format = DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Print what each column is taken for and what is missing. Nothing is trained."""
    known = inspected(opened(source, form, kind, bounds))
    if as_json:
        sys.stdout.write(json.dumps(known.as_data(), indent=2) + "\n")
        return
    console = console_on(sys.stdout)
    reports.print_inspection(console, known)
    reports.print_patterns(console, known.inspection)


def demo(
    directory: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")
    ] = Path("miwae-demo"),
    seed: options.Seed = 0,
) -> None:
    """Complete a real table that comes with the package: penguins, with some cells missing."""
    directory.mkdir(parents=True, exist_ok=True)
    source, completed = directory / "penguins.csv", directory / "completed.csv"
    with resources.as_file(resources.files("miwae.data") / "penguins.csv") as path:
        shutil.copyfile(path, source)
    reporter = Reporter(str(completed))
    known = inspected(opened(str(source), DEFAULT))
    reporter.show(known)
    ready = _learned(known, reporter, None, seed)
    cells, _ = _write_imputed(ready, 0, reporter, None)
    model = directory / "penguins.miwae"
    ready.fitted.save(model)
    console = console_on(sys.stdout)
    print_cells(console, known.reading, cells, *ready.fitted.quantiles(ready.table, (0.05, 0.95)))
    console.print(f"the table as it was   {source}")
    console.print(f"the completed table   {completed}")
    console.print(f"the model             {model}   (miwae impute OTHER.csv --model {model})")


class _Ready(NamedTuple):
    """A file as a model reads it: ready to be imputed or scored."""

    reading: Reading
    fitted: "FittedTable"
    table: "EncodedTable"
    events: tuple[Event, ...]


def _learned(
    file: Inspected, reporter: Reporter, limit: Deadline | None, seed: int | None, **chosen: Any
) -> _Ready:
    """Learn from a file, with the defaults of `TableSettings` for what was not chosen."""
    from miwae.tabular import EncodedTable, FittedTable, TableSettings

    keep_programs()
    chosen = {name: value for name, value in chosen.items() if value is not None}
    settings = TableSettings(**chosen, seed=options.table_seed(seed or 0))
    table, marks = EncodedTable.of(file.schema, file.reading.columns), file.source.marks
    with reporter.progress() as progress:
        fitted = FittedTable.fit(table, settings, marks=marks, deadline=limit, progress=progress)
    return _Ready(file.reading, fitted, table, fitted.events)


def _loaded(model: str, file: Source) -> _Ready:
    if not Path(model).is_file():
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    from miwae.tabular import FittedTable

    keep_programs()
    fitted, extra = FittedTable.load(model)
    named = extra.get("feature_names", fitted.schema.names) is not None
    fitted.require_columns(file.document.names, named=named)
    reading = file.document.read((*fitted.marks, *file.marks), fitted.schema.columns)
    table = fitted.encoded(reading.columns)
    # The events of the fit have been reported then.
    return _Ready(reading, fitted, table, (*table.events, *_of_dates(reading, fitted)))


def _of_dates(reading: Reading, fitted: "FittedTable") -> list[Event]:
    """Dates that could be read in two ways, and were read as those that were learned."""
    events = []
    for known, column in zip(fitted.schema.columns, reading.columns, strict=True):
        if column.name in reading.ambiguous:
            text = (
                f"column {known.name!r}: nothing in these rows shows whether the day or the month "
                f"comes first; read as learned, as in {known.example}; write all cells as "
                "2024-12-31 to be sure"
            )
            events.append(Event("dates", known.name, column.n_observed, text))
    return events


def _write_imputed(
    ready: _Ready, n_imputations: int, reporter: Reporter, limit: Deadline | None
) -> tuple[Any, tuple[Event, ...]]:
    """Write the completed table, or copies of it; the cells (of the first copy), and events."""
    reading, fitted, table, _ = ready
    with reporter.progress() as progress:
        if n_imputations:
            copies, events = fitted.draws(table, n_imputations, deadline=limit, progress=progress)
        else:
            cells, _, events = fitted.means(table, deadline=limit, progress=progress)
            copies = [cells]
    # Progress is over: its lines must not be drawn into a table on the same terminal.
    if n_imputations:
        write_long(reading, reporter.output, copies)
    else:
        write(reading, reporter.output, copies[0])
    return copies[0], events
