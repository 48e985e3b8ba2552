"""Values out of files that hold what the annotations of their class say."""

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Literal, TypeVar, Union

import numpy as np

from miwae.errors import FileFormatError

T = TypeVar("T")


def checked(make: Callable[..., T], *values: Any, **fields: Any) -> T:
    """A dataclass or named tuple of these values; a `FileFormatError` if one does not fit."""
    hints = _hints(make)
    given = {**dict(zip(hints, values, strict=False)), **fields}
    for name, value in given.items():
        if name in hints and not _fits(value, hints[name]):
            raise FileFormatError(f"{name} cannot be {value!r:.60}")
    return make(*values, **fields)


def _hints(cls: Any) -> dict[str, Any]:
    names = getattr(cls, "_fields", None) or [field.name for field in dataclasses.fields(cls)]
    hints = typing.get_type_hints(cls)
    return {name: hints[name] for name in names}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is what an annotation says; for the annotations of this package."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if hint is Any or origin is ClassVar:
        return True
    if hint is float:
        return isinstance(value, float | int | np.number)
    if hint is int:
        return isinstance(value, int | np.integer)
    if hint is None or hint is type(None):
        return value is None
    if origin is Literal:
        return isinstance(value, str) and value in arguments
    if origin in (Union, types.UnionType):
        return any(_fits(value, one) for one in arguments)
    if origin is tuple:
        return isinstance(value, tuple) and _items_fit(value, arguments)
    if origin is Mapping:
        return isinstance(value, dict) and all(_fits(v, arguments[1]) for v in value.values())
    return isinstance(value, origin or hint)


def _items_fit(values: tuple[Any, ...], hints: tuple[Any, ...]) -> bool:
    if len(hints) == 2 and hints[1] is Ellipsis:
        return all(_fits(value, hints[0]) for value in values)
    return len(values) == len(hints) and all(map(_fits, values, hints))
