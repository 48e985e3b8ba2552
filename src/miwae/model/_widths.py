"""Whether the parts of a model fit each other: clear errors where they meet.

Shapes are known when a program is traced, and nothing of this is part of it.
"""

from collections.abc import Callable
from typing import Any

from jaxtyping import Array, Float

from miwae.errors import SettingsError


def applied(
    network: Callable[..., Any], x: Float[Array, "*B I"], *rest: Array, called: str, given: str
) -> Any:
    """What a part of a model makes of its inputs; errors name both as `called` and `given`."""
    try:
        return network(x, *rest)
    except (TypeError, ValueError) as error:
        why = str(error).partition("\n")[0]
        raise SettingsError(
            f"the {called} {type(network).__name__} fails on the {x.shape[-1]} {given}: {why}"
        ) from error


def require_width(y: Array, expected: int, source: str, target: str) -> None:
    if (width := y.shape[-1]) != expected:
        raise SettingsError(f"{source} has width {width}, but {target} needs {expected}")
