"""Hostile numbers through real fits: scales, outliers, collinearity, p >> n, 99.9 % missing."""

import numpy as np

from fuzz.campaign import Failure, run
from miwae import MIWAEImputer
from miwae.errors import MiwaeError

Rng = np.random.Generator

SMALL = {"n_hidden": 8, "n_layers": 1, "n_models": 1, "n_latent": 2, "n_imputation_samples": 64}

# Rows and columns: few shapes, so that little is compiled.
SHAPES = [(60, 4), (30, 8), (12, 30), (200, 4)]


def table(rng: Rng) -> tuple[str, np.ndarray]:
    """What is hostile about a table, and the table."""
    n, p = SHAPES[int(rng.integers(len(SHAPES)))]
    x = rng.normal(size=(n, 2)) @ rng.normal(size=(2, p)) + 0.3 * rng.normal(size=(n, p))
    share = float(rng.choice([0.1, 0.5, 0.9]))
    names = ["scales", "outliers", "collinear", "constant", "heavy", "missing", "offset", "tiny"]
    what = str(rng.choice(names))
    if what == "scales":
        x *= 10.0 ** rng.uniform(-300, 300, p)
    elif what == "outliers":
        places = rng.integers(n, size=p)
        x[places, np.arange(p)] = 10.0 ** rng.uniform(2, 300, p) * rng.choice([-1, 1], p)
    elif what == "collinear":
        x[:] = x[:, :1] * rng.normal(size=p)
    elif what == "constant":
        x[:, 0] = 3.0
        x[1:, 1] = 0.0
    elif what == "heavy":
        x = np.exp(np.clip(x * rng.uniform(1, 50), -700, 700))
    elif what == "missing":
        share = 0.999
    elif what == "offset":
        x = x * 1e-6 + 1e9
    else:
        x = x * 5e-324
    x[rng.random(x.shape) < share] = np.nan
    return what, x


def case(seed: int) -> str:
    """Complete a table; imputed numbers are finite and near the observed ones."""
    rng = np.random.default_rng(seed)
    what, x = table(rng)
    imputer = MIWAEImputer(**SMALL, max_steps=20, random_state=0, keep_empty_features=True)
    try:
        completed = imputer.fit(x).transform(x)
    except MiwaeError as error:
        return f"{what}: {type(error).__name__}"
    seen = ~np.isnan(x)
    if completed[seen].tobytes() != x[seen].tobytes():
        raise Failure(f"{what}: observed cells have changed")
    if not np.isfinite(completed).all():
        raise Failure(f"{what}: imputed cells are not finite")
    for j in np.flatnonzero(seen.any(axis=0)):
        own, filled = x[seen[:, j], j], completed[~seen[:, j], j]
        low, high = own.min(), own.max()
        # Twice the width of the observed range on each side, in halves: it may be no number.
        reach = 4 * (high / 2 - low / 2)
        with np.errstate(over="ignore"):
            if np.any(filled < low - reach) or np.any(filled > high + reach):
                raise Failure(f"{what}: column {j} is imputed far outside of what was observed")
    return what


if __name__ == "__main__":
    run("numbers", case, 1_000, __doc__ or "")
