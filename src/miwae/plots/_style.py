"""What all plots share: colours, axes, tables read as columns."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from miwae import frames
from miwae._extras import extra
from miwae.columns import Column, seconds_text, stored_text
from miwae.errors import SettingsError

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Blue and red as in R's mice, but of different lightness, for print and for the colour-blind.
OBSERVED, IMPUTED = "#0b4f9c", "#ee6a50"
PALE, INK = "#dbe4ee", "#333333"

# Names longer than this are cut, as in a narrow column of a table.
LONGEST = 22


def axes(ax: "Axes | None", width: float = 5.5, height: float = 3.4) -> "Axes":
    """The axes to draw into: those that were given, or the only ones of a new figure."""
    if ax is None:
        extra("matplotlib.figure")
        from matplotlib.figure import Figure

        ax = Figure(figsize=(width, height), layout="constrained", dpi=120).subplots()
    ax.spines[["top", "right"]].set_visible(False)
    ax.spines[["left", "bottom"]].set_color("#999999")
    ax.tick_params(colors=INK, labelsize=9, length=3, color="#999999")
    ax.title.set_fontsize(11)
    return ax


def finished(ax: "Axes", **texts: Any) -> "Figure":
    """The figure of axes that have been drawn, with their title and labels."""
    ax.set(**texts)
    ax.xaxis.label.set_fontsize(10)
    ax.yaxis.label.set_fontsize(10)
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def without_frame(ax: "Axes") -> None:
    ax.spines[:].set_visible(False)
    ax.tick_params(length=0)


def legend(ax: "Axes", handles: Sequence[Any], **where: Any) -> None:
    """A legend, above the axes unless it is put elsewhere."""
    above = {"loc": "lower center", "bbox_to_anchor": (0.5, 1.0), "ncols": len(handles)}
    ax.legend(handles=list(handles), frameon=False, fontsize=9, **(where or above))


def short(name: Any) -> str:
    """A name as a label: cut if long, and never read as mathematics."""
    text = " ".join(str(name).split())
    text = text if len(text) <= LONGEST else f"{text[: LONGEST - 1]}…"
    return text.replace("$", r"\$")


def label_of(column: Column, value: Any) -> str:
    """A value of a column as a label."""
    return short(stored_text(value, column.storage))


def columns_of(frame: Any) -> list[Column]:
    """The columns of a frame of any library, or of an array."""
    return list(frames.columns(frames.as_frame(frame), ()))


def column_of(columns: Sequence[Column], name: Any) -> int:
    """The position of a column, by name, or by number in an array.

    Raises:
        SettingsError: there is no such column.
    """
    names = [column.name for column in columns]
    if str(name) in names:
        return names.index(str(name))
    raise SettingsError(f"there is no column {name!r}: the table has {', '.join(names)}")


def show_times(axis: Any, column: Column) -> None:
    """Dates and times along an axis of seconds."""
    if column.storage in ("time", "duration", "clock"):
        text = lambda x, _: seconds_text(x, column.storage).removesuffix(" 00:00:00")  # noqa: E731
        axis.set_major_formatter(text)
        axis.set_major_locator(_few())


def _few() -> Any:
    from matplotlib.ticker import MaxNLocator

    return MaxNLocator(4)
