"""The pictures of docs/gallery.md, from the penguins with more of their cells removed.

With a Chromium on the path, the picture of the report as well.
"""

import shutil
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from miwae import (
    MIWAEImputer,
    StudentT,
    TrainingSettings,
    fit,
    linear_autoencoder,
    linear_core,
    plots,
)
from miwae.report import Report

HERE = Path(__file__).parent
PENGUINS = HERE.parent / "src/miwae/data/penguins.csv"
NUMBERS = ["bill_length_mm", "bill_depth_mm", "flipper_length_mm", "body_mass_g"]


def with_more_holes(table: pd.DataFrame) -> pd.DataFrame:
    """Bills are measured together or not at all, and heavy penguins are seldom weighed."""
    rng = np.random.default_rng(0)
    holes, n = table.copy(), len(table)
    holes.loc[rng.random(n) < 0.15, NUMBERS[:2]] = np.nan
    long = table["flipper_length_mm"].fillna(200) > 205
    holes.loc[rng.random(n) < np.where(long, 0.45, 0.1), "body_mass_g"] = np.nan
    holes.loc[rng.random(n) < 0.1, "sex"] = None
    return holes


def latent_points(table: pd.DataFrame) -> np.ndarray:
    """Where a model of the four numbers puts each row."""
    x = table[NUMBERS].to_numpy()
    x = (x - np.nanmean(x, 0)) / np.nanstd(x, 0)
    observation = StudentT(len(NUMBERS))
    core = linear_core(observation, x, n_latent=2)
    model = linear_autoencoder(observation, core, n_hidden=32, key=jax.random.key(0))
    settings = TrainingSettings(max_steps=300)
    fitted = fit(model, x, settings=settings, key=jax.random.key(1)).autoencoder
    observed = jnp.asarray(~np.isnan(x))
    return np.asarray(fitted.propose(jnp.nan_to_num(jnp.asarray(x, jnp.float32)), observed).centre)


# No bar over the page.
STILL = "nav { display: none }"


def photograph(report: Report, browser: str) -> None:
    """The overview of the columns and the first line of cards, as docs/images/report.png."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver, tempfile.TemporaryDirectory() as directory:
        report.save(f"{directory}/report.html")
        own = driver.chromium.launch(executable_path=browser, args=["--headless", "--no-sandbox"])
        page = own.new_page(viewport={"width": 1120, "height": 900})
        page.goto(f"file://{directory}/report.html")
        page.add_style_tag(content=STILL)
        page.locator("button[data-sort=missing]").click()
        page.evaluate(
            "scrollTo({top: 0, behavior: 'instant'})"
        )  # boxes are relative to the window
        top, bottom = (page.locator(s).first.bounding_box() for s in ("#columns h2", "article"))
        assert top is not None
        assert bottom is not None
        height = bottom["y"] + bottom["height"] + 10 - top["y"]
        part: Any = {"x": 0, "y": top["y"] + 4, "width": 1120, "height": height}
        page.screenshot(path=HERE / "images" / "report.png", full_page=True, clip=part)
        own.close()


def figures() -> Iterator[tuple[str, Figure]]:
    """Names and figures."""
    truth = pd.read_csv(PENGUINS)
    frame = with_more_holes(truth)
    yield "missing_matrix", plots.missing_matrix(frame)
    yield "missing_bars", plots.missing_bars(frame)
    yield "missing_patterns", plots.missing_patterns(frame)
    yield "missing_together", plots.missing_together(frame)
    yield "missing_predictors", plots.missing_predictors(frame)
    imputer = MIWAEImputer(random_state=0).fit(frame)
    completed, draws = imputer.transform(frame), imputer.sample(frame, 100)
    yield "density", plots.density(frame, completed, "body_mass_g")
    yield "density_by_group", plots.density(frame, completed, "body_mass_g", by="species")
    yield "density_of_copies", plots.density(frame, draws, "bill_length_mm")
    yield "strip", plots.strip(frame, draws[:5], "body_mass_g")
    yield "strip_by_group", plots.strip(frame, completed, "bill_depth_mm", by="species")
    yield "bars", plots.bars(frame, draws[:10], "sex")
    yield "bars_by_group", plots.bars(frame, completed, "sex", by="species")
    hidden = (frame["body_mass_g"].isna() & truth["body_mass_g"].notna()).to_numpy()
    of = lambda table: table["body_mass_g"].to_numpy()[hidden]  # noqa: E731
    lower, upper = imputer.interval(frame)
    yield "overimputation", plots.overimputation(*map(of, (truth, completed, lower, upper)))
    yield "calibration", plots.calibration(of(truth), np.stack([of(draw) for draw in draws]))
    yield "training", plots.training(imputer.history_)
    if browser := shutil.which("chromium"):
        photograph(imputer.report(frame, title="penguins.csv"), browser)
    report = imputer.diagnostics(frame)
    yield "weights", plots.weights(report.effective_sample_size, report.pareto_k)
    known = frame.loc[frame[NUMBERS].notna().any(axis=1)]
    yield "latent", plots.latent(latent_points(known), known["species"])


if __name__ == "__main__":
    directory = HERE / "images" / "gallery"
    directory.mkdir(exist_ok=True)
    for name, figure in figures():
        figure.savefig(directory / f"{name}.png", dpi=110)
        sys.stdout.write(f"{name}\n")
