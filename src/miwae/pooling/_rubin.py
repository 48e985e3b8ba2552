"""Rubin's rules: one estimate, and its uncertainty, from the analyses of several copies."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from jaxtyping import Float
from scipy.special import stdtr, stdtrit

from miwae._extras import extra
from miwae._words import counted, visible
from miwae.errors import SettingsError
from miwae.pooling._quantities import read_quantities

# One number per quantity, or a single number where each copy gave a single number.
PooledValues: TypeAlias = Float[np.ndarray, " Q"] | float

# As in mice: the classical degrees of freedom stay finite where all copies agree.
SMALLEST_LAMBDA = 1e-4


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Pooled:
    """Pooled estimates with their uncertainty, in the shape of one copy's estimates.

    Attributes:
        names: of the quantities, if the estimates came with names.
        estimate: the mean over the copies.
        ubar: the variance within copies: the variance that complete data would have.
        b: the variance between copies, which the missing cells cause.
        t: the total variance, `ubar + (1 + 1/M) b`.
        df: degrees of freedom of the t distribution that intervals and p-values use.
        riv: relative increase in variance due to the missing cells.
        lambda_: proportion of the total variance that is due to the missing cells.
        fmi: fraction of missing information. As a rule of thumb, use at least `100 fmi`
            imputations for results that hardly change with another random seed.
        df_complete: degrees of freedom that complete data would have, infinite if not given.
        n_imputations: M.
    """

    names: tuple[str, ...] | None
    estimate: PooledValues
    ubar: PooledValues
    b: PooledValues
    t: PooledValues
    df: PooledValues
    riv: PooledValues
    lambda_: PooledValues
    fmi: PooledValues
    df_complete: float
    n_imputations: int

    @property
    def std_error(self) -> PooledValues:
        """The square root of the total variance."""
        return np.sqrt(self.t)

    @property
    def statistic(self) -> PooledValues:
        """The estimate in standard errors."""
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.divide(self.estimate, self.std_error)

    @property
    def p_value(self) -> PooledValues:
        """Two-sided, of the hypothesis that the quantity is zero."""
        p = 2 * stdtr(self.df, -np.abs(self.statistic))
        # Without degrees of freedom nothing can be rejected.
        return np.where(np.equal(self.df, 0), 1.0, p)[()]

    def interval(self, level: float = 0.95) -> tuple[PooledValues, PooledValues]:
        """Lower and upper ends of the confidence interval that covers with probability `level`."""
        if not 0 < level < 1:
            raise SettingsError(f"level = {level}: it must lie between 0 and 1, as 0.95")
        quantile = np.where(np.equal(self.df, 0), np.inf, stdtrit(self.df, (1 + level) / 2))
        margin = (quantile * self.std_error)[()]
        return self.estimate - margin, self.estimate + margin

    def to_frame(self) -> Any:
        """A pandas data frame with a row per quantity."""
        return extra("pandas").DataFrame(self._columns())

    def _columns(self) -> Mapping[str, tuple[str, ...] | np.ndarray]:
        terms = self.names or tuple(str(i) for i in range(np.size(self.estimate)))
        shown = "estimate std_error statistic df p_value riv lambda_ fmi ubar b t".split()
        values = {name.strip("_"): np.atleast_1d(getattr(self, name)) for name in shown}
        return {"term": terms} | values

    def __repr__(self) -> str:
        columns = self._columns()
        shown = ("estimate", "std_error", "statistic", "df", "p_value", "fmi")
        texts = [[f"{value:.4g}" for value in columns[name]] for name in shown]
        terms = map(visible, columns["term"])
        rows = [("", *shown), *zip(terms, *texts, strict=True)]
        widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
        lines = [f"Pooled over {counted(self.n_imputations, 'imputation')} by Rubin's rules"]
        for term, *numbers in rows:
            cells = [number.rjust(w) for number, w in zip(numbers, widths[1:], strict=True)]
            lines.append("  ".join([term.ljust(widths[0]), *cells]))
        return "\n".join(lines)


def pool(
    estimates: Any, variances: Any = None, *, df_complete: float | int | None = None
) -> Pooled:
    r"""Pools the results of the same analysis on each of M completed copies.

    For estimates :math:`Q_m` with squared standard errors :math:`U_m`, Rubin (1987) gives

    .. math::
        \bar Q = \frac1M \sum_m Q_m, \quad \bar U = \frac1M \sum_m U_m, \quad
        B = \frac{1}{M-1} \sum_m (Q_m - \bar Q)^2, \quad T = \bar U + (1 + 1/M) B,

    with :math:`\lambda = (1 + 1/M) B / T`. Intervals and p-values use a t distribution with the
    degrees of freedom of Barnard and Rubin (1999), as `mice::pool` does.

    Args:
        estimates: of shape (M,) for one quantity or (M, Q) for several; or M pandas Series, whose
            values are matched by name; or, without `variances`, M results of statsmodels.
        variances: squared standard errors in the same shape, or M covariance matrices, of which
            the diagonals are used.
        df_complete: residual degrees of freedom of the analysis if no cell were missing, N - Q for
            a regression with Q coefficients on N rows. None for those of the statsmodels results,
            and for infinitely many with estimates and variances.

    Raises:
        SettingsError: for fewer than two copies.
        DataError: for tables instead of estimates, and for numbers that do not fit together.

    Examples:
        >>> from miwae.pooling import pool
        >>> pooled = pool([1.0, 2.0, 3.0], [0.5, 0.5, 0.5], df_complete=20)
        >>> float(pooled.estimate), round(float(pooled.t), 4), round(float(pooled.df), 3)
        (2.0, 1.8333, 2.149)
    """
    names, q, u, df_found = read_quantities(estimates, variances)
    m = len(q)
    if m < 2:
        raise SettingsError(
            f"{m} imputation(s): Rubin's rules need at least two, because the differences between "
            "copies measure the uncertainty due to missing cells. Try n_imputations=20"
        )
    complete = float(df_found if df_complete is None else df_complete)
    if not complete > 0:
        raise SettingsError(f"df_complete = {complete}: degrees of freedom must be positive")
    ubar, b = u.mean(axis=0), q.var(axis=0, ddof=1)
    added = (1 + 1 / m) * b
    t = ubar + added
    lambda_ = _ratio(added, t)
    df = _barnard_rubin(m, lambda_, complete)
    # Equal to (riv + 2 / (df + 3)) / (riv + 1), and finite where riv is infinite.
    fmi = lambda_ + (1 - lambda_) * 2 / (df + 3)
    parts = {"ubar": ubar, "b": b, "t": t, "df": df, "riv": _ratio(added, ubar)}
    parts |= {"estimate": q.mean(axis=0), "lambda_": lambda_, "fmi": fmi}
    return Pooled(names=names, df_complete=complete, n_imputations=m, **parts)


def _ratio(part: PooledValues, whole: PooledValues) -> PooledValues:
    """Their ratio, where 0 / 0 is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(np.equal(part, 0), 0.0, np.divide(part, whole))[()]


def _barnard_rubin(m: int, lambda_: PooledValues, df_complete: float) -> PooledValues:
    """Degrees of freedom of the imputations and of the observed data, combined."""
    lambda_ = np.maximum(lambda_, SMALLEST_LAMBDA)
    df_old = (m - 1) / lambda_**2
    if np.isinf(df_complete):
        return df_old
    df_observed = (df_complete + 1) / (df_complete + 3) * df_complete * (1 - lambda_)
    with np.errstate(divide="ignore"):
        return 1 / (1 / df_old + np.divide(1, df_observed))
