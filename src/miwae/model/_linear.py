"""Factor analysis on incomplete data: the linear-Gaussian core.

`x = W z + mu + noise`, `z ~ N(0, I)`, `noise ~ N(0, diag(psi))`. Everything about it is in closed
form, for each row's own pattern of observed cells, and EM needs a second where gradient steps need
minutes.
"""

import functools
import math
import time
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from miwae._arrays import as_incomplete, require_at_least, require_trainable
from miwae._shapes import Matrices, PerLatent, PerRow, Rows, Seen, Table, TableSeen
from miwae.kernels import cholesky_solve


class LinearPosterior(NamedTuple):
    """`z | x_obs ~ N(mean, (C C')^-1)` for each row."""

    mean: PerLatent
    cholesky: Matrices  # C, lower triangular
    inverse: Matrices  # C^-1


class FactorAnalysis(eqx.Module):
    """The parameters of a factor analysis of D features with L factors."""

    loadings: Float[Array, "D L"]
    mean: Float[Array, " D"]
    noise: Float[Array, " D"]

    def posterior(self, x: Rows, observed: Seen) -> LinearPosterior:
        """The posterior of the factors of each row given its observed cells."""
        weight = jnp.where(observed, 1 / self.noise[None], 0.0)
        residual = jnp.where(observed, jnp.where(observed, x, 0.0) - self.mean[None], 0.0)
        return self.posterior_given(weight, weight * residual)

    def log_prob(self, x: Rows, observed: Seen) -> PerRow:
        """`log p(x_obs)`, by the determinant lemma and Woodbury's identity."""
        found = self.posterior(x, observed)
        residual = jnp.where(observed, jnp.where(observed, x, 0.0) - self.mean[None], 0.0)
        square = jnp.where(observed, residual**2 / self.noise[None], 0.0)
        half = jnp.einsum("blm,bl->bm", found.cholesky, found.mean)
        log_det = jnp.sum(jnp.log(jnp.diagonal(found.cholesky, axis1=1, axis2=2)), axis=-1)
        constants = jnp.where(observed, jnp.log(2 * math.pi * self.noise)[None], 0.0)
        return -0.5 * (jnp.sum(square + constants, -1) - jnp.sum(half**2, -1)) - log_det

    def posterior_given(self, weight: Rows, information: Rows) -> LinearPosterior:
        """The posterior of the factors given the precision of each feature of a row.

        Precision `I + W' diag(weight) W`; the information is the weight times the deviation of
        what was observed from the mean.
        """
        n_latent = self.loadings.shape[1]
        outer = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(-1, n_latent**2)
        precision = (outer.T @ weight.T).reshape(n_latent, n_latent, -1)
        projected = (self.loadings.T @ information.T)[:, None]
        identity = jnp.eye(n_latent)[..., None]
        known = [jnp.broadcast_to(identity, precision.shape), projected]
        factor, solved = cholesky_solve(identity + precision, jnp.concatenate(known, axis=1))
        inverse, half = solved[:, :-1], solved[:, -1]
        mean = jnp.sum(inverse * half[:, None], axis=0).T
        rows_first = lambda a: jnp.moveaxis(a, -1, 0)  # noqa: E731
        return LinearPosterior(mean, rows_first(factor), rows_first(inverse))

    def padded(
        self, n_latent: int, used: Int[np.ndarray, " D"] | None = None, n_features: int = 0
    ) -> "FactorAnalysis":
        """The same model with more factors of zero loadings, and more features of unit noise."""
        if used is None:
            used, n_features = np.arange(len(self.mean)), len(self.mean)
        loadings = np.zeros((n_features, n_latent), dtype=np.float32)
        mean, noise = np.zeros(n_features, np.float32), np.ones(n_features, np.float32)
        loadings[used, : self.loadings.shape[1]] = self.loadings
        mean[used], noise[used] = self.mean, self.noise
        return FactorAnalysis(*jax.device_put((loadings, mean, noise)))


class FactorFit(NamedTuple):
    """The result of EM and the objective before each iteration and after the last."""

    model: FactorAnalysis
    objective: Float[np.ndarray, " T"]


class _Parameters(NamedTuple):
    """A factor analysis in double precision, while it is being fitted.

    EM runs in NumPy: it takes a second at most, and compiling it would take longer.
    """

    loadings: Float[np.ndarray, "D L"]
    mean: Float[np.ndarray, " D"]
    noise: Float[np.ndarray, " D"]


