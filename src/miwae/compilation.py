"""The compiler's cache on disk: a second run starts without compiling."""

import os
from pathlib import Path

import jax

__all__ = ["cache_directory", "enable_compilation_cache"]


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
