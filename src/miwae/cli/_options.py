"""The options of the commands, and what their texts mean."""

import contextlib
import functools
import inspect
import time
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple, TypeAlias

from typer import Argument, Option

from miwae._deadlines import Deadline
from miwae._words import meant
from miwae.errors import SettingsError

STARTED = time.monotonic()

Texts: TypeAlias = list[str] | None

Input = Annotated[
    str,
    Argument(
        metavar="IN",
        help="A table: CSV, TSV, Excel, Parquet, Feather, JSON lines, Stata, SPSS or SAS file; - "
        "is stdin. miwae impute: or a directory of Parquet files.",
    ),
]
Output = Annotated[
    str, Option("-o", "--output", metavar="OUT", help="The completed table; - is stdout.")
]
Copies = Annotated[
    int,
    Option(
        "-m",
        "--n-imputations",
        metavar="M",
        min=0,
        show_default=False,
        help="Draw M completed copies instead, stacked, with .imp and .id as R's mice.",
    ),
]
ModelFile = Annotated[
    str | None, Option(metavar="FILE", help="A fitted model; nothing is trained.")
]
Kinds = Annotated[
    Texts,
    Option(
        "--kind",
        metavar="COLUMN=KIND",
        help="The kind of a column, where the inferred one is wrong; repeatable. "
        "'size=ordinal:S<M<L' also gives the order of the levels, 'when=datetime:day-first' (or "
        "month-first) how to read dates such as 01/02/2024.",
    ),
]
Ignored = Annotated[
    Texts,
    Option("--ignore", metavar="COLUMN", help="Leave a column out, and as it is; repeatable."),
]
Bounds = Annotated[
    Texts,
    Option(
        "--bounds", metavar="COLUMN=LOW:HIGH", help="Limits of a column of numbers; repeatable."
    ),
]
_SEED = Option(
    metavar="N", min=0, max=2**32 - 1, help="Random seed; the same seed gives the same result."
)
Seed = Annotated[int, _SEED]
OptionalSeed = Annotated[int | None, _SEED]
Resume = Annotated[
    bool, Option("--resume", help="Go on with an interrupted run over a large table.")
]
AsJson = Annotated[bool, Option("--json", help="Report as JSON instead of text.")]
Quiet = Annotated[bool, Option("--quiet", "-q", help="Print nothing but errors.")]
MaxTime = Annotated[float | None, Option(metavar="SECONDS", help="Time limit of the whole run.")]
ReportFile = Annotated[
    str | None, Option(metavar="HTML", help="Describe the imputation in a page as well.")
]
Models = Annotated[
    int | None, Option(metavar="N", min=1, help="Models to fit and average; by default 2.")
]
Bootstrap = Annotated[
    bool,
    Option(
        "--bootstrap",
        help="Fit each model to a bootstrap sample of the rows: proper multiple imputation, if "
        "--n-models is 10 or so.",
    ),
]


class Format(NamedTuple):
    """How a file is read; the commands that read one have all of these options."""

    na: Annotated[
        Texts, Option(metavar="WORD", help="A further word that means 'missing'; repeatable.")
    ] = None
    only_na: Annotated[
        bool, Option("--only-na", help="No word but those of --na means 'missing'.")
    ] = False
    delimiter: Annotated[
        str | None, Option(metavar="CHAR", help="Separates cells; detected by default.")
    ] = None
    encoding: Annotated[
        str | None, Option(metavar="NAME", help="Of a text file; detected by default.")
    ] = None
    sheet: Annotated[
        str | None,
        Option(metavar="NAME", help="Of an Excel file, by name or number; the first by default."),
    ] = None
    no_header: Annotated[bool, Option("--no-header", help="The first line holds no names.")] = (
        False
    )
    allow_large: Annotated[
        bool,
        Option("--allow-large", help="Read a file that becomes hundreds of times larger, too."),
    ] = False


DEFAULT = Format()


class Uncertainty(NamedTuple):
    """What is written about the imputed cells of a completed table."""

    interval: Annotated[
        float | None,
        Option(
            metavar="LEVEL",
            help="Add columns NAME.lower and NAME.upper, between which an imputed cell lies with "
            "this probability, such as 0.9.",
        ),
    ] = None
    flag: Annotated[
        bool, Option("--flag", help="Add columns NAME.imputed: true where a cell was imputed.")
    ] = False
    probabilities: Annotated[
        str | None,
        Option(metavar="FILE", help="Also write the probability of each level of imputed cells."),
    ] = None
    diagnostics: Annotated[
        str | None,
        Option(metavar="FILE", help="Also write how reliable the imputation of each row is."),
    ] = None


NOTHING_MORE = Uncertainty()


class Roles(NamedTuple):
    """What columns are for; the commands that learn from a table have all of these options."""

    ignore: Ignored = None
    predictor: Annotated[
        Texts, Option(metavar="COLUMN", help="Use a column, but do not impute it; repeatable.")
    ] = None
    only: Annotated[
        Texts, Option(metavar="COLUMN", help="Impute this column, and use all others; repeatable.")
    ] = None
    not_applicable: Annotated[
        Texts,
        Option(
            metavar="COLUMN:CONDITION",
            help="Where missing cells of a column stay as they are: 'garage_year: garage == 0'.",
        ),
    ] = None


