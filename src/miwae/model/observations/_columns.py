"""The columns of a table, of all kinds, as one observation model of padded shapes.

What differs between tables are the values of its arrays, seldom their shapes: what was compiled
for one table serves the next one too.
"""

import math
from collections.abc import Sequence
from typing import ClassVar, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int
from numpyro import distributions as dist

from miwae._arrays import padded_size
from miwae._numerics import features_first, features_last, masked_sum, softplus_inverse
from miwae._shapes import (
    Drawn,
    Eta,
    Floats,
    Inputs,
    InputsSeen,
    Means,
    OneKey,
    PerSample,
    Rows,
    Seen,
    Statistics,
)
from miwae.kernels import standard_student_t, student_t_log_prob, uniform
from miwae.model.observations._base import AbstractObservation, Linearisation
from miwae.model.observations._continuous import INITIAL_DF, Stretch, raw_scale, scaled, stretched
from miwae.model.observations._discrete import LOG_RATE_LIMIT, RARE, SLIP, logit_slope
from miwae.model.observations._shapes import Embedded, Measured, PerInput

DF_FLOOR = 2.1
CONCENTRATION_FLOOR = 0.05
NORMAL_DF = 1e6  # draws with so many degrees of freedom are normal to single precision
MOST_LOGIT = 80.0  # exponentials of more overflow in single precision
TINY = 1e-37

# How a coded column is imputed: by the most probable level, by the median, by the mean.
SORTS = ("category", "ordinal", "points")
CATEGORY, ORDINAL, POINTS = range(3)


class Coded(NamedTuple):
    """A column with finitely many levels."""

    sort: Literal["category", "ordinal", "points"]
    values: Sequence[float]  # what a cell holds for each level, in increasing order
    shares: Sequence[float]  # of the levels, roughly


class Levels(eqx.Module):
    """The levels of all coded columns, one after the other; those that pad have share 0."""

    column: Int[Array, " M"]  # whose level it is
    value: Float[Array, " M"]  # what a cell holds
    score: Float[Array, " M"]  # the number that networks see, where levels have an order
    share: Float[Array, " M"]
    indicated: Bool[Array, " M"]  # networks see whether it is this level
    sort: Int[Array, " J"]
    last: Int[Array, " J"]  # place of a column's last level

    @classmethod
    def of(cls, columns: Sequence[Coded]) -> "Levels":
        """With room for more columns and levels, up to the padded sizes."""
        n_columns = padded_size(len(columns))
        n_levels = padded_size(sum(len(own.values) for own in columns))
        table = np.zeros((5, n_levels), dtype=np.float32)
        sort, last = np.zeros((2, n_columns), dtype=np.int32)
        start = 0
        for j, (own_sort, values, shares) in enumerate(columns):
            value, share = np.array(values), np.maximum(shares, 1e-6)
            share = share / share.sum()
            centred = value - share @ value
            score = centred / math.sqrt(max(share @ centred**2, 1e-12))
            # The second of two categories says all about the first.
            indicated = np.arange(len(value)) >= (len(value) == 2)
            indicated &= own_sort == "category"
            rows = (np.full(len(value), j), value, score, share, indicated)
            table[:, start : start + len(value)] = np.array(rows)
            start += len(value)
            sort[j], last[j] = SORTS.index(own_sort), start - 1
        column, value, score, share, indicated = table
        return cls(
            column=jnp.asarray(column.astype(np.int32)),
            value=jnp.asarray(value),
            score=jnp.asarray(score),
            share=jnp.asarray(share),
            indicated=jnp.asarray(indicated > 0),
            sort=jnp.asarray(sort),
            last=jnp.asarray(last),
        )

    @property
    def real(self) -> Bool[Array, " M"]:
        """False for what pads."""
        return self.share > 0

    @property
    def ordered(self) -> Bool[Array, " J"]:
        """Columns that networks see as numbers."""
        return self.sort != CATEGORY

    def sums(self, a: Float[Array, "M ..."]) -> Float[Array, "J ..."]:
        """Over the levels of each column."""
        own = self.column[None] == jnp.arange(len(self.sort))[:, None]
        member = (own & self.real[None]).astype(jnp.float32)
        return jnp.tensordot(member, a, axes=1)

    def log_totals(self, logits: Float[Array, "M ..."]) -> Float[Array, "J ..."]:
        """`log sum exp` of each column's logits."""
        return jnp.log(jnp.maximum(self.sums(jnp.exp(logits)), TINY))

    def probabilities(self, logits: Float[Array, "M ..."]) -> Float[Array, "M ..."]:
        """Softmax by column; 0 for what pads."""
        if not len(self.sort):
            return logits
        logits = limited(logits)
        own = jnp.exp(logits - self.log_totals(logits)[self.column])
        return jnp.where(_lifted(self.real, own.ndim), own, 0.0)

    def hot(self, x: Float[Array, "J B"]) -> Float[Array, "M B"]:
        """1 for the level nearest to what a cell holds, 0 for the others."""
        if not len(self.sort):
            return jnp.zeros((0, x.shape[1]))
        far = jnp.where(self.real[:, None], jnp.abs(x[self.column] - self.value[:, None]), jnp.inf)
        nearest = jax.ops.segment_min(far, self.column, len(self.sort))[self.column]
        hit = jnp.where(self.real[:, None] & (far == nearest), 1.0, 0.0)
        return hit / jnp.maximum(self.sums(hit), 1.0)[self.column]


