"""Estimates and variances of several copies, checked and brought into one order."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import narwhals.dependencies as library
import numpy as np
from jaxtyping import Bool, Float

from miwae.errors import DataError

POOLED_DATA = (
    "these are data, not estimates ({found}). Fit the model to each completed copy, with "
    '`draws.fit("y ~ x")` or `draws.apply(function)`, and pool the estimates: averaging '
    "completed tables discards the uncertainty that the copies carry. Estimates that are stored "
    "in a table, one row per copy, must be passed as an array (`.to_numpy()`)"
)


class Quantities(NamedTuple):
    """The results of M analyses.

    Attributes:
        names: of the quantities, if they came with names.
        estimates: one number per copy, or Q numbers per copy.
        variances: squared standard errors, in the same shape.
        df: residual degrees of freedom, the smallest of all copies; infinite if unknown.
    """

    names: tuple[str, ...] | None
    estimates: Float[np.ndarray, " M"] | Float[np.ndarray, "M Q"]
    variances: Float[np.ndarray, " M"] | Float[np.ndarray, "M Q"]
    df: float = np.inf


class _Labelled(NamedTuple):
    """The numbers of one copy, and their names, if they have names."""

    values: Float[np.ndarray, "*Q"]
    names: tuple[str, ...] | None


def read_estimates(estimates: Any, variances: Any) -> Quantities:
    """Reads estimates and variances as `pool` accepts them.

    Args:
        estimates: a number, vector or pandas Series per copy.
        variances: the same, or a covariance matrix per copy.
    """
    points = _read_copies(estimates, "estimates", _read_estimate)
    spreads = _read_copies(variances, "variances", _read_variance)
    if len(points) != len(spreads):
        raise DataError(f"{len(points)} copies have estimates, but {len(spreads)} have variances")
    return _combined(points, spreads)


def read_results(results: Any) -> Quantities:
    """Reads the results of statsmodels, one per copy."""
    given = _read_copies(results, "results", _read_result)
    quantities = _combined([point for point, _, _ in given], [spread for _, spread, _ in given])
    return quantities._replace(df=min((df for _, _, df in given), default=np.inf))


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
    """Coefficients, their variances, and the residual degrees of freedom."""
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


def _combined(points: Sequence[_Labelled], spreads: Sequence[_Labelled]) -> Quantities:
    """Estimates and variances of all copies, in the order of the first copy's estimates."""
    pairs = [_paired(*pair, i) for i, pair in enumerate(zip(points, spreads, strict=True), 1)]
    if not pairs:
        return Quantities(None, np.zeros(0), np.zeros(0))
    names = pairs[0][0].names
    ordered = [
        [_reordered(part, names, f"the estimates of copy {i}") for part in pair]
        for i, pair in enumerate(pairs, 1)
    ]
    shapes = {estimate.shape for estimate, _ in ordered}
    if len(shapes) > 1:
        raise DataError(f"the copies have estimates of different shapes: {sorted(shapes)}")
    estimates, variances = (np.stack(parts) for parts in zip(*ordered, strict=True))
    _check_finite("estimate", names, estimates, np.isfinite(estimates))
    _check_finite("variance", names, variances, np.isfinite(variances) & (variances >= 0))
    return Quantities(names, estimates, variances)


def _paired(estimate: _Labelled, variance: _Labelled, copy: int) -> tuple[_Labelled, _Labelled]:
    """Estimates and variances of one copy in one order."""
    if estimate.values.shape != variance.values.shape:
        raise DataError(
            f"copy {copy}: estimates of shape {estimate.values.shape}, but variances of shape "
            f"{variance.values.shape}"
        )
    if estimate.names is None or variance.names is None:
        names = estimate.names or variance.names
        return estimate._replace(names=names), variance._replace(names=names)
    values = _reordered(variance, estimate.names, f"the variances of copy {copy}")
    return estimate, _Labelled(values, estimate.names)


def _reordered(
    given: _Labelled, names: tuple[str, ...] | None, what: str
) -> Float[np.ndarray, "*Q"]:
    """Values in the order of `names`."""
    if given.names == names:
        return given.values
    difference = sorted(set(names or ()) ^ set(given.names or ()))
    if difference:
        raise DataError(
            f"{what} have other names than those they are compared with: not in both are "
            f"{', '.join(difference)}. If these are levels of a category that some copies do not "
            "have, merge them with other levels"
        )
    place = {name: i for i, name in enumerate(given.names or ())}
    return given.values[[place[name] for name in names or ()]]


def _check_finite(
    what: str,
    names: tuple[str, ...] | None,
    values: Float[np.ndarray, "M *Q"],
    good: Bool[np.ndarray, "M *Q"],
) -> None:
    if good.all():
        return
    copy, *place = np.argwhere(~good)[0]
    quantity = "".join(f" of {i if names is None else repr(names[i])}" for i in place)
    raise DataError(
        f"the {what}{quantity} in copy {copy + 1} is {values[(copy, *place)]}: it must be finite"
        f"{' and not negative' if what == 'variance' else ''}"
    )
