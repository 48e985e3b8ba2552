"""A fitted table as one file: arrays as safetensors, everything else as JSON in its header."""

import base64
import dataclasses
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import equinox as eqx
import numpy as np

from miwae._checked import checked
from miwae.columns import ColumnSchema, Scale, Schema, check_names, is_missing
from miwae.columns.kinds import KINDS_IN_ORDER, LABELS, AbstractKind, Coded, Points
from miwae.errors import DataError, FileFormatError
from miwae.events import Event
from miwae.model import MixedColumns
from miwae.tabular._fitted import FittedTable
from miwae.tabular._fitting import FittedModel, empty_model
from miwae.tabular._observation import TableModel
from miwae.tabular._quality import ColumnQuality, Quality
from miwae.tabular._settings import TableSettings
from miwae.training import (
    DAMAGE,
    TrainingRecord,
    TrainingSettings,
    TrainingState,
    load_header,
    load_tree,
    require_finite,
    save_tree,
)

KIND = "table"

_KINDS = {cls.__name__: cls for cls in KINDS_IN_ORDER}


def save_table(path: str | Path, table: FittedTable, extra: dict[str, Any]) -> None:
    """Write a fitted table."""
    training = None if table.training is None else dataclasses.asdict(table.training)
    header = {
        "kind": KIND,
        "schema": [_plain(_as_fields(column)) for column in table.schema.columns],
        "settings": _plain(dataclasses.asdict(table.settings)),
        "training": _plain(training),
        "incomplete": list(table.incomplete),
        # Whatever a library calls missing is missing anyway.
        "marks": [_plain(mark) for mark in table.marks if not is_missing(mark)],
        "events": [list(event) for event in table.events],
        "quality": [_plain(tuple(own)) for own in table.quality],
        "histories": [[_plain(tuple(r)) for r in model.history] for model in table.models],
        "arrow": base64.b64encode(table.arrow).decode(),
        "extra": _plain(extra),
    }
    save_tree(path, tuple((m.autoencoder, _kept(m.state)) for m in table.models), header)


def _as_fields(column: ColumnSchema) -> dict[str, Any]:
    fields = dataclasses.asdict(column)
    kind = type(column.kind).__name__
    return {**fields, "kind": {"class": kind, **fields["kind"]}}


def _kept(state: TrainingState) -> tuple[Any, ...]:
    """What going on with training needs besides the model itself."""
    return state.optimizer_state, state.key, state.step, state.step_scale


def load_table(path: str | Path) -> tuple[FittedTable, dict[str, Any]]:
    """Read what `save_table` wrote."""
    header = load_header(path)
    if header.get("kind") != KIND:
        raise FileFormatError(f"{path} holds a {header.get('kind')}, not a fitted table")
    try:
        return _table(path, header), dict(_restored(header["extra"]))
    except DAMAGE as error:
        if isinstance(error, FileFormatError) and str(path) in str(error):
            raise
        raise FileFormatError(f"{path} is damaged: its header makes no sense ({error})") from error


def _table(path: str | Path, header: dict[str, Any]) -> FittedTable:
    training = _restored(header["training"])
    schema = Schema(tuple(_column(_restored(column)) for column in header["schema"]))
    check_names(schema.names)
    incomplete = tuple(header["incomplete"])
    if not set(incomplete) <= set(range(len(schema.columns))):
        raise ValueError("there are no such columns")
    table = FittedTable(
        schema=schema,
        settings=checked(TableSettings, **_restored(header["settings"])),
        training=None if training is None else checked(TrainingSettings, **training),
        incomplete=incomplete,
        marks=tuple(_restored(mark) for mark in header["marks"]),
        events=tuple(checked(Event, *event) for event in header["events"]),
        quality=Quality(tuple(checked(ColumnQuality, *_restored(q)) for q in header["quality"])),
        arrow=base64.b64decode(header.get("arrow", ""), validate=True),
    )
    histories = [tuple(map(_restored, records)) for records in header["histories"]]
    return dataclasses.replace(table, models=_models(path, table, histories))


