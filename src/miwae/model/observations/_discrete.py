"""Observation models of counts, and of binary, categorical and ordinal features."""

import abc
import operator
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpyro import distributions as dist

from miwae._numerics import features_first, features_last, log1mexp, masked_sum, softplus_inverse
from miwae._shapes import Drawn, Eta, Floats, Means, OneKey, PerSample, Rows, Seen, Statistics
from miwae.errors import SettingsError
from miwae.model.observations._base import AbstractFactorized, AbstractObservation, Linearisation
from miwae.model.observations._shapes import Embedded, EtaFirst, Measured, PerInput

RARE = 0.02  # frequencies much closer to 0 or 1 would give the linear start infinite slopes
CONCENTRATION_FLOOR = 0.05
LOG_RATE_LIMIT = 20.0  # far beyond, the rate of a count, exp(eta), and its gradient overflow
IMPOSSIBLE = -1e9  # log-probability of the categories that pad a column with fewer than the most


def logit_slope(p: Floats) -> Floats:
    """The derivative of the logit at `p`."""
    return 1 / (p * (1 - p))


class Bernoulli(AbstractFactorized):
    """Independent binary features, 0.0 or 1.0; parameters: logits."""

    n_features: int = eqx.field(static=True)
    blocks: ClassVar[int] = 1
    interior: ClassVar[float] = 0.0

    def supports(self, x: Rows) -> Seen:
        return (x == 0) | (x == 1)

    def distribution(self, eta: EtaFirst) -> dist.Distribution:
        return dist.BernoulliLogits(eta)

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """The logit, to first order at the marginal frequency."""
        p = jnp.clip(mean, RARE, 1 - RARE)
        slope = logit_slope(p)
        return Linearisation(jnp.diag(slope), jax.scipy.special.logit(p) - slope * p)


class Count(AbstractFactorized):
    """Independent negative binomial counts; parameters: log rates, raw concentrations.

    The variance is `rate + rate^2 / concentration`: Poisson in the limit, as overdispersed as
    needed.
    """

    n_features: int = eqx.field(static=True)
    blocks: ClassVar[int] = 2
    interior: ClassVar[float] = 0.0

    def supports(self, x: Rows) -> Seen:
        return (x >= 0) & (x == jnp.round(x)) & jnp.isfinite(x)

    def to_input(self, x: Rows) -> Rows:
        return jnp.log1p(x)

    def distribution(self, eta: EtaFirst) -> dist.Distribution:
        log_rate, raw = jnp.split(eta, 2)
        rate = jnp.exp(jnp.clip(log_rate, -LOG_RATE_LIMIT, LOG_RATE_LIMIT))
        return dist.NegativeBinomial2(rate, CONCENTRATION_FLOOR + jax.nn.softplus(raw))

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """The log rate, to first order in `log(1 + x)` at its mean."""
        n = mean.shape[0]
        rate = jnp.maximum(jnp.expm1(mean), 0.1)
        slope = (1 + rate) / rate  # d log(rate) / d log(1 + rate)
        offset = jnp.log(rate) - slope * jnp.log1p(rate)
        concentration = softplus_inverse(jnp.ones(n))
        return Linearisation(
            jnp.concatenate([jnp.diag(slope), jnp.zeros((n, n))]),
            jnp.concatenate([offset, concentration]),
        )


class AbstractCoded(AbstractObservation):
    """Features with finitely many values, stored as codes 0.0, 1.0, ..., independent given z.

    `sizes` has the number of values of each feature. Columns with fewer than the most are padded
    with impossible values: put columns of very different sizes into parts of their own.
    """

    sizes: eqx.AbstractVar[tuple[int, ...]]
    is_hot: eqx.AbstractClassVar[Callable[[Array, Array], Array]]  # indicator c of a code

    @abc.abstractmethod
    def log_probabilities(self, eta: EtaFirst) -> Float[Array, "C D K B"]:
        """Log-probability of each code."""

    @property
    @abc.abstractmethod
    def n_indicators(self) -> int:
        """Parameters, inputs and statistics of each feature, as many of each."""

    @property
    def n_features(self) -> int:
        return len(self.sizes)

    @property
    def n_parameters(self) -> int:
        return self.n_indicators * self.n_features

    n_inputs = n_statistics = n_parameters

    @property
    def most(self) -> int:
        """C, the largest number of values of a feature."""
        return max(self.sizes)

    def possible(self) -> Bool[np.ndarray, "C D"]:
        """True where a code exists in a column."""
        return np.arange(self.most)[:, None] < np.array(self.sizes)[None, :]

    def supports(self, x: Rows) -> Seen:
        return (x >= 0) & (x < jnp.array(self.sizes)[None, :]) & (x == jnp.round(x))

    def embed(self, x: Rows, observed: Seen) -> Embedded:
        """Indicators, laid out in blocks of D."""
        codes = jnp.arange(self.n_indicators, dtype=x.dtype)[None, :, None]
        hot = self.is_hot(x[:, None, :], codes)
        return hot.reshape(len(x), -1).astype(x.dtype), jnp.tile(observed, (1, self.n_indicators))

    def statistics(self, x: Rows, observed: Seen) -> Measured:
        return self.embed(x, observed)

    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        codes = features_first(jnp.where(observed, x, 0.0))[None, :, None, :]
        values = jnp.arange(self.most, dtype=x.dtype)[:, None, None, None]
        table = self.log_probabilities(features_first(eta))
        cells = jnp.sum(jnp.where(codes == values, table, 0.0), axis=0)
        return masked_sum(cells, features_first(observed)[:, None, :], axis=0)

    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        table = self.log_probabilities(features_first(eta))
        return features_last(jax.random.categorical(key, table, axis=0).astype(eta.dtype))


