"""Libraries that only some features need."""

import importlib
from typing import Any

from miwae.errors import SettingsError

# By library: what needs it, and the extra that installs it.
_NEEDED_BY = {
    "pyarrow": ("Parquet and Feather need", "parquet"),
    "openpyxl": ("Excel files need", "excel"),
    "pyreadstat": ("Stata, SPSS and SAS files need", "stata"),
    "pandas": ("statistics and their files need", "stats"),
    "formulaic": ("fitting models needs", "stats"),
    "statsmodels": ("fitting models needs", "stats"),
    "matplotlib": ("plots need", "plots"),
    "jinja2": ("a report needs", "report"),
}


def extra(name: str) -> Any:
    """A module that is not always installed, or a `SettingsError` that says how to install it."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        library = name.partition(".")[0]
        what, group = _NEEDED_BY[library]
        message = f"{what} {library}: pip install 'miwae[{group}]'"
        raise SettingsError(message) from error
