"""The model itself: its training, its importance weights, its latent space."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from miwae.columns import Column, plain_values
from miwae.errors import DataError
from miwae.plots._style import (
    IMPUTED,
    INK,
    OBSERVED,
    axes,
    columns_of,
    finished,
    label_of,
    legend,
    without_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

UNRELIABLE = 0.7  # Pareto's k above which importance weights cannot be trusted

# Okabe and Ito's colours, which are told apart by nearly everybody, with shapes for print.
GROUPS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#000000", "#F0E442")
SHAPES = "o^sDvP*X"


def training(history: Sequence[Any], *, ax: "Axes | None" = None) -> "Figure":
    """The bound that training maximises, and the score of held-out cells, over the steps.

    Training stops when held-out cells are predicted no better; the circle is the state that was
    kept.

    Args:
        history: `imputer.history_`, or that of `fit`.
        ax: axes to draw into; by default those of a new figure.
    """
    if not history:
        raise DataError("there is no training to show: the model kept its linear start")
    ax = axes(ax, 5.5, 3.4)
    steps = [record.step for record in history]
    ax.yaxis.label.set_color(OBSERVED)
    handles = ax.plot(steps, [record.bound for record in history], color=OBSERVED, label="bound")
    scores = np.array([np.nan if r.log_density is None else r.log_density for r in history])
    if np.isfinite(scores).any():
        right = axes(ax.twinx())
        right.spines["right"].set(visible=True, color=IMPUTED)
        right.spines[["left", "bottom"]].set_visible(False)
        handles += right.plot(steps, scores, color=IMPUTED, ls="--", label="held-out cells")
        best = int(np.nanargmax(scores))
        ring: dict[str, Any] = {"marker": "o", "ms": 8, "mfc": "none", "mec": IMPUTED, "mew": 1.8}
        handles += right.plot(steps[best], scores[best], ls="", label="state that is kept", **ring)
        right.set_ylabel("log-density of a held-out cell", size=10, color=IMPUTED)
    legend(ax, handles)
    return finished(ax, xlabel="step", ylabel="bound per row")


def weights(effective_sample_size: Any, pareto_k: Any, *, ax: "Axes | None" = None) -> "Figure":
    """How well each incomplete row was sampled: effective samples against Pareto's k.

    Rows above the line (k > 0.7) have imputations that may be off by more than their intervals
    say. Both arrays come from `imputer.diagnostics(frame)`.

    Args:
        effective_sample_size: latent samples that the weighted ones of a row are worth.
        pareto_k: the shape of the tail of its weights; NaN for rows without missing cells.
        ax: axes to draw into; by default those of a new figure.
    """
    size, k = np.asarray(effective_sample_size, float), np.asarray(pareto_k, float)
    sampled = np.isfinite(k) & (size > 0)
    if not sampled.any():
        raise DataError("no row was sampled: there is nothing to impute in this table")
    size, k = size[sampled], k[sampled]
    bad = k > UNRELIABLE
    ax = axes(ax, 5.0, 3.6)
    limit = ax.axhline(UNRELIABLE, color="#888888", lw=1, ls="--", label="limit of 0.7")
    reliable, unreliable = f"{np.sum(~bad):,} reliable", f"{np.sum(bad):,} unreliable"
    good: dict[str, Any] = {"marker": "o", "color": OBSERVED, "label": reliable}
    poor: dict[str, Any] = {"marker": "^", "color": IMPUTED, "label": unreliable}
    handles = [
        ax.plot(size[rows], k[rows], ls="", ms=4, alpha=0.6, mec="none", **style)[0]
        for rows, style in ((~bad, good), (bad, poor))
        if rows.any()
    ]
    ax.set_xscale("log")
    for axis in ("major", "minor"):
        getattr(ax.xaxis, f"set_{axis}_formatter")(_one_two_five)
    ax.tick_params(axis="x", which="minor", labelsize=9, labelcolor=INK)
    ax.set_ylim(None, max(0.8, k.max() + 0.05))
    legend(ax, [*handles, limit])
    return finished(ax, xlabel="effective sample size", ylabel="Pareto's k")


def _one_two_five(x: float, _: int) -> str:
    """Labels along a logarithmic axis of counts: 1, 2, 5, 10, 20, 50, ..."""
    return f"{x:g}" if f"{x:e}"[0] in "125" else ""


def latent(z: Any, values: Any, *, ax: "Axes | None" = None) -> "Figure":
    """Rows in the latent space, along its two widest directions, coloured by a column.

    Args:
        z: one point per row, such as `autoencoder.propose(x, observed).centre`.
        values: one value per row: numbers or categories.
        ax: axes to draw into; by default those of a new figure.
    """
    z, colour = np.asarray(z, float), np.asarray(values)
    if z.ndim != 2 or len(z) != len(colour):
        raise DataError(f"one value per row is needed: z is {z.shape}, values {colour.shape}")
    centred = z - z.mean(axis=0)
    _, _, directions = np.linalg.svd(centred, full_matrices=False)
    points = centred @ directions[:2].T
    if points.shape[1] == 1:
        points = np.column_stack([points, np.zeros(len(points))])
    ax = axes(ax, 5.2, 4.0)
    column = columns_of(colour[:, None])[0]
    if column.storage in ("text", "category", "boolean"):
        _by_level(ax, points, column)
    else:
        _by_number(ax, points, column.values)
    without_frame(ax)
    ax.set(xticks=[], yticks=[], aspect="equal")
    return finished(ax, xlabel="widest direction of the latent space", ylabel="second widest")


def _by_level(ax: "Axes", points: np.ndarray, column: Column) -> None:
    handles, seen = [], ~column.missing
    levels = plain_values(column, seen)
    for i, level in enumerate(sorted(set(levels.tolist()), key=str)[: len(GROUPS)]):
        rows = points[seen][levels == level]
        style = {"color": GROUPS[i], "marker": SHAPES[i], "mec": "none", "alpha": 0.75}
        handles += ax.plot(*rows.T, ls="", ms=5, label=label_of(column, level), **style)
    legend(ax, handles)


def _by_number(ax: "Axes", points: np.ndarray, values: np.ndarray) -> None:
    dots = ax.scatter(*points.T, c=values, cmap="viridis", s=16, linewidths=0, alpha=0.85)
    figure = ax.get_figure()
    assert figure is not None
    figure.colorbar(dots, ax=ax, shrink=0.8).outline.set_visible(False)  # pyright: ignore
