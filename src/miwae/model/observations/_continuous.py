"""Observation models of continuous features."""

from typing import ClassVar, NamedTuple, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro import distributions as dist

from miwae._numerics import LOG_2PI, features_last, softplus_inverse
from miwae._shapes import Drawn, Eta, Floats, Means, OneKey, PerSample, Rows, Seen
from miwae.kernels import cholesky_solve, softplus, solve_lower_transposed
from miwae.model._distributions import StudentTDistribution
from miwae.model.observations._base import AbstractFactorized, AbstractNumbers, Linearisation
from miwae.model.observations._shapes import EtaFirst, PerInput

# "the observation model is constrained so that the eigenvalues of its covariances are larger than
# 0.01" (the paper, section 4.2): z explains at most 99 % of the variance of standardised data.
NOISE_SCALE_FLOOR = 0.1
INITIAL_DF = 10.0  # of the linear start: near a normal, free to become heavier

# One for all features, or one for each: not trained, but saved with a model.
Floor: TypeAlias = float | Float[Array, " D"]


def scaled(raw: Floats, floor: Floor) -> Floats:
    """Scales above their floor; where features have their own, they come first."""
    if isinstance(floor, Array):
        floor = jax.lax.stop_gradient(floor).reshape(-1, *(1,) * (raw.ndim - 1))
    return floor + softplus(raw)


def raw_scale(noise: PerInput, floor: Floor) -> PerInput:
    """The inverse of `scaled`, for a variance at or above the floor."""
    return softplus_inverse(jnp.maximum(jnp.sqrt(noise) - floor, 1e-4))


def _linear_location(noise: PerInput, floor: Floor, *more: Float[Array, " _"]) -> Linearisation:
    """Location equal to the predictor, a constant scale, and further constants."""
    n = noise.shape[0]
    constants = jnp.concatenate([raw_scale(noise, floor), *more])
    slope = jnp.concatenate([jnp.eye(n), jnp.zeros((constants.shape[0], n))])
    return Linearisation(slope, jnp.concatenate([jnp.zeros(n), constants]))


class AbstractNormal(AbstractFactorized):
    """Features that are normal on the scale of the model; parameters: locations, raw scales."""

    scale_floor: eqx.AbstractVar[Floor]
    family: ClassVar[type[dist.Distribution]] = dist.Normal
    blocks: ClassVar[int] = 2
    interior: ClassVar[float] = 0.0

    def distribution(self, eta: EtaFirst) -> dist.Distribution:
        loc, raw = jnp.split(eta, 2)
        return self.family(loc, scaled(raw, self.scale_floor))

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """Exact: a linear-Gaussian model is of this family."""
        return _linear_location(noise, self.scale_floor)


class Normal(AbstractNormal):
    """Independent normal features."""

    n_features: int = eqx.field(static=True)
    scale_floor: Floor = NOISE_SCALE_FLOOR


class StudentT(AbstractFactorized):
    """Independent Student-t features; parameters: locations, raw scales, raw degrees of freedom.

    The scale stays above `scale_floor`, and so does the standard deviation; the degrees of freedom
    stay above `df_floor > 2`, so that the variance exists.
    """

    n_features: int = eqx.field(static=True)
    scale_floor: Floor = NOISE_SCALE_FLOOR
    df_floor: float = eqx.field(static=True, default=2.1)
    blocks: ClassVar[int] = 3
    interior: ClassVar[float] = 0.0

    def distribution(self, eta: EtaFirst) -> dist.Distribution:
        loc, raw, tail = jnp.split(eta, 3)
        df = self.df_floor + jax.nn.softplus(tail)
        return StudentTDistribution(df, loc, scaled(raw, self.scale_floor))

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """Exact in mean and variance; the tails start near those of a normal."""
        tail = jnp.full_like(noise, INITIAL_DF - self.df_floor)
        matched = noise * (INITIAL_DF - 2) / INITIAL_DF  # so that the variance is the noise
        return _linear_location(matched, self.scale_floor, softplus_inverse(tail))


class Positive(AbstractNormal):
    """Independent log-normal features, for positive numbers; parameters as for `Normal`, of log x.

    Divide each feature by its geometric mean, or a power of ten near it, beforehand: networks see
    `log x`, and the floor under the scale is meant for logarithms of order one.
    """

    n_features: int = eqx.field(static=True)
    scale_floor: float = eqx.field(static=True, default=NOISE_SCALE_FLOOR)
    family: ClassVar[type[dist.Distribution]] = dist.LogNormal
    interior: ClassVar[float] = 1.0

    def supports(self, x: Rows) -> Seen:
        return jnp.isfinite(x) & (x > 0)

    def to_input(self, x: Rows) -> Rows:
        return jnp.log(x)


