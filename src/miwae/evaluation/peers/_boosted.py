"""Gradient boosting, one column after the other."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

from miwae.evaluation._metrics import Flags, Table
from miwae.evaluation.peers._base import AbstractPeer

MOST_BINS = 255  # levels that scikit-learn can treat as categories


@dataclass(frozen=True, kw_only=True)
class Boosted(AbstractPeer):
    """Boosted trees for each column, given all others, whose missing cells stay missing.

    One pass without iteration: trees learn on which side of a split missing inputs belong.
    """

    n_trees: int = 100
    learning_rate: float = 0.06
    least_leaf: int = 10

    def _complete(self, x: Table, categorical: Flags) -> Table:
        completed = x.copy()
        for j in np.flatnonzero(np.isnan(x).any(axis=0)):
            missing = np.isnan(x[:, j])
            seen = x[~missing, j]
            if x.shape[1] == 1 or len(np.unique(seen)) == 1:
                completed[missing, j] = seen[0] if categorical[j] else seen.mean()
                continue
            inputs = np.delete(x, j, axis=1)
            trees = self._trees(inputs, np.delete(categorical, j), coded=bool(categorical[j]))
            completed[missing, j] = trees.fit(inputs[~missing], seen).predict(inputs[missing])
        return completed

    def _trees(
        self, inputs: Table, categorical: Flags, *, coded: bool
    ) -> HistGradientBoostingClassifier | HistGradientBoostingRegressor:
        few = np.array([np.nanmax(column, initial=0) < MOST_BINS for column in inputs.T])
        model = HistGradientBoostingClassifier if coded else HistGradientBoostingRegressor
        options: dict[str, Any] = {
            "max_iter": self.n_trees,
            "learning_rate": self.learning_rate,
            "min_samples_leaf": self.least_leaf,
            "categorical_features": categorical & few,
            "early_stopping": False,
            "random_state": self.seed,
        }
        return model(**options)
