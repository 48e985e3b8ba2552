"""The paper's section 4.1: convolutional models of binarised digits, half of the pixels missing.

    python experiments/mnist.py                     all that is not in the results yet, small
    python experiments/mnist.py --size full         the paper's sizes: for a GPU
    python experiments/mnist.py --parts likelihood  one part; see PARTS
    python experiments/mnist.py --size full1 --parts likelihood --models ...
                                                    all images, the paper's networks, K = 1
    python experiments/mnist.py --show              tables and figures of what there is

Models are trained epoch by epoch into checkpoints and judged at milestones; an interrupted run
goes on where it stopped. Each part may be run for several seeds, which change the initial weights,
the order of images and the latent samples; the images and their missing pixels stay the same.
"""

import dataclasses
import shutil
import time
from collections import defaultdict
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import optax
from rich.console import Console
from rich.table import Table

from common import cell, finished, parser_of, run_missing, save
from miwae import enable_compilation_cache
from miwae.evaluation.peers import MissForest
from miwae.inference._imputation import impute_multiple, impute_single
from miwae.inference._likelihood import log_likelihood
from miwae.inference._sampling import SamplingSettings
from miwae.model import Bernoulli, ConvolutionalEncoder, ImageShape
from miwae.model._build import convolutional_autoencoder
from miwae.model._fill import OracleFill, ZeroFill
from miwae.training import TrainingSettings, fit, refit_amortizer
from paper_data import load_digits
from store import Store

HERE = Path(__file__).parent
RESULTS = HERE / "results" / "mnist.jsonl"
CHECKPOINTS = HERE / "checkpoints"
SHAPE = ImageShape(28, 28)
RATE = 0.5


@dataclass(frozen=True)
class Size:
    """How much of everything."""

    n_train: int
    batch_size: int
    milestones: tuple[int, ...]  # epochs
    n_samples: int  # K
    maps: tuple[int, ...]
    n_hidden: int
    n_latent: int
    n_scored: int  # test images whose likelihood is estimated
    n_scores: int  # S, latent samples for that
    refit_epochs: int
    n_imputed: int  # test images whose imputations are judged
    numbers_of_samples: tuple[int, ...]  # L
    n_imputation_samples: int  # L, where classifiers are trained on imputations
    n_forest: int  # images that missForest can handle
    n_trees: int
    n_copies: int
    classifier_epochs: int


SIZES = {
    "small": Size(
        n_train=5_000,
        batch_size=32,
        milestones=(5, 10, 20),
        n_samples=20,
        maps=(8, 16),
        n_hidden=200,
        n_latent=20,
        n_scored=300,
        n_scores=600,
        refit_epochs=15,
        n_imputed=300,
        numbers_of_samples=(1, 10, 100, 1_000),
        n_imputation_samples=480,
        n_forest=500,
        n_trees=20,
        n_copies=20,
        classifier_epochs=12,
    ),
    "full": Size(
        n_train=50_000,
        batch_size=64,
        milestones=(1, 5, 20, 50, 100, 200, 400),
        n_samples=50,
        maps=(16, 32, 32),
        n_hidden=450,
        n_latent=50,
        n_scored=10_000,
        n_scores=5_000,
        refit_epochs=50,
        n_imputed=10_000,
        numbers_of_samples=(1, 10, 100, 1_000, 10_000),
        n_imputation_samples=10_000,
        n_forest=5_000,
        n_trees=100,
        n_copies=20,
        classifier_epochs=60,
    ),
}

# All images and the paper's networks, with likelihoods that two cores can estimate.
SIZES["full1"] = dataclasses.replace(
    SIZES["full"],
    milestones=(1, 3, 8, 20, 60),
    n_samples=20,
    n_scored=300,
    n_scores=600,
    refit_epochs=15,
)

# Name: (objective, fill, are pixels missing?). K = 1 makes of the first the second, and complete
# images make of both the classical ones.
MODELS = {
    "MIWAE, zeros": ("miwae", ZeroFill, True),
    "MVAE, zeros": ("mvae", ZeroFill, True),
    "MIWAE, oracle": ("miwae", OracleFill, True),
    "MVAE, oracle": ("mvae", OracleFill, True),
    "IWAE, complete": ("miwae", ZeroFill, False),
    "VAE, complete": ("mvae", ZeroFill, False),
    "MIWAE, zeros, DReG": ("miwae", ZeroFill, True),
}


