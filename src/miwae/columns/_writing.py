"""Values of imputed cells in the form that a column of some type needs."""

from collections.abc import Iterable
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int, Integer

from miwae.columns._column import Cells
from miwae.errors import DataError


def as_numbers(values: np.ndarray, name: str) -> Float[np.ndarray, " H"]:
    try:
        return np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"column {name!r} holds numbers, which {values!r} are not") from error


def as_finite(values: np.ndarray, name: str) -> Float[np.ndarray, " H"]:
    """Values for columns that know neither NaN nor infinity."""
    floats = as_numbers(values, name)
    wrong = floats[~np.isfinite(floats)]
    if len(wrong):
        raise DataError(f"column {name!r} cannot store {wrong[0]}: fill it with finite values")
    return floats


def as_whole_numbers(values: np.ndarray, dtype: np.dtype, name: str) -> Integer[np.ndarray, " H"]:
    """The nearest integers that a dtype can store: a draw of -0.7 for a count is 0."""
    info = np.iinfo(dtype)
    top = float(info.max)
    if top > info.max:  # rounded up on the way to float64
        top = np.nextafter(top, 0.0)
    return np.clip(np.rint(as_finite(values, name)), info.min, top).astype(dtype)


def as_booleans(values: np.ndarray, name: str) -> Bool[np.ndarray, " H"]:
    return as_finite(values, name) >= 0.5


def as_decimals(cells: Cells, precision: int, scale: int, name: str) -> list[Decimal]:
    """The nearest decimals within bounds; `scale` is the number of digits after the point."""
    context = Context(prec=max(precision, 1) + 400)  # room for any float64
    unit = Decimal(1).scaleb(-scale)
    limit = Decimal(10**precision - 1).scaleb(-scale, context)

    def nearest(value: Decimal) -> Decimal:
        rounded = value.quantize(unit, context=context)
        if not cells.lower <= float(rounded) <= cells.upper:
            inwards = ROUND_CEILING if float(rounded) < cells.lower else ROUND_FLOOR
            rounded = value.quantize(unit, inwards, context)
        return max(-limit, min(limit, rounded))

    return [nearest(Decimal(repr(value))) for value in as_finite(cells.values, name).tolist()]


def as_texts(values: np.ndarray, name: str) -> list[str]:
    """Levels of a column that holds nothing but text."""
    levels = values.tolist()
    for level in levels:
        if not isinstance(level, str):
            raise DataError(f"column {name!r} holds text, which {level!r} is not")
    return levels


def as_codes(values: np.ndarray, levels: Iterable[Any], name: str) -> Int[np.ndarray, " H"]:
    position = {level: code for code, level in enumerate(levels)}
    try:
        return np.array([position[value] for value in values.tolist()], np.int64)
    except KeyError as error:
        raise DataError(
            f"{error.args[0]!r} is not among the categories of column {name!r}: add it to them"
        ) from error


def cannot_fill(name: str, dtype: str) -> DataError:
    """What to raise for a column whose type no value fits."""
    return DataError(f"column {name!r} of type {dtype} cannot be filled: convert or drop it")
