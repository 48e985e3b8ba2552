"""What progress looks like, moment by moment, by a clock that the tests set."""

import io
import math
import re

import pytest
from rich.console import Console

from miwae._progress import Display, Progressor, progressor
from miwae.training import TrainingProgress

BAR = re.compile(" *[━╸╺]+$")


class Shown:
    """A display of some width with a clock; it is drawn when asked, as a terminal would do."""

    def __init__(self, width=80):
        self.now, self.file = 0.0, io.StringIO()
        self.console = Console(file=self.file, width=width)
        self.display = Display(self.console, clock=lambda: self.now)

    def training(self, *args, **options):
        callback = Progressor(self.display).training(*args, **options)
        assert callback is not None
        return callback

    def rows(self, what):
        callback = Progressor(self.display).rows(what)
        assert callback is not None
        return callback

    def lines(self):
        drawing = Console(width=self.console.width)
        with drawing.capture() as drawn:
            drawing.print(self.display.drawn())
        lines = drawn.get().splitlines()
        assert all(len(line) <= self.console.width for line in lines)
        return [line.rstrip() for line in lines]

    def texts(self):
        return [BAR.sub("", line) for line in self.lines()]

    def printed(self):
        return self.file.getvalue().splitlines()


def train(callback, phase, step, most):
    callback(TrainingProgress(phase, step, most, None))


def test_compilation_shows_how_long_it_has_taken():
    shown = Shown()
    shown.training(0, 1)
    shown.now = 8.9
    assert shown.texts() == ["compiling 0:08 so far"]


def test_the_time_left_is_unknown_until_there_is_a_speed():
    shown = Shown()
    callback = shown.training(0, 1, latest=math.inf)
    shown.now = 8.0
    train(callback, "training", 25, 1_000)
    assert shown.texts() == ["compiling done in 0:08", "training  25/1,000 steps, 0:00 so far"]
    shown.now = 9.0
    assert shown.texts()[1] == "training  25/1,000 steps, 0:01 so far"
    train(callback, "training", 50, 1_000)
    # 25 steps per second since the first report: compilation does not count.
    assert shown.texts()[1] == "training  50/1,000 steps, at most 0:38 left"
    shown.now = 12.0
    assert shown.texts()[1] == "training  50/1,000 steps, at most 0:35 left"


def test_an_estimate_that_has_run_out_is_not_shown():
    shown = Shown()
    report = shown.rows("imputing")
    report(10, 40)
    shown.now = 1.0
    report(30, 40)
    assert shown.texts() == ["imputing  30/40 rows, 0:01 left"]
    shown.now = 3.0
    assert shown.texts() == ["imputing  30/40 rows, 0:03 so far"]


@pytest.mark.parametrize(("latest", "left"), [(None, "0:38"), (math.inf, "at most 0:38")])
def test_at_most_is_said_where_training_may_stop_early(latest, left):
    shown = Shown()
    callback = shown.training(0, 1, latest=latest)
    for shown.now, step in ((8.0, 25), (9.0, 50)):
        train(callback, "training", step, 1_000)
    assert shown.texts()[1] == f"training  50/1,000 steps, {left} left"
    for shown.now, step in ((10.0, 5), (11.0, 10)):
        train(callback, "finishing", step, 30)
    assert shown.texts()[2] == "finishing 10/30 steps, 0:04 left"


def test_a_time_limit_bounds_the_time_left():
    shown = Shown()
    callback = shown.training(0, 1, latest=20.0)
    for shown.now, step in ((8.0, 25), (9.0, 50)):
        train(callback, "training", step, 1_000)
        left = 20 - int(shown.now)
        assert shown.texts()[1].endswith(f"steps, at most 0:{left} left")


def test_training_that_stops_early_keeps_its_total():
    shown = Shown()
    callback = shown.training(0, 1, latest=math.inf)
    for shown.now, step in ((8.0, 25), (18.0, 302)):
        train(callback, "training", step, 1_000)
    for shown.now, step in ((19.0, 5), (20.0, 15)):
        train(callback, "finishing", step, 15)
    train(callback, "done", 15, 1_000)
    assert shown.lines() == [
        "compiling done in 0:08",
        "training  302/1,000 steps, stopped early, 0:11",
        "finishing 15 steps, done in 0:01",
    ]


def test_training_that_takes_all_steps_has_not_stopped_early():
    shown = Shown()
    callback = shown.training(0, 1, latest=math.inf)
    train(callback, "training", 1_000, 1_000)
    assert shown.texts()[1] == "training  1,000 steps, done in 0:00"


def test_a_new_phase_needs_only_its_name():
    shown = Shown()
    callback = shown.training(0, 1)
    for phase in ("training", "finishing", "polishing"):
        train(callback, phase, 10, 10)
    for phase in ("imputing", "refining"):
        shown.rows(phase)(7, 7)
    assert shown.lines()[3:] == [
        "polishing 10 steps, done in 0:00",
        "imputing  7 rows, done in 0:00",
        "refining  7 rows, done in 0:00",
    ]


