"""`miwae benchmark`: imputers compared on the user's own tables."""

import json
import sys
from functools import partial
from typing import Annotated, Any

from typer import Argument, Option

from miwae.cli import _comparison as comparisons
from miwae.cli import _options as options
from miwae.cli._options import DEFAULT, Format, Roles, with_groups
from miwae.cli._report import console_on
from miwae.cli._source import inspected, keep_programs, opened
from miwae.errors import SettingsError


@with_groups
def benchmark(
    sources: Annotated[list[str], Argument(metavar="DATA", help="Tables, complete or not.")],
    methods: Annotated[
        str,
        Option(
            metavar="A,B,...",
            help="Which of miwae, mean, knn, knn-vim, pca, missforest, iterative, boosted, "
            "copula; by default all.",
        ),
    ] = "",
    mechanism: Annotated[
        str,
        Option(
            metavar="NAME",
            help="How cells are hidden: mcar, mcar-exact, mar, mnar-self, mnar-upper, mnar-lower "
            "or mnar-both.",
        ),
    ] = "mcar",
    rate: Annotated[
        float, Option(metavar="SHARE", help="Share of the observed cells to hide.")
    ] = 0.3,
    masks: Annotated[int, Option(metavar="N", min=1, help="How many times.")] = 3,
    new_rows: Annotated[
        float,
        Option(
            metavar="SHARE",
            show_default=False,
            help="Learn from the other rows only, and fill this share of them.",
        ),
    ] = 0.0,
    plot: Annotated[
        str | None, Option(metavar="FILE", help="A picture as well: .png, .svg or .pdf.")
    ] = None,
    kind: options.Kinds = None,
    ignore: options.Ignored = None,
    predictor: Annotated[
        options.Texts,
        Option(metavar="COLUMN", help="Use a column, but hide nothing of it; repeatable."),
    ] = None,
    only: Annotated[
        options.Texts, Option(metavar="COLUMN", help="Hide cells of this column only; repeatable.")
    ] = None,
    form: Format = DEFAULT,
    seed: options.Seed = 0,
    as_json: options.AsJson = False,
    quiet: options.Quiet = False,
) -> None:
    """Compare imputers on your own tables.

    Observed cells are hidden and filled again.
    """
    from miwae.evaluation import MECHANISMS, Experiment, as_matrix, standings, summarise

    attempts, chosen = _protocol(new_rows, methods)
    if mechanism not in MECHANISMS:
        raise SettingsError(f"--mechanism {mechanism} is not one of {', '.join(MECHANISMS)}")
    if plot is not None:
        comparisons.require_plots(plot)
    compared = []
    for source in sources:
        known = inspected(opened(source, form, kind, roles=Roles(ignore, predictor, only)))
        matrix = as_matrix(known.schema, known.reading.columns)
        hidden = (mechanism, rate, seed, "observed", matrix.imputed)
        experiment = Experiment(source, matrix.x, matrix.categorical, *hidden)
        records = []
        for record in attempts(experiment, chosen, range(masks)):
            records.append(record)
            if not as_json and not quiet:
                comparisons.report_record(record, masks)
        results = summarise(records), records, standings(records, comparisons.OURS)
        compared.append(comparisons.Comparison(source, matrix.names, *results))
    if as_json:
        data = [comparison.as_data() for comparison in compared]
        sys.stdout.write(json.dumps(data, indent=2) + "\n")
    else:
        comparisons.print_comparisons(console_on(sys.stdout), compared)
    if plot is not None:
        comparisons.plot_comparisons(compared, plot)


def _protocol(new_rows: float, names: str) -> tuple[Any, dict[str, Any]]:
    """How to compare, and the methods for it: those that complete new rows are fitted before."""
    from miwae import evaluation
    from miwae.evaluation import peers

    if not 0 <= new_rows < 1:
        raise SettingsError(f"--new-rows {new_rows} is not a share of the rows, 0 to below 1")
    attempts, theirs = evaluation.in_sample, peers.complete
    ours = lambda x, *rest: _fit_by_default(x, *rest)(x)  # noqa: E731
    if new_rows:
        attempts = partial(evaluation.new_rows, share=new_rows)
        ours, theirs = _fit_by_default, peers.fit
    known = {"miwae": ours, **{name: partial(theirs, name) for name in peers.PEERS}}
    asked = [name.strip() for name in names.split(",") if name.strip()] or list(known)
    if unknown := [name for name in asked if name not in known]:
        raise SettingsError(f"--methods {unknown[0]} is not one of {', '.join(known)}")
    return attempts, {name: known[name] for name in asked}


def _fit_by_default(x: Any, categorical: Any, seed: int) -> Any:
    """A function that completes rows by our imputer, and draws them."""
    import numpy as np

    keep_programs()
    from miwae.evaluation import Completed
    from miwae.imputer import MIWAEImputer

    kinds = dict.fromkeys(categorical.nonzero()[0].tolist(), "categorical")
    imputer = MIWAEImputer(random_state=seed, column_kinds=kinds or None).fit(x)

    draw = lambda rows: np.stack(list(imputer.sample(rows)))  # noqa: E731
    return lambda rows: Completed(imputer.transform(rows), partial(draw, rows))
