"""Compilation: kept on disk between runs, and done on a second core while the first is busy."""

import contextlib
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax

__all__ = ["cache_directory", "enable_compilation_cache", "meanwhile"]


def cache_directory() -> Path:
    """`miwae` in the user's cache directory (`XDG_CACHE_HOME`, else `~/.cache`)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "miwae"


def enable_compilation_cache(directory: str | Path | None = None) -> Path:
    """Keep compiled programs between processes.

    For programs, not for the library: it changes JAX's settings for the whole process, so whoever
    owns the process calls it, once, before anything is compiled.

    Args:
        directory: where to keep them; by default `cache_directory()`.

    Returns:
        The directory.
    """
    path = Path(directory) if directory is not None else cache_directory()
    path.mkdir(parents=True, exist_ok=True)
    jax.config.update("jax_compilation_cache_dir", str(path))
    # Programs that compile in less are not worth a file.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.3)
    return path


@contextlib.contextmanager
def meanwhile(*compilations: Callable[[], object]) -> Iterator[None]:
    """Run some compilations beside what happens in the context; it ends when all have ended.

    A compilation uses one core, most of the time outside of Python.
    """
    device: Any = getattr(jax.config, "jax_default_device", None)  # a setting of the thread

    def on_device(compilation: Callable[[], object]) -> None:
        with jax.default_device(device):
            compilation()

    with ThreadPoolExecutor(max(len(compilations), 1)) as pool:
        running = [pool.submit(on_device, compilation) for compilation in compilations]
        yield
        for future in running:
            future.result()
