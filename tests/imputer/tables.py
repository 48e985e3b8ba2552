"""Small tables of numbers and cheap imputers, for the tests of the imputer."""

import numpy as np
import pandas as pd

from miwae import MIWAEImputer

NAN = float("nan")


# Small networks, few latent samples: a table with fewer than 100 observed cells also skips the
# training.
CHEAP = {
    "n_imputation_samples": 120,
    "n_hidden": 8,
    "n_layers": 1,
    "n_models": 1,
    "random_state": 0,
}


def make(**settings):
    return MIWAEImputer(**{**CHEAP, **settings})


LOADINGS = np.array([2.0, 1.0, -3.0])


NOISE = np.array([0.5, 0.8, 1.0])


CENTRE = np.array([0.0, 10.0, -5.0])


COVARIANCE = np.outer(LOADINGS, LOADINGS) + np.diag(NOISE**2)


def factor_rows(n_rows, seed):
    """Rows of a Gaussian model with one factor, complete."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 1))
    return CENTRE + z * LOADINGS + rng.normal(size=(n_rows, 3)) * NOISE


def with_holes(x, share, seed):
    """At random, at least one cell of each row left."""
    rng = np.random.default_rng(seed)
    missing = rng.random(x.shape) < share
    missing[missing.all(axis=1), 0] = False
    return np.where(missing, np.nan, x)


def numbers(n_rows=33, share=0.15, seed=1):
    """At most 99 cells: the model of this table stays linear."""
    return pd.DataFrame(with_holes(factor_rows(n_rows, seed), share, seed), columns=list("abc"))


def same_bits(left, right):
    left, right = np.asarray(left), np.asarray(right)
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


def batch(n_rows, seed, shift=0.0):
    x = with_holes(factor_rows(n_rows, seed), 0.1, seed) + shift
    return pd.DataFrame(x, columns=list("abc"))


def texts(imputer):
    """What happened, in words."""
    return [str(event) for event in imputer.events_]
