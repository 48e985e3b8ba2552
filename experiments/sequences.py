"""Sequences whose truth is known: a linear-Gaussian state-space model and its exact smoother.

    python experiments/sequences.py            everything that is not in the results yet
    python experiments/sequences.py --show     the table and the plot of what there is

A damped rotation in two dimensions, disturbed at each step and seen with noise: 20 steps of 2
features, sequences of 10 to 20 steps, each feature missing with probability 0.4 and each step as a
whole with probability 0.1. Models are trained on 1,000 such sequences and judged on 500 others by
the squared error on missing cells before the end of a sequence, and by the log-likelihood of what
was seen. The oracle knows the parameters: all cells are jointly normal, and conditioning on those
that were seen is what a Kalman smoother does.
"""

from functools import partial
from pathlib import Path

import jax
import numpy as np
from rich.console import Console
from rich.table import Table

from common import cell, finished, parser_of, run_missing, save
from miwae._compilation import enable_compilation_cache
from miwae.inference._imputation import impute_single
from miwae.inference._likelihood import log_likelihood
from miwae.inference._sampling import SamplingSettings
from miwae.model import Normal
from miwae.model._build import (
    dense_autoencoder,
    linear_autoencoder,
    linear_core,
    recurrent_autoencoder,
)
from miwae.training import TrainingSettings, fit
from store import Store

RESULTS = Path(__file__).parent / "results" / "sequences.jsonl"
N_STEPS, N_FEATURES = 20, 2
N_TRAIN, N_TEST = 1_000, 500
ANGLE, DAMPING, DISTURBANCE, NOISE = 0.5, 0.97, 0.2, 0.3
N_IMPUTATION_SAMPLES = 1_200


def covariance():
    """Of all cells of a sequence, step after step, started from its stationary distribution."""
    turn = DAMPING * np.array([[np.cos(ANGLE), -np.sin(ANGLE)], [np.sin(ANGLE), np.cos(ANGLE)]])
    variance = DISTURBANCE**2 / (1 - DAMPING**2)  # rotations leave a sphere as it is
    powers = [np.linalg.matrix_power(turn, k) for k in range(N_STEPS)]
    blocks = [
        [variance * (powers[i - j] if i >= j else powers[j - i].T) for j in range(N_STEPS)]
        for i in range(N_STEPS)
    ]
    return np.block(blocks) + NOISE**2 * np.eye(N_STEPS * N_FEATURES)


def simulate(n, rng):
    """Rows, which of their cells were seen, and which lie within the length of the sequence."""
    factor = np.linalg.cholesky(covariance())
    x = rng.normal(size=(n, N_STEPS * N_FEATURES)) @ factor.T
    lengths = rng.integers(10, N_STEPS + 1, size=n)
    steps = np.arange(N_STEPS)[None] < lengths[:, None]
    within = np.repeat(steps, N_FEATURES, axis=1)
    stepwise = np.repeat(rng.random((n, N_STEPS)) >= 0.1, N_FEATURES, axis=1)
    seen = within & stepwise & (rng.random(x.shape) >= 0.4)
    seen[~seen.any(axis=1), 0] = True
    scale = np.sqrt(covariance()[0, 0])
    return (x / scale).astype(np.float32), seen, within


def oracle(x, seen):
    """Conditional means and log-densities under the true parameters."""
    sigma = covariance() / covariance()[0, 0]
    filled, log_prob = x.copy(), np.empty(len(x))
    for i, own in enumerate(seen):
        known = sigma[np.ix_(own, own)]
        weights = np.linalg.solve(known, x[i, own])
        filled[i, ~own] = sigma[np.ix_(~own, own)] @ weights
        log_det = np.linalg.slogdet(2 * np.pi * known)[1]
        log_prob[i] = -0.5 * (x[i, own] @ weights + log_det)
    return filled, log_prob


def interpolated(x, seen):
    """Straight lines between what was seen of a feature; the nearest value beyond."""
    filled = x.copy()
    for row, own in zip(filled, seen, strict=True):
        for j in range(N_FEATURES):
            known = np.flatnonzero(own[j::N_FEATURES])
            values = row[j::N_FEATURES]
            row[j::N_FEATURES] = (
                np.interp(np.arange(N_STEPS), known, values[known]) if len(known) else 0.0
            )
    return filled, None


def recurrent(x, seen, key):
    """GRUs on both sides of a latent vector for the whole sequence."""
    return recurrent_autoencoder(Normal(x.shape[1]), N_STEPS, n_latent=20, n_hidden=32, key=key)


def dense(x, seen, key):
    """Dense networks, which know nothing of time."""
    return dense_autoencoder(Normal(x.shape[1]), n_latent=20, indicator=True, key=key)


