"""Compiled programs, which are kept on disk between runs."""

import sys


def keep_programs() -> None:
    """Compiled programs are kept on disk; where that is not possible, it is only slower."""
    from miwae._compilation import enable_compilation_cache

    try:
        enable_compilation_cache()
    except OSError as error:
        sys.stderr.write(f"miwae: compiled programs are not kept: {error}\n")