def _checked_sizes(sizes: tuple[int, ...]) -> tuple[int, ...]:
    if not sizes or min(sizes) < 2:
        raise SettingsError(f"each coded feature needs two values or more, not sizes {sizes}")
    return tuple(sizes)


class Categorical(AbstractCoded):
    """Independent categorical features; parameters: logits, C blocks of D.

    The statistics are one-hot indicators: their conditional mean is the posterior probability of
    each category, and the single imputation is the most probable one.
    """

    sizes: tuple[int, ...] = eqx.field(static=True, converter=_checked_sizes)
    is_hot: ClassVar[Any] = operator.eq

    @property
    def n_indicators(self) -> int:
        return self.most

    def log_probabilities(self, eta: EtaFirst) -> Float[Array, "C D K B"]:
        logits = eta.reshape(self.most, self.n_features, *eta.shape[1:])
        logits = jnp.where(self.possible()[:, :, None, None], logits, IMPOSSIBLE)
        return jax.nn.log_softmax(logits, axis=0)

    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        table = jnp.exp(self.log_probabilities(features_first(eta)))
        return features_last(table.reshape(-1, *table.shape[2:]))

    def point(self, mean: Statistics) -> Rows:
        table = mean.reshape(mean.shape[0], self.most, self.n_features)
        return jnp.argmax(table, axis=1).astype(mean.dtype)

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """The log-probability, to first order at the marginal frequency."""
        p = jnp.clip(mean, RARE, 1.0)
        return Linearisation(jnp.diag(1 / p), jnp.log(p) - 1.0)


class Ordinal(AbstractCoded):
    """Independent ordinal features by cumulative logits; parameters: C - 1 blocks of D.

    `P(x <= c) = sigmoid(t_c)` with `t_0` the first block and each further threshold higher by the
    softplus of its block. The statistics are the indicators of `x > c` ("thermometer"): their
    conditional mean is the survival function, and the single imputation is the posterior median.
    """

    sizes: tuple[int, ...] = eqx.field(static=True, converter=_checked_sizes)
    is_hot: ClassVar[Any] = operator.gt

    @property
    def n_indicators(self) -> int:
        return self.most - 1

    def thresholds(self, eta: EtaFirst) -> Float[Array, "C1 D K B"]:
        """The increasing `t_0, ..., t_{C-2}`."""
        raw = eta.reshape(self.most - 1, self.n_features, *eta.shape[1:])
        gaps = 1e-3 + jax.nn.softplus(raw[1:])
        return jnp.cumsum(jnp.concatenate([raw[:1], gaps]), axis=0)

    def log_probabilities(self, eta: EtaFirst) -> Float[Array, "C D K B"]:
        """`log(sigmoid(t_c) - sigmoid(t_{c-1}))`, stable in both tails."""
        t = self.thresholds(eta)
        above = jnp.concatenate([jnp.zeros_like(t[:1]), jax.nn.log_sigmoid(-t)])
        below = jnp.concatenate([jax.nn.log_sigmoid(t), jnp.zeros_like(t[:1])])
        # sigmoid(b) - sigmoid(a) = sigmoid(b) sigmoid(-a) (1 - exp(a - b))
        inner = log1mexp(t[1:] - t[:-1])
        between = jnp.concatenate([jnp.zeros_like(t[:1]), inner, jnp.zeros_like(t[:1])])
        last = (np.array(self.sizes) - 1)[None, :, None, None]
        code = np.arange(self.most)[:, None, None, None]
        table = jnp.where(code == last, above, above + below + between)
        return jnp.where(self.possible()[:, :, None, None], table, IMPOSSIBLE)

    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        survival = jax.nn.sigmoid(-self.thresholds(features_first(eta)))
        survival = jnp.where(self.possible()[1:, :, None, None], survival, 0.0)
        return features_last(survival.reshape(-1, *survival.shape[2:]))

    def point(self, mean: Statistics) -> Rows:
        survival = mean.reshape(mean.shape[0], self.most - 1, self.n_features)
        return jnp.sum(survival > 0.5, axis=1).astype(mean.dtype)

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """Thresholds at the marginal frequencies, all shifted by the mean of the linear logits."""
        d, m = self.n_features, self.most - 1
        exists = self.possible()[1:]
        p = jnp.clip(mean.reshape(m, d), RARE, 1 - RARE)
        t = -jax.scipy.special.logit(p)
        gaps = jnp.maximum(jnp.diff(t, axis=0), 0.05)
        weight = jnp.where(exists, logit_slope(p), 0.0) / exists.sum(0)[None]
        shift = jnp.sum(weight * p, axis=0)
        slope = jnp.zeros((m, d, m, d)).at[0, jnp.arange(d), :, jnp.arange(d)].set(-weight.T)
        offset = jnp.concatenate([t[:1] + shift[None], softplus_inverse(gaps)])
        return Linearisation(slope.reshape(m * d, m * d), offset.reshape(-1))
