"""How often 90 % intervals of removed cells hold the truth, and how wide they are.

    python experiments/coverage.py            everything that is not in the results yet
    python experiments/coverage.py --show     what there is

The tables, masks and standardisation are those of experiments/uci.py, with 30 % and with 50 % of
the cells removed; intervals are the imputer's own, with its defaults.
"""

import argparse
import time
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from uci import TABLES, load

from miwae import MIWAEImputer
from miwae.compilation import enable_compilation_cache
from miwae.evaluation.metrics import coverage, width
from miwae.evaluation.protocol import Experiment, Store, hidden_cells

RESULTS = Path(__file__).parent / "results" / "coverage.jsonl"
RATES = (0.5, 0.3)
LEVEL = 0.9


def attempt(table, rate, mask):
    """Fit, ask for intervals, count; a plain record."""
    name, target = TABLES[table]
    raw = load(name, target=target)
    experiment = Experiment(table, raw, np.zeros(raw.shape[1], dtype=bool), rate=rate)
    x, hidden = hidden_cells(experiment, mask)
    given = np.where(hidden, np.nan, x)
    start = time.perf_counter()
    imputer = MIWAEImputer(random_state=mask).fit(given)
    lower, upper = imputer.interval(given, level=LEVEL)
    return {
        "protocol": "coverage",
        "data": table,
        "method": "default",
        "mechanism": experiment.mechanism,
        "rate": rate,
        "standardise": experiment.standardise,
        "mask": mask,
        "seed": experiment.seed,
        "level": LEVEL,
        "coverage": coverage(x, lower, upper, hidden),
        "width": width(lower, upper, hidden),
        "seconds": time.perf_counter() - start,
    }


def run(store, n_masks):
    """All cells that are not in the store."""
    done = {(r["data"], r["rate"], r["mask"]) for r in store.records()}
    for mask in range(n_masks):
        for rate in RATES:
            for table in TABLES:
                if (table, rate, mask) in done:
                    continue
                record = attempt(table, rate, mask)
                store.append(record)
                line = f"coverage {record['coverage']:.3f}  width {record['width']:.2f}"
                print(f"mask {mask}  {rate:.0%}  {table:18} {line}", flush=True)


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
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--masks", type=int, default=1)
    parser.add_argument("--show", action="store_true", help="run nothing")
    arguments = parser.parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    if not arguments.show:
        run(store, arguments.masks)
    show(store.records())


if __name__ == "__main__":
    main()
