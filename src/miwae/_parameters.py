"""The parameters of an imputer in files: as they mean the same in another process."""

from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from miwae._checked import checked
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