def linear(x, seen, key):
    """Dense networks that start from factor analysis."""
    core = linear_core(Normal(x.shape[1]), x, seen, n_latent=20)
    return linear_autoencoder(Normal(x.shape[1]), core, key=key)


MODELS = {"recurrent": recurrent, "dense": dense, "linear core": linear}
METHODS = ("oracle", *MODELS, "interpolation", "mean")
# How the figure calls them.
SHOWN = {
    "oracle": "exact smoother",
    "recurrent": "recurrent networks",
    "dense": "dense networks",
    "linear core": "starting from factor analysis",
    "interpolation": "linear interpolation",
    "mean": "mean",
}


def completed(method, seed, train, test):
    """The test sequences completed, and their log-likelihoods where there are some."""
    x, seen = test
    if method == "oracle":
        return oracle(x, seen)
    if method == "interpolation":
        return interpolated(x, seen)
    if method == "mean":
        return np.where(seen, x, 0.0), None
    key_model, key_fit, key_impute = jax.random.split(jax.random.key(seed), 3)
    autoencoder = MODELS[method](train[0], train[1], key_model)
    settings = TrainingSettings(
        n_samples=20,
        learning_rate=2e-3,
        max_steps=2_000,
        averaging=0.995,
        held_out=0.05,
        evaluate_every=100,
        evaluation_rows=512,
        evaluation_samples=60,
    )
    fitted = fit(autoencoder, *train, settings=settings, key=key_fit).autoencoder
    limits = SamplingSettings(n_samples=N_IMPUTATION_SAMPLES, tolerance=None)
    filled = impute_single(fitted, x, seen, key=key_impute, settings=limits).x
    return filled, log_likelihood(
        fitted, x, seen, key=key_impute, n_samples=N_IMPUTATION_SAMPLES
    ).log_prob


def attempt(one):
    """Train, complete, and judge."""
    rng = np.random.default_rng(one["mask"])
    x, seen, _ = simulate(N_TRAIN, rng)
    x_test, seen_test, within = simulate(N_TEST, rng)
    hidden = within & ~seen_test
    given = np.where(seen_test, x_test, 0.0)
    train = (np.where(seen, x, 0.0), seen)
    filled, log_prob = completed(one["method"], one["mask"], train, (given, seen_test))
    result = {"mse": float(np.mean((filled - x_test)[hidden] ** 2))}
    if log_prob is not None:
        result["log_likelihood"] = float(np.mean(log_prob))
    return result


def show(records):
    """Means over repetitions, the ratio to the oracle, and a plot."""
    view = Table(title="new sequences: squared error on missing cells, log-likelihood of the seen")
    for column in ("method", "mse", "to the oracle", "log-likelihood", "below the oracle", "s"):
        view.add_column(column, justify="left" if column == "method" else "right")
    errors = {(r["method"], r["mask"]): r for r in records}
    bars = {}
    for method in METHODS:
        own = [r for r in records if r["method"] == method and ("oracle", r["mask"]) in errors]
        if not own:
            continue
        best = [errors["oracle", r["mask"]] for r in own]
        ratios = np.array([r["mse"] / b["mse"] for r, b in zip(own, best, strict=True)])
        gaps = [
            b["log_likelihood"] - r["log_likelihood"]
            for r, b in zip(own, best, strict=True)
            if "log_likelihood" in r
        ]
        bars[method] = ratios
        spread = f" ± {ratios.std(ddof=1):.3f}" if len(ratios) > 1 else ""
        likelihoods = [r["log_likelihood"] for r in own if "log_likelihood" in r]
        view.add_row(
            method,
            f"{np.mean([r['mse'] for r in own]):.4f}",
            f"{ratios.mean():.3f}{spread}",
            f"{np.mean(likelihoods):.2f}" if likelihoods else "",
            f"{np.mean(gaps):.2f}" if gaps else "",
            f"{np.mean([r['seconds'] for r in own]):.0f}",
        )
    Console(width=110).print(view)
    if bars:
        plot(bars)


def plot(bars):
    """How far each method is from the oracle."""
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(7, 3), layout="constrained")
    places = -np.arange(len(bars))
    for place, ratios in zip(places, bars.values(), strict=True):
        panel.plot(ratios, np.full(len(ratios), place), "o", color="C0")
    panel.axvline(1.0, color="0.6", lw=0.8)
    panel.set_yticks(places, [SHOWN[name] for name in bars])
    panel.set_xlabel("squared error on missing cells, relative to the exact smoother")
    save(figure, "sequences")


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=3).parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    make = partial(cell, "new rows", "state-space model", rate=0.46, standardise="none")
    cells = [
        make(method, mask)
        for mask in range(0 if arguments.show else arguments.masks)
        for method in METHODS
    ]
    run_missing(store, cells, attempt)
    show(finished(store))


if __name__ == "__main__":
    main()
