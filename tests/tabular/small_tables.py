"""Small tables, and models of them that are trained for a few steps."""

import jax
import numpy as np
import pandas as pd

from miwae.columns import ColumnSchema, Scale, Schema
from miwae.columns.kinds import Number
from miwae.tabular import TableSettings
from miwae.tabular._fitting import fit_model
from miwae.tabular._observation import TableModel
from miwae.tabular._settings import training_settings

NUMBER = Number(label="continuous", scale=Scale())
NUMBERS = Schema((ColumnSchema(name="a", kind=NUMBER, reason="", storage="number"),) * 3)

RNG = np.random.default_rng(0)
X = (RNG.normal(size=(300, 1)) + 0.5 * RNG.normal(size=(300, 3))).astype(np.float32)
OBSERVED = RNG.random(X.shape) < 0.8
OBSERVED[:, 0] = True

SMALL = TableSettings(
    n_latent=2,
    n_hidden=8,
    n_layers=1,
    n_samples=5,
    batch_size=64,
    max_steps=4,
    early_stopping=False,
    n_imputation_samples=240,
)
TRAINING = training_settings(SMALL, OBSERVED)


MODEL = TableModel.of(NUMBERS)


def fitted(x, observed, seed=0, settings=TRAINING):
    return fit_model(
        MODEL.observation,
        *MODEL.padded(x, observed),
        table_settings=SMALL,
        settings=settings,
        key=jax.random.key(seed),
    )


def mixed_frame(n_rows=60):
    """Numbers, whole numbers, counts, text and dates that follow one factor, with holes."""
    rng = np.random.default_rng(1)
    factor = rng.normal(size=n_rows)
    frame = pd.DataFrame(
        {
            "size": 3 + factor + 0.1 * rng.normal(size=n_rows),
            "visits": rng.poisson(np.exp(factor)),
            "colour": np.where(factor > 0.5, "red", np.where(factor > -0.5, "blue", "green")),
            "day": (86_400 * np.rint(18_000 + 100 * factor)).astype("datetime64[s]"),
            "same": 7.0,
            "name": [f"row {i}" for i in range(n_rows)],
        }
    ).astype({"visits": "Int64"})
    return frame.mask(rng.random(frame.shape) < 0.2)
