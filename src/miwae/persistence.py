"""A fitted imputer as one file: arrays as safetensors, everything else as JSON in its header."""

import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_args

import equinox as eqx
import numpy as np

from miwae.errors import DataError, FileFormatError
from miwae.modelling.fitting import FittedModel, empty_model
from miwae.modelling.observation import observation_of
from miwae.modelling.settings import Architecture
from miwae.table.base import Storage
from miwae.table.frames.shared import is_nothing
from miwae.table.schema import KINDS, ColumnSchema, Schema
from miwae.table.transforms import Transform
from miwae.training import TrainingRecord, TrainingSettings, TrainingState
from miwae.training.checkpoint import load_header, load_tree, save_tree

__all__ = ["load_imputer", "save_imputer"]

KIND = "imputer"

# What a header that makes no sense can cause while it is read.
DAMAGE = (
    AttributeError,
    IndexError,
    KeyError,
    OverflowError,
    RecursionError,
    TypeError,
    ValueError,
)


def save_imputer(path: str | Path, imputer: Any) -> None:
    """Write a fitted imputer.

    Raises:
        DataError: a category that is neither text nor a number cannot be written.
    """
    header = {
        "kind": KIND,
        "parameters": _plain(
            _portable(imputer.get_params(deep=False)) | dataclasses.asdict(imputer.architecture_)
        ),
        "schema": [_plain(dataclasses.asdict(column)) for column in imputer.schema_.columns],
        "fitted": _plain(
            {
                "n_features_in_": imputer.n_features_in_,
                "feature_names_in_": list(getattr(imputer, "feature_names_in_", [])) or None,
                "incomplete_": imputer.incomplete_,
                "specimens_": imputer.specimens_,
                "events_": list(imputer.events_),
                "seed_": imputer.seed_,
                "output": getattr(imputer, "_sklearn_output_config", {}).get("transform"),
                "settings_": _settings_of(imputer),
                "histories": [
                    [tuple(record) for record in model.history] for model in imputer.models_
                ],
            }
        ),
    }
    save_tree(path, tuple(_arrays(model) for model in imputer.models_), header)


def _portable(parameters: dict[str, Any]) -> dict[str, Any]:
    """What only means something in this process, as what means the same in another.

    The random state is used up in fitting, and its seed is saved as such. Whatever a library calls
    missing is missing anyway.
    """
    state, marks = parameters["random_state"], parameters["missing_values"]
    known = state is None or isinstance(state, int | np.integer)
    several = isinstance(marks, list | tuple | set | frozenset | np.ndarray)
    writable = lambda m: m is None or isinstance(m, float) or not is_nothing(m)  # noqa: E731
    kept = [mark for mark in (marks if several else [marks]) if writable(mark)]
    return {
        **parameters,
        "random_state": state if known else None,
        "missing_values": kept if several else (kept or [float("nan")])[0],
    }


def _settings_of(imputer: Any) -> dict[str, Any] | None:
    return None if imputer.settings_ is None else dataclasses.asdict(imputer.settings_)


def _kept(state: TrainingState) -> tuple[Any, ...]:
    """What going on with training needs besides the model itself."""
    return state.optimizer_state, state.key, state.step, state.step_scale


def _arrays(model: FittedModel) -> tuple[Any, ...]:
    return model.autoencoder, _kept(model.state)


def load_imputer(path: str | Path, imputer: Any) -> None:
    """Read what `save_imputer` wrote into a new imputer.

    Raises:
        FileFormatError: not such a file, truncated, inconsistent, or of an unknown version.
    """
    header = load_header(path)
    if header.get("kind") != KIND:
        raise FileFormatError(f"{path} holds a {header.get('kind')}, not an imputer")
    try:
        parameters = _restored(header["parameters"])
        schema = Schema(tuple(_column(_restored(column)) for column in header["schema"]))
        fitted = _restored(header["fitted"])
        _read_into(path, imputer, parameters, schema, fitted)
    except DAMAGE as error:
        if isinstance(error, FileFormatError):
            raise
        raise FileFormatError(f"{path} is damaged: its header makes no sense ({error})") from error


