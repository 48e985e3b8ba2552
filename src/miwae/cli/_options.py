"""The options of the commands, and what their texts mean."""

import time
from typing import Annotated, Any

import typer

from miwae.errors import SettingsError

STARTED = time.monotonic()
LARGEST_SEED = 2**32 - 1

Input = Annotated[
    str,
    typer.Argument(metavar="IN", help="CSV, TSV, Parquet, Feather or Excel file; - for stdin."),
]
Output = Annotated[
    str, typer.Option("-o", "--output", metavar="OUT", help="The completed table; - is stdout.")
]
Copies = Annotated[
    int,
    typer.Option(
        "-m",
        metavar="M",
        min=0,
        help="Draw M completed copies instead, stacked, with .imp and .id as R's mice.",
    ),
]
ModelFile = Annotated[
    str | None, typer.Option(metavar="FILE", help="A fitted model; nothing is trained.")
]
Kinds = Annotated[
    list[str] | None,
    typer.Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="The kind of a column, where the inferred one is wrong; repeatable. "
        "'size=ordinal:S<M<L' also gives the order of the levels, 'when=datetime:day-first' (or "
        "month-first) how to read dates such as 01/02/2024.",
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
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHAR", help="Separates cells; detected by default.")
]
Encoding = Annotated[str | None, typer.Option(help="Of a text file; detected by default.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line holds no names.")]
_SEED = typer.Option(
    min=0, max=LARGEST_SEED, help="Random seed; the same seed gives the same result."
)
Seed = Annotated[int, _SEED]
OptionalSeed = Annotated[int | None, _SEED]
AsJson = Annotated[bool, typer.Option("--json", help="Report as JSON instead of text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing but errors.")]
MaxTime = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="Time limit of the whole run.")
]
Models = Annotated[
    int | None, typer.Option(metavar="N", min=1, help="Models to fit and average; by default 2.")
]
Bootstrap = Annotated[
    bool,
    typer.Option(
        "--bootstrap",
        help="Fit each model to a bootstrap sample of the rows: proper multiple imputation, if "
        "--n-models is 10 or so.",
    ),
]

# What --kind can say about dates such as 01/02/2024 if no cell of the column shows it.
ORDERS = ("day-first", "month-first")


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """COLUMN=VALUE, as a dictionary; the column may itself contain an equals sign."""
    pairs = {}
    for text in texts or []:
        column, equals, value = text.rpartition("=")
        if not equals or not column or not value:
            raise SettingsError(f"{option} {text!r} must be COLUMN=VALUE")
        pairs[column] = value
    return pairs


def kinds_and_orders(kind: list[str] | None) -> tuple[dict[str, str], dict[str, str]]:
    """Kinds by column, and the order of day and month for those of dates."""
    kinds, orders = _pairs(kind, "--kind"), {}
    for column, text in kinds.items():
        label, _, order = text.partition(":")
        if label == "datetime" and order in ORDERS:
            kinds[column], orders[column] = label, order
    return kinds, orders


def limits_of(pairs: list[str] | None) -> dict[str, tuple[float | None, float | None]]:
    """--bounds as a dictionary by column."""
    limits = {}
    for column, value in _pairs(pairs, "--bounds").items():
        low, colon, high = value.partition(":")
        try:
            limits[column] = tuple(float(limit) if limit else None for limit in (low, high))
        except ValueError:
            colon = ""
        if not colon:
            raise SettingsError(f"--bounds {column}={value} must be COLUMN=LOW:HIGH")
    return limits


def marks_of(na: list[str] | None) -> tuple[Any, ...]:
    """The words of --na, also as the numbers that they may be in a file that has types."""
    numbers = []
    for word in na or ():
        try:
            numbers.append(float(word))
        except ValueError:
            continue
    return (*(na or ()), *numbers)


def require_time(max_time: float | None) -> None:
    """Refuse a limit that is not positive."""
    if max_time is not None and not max_time > 0:
        raise SettingsError(f"--max-time {max_time:g} must be above 0")


def deadline(max_time: float | None, share: float = 1.0) -> float | None:
    """When a share of the time that the run may take is over, by `time.monotonic()`."""
    return None if max_time is None else STARTED + share * max_time


def table_seed(seed: int) -> int:
    """The seed of a table, drawn from --seed as `MIWAEImputer` draws it from `random_state`."""
    import numpy as np

    return int(np.random.RandomState(seed).randint(2**31 - 1))
