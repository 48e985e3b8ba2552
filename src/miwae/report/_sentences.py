"""What was done, in four sentences, and what not to trust."""

from collections import Counter
from collections.abc import Iterator, Sequence

from miwae.report._facts import ColumnFacts, Facts

MANY_MISSING = 0.5  # share of missing cells of a column above which it is worth a warning
MOST_NAMED = 6  # columns that a sentence names


def done(facts: Facts) -> list[str]:
    """The first paragraph of the page."""
    n_cells = facts.n_rows * len(facts.columns)
    share = f"{100 * facts.n_missing / max(n_cells, 1):.1f}\N{NO-BREAK SPACE}%"
    gaps = sum(column.n_missing > 0 for column in facts.columns)
    table = f"{_count(facts.n_rows, 'row')} and {_count(len(facts.columns), 'column')}"
    first = f"The table has {table}; {facts.n_missing:,} of its {n_cells:,} cells ({share})"
    return [
        f"{first} are missing, in {_count(gaps, 'column')}.",
        _learned(facts),
        _imputed(facts),
        "All of this assumes that cells are missing at random: whether a cell is missing may "
        "depend on what is observed in its row, but not on the missing value itself, which no "
        "table can show.",
    ]


def _learned(facts: Facts) -> str:
    skipped = sum(c.quality is None and c.kind in _NOT_MODELLED for c in facts.columns)
    are = "is" if skipped == 1 else "are"
    rest = f"; {_count(skipped, 'column')} {are} not modelled" if skipped else ""
    if not facts.n_models:
        return f"There was nothing to learn from the observed cells{rest}."
    steps = max((record["step"] for record in facts.training), default=0)
    how = f"trained for {steps:,} steps" if steps else "kept its linear start"
    first = "" if facts.n_models == 1 else "the first "
    models = f"{_count(facts.n_models, 'latent variable model')} ({first}{how})"
    return f"How the columns depend on each other was learned by {models}{rest}."


_NOT_MODELLED = ("identifier", "empty", "constant")


def _imputed(facts: Facts) -> str:
    left = facts.n_missing - facts.n_imputed
    rest = f"; {_count(left, 'cell')} {'stays' if left == 1 else 'stay'} missing" if left else ""
    if not facts.n_imputed:
        return f"Nothing was imputed{rest}."
    are = "cell is" if facts.n_imputed == 1 else "cells are"
    return (
        f"{facts.n_imputed:,} {are} imputed by the mean of what is possible given the observed "
        f"cells of the row, or by the most probable category{rest}."
    )


def distrust(facts: Facts) -> list[str]:
    """What a reader should know before using the completed table."""
    return [*_poor_columns(facts), *_of_the_table(facts)]


def _poor_columns(facts: Facts) -> Iterator[str]:
    gaps = _imputed_by_models(facts)
    poor = [c for c in gaps if c.verdict.startswith("no better")]
    if poor:
        yield (
            f"{_named(poor)}: on held-out cells no better than the mean or the most frequent "
            f"value. The other columns say little about {'it' if len(poor) == 1 else 'them'}."
        )
    weak = [c for c in gaps if c.verdict == "weak"]
    if weak:
        yield f"{_named(weak)}: predicted only weakly; use intervals or several copies."
    few = [c for c in gaps if c.verdict == "too few cells"]
    if few:
        yield f"{_named(few)}: too few cells were held out to judge."
    unknown = [c for c in gaps if c.verdict == "not measured"]
    if unknown:
        yield f"{_named(unknown)}: no cells were held out, so errors are not known."
    sparse = [c for c in gaps if c.share_missing > MANY_MISSING]
    if sparse:
        yield f"{_named(sparse)}: more than half of the cells are missing."
    left = [c for c in facts.columns if c.n_missing > c.n_imputed]
    if left:
        yield f"{_named(left)}: missing cells stay missing."


def _of_the_table(facts: Facts) -> Iterator[str]:
    if facts.weights is not None and facts.weights.n_unreliable:
        yield (
            f"The importance weights of {_count(facts.weights.n_unreliable, 'row')} of "
            f"{facts.weights.n_rows:,} are unreliable: values may be off by more than their "
            "intervals say."
        )
    for event in facts.events:
        if event["about"] in ("time", "rows"):
            yield f"{event['text'][0].upper()}{event['text'][1:]}."
    if facts.n_imputed:
        yield (
            "A table that is completed once looks more certain than it is: for standard errors "
            "and tests, draw several copies and pool the results (miwae impute -m 20, "
            "imputer.sample)."
        )


def verdicts(facts: Facts) -> Counter[str]:
    """How many columns with imputed cells got each verdict."""
    return Counter(column.verdict for column in _imputed_by_models(facts))


def _imputed_by_models(facts: Facts) -> list[ColumnFacts]:
    """Columns with imputed cells; those of a constant column need no verdict."""
    return [c for c in facts.columns if c.n_imputed and c.kind not in _NOT_MODELLED]


def _count(n: int, what: str) -> str:
    return f"{n:,} {what}" if n == 1 else f"{n:,} {what}s"


def _named(columns: Sequence[ColumnFacts]) -> str:
    names = [column.name for column in columns[:MOST_NAMED]]
    more = len(columns) - len(names)
    return ", ".join(names) + (f" and {more} more" if more else "")
