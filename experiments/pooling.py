"""How often pooled 95 % intervals of regression coefficients hold the truth, where it is known.

    python experiments/pooling.py            everything that is not in the results yet
    python experiments/pooling.py --show     what there is

500 rows: x1 is normal, x2 = 0.6 x1 + noise, and y = 1 + 0.5 x1 - 0.7 x2 + noise. In one half of
the rows x2 goes missing with a probability that grows with y, in the other half y with one that
grows with x1: at random, about 30 % each, and regression on complete rows is biased. Each
repetition is a new table, imputed ten times, regressed and pooled by Rubin's rules.
"""

from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import statsmodels.api as sm
from rich.console import Console
from rich.table import Table
from scipy.special import expit
from sklearn.linear_model import LinearRegression

from common import cell, finished, parser_of, run_missing
from miwae import MIWAEImputer, enable_compilation_cache
from store import Store

RESULTS = Path(__file__).parent / "results" / "pooling.jsonl"
N_ROWS = 500
N_COPIES = 10
TRUTH = {"intercept": 1.0, "x1": 0.5, "x2": -0.7}
METHODS = {
    "default": {},
    "one model": {"n_models": 1},
    "three bootstrapped models": {"n_models": 3, "bootstrap": True},
}


def simulate(seed):
    """A complete table, and the same with holes."""
    rng = np.random.default_rng([seed, 95])
    x1 = rng.normal(size=N_ROWS)
    x2 = 0.6 * x1 + 0.8 * rng.normal(size=N_ROWS)
    y = TRUTH["intercept"] + TRUTH["x1"] * x1 + TRUTH["x2"] * x2 + rng.normal(size=N_ROWS)
    complete = pd.DataFrame({"x1": x1, "x2": x2, "y": y})
    holes, half = complete.copy(), rng.random(N_ROWS) < 0.5
    missing = lambda a: rng.random(N_ROWS) < expit(0.5 + 1.5 * (a - a.mean()) / a.std())  # noqa: E731
    holes.loc[half & missing(y), "x2"] = np.nan
    holes.loc[~half & missing(x1), "y"] = np.nan
    return complete, holes


def regression(frame):
    """Coefficients and their 95 % intervals, by least squares."""
    found = sm.OLS(frame["y"], sm.add_constant(frame[["x1", "x2"]])).fit()
    return found.params.to_numpy(), found.conf_int(0.05).to_numpy().T


def attempt(one):
    """Which of the three intervals hold the truth, and the estimates."""
    complete, holes = simulate(one["mask"])
    method = one["method"]
    if method == "nothing missing":
        estimate, (lower, upper) = regression(complete)
    elif method == "complete rows":
        estimate, (lower, upper) = regression(holes.dropna())
    else:
        imputer = MIWAEImputer(**METHODS[method], random_state=one["mask"]).fit(holes)
        draws = imputer.sample(holes, n_imputations=N_COPIES)
        found = draws.fit(LinearRegression(), "y", ["x1", "x2"])
        estimate, (lower, upper) = found.estimate, found.interval(0.95)
    truth = np.array(list(TRUTH.values()))
    estimate, lower, upper = map(np.asarray, (estimate, lower, upper))
    result = {}
    for i, name in enumerate(TRUTH):
        result[f"{name} inside"] = int(lower[i] <= truth[i] <= upper[i])
        result[f"{name} estimate"] = float(estimate[i])
        result[f"{name} width"] = float(upper[i] - lower[i])
    return result


def show(records):
    """Coverage, bias and width of each coefficient."""
    view = Table(title="95 % intervals: coverage, bias of the estimate, width")
    for column in ("", *TRUTH, "all", "tables"):
        view.add_column(column, justify="right" if column else "left")
    for method in ("nothing missing", "complete rows", *METHODS):
        own = [r for r in records if r["method"] == method]
        if not own:
            continue
        of = lambda name: np.array([r[name] for r in own])  # noqa: E731, B023
        cells = [
            f"{of(f'{name} inside').mean():.3f}, {of(f'{name} estimate').mean() - truth:+.3f}, "
            f"{of(f'{name} width').mean():.3f}"
            for name, truth in TRUTH.items()
        ]
        every = np.mean([of(f"{name} inside").mean() for name in TRUTH])
        view.add_row(method, *cells, f"{every:.3f}", str(len(own)))
    Console(width=120).print(view)


def main():
    """Run, or show."""
    parser = parser_of(__doc__, masks=40)
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=["default"])
    arguments = parser.parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    make = partial(cell, "pooling", "simulated", rate=0.3, standardise="none")
    cells = [
        make(method, mask) | {"mechanism": "mar"}
        for mask in range(0 if arguments.show else arguments.masks)
        for method in ("nothing missing", "complete rows", *arguments.methods)
    ]
    run_missing(store, cells, attempt)
    show(finished(store))


if __name__ == "__main__":
    main()
