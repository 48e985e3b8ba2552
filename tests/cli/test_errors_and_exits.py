"""What goes wrong: one line on standard error, an exit code, and no half-written file."""

import os
import signal
import subprocess
import sys
import time
from types import SimpleNamespace
from typing import NamedTuple

import pytest

from cli.runs import CONSTANT, PEOPLE, Run, assert_fails, curved_table, miwae, run_alone, written
from miwae._threads import side_by_side
from miwae.cli import _app
from miwae.documents import open_document, write


@pytest.mark.parametrize(
    ("content", "options", "code", "words"),
    [
        (b"\x00\x01\x02\xff" * 100, "", 1, ("in.csv", "not a text table", "suffix")),
        (b"a,b\n1,2\n1,2,3\n", "", 1, ("in.csv", "line 3 has 3 fields", "correct the line")),
        (b"a,b,a\n1,2,3\n", "", 1, ("in.csv", "'a'", "rename")),
        (b"a,b\n1,2\ninf,3\n", "", 1, ("'a'", "inf", "correct it, or mark it as missing")),
        (b"", "", 1, ("in.csv", "empty")),
        (b"a,b\n", "", 1, ("no rows",)),
        (b'a,b\n1,"2\n', "", 1, ("in.csv", "line 2", "quote")),
        (PEOPLE, "--kind height=tall", 2, ("'height'", "'tall'", "positive, bounded")),
        (PEOPLE, "--kind heigth=positive", 2, ("--kind names", "did you mean 'height'?")),
        (PEOPLE, "--kind colour=count", 1, ("'colour'", "count", "red")),
        (PEOPLE, "--kind colour=ordinal:red<green", 2, ("'colour'", "blue")),
        (PEOPLE, "--kind height", 2, ("--kind", "'height'", "COLUMN=")),
        (PEOPLE, "--bounds height=0:1.7", 1, ("'height'", "1.75", "widen the bounds")),
        (PEOPLE, "--bounds height=0-2", 2, ("--bounds", "height=0-2", "LOW:HIGH")),
        (PEOPLE, "--bounds heigth=0:2", 2, ("--bounds names", "did you mean 'height'?")),
        (PEOPLE, "--bounds height=2:0", 2, ("--bounds of 'height'", "2 is not below 0")),
        (PEOPLE, "--bounds colour=0:1", 2, ("'colour'", "only columns of numbers")),
        (PEOPLE, "--model no.miwae", 1, ("no.miwae", "miwae fit")),
        (PEOPLE, "--model no.miwae --kind height=positive", 2, ("--kind", "refit")),
        (PEOPLE, "--delimiter ab", 2, ("delimiter", "'ab'")),
        (PEOPLE, "--encoding nope", 2, ("'nope'", "utf-8")),
        (CONSTANT, "--max-time -5", 2, ("max", "-5")),
        (b".imp,b\n1,2\n1,\n", "-m 2", 1, (".imp", "rename")),
        (PEOPLE, "--kind when=datetime:day-first", 2, ("--kind names", "'when'")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_reported_in_one_line(tmp_path, content, options, code, words):
    table = written(tmp_path / "in.csv", content)
    run = miwae("impute", table, "-o", tmp_path / "out.csv", *options.split(), cwd=tmp_path)
    assert_fails(run, code, *words)
    assert os.listdir(tmp_path) == ["in.csv"]


def test_a_file_that_does_not_exist(tmp_path):
    run = miwae("impute", tmp_path / "none.csv", "-o", tmp_path / "out.csv")
    assert_fails(run, 1, str(tmp_path / "none.csv"), "check the path")
    assert os.listdir(tmp_path) == []


def test_a_directory_is_no_table(tmp_path):
    run = miwae("impute", tmp_path, "-o", tmp_path / "out.csv")
    assert_fails(run, 1, str(tmp_path), "directory", "name a file in it")
    assert os.listdir(tmp_path) == []


def test_a_failure_leaves_the_earlier_output_as_it_was(tmp_path):
    output = written(tmp_path / "out.csv", b"earlier")
    assert miwae("impute", "-", "-o", output, stdin=b"a,b\n1\n").code == 1
    assert output.read_bytes() == b"earlier"


def test_a_foreign_file_is_no_model(tmp_path):
    table = written(tmp_path / "in.csv", PEOPLE)
    run = miwae("impute", table, "--model", table, "-o", tmp_path / "out.csv")
    assert_fails(run, 1, str(table), "not a miwae file")
    assert os.listdir(tmp_path) == ["in.csv"]


def test_an_output_directory_that_does_not_exist_is_named(tmp_path):
    output = tmp_path / "nowhere" / "out.csv"
    run = miwae("impute", "-", "-o", output, "-q", stdin=CONSTANT)
    assert_fails(run, 1, f"cannot write {output}", "No such file or directory")
    assert os.listdir(tmp_path) == []


def test_a_model_that_cannot_be_written_is_not_trained(tmp_path):
    output = tmp_path / "nowhere" / "m"
    run = miwae("fit", "-", "-o", output, stdin=b"a,b\n1,2\n1,\n")
    assert_fails(run, 1, f"cannot write {output}", "No such file or directory")


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")


@FULL
def test_a_full_disk_is_said_in_one_line():
    with open("/dev/full", "wb") as full:
        run = run_alone("impute", "-", "-q", stdin=CONSTANT, stdout=full)
    assert_fails(run, 1, "standard output", "No space left on device")


@FULL
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_full_disk_is_said_in_one_line_by_inspect_too(options):
    with open("/dev/full", "wb") as full:
        run = run_alone("inspect", "-", *options, stdin=CONSTANT, stdout=full)
    assert_fails(run, 1, "standard output", "No space left on device")


@pytest.mark.parametrize("command", ["impute", "inspect"])
def test_a_reader_that_has_gone_is_no_traceback(tmp_path, command):
    table = written(tmp_path / "t.csv", CONSTANT)
    process = subprocess.Popen(
        [sys.executable, "-m", "miwae", command, str(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == -signal.SIGPIPE  # as other tools end
    assert stderr.decode().count("\n") <= 5  # what is reported before the result
    assert "Traceback" not in stderr.decode()
    assert "Exception ignored" not in stderr.decode()


@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_reader_that_stops_in_the_middle_is_noticed(tmp_path, unbuffered):
    table = written(tmp_path / "t.csv", b"a,b\n" + b"".join(b"%d,1\n" % i for i in range(50_000)))
    process = subprocess.Popen(
        [sys.executable, "-m", "miwae", "impute", str(table), "-q"],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    )
    assert process.stdout is not None
    assert os.read(process.stdout.fileno(), 4) == b"a,b\n"
    process.stdout.close()
    assert process.wait(300) == -signal.SIGPIPE


class _OneByOne:
    """A stream that takes a part of what it is given, as those without a buffer may."""

    def __init__(self):
        self.taken = b""

    def write(self, data):
        self.taken += bytes(data[:5])
        return len(data[:5])

    def flush(self):
        pass


def test_output_is_whole_where_the_system_takes_it_in_parts(tmp_path, monkeypatch):
    stream = _OneByOne()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=stream))
    table = written(tmp_path / "t.csv", b"a,b\n1,2\n3,4\n")
    write(open_document(str(table)).read(), "-")
    assert stream.taken == table.read_bytes()


def test_a_dash_is_never_the_name_of_a_file(tmp_path):
    miwae("fit", written(tmp_path / "in.csv", CONSTANT), "-o", "-", cwd=tmp_path)
    assert os.listdir(tmp_path) == ["in.csv"]


class Interrupted(NamedTuple):
    run: Run
    files: list[str]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Interrupted:
    """By Ctrl-C, as soon as the progress bar shows training."""
    place = tmp_path_factory.mktemp("interrupted")
    table = written(tmp_path_factory.mktemp("table") / "in.csv", curved_table())
    process = subprocess.Popen(
        [sys.executable, "-m", "miwae", "impute", str(table), "-o", str(place / "out.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Otherwise the bar is drawn once, at its end.
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    assert process.stderr is not None
    said = b""
    while b"training" not in said:
        more = os.read(process.stderr.fileno(), 4096)
        assert more, said.decode()
        said += more
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    run = Run(process.returncode, stdout, (said + stderr).decode())
    return Interrupted(run, os.listdir(place))


def test_an_interrupt_in_training_leaves_nothing_behind(interrupted):
    assert interrupted.files == []
    assert interrupted.run.code != 0
    assert interrupted.run.stdout == b""
    assert "Traceback" not in interrupted.run.stderr
    assert "imputing" not in interrupted.run.stderr


def test_an_interrupt_exits_with_130_and_a_message(interrupted):
    assert interrupted.run.code == 130
    assert interrupted.run.stderr.endswith("miwae: interrupted; no half-written file is left\n")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_while_the_command_starts_is_no_traceback(tmp_path, number, code):
    slow = "import os, time; os.write(1, b'now'); time.sleep(60)"
    (tmp_path / "numpy.py").write_text(slow)  # what a command imports first of all
    process = subprocess.Popen(
        [sys.executable, "-m", "miwae", "inspect", "-"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}:{os.environ['PYTHONPATH']}"},
    )
    assert process.stdout is not None
    assert process.stdout.read(3) == b"now"
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert process.returncode == code
    assert "Traceback" not in stderr.decode()


# A process that is interrupted while it writes, in a callback of the garbage collection, whose
# exceptions Python drops.
IN_THE_MIDDLE = """
import gc, sys, time
from miwae._atomic import write_atomically
from miwae.cli._signals import end_on_signals

end_on_signals()

def collected(*_):
    sys.stdout.write("now\\n")
    sys.stdout.flush()
    time.sleep(60)

def write(file):
    file.write(b"half")
    file.flush()
    gc.callbacks.append(collected)
    gc.collect()

write_atomically(sys.argv[1], write)
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [
        (signal.SIGINT, 130, b"miwae: interrupted; no half-written file is left\n"),
        (signal.SIGTERM, 143, b""),
    ],
)
def test_a_signal_ends_at_once_and_leaves_no_temporary_file(tmp_path, number, code, said):
    process = subprocess.Popen(
        [sys.executable, "-c", IN_THE_MIDDLE, str(tmp_path / "out.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"now\n"
    assert len(os.listdir(tmp_path)) == 1
    started = time.monotonic()
    process.send_signal(number)
    _, stderr = process.communicate(timeout=60)
    assert time.monotonic() - started < 2
    assert (process.returncode, stderr) == (code, said)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize(
    "error", [MemoryError("Unable to allocate 179. GiB"), RuntimeError("RESOURCE_EXHAUSTED: Out")]
)
def test_running_out_of_memory_is_one_sentence(monkeypatch, capsys, error):
    def fail():
        raise error

    monkeypatch.setattr(_app, "app", lambda **_: side_by_side([lambda _: fail()]))
    with pytest.raises(SystemExit) as stopped:
        _app.run()
    assert stopped.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("miwae: out of memory while ")
    assert "fewer rows" in said
    assert said.count("\n") == 1


def test_out_of_memory_says_what_was_being_done(monkeypatch, capsys, tmp_path):
    def fail(*_, **__):
        raise MemoryError

    monkeypatch.setattr("numpy.frombuffer", fail)
    monkeypatch.setattr(
        sys, "argv", ["miwae", "inspect", str(written(tmp_path / "a.csv", PEOPLE))]
    )
    with pytest.raises(SystemExit):
        _app.run()
    assert "out of memory while reading or writing the table" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform != "linux", reason="others do not keep to the limit")
def test_a_limit_that_jax_cannot_live_with_is_refused_in_one_line(tmp_path):
    table = written(tmp_path / "in.csv", PEOPLE)
    limited = f"ulimit -v 1000000; exec {sys.executable} -m miwae impute {table} -q"
    done = subprocess.run(["sh", "-c", limited], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("miwae: out of memory before JAX starts: it takes 3.")
    assert "raise it (ulimit -v " in done.stderr
    assert done.stderr.count("\n") == 1


def test_control_characters_are_made_visible(tmp_path):
    table = written(tmp_path / "t.csv", b"a\x1b[2Jb,c\n1,red\x1b[31m\n,blue\n3,red\x1b[31m\n")
    shown = miwae("inspect", table)
    assert b"\x1b" not in shown.stdout
    assert rb"a\x1b[2Jb" in shown.stdout
    failed = miwae("impute", table, "--kind", "c=count")
    assert "\x1b" not in failed.stderr
    assert r"red\x1b[31m" in failed.stderr
