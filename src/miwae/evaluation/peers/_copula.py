"""A Gaussian copula, by the package gcimpute."""

import contextlib
import importlib.util
import sys
from dataclasses import dataclass

import numpy as np

from miwae.errors import DataError, SettingsError
from miwae.evaluation._metrics import Flags, Table
from miwae.evaluation.peers._base import AbstractPeer, centres, from_one_hot, one_hot

OLD_NAME = "round_"  # of `np.round`, which NumPy 2 has dropped and gcimpute 0.0.4 asks for


@dataclass(frozen=True, kw_only=True)
class Copula(AbstractPeer):
    """gcimpute (Zhao, Townsend & Udell 2022) with its defaults; categories as 0 and 1."""

    def _complete(self, x: Table, categorical: Flags) -> Table:
        if importlib.util.find_spec("gcimpute") is None:
            raise SettingsError("the copula needs the package gcimpute: pip install gcimpute")
        if x.shape[1] == 1:
            return np.broadcast_to(centres(x, categorical), x.shape)
        if not hasattr(np, OLD_NAME):
            setattr(np, OLD_NAME, np.round)
        from gcimpute.gaussian_copula import GaussianCopula

        model = GaussianCopula(verbose=0, random_state=self.seed)
        with contextlib.redirect_stdout(sys.stderr):  # where it prints, and JSON may be written
            try:
                completed = model.fit_transform(X=one_hot(x, categorical, first=False))
            except ValueError as error:  # without a message
                text = "gcimpute finds no bounds for a column of values close to each other"
                raise DataError(text) from error
        return from_one_hot(np.asarray(completed), x, categorical, first=False)
