"""The border of the engine: what counts as an incomplete array, and clear errors if not."""

from typing import Any

import numpy as np
from jaxtyping import Bool, Float

from miwae._words import counted
from miwae.errors import DataError, SettingsError

LARGEST = 1e15  # whose square, summed over cells, is a number of single precision


def as_incomplete(
    x: object, observed: object = None, n_features: int | None = None
) -> tuple[Float[np.ndarray, "N D"], Bool[np.ndarray, "N D"]]:
    """Turn `x` into float32 numbers and the indicator of what was observed.

    By default the cells that are not NaN are observed. What `x` holds in missing cells is kept,
    because the oracle fill of the paper's experiments reads it; nothing else does. Refused with a
    `DataError`: a wrong shape or width, an infinity or a NaN in an observed cell.

    Examples:
        >>> as_incomplete([[1.0, float("nan")]])[1]
        array([[ True, False]])
    """
    try:
        values = np.asarray(x, dtype=np.float32)
    except (TypeError, ValueError) as error:
        raise DataError(f"x must be an array of numbers: {error}") from error
    if values.ndim != 2:
        raise DataError(
            f"x must have two axes, rows and features, but has shape {values.shape}; "
            "a single row is x[None, :]"
        )
    if n_features is not None and values.shape[1] != n_features:
        raise DataError(
            f"the model has {n_features} features, but x has {values.shape[1]} columns"
        )
    seen = ~np.isnan(values) if observed is None else np.asarray(observed)
    if seen.dtype != np.bool_:
        raise DataError(f"observed must be boolean (True = seen), not {seen.dtype}")
    if seen.shape != values.shape:
        raise DataError(f"observed has shape {seen.shape}, but x has shape {values.shape}")
    bad = seen & ~(np.abs(values) <= LARGEST)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        such = counted(int(bad.sum()), "such cell")
        raise DataError(
            f"observed cells must be finite, and no larger than {LARGEST:g}: row {row}, column "
            f"{column} is {values[row, column]:g} ({such}); mark them as "
            "missing, correct them, or standardise the column"
        )
    return values, seen


def require_trainable(observed: Bool[np.ndarray, "N D"], *, columns: bool = True) -> None:
    """Refuse to learn from rows, or from columns, with no observed cell."""
    if observed.size == 0:
        raise DataError(f"there is nothing to learn from in an array of shape {observed.shape}")
    for axis, what in ((1, "row"), (0, "column"))[: 1 + columns]:
        empty = ~observed.any(axis=axis)
        if empty.any():
            raise DataError(
                f"{what} {int(np.flatnonzero(empty)[0])} has no observed cell "
                f"({int(empty.sum())} such {what}s): remove them before training"
            )


def require_at_least(minimum: int, **settings: Any) -> None:
    """Refuse counts that are not whole numbers, or below a minimum, by name."""
    for name, value in settings.items():
        if not isinstance(value, int | np.integer):
            raise SettingsError(f"{name} must be a whole number, not {value!r}")
        if value < minimum:
            raise SettingsError(f"{name} must be at least {minimum}, not {value}")


def padded_size(n: int) -> int:
    """The next of the sizes 0, 8, 12, 16, 24, 32, ..., for which programs are compiled.

    Examples:
        >>> [padded_size(n) for n in (0, 1, 5, 9, 20)]
        [0, 8, 8, 12, 24]
    """
    size = 8
    while size < n:
        size = size * 3 // 2 if size & (size - 1) == 0 else size * 4 // 3
    return size if n else 0


def checked_weights(weights: object, n_rows: int) -> Float[np.ndarray, " N"] | None:
    """Weights of rows as an array, None where there are none.

    Raises:
        DataError: not one finite number per row, one is negative, or all are zero.
    """
    if weights is None:
        return None
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise DataError(f"sample_weight must have a number for each row: {error}") from error
    if array.ndim == 0:
        array = np.full(n_rows, float(array))
    if array.shape != (n_rows,):
        raise DataError(
            f"sample_weight must have a number for each of the {n_rows} rows, not the shape "
            f"{array.shape}"
        )
    wrong = np.flatnonzero(~(np.isfinite(array) & (array >= 0)))
    if len(wrong):
        raise DataError(
            f"sample_weight is {array[wrong[0]]} in row {wrong[0]}: weights must be finite and "
            "not negative"
        )
    if not array.any():
        raise DataError("sample_weight is zero in all rows: nothing can be learned")
    return array


def relative_weights(
    weights: Float[np.ndarray, " N"] | None, n_rows: int
) -> Float[np.ndarray, " N"]:
    """Weights relative to their mean: exactly 1 where all are equal."""
    if weights is None or np.ptp(weights) == 0:
        return np.ones(n_rows, dtype=np.float32)
    return (weights / weights.mean()).astype(np.float32)
