"""How often 90 % intervals of removed cells hold the truth, and how wide they are.

    python experiments/coverage.py            everything that is not in the results yet
    python experiments/coverage.py --show     what there is

The tables, masks and standardisation are those of experiments/uci.py, with 30 % and with 50 % of
the cells removed; intervals are the imputer's own, with its defaults.
"""

from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from common import cell, finished, parser_of, run_missing
from miwae import MIWAEImputer, enable_compilation_cache
from miwae.evaluation import Experiment, hidden_cells, metrics
from store import Store
from uci import TABLES, load

RESULTS = Path(__file__).parent / "results" / "coverage.jsonl"
RATES = (0.5, 0.3)
LEVEL = 0.9


def attempt(one):
    """Fit, ask for intervals, count."""
    name, target = TABLES[one["data"]]
    raw = load(name, target=target)
    categorical = np.zeros(raw.shape[1], dtype=bool)
    experiment = Experiment(one["data"], raw, categorical, rate=one["rate"])
    x, hidden = hidden_cells(experiment, one["mask"])
    given = np.where(hidden, np.nan, x)
    imputer = MIWAEImputer(random_state=one["mask"]).fit(given)
    lower, upper = imputer.interval(given, level=LEVEL)
    return {
        "coverage": metrics.coverage(x, lower, upper, hidden),
        "width": metrics.width(lower, upper, hidden),
    }


def show(records):
    """Means over masks."""
    view = Table(title=f"coverage of {LEVEL:.0%} intervals (width in standard deviations)")
    for column in ("removed", *TABLES, "mean"):
        view.add_column(column, justify="right")
    for rate in RATES:
        found = {
            table: [(r["coverage"], r["width"]) for r in records if _is(r, table, rate)]
            for table in TABLES
        }
        means = {table: np.mean(values, axis=0) for table, values in found.items() if values}
        if means:
            cells = [_cell(means.get(table)) for table in TABLES]
            overall = np.mean(list(means.values()), axis=0)
            view.add_row(f"{rate:.0%}", *cells, _cell(overall))
    Console(width=130).print(view)


def _is(record, table, rate):
    return record["data"] == table and record["rate"] == rate


def _cell(values):
    return "" if values is None else f"{values[0]:.3f} ({values[1]:.2f})"


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=1).parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    cells = [
        cell("coverage", table, "default", mask, rate=rate, standardise="complete")
        for mask in range(0 if arguments.show else arguments.masks)
        for rate in RATES
        for table in TABLES
    ]
    run_missing(store, cells, attempt)
    show(finished(store))


if __name__ == "__main__":
    main()
