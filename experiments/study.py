"""What makes it accurate: one factor at a time, judged on observed cells that were held out.

    python experiments/study.py            everything that is not in the results yet
    python experiments/study.py --show     the table and the plot of what there is

Half of the cells of a table are removed and never looked at again. A tenth of the remaining ones
is held out to judge by; of what is left, training holds out its own share to know when to stop.
The base is one model of the imputer's, trained as the imputer trains it (which averages two). Each
variant differs from it in one thing; those "of dense networks" from "without the linear core".
Masks are run one after the other over all variants and tables, and an interrupted run goes on
where it stopped.
"""

import dataclasses
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from common import cell, finished, padded_to, parser_of, run_missing, save
from miwae._compilation import enable_compilation_cache
from miwae.evaluation import ampute
from miwae.inference._imputation import impute_single
from miwae.inference._sampling import SamplingSettings
from miwae.model import MixedColumns, Normal, StudentT
from miwae.model._build import dense_autoencoder, linear_autoencoder, linear_core
from miwae.model._fill import LearnedFill
from miwae.model._posteriors import FullNormalPosterior, MixturePosterior, StudentTPosterior
from miwae.model._priors import MixturePrior
from miwae.tabular import TableSettings
from miwae.tabular._fitting import fit_model
from miwae.tabular._settings import training_settings
from miwae.training import fit
from paper_data import load
from store import Store

RESULTS = Path(__file__).parent / "results" / "study.jsonl"
TABLES = {"banknote": False, "breast": False, "concrete": True, "red": True}
N_SAMPLES = 5
N_IMPUTATION_SAMPLES = 500
NUMBERS_OF_SAMPLES = (1, 10, 100, 1_000, 10_000)


def judged(name, mask):
    """A table standardised by what is observed, the cells to learn from, those to judge by."""
    rng = np.random.default_rng([mask, 4])
    x = load(name, target=TABLES[name])
    x = np.where(ampute(x, 0.5, "mcar-exact", rng=rng), np.nan, x)
    held = ~np.isnan(x) & (rng.random(x.shape) < 0.1)
    known = np.where(held, np.nan, x)
    return (x - np.nanmean(known, 0)) / np.nanstd(known, 0), ~np.isnan(known), held


def base_settings(observed):
    """Those of the imputer."""
    return training_settings(TableSettings(n_samples=N_SAMPLES), observed)


def as_imputer(x, observed, keys, *, sizes=None, **changes):
    """The imputer's own model of numbers, all on their own scale."""
    settings = dataclasses.replace(base_settings(observed), **changes)
    observation = MixedColumns.of([None] * x.shape[1], [], 0)
    table_settings = TableSettings(**(sizes or {}))
    chosen = {"table_settings": table_settings, "settings": settings, "key": keys[0]}
    return fit_model(observation, *padded_to(observation, x, observed), **chosen).autoencoder


def trained(autoencoder, x, observed, key, **changes):
    """As the imputer trains."""
    settings = dataclasses.replace(base_settings(observed), **changes)
    return fit(autoencoder, x, observed, settings=settings, key=key).autoencoder


def with_observation(make, x, observed, keys):
    """Another observation model, or fixed floors under its scales."""
    observation = make(x.shape[1])
    core = linear_core(observation, x, observed)
    return trained(linear_autoencoder(observation, core, key=keys[0]), x, observed, keys[1])


def with_prior(make, x, observed, keys):
    """Another prior; floors of 0.1 under the scales."""
    observation = StudentT(x.shape[1])
    core = linear_core(observation, x, observed)
    autoencoder = linear_autoencoder(observation, core, key=keys[0])
    prior = make(autoencoder.generative.prior.n_latent, key=keys[0])
    autoencoder = eqx.tree_at(lambda a: a.generative.prior, autoencoder, prior)
    return trained(autoencoder, x, observed, keys[1])


def without_core(x, observed, keys, *, training=None, **changes):
    """Dense networks as in the paper, trained as ours."""
    autoencoder = dense_autoencoder(StudentT(x.shape[1]), **changes, key=keys[0])
    return trained(autoencoder, x, observed, keys[1], **(training or {}))


def with_learned_fill(x, observed, keys):
    """Learned constants in the place of zeros."""
    return without_core(x, observed, keys, fill=LearnedFill(jax.numpy.zeros(x.shape[1])))


VARIANTS = {
    "base": as_imputer,
    "without the linear core": without_core,
    "last weights, not their average": partial(as_imputer, averaging=0.0),
    "cosine schedule, last weights": partial(
        as_imputer, averaging=0.0, schedule="cosine", finish=0.0
    ),
    "held-out cells not learned from": partial(as_imputer, finish=0.0),
    "floor 0.1 under all scales": partial(with_observation, StudentT),
    "normal, floor 0.1": partial(with_observation, Normal),
    "K = 1": partial(as_imputer, n_samples=1),
    "K = 20": partial(as_imputer, n_samples=20),
    "K = 50": partial(as_imputer, n_samples=50),
    "standard gradient": partial(as_imputer, estimator="standard"),
    "path derivative": partial(as_imputer, estimator="path"),
    "64 units": partial(as_imputer, sizes={"n_hidden": 64}),
    "256 units": partial(as_imputer, sizes={"n_hidden": 256}),
    "1 layer": partial(as_imputer, sizes={"n_layers": 1}),
    "d = 5": partial(as_imputer, sizes={"n_latent": 5}),
    "d = 20": partial(as_imputer, sizes={"n_latent": 20}),
    "weight decay 0.01": partial(as_imputer, optimizer="adamw", weight_decay=0.01),
    "learning rate 0.001": partial(as_imputer, learning_rate=1e-3),
    "learning rate 0.004": partial(as_imputer, learning_rate=4e-3),
    "stop by squared error": partial(as_imputer, monitor="error"),
    "no early stopping": partial(as_imputer, patience=None, held_out=0.0, finish=0.0),
    "a fifth of the inputs hidden": partial(as_imputer, input_dropout=0.2),
    "mixture prior, floor 0.1": partial(with_prior, partial(MixturePrior, n_components=10)),
    "of dense networks: indicators": partial(without_core, indicator=True),
    "of dense networks: learned fill": with_learned_fill,
    "of dense networks: full covariance": partial(without_core, posterior=FullNormalPosterior(10)),
    "of dense networks: two-part mixture": partial(
        without_core,
        posterior=MixturePosterior(StudentTPosterior(10), 2),  # pyright: ignore
        training={"estimator": "path", "n_samples": 6},  # as many of each part
    ),
}
ENSEMBLE = "two models averaged"