def seen_pixels(split, n_images):
    """Which pixels are not missing: each with probability one half, once and for all."""
    rng = np.random.default_rng([28, ("train", "valid", "test").index(split)])
    return rng.random((n_images, SHAPE.n_features)) >= RATE


def model(name, size, seed):
    """With its initial weights, and how it is trained."""
    objective, fill, _ = MODELS[name]
    autoencoder = convolutional_autoencoder(
        Bernoulli(SHAPE.n_features),
        SHAPE,
        n_latent=size.n_latent,
        maps=size.maps,
        n_hidden=size.n_hidden,
        activation="relu",
        fill=fill(),
        key=jax.random.key(seed),
    )
    return autoencoder, TrainingSettings(
        objective=objective,
        estimator="dreg" if "DReG" in name else "path",
        n_samples=size.n_samples if objective == "miwae" else 1,
        batch_size=size.batch_size,
        evaluate_every=size.n_train // size.batch_size,
        clip=1e9,
    )


def checkpoint(name, label, seed, epochs):
    """The file of a model on its way to so many epochs: each milestone has its own."""
    stem = "-".join([label, *name.replace(",", "").split(), str(seed), str(epochs)])
    return CHECKPOINTS / f"{stem.lower()}.safetensors"


def trained(name, label, size, seed, epochs):
    """A model after so many epochs, from a checkpoint where there is one."""
    x = load_digits("train", size.n_train).x
    observed = seen_pixels("train", size.n_train)
    if not MODELS[name][2]:
        observed = np.ones_like(observed)
    autoencoder, settings = model(name, size, seed)
    settings = dataclasses.replace(settings, max_steps=epochs * settings.evaluate_every)
    CHECKPOINTS.mkdir(exist_ok=True)
    file = checkpoint(name, label, seed, epochs)
    earlier = [e for e in size.milestones if e < epochs]
    if earlier and not file.exists():  # go on from the milestone before
        before = checkpoint(name, label, seed, earlier[-1])
        if before.exists():
            shutil.copy(before, file)
    return fit(
        autoencoder,
        x,
        observed,
        settings=settings,
        key=jax.random.key(seed + 100),
        checkpoint=file,
    ).autoencoder


def of_epoch(epochs):
    return f"{epochs} epochs"


# ------------------------------------------------------------------ Figure 1


def likelihood_cells(label, size, seed, models):
    """Each model at each milestone: all of them, before they are trained further."""
    return [
        digits_cell("likelihood", label, f"{name}, {of_epoch(epochs)}", seed)
        for epochs in size.milestones
        for name in models
    ]


