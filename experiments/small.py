"""How long to train on tables of few rows, judged on observed cells held out.

    python experiments/small.py            everything that is not in the results yet
    python experiments/small.py --show     the table of what there is

As choices.py does it, with eight tables of 51 to 304 rows: the mean of two models, imputed with
500 latent samples. The usual numbers of steps (4 for each observed cell at most, then 500 for the
amortizer alone) are compared with half of the first, half of the second, and half of both.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import numpy as np
import statsmodels.api as sm
from rich.console import Console
from rich.table import Table
from sklearn import datasets

import choices
from common import cell, finished, padded_to, parser_of, run_missing
from miwae import enable_compilation_cache
from miwae.inference._imputation import impute_single
from miwae.inference._sampling import SamplingSettings
from miwae.model import MixedColumns
from miwae.tabular import TableSettings
from miwae.tabular._fitting import fit_model
from miwae.tabular._settings import training_settings
from mixed import packaged
from store import Store

RESULTS = Path(__file__).parent / "results" / "small.jsonl"


def learned(name, n_rows, n_columns=None):
    found = getattr(datasets, f"load_{name}")(return_X_y=True)[0]
    return np.asarray(found)[:n_rows, :n_columns]


def statistical(name, step=1):
    return np.asarray(packaged(getattr(sm.datasets, name)), dtype=float)[::step]


TABLES = {
    "iris": partial(learned, "iris", 150),
    "wine": partial(learned, "wine", 178),
    "diabetes, 200 rows": partial(learned, "diabetes", 200),
    "breast, 150 rows": partial(learned, "breast_cancer", 150, 10),
    "fair, 304 rows": partial(statistical, "fair", 21),
    "statecrime": partial(statistical, "statecrime"),
    "cancer": partial(statistical, "cancer"),
    "heart": partial(statistical, "heart"),
}

# Training steps for each observed cell, and steps for the amortizer alone.
CHOICES = {
    "as for larger tables": (4, 500),
    "half of the steps": (2, 500),
    "half of the polish": (4, 250),
    "half of both": (2, 250),
}


def attempt(one):
    """Train, impute, and judge."""
    x, observed, held = choices.judged(TABLES[one["data"]](), one["mask"])
    per_cell, polish = CHOICES[one["method"]]
    rows = observed.any(axis=1)
    n_steps = max(per_cell * int(observed.sum()), 500)
    settings = training_settings(TableSettings(max_steps=n_steps), observed[rows])
    settings = dataclasses.replace(settings, polish=polish)
    x = np.where(observed | held, x, 0.0).astype(np.float32)
    observation = MixedColumns.of([None] * x.shape[1], [], 0)
    wide, seen = padded_to(observation, x, observed)
    limits = SamplingSettings(n_samples=500, tolerance=None)
    filled, unreliable = [], []
    for member in range(2):
        model = fit_model(
            observation,
            wide[rows],
            seen[rows],
            table_settings=TableSettings(),
            settings=settings,
            key=jax.random.key(1_000 * one["mask"] + member),
        ).autoencoder
        imputed = impute_single(model, wide, seen, key=jax.random.key(0), settings=limits)
        filled.append(imputed.x[:, : x.shape[1]])
        unreliable.append(np.mean(imputed.report.pareto_k > 0.7))
    error = float(np.mean((np.mean(filled, axis=0) - x)[held] ** 2))
    return {"mse": error, "unreliable": float(np.mean(unreliable)), "held_out": int(held.sum())}


def show(records):
    """Errors relative to the first choice's, bad rows and seconds; means over tables and masks."""
    found = {(r["method"], r["data"], r["mask"]): r for r in records}
    everywhere = {k[1:] for k in found if all((choice, *k[1:]) in found for choice in CHOICES)}
    view = Table(title=f"{len(everywhere)} tables and masks")
    for column in ("", "squared error", "bad rows", "seconds"):
        view.add_column(column, justify="right" if column else "left")
    first = next(iter(CHOICES))
    for choice in CHOICES if len(everywhere) > 1 else ():
        own = [(found[choice, *k], found[first, *k]) for k in sorted(everywhere)]
        logs = np.log([a["mse"] / b["mse"] for a, b in own])
        error = logs.std(ddof=1) / np.sqrt(len(logs))
        bad, seconds = (np.mean([a[name] for a, _ in own]) for name in ("unreliable", "seconds"))
        view.add_row(
            choice, f"{np.exp(logs.mean()):.4f} ± {error:.4f}", f"{bad:.2%}", f"{seconds:.1f}"
        )
    Console(width=100).print(view)


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=3).parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    cells = [
        cell("held-out", name, choice, mask, rate=0.5, standardise="observed")
        for mask in range(0 if arguments.show else arguments.masks)
        for name in TABLES
        for choice in CHOICES
    ]
    run_missing(store, cells, attempt)
    show(finished(store))


if __name__ == "__main__":
    main()
