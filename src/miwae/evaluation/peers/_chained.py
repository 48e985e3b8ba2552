"""Column by column, in rounds: random forests, and scikit-learn's chained regressions."""

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from numpy.random import Generator
from scipy.stats import mode
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  makes the next line work
from sklearn.impute import IterativeImputer

from miwae.evaluation._metrics import Flags, Hidden, Table
from miwae.evaluation.peers._base import AbstractPeer, centres, from_one_hot, one_hot

# R's package sets randomForest's `nodesize` to 1 for numbers and 5 for categories, the reverse of
# randomForest's own defaults. A node of at most `nodesize` rows is not split; scikit-learn's
# `min_samples_split`, here 2 and 6, is the smallest node that is split.
Forest: TypeAlias = RandomForestRegressor | RandomForestClassifier


@dataclass(frozen=True, kw_only=True)
class MissForest(AbstractPeer):
    """missForest (Stekhoven & Buehlmann 2012), with the defaults of the R package.

    Start from means; visit columns in increasing number of missing cells and replace these by
    the predictions of a forest on all other columns; repeat until the imputations change more than
    in the round before, for numbers and for categories, and return the round before.

    Forests treat categories as numbers, where R splits sets of them. Rows without any observed
    cell are predicted from their own predictions and end at arbitrary values. This is a property
    of the algorithm, and in tables of few columns a large part of its error.
    """

    n_trees: int = 100
    max_iterations: int = 10
    n_jobs: int = 2

    def _complete(self, x: Table, categorical: Flags) -> Table:
        missing = np.isnan(x)
        current = np.where(missing, centres(x, categorical), x)
        if x.shape[1] == 1:
            return current
        rng = self._generator()
        change = np.full(2, np.inf)
        for _ in range(self.max_iterations):
            previous, previous_change = current, change
            current = self._round(previous, missing, categorical, rng)
            change = _changes(current, previous, categorical)
            if not (change < previous_change).any():
                return previous
        return current

    def _round(self, table: Table, missing: Hidden, categorical: Flags, rng: Generator) -> Table:
        table = table.copy()
        counts = missing.sum(0)
        for j in np.argsort(counts, kind="stable"):
            if counts[j] == 0:
                continue
            others, rows = np.delete(table, j, axis=1), missing[:, j]
            seed = int(rng.integers(2**31))
            forest = self._forest(others.shape[1], seed, codes=bool(categorical[j]))
            forest.fit(others[~rows], table[~rows, j])
            table[rows, j] = _predicted(forest, others[rows])
        return table

    def _forest(self, n_columns: int, seed: int, *, codes: bool) -> Forest:
        # Columns tried at each split: the square root of their number, that of y included.
        tried = min(int(np.sqrt(n_columns + 1)), n_columns)
        options: Any = {"max_features": tried, "n_jobs": self.n_jobs, "random_state": seed}
        if not codes:
            return RandomForestRegressor(self.n_trees, min_samples_split=2, **options)
        # R's package gives all classes the same prior.
        options |= {"class_weight": "balanced", "min_samples_split": 6}
        return RandomForestClassifier(self.n_trees, **options)


def _predicted(forest: Forest, x: Float[np.ndarray, "H E"]) -> Float[np.ndarray, " H"]:
    """The mean of the trees, or their majority vote, as in R."""
    if isinstance(forest, RandomForestRegressor):
        return forest.predict(x)
    votes = np.stack([tree.predict(x) for tree in forest.estimators_])
    return forest.classes_[mode(votes).mode.astype(int)]


def _changes(new: Table, old: Table, categorical: Flags) -> Float[np.ndarray, " 2"]:
    """How much a round changed numbers and categories; infinite without such columns."""
    change, numbers = np.full(2, np.inf), ~categorical
    if numbers.any():
        moved = ((new - old)[:, numbers] ** 2).sum()
        change[0] = moved / max((new[:, numbers] ** 2).sum(), np.finfo(float).tiny)
    if categorical.any():
        change[1] = np.mean((new != old)[:, categorical])
    return change


@dataclass(frozen=True, kw_only=True)
class Iterative(AbstractPeer):
    """scikit-learn's `IterativeImputer` with its own defaults: Bayesian ridge, ten rounds.

    Categories are regressed as columns of 0 and 1; the largest prediction wins.
    """

    max_iterations: int = 10

    def _complete(self, x: Table, categorical: Flags) -> Table:
        imputer = IterativeImputer(max_iter=self.max_iterations, random_state=self.seed)
        with warnings.catch_warnings():
            # It seldom converges in ten rounds; its users get the result after ten rounds.
            warnings.simplefilter("ignore", ConvergenceWarning)
            completed = imputer.fit_transform(one_hot(x, categorical, first=False))
        return from_one_hot(np.asarray(completed), x, categorical, first=False)
