"""Complete a table with half of its cells removed, and compare with the removed truth.

scikit-learn's breast-cancer table (569 rows, 30 columns), standardised; half of the cells are
removed at random. Training and imputation see the remaining half only.
"""

import time

import jax
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table
from sklearn.datasets import load_breast_cancer

from miwae._compilation import enable_compilation_cache
from miwae.inference._imputation import impute_single, quantiles
from miwae.inference._sampling import SamplingSettings
from miwae.model import StudentT
from miwae.model._build import linear_autoencoder, linear_core
from miwae.training import TrainingProgress, TrainingSettings, fit

console = Console()


def train(x, observed, seed):
    """Factor analysis, then training, with a progress bar."""
    key_model, key_fit = jax.random.split(jax.random.key(seed))
    observation = StudentT(x.shape[1])
    core = linear_core(observation, x, observed, n_latent=10)
    autoencoder = linear_autoencoder(observation, core, key=key_model)
    settings = TrainingSettings(
        max_steps=1_500, evaluate_every=50, held_out=0.03, schedule="cosine", patience=12
    )
    bar = Progress(
        SpinnerColumn(),
        TextColumn("{task.description:30}"),
        BarColumn(),
        TextColumn("{task.completed:.0f}/{task.total:.0f} steps at most"),
        TimeElapsedColumn(),
        console=console,
    )
    with bar:
        task = bar.add_task("compiling", total=settings.max_steps)

        def tell(progress: TrainingProgress) -> None:
            if progress.record is not None:
                text = f"held-out error {progress.record.error:.3f}"
                bar.update(task, completed=progress.step, description=text)

        return fit(autoencoder, x, observed, settings=settings, key=key_fit, callback=tell)


def impute(autoencoder, x, observed, seed):
    """Conditional means and 90 % intervals, with a progress bar."""
    with Progress(TextColumn("imputing"), BarColumn(), console=console) as bar:
        task = bar.add_task("", total=len(x))
        settings = SamplingSettings(n_samples=2_000, tolerance=0.03)
        single = impute_single(
            autoencoder,
            x,
            observed,
            key=jax.random.key(seed),
            settings=settings,
            callback=lambda done, n: bar.update(task, completed=done, total=n),
        )
    interval = quantiles(autoencoder, x, observed, levels=(0.05, 0.95), key=jax.random.key(seed))
    return single, interval


def main():
    start = time.monotonic()
    enable_compilation_cache()
    table = np.asarray(load_breast_cancer(return_X_y=True)[0])
    truth = (table - table.mean(0)) / table.std(0)
    rng = np.random.default_rng(0)
    observed = rng.random(truth.shape) < 0.5
    x = np.where(observed, truth, np.nan)
    missing = f"{np.mean(~observed):.0%} of the cells missing"
    console.print(f"{len(x)} rows, {x.shape[1]} columns, {missing}")
    fitted = train(x, observed, seed=0)
    console.print(*fitted.events, sep="\n")
    single, interval = impute(fitted.autoencoder, x, observed, seed=1)

    means = np.where(observed, truth, 0).sum(0) / observed.sum(0)
    squares = {
        "mean of the column": np.broadcast_to(means, truth.shape) - truth,
        "miwae": single.x - truth,
    }
    table = Table("imputation", "mean squared error", title="on the removed cells")
    for name, difference in squares.items():
        table.add_row(name, f"{np.mean(difference[~observed] ** 2):.3f}")
    console.print(table)
    lower, upper = interval.x
    covered = np.mean(((lower <= truth) & (truth <= upper))[~observed])
    console.print(f"90 % intervals cover {covered:.1%} of the removed cells")
    used = single.report.n_samples
    doubtful = int(np.sum(single.report.pareto_k > 0.7))
    console.print(
        f"samples per row: {np.median(used):.0f} (median), {used.max()} (most); "
        f"{doubtful} of {len(x)} rows have unreliable weights (Pareto k above 0.7)"
    )
    console.print(f"{time.monotonic() - start:.0f} s in all")


if __name__ == "__main__":
    main()
