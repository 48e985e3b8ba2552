"""Rubin's rules: one answer, and its uncertainty, from the analyses of several copies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from miwae.errors import SettingsError
from miwae.multiple.estimates import read_quantities

__all__ = ["Pooled", "pool"]

# One number per quantity, or a single number where each copy gave a single number.
Values: TypeAlias = np.ndarray | float

# As mice: the classical degrees of freedom stay finite where the copies agree entirely.
SMALLEST_LAMBDA = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False)
class Pooled:
    """The pooled answer; all of it has the shape of one copy's estimates.

    Attributes:
        names: of the quantities, if the estimates came with names.
        estimate: the mean over the copies.
        ubar: the variance within copies: what complete data would leave.
        b: the variance between copies: what the missing cells add.
        t: the total variance, `ubar + (1 + 1/M) b`.
        df: degrees of freedom of the t distribution that intervals and p-values use.
        riv: relative increase in variance due to the missing cells.
        lambda_: proportion of the total variance that is due to the missing cells.
        fmi: fraction of missing information. As a rule of thumb, use at least `100 fmi`
            imputations if the answer should not change with the next set of them.
        df_complete: degrees of freedom that complete data would have, infinite if not given.
        n_imputations: M.
    """

    names: tuple[str, ...] | None
    estimate: Values
    ubar: Values
    b: Values
    t: Values
    df: Values
    riv: Values
    lambda_: Values
    fmi: Values
    df_complete: float
    n_imputations: int

    @property
    def std_error(self) -> Values:
        """The square root of the total variance."""
        return np.sqrt(self.t)

    @property
    def statistic(self) -> Values:
        """The estimate in standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(self.estimate, self.std_error)

    @property
    def p_value(self) -> Values:
        """Two-sided, of the hypothesis that the quantity is zero."""
        from scipy.special import stdtr

        p = 2 * stdtr(self.df, -np.abs(self.statistic))
        # Without degrees of freedom nothing is known, and nothing can be rejected.
        return np.where(np.equal(self.df, 0), 1.0, p)[()]

    def interval(self, level: float = 0.95) -> tuple[Values, Values]:
        """Lower and upper ends of the confidence interval.

        Args:
            level: how often such intervals hold the truth, between 0 and 1.
        """
        from scipy.special import stdtrit

        if not 0 < level < 1:
            raise SettingsError(f"level = {level}: it must lie between 0 and 1, as 0.95")
        quantile = np.where(np.equal(self.df, 0), np.inf, stdtrit(self.df, (1 + level) / 2))
        margin = (quantile * self.std_error)[()]
        return self.estimate - margin, self.estimate + margin

    def to_frame(self) -> Any:
        """A pandas data frame with a row per quantity."""
        try:
            import pandas as pd
        except ModuleNotFoundError as error:
            raise SettingsError("to_frame needs pandas: pip install pandas") from error
        return pd.DataFrame(self._columns())

    def _columns(self) -> Mapping[str, tuple[str, ...] | np.ndarray]:
        columns = {
            "estimate": self.estimate,
            "std_error": self.std_error,
            "statistic": self.statistic,
            "df": self.df,
            "p_value": self.p_value,
            "riv": self.riv,
            "lambda": self.lambda_,
            "fmi": self.fmi,
            "ubar": self.ubar,
            "b": self.b,
            "t": self.t,
        }
        terms = self.names or tuple(str(i) for i in range(np.size(self.estimate)))
        return {"term": terms} | {name: np.atleast_1d(values) for name, values in columns.items()}

    def __str__(self) -> str:
        columns = self._columns()
        shown = ("estimate", "std_error", "statistic", "df", "p_value", "fmi")
        rows = [("", *shown)]
        rows += zip(
            columns["term"], *([f"{v:.4g}" for v in columns[name]] for name in shown), strict=True
        )
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = [f"Pooled over {self.n_imputations} imputations by Rubin's rules"]
        for term, *numbers in rows:
            cells = [number.rjust(w) for number, w in zip(numbers, widths[1:], strict=True)]
            lines.append("  ".join([term.ljust(widths[0]), *cells]))
        return "\n".join(lines)


