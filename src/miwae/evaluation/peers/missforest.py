"""Random forests, column by column, repeated until imputations stop settling."""

from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

from miwae.evaluation.peers.base import AbstractPeer
from miwae.evaluation.peers.mean import centres

__all__ = ["MissForest"]

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

    def _complete(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
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
        self,
        table: Float[np.ndarray, "N D"],
        missing: Bool[np.ndarray, "N D"],
        categorical: Bool[np.ndarray, " D"],
        rng: np.random.Generator,
    ) -> Float[np.ndarray, "N D"]:
        table = table.copy()
        counts = missing.sum(0)
        for j in np.argsort(counts, kind="stable"):
            if counts[j] == 0:
                continue
            others, rows = np.delete(table, j, axis=1), missing[:, j]
            predict = self._classes if categorical[j] else self._numbers
            seed = int(rng.integers(2**31))
            table[rows, j] = predict(others[~rows], table[~rows, j], others[rows], seed)
        return table

    def _numbers(
        self,
        x: Float[np.ndarray, "N E"],
        y: Float[np.ndarray, " N"],
        new: Float[np.ndarray, "H E"],
        seed: int,
    ) -> Float[np.ndarray, " H"]:
        forest = RandomForestRegressor(
            self.n_trees,
            max_features=_n_tried(x),
            min_samples_split=SMALLEST_SPLIT_NUMBERS,
            n_jobs=self.n_jobs,
            random_state=seed,
        )
        return forest.fit(x, y).predict(new)

    def _classes(
        self,
        x: Float[np.ndarray, "N E"],
        y: Float[np.ndarray, " N"],
        new: Float[np.ndarray, "H E"],
        seed: int,
    ) -> Float[np.ndarray, " H"]:
        """The majority vote of the trees, as in R; scikit-learn would average probabilities."""
        forest = RandomForestClassifier(
            self.n_trees,
            max_features=_n_tried(x),  # pyright: ignore[reportArgumentType]
            min_samples_split=SMALLEST_SPLIT_CATEGORIES,
            class_weight="balanced",  # R's package gives all classes the same prior
            n_jobs=self.n_jobs,
            random_state=seed,
        )
        forest.fit(x, y)
        choices = np.stack([tree.predict(new) for tree in forest.estimators_])
        votes = (choices[:, :, None] == np.arange(len(forest.classes_))).sum(0)
        return forest.classes_[votes.argmax(1)]


def _n_tried(x: Float[np.ndarray, "N E"]) -> int:
    """Columns tried at each split: the square root of the number of columns, y included."""
    return min(int(np.sqrt(x.shape[1] + 1)), x.shape[1])


def _changes(
    new: Float[np.ndarray, "N D"],
    old: Float[np.ndarray, "N D"],
    categorical: Bool[np.ndarray, " D"],
) -> Float[np.ndarray, " 2"]:
    """How much a round changed numbers and categories; infinite without such columns."""
    numbers = ~categorical
    of_numbers = of_categories = np.inf
    if numbers.any():
        moved = ((new - old)[:, numbers] ** 2).sum()
        of_numbers = moved / max((new[:, numbers] ** 2).sum(), np.finfo(float).tiny)
    if categorical.any():
        of_categories = np.mean((new != old)[:, categorical])
    return np.array([of_numbers, of_categories])
