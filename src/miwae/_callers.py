"""Warnings that point at the line of the user, not into this package."""

import sys
import warnings
from pathlib import Path

from miwae.errors import DataWarning

PACKAGE = str(Path(__file__).parent)

# scikit-learn wraps `transform`, and beartype wraps everything while tests run.
WRAPPERS = ("sklearn", "jaxtyping", "beartype")


def warn_caller(text: str) -> None:
    """Warn at the line of the caller that is neither in this package nor in a wrapper of it."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and _is_inside(frame.f_globals.get("__name__", ""), frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(text, DataWarning, stacklevel=level)


def _is_inside(module: str, frame: object) -> bool:
    filename = getattr(getattr(frame, "f_code", None), "co_filename", "")
    return filename.startswith((PACKAGE, "<")) or module.split(".")[0] in WRAPPERS