def limited(logits: Floats) -> Floats:
    """Logits whose exponentials are numbers."""
    return jnp.clip(logits, -MOST_LOGIT, MOST_LOGIT)


def _lifted(a: Array, n_axes: int) -> Array:
    """An array of one axis for arithmetic with arrays of more, behind its first."""
    return a.reshape(-1, *(1,) * (n_axes - 1))


class LinearStart(eqx.Module):
    """Logits and log-rates as affine functions of the inputs that the linear core predicts.

    Called, it gives Gaussian pseudo-observations of the inputs: each has the slope and the
    curvature that the log-likelihood of a row's cell has at the row's own linear predictor.
    """

    levels: Levels
    slope: Float[Array, " M"]
    offset: Float[Array, " M"]
    per_score: Float[Array, " J"]  # the slope of an ordered column's level over its score
    rate_slope: Float[Array, " C"]
    rate_offset: Float[Array, " C"]
    precision: Float[Array, " A"]  # of numbers, which are Gaussian as they are

    @property
    def sizes(self) -> tuple[int, int, int, int]:
        """Numbers, coded columns, levels, counts: the parts of the inputs."""
        parts = (self.precision, self.per_score, self.slope, self.rate_slope)
        return tuple(map(len, parts))  # pyright: ignore[reportReturnType]

    @property
    def exact(self) -> bool:
        """Whether all columns are Gaussian to the core."""
        return sum(self.sizes[1:]) == 0

    def __call__(
        self, inputs: Inputs, seen: InputsSeen, predicted: Inputs
    ) -> tuple[Inputs, Inputs]:
        """Slope and negative curvature of the log-likelihood in each predicted input."""
        known = _parts(features_first(jnp.where(seen, inputs, 0.0)), self.sizes)
        u = _parts(features_first(predicted), self.sizes)
        number = (self.precision[:, None] * (known[0] - u[0]), _like(self.precision, u[0]))
        level, column = self._of_levels(known, u)
        rate = jnp.exp(
            jnp.clip(self.rate_slope[:, None] * u[3] + self.rate_offset[:, None], -9, 9)
        )
        # Negative binomial with concentration 1, as the decoder starts.
        pull = self.rate_slope[:, None] / (1 + rate)
        count = (pull * (jnp.expm1(known[3]) - rate), self.rate_slope[:, None] * pull * rate)
        slope, curvature = (
            features_last(jnp.concatenate(parts))
            for parts in zip(number, column, level, count, strict=True)
        )
        return jnp.where(seen, slope, 0.0), jnp.where(seen, curvature, 0.0)

    def _of_levels(
        self, known: Sequence[Array], u: Sequence[Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        """Slopes and curvatures of indicators, and of the scores of ordered columns."""
        levels, slope = self.levels, self.slope[:, None]
        ordered = levels.ordered[levels.column][:, None]
        p = levels.probabilities(
            slope * jnp.where(ordered, u[1][levels.column], u[2]) + self.offset[:, None]
        )
        own = (slope * (known[2] - p), slope**2 * p * (1 - p))
        mean, square = levels.sums(p * slope), levels.sums(p * slope**2)
        shared = (self.per_score[:, None] * known[1] - mean, jnp.maximum(square - mean**2, 0.0))
        return own, shared


def _parts(a: Array, sizes: Sequence[int]) -> list[Array]:
    return jnp.split(a, np.cumsum(sizes)[:-1].tolist())


def _like(a: Array, b: Array) -> Array:
    return jnp.broadcast_to(a[:, None], b.shape)


class MixedColumns(AbstractObservation):
    """Numbers, coded columns and counts, in this order, independent given z.

    Numbers are Student-t, or normal where they are stretched (see `StretchedNormal`); coded
    columns are binary, categorical, ordinal, or numbers with few values; counts are negative
    binomial. Parameters: locations, raw scales, raw degrees of freedom; a logit for each level;
    log-rates, raw concentrations. Inputs: numbers, scores of ordered columns, indicators of
    levels, logarithms of counts. Statistics: values of numbers, mean values of coded columns,
    probabilities of levels, counts. With the probability `SLIP` a level comes from the shares,
    not from the logits.

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
        cls, stretches: Sequence[Stretch | None], coded: Sequence[Coded], n_counts: int
    ) -> "MixedColumns":
        """Of a stretch or None for each number, of coded columns and counts, padded."""
        n_numbers = padded_size(len(stretches))
        plain = Stretch(1.0, -1.0, 1.0, 0.0, -1.0, 1.0)
        table = np.repeat(np.array(plain, dtype=np.float32)[:, None], n_numbers, axis=1)
        is_stretched = np.zeros(n_numbers, dtype=bool)
        for j, own in enumerate(stretches):
            if own is not None:
                table[:, j], is_stretched[j] = own, True
        floor = jnp.asarray(np.full(n_numbers, 0.1, dtype=np.float32))
        arrays = (floor, jnp.asarray(table), jnp.asarray(is_stretched))
        # Equinox lets properties stand for abstract fields; a type checker misses them here.
        return cls(*arrays, Levels.of(coded), padded_size(n_counts))  # pyright: ignore

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
        return _parts(x, (numbers, coded, counts))

    def _parameters(self, eta: Eta) -> list[Array]:
        """Locations, scales, degrees of freedom, logits, rates, concentrations; features first."""
        numbers, _, levels, counts = self.sizes
        parts = _parts(features_first(eta), (*[numbers] * 3, levels, counts, counts))
        loc, raw, tail, logits, log_rate, concentration = parts
        scale = scaled(raw, self.floor)
        rate = jnp.exp(jnp.clip(log_rate, -LOG_RATE_LIMIT, LOG_RATE_LIMIT))
        spread = CONCENTRATION_FLOOR + jax.nn.softplus(concentration)
        return [loc, scale, DF_FLOOR + jax.nn.softplus(tail), limited(logits), rate, spread]

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
        return self.levels.sums(p * _lifted(self.levels.value, p.ndim))

    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        self = jax.lax.stop_gradient(self)  # its arrays are not trained
        loc, scale, df, logits, rate, spread = self._parameters(eta)
        safe = self._columns(features_first(jnp.where(observed, x, 0.0)))
        seen = [own[:, None] for own in self._columns(features_first(observed))]
        t = (safe[0][:, None] - loc) / scale
        normal = -0.5 * (t * t + math.log(2 * math.pi))
        cells = jnp.where(_lifted(self.stretched, 3), normal, student_t_log_prob(t, df))
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
        others = jnp.log(SLIP * jnp.maximum(share, TINY))[:, None]
        return jnp.logaddexp(own + math.log1p(-SLIP), others)

    def _probabilities(self, logits: Float[Array, "M K B"]) -> Float[Array, "M K B"]:
        p = self.levels.probabilities(logits)
        return (1 - SLIP) * p + SLIP * self.levels.share[:, None, None]

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
        return jnp.where(_lifted(self.stretched, 3), jnp.clip(value, *limits), loc)

    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        self = jax.lax.stop_gradient(self)  # its arrays are not trained
        loc, scale, df, logits, rate, spread = self._parameters(eta)
        keys = jax.random.split(key, 3)
        df = jnp.where(_lifted(self.stretched, 3), NORMAL_DF, df)
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
        number, value, p, counts = _parts(features_first(mean), self.sizes)
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
        _, _, frequency, log_count = _parts(mean, self.sizes)
        precision, noise_of_score, _, _ = _parts(noise, self.sizes)
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
        variance = _parts(noise, self.sizes)[0]
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
