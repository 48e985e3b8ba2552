"""What could be known of removed cells at all: regressions that see complete rows.

    python experiments/ceiling.py            everything that is not in the results yet
    python experiments/ceiling.py --show     the table of what there is

With half of the cells removed every pattern of observed columns is equally likely. For each, the
missing columns are regressed on the observed ones by three flexible methods, which are fitted to
*complete* rows (four fifths of them, judged on the others) and tuned on the very cells they are
judged by. An imputer sees half as many cells and no complete table: it should not be expected to
do better. Of tables with many columns, a random sample of the patterns is taken.
"""

from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from sklearn.ensemble import ExtraTreesRegressor
from sklearn.kernel_ridge import KernelRidge
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.neighbors import KNeighborsRegressor

import uci
from common import cell, finished, parser_of, run_missing
from paper_data import load
from store import Store

RESULTS = Path(__file__).parent / "results" / "ceiling.jsonl"
MOST_PATTERNS = 40
FOLDS = KFold(5, shuffle=True, random_state=0)

TABLES = ("banknote", "concrete", "concrete+strength")  # where the paper is ahead, or nearly so

trees = partial(ExtraTreesRegressor, 200, random_state=0)
METHODS = {
    "trees": [trees(min_samples_leaf=n) for n in (3, 5, 10, 20)],
    "neighbours": [KNeighborsRegressor(n) for n in (5, 10, 20, 40)],
    "kernel": [
        KernelRidge(kernel="rbf", gamma=gamma, alpha=alpha)  # pyright: ignore
        for gamma in (0.1, 0.5, 2.0, 8.0)
        for alpha in (0.03, 0.3, 1.0)
    ],
}


def table(name):
    """Standardised, as in experiments/uci.py."""
    data, target = uci.TABLES[name]
    x = load(data, target=target)
    return (x - x.mean(0)) / x.std(0)


def patterns(name):
    """Which columns are observed, as words of 0 and 1: all, or some of many; not all observed."""
    width = table(name).shape[1]
    numbers = np.arange(2**width - 1)
    if len(numbers) > MOST_PATTERNS:
        numbers = np.random.default_rng(0).choice(numbers, MOST_PATTERNS, replace=False)
    return [f"{number:0{width}b}" for number in numbers]


def attempt(one):
    """Squared error of each method on the missing columns of a pattern."""
    x = table(one["data"])
    observed = np.array([letter == "1" for letter in one["method"]])
    result = {"missing": int((~observed).sum())}
    if not observed.any():
        return result | dict.fromkeys(METHODS, float(np.mean(x**2)))
    inputs, outputs = x[:, observed], x[:, ~observed]

    def error(model):
        # A column alone as a vector: some methods warn of one as a matrix.
        given = outputs[:, 0] if outputs.shape[1] == 1 else outputs
        predicted = np.asarray(cross_val_predict(model, inputs, given, cv=FOLDS))
        return np.mean((predicted.reshape(outputs.shape) - outputs) ** 2, axis=0)

    # The best settings of each method, for each column by itself.
    return result | {
        name: float(np.mean(np.min([error(model) for model in models], axis=0)))
        for name, models in METHODS.items()
    }


def show(records):
    """Means over patterns, each with the weight of its missing cells."""
    view = Table(title="squared error of regressions on complete rows, half of the cells removed")
    for column in ("table", "patterns", *METHODS, "best of each pattern", "the paper's MIWAE"):
        view.add_column(column, justify="left" if column == "table" else "right")
    for name in TABLES:
        own = [record for record in records if record["data"] == name]
        if not own:
            continue
        weights = [record["missing"] for record in own]
        errors = np.array([[record[method] for method in METHODS] for record in own])
        means = [*np.average(errors, axis=0, weights=weights)]
        means.append(np.average(errors.min(axis=1), weights=weights))
        shown = [f"{mean:.3f}" for mean in means]
        paper = dict(zip(uci.TABLES, uci.PAPER["miwae, paper"], strict=True))[name]
        view.add_row(name, str(len(own)), *shown, f"{paper:.3f}")
    Console(width=120).print(view)


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=1).parse_args()
    store = Store(RESULTS)
    cells = [
        cell("complete rows", name, pattern, 0, rate=0.5, standardise="complete")
        for name in ([] if arguments.show else TABLES)
        for pattern in patterns(name)
    ]
    run_missing(store, cells, attempt)
    show(finished(store))


if __name__ == "__main__":
    main()
