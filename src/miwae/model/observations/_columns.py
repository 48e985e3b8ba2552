"""The columns of a table, of all kinds, as one observation model of padded shapes.

What differs between tables are the values of its arrays, seldom their shapes: what was compiled
for one table serves the next one too.
"""

import math
from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float
from numpyro import distributions as dist

from miwae._arrays import padded_size
from miwae._numerics import features_first, features_last, masked_sum, softplus_inverse
from miwae._shapes import Drawn, Eta, Means, OneKey, PerSample, Rows, Seen, Statistics
from miwae.kernels import softplus, standard_student_t, student_t_log_prob, uniform
from miwae.model.observations._base import AbstractObservation, Linearisation
from miwae.model.observations._continuous import INITIAL_DF, Stretch, raw_scale, scaled, stretched
from miwae.model.observations._discrete import (
    CONCENTRATION_FLOOR,
    LOG_RATE_LIMIT,
    RARE,
    logit_slope,
)
from miwae.model.observations._levels import (
    CATEGORY,
    POINTS,
    TINY,
    Coded,
    Levels,
    LinearStart,
    lifted,
    limited,
    parts_of,
)
from miwae.model.observations._shapes import Embedded, Measured, PerInput

DF_FLOOR = 2.1
NORMAL_DF = 1e6  # draws with so many degrees of freedom are normal to single precision


class ColumnParameters(NamedTuple):
    """The distributions of all cells at each latent sample; features first."""

    loc: Float[Array, "A K B"]
    scale: Float[Array, "A K B"]
    df: Float[Array, "A K B"]  # infinite where numbers are normal
    p: Float[Array, "M K B"]  # of each level
    rate: Float[Array, "C K B"]
    concentration: Float[Array, "C K B"]


