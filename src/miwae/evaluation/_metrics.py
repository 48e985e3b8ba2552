"""How far imputations are from the truth.

Every metric takes `scored`, True for the cells to compare: those that were hidden. Other cells are
never read. Columns of different units have to be standardised before, to be averaged.
"""

from typing import TypeAlias

import numpy as np
from jaxtyping import Bool, Float
from scipy.stats import wasserstein_distance

from miwae.errors import DataError

Table: TypeAlias = Float[np.ndarray, "N D"]
Hidden: TypeAlias = Bool[np.ndarray, "N D"]
Draws: TypeAlias = Float[np.ndarray, "M N D"]
Flags: TypeAlias = Bool[np.ndarray, " D"]  # True for columns of category codes


def column_deviations(x: Table) -> Float[np.ndarray, " D"]:
    """Standard deviations (divisor n) of the observed values of columns; 1 if constant."""
    deviation = np.ma.masked_invalid(x).std(axis=0).filled(0.0)
    return np.where(deviation > 0, deviation, 1.0)


def mse(truth: Table, imputed: Table, scored: Hidden) -> float:
    """Mean squared error."""
    return float(np.mean(_errors(truth, imputed, scored) ** 2))


def rmse(truth: Table, imputed: Table, scored: Hidden) -> float:
    """Root mean squared error."""
    return float(np.sqrt(mse(truth, imputed, scored)))


def mae(truth: Table, imputed: Table, scored: Hidden) -> float:
    """Mean absolute error."""
    return float(np.mean(np.abs(_errors(truth, imputed, scored))))


def accuracy(truth: Table, imputed: Table, scored: Hidden) -> float:
    """The share of category codes that are correct."""
    return float(np.mean(_errors(truth, imputed, scored) == 0))


def log_loss(
    truth: Float[np.ndarray, " N"],
    shares: Float[np.ndarray, "N C"],
    scored: Bool[np.ndarray, " N"],
) -> float:
    """Minus the mean log-probability of the true category codes of one column.

    A probability of 0 counts as the machine epsilon of its type (about 2e-16), and costs 36.
    """
    _require_scored(scored)
    of_truth = shares[scored, truth[scored].astype(int)]
    return float(-np.mean(np.log(np.maximum(of_truth, np.finfo(of_truth.dtype).eps))))


def crps(truth: Table, samples: Draws, scored: Hidden) -> float:
    """The mean continuous ranked probability score, in its fair form.

    For M draws X of a cell with the value y it is the mean of |X - y| minus half the mean of
    |X - X'| over pairs of *different* draws. Its expectation is the score of the distribution
    itself for every M; the plain form, which divides by M^2, is worse for small M.
    """
    _require_scored(scored, len(samples))
    y = truth[scored]
    draws = np.sort(samples[:, scored], axis=0)
    m = len(draws)
    # In how many pairs a sorted draw is the larger one, minus those in which it is the smaller.
    times = 2 * np.arange(m) - (m - 1)
    between = (times[:, None] * draws).sum(0) / (m * (m - 1))
    return float(np.mean(np.abs(draws - y).mean(0) - between))


def energy_score(truth: Table, samples: Draws, scored: Hidden) -> float:
    """The CRPS of whole rows: Euclidean distances over the scored cells of each row.

    Unlike the mean CRPS it also depends on the joint distribution of the cells of a row. Fair
    form, as `crps`; the mean over rows that have a scored cell.
    """
    _require_scored(scored, len(samples))
    y, draws = np.where(scored, truth, 0.0), np.where(scored, samples, 0.0)
    m = len(draws)
    to_truth = np.linalg.norm(draws - y, axis=-1).mean(0)
    between = sum(np.linalg.norm(draws[i + 1 :] - draws[i], axis=-1).sum(0) for i in range(m - 1))
    return float(np.mean((to_truth - between / (m * (m - 1)))[scored.any(1)]))


def coverage(truth: Table, lower: Table, upper: Table, scored: Hidden) -> float:
    """The share of true values inside their intervals, bounds included."""
    _require_scored(scored)
    y = truth[scored]
    return float(np.mean((lower[scored] <= y) & (y <= upper[scored])))


def width(lower: Table, upper: Table, scored: Hidden) -> float:
    """The mean width of intervals."""
    return float(np.mean(_errors(lower, upper, scored)))


def wasserstein(truth: Table, imputed: Table, scored: Hidden) -> float:
    """The mean over columns of the Wasserstein-1 distance between imputed and true values.

    It compares distributions: an imputation by means has a large distance, even with a small MSE.
    """
    _require_scored(scored)
    columns = [(j, scored[:, j]) for j in np.flatnonzero(scored.any(0))]
    return float(np.mean([wasserstein_distance(truth[s, j], imputed[s, j]) for j, s in columns]))


def _errors(truth: Table, imputed: Table, scored: Hidden) -> Float[np.ndarray, " H"]:
    _require_scored(scored)
    return imputed[scored] - truth[scored]


def _require_scored(scored: Bool[np.ndarray, "..."], n_draws: int = 2) -> None:
    if not scored.any():
        raise DataError("no cell is scored: hide some cells before comparing")
    if n_draws < 2:
        raise DataError(f"a fair score needs at least two draws, not {n_draws}")
