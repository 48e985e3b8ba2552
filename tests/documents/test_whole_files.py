"""Files appear whole or not at all."""

import errno
import os
import stat
import threading

import pytest

from documents.texts import CSV
from miwae import _atomic as atomic
from miwae._atomic import write_atomically
from miwae.documents import write
from miwae.documents._opening import open_text
from miwae.errors import MiwaeError


def writes(content):
    return lambda file: file.write(content) and None


def leftovers(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), RuntimeError()],
)
@pytest.mark.parametrize("place", ["write", "fsync", "replace"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, existing, error, place):
    path = tmp_path / "t.csv"
    if existing:
        path.write_bytes(b"old")

    def fails(*_):
        raise error

    if place != "write":
        monkeypatch.setattr(os, place, fails)
    expected = MiwaeError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as raised:
        write_atomically(str(path), fails if place == "write" else writes(b"new"))
    if isinstance(error, OSError):
        assert str(raised.value) == f"cannot write {path}: No space left on device"
    assert leftovers(tmp_path) == (["t.csv"] if existing else [])
    if existing:
        assert path.read_bytes() == b"old"


def test_the_old_content_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"old")

    def look(file):
        file.write(b"new")
        assert path.read_bytes() == b"old"

    write_atomically(str(path), look)
    assert path.read_bytes() == b"new"
    assert leftovers(tmp_path) == ["t.csv"]


def test_permissions_come_from_the_umask_or_the_old_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(str(tmp_path / "new"), writes(b"x"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(str(tmp_path / "new"), writes(b"y"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b"old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(MiwaeError, match=r"t\.csv: the file is read-only"):
        write_atomically(str(path), writes(b"new"))
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("existing", [True, False])
def test_symbolic_links_stay_links(tmp_path, existing):
    target, link = tmp_path / "far" / "t.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    if existing:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(str(link), writes(b"new"))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert leftovers(target.parent) == ["t.csv"]


def test_paths_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(MiwaeError, match="cannot write .*: it is a directory"):
        write_atomically(str(tmp_path), writes(b"x"))
    with pytest.raises(MiwaeError, match="cannot write .*: No such file or directory"):
        write_atomically(str(tmp_path / "gone" / "t.csv"), writes(b"x"))


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomically("t.csv", writes(b"x"))
    assert (tmp_path / "t.csv").read_bytes() == b"x"


def test_devices_and_pipes_are_written_directly(tmp_path):
    write_atomically("/dev/null", writes(b"x"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write(open_text(CSV).read(), str(pipe))
    reader.join(timeout=10)
    assert got == [CSV]
    assert leftovers(tmp_path) == ["pipe"]


def test_a_name_of_an_open_file_is_not_replaced(tmp_path):
    with open(tmp_path / "out", "wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        write_atomically(f"/dev/fd/{file.fileno()}", writes(b"x"))
    assert (tmp_path / "out").stat().st_ino == inode
    assert (tmp_path / "out").read_bytes() == b"x"
    assert atomic._is_stream("/dev/stdout")