def score(one, label, size):
    """The log-likelihood of complete test images, by a proposal refitted to them."""
    name, _, epochs = one["method"].rpartition(", ")
    autoencoder = trained(name, label, size, one["seed"], int(epochs.split()[0]))
    x = load_digits("test", size.n_scored).x
    steps = size.refit_epochs * -(-size.n_scored // 64)
    settings = TrainingSettings(
        estimator="dreg", n_samples=size.n_samples, max_steps=steps, evaluate_every=steps
    )
    key_refit, key_score = jax.random.split(jax.random.key(one["seed"]))
    refitted = refit_amortizer(autoencoder, x, settings=settings, key=key_refit).autoencoder
    found = log_likelihood(refitted, x, key=key_score, n_samples=size.n_scores)
    values = found.log_prob
    return {
        "log_likelihood": float(values.mean()),
        "standard_error": float(values.std(ddof=1) / np.sqrt(len(values))),
        "effective": float(found.report.effective_sample_size.mean()),
    }


# ------------------------------------------------------------------ Figure 2


def accuracy_cells(label, size, seed, _):
    """Two models and missForest."""
    models = ("MIWAE, zeros", "MVAE, zeros")
    cells = [
        digits_cell("accuracy", label, f"{name}, L = {n}", seed)
        for name in models
        for n in size.numbers_of_samples
    ]
    return [*cells, digits_cell("accuracy", label, "missForest", seed)]


def judge(one, label, size):
    """The share of missing pixels of test images that are imputed right."""
    name, _, samples = one["method"].rpartition(", ")
    n_images = size.n_imputed if name else size.n_forest
    x, seen = load_digits("test", n_images).x, seen_pixels("test", n_images)
    if name:
        autoencoder = trained(name, label, size, one["seed"], size.milestones[-1])
        filled = imputed(autoencoder, x, seen, int(samples.split()[-1]))
    else:
        filled = forest(x, seen, size, one["seed"])
    right = ((filled >= 0.5) == (x == 1)) & ~seen
    each = right.sum(axis=1) / (~seen).sum(axis=1)
    return {
        "accuracy": float(right.sum() / (~seen).sum()),
        "standard_error": float(each.std(ddof=1) / np.sqrt(len(each))),
    }


def imputed(autoencoder, x, seen, n_imputation_samples):
    """Conditional means."""
    limits = SamplingSettings(n_samples=n_imputation_samples, tolerance=None)
    given = np.where(seen, x, 0.0)
    return impute_single(autoencoder, given, seen, key=jax.random.key(1), settings=limits).x


def forest(x, seen, size, seed):
    """Of pixels as numbers; pixels that are always black in what is seen stay so."""
    peer = MissForest(n_trees=size.n_trees, max_iterations=3, seed=seed)
    given = np.where(seen, x, np.nan).astype(float)
    varying = np.nanmax(given, axis=0) > 0
    filled = np.where(seen, x, 0.0)
    categorical = np.zeros(int(varying.sum()), dtype=bool)
    filled[:, varying] = peer.fit_transform(given[:, varying], categorical)
    return filled


# ------------------------------------------------------------------ Table 1

CLASSIFIED = ("complete", "zeros", "MIWAE single", "MIWAE multiple")
CLASSIFIED_FEW = ("complete", "zeros", "MIWAE single", "missForest")


def classify_cells(label, size, seed, _):
    """Of all images, and of as many as missForest can handle."""
    few = [f"{name}, {size.n_forest} images" for name in CLASSIFIED_FEW]
    return [digits_cell("classify", label, name, seed) for name in (*CLASSIFIED, *few)]


def classify(one, label, size):
    """Train a classifier on imputed images and judge it on complete test images."""
    name, _, few = one["method"].partition(", ")
    digits = load_digits("train", size.n_forest if few else size.n_train)
    seen = seen_pixels("train", len(digits.x))
    copies = completed(name, label, size, digits.x, seen)
    valid, test = load_digits("valid", 2_000), load_digits("test")
    probabilities = classifier(
        copies, digits.labels, valid, test.x, size.classifier_epochs, one["seed"]
    )
    own = probabilities[np.arange(len(test.labels)), test.labels]
    return {
        "accuracy": float((probabilities.argmax(axis=1) == test.labels).mean()),
        "cross_entropy": float(-np.log(np.maximum(own, 1e-30)).mean()),
    }


def completed(name, label, size, x, seen):
    """One or several copies of the images, kept on disk: they do not depend on the seed."""
    if name == "complete":
        return x[None]
    if name == "zeros":
        return np.where(seen, x, 0.0)[None]
    file = CHECKPOINTS / f"{label}-{name.replace(' ', '-').lower()}-{len(x)}.npz"
    if not file.exists():
        if name == "missForest":
            copies = forest(x, seen, size, 0)[None]
        else:
            autoencoder = trained("MIWAE, zeros", label, size, 0, size.milestones[-1])
            if name == "MIWAE single":
                copies = imputed(autoencoder, x, seen, size.n_imputation_samples)[None]
            else:
                copies = impute_multiple(
                    autoencoder,
                    np.where(seen, x, 0.0),
                    seen,
                    n_imputations=size.n_copies,
                    key=jax.random.key(2),
                    settings=SamplingSettings(n_samples=size.n_imputation_samples, tolerance=None),
                ).x
        np.savez_compressed(file, copies=copies.astype(np.float16))
    with np.load(file) as arrays:
        return arrays["copies"].astype(np.float32)


def classifier(copies, labels, valid, x_test, epochs, seed):
    """Probabilities of the digits in test images; the epoch is chosen on validation images.

    Two convolutional layers and a dense one. In each epoch an image is taken from one of the
    copies at random.
    """
    network = ConvolutionalEncoder(
        SHAPE, 10, maps=(32, 64), n_hidden=128, activation="relu", key=jax.random.key(seed)
    )
    optimizer = optax.adam(1e-3)
    parameters, static = eqx.partition(network, eqx.is_inexact_array)
    state = optimizer.init(parameters)

    def loss(parameters, x, labels):
        logits = eqx.combine(parameters, static)(x)
        return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

    @jax.jit
    def step(parameters, state, x, labels):
        gradient = jax.grad(loss)(parameters, x, labels)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(parameters, updates), state

    @jax.jit
    def predict(parameters, x):
        return jax.nn.softmax(eqx.combine(parameters, static)(x), axis=-1)

    rng = np.random.default_rng(seed)
    best, best_loss = parameters, np.inf
    for _ in range(epochs):
        order = rng.permutation(len(labels))
        for first in range(0, len(order) - 63, 64):
            rows = order[first : first + 64]
            x = copies[rng.integers(len(copies), size=64), rows]
            parameters, state = step(parameters, state, x, labels[rows])
        now = float(loss(parameters, valid.x, valid.labels))
        if now < best_loss:
            best, best_loss = parameters, now
    return np.concatenate([predict(best, x) for x in np.split(x_test, 10)])


# ------------------------------------------------------------------ what is shown


def digits_cell(protocol, label, method, seed):
    """A cell of the results."""
    one = cell(protocol, f"digits, {label}", method, 0, rate=RATE, standardise="none")
    return one | {"mechanism": "mcar", "seed": seed}


PARTS = {
    "likelihood": (likelihood_cells, score),
    "accuracy": (accuracy_cells, judge),
    "classify": (classify_cells, classify),
}


def show(records, label):
    """All tables and figures of one size."""
    own = [r for r in records if r["data"] == f"digits, {label}"]
    for protocol, fields in (
        ("likelihood", ("log_likelihood",)),
        ("accuracy", ("accuracy",)),
        ("classify", ("accuracy", "cross_entropy")),
    ):
        found = by_method(own, protocol)
        if not found:
            continue
        view = Table(title=f"{protocol}, {label}")
        for column in ("method", *fields, "seeds"):
            view.add_column(column, justify="left" if column == "method" else "right")
        for method, several in found.items():
            view.add_row(method, *(_shown(several, field) for field in fields), str(len(several)))
        Console(width=110).print(view)
    plot_likelihood(by_method(own, "likelihood"), label)
    plot_accuracy(by_method(own, "accuracy"), label)


def by_method(records, protocol):
    """For each method its records, one for each seed."""
    found = defaultdict(list)
    for record in records:
        if record["protocol"] == protocol:
            found[record["method"]].append(record)
    return found


def _shown(several, field):
    values = np.array([r[field] for r in several])
    spread = values.std(ddof=1) if len(values) > 1 else several[0].get("standard_error")
    return f"{values.mean():.4g}" + ("" if spread is None else f" ± {spread:.2g}")


def caption(label):
    """What every figure says of its size."""
    size = SIZES[label]
    return (
        f"{label}: {size.n_train:,} images, K = {size.n_samples}, maps {size.maps}, "
        f"d = {size.n_latent}"
    )


def plot_likelihood(found, label):
    """Figure 1."""
    if not found:
        return
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(7.5, 5), layout="constrained")
    styles = {"MIWAE": "C3", "MVAE": "C0", "IWAE": "C1", "VAE": "C2"}
    for name in MODELS:
        points = []
        for epochs in SIZES[label].milestones:
            several = found.get(f"{name}, {of_epoch(epochs)}", [])
            if several:
                mean = np.mean([r["log_likelihood"] for r in several])
                points.append((epochs, mean, several[0]["standard_error"]))
        if points:
            line = {"zeros": "-", "oracle": "--", "complete": ":", "DReG": "-."}
            x, y, error = np.array(points).T
            panel.errorbar(
                x,
                y,
                yerr=error,
                label=name,
                color=styles[name.split(",")[0]],
                linestyle=line[name.split(", ")[-1]],
                marker="o",
                ms=3,
                capsize=2,
            )
    panel.set(
        xlabel="epochs",
        ylabel=f"log-likelihood of {SIZES[label].n_scored:,} test images",
        xscale="log",
        title=caption(label),
    )
    panel.set_xticks(SIZES[label].milestones, [str(n) for n in SIZES[label].milestones])
    panel.minorticks_off()
    panel.legend(fontsize=8, handlelength=4)  # dashes are seen
    save(figure, f"mnist-likelihood-{label}")


