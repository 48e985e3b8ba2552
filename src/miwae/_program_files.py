"""The directory of compiled programs. They are native code that is run: only ours are trusted."""

import contextlib
import hashlib
import os
from pathlib import Path
from typing import final

# There are no public names for a cache of one's own.
from jax._src import compilation_cache
from jax._src.compilation_cache_interface import CacheInterface

from miwae._atomic import write_atomically
from miwae.errors import MiwaeError

# Of the names of programs. Files of JAX's own cache end otherwise.
SUFFIX = ".program"

DIGEST_BYTES = 32  # of a SHA-256, before each program

# Bytes of all programs together; the oldest are removed first.
LARGEST = 2**28


def private_directory(path: Path) -> Path:
    """Create a directory that is ours alone, or refuse one into which others could put code.

    Raises:
        PermissionError: it belongs to somebody else, or others may write to it.
    """
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    if not hasattr(os, "getuid"):  # Windows has other rules, and a cache within the user's profile
        return path
    known = path.stat()
    if known.st_uid != os.getuid():
        remedy = "set XDG_CACHE_HOME to a directory of yours"
        raise PermissionError(f"{path} belongs to another user: {remedy}")
    if known.st_mode & 0o022:
        remedy = "delete it, or chmod 700 if you trust it"
        raise PermissionError(f"others may write to {path}: {remedy}")
    return path


@final
class ProgramFiles(CacheInterface):
    """Programs by JAX's names for them, each in a file with its digest.

    JAX writes in place: a process that is killed, or another one that reads meanwhile, would have
    half a program. These files appear whole or not at all, and what is damaged is compiled again.
    """

    def __init__(self, directory: Path) -> None:
        self._path = directory  # JAX reads it

    def get(self, key: str) -> bytes | None:
        path = self._place(key)
        try:
            content = path.read_bytes()
        except OSError:
            return None
        digest, program = content[:DIGEST_BYTES], content[DIGEST_BYTES:]
        if digest == _digest(program):
            return program
        with contextlib.suppress(OSError):
            path.unlink()
        return None

    def put(self, key: str, value: bytes) -> None:
        content = _digest(value) + value
        with contextlib.suppress(MiwaeError):  # a full disk: it is compiled again
            # It need not have reached the disk: after a crash the digest tells.
            write_atomically(str(self._place(key)), lambda f: f.write(content), synced=False)

    def _place(self, key: str) -> Path:
        return self._path / f"{key}{SUFFIX}"


def use_program_files(directory: Path) -> None:
    """Have JAX keep programs in this directory, from now on."""
    compilation_cache.reset_cache()
    compilation_cache._cache = ProgramFiles(directory)
    compilation_cache._cache_initialized = True


def drop_oldest_programs(directory: Path) -> None:
    """Remove the oldest programs if there are too many."""
    found = []
    for path in directory.glob(f"*{SUFFIX}"):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            found.append((path.stat().st_mtime, path.stat().st_size, path))
    total = sum(size for _, size, _ in found)
    for _, size, path in sorted(found):
        if total <= LARGEST:
            break
        with contextlib.suppress(OSError):
            path.unlink()
        total -= size


def _digest(program: bytes) -> bytes:
    return hashlib.sha256(program).digest()
