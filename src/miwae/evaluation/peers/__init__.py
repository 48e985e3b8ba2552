"""Other imputation methods behind one interface, tested against their published results."""

from collections.abc import Callable

import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import SettingsError
from miwae.evaluation.peers.base import AbstractPeer
from miwae.evaluation.peers.iterative import Iterative
from miwae.evaluation.peers.knn import KNN, VIMKNN
from miwae.evaluation.peers.mean import Mean
from miwae.evaluation.peers.missforest import MissForest
from miwae.evaluation.peers.pca import PCA

__all__ = ["PEERS", "MissForest", "complete", "fit"]

PEERS: dict[str, type[AbstractPeer]] = {
    "mean": Mean,
    "knn": KNN,
    "knn-vim": VIMKNN,
    "pca": PCA,
    "missforest": MissForest,
    "iterative": Iterative,
}


def complete(
    name: str, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"], seed: int
) -> Float[np.ndarray, "N D"]:
    """Complete a table by the method of that name in `PEERS`, with its default settings."""
    if name not in PEERS:
        raise SettingsError(f"method {name!r} is not one of {', '.join(PEERS)}")
    return PEERS[name](seed=seed).fit_transform(x, categorical)


def fit(
    name: str, x: Float[np.ndarray, "N D"], categorical: Bool[np.ndarray, " D"], seed: int
) -> Callable[[Float[np.ndarray, "M D"]], Float[np.ndarray, "M D"]]:
    """A function that completes other rows by that method.

    Most of these methods learn nothing that could complete other rows, so the rows are appended to
    the table and the whole table is completed again. These methods therefore learn from the new
    rows as well, and take as long as for the whole table.
    """

    def completed(new: Float[np.ndarray, "M D"]) -> Float[np.ndarray, "M D"]:
        return complete(name, np.concatenate([x, new]), categorical, seed)[len(x) :]

    return completed
