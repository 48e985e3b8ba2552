"""Files that appear whole or not at all."""

import contextlib
import os
import secrets
import stat
from collections.abc import Callable
from typing import BinaryIO

from miwae.errors import MiwaeError

A_DIRECTORY, READ_ONLY = "it is a directory: name a file in it", "the file is read-only"


def _is_stream(path: str, mode: int | None) -> bool:
    """A device, a pipe, or a name of an open file: something to write into, not to replace.

    /dev/stdout can lead to a regular file, which the shell keeps open: a file renamed to its place
    would not be the one that the shell's other commands write to.
    """
    if path in {"/dev/stdout", "/dev/stderr"} or path.startswith(("/dev/fd/", "/proc/")):
        return True
    return mode is not None and not stat.S_ISREG(mode) and not stat.S_ISDIR(mode)


def _replace(path: str, mode: int | None, write: Callable[[BinaryIO], object]) -> None:
    """Write beside the file and rename: whoever reads it sees the old content or the new one."""
    if mode is not None and not os.access(path, os.W_OK):
        # Renaming would replace a file that its owner protects from writing.
        raise PermissionError(READ_ONLY)
    temporary = os.path.join(os.path.dirname(path), f".miwae-{secrets.token_hex(8)}.tmp")
    try:
        # Not `tempfile`, whose files nobody else may read: this one gets what the umask allows.
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        with os.fdopen(handle, "wb") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        if mode is not None:
            os.chmod(temporary, stat.S_IMODE(mode))
        os.replace(temporary, path)
    except BaseException:  # an interrupt leaves nothing behind either
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise


def require_directory(path: str) -> None:
    """Raise a `MiwaeError`, before long work, if its result cannot be written to `path`."""
    directory, problem = os.path.dirname(os.path.realpath(path)), None
    if os.path.isdir(path):
        problem = A_DIRECTORY
    elif os.path.exists(path) and not os.path.isfile(path):
        return  # a device or a pipe
    elif os.path.isfile(path) and not os.access(path, os.W_OK):
        problem = READ_ONLY
    elif not os.path.isdir(directory):
        problem = f"No such file or directory: {directory}"
    elif not os.access(directory, os.W_OK):
        problem = f"the directory {directory} may not be written to"
    if problem is not None:
        raise MiwaeError(f"cannot write {path}: {problem}")


def write_atomically(path: str, write: Callable[[BinaryIO], object]) -> None:
    """Write a file so that it appears whole or not at all; `MiwaeError` if the system refuses.

    The content goes to a temporary file in the same directory, which is renamed once it is on the
    disk. On any failure the temporary file is removed and what was at `path` stays. Symbolic links
    are followed, permissions kept; devices and pipes are written directly.
    """
    try:
        mode = os.stat(path).st_mode if os.path.exists(path) else None
        if _is_stream(path, mode):
            with open(path, "wb") as file:
                write(file)
        elif mode is not None and stat.S_ISDIR(mode):
            raise IsADirectoryError(A_DIRECTORY)
        else:
            _replace(os.path.realpath(path), mode, write)
    except OSError as error:
        raise MiwaeError(f"cannot write {path}: {error.strerror or error}") from error
