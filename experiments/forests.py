"""Why is our missForest above the paper's figures? Its free choices, one at a time.

    python experiments/forests.py            everything that is not in the results yet
    python experiments/forests.py --show     the table of what there is

The cells and units are those of Table 2. The paper has 0.510 on concrete and 0.291 on breast.
"""

from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import RandomForestRegressor

from common import finished, parser_of
from miwae.evaluation import Experiment, in_sample
from miwae.evaluation.peers import MissForest
from paper_data import load
from store import Store

RESULTS = Path(__file__).parent / "results" / "forests.jsonl"
TABLES = {"concrete+strength": ("concrete", True), "breast": ("breast", False)}
N_TREES = 40


@dataclass(frozen=True, kw_only=True)
class Variant(MissForest):
    """missForest with other trees."""

    share: float = 0.0  # of the columns, tried at each split; 0: the square root of their number
    leaf: int = 1  # rows of a leaf at least

    def _forest(self, n_columns, seed, *, codes):
        tried = int(self.share * n_columns) if self.share else int(np.sqrt(n_columns + 1))
        return RandomForestRegressor(
            self.n_trees,
            min_samples_leaf=self.leaf,
            max_features=tried,
            n_jobs=self.n_jobs,
            random_state=seed,
        )


CHOICES = {
    "as in R": {},
    "leaves of 5 rows": {"leaf": 5},
    "a third of the columns a split": {"share": 1 / 3},
    "all columns a split": {"share": 1.0},
    "one round": {"max_iterations": 1},
    "two rounds": {"max_iterations": 2},
}


def completed(choice, x, categorical, seed):
    peer = Variant(n_trees=N_TREES, n_jobs=1, seed=seed, **CHOICES[choice])
    return peer.fit_transform(x, categorical)


def run(store, n_masks):
    """All cells that are not in the store."""
    methods = {choice: partial(completed, choice) for choice in CHOICES}
    for mask in range(n_masks):
        for table, (name, target) in TABLES.items():
            x = load(name, target=target)
            experiment = Experiment(table, x, np.zeros(x.shape[1], dtype=bool))
            for record in in_sample(experiment, methods, [mask], store.done()):
                store.append(record)
                print(mask, table, record["method"], record.get("mse"), flush=True)


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=1).parse_args()
    store = Store(RESULTS)
    if not arguments.show:
        run(store, arguments.masks)
    view = Table("", *TABLES, title="missForest: squared error on removed cells, first mask")
    errors = {(r["method"], r["data"]): r["mse"] for r in finished(store) if not r["mask"]}
    for choice in CHOICES:
        view.add_row(choice, *(f"{errors.get((choice, table), np.nan):.3f}" for table in TABLES))
    Console().print(view)


if __name__ == "__main__":
    main()