def pool(estimates: Any, variances: Any, *, df_complete: float | int | None = None) -> Pooled:
    r"""Pools what the same analysis found on each of M completed copies.

    With estimates :math:`Q_m` and squared standard errors :math:`U_m`, Rubin (1987) has

    .. math::
        \bar Q = \frac1M \sum_m Q_m, \quad \bar U = \frac1M \sum_m U_m, \quad
        B = \frac{1}{M-1} \sum_m (Q_m - \bar Q)^2, \quad T = \bar U + (1 + 1/M) B,

    with :math:`\lambda = (1 + 1/M) B / T`, and intervals from a t distribution whose degrees of
    freedom are those of Barnard and Rubin (1999), as in `mice::pool`.

    Args:
        estimates: of shape (M,) for one quantity or (M, q) for several, or M pandas Series, whose
            values are then matched by name.
        variances: squared standard errors in the same shape, or M covariance matrices, of which
            the diagonals are used.
        df_complete: residual degrees of freedom of the analysis if no cell were missing, n - q for
            a regression with q coefficients; None for infinitely many.

    Returns:
        The estimate, its variance and degrees of freedom, and how much was missing.

    Raises:
        SettingsError: for fewer than two copies: their differences carry the uncertainty.
        DataError: for tables in the place of estimates, and for numbers that do not fit together.

    Example:
        >>> from miwae.multiple import pool
        >>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], df_complete=20)
        >>> float(pooled.estimate), round(float(pooled.t), 4), round(float(pooled.df), 3)
        (2.0, 1.8333, 2.149)
    """
    names, points, squares = read_quantities(estimates, variances)
    m = len(points)
    if m < 2:
        raise SettingsError(
            f"{m} imputation(s): Rubin's rules need at least two, because the uncertainty due to "
            "missing cells is what differs between copies; sample with n_imputations=20, say"
        )
    ubar, b = squares.mean(axis=0), points.var(axis=0, ddof=1)
    added = (1 + 1 / m) * b
    t = ubar + added
    lambda_ = _ratio(added, t)
    complete = _checked_df(df_complete)
    df = _barnard_rubin(m, lambda_, complete)
    # The same as (riv + 2 / (df + 3)) / (riv + 1), and has its limit for riv to infinity.
    fmi = lambda_ + (1 - lambda_) * 2 / (df + 3)
    return Pooled(
        names=names,
        estimate=points.mean(axis=0),
        ubar=ubar,
        b=b,
        t=t,
        df=df,
        riv=_ratio(added, ubar),
        lambda_=lambda_,
        fmi=fmi,
        df_complete=complete,
        n_imputations=m,
    )


def _ratio(part: Values, whole: Values) -> Values:
    """Their ratio; nothing of nothing is nothing, something of nothing infinite."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(part, 0), 0.0, np.divide(part, whole))[()]


def _barnard_rubin(m: int, lambda_: Values, df_complete: float) -> Values:
    """Degrees of freedom: those of many imputations and those of the observed data, combined."""
    lambda_ = np.maximum(lambda_, SMALLEST_LAMBDA)
    df_old = (m - 1) / lambda_**2
    if np.isinf(df_complete):
        return df_old
    df_observed = (df_complete + 1) / (df_complete + 3) * df_complete * (1 - lambda_)
    with np.errstate(divide="ignore"):
        return 1 / (1 / df_old + np.divide(1, df_observed))


def _checked_df(df_complete: float | int | None) -> float:
    if df_complete is None:
        return np.inf
    if not df_complete > 0:
        raise SettingsError(
            f"df_complete = {df_complete}: degrees of freedom must be positive; None for "
            "infinitely many"
        )
    return float(df_complete)
