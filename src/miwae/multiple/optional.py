"""Types of libraries that need not be installed."""

import sys
from typing import Any

__all__ = ["is_a", "is_exactly", "is_frame", "loaded_type"]


def loaded_type(path: str) -> type | None:
    """The type of that name, as `pandas.Series`, if somebody has imported its library.

    Nobody can pass an instance of a type whose module was never imported, so that asking for it
    need not import anything.
    """
    module, _, name = path.rpartition(".")
    return getattr(sys.modules.get(module), name, None)


def is_a(value: Any, *paths: str) -> bool:
    """Whether a value is an instance of one of the named types."""
    types = [found for path in paths if (found := loaded_type(path)) is not None]
    return isinstance(value, tuple(types))


def is_exactly(value: Any, path: str) -> bool:
    """Whether a value is an instance of the named type and not of a subclass."""
    return type(value) is loaded_type(path)


def is_frame(value: Any) -> bool:
    """Whether a value is a table of one of the libraries that tables come from."""
    return is_a(
        value,
        "pandas.DataFrame",
        "polars.DataFrame",
        "polars.LazyFrame",
        "pyarrow.Table",
        "pyarrow.RecordBatch",
    )