def attempt(one):
    """Train, impute, and judge; of the base also with other numbers of latent samples."""
    x, observed, held = judged(one["data"], one["mask"])
    rows = observed.any(axis=1)
    x = np.where(observed | held, x, 0.0).astype(np.float32)
    method = one["method"]
    members = 2 if method == ENSEMBLE else 1
    variant = as_imputer if method == ENSEMBLE else VARIANTS[method]
    models = []
    for member in range(members):
        keys = jax.random.split(jax.random.key(one["mask"] + 1_000 * member), 2)
        models.append(variant(x[rows], observed[rows], keys))

    def error(n_samples):
        limits = SamplingSettings(n_samples=n_samples, tolerance=None)
        impute = partial(impute_single, key=jax.random.key(0), settings=limits)
        rows = [padded_to(model.generative.observation, x, observed) for model in models]
        each = [impute(model, *own).x for model, own in zip(models, rows, strict=True)]
        filled = np.mean([values[:, : x.shape[1]] for values in each], axis=0)
        return float(np.mean((filled - x)[held] ** 2))

    result = {"mse": error(N_IMPUTATION_SAMPLES), "held_out": int(held.sum())}
    if method == "base":
        result |= {f"mse, {n} latent samples": error(n) for n in NUMBERS_OF_SAMPLES}
    return result


def ratios(records):
    """For each variant, the log-ratios of its error to the base's on the same cells."""
    errors = {(r["method"], r["data"], r["mask"]): r["mse"] for r in records}
    found = {}
    for variant in (*VARIANTS, ENSEMBLE):
        logs = [
            (name, np.log(error / errors["base", name, mask]))
            for (method, name, mask), error in errors.items()
            if method == variant and ("base", name, mask) in errors
        ]
        if logs:
            found[variant] = logs
    return found


def show(records):
    """The ratio of each variant's error to the base's, with its standard error, and a plot."""
    found = ratios(records)
    view = Table(title="error on held-out cells, relative to the base")
    for column in ("variant", "ratio", *TABLES, "seconds"):
        view.add_column(column, justify="left" if column == "variant" else "right")
    centres, errors = [], []
    for variant, logs in found.items():
        values = np.array([value for _, value in logs])
        centres.append(np.exp(values.mean()))
        errors.append(values.std(ddof=1) / np.sqrt(len(values)) if len(values) > 1 else 0.0)
        by_table = [
            np.mean([v for name, v in logs if name == table] or np.nan) for table in TABLES
        ]
        seconds = np.mean([r["seconds"] for r in records if r["method"] == variant])
        shown = ["" if np.isnan(value) else f"{np.exp(value):.3f}" for value in by_table]
        view.add_row(variant, f"{centres[-1]:.3f} ± {errors[-1]:.3f}", *shown, f"{seconds:.0f}")
    Console(width=130).print(view)
    show_numbers_of_samples([r for r in records if r["method"] == "base"])
    if found:
        plot(list(found), centres, errors)


def show_numbers_of_samples(records):
    """The error of the base by the number of latent samples: the paper's Figure 2, for tables."""
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(6.5, 4), layout="constrained")
    for name in TABLES:
        own = [r for r in records if r["data"] == name]
        if own:
            means = [
                np.mean([r[f"mse, {n} latent samples"] for r in own]) for n in NUMBERS_OF_SAMPLES
            ]
            pairs = zip(NUMBERS_OF_SAMPLES, means, strict=True)
            print(f"{name:10}", *(f"L = {n}: {mean:.4f}" for n, mean in pairs), sep="  ")
            panel.plot(NUMBERS_OF_SAMPLES, means, "o-", label=name)
    panel.set(
        xscale="log",
        xlabel="L, latent samples for each row",
        ylabel="squared error on held-out cells",
        ylim=(0, None),
    )
    panel.legend()
    save(figure, "study-samples")


def plot(variants, centres, errors):
    """One bar for each variant."""
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(8, 0.3 * len(variants) + 1), layout="constrained")
    places = -np.arange(len(variants))
    panel.errorbar(centres, places, xerr=2 * np.array(errors), fmt="o", color="C0", capsize=3)
    panel.axvline(1.0, color="0.6", lw=0.8)
    panel.set_yticks(places, variants)
    panel.set_xlabel("squared error on held-out cells, relative to the base (two standard errors)")
    save(figure, "study")


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=3).parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    cells = [
        cell("held-out", name, variant, mask, rate=0.5, standardise="observed")
        for mask in range(0 if arguments.show else arguments.masks)
        for variant in (*VARIANTS, ENSEMBLE)
        for name in TABLES
    ]
    run_missing(store, cells, attempt)
    show(finished(store))


if __name__ == "__main__":
    main()
