"""The commands that impute, fit, score and inspect. Each step of the walk is taken once."""

import json
import shutil
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miwae._atomic import require_directory
from miwae.cli import _options as options
from miwae.cli._options import Source, deadline, limits_of, opened, require_time
from miwae.cli._programs import keep_programs
from miwae.cli._report import Report, console_on, print_cells, print_inspection, print_patterns
from miwae.columns import Schema, infer_schema, inspect_columns
from miwae.documents import Frame, Reading, require_writable, write, write_frame, write_long
from miwae.errors import DataError, SettingsError

if TYPE_CHECKING:
    from miwae.tabular import FittedTable

__all__ = ["demo", "fit", "impute", "inspect", "score"]

# Share of --max-time that fitting may use; imputation and writing have the rest.
FITTING = 0.6


def impute(
    source: options.Input,
    output: Annotated[
        str,
        typer.Option("-o", "--output", metavar="OUT", help="The completed table; - is stdout."),
    ] = "-",
    n_imputations: Annotated[
        int,
        typer.Option(
            "-m",
            metavar="M",
            min=0,
            help="Draw M completed copies instead, stacked, with .imp and .id as R's mice.",
        ),
    ] = 0,
    model: Annotated[
        str | None, typer.Option(metavar="FILE", help="A fitted model; nothing is trained.")
    ] = None,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    na: options.NaWords = None,
    only_na: options.OnlyNa = False,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    no_header: options.NoHeader = False,
    n_models: options.Models = None,
    bootstrap: options.Bootstrap = False,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, max=options.LARGEST_SEED, help="Random seed; the same seed, the same result."
        ),
    ] = None,
    max_time: options.MaxTime = None,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Impute the missing values of a table; observed cells stay as they are, to the character."""
    require_time(max_time)
    if model is not None:
        _refuse_part_of_model("--kind and --bounds", given=bool(kind or bounds))
        chosen = n_models is not None or bootstrap or seed is not None
        _refuse_part_of_model("--seed, --n-models and --bootstrap", given=chosen)
    report = Report(as_json=as_json, quiet=quiet, to_stdout=output != "-")
    file = opened(source, kind, na, delimiter, encoding, only_na=only_na, header=not no_header)
    require_writable(file.document, output)
    if model is not None:
        fitted, reading, table = _with_model(model, file, report)
    else:
        reading = file.document.read(file.marks)
        schema = infer_schema(reading.columns, column_kinds=file.kinds, bounds=limits_of(bounds))
        report.inspection(file, reading, _inspected(reading, schema))
        if not n_imputations and not any(column.n_missing for column in reading.columns):
            write(reading, output)
            report.nothing_missing(output)
            return
        models = (n_models, bootstrap, seed or 0)
        fitted, table = _fitted(file, reading, schema, models, report, deadline(max_time, FITTING))
    with report.progress() as progress:
        limit = deadline(max_time)
        if n_imputations:
            copies, events = fitted.draws(table, n_imputations, deadline=limit, progress=progress)
            write_long(reading, output, copies)
            cells = copies[0]
        else:
            cells, _, events = fitted.means(table, deadline=limit, progress=progress)
            write(reading, output, cells)
    report.imputed(reading, cells, (*fitted.events, *table.events, *events), output, n_imputations)


def fit(
    source: options.Input,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="The file of the model.")
    ],
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    na: options.NaWords = None,
    only_na: options.OnlyNa = False,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    no_header: options.NoHeader = False,
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
    report = Report(as_json=as_json, quiet=quiet, to_stdout=True)
    file = opened(source, kind, na, delimiter, encoding, only_na=only_na, header=not no_header)
    reading = file.document.read(file.marks)
    schema = infer_schema(reading.columns, column_kinds=file.kinds, bounds=limits_of(bounds))
    report.inspection(file, reading, _inspected(reading, schema))
    models = (n_models, bootstrap, seed)
    fitted, _ = _fitted(file, reading, schema, models, report, deadline(max_time, 0.9))
    fitted.save(output)
    report.fitted(fitted.events, output)


def score(
    source: options.Input,
    model: Annotated[str, typer.Option(metavar="MODEL", help="A fitted model.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="One line per row; - is stdout.")
    ] = "-",
    na: options.NaWords = None,
    only_na: options.OnlyNa = False,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    no_header: options.NoHeader = False,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Estimate the log-density of the observed cells of each row: low ones are unusual."""
    report = Report(as_json=as_json, quiet=quiet, to_stdout=output != "-")
    file = opened(source, None, na, delimiter, encoding, only_na=only_na, header=not no_header)
    require_writable(None, output)
    fitted, _, table = _with_model(model, file, report, inspect=False)
    with report.progress() as progress:
        scores = fitted.log_prob(table, progress=progress)
    write_frame(Frame(("log_density",), (scores.tolist(),)), output, decimals=6)
    report.scored(scores, table.events, output)


