import os
import subprocess
import sys

import pytest

from miwae import _atomic
from miwae._atomic import write_atomically

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


def test_unfinished_files_are_removed_at_once(tmp_path):
    with _atomic._temporary(str(tmp_path)):
        assert len(os.listdir(tmp_path)) == 1
        _atomic.remove_unfinished()
        assert os.listdir(tmp_path) == []
