import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import pytest

from miwae import _atomic
from miwae._atomic import scratch_directory, write_atomically

KILLED = """
import os, sys
from miwae._atomic import write_atomically

def write(file):
    file.write(b"half")
    file.flush()
    os.kill(os.getpid(), 9)

write_atomically(sys.argv[1], write)
"""


@pytest.fixture
def killed(tmp_path):
    """A directory in which a process was killed while it wrote."""
    subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "out")], check=False)
    (left,) = tmp_path.iterdir()
    os.utime(left, (1e9, 1e9))
    return tmp_path


def test_what_a_killed_process_left_is_removed_by_the_next(killed):
    write_atomically(str(killed / "out"), lambda file: file.write(b"whole"))
    assert os.listdir(killed) == ["out"]
    assert (killed / "out").read_bytes() == b"whole"


def test_what_another_process_is_writing_stays(tmp_path):
    with _atomic._temporary(str(tmp_path)) as (path, _):
        os.utime(path, (1e9, 1e9))
        _atomic._unfinished.discard(path)  # as if it belonged to another process
        write_atomically(str(tmp_path / "out"), lambda file: file.write(b"whole"))
        assert os.path.exists(path)
    assert os.listdir(tmp_path) == ["out"]


def test_other_files_stay(tmp_path):
    (tmp_path / ".miwae-notes.txt").write_text("mine")
    (tmp_path / "a.tmp").write_text("mine")
    write_atomically(str(tmp_path / "out"), lambda file: file.write(b"whole"))
    assert len(os.listdir(tmp_path)) == 3


@pytest.fixture
def ending(monkeypatch):
    """What ends a process, without ending this one: it creates files again afterwards."""
    monkeypatch.setattr(_atomic, "_creating", threading.Lock())
    return _atomic.remove_unfinished


def test_unfinished_files_are_removed_at_once(tmp_path, ending):
    with _atomic._temporary(str(tmp_path)):
        assert len(os.listdir(tmp_path)) == 1
        ending()
        assert os.listdir(tmp_path) == []


def test_scratch_directories_are_removed(tmp_path, ending, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with scratch_directory() as place:
        (Path(place) / "table.sav").write_bytes(b"of the user")
    assert os.listdir(tmp_path) == []
    with scratch_directory() as place:
        (Path(place) / "table.sav").write_bytes(b"of the user")
        ending()
        assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("kind", ["file", "directory"])
def test_a_process_that_ends_creates_no_more_files(tmp_path, ending, monkeypatch, kind):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    ending()

    def create():
        with _atomic._temporary(str(tmp_path)) if kind == "file" else scratch_directory():
            pass

    thread = threading.Thread(target=create)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()  # it waits for the end
    assert os.listdir(tmp_path) == []
    _atomic._creating.release()
    thread.join(10)
    assert not thread.is_alive()
