"""The command line: `miwae impute`, `fit`, `score`, `inspect`, `benchmark` and `demo`."""

import codecs
import io
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Iterable, Mapping
from importlib import metadata, resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from miwae.atomic import require_directory
from miwae.errors import DataError, DataWarning, MiwaeError, SettingsError
from miwae.table.base import AbstractTable, Column
from miwae.table.files import read_table, require_writable, write_table
from miwae.table.inspection import Inspection, as_data, inspect_columns
from miwae.table.schema import infer_schema
from miwae.table.text import DEFAULT_NA, TextTable, read_text
from miwae.telling import (
    STARTED,
    Comparison,
    Speaker,
    comment_lines,
    console_on,
    plot_comparisons,
    print_cells,
    print_comparisons,
    print_inspection,
    print_patterns,
    require_plots,
    tell_record,
    words_taken,
)

if TYPE_CHECKING:
    from miwae.imputer import MIWAEImputer

__all__ = ["app", "main"]

# Share of --max-time that fitting may use; imputation and writing have the rest.
FITTING = 0.6

app = typer.Typer(
    help="Complete tables that have holes, and say how sure the completed cells are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Input = Annotated[
    str,
    typer.Argument(metavar="IN", help="CSV, TSV, Parquet, Feather or Excel file; - for stdin."),
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="What a column is, if you know better; 'size=ordinal:S<M<L' also gives an order, "
        "'when=datetime:day-first' (or month-first) that of 01/02/2024.",
    ),
]
Bounds = Annotated[
    list[str] | None,
    typer.Option("--bounds", metavar="COLUMN=LOW:HIGH", help="Limits of a column of numbers."),
]
NaWords = Annotated[
    list[str] | None,
    typer.Option("--na", metavar="WORD", help="A further word that means 'missing'; repeatable."),
]
OnlyNa = Annotated[
    bool, typer.Option("--only-na", help="No word but those of --na means 'missing'.")
]
MOST_SEED = 2**32 - 1

Delimiter = Annotated[
    str | None, typer.Option(metavar="CHAR", help="Between cells; found out by default.")
]
Encoding = Annotated[str | None, typer.Option(help="Of text; found out by default.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is data already.")]
Seed = Annotated[int, typer.Option(min=0, max=MOST_SEED, help="For the same result each time.")]
AsJson = Annotated[bool, typer.Option("--json", help="What happened as JSON, not as text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless it fails.")]
MaxTime = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="For the whole run, from its start.")
]
Models = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Models to fit, whose mean is taken; by default 2."),
]
Bootstrap = Annotated[
    bool,
    typer.Option(
        "--bootstrap",
        help="Fit each model to a bootstrap sample of the rows: proper multiple imputation, with "
        "--n-models 10, say.",
    ),
]

INTERRUPTED = 130  # what typer makes of Ctrl-C

# What --kind can say of dates such as 01/02/2024, in a table of which no cell tells it.
ORDERS = {"datetime:day-first": "dmy", "datetime:month-first": "mdy"}

# Errors that begin with the name of a Python parameter, which here is the name of an option.
OPTIONS = {"column_kinds": "--kind", "bounds": "--bounds", "rate": "--rate"}


