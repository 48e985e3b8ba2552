"""The options of the commands, and what their texts mean."""

import codecs
import time
from typing import Annotated, Any, NamedTuple

import typer

from miwae.documents import DEFAULT_NA, Document, open_document
from miwae.errors import DataError, SettingsError

__all__ = [
    "AsJson",
    "Bootstrap",
    "Bounds",
    "Delimiter",
    "Encoding",
    "Input",
    "Kinds",
    "MaxTime",
    "Models",
    "NaWords",
    "NoHeader",
    "OnlyNa",
    "Quiet",
    "STARTED",
    "Seed",
    "Source",
    "deadline",
    "limits_of",
    "marks_of",
    "opened",
    "require_time",
]

STARTED = time.monotonic()
LARGEST_SEED = 2**32 - 1

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
Delimiter = Annotated[
    str | None, typer.Option(metavar="CHAR", help="Between cells; detected by default.")
]
Encoding = Annotated[str | None, typer.Option(help="Of text; detected by default.")]
NoHeader = Annotated[bool, typer.Option("--no-header", help="The first line is data already.")]
Seed = Annotated[
    int,
    typer.Option(min=0, max=LARGEST_SEED, help="Random seed; the same seed, the same result."),
]
AsJson = Annotated[bool, typer.Option("--json", help="What happened as JSON, not as text.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Say nothing unless it fails.")]
MaxTime = Annotated[
    float | None, typer.Option(metavar="SECONDS", help="For the whole run, from its start.")
]
Models = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Models to fit and average; by default 2."),
]
Bootstrap = Annotated[
    bool,
    typer.Option(
        "--bootstrap",
        help="Fit each model to a bootstrap sample of the rows: proper multiple imputation, with "
        "--n-models 10, say.",
    ),
]

# What --kind can say of dates such as 01/02/2024, if no cell of the column shows it.
ORDERS = ("day-first", "month-first")


class Source(NamedTuple):
    """A file that has been opened, and what the options say of its columns."""

    name: str
    document: Document
    kinds: dict[str, str]
    marks: tuple[Any, ...]


def opened(
    source: str,
    kind: list[str] | None,
    na: list[str] | None,
    delimiter: str | None,
    encoding: str | None,
    *,
    only_na: bool,
    header: bool,
) -> Source:
    """Open a file as the options say.

    Raises:
        SettingsError: options that make no sense.
        DataError: the file cannot be read, or has no rows.
    """
    if delimiter is not None and len(delimiter) != 1:
        raise SettingsError(f"--delimiter {delimiter!r} must be a single character")
    if encoding is not None and not _is_encoding(encoding):
        raise SettingsError(f"--encoding {encoding!r} is not known; try utf-8 or latin-1")
    kinds, orders = _kinds_and_orders(kind)
    document = open_document(
        source,
        delimiter=delimiter,
        encoding=encoding,
        na_words=(*(() if only_na else DEFAULT_NA), *(na or ())),
        header=header,
        date_orders=orders or None,
    )
    name = "standard input" if source == "-" else source
    if not document.n_rows or not document.names:
        raise DataError(f"{name}: the table has no rows")
    return Source(source, document, kinds, marks_of(na))


def _is_encoding(name: str) -> bool:
    try:
        codecs.lookup(name)
    except LookupError:
        return False
    return True


def _pairs(texts: list[str] | None, option: str) -> dict[str, str]:
    """COLUMN=VALUE, as a dictionary; the column may itself contain an equals sign."""
    pairs = {}
    for text in texts or []:
        column, equals, value = text.rpartition("=")
        if not equals or not column or not value:
            raise SettingsError(f"{option} {text!r} must be COLUMN=VALUE")
        pairs[column] = value
    return pairs


def _kinds_and_orders(kind: list[str] | None) -> tuple[dict[str, str], dict[str, str]]:
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
