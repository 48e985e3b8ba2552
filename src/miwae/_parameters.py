"""The parameters of an imputer: what they ask for, and what they are in another process."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils import check_random_state
from sklearn.utils.validation import validate_data

from miwae._checked import checked
from miwae._deadlines import Deadline
from miwae._interrupts import keeping_interrupts
from miwae._progress import progressor
from miwae._threads import on_device
from miwae.columns import is_missing
from miwae.errors import FileFormatError, SettingsError
from miwae.tabular import FittedTable, TableSettings

# Parameters of the imputer that are settings of a table as well.
SHARED = tuple(field.name for field in fields(TableSettings) if field.name != "seed")

# What `set_output` takes; scikit-learn itself does not look until a table is transformed.
_OUTPUTS: dict[Any, Any] = {name: name for name in (None, "default", "pandas", "polars")}


def output_of(imputer: Any) -> str | None:
    """The library of frames that `set_output` asked for."""
    return getattr(imputer, "_sklearn_output_config", {}).get("transform")


def settings_of(imputer: Any, marks: tuple[Any, ...]) -> dict[str, Any]:
    """What a file has of an imputer besides its table; `marks` are its missing values."""
    parameters = imputer.get_params(deep=False)
    state = parameters["random_state"]  # used up in fitting, unless it is a seed
    known = state is None or isinstance(state, int | np.integer)
    # Whatever a library calls missing is missing anyway.
    kept = [m for m in marks if m is None or isinstance(m, float) or not is_missing(m)]
    missing_values = kept[0] if len(kept) == 1 else kept or np.nan
    parameters |= {"random_state": state if known else None, "missing_values": missing_values}
    return {"parameters": parameters, "output": output_of(imputer)}


def restored(make: Any, table: FittedTable, extra: dict[str, Any], path: str | Path) -> Any:
    """An imputer with the parameters of a file, or of a table of the command line."""
    own = {name: getattr(table.settings, name) for name in SHARED}
    own |= {"missing_values": list(table.marks) or np.nan, "random_state": table.settings.seed}
    try:
        imputer = checked(make, **extra.get("parameters", own))
        imputer.set_output(transform=_OUTPUTS[extra.get("output")])
        TableSettings(**{name: getattr(imputer, name) for name in SHARED})
    except (TypeError, KeyError, SettingsError, FileFormatError) as error:
        raise FileFormatError(f"{path} is damaged: {error}") from error
    return imputer


def asked_of(imputer: Any) -> tuple[TableSettings, dict[str, Any]]:
    """The settings of a table, and what the user knows about columns."""
    seed = int(check_random_state(imputer.random_state).randint(2**31 - 1))
    settings = TableSettings(**{name: getattr(imputer, name) for name in SHARED}, seed=seed)
    asked = ("column_kinds", "bounds", "roles", "not_applicable")
    return settings, {name: getattr(imputer, name) for name in asked}


def marks_of(imputer: Any) -> tuple[Any, ...]:
    """The values that mean missing."""
    marks = imputer.missing_values
    several = isinstance(marks, list | tuple | set | frozenset | np.ndarray)
    return tuple(marks) if several else (marks,)


@contextlib.contextmanager
def working(imputer: Any) -> Iterator[dict[str, Any]]:
    """A deadline and progress bars, on the device that was asked for."""
    limit = imputer.max_time
    if limit is not None and not (isinstance(limit, int | float | np.number) and limit > 0):
        raise SettingsError(f"max_time must be positive or None, not {limit!r}")
    deadline = None if limit is None else Deadline(time.monotonic() + limit)
    keep = keeping_interrupts()
    with keep, on_device(imputer.device), progressor(imputer.verbose > 0) as progress:
        yield {"deadline": deadline, "progress": progress}


def are_named(frame: Any) -> bool:
    """Whether all labels of a frame are text."""
    # Checks write the names to another estimator: a fit that fails leaves nothing behind.
    names = BaseEstimator()
    validate_data(names, frame, reset=True, skip_check_array=True)
    return hasattr(names, "feature_names_in_")