def main() -> None:
    """Run a command; what goes wrong becomes one line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # What a warning says is in the events, and these are told at the end.
    warnings.simplefilter("ignore", DataWarning)
    try:
        _run()
    except SettingsError as error:
        name, space, rest = str(error).partition(" ")
        _fail(OPTIONS.get(name, name) + space + rest, code=2)
    except MiwaeError as error:
        _fail(str(error), code=1)
    except BrokenPipeError:
        # Whoever read the output has had enough; nothing may be flushed to it any more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        # Tables and models name their file; what is left is what goes to standard output.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        what = "" if error.filename else "cannot write to standard output: "
        _fail(f"{what}{error}", code=1)
    except KeyboardInterrupt:
        _fail("interrupted; no output was written", code=1)


def _run() -> None:
    try:
        app()
    except SystemExit as stop:
        sys.stdout.flush()
        if stop.code == INTERRUPTED:
            raise KeyboardInterrupt from stop
        raise


def _fail(message: str, *, code: int) -> None:
    sys.stderr.write(f"miwae: {message}\n")
    sys.exit(code)


# ---------------------------------------------------------------------- commands


def _print_version(asked: bool) -> None:  # noqa: FBT001 - as typer calls it
    if asked:
        sys.stdout.write(f"miwae {metadata.version('miwae')}\n")
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Say which it is, and exit."
        ),
    ] = False,
) -> None:
    """Options that need no command."""


@app.command()
def impute(
    source: Input,
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
    kind: Kinds = None,
    bounds: Bounds = None,
    na: NaWords = None,
    only_na: OnlyNa = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    n_models: Models = None,
    bootstrap: Bootstrap = False,
    seed: Annotated[
        int | None,
        typer.Option(min=0, max=MOST_SEED, help="For another result; the same each time."),
    ] = None,
    max_time: MaxTime = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Fill the holes of a table; observed cells stay as they are, character for character."""
    _require_time(max_time)
    say = Speaker(as_json=as_json, quiet=quiet, to_stdout=output != "-")
    given, limits, marks = _settings(kind, "--kind"), _limits(bounds), _marks(na)
    if model is not None:
        _refuse_part_of_model("--kind and --bounds", given=bool(given or limits))
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    table, given = _with_orders(table, given)
    require_writable(table, output)
    if model is not None:
        chosen = n_models is not None or bootstrap or seed is not None
        _refuse_part_of_model("--seed, --n-models and --bootstrap", given=chosen)
        imputer = _loaded(model, marks, say, max_time)
        _tell_what_is_missing(say, source, table, imputer, marks)
    else:
        inspection, columns = _inspect(table, given, limits, marks)
        say.inspection(source, table, inspection)
        if inspection.n_missing == 0 and not n_imputations:
            write_table(table, output)
            say.nothing_missing(output)
            return
        kinds = {**_left_alone(columns), **given}
        imputer = _imputer(
            kinds, limits, marks, seed or 0, (n_models, bootstrap), say, max_time, FITTING
        )
        imputer.fit(table)
    imputer.set_params(max_time=_left(max_time))
    write_table(_completed(imputer, table, n_imputations), output)
    say.imputed(table, _columns(table, marks), imputer, output, n_imputations)


@app.command()
def fit(
    source: Input,
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="MODEL", help="The file of the model.")
    ],
    kind: Kinds = None,
    bounds: Bounds = None,
    na: NaWords = None,
    only_na: OnlyNa = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    n_models: Models = None,
    bootstrap: Bootstrap = False,
    seed: Seed = 0,
    max_time: MaxTime = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a table, to impute or score other rows with."""
    _require_time(max_time)
    if output == "-":
        raise SettingsError("a model goes to a file, not to standard output: -o MODEL")
    require_directory(output)
    say = Speaker(as_json=as_json, quiet=quiet, to_stdout=True)
    given, limits = _settings(kind, "--kind"), _limits(bounds)
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    table, given = _with_orders(table, given)
    inspection, columns = _inspect(table, given, limits, _marks(na))
    say.inspection(source, table, inspection)
    kinds = {**_left_alone(columns), **given}
    imputer = _imputer(kinds, limits, _marks(na), seed, (n_models, bootstrap), say, max_time, 0.9)
    imputer.fit(table)
    imputer.save(output)
    say.fitted(imputer, output)


@app.command()
def score(
    source: Input,
    model: Annotated[str, typer.Option(metavar="MODEL", help="A fitted model.")],
    output: Annotated[
        str, typer.Option("-o", "--output", metavar="OUT", help="One line per row; - is stdout.")
    ] = "-",
    na: NaWords = None,
    only_na: OnlyNa = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Estimate the log-density of the observed cells of each row: low ones are unusual."""
    say = Speaker(as_json=as_json, quiet=quiet, to_stdout=output != "-")
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    require_writable(_scores_as_table([0.0]), output)
    imputer = _loaded(model, _marks(na), say, None)
    scores = imputer.score_samples(table)
    write_table(_scores_as_table(scores), output)
    say.scored(scores, imputer.events_, output)


def _scores_as_table(scores: Iterable[float]) -> AbstractTable:
    lines = "log_density\n" + "".join(f"{value:.6f}\n" for value in scores)
    return read_text(lines.encode())


