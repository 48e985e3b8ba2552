"""Progress as users see it: the screen of a terminal of some width, and a log file."""

import os
import pty
import re
import select
import subprocess
import sys
import termios
from typing import NamedTuple

import pyte
import pytest

from cli.runs import cells, curved_table, run_alone, succeeded, written

# Programs as users have them: these runs train for long, and share their programs on disk.
FAST = {"XLA_FLAGS": ""}

HEIGHT = 150  # so that nothing scrolls away
PHASES = ("compiling", "training", "finishing", "imputing")

TIME = r"\d+:\d\d"
STEPS = r"(?P<done>[\d,]+)(/(?P<total>[\d,]+))? (steps|rows)"
MODELS = "(1 of )?2 models"
STATE = f"(at most )?{TIME} left|{TIME} so far|done in {TIME}|stopped early, {TIME}"
LINE = re.compile(
    rf"(?P<phase>\w+) +({STEPS}, )?({MODELS}, )?(?P<state>{STATE})(?P<bar> +[━╸╺]+)?"
)

TABLE = b"\n".join(curved_table().splitlines()[:81]) + b"\n"


class Session(NamedTuple):
    moments: list[list[str]]  # the lines of progress on the screen, whenever they changed
    screen: list[str]  # at the end


def on_terminal(width: int, *arguments: str) -> Session:
    """Run a command with all its streams on a terminal, and read the screen meanwhile."""
    ours, theirs = pty.openpty()
    termios.tcsetwinsize(theirs, (HEIGHT, width))
    screen, moments = pyte.Screen(width, HEIGHT), []
    stream = pyte.ByteStream(screen)
    command = [sys.executable, "-m", "miwae", *arguments]
    streams = {"stdin": theirs, "stdout": theirs, "stderr": theirs}
    process = subprocess.Popen(command, env={**os.environ, **FAST, "TERM": "xterm"}, **streams)
    os.close(theirs)
    while True:
        # A frame may arrive in pieces: the screen is read when nothing has come for a while.
        if not select.select([ours], [], [], 0.03)[0]:
            lines = [line.rstrip() for line in screen.display]
            now = [line for line in lines if line.startswith(PHASES)]
            if not moments or moments[-1] != now:
                moments.append(now)
        try:
            stream.feed(os.read(ours, 65536))
        except OSError:  # all have closed the other end
            break
    os.close(ours)
    lines = [line.rstrip() for line in screen.display]
    assert process.wait() == 0, lines
    return Session(moments, lines)


@pytest.fixture(scope="module", params=[60, 120])
def session(request, tmp_path_factory) -> Session:
    table = written(tmp_path_factory.mktemp("progress") / "in.csv", TABLE)
    return on_terminal(request.param, "impute", str(table))


def number(text: str) -> int:
    return int(text.replace(",", ""))


def test_each_phase_is_one_whole_line_at_every_moment(session):
    for lines in session.moments:
        read = [LINE.fullmatch(line) for line in lines]
        assert all(read), lines
        phases = [match["phase"] for match in read if match]
        assert phases == [phase for phase in PHASES if phase in phases]


def test_the_time_left_is_given_once_and_as_a_bound_in_training(session):
    seen = [line for lines in session.moments for line in lines if " left" in line]
    training = [line for line in seen if line.startswith("training")]
    assert training
    assert all(line.count(":") == 1 and " 0:00 left" not in line for line in seen)
    assert all("at most" in line for line in training)
    assert not any("at most" in line for line in seen if line not in training)


def test_steps_are_those_that_were_taken(session):
    """As the events of the run say them."""
    (line,) = [line for line in session.screen if line.startswith("training")]
    said = re.findall(r"stopped after (\d+) steps", "".join(session.screen))
    match = LINE.fullmatch(line)
    assert match is not None
    taken = sum(map(int, said)) * (2 // len(said))  # one event if both models stopped alike
    assert number(match["done"]) == taken
    assert match["state"].startswith("done in" if match["total"] is None else "stopped early")


def test_progress_is_not_drawn_into_the_table(session):
    """Which is written to the same terminal."""
    first = session.screen.index("a,b,c")
    assert all(
        re.fullmatch(r"[-.\d]+(,[-.\d]+){2}", line) for line in session.screen[first + 1 :][:80]
    )
    assert not any(line.startswith(PHASES) for line in session.screen[first:])


def test_without_a_terminal_there_are_few_and_plain_lines(tmp_path):
    table = written(tmp_path / "in.csv", TABLE)
    run = succeeded(run_alone("impute", table, **FAST))
    assert len(cells(run.stdout)) == 81
    assert run.stderr.replace("\n", "").isprintable()
    lines = [line for line in run.stderr.splitlines() if line.startswith(PHASES)]
    matches = [LINE.fullmatch(line) for line in lines]
    assert all(matches), lines
    ends = [m["phase"] for m in matches if m and m["state"].startswith(("done", "stopped"))]
    assert ends == list(PHASES)
    assert all(sum(line.startswith(phase) for line in lines) <= 2 for phase in PHASES)
