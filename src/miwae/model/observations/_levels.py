"""The levels of coded columns, and Gaussian pseudo-observations of cells that are not Gaussian."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from miwae._numerics import features_first, features_last
from miwae._shapes import Floats, Inputs, InputsSeen

# Probability that a level is drawn from its column's shares, whatever z is; held-out cells may
# choose another one. The logits are linear in z at first: without this, one cell of an unusual row
# could cost as much as a thousand others.
SLIP = 1e-3
MOST_LOGIT = 80.0  # exponentials of more overflow in single precision
TINY = 1e-37

# How a coded column is imputed: by the most probable level, by the median, by the mean.
SORTS = ("category", "ordinal", "points")
CATEGORY, ORDINAL, POINTS = range(3)


class Coded(NamedTuple):
    """A column with finitely many levels."""

    sort: str  # one of `SORTS`
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
    slip: Float[Array, " J"]  # probability that a level comes from the shares, not from the logits

    @classmethod
    def of(cls, columns: Sequence[Coded], size: Callable[[int], int]) -> "Levels":
        """With room for more columns and levels, up to a `size` of each."""
        n_columns = size(len(columns))
        n_levels = size(sum(len(own.values) for own in columns))
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
            column=jax.device_put(column.astype(np.int32)),
            value=jax.device_put(value),
            score=jax.device_put(score),
            share=jax.device_put(share),
            indicated=jax.device_put(indicated > 0),
            sort=jax.device_put(sort),
            last=jax.device_put(last),
            slip=jax.device_put(np.full(n_columns, SLIP, dtype=np.float32)),
        )

    @property
    def real(self) -> Bool[Array, " M"]:
        """False for what pads."""
        return self.share > 0

    @property
    def ordered(self) -> Bool[Array, " J"]:
        """Columns that networks see as numbers."""
        return self.sort != CATEGORY

    def mixed(self, p: Float[Array, "M ..."]) -> Float[Array, "M ..."]:
        """Probabilities of the logits, mixed with the shares."""
        slip, share = (lifted(a, p.ndim) for a in (self.slip[self.column], self.share))
        return (1 - slip) * p + slip * share

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
        return jnp.where(lifted(self.real, own.ndim), own, 0.0)

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


def lifted(a: Array, n_axes: int) -> Array:
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
        known = parts_of(features_first(jnp.where(seen, inputs, 0.0)), self.sizes)
        u = parts_of(features_first(predicted), self.sizes)
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


def parts_of(a: Array, sizes: Sequence[int]) -> list[Array]:
    return jnp.split(a, np.cumsum(sizes)[:-1].tolist())


def _like(a: Array, b: Array) -> Array:
    return jnp.broadcast_to(a[:, None], b.shape)