@app.command()
def inspect(
    source: Input,
    kind: Kinds = None,
    bounds: Bounds = None,
    na: NaWords = None,
    only_na: OnlyNa = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
) -> None:
    """Print what each column is taken for and what is missing. Nothing is trained."""
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    table, kinds = _with_orders(table, _settings(kind, "--kind"))
    inspection, _ = _inspect(table, kinds, _limits(bounds), _marks(na))
    if as_json:
        data = {
            "file": source,
            "taken_as_missing": words_taken(table),
            "comment_lines": comment_lines(table),
            **as_data(inspection),
        }
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return
    console = console_on(sys.stdout)
    print_inspection(console, source, table, inspection)
    print_patterns(console, inspection)


@app.command()
def benchmark(
    sources: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Tables, complete or not.")
    ],
    methods: Annotated[
        str, typer.Option(metavar="A,B,...", help="Which methods; all that are known by default.")
    ] = "",
    mechanism: Annotated[
        str, typer.Option(help="How cells are hidden: mcar, mar, mnar-self, mnar-upper, ...")
    ] = "mcar",
    rate: Annotated[float, typer.Option(help="Share of the observed cells to hide.")] = 0.3,
    masks: Annotated[int, typer.Option(min=1, help="How many times.")] = 3,
    new_rows: Annotated[
        float,
        typer.Option(
            metavar="SHARE", help="Learn from the other rows only, and fill this share of them."
        ),
    ] = 0.0,
    plot: Annotated[
        str | None, typer.Option(metavar="FILE", help="A picture as well: .png, .svg or .pdf.")
    ] = None,
    kind: Kinds = None,
    na: NaWords = None,
    only_na: OnlyNa = False,
    delimiter: Delimiter = None,
    encoding: Encoding = None,
    no_header: NoHeader = False,
    seed: Seed = 0,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON.")] = False,
    quiet: Quiet = False,
) -> None:
    """Compare imputers on your own tables, by hiding observed cells and filling them again."""
    from miwae.evaluation import MECHANISMS, Experiment, as_matrix, summarise

    attempts, chosen = _protocol(new_rows, methods)
    if mechanism not in MECHANISMS:
        raise SettingsError(f"--mechanism {mechanism} is not one of {', '.join(MECHANISMS)}")
    if plot is not None:
        require_plots(plot)
    compared = []
    for source in sources:
        table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
        table, kinds = _with_orders(table, _settings(kind, "--kind"))
        columns = _columns(table, _marks(na))
        matrix = as_matrix(infer_schema(columns, column_kinds=kinds), columns)
        experiment = Experiment(
            source, matrix.x, matrix.categorical, mechanism, rate, seed, "observed"
        )
        records = []
        for record in attempts(experiment, chosen, range(masks)):
            records.append(record)
            if not as_json and not quiet:
                tell_record(record, masks)
        compared.append(Comparison(source, matrix.names, summarise(records), records))
    if as_json:
        data = [comparison.as_data() for comparison in compared]
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    else:
        print_comparisons(console_on(sys.stdout), compared)
    if plot is not None:
        plot_comparisons(compared, plot)


def _protocol(new_rows: float, names: str) -> tuple[Any, dict[str, Any]]:
    """How to compare, and the methods for it: those that complete new rows are fitted before."""
    from functools import partial

    from miwae import evaluation
    from miwae.evaluation import peers

    if not 0 <= new_rows < 1:
        raise SettingsError(f"--new-rows {new_rows} is not a share of the rows, 0 to below 1")
    if new_rows:
        attempts = partial(evaluation.new_rows, share=new_rows)
        ours, theirs = _fit_by_default, peers.fit
    else:
        attempts = evaluation.in_sample
        ours, theirs = _complete_by_default, peers.complete
    known = {"miwae": ours, **{name: partial(theirs, name) for name in peers.PEERS}}
    asked = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    for name in asked:
        if name not in known:
            raise SettingsError(f"--methods {name} is not one of {', '.join(known)}")
    return attempts, {name: known[name] for name in asked}


def _complete_by_default(x: Any, categorical: Any, seed: int) -> Any:
    """Our imputer on numbers and codes."""
    return _fit_by_default(x, categorical, seed)(x)


def _fit_by_default(x: Any, categorical: Any, seed: int) -> Any:
    """A function that completes rows by our imputer, and draws them."""
    import numpy as np

    from miwae.evaluation import Completed
    from miwae.imputer import MIWAEImputer

    _prepare_compiler()
    kinds = dict.fromkeys(categorical.nonzero()[0].tolist(), "categorical")
    imputer = MIWAEImputer(random_state=seed, column_kinds=kinds or None).fit(x)

    def completed(rows: Any) -> Completed:
        return Completed(imputer.transform(rows), lambda: np.stack(list(imputer.sample(rows))))

    return completed


