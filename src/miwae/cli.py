"""The command line: `miwae impute`, `fit`, `score`, `inspect` and `demo`."""

import codecs
import io
import json
import os
import shutil
import sys
import time
import warnings
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from miwae.errors import DataError, DataWarning, MiwaeError, SettingsError
from miwae.table.base import AbstractTable, Column
from miwae.table.files import read_table, require_writable, write_table
from miwae.table.inspection import Inspection, as_data, inspect_columns
from miwae.table.schema import infer_schema
from miwae.table.text import DEFAULT_NA, TextTable, read_text

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
        help="What a column is, if you know better; 'size=ordinal:S<M<L' also gives an order.",
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
    int, typer.Option(metavar="N", help="Models to fit; several for proper multiple imputation.")
]

STARTED = time.monotonic()


INTERRUPTED = 130  # what typer makes of Ctrl-C


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
        _fail(str(error), code=2)
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
    n_models: Models = 1,
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
    say = _Speaker(as_json=as_json, quiet=quiet, to_stdout=output != "-")
    given, limits = _settings(kind, "--kind"), _limits(bounds)
    if model is not None and (given or limits):
        raise SettingsError("--kind and --bounds are part of a model: leave them out, or refit")
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    require_writable(table, output)
    if model is None:
        inspection, columns = _inspect(table, given, limits)
        say.inspection(source, table, inspection)
        if inspection.n_missing == 0 and not n_imputations:
            write_table(table, output)
            say.nothing_missing(output)
            return
        kinds = {**_left_alone(columns), **given}
        imputer = _imputer(kinds, limits, seed or 0, n_models, say, max_time, FITTING)
        imputer.fit(table)
    else:
        if n_models != 1 or seed is not None:
            raise SettingsError(
                "--seed and --n-models are part of a model: leave them out, or refit"
            )
        imputer = _loaded(model, say, max_time)
        if [known.name for known in imputer.schema_.columns] == list(table.names):
            columns = [table.column(i) for i in range(len(table.names))]
            say.inspection(source, table, inspect_columns(columns, imputer.schema_))
    imputer.set_params(max_time=_left(max_time))
    if n_imputations:
        result = imputer.sample(table, n_imputations).complete("long")
    else:
        result = imputer.transform(table)
    write_table(_as_table(result), output)
    say.imputed(table, imputer, output, n_imputations)


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
    n_models: Models = 1,
    seed: Seed = 0,
    max_time: MaxTime = None,
    as_json: AsJson = False,
    quiet: Quiet = False,
) -> None:
    """Learn a model from a table, to impute or score other rows with."""
    _require_time(max_time)
    if output == "-":
        raise SettingsError("a model goes to a file, not to standard output: -o MODEL")
    say = _Speaker(as_json=as_json, quiet=quiet, to_stdout=True)
    given, limits = _settings(kind, "--kind"), _limits(bounds)
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    inspection, columns = _inspect(table, given, limits)
    say.inspection(source, table, inspection)
    kinds = {**_left_alone(columns), **given}
    imputer = _imputer(kinds, limits, seed, n_models, say, max_time, 0.9)
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
    say = _Speaker(as_json=as_json, quiet=quiet, to_stdout=output != "-")
    table = _read(source, na, delimiter, encoding, only_na=only_na, header=not no_header)
    imputer = _loaded(model, say, None)
    scores = imputer.score_samples(table)
    lines = "log_density\n" + "".join(f"{value:.6f}\n" for value in scores)
    write_table(read_text(lines.encode()), output)
    say.scored(scores, imputer.events_, output)


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
    inspection, _ = _inspect(table, _settings(kind, "--kind"), _limits(bounds))
    if as_json:
        data = {"file": source, "taken_as_missing": _words(table), **as_data(inspection)}
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
        return
    console = _console(sys.stdout)
    _print_inspection(console, source, table, inspection)
    _print_patterns(console, inspection)


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
    say = _Speaker(as_json=False, quiet=False, to_stdout=True)
    table = read_table(str(source))
    inspection, columns = _inspect(table, {}, {})
    say.inspection(str(source), table, inspection)
    imputer = _imputer({}, {}, seed, 1, say, None, 1.0).fit(table)
    completed = directory / "completed.csv"
    result = imputer.transform(table)
    write_table(result, str(completed))
    lower, upper = imputer.interval(table, level=0.9)
    model = directory / "penguins.miwae"
    imputer.save(model)
    console = _console(sys.stdout)
    _print_cells(console, table, columns, result, lower, upper)
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
    return read_table(
        source, delimiter=delimiter, encoding=encoding, na_words=words, header=header
    )


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
    table: AbstractTable, kinds: Mapping[str, str], bounds: Mapping[str, Any]
) -> tuple[Inspection, list[Column]]:
    columns = [table.column(i) for i in range(len(table.names))]
    if not columns or not len(columns[0].missing):
        raise DataError("the table has no rows")
    schema = infer_schema(columns, column_kinds=kinds, bounds=bounds)
    return inspect_columns(columns, schema), columns


def _left_alone(columns: list[Column]) -> dict[str, str]:
    """Columns without any value: a file keeps them, as empty as they were."""
    return {column.name: "identifier" for column in columns if column.n_observed == 0}


