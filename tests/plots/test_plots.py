"""What plots show: read from the axes that they have drawn."""

import datetime
import sys
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure

from miwae import DataError, SettingsError, plots
from miwae.plots._style import IMPUTED, OBSERVED
from miwae.training import TrainingRecord


@pytest.fixture(scope="module")
def tables():
    """An incomplete table, and two completed copies of it."""
    rng = np.random.default_rng(0)
    truth = pd.DataFrame({"x": rng.normal(size=200), "y": rng.normal(5, 1, size=200)})
    truth["word"] = rng.choice(["a", "b", "c $^"], size=200)
    truth["day"] = pd.Timestamp("2024-01-01") + pd.to_timedelta(np.arange(200), unit="D")
    frame = truth.copy()
    for name in ("y", "word", "day"):
        frame.loc[rng.random(200) < 0.2, name] = None
    other = truth.copy()
    other.loc[frame["y"].isna(), "y"] += 1
    return frame, [truth, other]


def texts(ax):
    return [text.get_text() for text in ax.texts]


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


def drawn(figure) -> Any:
    """The only axes of a figure that can be saved."""
    figure.canvas.draw()
    return figure.axes[0]


def lightness(colour):
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot([0.2126, 0.7152, 0.0722], linear))


def test_blue_and_red_are_told_apart_in_grey():
    # The contrast of luminance that WCAG asks of things that are not text is 3.
    contrast = (lightness(IMPUTED) + 0.05) / (lightness(OBSERVED) + 0.05)
    assert contrast > 2.5
    assert to_rgb(OBSERVED)[2] > 0.5 > to_rgb(OBSERVED)[0]
    assert to_rgb(IMPUTED)[0] > 0.9


@pytest.mark.parametrize(
    "plot",
    [
        plots.missing_matrix,
        plots.missing_bars,
        plots.missing_patterns,
        plots.missing_together,
        plots.missing_predictors,
    ],
)
def test_missing_cells_of_every_library_and_axes_of_your_own(plot, tables):
    frame, _ = tables
    ax = Figure().subplots()
    assert plot(frame, ax=ax) is ax.get_figure()
    numbers = frame[["x", "y"]].assign(z=frame["y"]).to_numpy()
    for table in (pl.from_pandas(frame), numbers):
        assert drawn(plot(table)).has_data()
    assert drawn(plot(numbers[:, :1])) is not None  # nothing is missing


def test_numbers_of_missing_cells(tables):
    frame, _ = tables
    n = int(frame["y"].isna().sum())
    assert f"{n} ({n / 200:.1%})" in texts(drawn(plots.missing_bars(frame)))
    total = int(frame.isna().sum().sum())
    assert f"{total} of 800 cells" in drawn(plots.missing_matrix(frame)).get_xlabel()


def test_the_most_frequent_pattern_comes_first(tables):
    frame, _ = tables
    ax = drawn(plots.missing_patterns(frame, most=3))
    complete = int(frame.notna().all(axis=1).sum())
    assert labels(ax.yaxis)[0] == f"{complete} rows"
    assert "rarer patterns" in ax.get_xlabel()


def test_densities_are_of_observed_and_imputed_cells(tables):
    frame, copies = tables
    ax = drawn(plots.density(frame, copies, "y"))
    observed, first, second = ax.lines[:3]
    assert observed.get_color() == OBSERVED
    assert first.get_color() == second.get_color() == IMPUTED
    top = [line.get_xdata()[np.argmax(line.get_ydata())] for line in (first, second)]
    assert top[1] - top[0] == pytest.approx(1, abs=0.4)  # the second copy is higher by one
    n = int(frame["y"].isna().sum())
    assert f"{n} imputed in each of 2 copies" in ax.get_legend().get_texts()[1].get_text()


def test_groups_have_a_line_each(tables):
    frame, (completed, _) = tables
    ax = drawn(plots.density(frame, completed, "y", by="word"))
    assert labels(ax.yaxis) == ["a", "b", r"c \$^"]
    ax = drawn(plots.strip(frame, completed, "y", by="word"))
    assert labels(ax.xaxis)[:2] == ["a\nobserved", "a\nimputed"]


def test_strips_have_all_cells(tables):
    frame, copies = tables
    ax = drawn(plots.strip(frame, copies, "y"))
    n = int(frame["y"].isna().sum())
    assert [len(line.get_xdata()) for line in ax.lines] == [200 - n, n, n]
    assert labels(ax.xaxis) == ["observed", "1", "2"]


def test_bars_are_shares(tables):
    frame, copies = tables
    ax = drawn(plots.bars(frame, copies, "word"))
    widths = [bar.get_width() for bar in ax.patches]
    assert sum(widths) == pytest.approx(2)  # of the observed and of the imputed cells
    share = (frame["word"].dropna() == "a").mean()
    assert any(abs(width - share) < 1e-12 for width in widths)
    by_group = drawn(plots.bars(frame, copies[0], "word", by="word"))
    assert "word = a" in texts(by_group)