def two_models(shown):
    """Trained side by side, of which the second stops early and finishes first."""
    first, second = (shown.training(i, 2, latest=math.inf) for i in range(2))
    yield
    for shown.now, steps in ((8.0, 1_000), (18.0, 2_000)):
        train(first, "training", steps, 11_000)
        train(second, "training", steps, 11_000)
    yield
    for shown.now, steps in ((19.0, 100), (20.0, 200)):
        train(second, "finishing", steps, 600)
    yield
    train(second, "finishing", 600, 600)
    train(second, "done", 600, 11_000)
    shown.now = 60.0
    train(first, "training", 6_000, 11_000)
    yield
    for shown.now, steps in ((61.0, 500), (62.0, 1_800)):
        train(first, "finishing", steps, 1_800)
    train(first, "done", 1_800, 11_000)
    yield


MOMENTS = [
    ["compiling 2 models, 0:00 so far"],
    [
        "compiling 2 models, done in 0:08",
        "training  4,000/22,000 steps, 2 models, at most 1:30 left",
    ],
    [
        "compiling 2 models, done in 0:08",
        "training  4,000/22,000 steps, 2 models, at most 1:28 left",
        # The number of steps of the other model is not known yet.
        "finishing 200/600 steps, 1 of 2 models, 0:01 so far",
    ],
    [
        "compiling 2 models, done in 0:08",
        "training  8,000/22,000 steps, 2 models, at most 0:52 left",
        "finishing 600 steps, 1 of 2 models, 0:01 so far",
    ],
    [
        "compiling 2 models, done in 0:08",
        "training  8,000/22,000 steps, 2 models, stopped early, 0:53",
        "finishing 2,400 steps, 2 models, done in 0:02",
    ],
]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_models_trained_side_by_side_share_the_line_of_a_phase(width):
    shown = Shown(width)
    for _, expected in zip(two_models(shown), MOMENTS, strict=True):
        assert shown.texts() == expected


def test_a_bar_is_drawn_where_there_is_room():
    # Without colours only the filled part is drawn: 2 elevenths of 22 and of 40 characters.
    for width, length in ((60, 0), (80, 4), (120, 7)):
        shown = Shown(width)
        moments = two_models(shown)
        next(moments)
        next(moments)
        bar = BAR.search(shown.lines()[1])
        assert len(bar[0].strip() if bar else "") == length


@pytest.mark.parametrize("width", [30, 40, 45, 50])
def test_on_narrow_terminals_no_total_is_cut_off(width):
    shown = Shown(width)
    for _ in two_models(shown):
        assert not any("…" in line for line in shown.lines())
    assert shown.texts()[1].startswith("training  8,000/22,000 steps")
    assert ("stopped early" in shown.texts()[1]) == (width > 42)


def test_hours_are_written_as_such():
    shown = Shown(60)
    report = shown.rows("imputing")
    for shown.now, done in ((0.0, 1_000), (100.0, 11_000)):
        report(done, 1_011_000)
    assert shown.texts() == ["imputing  11,000/1,011,000 rows, 2:46:40 left"]


def test_without_a_terminal_each_phase_is_one_line_at_its_end():
    shown = Shown()
    callback = shown.training(0, 1, latest=math.inf)
    for step in range(25, 300, 25):
        shown.now += 0.5
        train(callback, "training", step, 1_000)
    assert shown.printed() == ["compiling done in 0:00"]
    train(callback, "done", 275, 1_000)
    report = shown.rows("imputing")
    for done in range(101):
        report(done, 100)
    shown.display.close(ended=True)
    assert shown.printed() == [
        "compiling done in 0:00",
        "training  275/1,000 steps, stopped early, 0:05",
        "imputing  100 rows, done in 0:00",
    ]


def test_without_a_terminal_a_long_phase_says_once_how_long_it_will_take():
    shown = Shown()
    report = shown.rows("imputing")
    for done in range(0, 1_001, 10):
        report(done, 1_000)
        shown.now += 1.0
    shown.display.close(ended=True)
    assert shown.printed() == [
        "imputing  100/1,000 rows, 1:30 left",
        "imputing  1,000 rows, done in 1:40",
    ]


def test_work_that_fails_is_not_shown_as_done():
    shown = Shown()
    callback = shown.training(0, 1, latest=math.inf)
    for shown.now, step in ((1.0, 100), (2.0, 200)):
        train(callback, "training", step, 1_000)
    shown.display.close(ended=False)
    assert shown.lines()[1] == "training  200/1,000 steps, 0:01 so far"
    assert shown.printed()[1] == "training  200/1,000 steps, 0:01 so far"


def test_models_that_stay_linear_end_with_their_only_phase():
    shown = Shown()
    for member in range(2):
        shown.training(member, 2)
    shown.display.close(ended=True)
    assert shown.lines() == ["compiling 2 models, done in 0:00"]


def test_nothing_is_printed_where_nothing_is_done(capfd):
    with progressor(True):
        pass
    with progressor(False) as silent:
        assert silent.training(0, 2) is None
        assert silent.rows("imputing") is None
    assert capfd.readouterr() == ("", "")
