"""Some rows of a column, and the column that several parts are of."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from jaxtyping import Int

from miwae.columns._column import Column
from miwae.errors import DataError


def taken(column: Column, rows: Int[np.ndarray, " H"]) -> Column:
    """Some rows of a column, without texts that none of them holds."""
    values, missing = column.values[rows], column.missing[rows]
    if column.storage != "text":
        return replace(column, values=values, missing=missing)
    used, place = np.unique(values[~missing].astype(np.int64), return_inverse=True)
    values[~missing] = place
    levels = tuple(column.levels[code] for code in used.tolist())
    return replace(column, values=values, missing=missing, levels=levels)


def joined(parts: Sequence[Column]) -> Column:
    """The column with the rows of all parts, one below the other.

    A part without values says nothing about the type.

    Raises:
        DataError: two parts are stored differently.
    """
    known = [part for part in parts if part.n_observed] or parts[:1]
    first = known[0]
    if other := next((part for part in known if part.storage != first.storage), None):
        raise unlike(first.name, first.storage, other.storage)
    missing = np.concatenate([part.missing for part in parts])
    levels = _levels([part for part in parts if part.storage == first.storage])
    place = {(type(level), level): float(i) for i, level in enumerate(levels)}
    values = np.concatenate([_recoded(part, place) for part in parts])
    whole, typed = all(p.whole for p in known), all(p.typed for p in known)
    return replace(first, values=values, missing=missing, levels=levels, whole=whole, typed=typed)


def unlike(name: str, one: str, other: str) -> DataError:
    return DataError(
        f"one part of the column {name!r} is stored as {one}, another as {other}: give all parts "
        "the same type"
    )


def _levels(parts: Sequence[Column]) -> tuple[Any, ...]:
    """All levels: sorted, if they are text, otherwise as declared."""
    found = dict.fromkeys((type(level), level) for part in parts for level in part.levels)
    if parts[0].storage == "text":
        found = sorted(found, key=lambda key: (key[0].__name__, key[1]))
    return tuple(level for _, level in found)


def _recoded(part: Column, place: dict[tuple[type, Any], float]) -> np.ndarray:
    if not part.levels or not part.n_observed:
        return np.full(len(part.missing), np.nan) if part.levels else part.values
    place_of = np.array([place[type(level), level] for level in part.levels])
    index = np.where(part.missing, 0, part.values).astype(np.int64)
    return np.where(part.missing, np.nan, place_of[index])