def inspect(
    source: options.Input,
    kind: options.Kinds = None,
    bounds: options.Bounds = None,
    na: options.NaWords = None,
    only_na: options.OnlyNa = False,
    delimiter: options.Delimiter = None,
    encoding: options.Encoding = None,
    no_header: options.NoHeader = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print what each column is taken for and what is missing. Nothing is trained."""
    file = opened(source, kind, na, delimiter, encoding, only_na=only_na, header=not no_header)
    reading = file.document.read(file.marks)
    schema = infer_schema(reading.columns, column_kinds=file.kinds, bounds=limits_of(bounds))
    inspection = _inspected(reading, schema)
    if as_json:
        report = Report(as_json=True, quiet=False, to_stdout=True)
        report.inspection(file, reading, inspection)
        sys.stdout.write(json.dumps(report.data, indent=2) + "\n")
        return
    console = console_on(sys.stdout)
    print_inspection(console, file, reading, inspection)
    print_patterns(console, inspection)


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
    report = Report(as_json=False, quiet=False, to_stdout=True)
    file = opened(str(source), None, None, None, None, only_na=False, header=True)
    reading = file.document.read()
    schema = infer_schema(reading.columns)
    report.inspection(file, reading, _inspected(reading, schema))
    fitted, table = _fitted(file, reading, schema, (None, False, seed), report, None)
    cells = fitted.means(table).cells
    write(reading, str(completed), cells)
    lower, upper = fitted.quantiles(table, (0.05, 0.95))
    model = directory / "penguins.miwae"
    fitted.save(model)
    console = console_on(sys.stdout)
    print_cells(console, reading, cells, lower, upper)
    console.print(f"the table as it was   {source}")
    console.print(f"the completed table   {completed}")
    console.print(f"the model             {model}   (miwae impute OTHER.csv --model {model})")


# ---------------------------------------------------------------------- steps


def _inspected(reading: Reading, schema: Schema) -> Any:
    of_text = reading.document.family == "text"
    return inspect_columns(reading.columns, schema, of_text=of_text)


def _fitted(
    file: Source,
    reading: Reading,
    schema: Schema,
    models: tuple[int | None, bool, int],
    report: Report,
    limit: float | None,
) -> tuple["FittedTable", Any]:
    """Learn from the file."""
    from sklearn.utils import check_random_state

    from miwae.tabular import EncodedTable, FittedTable, TableSettings

    keep_programs()
    n_models, bootstrap, seed = models
    chosen: dict[str, Any] = {} if n_models is None else {"n_models": n_models}
    # As MIWAEImputer(random_state=seed) has it.
    own_seed = int(check_random_state(seed).randint(2**31 - 1))
    settings = TableSettings(**chosen, bootstrap=bootstrap, seed=own_seed)
    table = EncodedTable.of(schema, reading.columns)
    with report.progress() as progress:
        fitted = FittedTable.fit(
            table, settings, marks=file.marks, deadline=limit, progress=progress
        )
    return fitted, table


def _with_model(
    model: str, file: Source, report: Report, *, inspect: bool = True
) -> tuple["FittedTable", Reading, Any]:
    """Read the file as what a model has learned."""
    if not Path(model).is_file():
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    from miwae.tabular import FittedTable

    keep_programs()
    fitted, extra = FittedTable.load(model)
    fitted = fitted.without_events()  # they were reported when it was fitted
    named = extra.get("feature_names", fitted.schema.names) is not None
    fitted.require_columns(file.document.names, named=named)
    reading = file.document.read((*fitted.marks, *file.marks), fitted.schema.columns)
    if inspect:
        report.inspection(file, reading, _inspected(reading, fitted.schema))
    return fitted, reading, fitted.encoded(reading.columns)


def _refuse_part_of_model(names: str, *, given: bool) -> None:
    if given:
        raise SettingsError(f"{names} are part of a model: leave them out, or refit")
