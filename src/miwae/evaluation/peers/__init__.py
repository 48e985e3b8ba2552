"""Other imputation methods behind one interface, tested against their published results."""

from collections.abc import Callable

import numpy as np

from miwae.errors import SettingsError
from miwae.evaluation._metrics import Flags, Table
from miwae.evaluation.peers._base import AbstractPeer, Mean
from miwae.evaluation.peers._boosted import Boosted
from miwae.evaluation.peers._chained import Iterative, MissForest
from miwae.evaluation.peers._copula import Copula
from miwae.evaluation.peers._knn import KNN, VIMKNN
from miwae.evaluation.peers._pca import PCA

PEERS: dict[str, type[AbstractPeer]] = {
    "mean": Mean,
    "knn": KNN,
    "knn-vim": VIMKNN,
    "pca": PCA,
    "missforest": MissForest,
    "iterative": Iterative,
    "boosted": Boosted,
    "copula": Copula,
}


def complete(name: str, x: Table, categorical: Flags, seed: int) -> Table:
    """Complete a table by the method of that name in `PEERS`, with its default settings."""
    if name not in PEERS:
        raise SettingsError(f"method {name!r} is not one of {', '.join(PEERS)}")
    return PEERS[name](seed=seed).fit_transform(x, categorical)


def fit(name: str, x: Table, categorical: Flags, seed: int) -> Callable[[Table], Table]:
    """A function that completes other rows by that method.

    Most of these methods learn nothing that could complete other rows, so the rows are appended to
    the table, and the whole table is completed again, with the time that this takes.
    """
    return lambda new: complete(name, np.concatenate([x, new]), categorical, seed)[len(x) :]