class _Patterns(NamedTuple):
    """Features that are observed in the same rows, such as the levels of a category.

    What depends on where a feature was observed, but not on its value, is the same for all
    features of a pattern: with many levels, that is most of the work.
    """

    seen: Float[np.ndarray, "N G"]  # 1 where a pattern's features were observed
    pattern_of: Int[np.ndarray, " D"]

    def sums(self, a: Float[np.ndarray, "D *M"]) -> Float[np.ndarray, "G *M"]:
        """Over the features of each pattern."""
        order = np.argsort(self.pattern_of, kind="stable")
        starts = np.searchsorted(self.pattern_of[order], np.arange(self.seen.shape[1]))
        return np.add.reduceat(a[order], starts, axis=0)


def _patterns(observed: TableSeen) -> _Patterns:
    packed = [column.tobytes() for column in np.packbits(observed, axis=0).T]
    numbers = {column: g for g, column in enumerate(dict.fromkeys(packed))}
    pattern_of = np.array([numbers[column] for column in packed])
    _, first = np.unique(pattern_of, return_index=True)
    return _Patterns(observed[:, first].astype(np.float64), pattern_of)


class _Moments(NamedTuple):
    """Sums over rows, for each feature over the rows in which it was observed; z' = (z, 1)."""

    zz: Float[np.ndarray, "G M M"]  # E[z' z''], for each pattern
    xz: Float[np.ndarray, "D M"]  # x E[z']
    log_prob: float

    def plus(self, other: "_Moments") -> "_Moments":
        """Of these rows and of others."""
        return _Moments(self.zz + other.zz, self.xz + other.xz, self.log_prob + other.log_prob)


def _expect(
    model: _Parameters, x: Table, observed: TableSeen, patterns: _Patterns, block_rows: int
) -> _Moments:
    """The E-step for all rows, a block at a time; the posterior of `FactorAnalysis.posterior`."""
    n_latent = model.loadings.shape[1]
    scaled = model.loadings / model.noise[:, None]
    outer = (model.loadings[:, :, None] * scaled[:, None, :]).reshape(-1, n_latent**2)
    precision = patterns.sums(outer)
    constants = patterns.sums(np.log(2 * math.pi * model.noise))

    def moments(rows: slice) -> _Moments:
        seen = patterns.seen[rows]
        n_rows, n_extended = len(seen), n_latent + 1
        each = (precision.T @ seen.T).reshape(n_latent, n_latent, n_rows)
        covariance, log_det = _inverse(np.eye(n_latent)[..., None] + each)
        residual = np.where(observed[rows], x[rows] - model.mean, 0.0)
        projected = scaled.T @ residual.T
        mean = np.sum(covariance * projected[None], axis=1)
        quadratic = np.square(residual) @ (1 / model.noise) - np.sum(projected * mean, axis=0)
        extended = np.concatenate([mean, np.ones((1, n_rows))])
        second = extended[:, None] * extended[None, :]
        second[:-1, :-1] += covariance
        return _Moments(
            zz=(second.reshape(-1, n_rows) @ seen).T.reshape(-1, n_extended, n_extended),
            xz=(extended @ x[rows]).T,
            log_prob=float(-0.5 * np.sum(quadratic + seen @ constants + log_det)),
        )

    blocks = (slice(i, i + block_rows) for i in range(0, len(x), block_rows))
    return functools.reduce(_Moments.plus, map(moments, blocks))


def _inverse(
    a: Float[np.ndarray, "L L B"],
) -> tuple[Float[np.ndarray, "L L B"], Float[np.ndarray, " B"]]:
    """Inverses and log-determinants of positive definite matrices, by Gauss-Jordan elimination.

    The matrices are the first axes, so that each step is one vectorised operation over all rows:
    three times as fast as LAPACK, called once for each of many small matrices.
    """
    a = a.copy()
    log_det = np.zeros(a.shape[-1])
    for k in range(a.shape[0]):
        pivot = a[k, k].copy()
        row, column = a[k] / pivot, a[:, k].copy()
        a -= column[:, None] * row[None]
        a[k], a[:, k], a[k, k] = row, -column / pivot, 1 / pivot
        log_det += np.log(pivot)
    return a, log_det


