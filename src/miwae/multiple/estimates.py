"""Estimates and variances of several copies, checked and brought into one order."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from miwae.errors import DataError
from miwae.multiple.optional import is_a, is_frame

__all__ = ["Quantities", "read_quantities"]

POOLED_DATA = (
    "these are data, not estimates ({found}). Fit the model on each completed copy, with "
    "`draws.fit(model, target)` or `draws.apply(function)`, and pool the estimates: averaging "
    "completed tables throws away the uncertainty that the copies carry. Estimates that happen to "
    "be kept in a table, one row per copy, go in as an array (`.to_numpy()`)"
)


class Quantities(NamedTuple):
    """What M analyses found.

    Attributes:
        names: of the quantities, if they came with names.
        estimates: of shape (M,) or (M, q).
        variances: of the same shape: squared standard errors.
    """

    names: tuple[str, ...] | None
    estimates: np.ndarray
    variances: np.ndarray


class _Labelled(NamedTuple):
    """The numbers of one copy, of shape () or (q,), and their names, if any."""

    values: np.ndarray
    names: tuple[str, ...] | None


def read_quantities(estimates: Any, variances: Any) -> Quantities:
    """Reads what `pool` was given.

    Args:
        estimates: a number, vector or pandas Series per copy.
        variances: the same, or a covariance matrix per copy.
    """
    points = _read_copies(estimates, "estimates", _read_estimate)
    spreads = _read_copies(variances, "variances", _read_variance)
    if len(points) != len(spreads):
        raise DataError(
            f"estimates of {len(points)} copies, but variances of {len(spreads)}: one each is "
            "needed per copy"
        )
    pairs = [
        _paired(*pair, copy) for copy, pair in enumerate(zip(points, spreads, strict=True), 1)
    ]
    return _checked(_aligned(pairs))


def _read_copies(given: Any, what: str, read: Callable[[Any, int], _Labelled]) -> list[_Labelled]:
    if what == "estimates" and is_frame(given):
        raise DataError(POOLED_DATA.format(found=f"a {type(given).__name__}"))
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise DataError(f"{what}: {given!r} is not a sequence with one entry per copy")
    # An iterable of completed copies is refused at the first one, before the others are made.
    return [read(value, copy) for copy, value in enumerate(given, 1)]


def _read_estimate(value: Any, copy: int) -> _Labelled:
    if is_frame(value):
        raise DataError(POOLED_DATA.format(found=f"copy {copy} is a {type(value).__name__}"))
    read = _numbers(value, f"the estimates of copy {copy}")
    if read.values.ndim > 1:
        found = f"copy {copy} is an array of shape {read.values.shape}"
        raise DataError(POOLED_DATA.format(found=found))
    return read


def _read_variance(value: Any, copy: int) -> _Labelled:
    what = f"the variances of copy {copy}"
    read = _numbers(value, what)
    shape = read.values.shape
    if len(shape) < 2:
        return read
    if len(shape) > 2 or shape[0] != shape[1]:
        raise DataError(f"{what} have the shape {shape}: neither a vector nor a square matrix")
    if is_a(value, "pandas.DataFrame") and _labels(value.index, what) != read.names:
        raise DataError(f"{what}: the rows of the covariance matrix are not named as its columns")
    return read._replace(values=np.diagonal(read.values))


def _numbers(value: Any, what: str) -> _Labelled:
    """A value as floats, with the names that only pandas objects carry."""
    try:
        values = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not numbers: {value!r}") from error
    if is_a(value, "pandas.Series"):
        return _Labelled(values, _labels(value.index, what))
    if is_a(value, "pandas.DataFrame"):
        return _Labelled(values, _labels(value.columns, what))
    return _Labelled(values, None)


def _labels(index: Iterable[Any], what: str) -> tuple[str, ...]:
    names = tuple(str(label) for label in index)
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{what} carry a name more than once: {', '.join(twice)}")
    return names


def _paired(estimate: _Labelled, variance: _Labelled, copy: int) -> tuple[_Labelled, _Labelled]:
    """Estimates and variances of one copy in one order."""
    if estimate.values.shape != variance.values.shape:
        raise DataError(
            f"copy {copy}: estimates of shape {estimate.values.shape}, but variances of shape "
            f"{variance.values.shape}"
        )
    if estimate.names is None:
        return estimate._replace(names=variance.names), variance
    if variance.names is None:
        return estimate, variance._replace(names=estimate.names)
    return estimate, _reordered(variance, estimate.names, f"the variances of copy {copy}")


def _reordered(given: _Labelled, names: tuple[str, ...], what: str) -> _Labelled:
    if given.names is None:
        raise DataError(f"{what} carry no names, while those of other copies do")
    difference = sorted(set(names) ^ set(given.names))
    if difference:
        raise DataError(f"{what} are of other quantities: not in both are {', '.join(difference)}")
    place = {name: i for i, name in enumerate(given.names)}
    return _Labelled(given.values[[place[name] for name in names]], names)


def _aligned(pairs: Sequence[tuple[_Labelled, _Labelled]]) -> Quantities:
    """All copies in the order of the first."""
    if not pairs:
        return Quantities(None, np.zeros(0), np.zeros(0))
    names, shape = pairs[0][0].names, pairs[0][0].values.shape
    ordered = []
    for copy, (estimate, variance) in enumerate(pairs, 1):
        what = f"the estimates of copy {copy}"
        if names is not None:
            estimate, variance = (_reordered(part, names, what) for part in (estimate, variance))
        elif estimate.names is not None:
            raise DataError(f"{what} carry names, while those of copy 1 do not")
        if estimate.values.shape != shape:
            raise DataError(f"{what} have the shape {estimate.values.shape}, copy 1 has {shape}")
        ordered.append((estimate.values, variance.values))
    estimates, variances = (np.stack(parts) for parts in zip(*ordered, strict=True))
    return Quantities(names, estimates, variances)


def _checked(quantities: Quantities) -> Quantities:
    names, estimates, variances = quantities
    for what, values, bad in (
        ("estimate", estimates, ~np.isfinite(estimates)),
        ("variance", variances, ~(np.isfinite(variances) & (variances >= 0))),
    ):
        if bad.any():
            copy, *place = np.argwhere(bad)[0]
            quantity = "".join(f" of {i if names is None else repr(names[i])}" for i in place)
            raise DataError(
                f"the {what}{quantity} in copy {copy + 1} is {values[(copy, *place)]}: it must be "
                f"finite{' and not negative' if what == 'variance' else ''}"
            )
    return quantities
