"""Regularised iterative principal components."""

from dataclasses import dataclass

import numpy as np

from miwae.evaluation._amputation import ampute
from miwae.evaluation._metrics import Flags, Table, column_deviations, mse
from miwae.evaluation.peers._base import AbstractPeer, Wide, from_one_hot, one_hot

MAX_ITERATIONS = 1_000
# Tolerances of missMDA: of the result, and of the fits that choose the number of components.
PRECISE, ROUGH = 1e-6, 1e-4
# missMDA holds out 5 % a hundred times; larger and fewer sets are faster.
HELD_OUT, N_REPETITIONS = 0.1, 5


@dataclass(frozen=True, kw_only=True)
class PCA(AbstractPeer):
    """Regularised iterative PCA (Josse & Husson 2012), as `imputePCA` of R's package missMDA.

    Categories are columns of 0 and 1; the category with the largest value is imputed.
    """

    # By default that of the smallest error on held-out observed cells. Generalised
    # cross-validation, missMDA's own default, often chooses none where many cells are missing.
    n_components: int | None = None
    max_components: int = 5  # as in missMDA

    def _complete(self, x: Table, categorical: Flags) -> Table:
        table = one_hot(x, categorical)
        count = self.choose(table) if self.n_components is None else self.n_components
        return from_one_hot(fit_components(table, count), x, categorical)

    def choose(self, x: Wide) -> int:
        most = min(self.max_components, x.shape[1] - 1, x.shape[0] - 2)
        scale, errors, rng = column_deviations(x), np.zeros(most + 1), self._generator()
        for _ in range(N_REPETITIONS):
            held_out = ampute(x, HELD_OUT, "mcar", rng=rng)
            kept = np.where(held_out, np.nan, x)
            for count in range(most + 1 if held_out.any() else 0):
                fitted = fit_components(kept, count, ROUGH)
                errors[count] += mse(x / scale, fitted / scale, held_out)
        return int(errors.argmin())


def fit_components(x: Wide, count: int, tolerance: float = PRECISE) -> Wide:
    """The regularised fit of an incomplete table by `count` components, in all cells.

    Impute missing cells, standardise, fit components with eigenvalues shrunk from l to l - noise,
    where noise is the mean of the other eigenvalues, impute from the fit, and repeat until it
    converges.
    """
    (n, p), seen = x.shape, ~np.isnan(x)
    fit = np.broadcast_to(np.nanmean(x, axis=0), x.shape)
    last = np.inf
    for iteration in range(MAX_ITERATIONS if count else 0):
        table = np.where(seen, x, fit)
        mean, deviation = table.mean(0), column_deviations(table)
        z = (table - mean) / deviation
        # The right singular vectors of z, and its squared singular values divided by n.
        values, vectors = np.linalg.eigh(z.T @ z / n)
        values, vectors = values[::-1], vectors[:, ::-1]
        rest = n * p / min(p, n - 1) * values[count:].sum()
        noise = min(rest / ((n - 1 - count) * (p - count)), values[count])
        kept = vectors[:, :count]
        shrinkage = 1 - noise / values[:count]
        projection = z @ (kept * shrinkage) @ kept.T
        fit = projection * deviation + mean
        error = ((z - projection)[seen] ** 2).sum() / n
        if iteration > 4 and (error < tolerance or abs(1 - error / last) < tolerance):
            break
        last = error
    return fit
