"""The defaults of the imputer, one choice after the other, judged on observed cells held out.

    python experiments/choices.py            everything that is not in the results yet
    python experiments/choices.py --show     the table and the plot of what there is

Half of the cells of a table are removed and never used; a tenth of the remaining ones is held out
to compare on, and of the others training holds out its own share for early stopping. The study
varies one factor of short runs; here runs have full length: one model with K = 20 latent samples
per row; with K = 5 and two and a half times as many steps, which takes as long; the same, trained
at the end on its held-out cells as well; at twice the usual learning rate; and the mean of two
such models, the default.
"""

import dataclasses
from functools import partial
from pathlib import Path

import jax
import numpy as np
import statsmodels.api as sm
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes

from common import cell, finished, padded_to, parser_of, run_missing, save
from miwae._compilation import enable_compilation_cache
from miwae.evaluation import ampute
from miwae.inference._imputation import impute_single
from miwae.inference._sampling import SamplingSettings
from miwae.model import MixedColumns
from miwae.tabular import TableSettings
from miwae.tabular._fitting import fit_model
from miwae.tabular._settings import training_settings
from mixed import packaged
from paper_data import load
from store import Store

RESULTS = Path(__file__).parent / "results" / "choices.jsonl"
N_IMPUTATION_SAMPLES = 500
SLOWER = 2.5  # a step with K = 20, in steps with K = 5

TABLES = {
    "banknote": partial(load, "banknote", target=False),
    "breast": partial(load, "breast", target=False),
    "concrete+strength": partial(load, "concrete", target=True),
    "red": partial(load, "red", target=True),
    "yeast": partial(load, "yeast", target=False),
    "diabetes": lambda: np.asarray(load_diabetes(return_X_y=True)[0]),
    "schools": lambda: np.asarray(packaged(sm.datasets.star98), dtype=float),
}

# Models, latent samples a row, whether they learn from the held-out cells at last, learning rate.
CHOICES = {
    "one model, K = 20": (1, 20, False, 1e-3),
    "one model, K = 5": (1, 5, False, 1e-3),
    "the same, finished": (1, 5, True, 1e-3),
    "the same, at twice the rate": (1, 5, True, 2e-3),
    "two of these: the default": (2, 5, True, 2e-3),
}

# What is meant, where the name in the results is short.
LABELS = {
    "the same, finished": "the same, at the end\nalso trained on held-out cells",
    "the same, at twice the rate": "the same, at twice\nthe learning rate",
}


def judged(x, mask):
    """A table standardised by what is observed, the cells to learn from, those to judge by."""
    rng = np.random.default_rng([mask, 77])
    x = np.where(ampute(x, 0.5, "mcar-exact", rng=rng), np.nan, x)
    held = ~np.isnan(x) & (rng.random(x.shape) < 0.1)
    known = np.where(held, np.nan, x)
    return (x - np.nanmean(known, 0)) / np.nanstd(known, 0), ~np.isnan(known), held


def settings_of(observed, n_samples, *, finish, rate):
    """Those of the imputer, but for the choice."""
    settings = training_settings(TableSettings(n_samples=n_samples), observed)
    steps = settings.max_steps / SLOWER if n_samples == 20 else settings.max_steps
    changes = {} if finish else {"finish": 0.0}
    return dataclasses.replace(settings, max_steps=int(steps), learning_rate=rate, **changes)


def attempt(one):
    """Train, impute, and judge."""
    x, observed, held = judged(TABLES[one["data"]](), one["mask"])
    n_models, n_samples, finish, rate = CHOICES[one["method"]]
    rows = observed.any(axis=1)
    x = np.where(observed | held, x, 0.0).astype(np.float32)
    settings = settings_of(observed[rows], n_samples, finish=finish, rate=rate)
    observation = MixedColumns.of([None] * x.shape[1], [], 0)
    wide, seen = padded_to(observation, x, observed)
    limits = SamplingSettings(n_samples=N_IMPUTATION_SAMPLES, tolerance=None)
    filled, unreliable = [], []
    for member in range(n_models):
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
    """Errors, their ratios to the first choice's, and a plot."""
    errors = {(r["method"], r["data"], r["mask"]): r["mse"] for r in records}
    # Like with like: only what all choices have met.
    errors = {k: v for k, v in errors.items() if all((c, *k[1:]) in errors for c in CHOICES)}
    first = next(iter(CHOICES))
    shown = [name for name in TABLES if any(k[1] == name for k in errors)]
    view = Table(title="squared error on held-out cells")
    for column in ("", *shown, f"ratio to {first!r}"):
        view.add_column(column, justify="right" if column else "left")
    ratios = {}
    for choice in CHOICES:
        own = {k[1:]: v for k, v in errors.items() if k[0] == choice}
        if not own:
            continue
        logs = np.array([np.log(v / errors[first, *k]) for k, v in own.items()])
        ratios[choice] = (np.exp(logs.mean()), logs.std(ddof=1) / np.sqrt(len(logs)), own)
        means = [np.mean([v for k, v in own.items() if k[0] == name]) for name in shown]
        ratio, error, _ = ratios[choice]
        cells = [f"{mean:.3f}" for mean in means]
        view.add_row(choice, *cells, f"{ratio:.3f} ± {error:.3f}")
    Console(width=150).print(view)
    if ratios:
        plot(ratios, errors, first)


def plot(ratios, errors, first):
    """The ratio of each choice, a dot for each table."""
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(8, 3), layout="constrained")
    for place, (ratio, error, own) in enumerate(ratios.values()):
        dots = [v / errors[first, *k] for k, v in own.items()]
        panel.plot(dots, np.full(len(dots), -place - 0.15), "o", color="0.7", ms=4)
        panel.errorbar(ratio, -place, xerr=2 * ratio * error, fmt="o", color="C3", capsize=3)
    panel.axvline(1.0, color="0.6", lw=0.8)
    panel.set_yticks(-np.arange(len(ratios)), [LABELS.get(name) or name for name in ratios])
    what = f"squared error on held-out cells, relative to '{first}'"
    panel.set_xlabel(f"{what}\n(grey: each table; red: their mean, with two standard errors)")
    save(figure, "choices")


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=2).parse_args()
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
