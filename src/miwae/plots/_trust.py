"""Whether imputations can be trusted: cells that are known, hidden and imputed again."""

from typing import TYPE_CHECKING, Any

import numpy as np

from miwae.errors import DataError
from miwae.plots._style import IMPUTED, OBSERVED, axes, finished, legend

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def overimputation(
    truth: Any, imputed: Any, lower: Any, upper: Any, *, ax: "Axes | None" = None
) -> "Figure":
    """Imputed values of hidden cells with their intervals, against what was hidden.

    A good model has its points along the diagonal, and intervals that mostly reach it: blue ones
    do, red ones do not.

    Args:
        truth: values of cells that were hidden from the model.
        imputed: what was imputed for them.
        lower: lower ends of their intervals.
        upper: upper ends of their intervals.
        ax: axes to draw into; by default those of a new figure.
    """
    truth, imputed, lower, upper = (np.asarray(a, float) for a in (truth, imputed, lower, upper))
    _require_same_length(truth, imputed, lower, upper)
    ax = axes(ax, 4.6, 4.2)
    inside = (lower <= truth) & (truth <= upper)
    ends = (min(truth.min(), lower.min()), max(truth.max(), upper.max()))
    ax.plot(ends, ends, color="#888888", lw=1, zorder=1)
    handles = []
    for rows, colour, marker, what in (
        (inside, OBSERVED, "o", "in their interval"),
        (~inside, IMPUTED, "^", "outside"),
    ):
        errors = np.stack([imputed - lower, upper - imputed])[:, rows].clip(0)
        handles.append(
            ax.errorbar(
                truth[rows],
                imputed[rows],
                errors,
                ls="",
                marker=marker,
                ms=4,
                color=colour,
                elinewidth=0.7,
                alpha=0.8,
                label=f"{np.mean(rows):.0%} {what}",
            )
        )
    legend(ax, handles, loc="upper left")
    return finished(ax, xlabel="hidden value", ylabel="imputed, with its interval")


def calibration(truth: Any, draws: Any, *, ax: "Axes | None" = None) -> "Figure":
    """How many hidden cells lie in their intervals, for intervals of every level.

    On the diagonal intervals are right; below it they are too narrow, above it too wide. The band
    is what 95 of 100 right models would show with so many cells.

    Args:
        truth: values of cells that were hidden from the model.
        draws: M draws of each of them; fifty or more.
        ax: axes to draw into; by default those of a new figure.
    """
    truth, draws = np.asarray(truth, float), np.asarray(draws, float)
    _require_same_length(truth, *draws)
    levels = np.linspace(0.05, 0.95, 19)
    lower, upper = (np.quantile(draws, (1 + sign * levels) / 2, axis=0) for sign in (-1, 1))
    covered = np.mean((lower <= truth) & (truth <= upper), axis=1)
    ax = axes(ax, 4.4, 4.2)
    everywhere = np.linspace(0, 1, 101)
    error = 1.96 * np.sqrt(everywhere * (1 - everywhere) / len(truth))
    chance = f"chance, for {len(truth):,} cells"
    ends = everywhere - error, everywhere + error
    band = ax.fill_between(everywhere, *ends, color="#dddddd", lw=0, label=chance)
    ax.plot([0, 1], [0, 1], color="#888888", lw=1)
    own: dict[str, Any] = {"color": OBSERVED, "marker": "o", "ms": 4, "lw": 1.5}
    handles = ax.plot(levels, covered, label="this model", **own)
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_major_formatter(lambda x, _: f"{x:.0%}")
    ax.set(xlim=(0, 1), ylim=(0, 1), aspect="equal")
    legend(ax, [*handles, band])
    return finished(ax, xlabel="level of the interval", ylabel="hidden cells inside")


def _require_same_length(*arrays: np.ndarray) -> None:
    lengths = {len(array) for array in arrays}
    if len(lengths) > 1 or not arrays[0].size:
        counts = ", ".join(str(len(array)) for array in arrays[:4])
        raise DataError(f"one value per hidden cell is needed in each array, not {counts} of them")
