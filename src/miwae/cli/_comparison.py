"""How methods compare: one table for each file, or a picture."""

from typing import TYPE_CHECKING, Any, NamedTuple

from rich.console import Console

from miwae._atomic import require_directory, write_atomically
from miwae._extras import extra
from miwae._words import counted
from miwae.cli._report import view_of
from miwae.cli._visible import say
from miwae.errors import SettingsError

if TYPE_CHECKING:
    from miwae.evaluation import Standing, Summary

OURS = "miwae"


class Comparison(NamedTuple):
    source: str
    names: tuple[str, ...]  # of the columns that were compared
    summaries: "list[Summary]"  # the most accurate first
    records: list[dict[str, Any]]
    standings: "list[Standing]"  # of our method; none where it was not compared

    def as_data(self) -> dict[str, Any]:
        return {
            "file": self.source,
            "columns": list(self.names),
            "methods": [summary._asdict() for summary in self.summaries],
            "records": self.records,
            "standings": [standing._asdict() for standing in self.standings],
        }


def report_record(record: dict[str, Any], n_masks: int) -> None:
    parts = [f"{name} {record[name]:.4f}" for name in ("mse", "accuracy") if name in record]
    result = record.get("error") or ", ".join(parts)
    say(
        f"{record['data']}  mask {record['mask'] + 1} of {n_masks}  {record['method']}: {result} "
        f"({record['seconds']:.1f} s)"
    )


# What is shown of each method, where it was measured: title, field, format.
SHOWN = (
    ("squared error", "mse", ".3f"),
    ("absolute error", "mae", ".3f"),
    ("CRPS", "crps", ".3f"),
    ("right categories", "accuracy", ".1%"),
    ("log-loss", "log_loss", ".3f"),
    ("seconds", "seconds", ".1f"),
)


def print_comparisons(console: Console, compared: list[Comparison]) -> None:
    for comparison in compared:
        lines = comparison.summaries
        shown = [t for t in SHOWN if any(getattr(line, t[1]) is not None for line in lines)]
        title = f"{comparison.source}: {counted(len(comparison.names), 'column')}"
        view = view_of(["method"], [name for name, *_ in shown], title)
        for line in lines:
            view.add_row(line.method, *(_shown(line, name, form) for _, name, form in shown))
        console.print(view)
        for line in lines:
            if line.error is not None:
                console.print(f"{line.method} failed: {line.error}", soft_wrap=True)
        console.print("Errors on hidden cells, in units of the deviations of their columns.")
        for standing in comparison.standings:
            console.print(_verdict(standing), soft_wrap=True)
        console.print()


def _verdict(own: "Standing") -> str:
    """Whether another method does as well on this table, in a sentence."""
    numbers = f"({own.best:.3g} against {own.error:.3g})"
    parts = [
        f"{', '.join(names)} {'is' if len(names) == 1 else 'are'} {how} {OURS}"
        for names, how in ((own.better, "better than"), (own.as_good, "as good as"))
        if names
    ]
    what = "; ".join(parts) or f"{OURS} is better than all others"
    return f"{own.measure}: on this table {what} {numbers}."


def _shown(line: "Summary", name: str, form: str) -> str:
    values = [getattr(line, name), line.mse_deviation if name == "mse" else None]
    return " ± ".join(f"{value:{form}}" for value in values if value is not None)


def require_plots(path: str) -> None:
    """Find out before long work whether there can be a picture."""
    extra("matplotlib")
    if not path.endswith((".png", ".svg", ".pdf")):
        raise SettingsError(f"--plot {path}: the name must end in .png, .svg or .pdf")
    require_directory(path)


def plot_comparisons(compared: list[Comparison], path: str) -> None:
    """Squared error with its deviation over masks, or wrong categories; a panel for each file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6, 0.6 + 2.6 * len(compared)), layout="constrained")
    panels = figure.subplots(len(compared), 1, squeeze=False)[:, 0]
    for panel, comparison in zip(panels, compared, strict=True):
        lines = [line for line in comparison.summaries if line.n_masks][::-1]
        names = [f"{line.method} ({line.seconds:.0f} s)" for line in lines]
        colours = ["C3" if line.method == "miwae" else "0.65" for line in lines]
        if any(line.mse is not None for line in lines):
            spread = [line.mse_deviation or 0.0 for line in lines]
            panel.barh(names, [line.mse for line in lines], xerr=spread, color=colours, capsize=3)
            panel.set(title=comparison.source, xlabel="squared error on hidden cells")
        else:  # a table of categories
            panel.barh(names, [1 - (line.accuracy or 0.0) for line in lines], color=colours)
            panel.set(title=comparison.source, xlabel="share of wrong categories, hidden cells")
        panel.spines[["top", "right"]].set_visible(False)
    write_atomically(path, lambda file: figure.savefig(file, format=path[-3:], dpi=150))
