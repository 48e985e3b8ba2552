"""Warnings that point at the line of the user, not into this package."""

import os
import sys
import warnings
from collections.abc import Iterable
from pathlib import Path
from types import FrameType

from miwae._words import visible
from miwae.errors import DataWarning
from miwae.events import About, Event

PACKAGE = str(Path(__file__).parent) + os.sep

# scikit-learn wraps `transform`, and beartype wraps everything while tests run, also in code of
# its own that has no file.
WRAPPERS = ("sklearn", "jaxtyping", "beartype", "miwae")
GENERATED = "<@beartype"


def warn_caller(text: str) -> None:
    """Warn at the line of the caller that is neither in this package nor in a wrapper of it."""
    level, frame = 1, sys._getframe(0)
    while frame is not None and _is_inside(frame):
        level, frame = level + 1, frame.f_back
    warnings.warn(visible(text), DataWarning, stacklevel=level)


def warn_of(events: Iterable[Event], *about: About) -> None:
    """Warn of the events that are about these."""
    for event in events:
        if event.about in about:
            warn_caller(event.text)


def _is_inside(frame: FrameType) -> bool:
    module = frame.f_globals.get("__name__", "").split(".")[0]
    return module in WRAPPERS or frame.f_code.co_filename.startswith((PACKAGE, GENERATED))