def plot_accuracy(found, label):
    """Figure 2."""
    if not found:
        return
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(7.5, 4.5), layout="constrained")
    for name, colour in (("MIWAE, zeros", "C3"), ("MVAE, zeros", "C0")):
        points = [
            (n, np.mean([r["accuracy"] for r in several]), several[0]["standard_error"])
            for n in SIZES[label].numbers_of_samples
            if (several := found.get(f"{name}, L = {n}"))
        ]
        if points:
            x, y, error = np.array(points).T
            panel.errorbar(x, y, yerr=error, label=name, color=colour, marker="o", capsize=3)
    if several := found.get("missForest"):
        mean = float(np.mean([r["accuracy"] for r in several]))
        text = f"missForest, {SIZES[label].n_forest} images, {SIZES[label].n_trees} trees"
        panel.axhline(mean, color="0.4", ls="--", label=text)
    panel.set(
        xscale="log",
        xlabel="L, latent samples for each image",
        ylabel="missing pixels imputed right",
        title=caption(label),
    )
    panel.legend(fontsize=8)
    save(figure, f"mnist-accuracy-{label}")


def picture(label, size):
    """Figure 3: incomplete digits, their single and some multiple imputations."""
    from matplotlib import pyplot as plt

    n_images, n_draws = 10, 5
    x, seen = load_digits("train", n_images).x, seen_pixels("train", size.n_train)[:n_images]
    autoencoder = trained("MIWAE, zeros", label, size, 0, size.milestones[-1])
    given = np.where(seen, x, 0.0)
    single = imputed(autoencoder, x, seen, size.numbers_of_samples[-1])
    limits = SamplingSettings(n_samples=size.numbers_of_samples[-1], tolerance=None)
    draws = impute_multiple(
        autoencoder, given, seen, n_imputations=n_draws, key=jax.random.key(3), settings=limits
    ).x
    rows = [np.where(seen, x, np.nan), single, *draws, x]
    names = ["incomplete", "single", *[f"draw {i + 1}" for i in range(n_draws)], "truth"]
    figure, panels = plt.subplots(
        len(rows), n_images, figsize=(n_images * 0.9, len(rows) * 0.93), layout="constrained"
    )
    shades = plt.get_cmap("gray_r").copy()
    shades.set_bad("#f4b6a6")
    for line, images, name in zip(panels, rows, names, strict=True):
        for panel, image in zip(line, images, strict=True):
            panel.imshow(image.reshape(28, 28), cmap=shades, vmin=0, vmax=1)
            panel.set(xticks=[], yticks=[])
        line[0].set_ylabel(name, fontsize=8, rotation=0, ha="right", va="center")
    figure.suptitle(f"MIWAE, {caption(label)}; L = {size.numbers_of_samples[-1]:,}", fontsize=9)
    save(figure, f"mnist-imputations-{label}")


def main():
    """Run, or show."""
    parser = parser_of(__doc__, masks=1)
    parser.add_argument("--size", choices=SIZES, default="small")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--seeds", type=int, default=1)
    arguments = parser.parse_args()
    enable_compilation_cache()
    store, label, size = Store(RESULTS), arguments.size, SIZES[arguments.size]
    if not arguments.show:
        for seed in range(arguments.seeds):
            for part in arguments.parts:
                cells, attempt = PARTS[part]
                found = cells(label, size, seed, arguments.models)
                run_missing(store, found, partial(attempt, label=label, size=size))
        if "accuracy" in arguments.parts:  # both need the last milestone
            picture(label, size)
    show(finished(store), label)


if __name__ == "__main__":
    start = time.perf_counter()
    main()
    print(f"{time.perf_counter() - start:.0f} s")
