"""Which cells are missing, together and depending on what: numbers for plots and reports."""

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
from jaxtyping import Bool, Float, Int

from miwae.columns._column import Column

PerColumn: TypeAlias = Float[np.ndarray, " C"]


class Patterns(NamedTuple):
    """Combinations of columns that are missing in the same rows, the most frequent first."""

    missing: Bool[np.ndarray, "P C"]
    n_rows: Int[np.ndarray, " P"]


def missing_cells(columns: Sequence[Column]) -> Bool[np.ndarray, "N C"]:
    """True where a cell is missing, one column per column of the table."""
    return np.stack([column.missing for column in columns], axis=1)


def missing_patterns(missing: Bool[np.ndarray, "N C"]) -> Patterns:
    """All patterns of missing cells, the most frequent first."""
    # A row is a few bytes, which are counted fast and sorted as their bits are.
    packed = np.packbits(missing, axis=1)
    counts = Counter(packed.view(f"V{packed.shape[1]}")[:, 0].tolist())
    ordered = sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))
    rows = np.frombuffer(b"".join(row for row, _ in ordered), np.uint8)
    rows = rows.reshape(len(ordered), packed.shape[1])
    bits = np.unpackbits(rows, axis=1, count=missing.shape[1]).astype(bool)
    return Patterns(bits, np.array([count for _, count in ordered], dtype=np.int64))


def missing_correlations(missing: Bool[np.ndarray, "N C"]) -> Float[np.ndarray, "C C"]:
    """Correlations of the indicators of missing cells; NaN for columns without any or all."""
    x = missing - missing.mean(axis=0)
    scale = np.sqrt((x**2).sum(axis=0))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.clip((x.T @ x) / np.outer(scale, scale), -1.0, 1.0)


# Associations that chance could have given with a larger probability are none.
SIGNIFICANT = 0.01


def missing_associations(columns: Sequence[Column]) -> Float[np.ndarray, "C C"]:
    """How much the value of one column (second axis) says of whether another is missing (first).

    For numbers and times the absolute rank correlation with the indicator of missing cells, for
    categories Cramér's V, both from 0 (nothing) to 1, and 0 where chance alone could give it
    (p > 0.01). NaN on the diagonal and where there is nothing to compare.
    """
    missing = missing_cells(columns)
    found = np.full((len(columns), len(columns)), np.nan)
    for j, column in enumerate(columns):
        seen = ~column.missing
        x, gaps = column.values[seen], missing[seen]
        if column.storage == "other" or len(x) < 3 or (x == x[0]).all():
            continue
        partly = np.flatnonzero(gaps.any(axis=0) & ~gaps.all(axis=0))
        of = _of_levels if column.storage in ("text", "category") else _of_ranks
        found[partly, j] = of(x, gaps[:, partly].astype(float))
    return found


def _of_ranks(x: Float[np.ndarray, " N"], gaps: Float[np.ndarray, "N C"]) -> PerColumn:
    from scipy import stats

    ranks = stats.rankdata(x)
    ranks = (ranks - ranks.mean()) / ranks.std()
    r = ranks @ (gaps - gaps.mean(axis=0)) / len(x) / gaps.std(axis=0)
    n_free = len(x) - 2
    t = np.abs(r) * np.sqrt(n_free / np.maximum(1 - r**2, 1e-12))
    return np.where(2 * stats.t.sf(t, n_free) < SIGNIFICANT, np.minimum(np.abs(r), 1.0), 0.0)


def _of_levels(x: Float[np.ndarray, " N"], gaps: Float[np.ndarray, "N C"]) -> PerColumn:
    from scipy import stats

    _, level, n_cells = np.unique(x, return_inverse=True, return_counts=True)
    n_missing = np.zeros((len(n_cells), gaps.shape[1]))
    np.add.at(n_missing, level, gaps)
    share = gaps.mean(axis=0)
    off = (n_missing - n_cells[:, None] * share) ** 2 / n_cells[:, None]
    chi2 = off.sum(axis=0) / (share * (1 - share))
    likely = stats.chi2.sf(chi2, len(n_cells) - 1) >= SIGNIFICANT
    return np.where(likely, 0.0, np.sqrt(chi2 / len(x)))