def test_flags_are_true_or_false(tables):
    frame, (completed, _) = tables
    flags = lambda table: table.assign(flag=np.arange(200) % 2 == 0)  # noqa: E731
    ax = drawn(plots.bars(flags(frame), flags(completed), "flag"))
    assert labels(ax.yaxis) == ["False", "True"]
    by_flag = drawn(plots.density(flags(frame), flags(completed), "y", by="flag"))
    assert labels(by_flag.yaxis) == ["False", "True"]
    with pytest.raises(SettingsError, match="'flag' holds no numbers"):
        plots.strip(flags(frame), flags(completed), "flag")
    z = np.arange(200.0)[:, None]
    words = drawn(plots.latent(z, flags(frame)["flag"])).get_legend().get_texts()
    assert [word.get_text() for word in words] == ["False", "True"]


def test_dates_are_dates(tables):
    frame, (completed, _) = tables
    ax = drawn(plots.density(frame, completed, "day"))
    assert all(datetime.date.fromisoformat(label[:10]) for label in labels(ax.xaxis))


def test_what_cannot_be_drawn(tables):
    frame, (completed, _) = tables
    with pytest.raises(SettingsError, match="no column 'z': the table has x, y"):
        plots.density(frame, completed, "z")
    with pytest.raises(SettingsError, match=r"'word' holds no numbers: use plots\.bars"):
        plots.density(frame, completed, "word")
    with pytest.raises(DataError, match="200 rows, the completed one 10"):
        plots.strip(frame, completed[:10], "y")
    with pytest.raises(SettingsError, match="at most 15 groups"):
        plots.bars(frame, completed, "word", by="x")
    with pytest.raises(DataError, match="'x' has no observed cell"):
        plots.bars(frame.assign(x=np.nan), completed, "x")


def test_right_intervals_are_calibrated_and_narrow_ones_are_not():
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=400), rng.normal(size=(200, 400))
    right = drawn(plots.calibration(truth, draws)).lines[-1]
    assert np.abs(right.get_xdata() - right.get_ydata()).max() < 0.08
    narrow = drawn(plots.calibration(truth, 0.3 * draws)).lines[-1]
    assert (narrow.get_ydata() < narrow.get_xdata())[5:].all()
    with pytest.raises(DataError, match="one value per hidden cell"):
        plots.calibration(truth, draws[:, :3])


def test_overimputation_counts_what_is_inside():
    truth = np.arange(10.0)
    ax = drawn(plots.overimputation(truth, truth + 0.5, truth - 1, np.where(truth < 8, 20, -5)))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["80% in their interval", "20% outside"]


def test_training_marks_the_state_that_was_kept():
    scores = [-1.0, -0.5, -0.7]
    history = [TrainingRecord(i, -3.0 + i, s, 0.1, 1.0, 1.0) for i, s in enumerate(scores)]
    left, right = plots.training(history).axes
    assert left.lines[0].get_ydata().tolist() == [-3, -2, -1]
    assert right.lines[1].get_xdata() == [1]
    assert len(plots.training([r._replace(log_density=None) for r in history]).axes) == 1
    with pytest.raises(DataError, match="linear start"):
        plots.training([])


def test_weights_count_unreliable_rows():
    k = np.array([0.1, 0.9, np.nan, 0.5])
    ax = drawn(plots.weights(np.array([20.0, 3.0, 0.0, 30.0]), k))
    words = [text.get_text() for text in ax.get_legend().get_texts()]
    assert words == ["2 reliable", "1 unreliable", "limit of 0.7"]
    only_good = drawn(plots.weights([20.0], [0.1])).get_legend().get_texts()
    assert [text.get_text() for text in only_good] == ["1 reliable", "limit of 0.7"]
    with pytest.raises(DataError, match="nothing to impute"):
        plots.weights(np.zeros(3), np.full(3, np.nan))


def test_the_latent_space_is_shown_along_its_widest_directions():
    rng = np.random.default_rng(0)
    z = rng.normal(size=(50, 4)) * [0.1, 5.0, 0.1, 2.0]
    ax = drawn(plots.latent(z, np.where(z[:, 1] > 0, "up", "down")))
    spread = np.concatenate([line.get_xdata() for line in ax.lines])
    assert np.abs(np.corrcoef(np.sort(spread), np.sort(z[:, 1]))[0, 1]) > 0.9
    assert [t.get_text() for t in ax.get_legend().get_texts()] == ["down", "up"]
    assert drawn(plots.latent(z[:, :1], z[:, 1])).has_data()
    with pytest.raises(DataError, match="one value per row"):
        plots.latent(z, np.ones(3))


def test_without_matplotlib_the_remedy_is_named(monkeypatch, tables):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(SettingsError, match=r"pip install 'miwae\[plots\]'"):
        plots.missing_bars(tables[0])