def _models(
    path: str | Path, table: FittedTable, histories: list[tuple[Any, ...]]
) -> tuple[FittedModel, ...]:
    if not histories or table.training is None:
        load_tree(path, ())
        return ()
    observation = TableModel.of(table.schema).observation
    _require_plausible(path, table.settings, observation, len(histories))
    autoencoder, state = empty_model(observation, table.settings, table.training)
    models, _ = load_tree(path, tuple((autoencoder, _kept(state)) for _ in histories))
    require_finite(path, models)
    fitted = []
    for (own, kept), history in zip(models, histories, strict=True):
        parts = lambda s: (s.autoencoder, s.averaged, s.best, *_kept(s))  # noqa: E731
        restored = eqx.tree_at(parts, state, (own, own, own, *kept))
        records = tuple(checked(TrainingRecord, *record) for record in history)
        fitted.append(FittedModel(own, restored, records, ()))
    return tuple(fitted)


def _require_plausible(
    path: str | Path, settings: TableSettings, observation: MixedColumns, n_models: int
) -> None:
    """Before anything is allocated: a file cannot hold a model larger than itself."""
    n_latent, hidden, layers = settings.n_latent, settings.n_hidden, settings.n_layers
    n_inputs, n_parameters = observation.n_inputs, observation.n_parameters

    def floats(n_in: int, n_out: int) -> int:
        widths = [n_in, *[hidden] * min(layers, 2), n_out]
        pairs = sum(a * b for a, b in zip(widths[:-1], widths[1:], strict=True))
        return pairs + max(layers - 2, 0) * hidden**2

    encoder = floats(2 * n_inputs + n_latent, 3 * n_latent)
    decoder = floats(n_latent, n_parameters) + n_latent * n_parameters
    if 4 * n_models * (encoder + decoder) > Path(path).stat().st_size:
        raise FileFormatError(f"{path} is damaged: it is too small for the model it describes")


def _column(fields: dict[str, Any]) -> ColumnSchema:
    return checked(ColumnSchema, **{**fields, "kind": _kind(fields["kind"])})


def _kind(fields: dict[str, Any]) -> AbstractKind:
    name = fields.pop("class")
    if name not in _KINDS:
        raise FileFormatError(f"the column kind {name!r} is not known")
    if "scale" in fields:
        fields["scale"] = checked(Scale, **fields["scale"])
        _require_scale(fields["scale"])
    kind = checked(_KINDS[name], **fields)
    _require_sensible(kind)
    return kind


def _require_scale(scale: Scale) -> None:
    finite = (scale.shift, scale.unit, scale.centre, scale.spread, scale.deviation)
    positive = min(scale.unit, scale.spread, scale.deviation) > 0
    if not (all(map(math.isfinite, finite)) and positive and scale.lowest <= scale.highest):
        raise ValueError(f"no column has {scale}")


def _require_sensible(kind: AbstractKind) -> None:
    """Refuse what no column can have taught."""
    lower, upper = kind.limits
    if kind.label not in LABELS or not lower <= upper:
        raise ValueError(f"no column is {kind!r:.100}")
    if isinstance(kind, Coded) and len(set(map(repr, kind.levels))) < max(len(kind.levels), 2):
        raise ValueError(f"levels must be different, and at least two, not {kind.levels!r:.100}")
    if isinstance(kind, Points):
        increasing = all(a < b for a, b in zip(kind.values[:-1], kind.values[1:], strict=True))
        shares = [share for share in kind.shares if 0 < share <= 1]
        if not increasing or len(kind.values) < 2 or len(shares) != len(kind.values):
            raise ValueError(f"no column has the values {kind.values!r:.100} so often")


def _plain(value: Any) -> Any:
    """As JSON has it, strictly: other types and special numbers by name."""
    if isinstance(value, np.generic):
        return _plain(value.item())
    if value is None or isinstance(value, bool | str | int):
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
