"""Imputers that many tests ask and none changes, fitted once."""

import numpy as np
import pandas as pd
import pytest

from imputer.tables import factor_rows, make, numbers, with_holes


@pytest.fixture(scope="session")
def linear():
    frame = numbers()
    return frame, make().fit(frame)


@pytest.fixture(scope="session")
def trained():
    """A deep model, trained for a few steps."""
    frame = pd.DataFrame(with_holes(factor_rows(600, 2), 0.15, 2), columns=list("abc"))
    return frame, make(max_steps=60, n_imputation_samples=500).fit(frame)


@pytest.fixture(scope="session")
def words():
    """Text of three levels, and a number that depends on it; of 40 rows, it is shrunk too much."""
    rng = np.random.default_rng(3)
    code = rng.integers(3, size=120)
    frame = pd.DataFrame({"word": np.array(["a", "b", "c"])[code], "x": 4.0 * code})
    frame["x"] += rng.normal(size=120)
    frame.loc[:2, "word"] = None
    frame.loc[5:6, "x"] = np.nan
    return frame, make().fit(frame)


@pytest.fixture(scope="session")
def ratings():
    """A number, and what people make of it: stars in halves, and yes or no as -0.7 and 1.4."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=400)
    stars = np.clip(np.rint(quality + 0.5 * rng.normal(size=400)) / 2, -1, 1) + 2
    choice = np.where(quality + 0.5 * rng.normal(size=400) > 0.4, 1.4, -0.7)
    truth = pd.DataFrame({"quality": quality, "stars": stars, "choice": choice})
    frame = truth.mask(rng.random(truth.shape) < 0.2)
    return truth, frame, make(max_steps=300).fit(frame)