class Stretch(NamedTuple):
    """How a feature on the scale of the model becomes a value on the user's: a stretched one.

    `value(x) = up * exp(a) + down * exp(-a)` with `a = spread * x + centre`: an exponential where
    `down` is 0, a hyperbolic sine where it is `-up`. A skewed column is nearly normal on the scale
    of the model, but the mean of its values is not the value of that mean.
    """

    up: float
    down: float
    spread: float
    centre: float
    lowest: float  # the smallest x that a mean can stand for
    highest: float


LARGEST_EXPONENT = 60.0  # of float32, nearly; no standardised value is as large


def stretched(a: Floats, up: Floats, down: Floats, more: Floats | float = 0.0) -> Floats:
    """`exp(more) (up exp(a) + down exp(-a))`."""
    limited = lambda a: jnp.exp(jnp.clip(a, -LARGEST_EXPONENT, LARGEST_EXPONENT))  # noqa: E731
    return up * limited(a + more) + down * limited(more - a)


class _Factor(eqx.Module):
    """The low-rank factor u of a row given its observed cells: u ~ N(mean, (C C')^-1)."""

    mean: Float[Array, "K B R"]
    cholesky: Float[Array, "R R KB"]
    log_prob: PerSample


class LowRankNormal(AbstractNumbers):
    """Normal with covariance `F F' + diag(s^2)`, all given by the decoder.

    The marginal over the observed cells of a row is exact, by the matrix determinant lemma, at the
    cost of one R x R Cholesky factor; the conditional mean of the missing cells is the closed form
    of which the paper speaks after Eqn. (12). Parameters: locations, raw scales, R blocks of
    loadings.
    """

    n_features: int = eqx.field(static=True)
    rank: int = eqx.field(static=True)
    scale_floor: float = eqx.field(static=True, default=NOISE_SCALE_FLOOR)

    @property
    def n_parameters(self) -> int:
        return (2 + self.rank) * self.n_features

    def moments(self, eta: Eta) -> tuple[Drawn, Drawn, Float[Array, "K B D R"]]:
        """Location, scale of the diagonal part, and loadings."""
        loc, raw, loadings = jnp.split(eta, [self.n_features, 2 * self.n_features], axis=-1)
        stacked = loadings.reshape(*eta.shape[:-1], self.rank, self.n_features)
        return loc, scaled(raw, self.scale_floor), jnp.swapaxes(stacked, -1, -2)

    def _factor(self, eta: Eta, x: Rows, observed: Seen) -> _Factor:
        loc, scale, loadings = self.moments(eta)
        rank, seen = self.rank, observed[None]
        residual = jnp.where(seen, (jnp.where(observed, x, 0.0)[None] - loc) / scale, 0.0)
        scaled = jnp.where(seen[..., None], loadings / scale[..., None], 0.0)
        # Matrices last, all samples of all rows in one axis: (R, R, K B).
        precision = jnp.einsum("kbdr,kbds->rskb", scaled, scaled).reshape(rank, rank, -1)
        projected = jnp.einsum("kbdr,kbd->rkb", scaled, residual).reshape(rank, 1, -1)
        cholesky, half = cholesky_solve(jnp.eye(rank)[..., None] + precision, projected)
        mean = solve_lower_transposed(cholesky, half).reshape(rank, *loc.shape[:2])
        quadratic = jnp.sum(residual**2, -1) - jnp.sum(half**2, 0).reshape(loc.shape[:2])
        log_diagonal = jnp.log(jnp.diagonal(cholesky)).sum(-1).reshape(loc.shape[:2])
        log_det = jnp.sum(jnp.where(seen, jnp.log(scale), 0.0), -1) + log_diagonal
        count = jnp.sum(observed, -1)[None]
        log_prob = -0.5 * (quadratic + count * LOG_2PI) - log_det
        return _Factor(features_last(mean), cholesky, log_prob)

    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        return self._factor(eta, x, observed).log_prob

    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        """`mu + F E[u | x_obs, z]`."""
        loc, _, loadings = self.moments(eta)
        factor = self._factor(eta, x, observed).mean
        return loc + jnp.einsum("kbdr,kbr->kbd", loadings, factor)

    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        """Draw the factor given the observed cells, then the missing cells given the factor."""
        loc, scale, loadings = self.moments(eta)
        factor = self._factor(eta, x, observed)
        key_u, key_x = jax.random.split(key)
        eps = jax.random.normal(key_u, (self.rank, 1, factor.cholesky.shape[-1]))
        spread = solve_lower_transposed(factor.cholesky, eps)
        u = factor.mean + features_last(spread.reshape(self.rank, *loc.shape[:2]))
        noise = scale * jax.random.normal(key_x, loc.shape)
        return loc + jnp.einsum("kbdr,kbr->kbd", loadings, u) + noise

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """Exact but for small loadings: at zero their gradient would vanish."""
        signs = 1.0 - 2.0 * (jnp.arange(self.rank * self.n_features) % 2)
        return _linear_location(noise, self.scale_floor, 0.01 * signs)
