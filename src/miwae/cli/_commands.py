"""The commands that impute, fit, score and inspect. Each step from file to file is taken once."""

import json
import shlex
import shutil
import sys
import time
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
import typer

from miwae._atomic import require_directory
from miwae._deadlines import Deadline
from miwae._extras import extra
from miwae._words import meant
from miwae.cli import _options as options
from miwae.cli import _report as reports
from miwae.cli._cluster import impute_on
from miwae.cli._options import (
    DEFAULT,
    NO_ROLES,
    NOTHING_MORE,
    ONE_PROCESS,
    Cluster,
    Format,
    Roles,
    Uncertainty,
    deadline,
    require_time,
    with_groups,
)
from miwae.cli._report import Reporter, console_on, print_cells
from miwae.cli._source import Inspected, Source, inspected, keep_programs, opened
from miwae.cli._stream import (
    Asked,
    fit_in_one_pass,
    impute_in_pieces,
    large_table,
    pieces_are_enough,
)
from miwae.cli._uncertainty import interval_limits, require_room, require_uncertainty, write_beside
from miwae.columns import require_free
from miwae.documents import (
    Document,
    Frame,
    Reading,
    require_writable,
    write,
    write_frame,
    write_long,
)
from miwae.errors import DataError, SettingsError
from miwae.events import Event

if TYPE_CHECKING:
    from miwae.report import Report as Page
    from miwae.tabular import EncodedTable, FittedTable, Imputed

# Shares of --max-time that fitting may use: imputation and writing, or writing, have the rest.
FITTING, ONLY_FITTING = 0.6, 0.9

SCORE = "log_density"  # the column of scores

# Seconds that imputing a row takes at least, more or less.
PER_ROW = 3e-4


