"""The commands together, and what becomes of errors."""

import io
import os
import sys
import warnings
from importlib import metadata
from typing import Annotated

import typer

from miwae.cli._benchmark import benchmark
from miwae.cli._commands import demo, fit, impute, inspect, score
from miwae.errors import DataWarning, MiwaeError, SettingsError

INTERRUPTED = 130  # what typer makes of Ctrl-C

# Errors that begin with the name of a Python parameter, which here is the name of an option.
OPTIONS = {
    "bounds": "--bounds",
    "column_kinds": "--kind",
    "date_orders": "--kind",
    "header=False": "--no-header",
    "rate": "--rate",
}

app = typer.Typer(
    help="Impute the missing values of a table, and say how certain the imputed cells are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for command in (impute, fit, score, inspect, benchmark, demo):
    app.command()(command)


def main() -> None:
    """Run a command; what goes wrong becomes one line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # What a warning says is also an event, and events are reported at the end.
    warnings.simplefilter("ignore", DataWarning)
    try:
        _run()
    except SettingsError as error:
        name, space, rest = str(error).partition(" ")
        _fail(OPTIONS.get(name, name) + space + rest, code=2)
    except MiwaeError as error:
        _fail(str(error), code=1)
    except OSError as error:
        # Nothing may be flushed any more to an output that has been closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            sys.exit(1)
        # Errors about tables and models name their file; this one is about standard output.
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


def _print_version(asked: bool) -> bool:  # noqa: FBT001 - as typer calls it
    if asked:
        sys.stdout.write(f"miwae {metadata.version('miwae')}\n")
        raise typer.Exit
    return asked


@app.callback()
def common(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Options that need no command."""