def _as_table(result: Any) -> AbstractTable:
    from miwae.table.frames import as_table

    return as_table(result)


def _left(max_time: float | None) -> float | None:
    """Seconds that are left of --max-time; never none at all, so that something comes out."""
    return None if max_time is None else max(max_time - (time.monotonic() - STARTED), 0.1)


def _imputer(
    kinds: Mapping[str, str],
    bounds: Mapping[str, Any],
    seed: int,
    n_models: int,
    say: "_Speaker",
    max_time: float | None,
    share: float,
) -> "MIWAEImputer":
    from miwae.imputer import MIWAEImputer

    _prepare_compiler()
    limit = _left(None if max_time is None else share * max_time)
    return MIWAEImputer(
        column_kinds=dict(kinds) or None,
        bounds=dict(bounds) or None,
        random_state=seed,
        n_models=n_models,
        max_time=limit,
        verbose=int(say.talks),
    )


def _loaded(model: str, say: "_Speaker", max_time: float | None) -> "MIWAEImputer":
    if not Path(model).is_file():
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    from miwae.imputer import MIWAEImputer

    _prepare_compiler()
    imputer = MIWAEImputer.load(model)
    imputer.events_ = []  # those of fitting have been told when it was fitted
    return imputer.set_params(verbose=int(say.talks), max_time=_left(max_time))


def _prepare_compiler() -> None:
    """Compiled programs are kept on disk; where that is not possible, it is only slower."""
    from miwae.compilation import enable_compilation_cache

    try:
        enable_compilation_cache()
    except OSError as error:
        sys.stderr.write(f"miwae: compiled programs are not kept: {error}\n")


# ---------------------------------------------------------------------- what is said


def _console(stream: Any) -> Console:
    """Wide enough for a table where there is no terminal whose width would be known."""
    return Console(
        file=stream,
        highlight=False,
        # Names of columns and files are not markup.
        markup=False,
        emoji=False,
        width=None if stream.isatty() else 110,
    )


class _Speaker:
    """Tells what happens, as text on standard error, or at the end as one JSON document.

    The document goes to standard output, unless that is where the table goes.
    """

    def __init__(self, *, as_json: bool, quiet: bool, to_stdout: bool) -> None:
        self.talks = not as_json and not quiet
        self.as_json = as_json
        self.stream = sys.stdout if to_stdout else sys.stderr
        self.data: dict[str, Any] = {}

    def inspection(self, source: str, table: AbstractTable, inspection: Inspection) -> None:
        self.data |= {"file": source, "taken_as_missing": _words(table), **as_data(inspection)}
        if self.talks:
            _print_inspection(_console(sys.stderr), source, table, inspection)

    def imputed(
        self, table: AbstractTable, imputer: "MIWAEImputer", output: str, n_imputations: int
    ) -> None:
        counts = {
            known.name: int(table.column(i).missing.sum())
            for i, known in enumerate(imputer.schema_.columns)
        }
        left = {
            known.name: counts[known.name]
            for known in imputer.schema_.columns
            if known.kind in ("identifier", "empty") and counts[known.name]
        }
        self.data["filled_cells"] = sum(counts.values()) - sum(left.values())
        self.data["left_missing"] = left
        self.data["imputations"] = n_imputations
        what = f"{n_imputations} imputations of " if n_imputations else "filled "
        lines = [f"{what}{self.data['filled_cells']} cells"]
        lines += [f"{count} cells of {name!r} stay missing" for name, count in left.items()]
        self._end(imputer, output, lines)

    def nothing_missing(self, output: str) -> None:
        self.data |= {"filled_cells": 0, "left_missing": {}, "imputations": 0, "events": []}
        self._closed(output, ["nothing is missing: the table is as it was"])

    def fitted(self, imputer: "MIWAEImputer", output: str) -> None:
        self._end(imputer, output, ["fitted"])

    def scored(self, scores: Any, events: list[str], output: str) -> None:
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
            kinds = {f"column {known.name!r} is {known.kind}" for known in imputer.schema_.columns}
            events = [e for e in imputer.events_ if e.rpartition(": ")[0] not in kinds]
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


def _words(table: AbstractTable) -> dict[str, int] | None:
    """Which words of a text were taken as missing."""
    return table.missing_words() if isinstance(table, TextTable) else None


def _print_inspection(
    console: Console, source: str, table: AbstractTable, inspection: Inspection
) -> None:
    share = inspection.n_missing / max(inspection.n_cells, 1)
    words = _words(table)
    taken = ""
    if words:
        taken = ": " + ", ".join(f'"{word}" {count} times' for word, count in words.items())
    console.print(
        f"{'standard input' if source == '-' else source}: {inspection.n_rows} rows, "
        f"{len(inspection.columns)} columns, {inspection.n_missing} cells missing "
        f"({share:.1%}){taken}",
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
        console.print(f"{hint} If so: --na VALUE", soft_wrap=True)


def _print_patterns(console: Console, inspection: Inspection) -> None:
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


def _print_cells(
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


if __name__ == "__main__":
    main()