@app.command()
def demo(
    directory: Annotated[
        Path, typer.Option("-o", "--output", metavar="DIR", help="Where the files go.")
    ] = Path("miwae-demo"),
    seed: Seed = 0,
) -> None:
    """Complete a real table that ships with the package: penguins, with some cells missing."""
    directory.mkdir(parents=True, exist_ok=True)
    source = directory / "penguins.csv"
    packaged = resources.files("miwae.data") / "penguins.csv"
    with resources.as_file(packaged) as path:
        shutil.copyfile(path, source)
    say = Speaker(as_json=False, quiet=False, to_stdout=True)
    table = read_table(str(source))
    inspection, columns = _inspect(table, {}, {}, ())
    say.inspection(str(source), table, inspection)
    imputer = _imputer({}, {}, (), seed, (None, False), say, None, 1.0).fit(table)
    completed = directory / "completed.csv"
    result = imputer.transform(table)
    write_table(result, str(completed))
    lower, upper = imputer.interval(table, level=0.9)
    model = directory / "penguins.miwae"
    imputer.save(model)
    console = console_on(sys.stdout)
    print_cells(console, table, columns, result, lower, upper)
    console.print(f"the table as it was   {source}")
    console.print(f"the completed table   {completed}")
    console.print(f"the model             {model}   (miwae impute OTHER.csv --model {model})")


# ---------------------------------------------------------------------- what goes in


def _read(
    source: str,
    na: list[str] | None,
    delimiter: str | None,
    encoding: str | None,
    *,
    only_na: bool,
    header: bool,
) -> AbstractTable:
    if delimiter is not None and len(delimiter) != 1:
        raise SettingsError(f"--delimiter {delimiter!r} must be a single character")
    if encoding is not None and not _is_encoding(encoding):
        raise SettingsError(f"--encoding {encoding!r} is not known; try utf-8 or latin-1")
    words = (*(() if only_na else DEFAULT_NA), *(na or ()))
    table = read_table(
        source, delimiter=delimiter, encoding=encoding, na_words=words, header=header
    )
    if not header and not isinstance(table, TextTable):
        raise SettingsError("--no-header is for text files: in others columns have names")
    if not table.n_rows or not table.names:
        raise DataError(f"{'standard input' if source == '-' else source}: the table has no rows")
    return table


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


def _require_time(max_time: float | None) -> None:
    if max_time is not None and not max_time > 0:
        raise SettingsError(f"--max-time {max_time:g} must be above 0")


def _settings(pairs: list[str] | None, option: str) -> dict[str, str]:
    """COLUMN=VALUE, as a dictionary; the column may itself contain an equals sign."""
    settings = {}
    for pair in pairs or []:
        column, equals, value = pair.rpartition("=")
        if not equals or not column or not value:
            raise SettingsError(f"{option} {pair!r} must be COLUMN=VALUE")
        settings[column] = value
    return settings


def _with_orders(
    table: AbstractTable, kinds: Mapping[str, str]
) -> tuple[AbstractTable, dict[str, str]]:
    """Dates of a text file in the order that was told, and the kinds without it."""
    orders = {column: ORDERS[kind] for column, kind in kinds.items() if kind in ORDERS}
    if not orders:
        return table, dict(kinds)
    if not isinstance(table, TextTable):
        raise SettingsError(
            f"--kind {next(iter(orders))}=datetime:...: the order of dates can be told for text "
            "files only; store the column as dates"
        )
    table = table.with_orders(orders)
    for position, column in enumerate(table.names):
        shown = table.order(position)
        if column in orders and shown in ORDERS.values() and shown != orders[column]:
            raise SettingsError(
                f"--kind {column}={kinds[column]}: the dates themselves tell the other order, "
                f"such as {table.column(position).specimen}"
            )
    return table, {**kinds, **dict.fromkeys(orders, "datetime")}


