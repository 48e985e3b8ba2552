"""The directory of compiled programs. They are native code that is run: only ours are trusted."""

import contextlib
import hashlib
import os
from pathlib import Path

from jax._src.compilation_cache import decompress_executable  # no public name

# As JAX names programs; beside each that is whole there is a file with its digest.
PROGRAM, DIGEST = "-cache", "-digest"

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


def keep_whole_programs(directory: Path) -> None:
    """Remove programs that are damaged or unfinished, and the oldest if there are too many."""
    kept = []
    for path in directory.glob(f"*{PROGRAM}"):
        with contextlib.suppress(OSError):  # another process may remove it at the same time
            if _stored_digest(path) == _digest(path):
                kept.append((path.stat().st_mtime, path.stat().st_size, path))
            else:
                _remove(path)
    total = sum(size for _, size, _ in kept)
    for _, size, path in sorted(kept):
        if total <= LARGEST:
            break
        with contextlib.suppress(OSError):
            _remove(path)
        total -= size


def seal_programs(directory: Path) -> None:
    """Note the digests of programs that have been added."""
    for path in directory.glob(f"*{PROGRAM}"):
        with contextlib.suppress(OSError):
            if not _beside(path).exists() and _is_whole(path.read_bytes()):
                _beside(path).write_text(_digest(path))


def _is_whole(program: bytes) -> bool:
    """JAX writes in place: what another process is writing, or left half, cannot be unpacked."""
    try:
        decompress_executable(program)
    except Exception:  # zlib and zstd have errors of their own
        return False
    return True


def _beside(path: Path) -> Path:
    return path.with_name(path.name.removesuffix(PROGRAM) + DIGEST)


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _stored_digest(path: Path) -> str | None:
    return _beside(path).read_text() if _beside(path).exists() else None


def _remove(path: Path) -> None:
    _beside(path).unlink(missing_ok=True)
    path.unlink(missing_ok=True)
