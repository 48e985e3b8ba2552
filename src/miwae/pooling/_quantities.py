"""Estimates and variances of several copies, checked and brought into one order."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import narwhals.dependencies as library
import numpy as np
from jaxtyping import Float

from miwae.errors import DataError

POOLED_DATA = (
    "these are data, not estimates ({found}). Fit the model to each completed copy, with "
    '`draws.fit("y ~ x")` or `draws.apply(function)`, and pool the estimates: averaging '
    "completed tables discards the uncertainty that the copies carry. Estimates that are stored "
    "in a table, one row per copy, must be passed as an array (`.to_numpy()`)"
)

Values = Float[np.ndarray, "*Q"]
Names = tuple[str, ...] | None  # of the quantities, if they came with names


class Quantities(NamedTuple):
    """The results of M analyses, of one number or of Q numbers each."""

    names: Names
    estimates: Float[np.ndarray, " M"] | Float[np.ndarray, "M Q"]
    variances: Float[np.ndarray, " M"] | Float[np.ndarray, "M Q"]  # squared standard errors
    df: float = np.inf  # residual degrees of freedom, the smallest of all copies


class _Labelled(NamedTuple):
    values: Values
    names: Names


def read_quantities(estimates: Any, variances: Any = None) -> Quantities:
    """Reads what `pool` accepts; everything in the order of the first copy's estimates."""
    read = _read_parts(estimates, variances)
    names, ordered = None, []
    for copy, (estimate, variance, _) in enumerate(read, 1):
        a, b = estimate.values.shape, variance.values.shape
        if a != b:
            raise DataError(f"copy {copy}: estimates of shape {a}, but variances of shape {b}")
        # What has no names is in the order of what has.
        own = estimate.names or variance.names
        names = own if copy == 1 else names
        both = (("estimates", estimate), ("variances", variance))
        ordered.append(
            [
                _reordered(part.values, part.names or own, names, f"the {what} of copy {copy}")
                for what, part in both
            ]
        )
    shapes = {estimate.shape for estimate, _ in ordered}
    if len(shapes) > 1:
        raise DataError(f"the copies have estimates of different shapes: {sorted(shapes)}")
    stacked = [np.stack(parts) for parts in zip(*ordered, strict=True)] or [np.zeros(0)] * 2
    for what, values in zip(("estimate", "variance"), stacked, strict=True):
        _check_finite(what, names, values)
    return Quantities(names, *stacked, df=min((df for *_, df in read), default=np.inf))


def _read_parts(estimates: Any, variances: Any) -> list[tuple[_Labelled, _Labelled, float]]:
    if variances is None:
        return _read_copies(estimates, "results", _read_result)
    points = _read_copies(estimates, "estimates", _read_estimate)
    spreads = _read_copies(variances, "variances", _read_variance)
    if len(points) != len(spreads):
        raise DataError(f"{len(points)} copies have estimates, but {len(spreads)} have variances")
    return [(*pair, np.inf) for pair in zip(points, spreads, strict=True)]


def _read_copies(given: Any, what: str, read: Callable[[Any, int], Any]) -> list[Any]:
    _refuse_data(given, "this")
    if not isinstance(given, Iterable) or isinstance(given, str | bytes):
        raise DataError(f"{what}: {given!r} is not a sequence with one entry per copy")
    # An iterable of completed copies is refused at the first one, before the others are made.
    return [read(value, copy) for copy, value in enumerate(given, 1)]


def _refuse_data(value: Any, what: str) -> None:
    if library.is_into_dataframe(value):
        raise DataError(POOLED_DATA.format(found=f"{what} is a {type(value).__name__}"))


def _read_estimate(value: Any, copy: int) -> _Labelled:
    _refuse_data(value, f"copy {copy}")
    read = _numbers(value, f"the estimates of copy {copy}")
    if read.values.ndim > 1:
        found = f"copy {copy} is an array of shape {read.values.shape}"
        raise DataError(POOLED_DATA.format(found=found))
    return read


def _read_variance(value: Any, copy: int) -> _Labelled:
    read = _numbers(value, f"the variances of copy {copy}")
    shape = read.values.shape
    if len(shape) < 2:
        return read
    if len(shape) > 2 or shape[0] != shape[1]:
        raise DataError(
            f"the variances of copy {copy} have the shape {shape}: neither a vector nor a square "
            "matrix"
        )
    return read._replace(values=np.diagonal(read.values))


def _read_result(result: Any, copy: int) -> tuple[_Labelled, _Labelled, float]:
    if not hasattr(result, "cov_params"):
        _read_estimate(result, copy)  # refuses completed copies
        raise DataError(
            f"copy {copy} is a {type(result).__name__}: pass `pool(estimates, variances)`, or "
            "`pool(results)` with results of statsmodels"
        )
    estimate = _numbers(result.params, f"the coefficients of copy {copy}")
    if estimate.values.ndim != 1:
        raise DataError(
            f"{type(result).__name__} has no single vector of coefficients: pass estimates and "
            "variances instead"
        )
    # Some models return arrays, and keep the names of the columns elsewhere.
    labels = tuple(getattr(getattr(result, "model", None), "exog_names", None) or ())
    if estimate.names is None and len(labels) == len(estimate.values):
        estimate = estimate._replace(names=labels)
    df = getattr(result, "df_resid", None)
    return estimate, _read_variance(result.cov_params(), copy), np.inf if df is None else float(df)


def _numbers(value: Any, what: str) -> _Labelled:
    """A value as floats, with the names that only pandas objects have."""
    try:
        values = np.asarray(value, dtype=float)
    except (TypeError, ValueError) as error:
        raise DataError(f"{what} are not numbers: {value!r}") from error
    if not library.is_pandas_series(value) and not library.is_pandas_dataframe(value):
        return _Labelled(values, None)
    names = tuple(str(label) for label in value.axes[-1])
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise DataError(f"{what} have a name more than once: {', '.join(twice)}")
    return _Labelled(values, names)


def _reordered(values: Values, own: Names, names: Names, what: str) -> Values:
    """Values with their own names, in the order of `names`."""
    difference = sorted(set(names or ()) ^ set(own or ()))
    if difference:
        raise DataError(
            f"{what} have other names than those they are compared with: not in both are "
            f"{', '.join(difference)}. If these are levels of a category that some copies do not "
            "have, merge them with other levels"
        )
    return values if own is None else values[[own.index(name) for name in names or ()]]


def _check_finite(what: str, names: Names, values: Float[np.ndarray, "M *Q"]) -> None:
    good = np.isfinite(values) & ((values >= 0) | (what == "estimate"))
    if good.all():
        return
    copy, *place = np.argwhere(~good)[0]
    quantity = "".join(f" of {i if names is None else repr(names[i])}" for i in place)
    raise DataError(
        f"the {what}{quantity} in copy {copy + 1} is {values[(copy, *place)]}: it must be finite"
        f"{' and not negative' if what == 'variance' else ''}"
    )
