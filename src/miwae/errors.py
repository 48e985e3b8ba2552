"""What can go wrong, by name.

Every error of this package is a `MiwaeError`; those caused by a value that the caller passed are
also `ValueError`, as scikit-learn's users expect.
"""

__all__ = [
    "DataError",
    "DataWarning",
    "DivergenceError",
    "FileFormatError",
    "MiwaeError",
    "SettingsError",
]


class MiwaeError(Exception):
    """The base of all errors raised by this package."""


class DataError(MiwaeError, ValueError):
    """The data cannot be used as they are; the message says which cell, row or column, and why."""


class SettingsError(MiwaeError, ValueError):
    """A setting is out of range, or two settings do not go together."""


class FileFormatError(MiwaeError, ValueError):
    """A file is truncated, foreign, or does not belong to the model it is loaded into."""


class DivergenceError(MiwaeError, ArithmeticError):
    """Training met values that are not finite, or lost its way, more often than is allowed."""


class DataWarning(UserWarning):
    """Rows hold something the model cannot use; the message says what was done about it."""
