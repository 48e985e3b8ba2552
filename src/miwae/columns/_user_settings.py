"""What users say about columns, checked before it is used."""

from collections.abc import Mapping
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from miwae._words import meant
from miwae.columns.kinds import LABELS, Bounds
from miwae.errors import SettingsError

# "ignore": not part of the model, and returned as it is. "predictor": used to impute others, but
# not imputed. "target": imputed, but not used to impute others. "both": what columns are without
# a role.
Role: TypeAlias = Literal["both", "ignore", "predictor", "target"]


def by_position(names: list[str], settings: Mapping[Any, Any] | None, what: str) -> dict[int, Any]:
    """Settings by name or position, as settings by position; a name comes before a position."""
    if settings is not None and not isinstance(settings, Mapping):
        raise SettingsError(f"{what} must be a dictionary by column, not {settings!r}")
    found = {}
    for key, value in (settings or {}).items():
        position = _position(key, names)
        if position is None:
            hint = meant(key, names, f"; there are {_some(names)}")
            raise SettingsError(f"{what} names the column {key!r}, which does not exist{hint}")
        if position in found:
            raise SettingsError(f"{what} names the column {names[position]!r} twice")
        found[position] = value
    return found


def _position(key: Any, names: list[str]) -> int | None:
    if str(key) in names:
        return names.index(str(key))
    is_position = isinstance(key, int | np.integer) and not isinstance(key, bool)
    return int(key) % len(names) if is_position and -len(names) <= key < len(names) else None


def _some(names: list[str], most: int = 20) -> str:
    more = [f"and {len(names) - most} more"] if len(names) > most else []
    return ", ".join([*names[:most], *more])


def require_kind(name: str, kind: Any) -> None:
    if not isinstance(kind, str) or kind.partition(":")[0] not in LABELS:
        raise SettingsError(
            f"column {name!r}: the kind {kind!r} is not one of {', '.join(LABELS)}"
        )
    if ":" in kind and not kind.startswith("ordinal:"):
        raise SettingsError(
            f"column {name!r}: there is no kind {kind!r}; after a colon comes the order of "
            "'ordinal:low<middle<high' or, in text files, 'datetime:day-first' or "
            "'datetime:month-first'"
        )


def checked_role(name: str, role: Any) -> Role:
    if role not in get_args(Role):
        words = get_args(Role)
        raise SettingsError(
            f"column {name!r}: the role {role!r} is not one of {', '.join(words)}"
            f"{meant(role, words)}"
        )
    return role


def checked_bounds(name: str, pair: Any) -> Bounds:
    try:
        lower, upper = (None if limit is None else float(limit) for limit in pair)
    except (TypeError, ValueError, OverflowError):
        lower = upper = np.nan
    if any(limit is not None and np.isnan(limit) for limit in (lower, upper)):
        raise SettingsError(f"bounds of {name!r} must be a pair of numbers, not {pair!r}")
    if lower is not None and upper is not None and not lower < upper:
        raise SettingsError(f"bounds of {name!r}: {lower:g} is not below {upper:g}")
    return lower, upper
