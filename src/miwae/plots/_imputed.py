"""Observed cells against imputed ones: densities, strips and bars, overall and by group."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from miwae._words import counted
from miwae.columns import Column, density_curve, level_shares, plain_values, visible_range
from miwae.errors import DataError, SettingsError
from miwae.plots._style import (
    IMPUTED,
    OBSERVED,
    axes,
    column_of,
    columns_of,
    finished,
    label_of,
    legend,
    short,
    show_times,
    without_frame,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

MOST_COPIES = 20  # that a strip or a density shows
MOST_LEVELS = 15  # that bars show
DASHES = (0, (5, 1.5))
HATCHED: dict[str, Any] = {"facecolor": IMPUTED, "hatch": "////", "edgecolor": "white", "lw": 0}


class _Group(NamedTuple):
    """Cells of a column in some rows: observed, and imputed in each copy."""

    label: str
    observed: np.ndarray
    imputed: list[np.ndarray]


def density(
    frame: Any, completed: Any, column: Any, *, by: Any = None, ax: "Axes | None" = None
) -> "Figure":
    """The density of the observed cells of a column, and of the imputed ones in each copy.

    The two need not agree: cells are often missing where values are unusual. Look for imputed
    values where no value can be.

    Args:
        frame: the incomplete table.
        completed: the completed table, or several copies of it (`imputer.sample(frame)`).
        column: a column of numbers or times.
        by: a column; one pair of densities for each of its values.
        ax: axes to draw into; by default those of a new figure.
    """
    own, groups = _groups(frame, completed, column, by)
    _require_numbers(own)
    everything = np.concatenate([v for g in groups for v in (g.observed, *g.imputed)])
    low, high = visible_range(everything)
    ax = axes(ax, 5.5, max(3.2, 0.4 + 0.85 * len(groups)))
    for place, group in enumerate(groups):
        _ridge(ax, group, low, high, base=-float(place), alone=len(groups) == 1)
    if len(groups) > 1:
        ax.set_yticks(-np.arange(len(groups)), [group.label for group in groups])
        ax.spines["left"].set_visible(False)
        ax.tick_params(axis="y", length=0)
    else:
        ax.set_ylim(bottom=0)
        ax.set_yticks([])
        ax.spines["left"].set_visible(False)
    ax.set_xlim(low, high)
    show_times(ax.xaxis, own)
    n_beyond = int(np.count_nonzero((everything < low) | (everything > high)))
    beyond = f"  ({counted(n_beyond, 'cell')} beyond the axis)" if n_beyond else ""
    _legend_of_areas(ax, groups)
    return finished(ax, xlabel=short(own.name) + beyond, ylabel=_by(by))


def strip(
    frame: Any, completed: Any, column: Any, *, by: Any = None, ax: "Axes | None" = None
) -> "Figure":
    """The observed cells of a column, and the imputed ones of each copy beside them, as points.

    Args:
        frame: the incomplete table.
        completed: the completed table, or several copies of it (`imputer.sample(frame)`).
        column: a column of numbers or times.
        by: a column; observed and imputed cells side by side for each of its values.
        ax: axes to draw into; by default those of a new figure.
    """
    own, groups = _groups(frame, completed, column, by)
    _require_numbers(own)
    labels, rng = [], np.random.default_rng(0)
    n_lanes = sum(1 + len(group.imputed) for group in groups)
    per_lane = 0.45 if by is None else 0.85
    ax = axes(ax, min(max(4.5, per_lane * n_lanes + 1.5), 12), 3.6)
    for group in groups:
        for number, values in enumerate((group.observed, *group.imputed)):
            style: dict[str, Any] = _DOTS[number > 0] | {"alpha": _opacity(len(values))}
            lane = len(labels)
            ax.plot(lane + _spread(rng, len(values)), values, ls="", **style)
            labels.append(_lane_label(group, number))
    ax.set_xticks(np.arange(len(labels)), labels)
    ax.set_xlim(-0.6, len(labels) - 0.4)
    show_times(ax.yaxis, own)
    ax.spines["bottom"].set_visible(False)
    ax.tick_params(axis="x", length=0)
    return finished(ax, ylabel=short(own.name), xlabel=_by(by) or _copies_label(groups))


def bars(
    frame: Any, completed: Any, column: Any, *, by: Any = None, ax: "Axes | None" = None
) -> "Figure":
    """How often each value of a column occurs among its observed and its imputed cells.

    Of several copies, the bar is their mean and the line its range over the copies.

    Args:
        frame: the incomplete table.
        completed: the completed table, or several copies of it (`imputer.sample(frame)`).
        column: a column of categories, or of numbers that take few values.
        by: a column; shares within each of its values.
        ax: axes to draw into; by default those of a new figure.
    """
    own, groups = _groups(frame, completed, column, by)
    together = [np.concatenate([g.observed for g in groups])]
    together += [np.concatenate(copy) for copy in zip(*(g.imputed for g in groups), strict=True)]
    declared = own.levels if own.storage == "category" else ()
    levels = level_shares(together[0], together[1:], declared).levels
    n_shown = min(len(levels), MOST_LEVELS)
    ax = axes(ax, 5.5, 0.8 + 0.42 * len(groups) * (n_shown + (by is not None)))
    places, labels, place = [], [], 0.0
    for group in groups:
        shares = level_shares(group.observed, group.imputed, levels)
        if by is not None:
            text = f"{_by(by)} = {group.label}"
            ax.text(0, place, text, va="center", fontsize=9, weight="bold")
            place += 0.9
        for i, level in enumerate(levels[:MOST_LEVELS]):
            _pair(ax, place, shares.observed[i], shares.imputed[:, i])
            places.append(place)
            labels.append(label_of(own, level))
            place += 1.0
    ax.set_yticks(places, labels)
    ax.set_ylim(place - 0.4, -0.6)
    ax.xaxis.set_major_formatter(lambda x, _: f"{x:.0%}")
    without_frame(ax)
    _legend_of_bars(ax)
    left = len(levels) - n_shown
    hidden = counted(left, "more value is", "more values are")
    more = f" ({hidden} not shown)" if left else ""
    return finished(ax, xlabel=f"share of the cells of {short(column)}{more}")


_DOTS: tuple[dict[str, Any], ...] = (
    {"marker": "o", "ms": 4, "mfc": OBSERVED, "mec": "none"},
    {"marker": "^", "ms": 4.5, "mfc": "none", "mec": IMPUTED, "mew": 1.1},
)


def _groups(frame: Any, completed: Any, name: Any, by: Any) -> tuple[Column, list[_Group]]:
    """A column of the incomplete table, and its cells by group."""
    columns = columns_of(frame)
    place = column_of(columns, name)
    own = columns[place]
    several = isinstance(completed, Sequence) and not isinstance(completed, np.ndarray)
    copies = list(completed)[:MOST_COPIES] if several else [completed]
    filled = [_filled(copy, own) for copy in copies]
    if not own.n_observed:
        raise DataError(f"column {own.name!r} has no observed cell to compare with")
    groups = []
    for label, rows in _rows_by(columns, by):
        observed = plain_values(own, rows & ~own.missing)
        imputed = [plain_values(copy, rows & own.missing & ~copy.missing) for copy in filled]
        if len(observed):
            groups.append(_Group(label, observed, imputed))
    return own, groups


def _filled(copy: Any, own: Column) -> Column:
    columns = columns_of(copy)
    column = columns[column_of(columns, own.name)]
    if len(column.missing) != len(own.missing):
        n_rows = f"{len(own.missing)} rows, the completed one {len(column.missing)}"
        raise DataError(f"the incomplete table has {n_rows}: give both tables of one imputation")
    return column


def _rows_by(columns: Sequence[Column], by: Any) -> Iterator[tuple[str, np.ndarray]]:
    if by is None:
        yield "", np.ones(len(columns[0].missing), dtype=bool)
        return
    groups = columns[column_of(columns, by)]
    found, counts = np.unique(groups.observed_values, return_counts=True)
    if len(found) > MOST_LEVELS:
        raise SettingsError(
            f"by={by!r} has {len(found)} values: cut it into at most {MOST_LEVELS} groups"
        )
    for value in found:
        label = groups.levels[int(value)] if groups.levels else float(value)
        yield label_of(groups, label), ~groups.missing & (groups.values == value)


def _require_numbers(column: Column) -> None:
    if column.storage in ("text", "category", "boolean", "other"):
        raise SettingsError(f"column {column.name!r} holds no numbers: use plots.bars")


def _ridge(
    ax: "Axes", group: _Group, low: float, high: float, *, base: float, alone: bool
) -> None:
    """The densities of a group: observed as an area, each copy as a line."""
    curves = [density_curve(v, low, high) for v in (group.observed, *group.imputed) if len(v) > 1]
    top = max((curve[1].max() for curve in curves), default=1.0)
    scale = 1.0 if alone else 0.85 / top
    x, height = curves[0] if len(group.observed) > 1 else np.zeros((2, 1))
    ax.fill_between(x, base, base + scale * height, color=OBSERVED, alpha=0.25, lw=0)
    ax.plot(x, base + scale * height, color=OBSERVED, lw=1.6)
    for x, height in curves[1:]:
        ax.plot(x, base + scale * height, color=IMPUTED, **_line(len(group.imputed)))
    if not alone:
        ax.axhline(base, color="#bbbbbb", lw=0.6, zorder=0)
    for values in group.imputed[:1]:
        if len(values) <= 30:  # so few that a density hides them
            ax.plot(values, np.full(len(values), base), ls="", clip_on=False, zorder=5, **_DOTS[1])


def _line(n_copies: int) -> dict[str, Any]:
    """A line of dashes; many of them would be a tangle, so copies are thin and whole."""
    return {"lw": 1.8, "ls": DASHES} if n_copies == 1 else {"lw": 0.8, "alpha": 0.8}


def _pair(ax: "Axes", place: float, observed: float, imputed: np.ndarray) -> None:
    """Two bars, and the range of the second over copies."""
    ax.barh(place - 0.19, observed, height=0.36, color=OBSERVED)
    ax.barh(place + 0.19, imputed.mean(), height=0.36, **HATCHED)
    if len(imputed) > 1:
        ax.plot([imputed.min(), imputed.max()], [place + 0.19] * 2, color="#222222", lw=1.2)


def _spread(rng: np.random.Generator, n: int) -> np.ndarray:
    return rng.uniform(-0.28, 0.28, n)


def _opacity(n: int) -> float:
    return float(np.clip(30 / np.sqrt(max(n, 1)) / 2, 0.15, 0.9))


def _lane_label(group: _Group, number: int) -> str:
    several = len(group.imputed) > 1
    which = "observed" if not number else str(number) if several else "imputed"
    return f"{group.label}\n{which}" if group.label else which


def _copies_label(groups: Sequence[_Group]) -> str:
    return "observed, and copies" if len(groups[0].imputed) > 1 else ""


def _by(by: Any) -> str:
    return "" if by is None else short(by)


def _legend_of_areas(ax: "Axes", groups: Sequence[_Group]) -> None:
    from matplotlib.lines import Line2D
    from matplotlib.patches import Patch

    n_observed = sum(len(group.observed) for group in groups)
    n_imputed = sum(len(group.imputed[0]) for group in groups)
    m = len(groups[0].imputed)
    copies = f" in each of {m} copies" if m > 1 else ""
    area = Patch(fc=(*_rgb(OBSERVED), 0.25), ec=OBSERVED, label=f"{n_observed:,} observed")
    line = Line2D([], [], color=IMPUTED, label=f"{n_imputed:,} imputed{copies}", **_line(m))
    legend(ax, [area, line])


def _legend_of_bars(ax: "Axes") -> None:
    from matplotlib.patches import Patch

    observed = Patch(color=OBSERVED, label="observed")
    imputed = Patch(**HATCHED, label="imputed")
    legend(ax, [observed, imputed])


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)