class MixedColumns(AbstractObservation):
    """Numbers, coded columns and counts, in this order, independent given z.

    Numbers are Student-t, or normal where they are stretched (see `Stretch`); coded
    columns are binary, categorical, ordinal, or numbers with few values; counts are negative
    binomial. Parameters: locations, raw scales, raw degrees of freedom; a logit for each level;
    log-rates, raw concentrations. Inputs: numbers, scores of ordered columns, indicators of
    levels, logarithms of counts. Statistics: values of numbers, mean values of coded columns,
    probabilities of levels, counts. With the probability `levels.slip` a level comes from the
    shares, not from the logits.

    Columns that pad are never observed.
    """

    padded: ClassVar[bool] = True
    floor: Float[Array, " A"]  # under the scales
    stretch: Float[Array, "6 A"]
    stretched: Bool[Array, " A"]
    levels: Levels
    n_counts: int = eqx.field(static=True)

    @classmethod
    def of(
        cls,
        stretches: Sequence[Stretch | None],
        coded: Sequence[Coded],
        n_counts: int,
        *,
        size: Callable[[int], int] = padded_size,
    ) -> "MixedColumns":
        """Of a stretch or None for each number, coded columns and counts; padded to a `size`."""
        n_numbers = size(len(stretches))
        plain = Stretch(1.0, -1.0, 1.0, 0.0, -1.0, 1.0)
        table = np.repeat(np.array(plain, dtype=np.float32)[:, None], n_numbers, axis=1)
        is_stretched = np.zeros(n_numbers, dtype=bool)
        for j, own in enumerate(stretches):
            if own is not None:
                table[:, j], is_stretched[j] = own, True
        floor = np.full(n_numbers, 0.1, dtype=np.float32)
        arrays = jax.device_put((floor, table, is_stretched))
        # Equinox lets properties stand for abstract fields; a type checker misses them here.
        return cls(*arrays, Levels.of(coded, size), size(n_counts))  # pyright: ignore

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers, coded columns, levels, counts."""
        return len(self.floor), len(self.levels.sort), len(self.levels.column), self.n_counts

    @property
    def n_features(self) -> int:
        numbers, coded, _, counts = self.sizes
        return numbers + coded + counts

    @property
    def n_parameters(self) -> int:
        numbers, _, levels, counts = self.sizes
        return 3 * numbers + levels + 2 * counts

    @property
    def n_inputs(self) -> int:
        return sum(self.sizes)

    @property
    def n_statistics(self) -> int:
        return sum(self.sizes)

    def _columns(self, x: Array) -> list[Array]:
        """Numbers, coded columns, counts; the features are the first axis."""
        numbers, coded, _, counts = self.sizes
        return parts_of(x, (numbers, coded, counts))

    def _parameters(self, eta: Eta) -> list[Array]:
        """Locations, scales, degrees of freedom, logits, rates, concentrations; features first."""
        numbers, _, levels, counts = self.sizes
        parts = parts_of(features_first(eta), (*[numbers] * 3, levels, counts, counts))
        loc, raw, tail, logits, log_rate, concentration = parts
        scale = scaled(raw, self.floor)
        rate = jnp.exp(jnp.clip(log_rate, -LOG_RATE_LIMIT, LOG_RATE_LIMIT))
        spread = CONCENTRATION_FLOOR + softplus(concentration)
        return [loc, scale, DF_FLOOR + softplus(tail), limited(logits), rate, spread]

    def parameters(self, eta: Eta) -> ColumnParameters:
        """The parameters of the distribution of each cell given z."""
        loc, scale, df, logits, rate, spread = self._parameters(eta)
        df = jnp.where(lifted(self.stretched, 3), jnp.inf, df)
        return ColumnParameters(loc, scale, df, self._probabilities(logits), rate, spread)

    def supports(self, x: Rows) -> Seen:
        """All finite numbers, but counts are whole and not negative."""
        first = self.n_features - self.n_counts
        counted = (x[:, first:] >= 0) & (x[:, first:] == jnp.round(x[:, first:]))
        finite = jnp.isfinite(x)
        return jnp.concatenate([finite[:, :first], finite[:, first:] & counted], axis=1)

    def embed(self, x: Rows, observed: Seen) -> Embedded:
        self = jax.lax.stop_gradient(self)
        numbers, coded, counts = self._columns(features_first(x))
        seen = self._columns(features_first(observed))
        levels = self.levels
        hot = levels.hot(coded)
        score = levels.sums(hot * levels.score[:, None])
        inputs = jnp.concatenate([numbers, score, hot, jnp.log1p(counts)])
        at = levels.column
        coded_seen = (seen[1] & levels.ordered[:, None], seen[1][at] & levels.indicated[:, None])
        return features_last(inputs), features_last(
            jnp.concatenate([seen[0], *coded_seen, seen[2]])
        )

    def statistics(self, x: Rows, observed: Seen) -> Measured:
        numbers, coded, counts = self._columns(features_first(x))
        seen = self._columns(features_first(observed))
        up, down, spread, centre, _, _ = (own[:, None] for own in self.stretch)
        value = stretched(spread * numbers + centre, up, down)
        number = jnp.where(self.stretched[:, None], value, numbers)
        hot, at = self.levels.hot(coded), self.levels.column
        known = jnp.concatenate([number, self._value_of(hot), hot, counts])
        return features_last(known), features_last(
            jnp.concatenate([seen[0], seen[1], seen[1][at] & self.levels.real[:, None], seen[2]])
        )

    def _value_of(self, p: Float[Array, "M ..."]) -> Float[Array, "J ..."]:
        return self.levels.sums(p * lifted(self.levels.value, p.ndim))

    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        self = jax.lax.stop_gradient(self)  # its arrays are not trained
        loc, scale, df, logits, rate, spread = self._parameters(eta)
        safe = self._columns(features_first(jnp.where(observed, x, 0.0)))
        seen = [own[:, None] for own in self._columns(features_first(observed))]
        t = (safe[0][:, None] - loc) / scale
        normal = -0.5 * (t * t + math.log(2 * math.pi))
        cells = jnp.where(lifted(self.stretched, 3), normal, student_t_log_prob(t, df))
        total = masked_sum(cells - jnp.log(scale), seen[0], axis=0)
        if len(self.levels.sort):
            total += masked_sum(self._log_prob_of_levels(logits, safe[1]), seen[1], axis=0)
        if self.n_counts:
            counts = dist.NegativeBinomial2(rate, spread).log_prob(safe[2][:, None])
            total += masked_sum(jnp.asarray(counts), seen[2], axis=0)
        return total

    def _log_prob_of_levels(
        self, logits: Float[Array, "M K B"], x: Float[Array, "J B"]
    ) -> Float[Array, "J K B"]:
        levels, hot = self.levels, self.levels.hot(x)
        own = levels.sums(hot[:, None] * logits) - levels.log_totals(logits)
        share = levels.sums(hot * levels.share[:, None])
        slip = levels.slip[:, None, None]
        others = jnp.log(slip * jnp.maximum(share, TINY)[:, None])
        return jnp.logaddexp(own + jnp.log1p(-slip), others)

    def _probabilities(self, logits: Float[Array, "M K B"]) -> Float[Array, "M K B"]:
        return self.levels.mixed(self.levels.probabilities(logits))

    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        self = jax.lax.stop_gradient(self)  # its arrays are not trained
        loc, scale, _, logits, rate, _ = self._parameters(eta)
        # Exponentials are slow, and most tables need none.
        stretch = lambda: self._stretched_mean(loc, scale)  # noqa: E731
        number = jax.lax.cond(jnp.any(self.stretched), stretch, lambda: loc)
        p = self._probabilities(logits)
        return features_last(jnp.concatenate([number, self._value_of(p), p, rate]))

    def _stretched_mean(
        self, loc: Float[Array, "A K B"], scale: Float[Array, "A K B"]
    ) -> Float[Array, "A K B"]:
        """The mean value of each number on the user's scale, within the limits of its column."""
        up, down, spread, centre, lowest, highest = (own[:, None, None] for own in self.stretch)
        value = stretched(spread * loc + centre, up, down, (spread * scale) ** 2 / 2)
        limits = [stretched(spread * limit + centre, up, down) for limit in (lowest, highest)]
        return jnp.where(lifted(self.stretched, 3), jnp.clip(value, *limits), loc)

    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        self = jax.lax.stop_gradient(self)  # its arrays are not trained
        loc, scale, df, logits, rate, spread = self._parameters(eta)
        keys = jax.random.split(key, 3)
        df = jnp.where(lifted(self.stretched, 3), NORMAL_DF, df)
        draws = [loc + scale * standard_student_t(keys[0], df, loc.shape)]
        if len(self.levels.sort):
            draws.append(self._drawn_values(logits, keys[1]))
        if self.n_counts:
            draws.append(jnp.asarray(dist.NegativeBinomial2(rate, spread).sample(keys[2])))
        return features_last(jnp.concatenate([own.astype(eta.dtype) for own in draws]))

    def _drawn_values(self, logits: Float[Array, "M K B"], key: OneKey) -> Float[Array, "J K B"]:
        """By the inverse of the distribution function."""
        levels = self.levels
        p = self._probabilities(logits)
        upto = jnp.cumsum(p, axis=0)
        total = upto[levels.last] - (before := jnp.roll(upto[levels.last], 1, 0).at[0].set(0.0))
        level = (uniform(key, total.shape) * (1 - 1e-6) * total + before)[levels.column]
        chosen = (upto - p <= level) & (level < upto) & levels.real[:, None, None]
        return self._value_of(chosen.astype(p.dtype))

    def point(self, mean: Statistics) -> Rows:
        number, value, p, counts = parts_of(features_first(mean), self.sizes)
        up, down, spread, centre, lowest, highest = (own[:, None] for own in self.stretch)
        by_log = jnp.log(jnp.maximum(number / up, math.exp(-60.0)))
        a = jnp.where(down == 0, by_log, jnp.arcsinh(number / (2 * up)))
        place = jnp.clip((a - centre) / spread, lowest, highest)
        numbers = jnp.where(self.stretched[:, None], place, number)
        if not len(self.levels.sort):
            return features_last(jnp.concatenate([numbers, counts]))
        own = self.levels.column[None] == jnp.arange(len(value))[:, None]
        own = (own & self.levels.real[None])[..., None]
        chances = jnp.where(own, p[None], 0.0)  # (J, M, B)
        most = jnp.argmax(jnp.where(own, p[None], -1.0), axis=1)
        median = jnp.argmax(own & (jnp.cumsum(chances, axis=1) >= 0.5), axis=1)
        sort = self.levels.sort[:, None]
        best = self.levels.value[jnp.where(sort == CATEGORY, most, median)]
        coded = jnp.where(sort == POINTS, value, best)
        return features_last(jnp.concatenate([numbers, coded, counts]))

    def linear_start(self, mean: PerInput, noise: PerInput) -> LinearStart:
        """Logits to first order at the marginal frequencies; ordered columns by Bayes' rule.

        As if the score v of a level and its predictor u were jointly normal: with v of variance V
        around u of variance V - noise, the density of u given v has the logarithm
        `u v / noise - (1 - noise / V) v^2 / (2 noise)` and what does not depend on v.
        """
        levels = self.levels
        _, _, frequency, log_count = parts_of(mean, self.sizes)
        precision, noise_of_score, _, _ = parts_of(noise, self.sizes)
        p = jnp.clip(frequency, RARE, 1 - RARE)
        # Of two categories only the second has an indicator: its logit is against 0.
        two = levels.sums(jnp.ones_like(p))[levels.column] == 2
        slope = jnp.where(levels.indicated, jnp.where(two, logit_slope(p), 1 / p), 0.0)
        at_mean = jnp.where(two, jax.scipy.special.logit(p), jnp.log(p))
        offset = jnp.where(levels.indicated, at_mean - slope * p, 0.0)
        share = jnp.where(levels.real, jnp.maximum(levels.share, RARE), 0.0)
        share = share / jnp.maximum(levels.sums(share), TINY)[levels.column]
        centre = levels.sums(share * levels.score)
        v = levels.score - centre[levels.column]
        variance = jnp.maximum(levels.sums(share * v**2), TINY)
        noise_of_score = jnp.clip(noise_of_score, RARE * variance, variance)
        per_score = 1 / noise_of_score
        tilt = levels.score * per_score[levels.column]
        bend = 0.5 * (1 / noise_of_score - 1 / variance)[levels.column] * v**2
        prior = jnp.log(jnp.maximum(share, TINY)) - bend - tilt * centre[levels.column]
        ordered = levels.ordered[levels.column]
        rate = jnp.maximum(jnp.expm1(log_count), 0.1)
        rate_slope = (1 + rate) / rate  # d log(rate) / d log(1 + rate)
        return LinearStart(
            levels,
            jnp.where(levels.real, jnp.where(ordered, tilt, slope), 0.0),
            jnp.where(levels.real, jnp.where(ordered, prior, offset), 0.0),
            per_score,
            rate_slope,
            jnp.log(rate) - rate_slope * jnp.log1p(rate),
            1 / precision,
        )

    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        start = self.linear_start(mean, noise)
        numbers, coded, _, counts = self.sizes
        variance = parts_of(noise, self.sizes)[0]
        matched = jnp.where(self.stretched, 1.0, (INITIAL_DF - 2) / INITIAL_DF)
        constants = [
            raw_scale(variance * matched, self.floor),
            softplus_inverse(jnp.full(numbers, INITIAL_DF - DF_FLOOR)),
        ]
        ordered = self.levels.ordered[self.levels.column]
        onto_score = (
            jax.nn.one_hot(self.levels.column, coded)
            * jnp.where(ordered, start.slope, 0.0)[:, None]
        )
        onto_level = jnp.diag(jnp.where(ordered, 0.0, start.slope))
        slope = jax.scipy.linalg.block_diag(
            jnp.concatenate([jnp.eye(numbers), jnp.zeros((2 * numbers, numbers))]),
            jnp.concatenate([onto_score, onto_level], axis=1),
            jnp.concatenate([jnp.diag(start.rate_slope), jnp.zeros((counts, counts))]),
        )
        concentration = softplus_inverse(jnp.ones(counts))
        offsets = [start.offset, start.rate_offset, concentration]
        return Linearisation(slope, jnp.concatenate([jnp.zeros(numbers), *constants, *offsets]))
