"""scikit-learn's chained regressions."""

import warnings
from dataclasses import dataclass

import numpy as np
from jaxtyping import Bool, Float
from sklearn.exceptions import ConvergenceWarning
from sklearn.experimental import enable_iterative_imputer  # noqa: F401  makes the next line work
from sklearn.impute import IterativeImputer

from miwae.evaluation.peers.base import AbstractPeer, from_one_hot, one_hot

__all__ = ["Iterative"]


@dataclass(frozen=True, kw_only=True)
class Iterative(AbstractPeer):
    """scikit-learn's `IterativeImputer` with its own defaults: Bayesian ridge, ten rounds.

    Categories are regressed as columns of 0 and 1; the largest prediction wins.
    """

    max_iterations: int = 10

    def _complete(
        self, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"]
    ) -> Float[np.ndarray, "N D"]:
        imputer = IterativeImputer(max_iter=self.max_iterations, random_state=self.seed)
        with warnings.catch_warnings():
            # It seldom converges in ten rounds; its users get the result after ten rounds.
            warnings.simplefilter("ignore", ConvergenceWarning)
            completed = imputer.fit_transform(one_hot(x, categorical, first=False))
        return from_one_hot(np.asarray(completed), x, categorical, first=False)
