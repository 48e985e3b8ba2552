"""The commands together, and what becomes of errors."""

import io
import os
import re
import sys
import warnings
from importlib import metadata
from pathlib import Path
from traceback import walk_tb
from typing import Annotated, Any

import typer
from typer.core import TyperCommand

from miwae.cli._benchmark import benchmark
from miwae.cli._commands import demo, fit, impute, inspect, report, score
from miwae.cli._signals import end_by_closed_pipe
from miwae.cli._visible import say
from miwae.errors import DataWarning, MiwaeError, SettingsError

INTERRUPTED = 130  # what typer makes of Ctrl-C, and the exit code of a command that it ends

# What is being done in the folders of the package, for a process that runs out of memory.
DOING = {
    "documents": "reading or writing the table",
    "columns": "looking at the columns",
    "tabular": "preparing the table for the model",
    "training": "training",
    "inference": "imputing",
    "evaluation": "comparing imputers",
}

# Errors that begin with the name of a Python parameter, which here is the name of an option.
OPTIONS = {
    "bounds": "--bounds",
    "column_kinds": "--kind",
    "date_orders": "--kind",
    "header=False": "--no-header",
    "rate": "--rate",
    "sheet": "--sheet",
}

app = typer.Typer(
    help="Impute the missing values of a table, and say how certain the imputed cells are.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help, which does not write <bool> beside flags
    context_settings={"help_option_names": ["-h", "--help"]},
)
# The commands, and an example of each.
COMMANDS = {
    impute: "miwae impute table.csv -o completed.csv --interval 0.9 --flag",
    fit: "miwae fit table.csv -o table.miwae",
    score: "miwae score new.csv --model table.miwae --top 10",
    inspect: "miwae inspect table.csv --na -999",
    report: "miwae report table.csv -o report.html",
    benchmark: "miwae benchmark table.csv --methods miwae,mean,knn --masks 1",
    demo: "miwae demo -o penguins",
}


class PlainCommand(TyperCommand):
    """A command whose help shows arguments without braces and Python types: IN, not IN <str>."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        for own in self.params:
            if own.param_type_name == "argument":
                own.display_type_rich = lambda ctx: None  # pyright: ignore

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """As typer has it, but for the braces."""
        return [re.sub("[{}]", "", piece) for piece in super().collect_usage_pieces(ctx)]


for command, example in COMMANDS.items():
    app.command(cls=PlainCommand, epilog=f"Example: {example}")(command)


def run() -> None:
    """Run a command; what goes wrong becomes one line on standard error and an exit code."""
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal cannot show is no reason to fail.
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    # What a warning says is also an event, and events are reported at the end.
    warnings.simplefilter("ignore", DataWarning)
    try:
        _call()
    except SettingsError as error:
        name, space, rest = str(error).partition(" ")
        _fail(OPTIONS.get(name, name) + space + rest, code=2)
    except MiwaeError as error:
        _fail(str(error), code=1)
    except OSError as error:
        # Nothing may be flushed any more to an output that has been closed.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if isinstance(error, BrokenPipeError):
            end_by_closed_pipe()
        # Errors about tables and models name their file; this one is about standard output.
        what = "" if error.filename else "cannot write to standard output: "
        _fail(f"{what}{error}", code=1)
    except KeyboardInterrupt:
        _fail("interrupted", code=INTERRUPTED)
    except (MemoryError, RuntimeError) as error:
        if not _is_out_of_memory(error):
            raise
        _fail(_out_of_memory(error), code=1)


def _call() -> None:
    try:
        app(prog_name="miwae")
    except SystemExit as stop:
        if isinstance(stop.__context__, BrokenPipeError):  # which typer makes an exit
            raise stop.__context__ from None
        sys.stdout.flush()
        if stop.code == INTERRUPTED:
            raise KeyboardInterrupt from stop
        raise


def _is_out_of_memory(error: BaseException) -> bool:
    """XLA has no class of its own for it."""
    return isinstance(error, MemoryError) or "RESOURCE_EXHAUSTED" in str(error)


def _out_of_memory(error: BaseException) -> str:
    """What was being done, by the innermost function of the package, and what would help."""
    parts = [Path(frame.f_code.co_filename).parts for frame, _ in walk_tb(error.__traceback__)]
    folders = [p[p.index("miwae") + 1] for p in parts if "miwae" in p[:-1]]
    doing = [DOING[folder] for folder in folders if folder in DOING]
    return (
        f"out of memory while {doing[-1] if doing else 'starting'}: use fewer rows or columns, "
        "fewer copies (-m) or models (--n-models), or a machine with more memory"
    )


def _fail(message: str, *, code: int) -> None:
    say(f"miwae: {message}")
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
