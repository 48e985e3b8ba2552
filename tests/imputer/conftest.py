"""Imputers that many tests ask and none changes, fitted once."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from imputer.tables import factor_rows, make, numbers, with_holes


def fresh(imputer):
    """The same fit, without what other tests have done to the imputer since."""
    other = clone(imputer)
    other._fitted = imputer._fitted._replace(later=[])
    return other


@pytest.fixture(scope="session")
def fitted_linear():
    frame = numbers()
    return frame, make().fit(frame)


@pytest.fixture(scope="session")
def fitted_trained():
    """A deep model, trained for a few steps."""
    frame = pd.DataFrame(with_holes(factor_rows(600, 2), 0.15, 2), columns=list("abc"))
    return frame, make(max_steps=60, n_imputation_samples=500).fit(frame)


@pytest.fixture(scope="session")
def fitted_words():
    """Text of three levels, and a number that depends on it; of 40 rows, it is shrunk too much."""
    rng = np.random.default_rng(3)
    code = rng.integers(3, size=120)
    frame = pd.DataFrame({"word": np.array(["a", "b", "c"])[code], "x": 4.0 * code})
    frame["x"] += rng.normal(size=120)
    frame.loc[:2, "word"] = None
    frame.loc[5:6, "x"] = np.nan
    return frame, make().fit(frame)


@pytest.fixture(scope="session")
def fitted_ratings():
    """A number, and what people make of it: stars in halves, and yes or no as -0.7 and 1.4."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=400)
    stars = np.clip(np.rint(quality + 0.5 * rng.normal(size=400)) / 2, -1, 1) + 2
    choice = np.where(quality + 0.5 * rng.normal(size=400) > 0.4, 1.4, -0.7)
    truth = pd.DataFrame({"quality": quality, "stars": stars, "choice": choice})
    frame = truth.mask(rng.random(truth.shape) < 0.2)
    return truth, frame, make(max_steps=300).fit(frame)


@pytest.fixture
def linear(fitted_linear):
    frame, imputer = fitted_linear
    return frame, fresh(imputer)


@pytest.fixture
def trained(fitted_trained):
    frame, imputer = fitted_trained
    return frame, fresh(imputer)


@pytest.fixture
def words(fitted_words):
    frame, imputer = fitted_words
    return frame, fresh(imputer)


@pytest.fixture
def ratings(fitted_ratings):
    truth, frame, imputer = fitted_ratings
    return truth, frame, fresh(imputer)
