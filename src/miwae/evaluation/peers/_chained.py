"""Column by column, in rounds: random forests, and scikit-learn's chained regressions."""

import warnings
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  makes the next line work
from sklearn.impute import IterativeImputer

from miwae.evaluation._metrics import Cells, Flags, Table
from miwae.evaluation.peers._base import AbstractPeer, centres, from_one_hot, one_hot

Rows: TypeAlias = Float[np.ndarray, "N E"]
Target: TypeAlias = Float[np.ndarray, " N"]
Other: TypeAlias = Float[np.ndarray, "H E"]
Predicted: TypeAlias = Float[np.ndarray, " H"]

# R's package sets randomForest's `nodesize` to 1 for numbers and 5 for categories, the reverse of
# randomForest's own defaults. A node of at most `nodesize` rows is not split; scikit-learn's
# parameter is the smallest node that is split.
SMALLEST_SPLIT_NUMBERS = 2
SMALLEST_SPLIT_CATEGORIES = 6


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

    def _round(
        self, table: Table, missing: Cells, categorical: Flags, rng: np.random.Generator
    ) -> Table:
        table = table.copy()
        counts = missing.sum(0)
        for j in np.argsort(counts, kind="stable"):
            if counts[j] == 0:
                continue
            others, rows = np.delete(table, j, axis=1), missing[:, j]
            seed = int(rng.integers(2**31))
            predict = self._classes if categorical[j] else self._numbers
            table[rows, j] = predict(others[~rows], table[~rows, j], others[rows], seed)
        return table

    def _options(self, x: Rows, seed: int) -> dict[str, Any]:
        """Columns tried at each split: the square root of the number of columns, y included."""
        tried = min(int(np.sqrt(x.shape[1] + 1)), x.shape[1])
        return {"max_features": tried, "n_jobs": self.n_jobs, "random_state": seed}

    def _numbers(self, x: Rows, y: Target, new: Other, seed: int) -> Predicted:
        forest = RandomForestRegressor(
            self.n_trees, min_samples_split=SMALLEST_SPLIT_NUMBERS, **self._options(x, seed)
        )
        return forest.fit(x, y).predict(new)

    def _classes(self, x: Rows, y: Target, new: Other, seed: int) -> Predicted:
        """The majority vote of the trees, as in R; scikit-learn would average probabilities."""
        forest = RandomForestClassifier(
            self.n_trees,
            min_samples_split=SMALLEST_SPLIT_CATEGORIES,
            class_weight="balanced",  # R's package gives all classes the same prior
            **self._options(x, seed),
        )
        forest.fit(x, y)
        choices = np.stack([tree.predict(new) for tree in forest.estimators_])
        votes = (choices[:, :, None] == np.arange(len(forest.classes_))).sum(0)
        return forest.classes_[votes.argmax(1)]


def _changes(new: Table, old: Table, categorical: Flags) -> Float[np.ndarray, " 2"]:
    """How much a round changed numbers and categories; infinite without such columns."""
    numbers = ~categorical
    of_numbers = of_categories = np.inf
    if numbers.any():
        moved = ((new - old)[:, numbers] ** 2).sum()
        of_numbers = moved / max((new[:, numbers] ** 2).sum(), np.finfo(float).tiny)
    if categorical.any():
        of_categories = np.mean((new != old)[:, categorical])
    return np.array([of_numbers, of_categories])


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