def _maximise(
    sums: _Moments, x: Float[np.ndarray, "N D"], patterns: _Patterns, ridge: float, floor: float
) -> _Parameters:
    """The M-step: a ridge regression of each feature on the factors, then its noise."""
    zz, n_extended = sums.zz[patterns.pattern_of], sums.zz.shape[1]
    # The intercept is not penalised; a trace of ridge keeps columns without variance solvable.
    penalty = np.append(np.full(n_extended - 1, ridge), 0.0)
    weights = np.linalg.solve(zz + np.diag(penalty + 1e-6), sums.xz[..., None])[..., 0]
    fitted = np.einsum("dm,dmk,dk->d", weights, zz, weights, optimize=True)
    squares = np.sum(x**2, axis=0) - 2 * np.sum(weights * sums.xz, axis=1) + fitted
    squares += ridge * np.sum(weights[:, :-1] ** 2, axis=1)
    count = patterns.seen.sum(axis=0)[patterns.pattern_of]
    noise = np.maximum(squares / np.maximum(count, 1.0), floor)
    return _Parameters(weights[:, :-1], weights[:, -1], noise)


def _objective(model: _Parameters, log_prob: float, ridge: float) -> float:
    return log_prob - 0.5 * ridge * float(np.sum(model.loadings**2 / model.noise[:, None]))


def _start(x: Table, observed: TableSeen, n_factors: int, floor: float) -> _Parameters:
    """Principal axes of the pairwise-complete covariance."""
    count = np.maximum(observed.sum(0), 1)
    mean = np.where(observed, x, 0.0).sum(0) / count
    centred = np.where(observed, x - mean, 0.0)
    variance = np.maximum((centred**2).sum(0) / count, floor)
    seen = observed.astype(np.float64)
    covariance = (centred.T @ centred) / np.maximum(seen.T @ seen, 1)
    values, vectors = np.linalg.eigh(covariance)
    top = vectors[:, ::-1][:, :n_factors]
    spread = np.sqrt(np.maximum(values[::-1][:n_factors], 1e-3) / 2)
    return _Parameters(top * spread, mean, variance / 2)


def fit_factor_analysis(
    x: Table,
    observed: TableSeen | None = None,
    *,
    n_factors: int,
    n_iterations: int = 60,
    ridge: float = 1.0,
    noise_floor: float = 0.01,
    block_rows: int = 1024,
    deadline: float | None = None,
) -> FactorFit:
    """Fit factor analysis to incomplete rows by EM.

    Maximises the log-likelihood of the observed cells minus `ridge/2 sum_j |w_j|^2 / psi_j`; the
    noise stays at or above its floor. No iteration lowers this objective (up to rounding).

    Args:
        x: rows, standardised.
        observed: True where a cell was seen; by default the cells that are not NaN.
        n_factors: number of factors; at most the number of features.
        n_iterations: EM iterations.
        ridge: penalty on the loadings, in units of observations.
        noise_floor: smallest noise variance.
        block_rows: rows whose posterior is held in memory at once.
        deadline: by `time.monotonic()`; after it no further iteration begins.

    Returns:
        The model and the trace of the objective.

    Examples:
        >>> rows = np.random.default_rng(0).normal(size=(50, 1)) @ np.ones((1, 3))
        >>> fit = fit_factor_analysis(rows, n_factors=1)
        >>> fit.objective[-1] > fit.objective[0]
        np.True_
    """
    require_at_least(1, n_factors=n_factors, n_iterations=n_iterations, block_rows=block_rows)
    x, observed = as_incomplete(x, observed)
    require_trainable(observed)
    model = _start(x, observed, min(n_factors, x.shape[1]), noise_floor)
    known = np.where(observed, x, 0.0).astype(np.float64)
    patterns = _patterns(observed)
    trace = []
    for _ in range(n_iterations):
        sums = _expect(model, known, observed, patterns, block_rows)
        trace.append(_objective(model, sums.log_prob, ridge))
        model = _maximise(sums, known, patterns, ridge, noise_floor)
        if deadline is not None and time.monotonic() > deadline:
            break
    last = _expect(model, known, observed, patterns, block_rows).log_prob
    fitted = FactorAnalysis(*jax.device_put([a.astype(np.float32) for a in model]))
    return FactorFit(fitted, np.array([*trace, _objective(model, last, ridge)]))