@with_groups
def impute(
    source: options.Input,
    output: options.Output = "-",
    n_imputations: options.Copies = 0,
    model: options.ModelFile = None,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    roles: Roles = NO_ROLES,
    form: Format = DEFAULT,
    more: Uncertainty = NOTHING_MORE,
    n_models: options.Models = None,
    bootstrap: options.Bootstrap = False,
    seed: options.OptionalSeed = None,
    max_time: options.MaxTime = None,
    report: options.ReportFile = None,
    cluster: Cluster = ONE_PROCESS,
    resume: options.Resume = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Impute the missing values of a table.

    Observed cells keep their exact characters.
    """
    require_time(max_time)
    if any(cluster):
        others = (n_imputations, kind, bounds, *roles, *form, *more, n_models, bootstrap, seed)
        refused = any((*others, max_time, report))
        impute_on(cluster, source, model, Reporter(output, as_json, quiet), refused=refused)
        return
    _require_report(report)
    training = n_models is not None or bootstrap or seed is not None
    _require_only_model(model, kind or bounds or any(roles), training)
    require_uncertainty(more, output, n_imputations)
    reporter = Reporter(output, as_json, quiet)
    whole = {f"--{name}": value for name, value in more._asdict().items()}
    whole |= {"-m": n_imputations, "--report": report, "--max-time": max_time}
    settings = {"n_models": n_models, "bootstrap": bootstrap}
    asked = Asked(model, kind, bounds, roles, form, settings, seed)
    if pieces_are_enough(source, output, whole, resume=resume):
        if (table := large_table(source, asked, reporter, output, resume=resume)) is not None:
            impute_in_pieces(table, output, asked, reporter, resume=resume)
            return
    started, writing = time.monotonic(), 0.0
    file = opened(source, form, kind, bounds, roles)
    require_writable(file.document, output, long=n_imputations > 0)
    require_room(file.document, output, more)
    if model is not None:
        ready = _loaded(model, file)
        known = Inspected.of(file, ready.reading, ready.fitted.schema)
        reporter.show(known)
    else:
        known = inspected(file)
        # Writing a table takes as long as reading it.
        writing = max(n_imputations, 1) * (time.monotonic() - started)
        reporter.show(known)
        if not n_imputations and not known.inspection.n_missing and report is None:
            write(known.reading, output)
            write_beside(known.reading, more)
            reporter.finish(reports.nothing_missing(known))
            return
        limit = deadline(max_time, FITTING, writing + PER_ROW * known.inspection.n_rows)
        ready = _learned(known, reporter, limit, seed, n_models=n_models, bootstrap=bootstrap)
    limit = deadline(max_time, later=writing)
    cells, events, imputed = _write_imputed(ready, n_imputations, reporter, limit, more)
    if report is not None:
        _page(known, ready, imputed).save(report)
    events, quality = (*ready.events, *events), ready.fitted.quality
    reporter.finish(reports.imputed(known, cells, events, n_imputations, quality))


@with_groups
def fit(
    source: options.Input,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="The file of the model.")
    ],
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    roles: Roles = NO_ROLES,
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
    limit = deadline(max_time, ONLY_FITTING)
    settings = {"n_models": n_models, "bootstrap": bootstrap}
    asked = Asked(None, kind, bounds, roles, form, settings, seed)
    if (table := large_table(source, asked, reporter)) is not None:
        fit_in_one_pass(table, output, asked, reporter, limit)
        return
    known = inspected(opened(source, form, kind, bounds, roles))
    reporter.show(known)
    ready = _learned(known, reporter, limit, seed, n_models=n_models, bootstrap=bootstrap)
    ready.fitted.save(output)
    reporter.finish(reports.fitted(known, ready.events, ready.fitted.quality))


@with_groups
def report(
    source: options.Input,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="HTML", help="The page; - is stdout.")
    ],
    model: options.ModelFile = None,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    roles: Roles = NO_ROLES,
    form: Format = DEFAULT,
    seed: options.OptionalSeed = None,
    max_time: options.MaxTime = None,
    quiet: options.Quiet = False,
) -> None:
    """Show what is missing, what would be imputed and how well.

    One HTML page, and no other output.
    """
    require_time(max_time)
    _require_report(output)
    _require_only_model(model, kind or bounds or any(roles), seed is not None)
    reporter = Reporter(output, quiet=quiet)
    file = opened(source, form, kind, bounds, roles)
    if model is None:
        known = inspected(file)
        reporter.show(known)
        ready = _learned(known, reporter, deadline(max_time, FITTING), seed)
    else:
        ready = _loaded(model, file)
        known = Inspected.of(file, ready.reading, ready.fitted.schema)
        reporter.show(known)
    page = _page(known, ready)
    if output == "-":
        sys.stdout.write(page.html)
    else:
        page.save(output)
    reporter.finish(reports.described(known, ready.events, ready.fitted.quality))


@with_groups
def score(
    source: options.Input,
    model: Annotated[str, typer.Option(metavar="MODEL", help="A fitted model.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="One line per row; - is stdout.")
    ] = "-",
    label: Annotated[
        str | None,
        typer.Option("--id", metavar="COLUMN", help="Also write this column of the table."),
    ] = None,
    top: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Only the N oddest rows, the oddest first."),
    ] = None,
    form: Format = DEFAULT,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Find unusual rows, by the log-density of their observed cells.

    Low values are unusual.
    """
    reporter = Reporter(output, as_json, quiet)
    file = opened(source, form)
    require_writable(None, output)
    if label is not None:
        _require_label(label, file.document)
    ready = _loaded(model, file)
    with reporter.progress() as progress:
        scores = ready.fitted.log_prob(ready.table, progress=progress)
    rows = np.arange(len(scores)) if top is None else scores.argsort(kind="stable")[:top]
    write_frame(_of_scores(ready.reading, scores, label).taken(rows.tolist()), output, decimals=6)
    reporter.finish(reports.scored(scores, ready.events))


@with_groups
def inspect(
    source: options.Input,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    roles: Roles = NO_ROLES,
    form: Format = DEFAULT,
    as_json: options.AsJson = False,
) -> None:
    """Print what each column is taken for and what is missing.

    Nothing is trained.
    """
    known = inspected(opened(source, form, kind, bounds, roles))
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
    """Complete a real table that comes with the package.

    Penguins, with some cells missing.
    """
    directory.mkdir(parents=True, exist_ok=True)
    source, completed = directory / "penguins.csv", directory / "completed.csv"
    with resources.as_file(resources.files("miwae.data") / "penguins.csv") as path:
        shutil.copyfile(path, source)
    reporter = Reporter(str(completed))
    known = inspected(opened(str(source), DEFAULT))
    reporter.show(known)
    ready = _learned(known, reporter, None, seed)
    cells, *_ = _write_imputed(ready, 0, reporter, None)
    model = directory / "penguins.miwae"
    ready.fitted.save(model)
    console = console_on(sys.stdout)
    print_cells(console, known.reading, cells, *ready.fitted.quantiles(ready.table, (0.05, 0.95)))
    console.print(f"the table as it was   {source}")
    console.print(f"the completed table   {completed}")
    console.print(f"the model             {model}   (miwae impute OTHER.csv --model {model})")


def _require_only_model(model: str | None, columns: Any, training: bool) -> None:  # noqa: FBT001
    """Refuse options about columns, or about training, which a model has settled."""
    part = "are part of a model: leave them out, or refit"
    if model is not None and columns:
        raise SettingsError(f"--kind, --bounds and roles of columns {part}")
    if model is not None and training:
        raise SettingsError(f"--seed, --n-models and --bootstrap {part}")


def _require_report(path: str | None) -> None:
    """Find out before long work whether there can be a report."""
    if path is None:
        return
    extra("jinja2")
    if path != "-":
        require_directory(path)


def _page(known: Inspected, ready: "_Ready", imputed: "Imputed | None" = None) -> "Page":
    from miwae.report import report_on

    name = "standard input" if known.source.name == "-" else Path(known.source.name).name
    return report_on(
        ready.fitted,
        ready.reading.columns,
        imputed=imputed,
        title=name,
        command=shlex.join(["miwae", *sys.argv[1:]]),
        of_text=known.source.document.family == "text",
    )


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
    keep_programs()
    from miwae.tabular import EncodedTable, FittedTable, TableSettings

    chosen = {name: value for name, value in chosen.items() if value is not None}
    settings = TableSettings(**chosen, seed=options.table_seed(seed or 0))
    table = EncodedTable.of(file.schema, file.reading.columns)
    known: dict[str, Any] = {"marks": file.source.marks, "arrow": file.reading.arrow_schema()}
    with reporter.progress() as progress:
        work: dict[str, Any] = {"deadline": limit, "progress": progress}
        fitted = FittedTable.fit(table, settings, **known, **work)
    return _Ready(file.reading, fitted, table, fitted.events)


def _loaded(model: str, file: Source) -> _Ready:
    if not Path(model).is_file():
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    keep_programs()
    from miwae.tabular import FittedTable

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


def _require_label(label: str, document: Document) -> None:
    """Refuse, before long work, a column that is not there, or is called as one of the scores."""
    if label not in document.names:
        known = ", ".join(document.names)
        hint = meant(label, document.names, f"; the columns are {known}")
        raise SettingsError(f"--id {label!r}: there is no such column{hint}")
    require_free((label,), (document.row_word, SCORE))


def _of_scores(reading: Reading, scores: Any, label: str | None) -> Frame:
    """The log-density of each row, with its number and the column that names it."""
    document = reading.document
    pairs = [(document.row_word, document.row_numbers().tolist())]
    if label is not None:
        columns = reading.frame({}, as_text=document.family == "text").columns
        pairs.append((label, columns[document.names.index(label)]))
    return Frame(*zip(*pairs, (SCORE, scores.tolist()), strict=True))


def _write_imputed(
    ready: _Ready,
    n_imputations: int,
    reporter: Reporter,
    limit: Deadline | None,
    more: Uncertainty = NOTHING_MORE,
) -> tuple[Any, tuple[Event, ...], "Imputed | None"]:
    """Write the completed table, or copies of it; the cells (of the first copy), and events.

    Also the means, where these were written.
    """
    reading, fitted, table, _ = ready
    imputed, found, limits = None, {}, {}
    with reporter.progress() as progress:
        work = {"deadline": limit, "progress": progress}
        if n_imputations:
            copies, events = fitted.draws(table, n_imputations, **work)
        else:
            imputed = fitted.means(table, **work)
            copies, events = [imputed.cells], imputed.events
        if more.probabilities is not None:
            found = fitted.probabilities(table, **work)
        if more.interval is not None:
            limits = interval_limits(fitted, table, more.interval, imputed, **work)
    # Progress is over: its lines must not be drawn into a table on the same terminal.
    if n_imputations:
        write_long(reading, reporter.output, copies)
    else:
        write(reading, reporter.output, copies[0], flag=more.flag, further=limits)
        write_beside(reading, more, imputed, found)
    return copies[0], events, imputed
