"""Factor analysis on incomplete data: the linear-Gaussian core.

`x = W z + mu + noise`, `z ~ N(0, I)`, `noise ~ N(0, diag(psi))`. Everything about it is in closed
form, for each row's own pattern of observed cells, and EM needs a second where gradient steps need
minutes.
"""

import math
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae import linalg
from miwae.arrays import as_incomplete, require_at_least, require_trainable

__all__ = ["FactorAnalysis", "FactorFit", "LinearPosterior", "fit_factor_analysis"]


class LinearPosterior(NamedTuple):
    """`z | x_obs ~ N(mean, (C C')^-1)` for each row, and the marginal likelihood of its cells."""

    mean: Float[Array, "B L"]
    cholesky: Float[Array, "B L L"]  # C, lower triangular
    log_prob: Float[Array, " B"]  # log p(x_obs)


class FactorAnalysis(eqx.Module):
    """The parameters of a factor analysis of D features with L factors."""

    loadings: Float[Array, "D L"]
    mean: Float[Array, " D"]
    noise: Float[Array, " D"]

    def posterior(self, x: Float[Array, "B D"], observed: Bool[Array, "B D"]) -> LinearPosterior:
        """The posterior of the factors of each row given its observed cells.

        Precision `I + W_obs' Psi_obs^-1 W_obs`; the determinant lemma and Woodbury's identity give
        the marginal density from the same Cholesky factor.
        """
        n_latent = self.loadings.shape[1]
        residual = jnp.where(observed, jnp.where(observed, x, 0.0) - self.mean[None], 0.0)
        weight = jnp.where(observed, 1 / self.noise[None], 0.0)
        outer = (self.loadings[:, :, None] * self.loadings[:, None, :]).reshape(-1, n_latent**2)
        precision = (outer.T @ weight.T).reshape(n_latent, n_latent, -1)
        factor = linalg.cholesky(jnp.eye(n_latent)[..., None] + precision)
        projected = (self.loadings.T @ (weight * residual).T)[:, None]
        half = linalg.solve_lower(factor, projected)
        mean = linalg.solve_lower_transposed(factor, half)[:, 0].T
        log_det = jnp.sum(jnp.log(jnp.diagonal(factor)), axis=-1)
        quadratic = jnp.sum(weight * residual**2, -1) - jnp.sum(half[:, 0] ** 2, axis=0)
        constants = jnp.where(observed, jnp.log(2 * math.pi * self.noise)[None], 0.0)
        log_prob = -0.5 * (quadratic + jnp.sum(constants, -1)) - log_det
        return LinearPosterior(mean, jnp.moveaxis(factor, -1, 0), log_prob)

    def padded(self, n_latent: int) -> "FactorAnalysis":
        """The same model with more factors, of zero loadings."""
        missing = n_latent - self.loadings.shape[1]
        loadings = jnp.pad(self.loadings, ((0, 0), (0, missing)))
        return FactorAnalysis(loadings, self.mean, self.noise)


class FactorFit(NamedTuple):
    """The result of EM and the objective before each iteration and after the last."""

    model: FactorAnalysis
    objective: Float[np.ndarray, " T"]


class _Moments(NamedTuple):
    """Sums over rows, for each feature over the rows in which it was observed; z' = (z, 1)."""

    zz: Float[Array, "D M M"]  # E[z' z'']
    xz: Float[Array, "D M"]  # x E[z']
    xx: Float[Array, " D"]
    count: Float[Array, " D"]
    log_prob: Float[Array, ""]


def _moments(
    model: FactorAnalysis, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
) -> _Moments:
    """The E-step for a block of rows."""
    n_latent = model.loadings.shape[1]
    posterior = model.posterior(x, observed)
    factor = jnp.moveaxis(posterior.cholesky, 0, -1)
    identity = jnp.broadcast_to(jnp.eye(n_latent)[..., None], factor.shape)
    half = linalg.solve_lower(factor, identity)
    covariance = jnp.moveaxis(linalg.solve_lower_transposed(factor, half), -1, 0)
    extended = jnp.concatenate([posterior.mean, jnp.ones((x.shape[0], 1))], axis=1)
    second = extended[:, :, None] * extended[:, None, :]
    second = second.at[:, :-1, :-1].add(covariance)
    seen = observed.astype(x.dtype)
    known = jnp.where(observed, x, 0.0)
    return _Moments(
        zz=jnp.einsum("bd,bm->dm", seen, second.reshape(x.shape[0], -1)).reshape(
            x.shape[1], *second.shape[1:]
        ),
        xz=known.T @ extended,
        xx=jnp.sum(known**2, axis=0),
        count=jnp.sum(seen, axis=0),
        log_prob=jnp.sum(posterior.log_prob),
    )


