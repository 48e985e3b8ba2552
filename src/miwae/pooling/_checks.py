"""A fit of statsmodels to one copy, with errors where the coefficients have no estimate."""

import inspect
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from jaxtyping import Float

from miwae._words import counted
from miwae.errors import DataError

# Where no finite estimate exists, iterations end at log-odds with standard errors of thousands.
LARGEST_ERROR_OF_LOG_ODDS = 100.0


def checked_fit(made: Any, used: Any, number: int) -> Any:
    """Fits a statsmodels model; `used` is a pandas frame of the columns that it uses."""
    from statsmodels.tools import sm_exceptions as statsmodels

    x = getattr(made, "exog", None)
    if x is not None:
        _check_rank(x, made.exog_names, used, number)
    quiet = {"disp": 0} if "disp" in inspect.signature(made.fit).parameters else {}
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        # The checks below replace these warnings, which do not say in which copy.
        for name in ("Convergence", "PerfectSeparation", "HessianInversion"):
            warnings.simplefilter("ignore", getattr(statsmodels, f"{name}Warning"))
        try:
            result = made.fit(**quiet)
        except np.linalg.LinAlgError as error:
            message = f"{type(made).__name__} cannot be fitted to copy {number}: {error}"
            raise DataError(message) from error
        covariance = np.asarray(result.cov_params())
    if x is not None and covariance.shape == 2 * x.shape[1:] and np.isin(made.endog, (0, 1)).all():
        _check_separation(x, covariance, made.endog_names, number)
    _check_converged(result, number)
    return result


def _check_rank(x: Float[np.ndarray, "N Q"], names: Sequence[str], used: Any, number: int) -> None:
    """Refuses dependent features, for which OLS returns one of infinitely many solutions."""
    n, q = x.shape
    if n <= q:
        raise DataError(
            f"{counted(n, 'row is', 'rows are')} too few for {counted(q, 'coefficient')} and "
            "standard errors"
        )
    # Scaled, so that the unit of a column does not matter.
    scale = np.linalg.norm(x, axis=0)
    x = x / np.where(scale > 0, scale, 1.0)[None]
    if np.linalg.matrix_rank(x) == q:
        return
    for name, values in used.items():
        if values.dtype == "category" and (absent := set(values.cat.categories) - set(values)):
            raise DataError(
                f"the level {min(absent, key=str)!r} of the column {name!r} occurs in other "
                f"copies, but not in copy {number}, where its coefficient has no estimate: merge "
                "it with another level, or leave the column out"
            )
    last = next(i for i in range(q) if np.linalg.matrix_rank(x[:, : i + 1]) <= i)
    if np.ptp(x[:, last]) == 0:
        raise DataError(f"the feature {names[last]!r} is constant in copy {number}: leave it out")
    raise DataError(
        f"the feature {names[last]!r} is a linear combination of {', '.join(names[:last])} in "
        f"copy {number}, so that the coefficients are not determined: leave one of them out"
    )


def _check_separation(
    x: Float[np.ndarray, "N Q"], covariance: Float[np.ndarray, "Q Q"], target: str, number: int
) -> None:
    """Refuses classes that the features separate, so that the likelihood has no maximum."""
    variances = np.sum(x @ covariance * x, axis=1)
    if not np.max(variances) <= LARGEST_ERROR_OF_LOG_ODDS**2:
        raise DataError(
            f"the features separate the values of {target!r} perfectly in copy {number}, at least "
            "for some rows, so that the coefficients have no finite estimate: leave out the "
            "feature, or merge the level, that does this"
        )


def _check_converged(result: Any, number: int) -> None:
    details = getattr(result, "mle_retvals", None)
    converged = getattr(result, "converged", True)
    if isinstance(details, dict):
        converged = details.get("converged", converged)
    if converged is not None and not converged:
        raise DataError(
            f"{type(result).__name__}: the fit to copy {number} did not converge. Leave out "
            "features, merge rare levels, or use a function of a completed copy that fits the "
            "model with more iterations"
        )