def _limits(pairs: list[str] | None) -> dict[str, tuple[float | None, float | None]]:
    limits = {}
    for column, value in _settings(pairs, "--bounds").items():
        low, colon, high = value.partition(":")
        try:
            limits[column] = tuple(float(limit) if limit else None for limit in (low, high))
        except ValueError:
            colon = ""
        if not colon:
            raise SettingsError(f"--bounds {column}={value} must be COLUMN=LOW:HIGH")
    return limits


def _inspect(
    table: AbstractTable,
    kinds: Mapping[str, str],
    bounds: Mapping[str, Any],
    marks: tuple[Any, ...],
) -> tuple[Inspection, list[Column]]:
    columns = _columns(table, marks)
    schema = infer_schema(columns, column_kinds=kinds, bounds=bounds)
    return inspect_columns(columns, schema, of_text=isinstance(table, TextTable)), columns


def _marks(na: list[str] | None) -> tuple[Any, ...]:
    """The words of --na, also as the numbers that they may be in a file that has types."""
    numbers = []
    for word in na or ():
        try:
            numbers.append(float(word))
        except ValueError:
            continue
    return (*(na or ()), *numbers)


def _columns(table: AbstractTable, marks: tuple[Any, ...]) -> list[Column]:
    return [table.column(i, marks) for i in range(len(table.names))]


def _left_alone(columns: list[Column]) -> dict[str, str]:
    """Columns without any value: a file keeps them, as empty as they were."""
    return {column.name: "identifier" for column in columns if column.n_observed == 0}


def _refuse_part_of_model(options: str, *, given: bool) -> None:
    if given:
        raise SettingsError(f"{options} are part of a model: leave them out, or refit")


def _tell_what_is_missing(
    say: Speaker,
    source: str,
    table: AbstractTable,
    imputer: "MIWAEImputer",
    marks: tuple[Any, ...],
) -> None:
    """What a model takes each column for; nothing of columns that it does not know."""
    if [known.name for known in imputer.schema_.columns] == list(table.names):
        of_text = isinstance(table, TextTable)
        inspection = inspect_columns(_columns(table, marks), imputer.schema_, of_text=of_text)
        say.inspection(source, table, inspection)


def _completed(imputer: "MIWAEImputer", table: AbstractTable, n_imputations: int) -> AbstractTable:
    """The table with its holes filled, or several copies of it below each other."""
    from miwae.table.frames import as_table

    if n_imputations:
        return as_table(imputer.sample(table, n_imputations).complete("long"))
    return as_table(imputer.transform(table))


def _left(max_time: float | None) -> float | None:
    """Seconds that are left of --max-time; never none at all, so that something comes out."""
    return None if max_time is None else max(max_time - (time.monotonic() - STARTED), 0.1)


def _imputer(
    kinds: Mapping[str, str],
    bounds: Mapping[str, Any],
    marks: tuple[Any, ...],
    seed: int,
    models: tuple[int | None, bool],
    say: "Speaker",
    max_time: float | None,
    share: float,
) -> "MIWAEImputer":
    from miwae.imputer import MIWAEImputer

    _prepare_compiler()
    limit = _left(None if max_time is None else share * max_time)
    n_models, bootstrap = models
    chosen: dict[str, Any] = {} if n_models is None else {"n_models": n_models}
    return MIWAEImputer(
        **chosen,
        bootstrap=bootstrap,
        column_kinds=dict(kinds) or None,
        bounds=dict(bounds) or None,
        missing_values=list(marks) or float("nan"),
        random_state=seed,
        max_time=limit,
        verbose=int(say.talks),
    )


def _loaded(
    model: str, marks: tuple[Any, ...], say: "Speaker", max_time: float | None
) -> "MIWAEImputer":
    if not Path(model).is_file():
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    from miwae.imputer import MIWAEImputer

    _prepare_compiler()
    imputer = MIWAEImputer.load(model)
    imputer.events_ = []  # those of fitting have been told when it was fitted
    if marks:
        learned = imputer.missing_values
        several = learned if isinstance(learned, list) else [learned]
        imputer.set_params(missing_values=[*several, *marks])
    return imputer.set_params(verbose=int(say.talks), max_time=_left(max_time))


def _prepare_compiler() -> None:
    """Compiled programs are kept on disk; where that is not possible, it is only slower."""
    from miwae.compilation import enable_compilation_cache

    try:
        enable_compilation_cache()
    except OSError as error:
        sys.stderr.write(f"miwae: compiled programs are not kept: {error}\n")


if __name__ == "__main__":
    main()
