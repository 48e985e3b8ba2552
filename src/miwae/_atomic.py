"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
import shutil
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO

from miwae.errors import MiwaeError

# Of the names of temporary files.
PREFIX, SUFFIX = ".miwae-", ".tmp"

# Seconds in which a file that has just been created gets its lock.
FRESH = 2.0

# Temporary files and directories of this process.
_unfinished: set[str] = set()

_creating = threading.Lock()  # held while one of them is created


def remove_unfinished() -> None:
    """Remove the temporary files of this process, which is about to end.

    Whoever wants to create a further one waits for the end: the lock is never released.
    """
    _creating.acquire()
    for path in tuple(_unfinished):
        shutil.rmtree(path, ignore_errors=True)
        with contextlib.suppress(OSError):
            os.unlink(path)


@contextlib.contextmanager
def scratch_directory() -> Iterator[str]:
    """A directory for the files of libraries that cannot do without; removed at the end."""
    with _creating:
        directory = tempfile.TemporaryDirectory(prefix=PREFIX)
        _unfinished.add(directory.name)
    try:
        with directory:
            yield directory.name
    finally:
        _unfinished.discard(directory.name)


def require_directory(path: str) -> None:
    """Raise a `MiwaeError`, before long work, if its result cannot be written to `path`."""
    directory, problem = os.path.dirname(os.path.realpath(path)), None
    if os.path.isdir(path):
        problem = "it is a directory: name a file in it"
    elif os.path.exists(path) and not os.path.isfile(path):
        return  # a device or a pipe
    elif os.path.isfile(path) and not os.access(path, os.W_OK):
        # Renaming would replace a file that its owner protects from writing.
        problem = "the file is read-only"
    elif not os.path.isdir(directory):
        problem = f"No such file or directory: {directory}"
    elif not os.access(directory, os.W_OK):
        problem = f"the directory {directory} may not be written to"
    if problem is not None:
        raise MiwaeError(f"cannot write {path}: {problem}")


def write_atomically(
    path: str, write: Callable[[BinaryIO], object], *, synced: bool = True
) -> None:
    """Write a file so that it appears whole or not at all; `MiwaeError` if the system refuses.

    The content goes to a temporary file in the same directory, which is renamed once it is on the
    disk, unless it need not be `synced`. On any failure the temporary file is removed and what was
    at `path` stays. Symbolic links are followed, permissions kept; devices and pipes are written
    directly.
    """
    require_directory(path)
    try:
        if _is_stream(path):
            with open(path, "wb") as file:
                write(file)
        else:
            _replace(os.path.realpath(path), write, synced=synced)
    except OSError as error:
        raise MiwaeError(f"cannot write {path}: {error.strerror or error}") from error


def _is_stream(path: str) -> bool:
    """A device, a pipe, or a name of an open file: something to write into, not to replace.

    /dev/stdout can lead to a regular file, which the shell keeps open: a file renamed to its place
    would not be the one that the shell's other commands write to.
    """
    if path in {"/dev/stdout", "/dev/stderr"} or path.startswith(("/dev/fd/", "/proc/")):
        return True
    return os.path.exists(path) and not os.path.isfile(path)


def _replace(path: str, write: Callable[[BinaryIO], object], *, synced: bool) -> None:
    """Write beside the file and rename: whoever reads it sees the old content or the new one."""
    mode = os.stat(path).st_mode if os.path.exists(path) else None
    _remove_stale(os.path.dirname(path))
    with _temporary(os.path.dirname(path)) as (temporary, handle):
        with os.fdopen(os.dup(handle), "wb") as file:
            write(file)
            file.flush()
            if synced:
                os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, path)


@contextlib.contextmanager
def _temporary(directory: str) -> Iterator[tuple[str, int]]:
    """A new file in a directory, locked as long as it is in use, and removed at the end."""
    path = os.path.join(directory, f"{PREFIX}{secrets.token_hex(8)}{SUFFIX}")
    _unfinished.add(path)
    try:
        # Not `tempfile`, whose files nobody else may read: this one gets what the umask allows.
        with _creating:
            handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            _lock(handle)
            yield path, handle
        finally:
            os.close(handle)
    finally:  # an interrupt leaves nothing behind either
        with contextlib.suppress(FileNotFoundError):
            os.unlink(path)
        _unfinished.discard(path)


def _remove_stale(directory: str) -> None:
    """Remove temporary files of processes that were killed: those that nobody has locked."""
    with contextlib.suppress(OSError):
        for name in os.listdir(directory):
            if name.startswith(PREFIX) and name.endswith(SUFFIX):
                _remove_if_stale(os.path.join(directory, name))


def _remove_if_stale(path: str) -> None:
    with contextlib.suppress(OSError):
        if path in _unfinished or time.time() - os.stat(path).st_mtime < FRESH:
            return
        handle = os.open(path, os.O_RDWR)
        try:
            if _lock(handle):
                os.unlink(path)
        finally:
            os.close(handle)


def _lock(handle: int) -> bool:
    """Lock a file if nobody else has; False if somebody has, or there are no locks here."""
    try:
        import fcntl

        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except (ImportError, OSError):
        return False
    return True