NO_ROLES = Roles()


class Cluster(NamedTuple):
    """Where a data set of many files is completed."""

    engine: Annotated[
        str | None,
        Option(
            metavar="dask",
            help="Complete a directory of Parquet files, or one, on a cluster, with --model; OUT "
            "is a directory. Interrupted runs are resumed.",
        ),
    ] = None
    scheduler: Annotated[
        str | None,
        Option(
            metavar="ADDRESS",
            help="Of the cluster, such as tcp://host:8786; by default one "
            "is started on this machine.",
        ),
    ] = None
    key: Annotated[
        Texts,
        Option(
            metavar="COLUMN", help="Carry along a column that the model does not know; repeatable."
        ),
    ] = None


ONE_PROCESS = Cluster()

# Options that several commands share, or that belong together, by the parameter that gets them.
GROUPS = {"form": Format, "more": Uncertainty, "roles": Roles, "cluster": Cluster}


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """The command as typer should see it: with the options of each group in place of it."""
    own = inspect.signature(command).parameters
    groups = {name: group for name, group in GROUPS.items() if name in own}
    options = {name: inspect.signature(group).parameters for name, group in groups.items()}
    parameters = [p for q in own.values() for p in options.get(q.name, {q.name: q}).values()]

    @functools.wraps(command)
    def run(**given: Any) -> None:
        for name, group in groups.items():
            given[name] = group(**{field: given.pop(field) for field in group._fields})
        command(**given)

    keyword = inspect.Parameter.KEYWORD_ONLY
    run.__signature__ = inspect.Signature([p.replace(kind=keyword) for p in parameters])  # pyright: ignore
    return run


# What --kind can say about dates such as 01/02/2024 if no cell of the column shows it.
ORDERS = ("day-first", "month-first")


def _pairs(texts: Texts, option: str) -> dict[str, str]:
    """COLUMN=VALUE, as a dictionary; the column may itself contain an equals sign."""
    pairs = {}
    for text in texts or []:
        column, equals, value = text.rpartition("=")
        if not equals or not column or not value:
            raise SettingsError(f"{option} {text!r} must be COLUMN=VALUE")
        pairs[column] = value
    return pairs


def kinds_and_orders(kind: Texts) -> tuple[dict[str, str], dict[str, str]]:
    """Kinds by column, and the order of day and month for those of dates."""
    kinds, orders = _pairs(kind, "--kind"), {}
    for column, text in kinds.items():
        label, _, order = text.partition(":")
        if label == "datetime" and order in ORDERS:
            kinds[column], orders[column] = label, order
    return kinds, orders


def limits_of(pairs: Texts) -> dict[str, tuple[float | None, float | None]]:
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


def roles_of(names: Sequence[str], asked: Roles) -> dict[str, str]:
    """The roles of columns by --ignore, --predictor and --only."""
    options = {name: getattr(asked, name) or () for name in ("ignore", "predictor", "only")}
    for option, columns in options.items():
        for column in columns:
            if column not in names:
                hint = meant(column, names)
                raise SettingsError(f"--{option} {column!r}: there is no such column{hint}")
    twice = [name for name in names if sum(name in own for own in options.values()) > 1]
    if twice:
        raise SettingsError(f"{twice[0]!r} can have one of --ignore, --predictor and --only")
    words = dict(zip(options, ("ignore", "predictor", "both"), strict=True))
    return {column: words[option] for option, own in options.items() for column in own}


def rest_of(asked: Roles) -> Literal["both", "predictor"]:
    """The role of all other columns. Row numbers are no predictors unless they are named."""
    return "predictor" if asked.only else "both"


def conditions_of(asked: Roles) -> dict[str, str]:
    """The conditions of --not-applicable, by column."""
    conditions = {}
    for text in asked.not_applicable or ():
        column, colon, condition = text.partition(":")
        if not colon or not condition.strip():
            example = "'garage_year: garage == 0'"
            raise SettingsError(
                f"--not-applicable {text!r} must be COLUMN: CONDITION, as {example}"
            )
        conditions[column.strip()] = condition.strip()
    return conditions


def marks_of(na: Texts) -> tuple[Any, ...]:
    """The words of --na, also as the numbers that they may be in a file that has types."""
    numbers = []
    for word in na or ():
        with contextlib.suppress(ValueError):
            numbers.append(float(word))
    return (*(na or ()), *numbers)


def require_time(max_time: float | None) -> None:
    if max_time is not None and not max_time > 0:
        raise SettingsError(f"--max-time {max_time:g} must be above 0")


def deadline(max_time: float | None, share: float = 1.0, later: float = 0.0) -> Deadline | None:
    """When a share of the time that the run may take is over, or `later` seconds are left."""
    if max_time is None:
        return None
    return Deadline(STARTED + min(share * max_time, max_time - later), "--max-time")


def table_seed(seed: int) -> int:
    """The seed of a table, drawn from --seed as `MIWAEImputer` draws it from `random_state`."""
    import numpy as np

    return int(np.random.RandomState(seed).randint(2**31 - 1))