def _read_into(
    path: str | Path,
    imputer: Any,
    parameters: dict[str, Any],
    schema: Schema,
    fitted: dict[str, Any],
) -> None:
    if set(parameters) != set(imputer.get_params(deep=False)):
        raise FileFormatError(f"{path} has other parameters than this version of miwae knows")
    if fitted["n_features_in_"] != len(schema.columns):
        raise FileFormatError(f"{path} is damaged: it has {len(schema.columns)} columns")
    imputer.set_params(**parameters)
    if fitted["output"] is not None:
        imputer.set_output(transform=fitted["output"])
    settings = fitted["settings_"]
    imputer.schema_ = schema
    imputer.n_features_in_ = int(fitted["n_features_in_"])
    if fitted["feature_names_in_"] is not None:
        imputer.feature_names_in_ = np.asarray(fitted["feature_names_in_"], dtype=object)
    imputer.incomplete_ = tuple(int(i) for i in fitted["incomplete_"])
    specimens = fitted["specimens_"]
    if len(specimens) != len(schema.columns):
        raise FileFormatError(f"{path} is damaged: it has {len(specimens)} specimens of columns")
    imputer.specimens_ = tuple(str(specimen) for specimen in specimens)
    imputer.events_ = [str(event) for event in fitted["events_"]]
    imputer.seed_ = int(fitted["seed_"])
    imputer.settings_ = None if settings is None else TrainingSettings(**settings)
    # Those that it was fitted with, which may have been set to others since.
    sizes = {field.name: parameters[field.name] for field in dataclasses.fields(Architecture)}
    imputer.architecture_ = Architecture(**sizes)
    imputer.models_ = _models(path, imputer, fitted["histories"])
    imputer.history_ = imputer.models_[0].history if imputer.models_ else ()


def _models(
    path: str | Path, imputer: Any, histories: list[list[tuple[Any, ...]]]
) -> tuple[FittedModel, ...]:
    if not histories:
        load_tree(path, ())
        return ()
    architecture = imputer.architecture_
    observation = observation_of(imputer.schema_)
    sizes = (observation.n_inputs, observation.n_parameters)
    _require_plausible(path, architecture, *sizes, len(histories))
    autoencoder, state = empty_model(observation, architecture, imputer.settings_)
    like = tuple((autoencoder, _kept(state)) for _ in histories)
    models, _ = load_tree(path, like)
    return tuple(
        FittedModel(
            own,
            eqx.tree_at(
                lambda s: (s.autoencoder, s.averaged, s.best, *_kept(s)),
                state,
                (own, own, own, *kept),
            ),
            tuple(TrainingRecord(*record) for record in history),
            (),
        )
        for (own, kept), history in zip(models, histories, strict=True)
    )


def _require_plausible(
    path: str | Path,
    architecture: Architecture,
    n_inputs: int,
    n_parameters: int,
    n_models: int,
) -> None:
    """Before anything is allocated: a file cannot hold a model larger than itself."""
    n_latent, hidden, layers = architecture.n_latent, architecture.n_hidden, architecture.n_layers

    def floats(n_in: int, n_out: int) -> int:
        widths = [n_in, *[hidden] * min(layers, 2), n_out]
        pairs = sum(a * b for a, b in zip(widths[:-1], widths[1:], strict=True))
        return pairs + max(layers - 2, 0) * hidden**2

    encoder = floats(2 * n_inputs + n_latent, 3 * n_latent)
    decoder = floats(n_latent, n_parameters) + n_latent * n_parameters
    if 4 * n_models * (encoder + decoder) > Path(path).stat().st_size:
        raise FileFormatError(f"{path} is damaged: it is too small for the model it describes")


def _column(fields: dict[str, Any]) -> ColumnSchema:
    transform = fields.pop("transform")
    column = ColumnSchema(
        **fields, transform=None if transform is None else Transform(**transform)
    )
    if column.kind not in KINDS:
        raise FileFormatError(f"the column kind {column.kind!r} is not known")
    if column.storage not in get_args(Storage):
        raise FileFormatError(f"the storage {column.storage!r} is not known")
    if column.transform is not None and column.transform.shape not in ("identity", "log", "asinh"):
        raise FileFormatError(f"the scale {column.transform.shape!r} is not known")
    return column


def _plain(value: Any) -> Any:
    """As JSON has it, strictly: other types and special numbers by name.

    Raises:
        DataError: for what cannot be written.
    """
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, int):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Mapping):
        return {"dict": [[_plain(key), _plain(item)] for key, item in value.items()]}
    if isinstance(value, tuple):
        return {"tuple": [_plain(item) for item in value]}
    if isinstance(value, list):
        return [_plain(item) for item in value]
    raise DataError(
        f"cannot save {value!r} of type {type(value).__name__}: categories and settings must be "
        "text, numbers or booleans"
    )


def _restored(value: Any) -> Any:
    """The inverse of `_plain`."""
    if isinstance(value, list):
        return [_restored(item) for item in value]
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "float":
        return float(content)
    if kind == "tuple":
        return tuple(_restored(item) for item in content)
    if kind == "dict":
        return {_restored(key): _restored(item) for key, item in content}
    raise FileFormatError(f"the header has a value of unknown type {kind!r}")
