"""Which cells are missing: the matrix, shares, patterns, and what goes together."""

from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from miwae.columns import missing_associations, missing_cells, missing_correlations
from miwae.columns import missing_patterns as patterns_of
from miwae.plots._style import (
    IMPUTED,
    INK,
    OBSERVED,
    PALE,
    axes,
    columns_of,
    finished,
    legend,
    short,
    without_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_LINES = 400  # of the matrix; more rows are averaged in bands


def missing_matrix(frame: Any, *, ax: "Axes | None" = None) -> "Figure":
    """Every cell of a table, blue if observed and red if missing.

    Args:
        frame: a pandas, polars or pyarrow frame, or an array.
        ax: axes to draw into; by default those of a new figure.
    """
    columns = columns_of(frame)
    missing = missing_cells(columns)
    ax = axes(ax, _width(len(columns)), 4.2)
    n_rows, n_columns = missing.shape
    bands = np.array_split(missing, min(n_rows, MOST_LINES))
    shares = np.stack([band.mean(axis=0) for band in bands])
    extent = (-0.5, n_columns - 0.5, n_rows + 0.5, 0.5)
    style = {"cmap": _from_blue_to_red(), "vmin": 0, "vmax": 1, "interpolation": "nearest"}
    ax.imshow(shares, aspect="auto", extent=extent, **style)
    ax.vlines(np.arange(n_columns - 1) + 0.5, 0.5, n_rows + 0.5, color="white", lw=1.5)
    _names_above(ax, [column.name for column in columns])
    without_frame(ax)
    _legend_below(ax)
    title = f"{missing.sum():,} of {missing.size:,} cells missing ({missing.mean():.1%})"
    return finished(ax, ylabel="row", xlabel=title)


def missing_bars(frame: Any, *, ax: "Axes | None" = None) -> "Figure":
    """The share of missing cells of each column.

    Args:
        frame: a pandas, polars or pyarrow frame, or an array.
        ax: axes to draw into; by default those of a new figure.
    """
    columns = columns_of(frame)
    ax = axes(ax, 5.5, _height(len(columns)))
    shares = missing_cells(columns).mean(axis=0)
    places = np.arange(len(columns))
    ax.barh(places, 1 - shares, left=shares, color=PALE, height=0.72)
    ax.barh(places, shares, color=IMPUTED, height=0.72)
    for place, (share, column) in enumerate(zip(shares.tolist(), columns, strict=True)):
        if share:
            # Beside a short bar, inside a long one.
            end, side = (share - 0.01, "right") if share > 0.7 else (share + 0.01, "left")
            text = f"{column.n_missing:,} ({share:.1%})"
            ax.text(end, place, text, va="center", ha=side, fontsize=8.5, color=INK)
    ax.set_yticks(places, [short(column.name) for column in columns])
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    without_frame(ax)
    return finished(ax, xlabel="missing cells")


def missing_patterns(frame: Any, *, most: int = 15, ax: "Axes | None" = None) -> "Figure":
    """Which columns are missing in the same rows, as R's md.pattern: the most frequent first.

    Below each column stands the number of its missing cells.

    Args:
        frame: a pandas, polars or pyarrow frame, or an array.
        most: how many patterns are shown.
        ax: axes to draw into; by default those of a new figure.
    """
    columns = columns_of(frame)
    patterns = patterns_of(missing_cells(columns))
    missing, n_rows = patterns.missing[:most], patterns.n_rows[:most]
    ax = axes(ax, _width(len(columns)) + 0.8, _height(len(missing) + 1, 1.5))
    _tiles(ax, missing)
    _names_above(ax, [column.name for column in columns])
    shares = patterns.n_rows[:most] / patterns.n_rows.sum()
    ax.set_yticks(np.arange(len(missing)), [f"{n:,} rows" if n > 1 else "1 row" for n in n_rows])
    for place, share in enumerate(shares):
        ax.text(len(columns) - 0.3, place, f"{share:.1%}", va="center", fontsize=9, color=INK)
    below = len(missing)  # the line under the last pattern
    for place, column in enumerate(columns):
        text = f"{column.n_missing:,}"
        ax.text(place, below, text, va="center", ha="center", fontsize=9, color=INK)
    without_frame(ax)
    ax.set(xlim=(-0.55, len(columns) + 0.6), ylim=(below + 0.5, -0.55))
    _legend_below(ax)
    left = len(patterns.n_rows) - len(missing)
    more = f"; {left} rarer patterns are not shown" if left else ""
    return finished(ax, xlabel=f"missing cells of each column{more}")


def missing_together(frame: Any, *, ax: "Axes | None" = None) -> "Figure":
    """Correlations of the missing cells of two columns: 1 if always missing together.

    Args:
        frame: a pandas, polars or pyarrow frame, or an array.
        ax: axes to draw into; by default those of a new figure.
    """
    columns = columns_of(frame)
    missing = missing_cells(columns)
    kept = np.flatnonzero(missing.any(axis=0) & ~missing.all(axis=0))
    names = [columns[i].name for i in kept]
    correlations = missing_correlations(missing[:, kept])
    side = _width(len(kept))
    ax = axes(ax, side + 1, side)
    lower = np.tril(np.ones_like(correlations, dtype=bool), -1)
    shown = np.where(lower, correlations, np.nan)[1:, :-1]
    _heat(ax, shown, cmap="RdBu_r", low=-1.0)
    _names_below_and_beside(ax, names[:-1], names[1:])
    text = "correlation: 1 if missing in the same rows"
    few = "fewer than two columns have missing cells"
    return finished(ax, xlabel=text if len(names) > 1 else few)


def missing_predictors(frame: Any, *, ax: "Axes | None" = None) -> "Figure":
    """What says that a cell is missing: the association of each column with each gap.

    Where nothing does, cells are missing as if at random; where another column does, imputation
    corrects for it. That the missing value itself does cannot be seen in any table.

    Args:
        frame: a pandas, polars or pyarrow frame, or an array.
        ax: axes to draw into; by default those of a new figure.
    """
    columns = columns_of(frame)
    found = missing_associations(columns)
    rows = np.flatnonzero(missing_cells(columns).any(axis=0))
    by = np.flatnonzero(np.isfinite(found).any(axis=0))
    ax = axes(ax, _width(len(by)) + 1, _height(len(rows), 1.6))
    _heat(ax, found[np.ix_(rows, by)], cmap=_from_grey_to_blue(), low=0.0)
    _names_below_and_beside(ax, [columns[i].name for i in by], [columns[i].name for i in rows])
    text = "depends on the value of this one: rank correlation or Cramér's V"
    return finished(ax, ylabel="whether this is missing", xlabel=text)


def _width(n_columns: int) -> float:
    return min(max(0.55 * n_columns + 1, 4.0), 16.0)


def _height(n_lines: int, extra: float = 0.7) -> float:
    return min(0.28 * n_lines + extra, 20.0)


def _names_above(ax: "Axes", names: list[str]) -> None:
    ax.set_xticks(
        np.arange(len(names)),
        [short(n) for n in names],
        rotation=45,
        ha="left",
        rotation_mode="anchor",
    )
    ax.xaxis.tick_top()


def _names_below_and_beside(ax: "Axes", below: list[str], beside: list[str]) -> None:
    ax.set_xticks(
        np.arange(len(below)),
        [short(n) for n in below],
        rotation=45,
        ha="right",
        rotation_mode="anchor",
    )
    ax.set_yticks(np.arange(len(beside)), [short(n) for n in beside])


def _from_blue_to_red() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("missing", [OBSERVED, IMPUTED])


def _from_grey_to_blue() -> Any:
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("strength", ["#edf0f4", OBSERVED])


def _legend_below(ax: "Axes") -> None:
    """What the two colours mean: between the axes and their label, since names stand above."""
    from matplotlib.patches import Patch

    handles = [Patch(color=OBSERVED, label="observed"), Patch(color=IMPUTED, label="missing")]
    legend(ax, handles, loc="upper center", bbox_to_anchor=(0.5, 0.0), ncols=2)
    ax.xaxis.labelpad = 20  # the height of the legend


def _tiles(ax: "Axes", missing: Bool[np.ndarray, "P C"]) -> None:
    """A grid of cells with white gaps."""
    ax.imshow(missing, cmap=_from_blue_to_red(), vmin=0, vmax=1, aspect="auto")
    _gaps_between_cells(ax, missing.shape)


def _gaps_between_cells(ax: "Axes", shape: tuple[int, ...]) -> None:
    n_rows, n_columns = shape
    ax.vlines(np.arange(n_columns - 1) + 0.5, -0.5, n_rows - 0.5, color="white", lw=2)
    ax.hlines(np.arange(n_rows - 1) + 0.5, -0.5, n_columns - 0.5, color="white", lw=2)


def _heat(ax: "Axes", values: Float[np.ndarray, "A B"], *, cmap: Any, low: float) -> None:
    """A heat map with its numbers written into it, but for zeros."""
    if values.size:
        ax.imshow(values, cmap=cmap, vmin=low, vmax=1, aspect="auto")
        _gaps_between_cells(ax, values.shape)
    for i, j in zip(*np.nonzero(np.abs(np.nan_to_num(values)) >= 0.05), strict=True):
        dark = abs(values[i, j]) > 0.6
        text = f"{values[i, j]:.1f}"
        ax.text(j, i, text, ha="center", va="center", fontsize=8.5, color="white" if dark else INK)
    without_frame(ax)