def _maximise(total: _Moments, ridge: float, floor: float) -> FactorAnalysis:
    """The M-step: a ridge regression of each feature on the factors, then its noise."""
    n_extended = total.zz.shape[1]
    # The intercept is not penalised; a trace of ridge keeps columns without variance solvable.
    penalty = jnp.append(jnp.full(n_extended - 1, ridge), 0.0)
    system = total.zz + jnp.diag(penalty + 1e-6)[None]
    factor = linalg.cholesky(jnp.moveaxis(system, 0, -1))
    half = linalg.solve_lower(factor, total.xz.T[:, None])
    weights = linalg.solve_lower_transposed(factor, half)[:, 0].T
    fitted = jnp.einsum("dm,dmk,dk->d", weights, total.zz, weights)
    squares = total.xx - 2 * jnp.sum(weights * total.xz, -1) + fitted
    squares = squares + ridge * jnp.sum(weights[:, :-1] ** 2, -1)
    noise = jnp.maximum(squares / jnp.maximum(total.count, 1.0), floor)
    return FactorAnalysis(weights[:, :-1], weights[:, -1], noise)


def _objective(
    model: FactorAnalysis, log_prob: Float[Array, ""], ridge: float
) -> Float[Array, ""]:
    return log_prob - 0.5 * ridge * jnp.sum(model.loadings**2 / model.noise[:, None])


@eqx.filter_jit
def _em(
    model: FactorAnalysis,
    blocks: tuple[Float[Array, "G B D"], Bool[Array, "G B D"]],
    n_iterations: int,
    ridge: float,
    floor: float,
) -> tuple[FactorAnalysis, Float[Array, " T"]]:
    def expect(model: FactorAnalysis) -> _Moments:
        zero = jax.tree.map(
            lambda a: jnp.zeros(a.shape, a.dtype),
            jax.eval_shape(_moments, model, blocks[0][0], blocks[1][0]),
        )

        def add(total: _Moments, block: tuple[Array, Array]) -> tuple[_Moments, None]:
            return jax.tree.map(jnp.add, total, _moments(model, *block)), None

        return jax.lax.scan(add, zero, blocks)[0]

    def iterate(model: FactorAnalysis, _: None) -> tuple[FactorAnalysis, Float[Array, ""]]:
        total = expect(model)
        return _maximise(total, ridge, floor), _objective(model, total.log_prob, ridge)

    model, trace = jax.lax.scan(iterate, model, None, length=n_iterations)
    last = _objective(model, expect(model).log_prob, ridge)
    return model, jnp.append(trace, last)


def _start(
    x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"], n_factors: int, floor: float
) -> FactorAnalysis:
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
    as_float = lambda a: jnp.asarray(a, dtype=jnp.float32)  # noqa: E731
    return FactorAnalysis(as_float(top * spread), as_float(mean), as_float(variance / 2))


def fit_factor_analysis(
    x: Float[np.ndarray, "N D"],
    observed: Bool[np.ndarray, "N D"] | None = None,
    *,
    n_factors: int,
    n_iterations: int = 60,
    ridge: float = 1.0,
    noise_floor: float = 0.01,
    block_rows: int = 1024,
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

    Returns:
        The model and the trace of the objective.

    Example:
        >>> rows = np.random.default_rng(0).normal(size=(50, 1)) @ np.ones((1, 3))
        >>> fit = fit_factor_analysis(rows, n_factors=1)
        >>> fit.objective[-1] > fit.objective[0]
        np.True_
    """
    require_at_least(1, n_factors=n_factors, n_iterations=n_iterations, block_rows=block_rows)
    x, observed = as_incomplete(x, observed)
    require_trainable(observed)
    n_rows, n_features = x.shape
    model = _start(x, observed, min(n_factors, n_features), noise_floor)
    block = min(block_rows, n_rows)
    padding = ((0, -n_rows % block), (0, 0))
    shape = (-1, block, n_features)
    blocks = (
        jnp.asarray(np.pad(np.where(observed, x, 0.0), padding).reshape(shape)),
        jnp.asarray(np.pad(observed, padding).reshape(shape)),
    )
    model, trace = _em(model, blocks, n_iterations, ridge, noise_floor)
    return FactorFit(model, np.asarray(trace))
