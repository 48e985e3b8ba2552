"""Distributions that NumPyro lacks, or has in a form too slow for the inner loop."""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int, Key
from numpyro import distributions as dist
from numpyro.distributions import constraints

from miwae.randomness import uniform

__all__ = [
    "PointMasses",
    "StudentT",
    "cosine_of_turns",
    "log_gamma_ratio",
    "standard_student_t",
    "student_t_log_prob",
]


# Of Stirling's series for the ratio of gamma functions, in powers of 1 / b^2.
STIRLING = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336)


def log_gamma_ratio(df: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""`lgamma((df + 1) / 2) - lgamma(df / 2)` for `df > 2`, to single precision.

    Two steps of the recurrence of the gamma function, then Stirling's series for the ratio. Where
    `lgamma` and its derivative were a large share of a training step, this is one logarithm.

    Example:
        >>> round(float(log_gamma_ratio(jnp.array(2.0))), 6)  # log(sqrt(pi) / 2)
        -0.120782
    """
    a = df / 2
    b = a + 2
    recurrence = a * (a + 1) / ((a + 0.5) * (a + 1.5))
    series = _polynomial(1 / (b * b), STIRLING) / b
    return jnp.log(recurrence * jnp.sqrt(b)) + series


def _log_gamma_ratio_slope(df: Float[Array, "..."]) -> Float[Array, "..."]:
    """Its derivative, written out: no logarithm, and nothing that cancels."""
    a = df / 2
    b = a + 2
    y = 1 / (b * b)
    recurrence = (a * (a + 1.5) + 0.75) / (a * (a + 1) * (a + 0.5) * (a + 1.5))
    series = y * _polynomial(y, [-(2 * i + 1) * c for i, c in enumerate(STIRLING)])
    return 0.5 * (recurrence + 0.5 / b + series)


def _polynomial(y: Float[Array, "..."], coefficients: Sequence[float]) -> Float[Array, "..."]:
    return functools.reduce(lambda total, c: total * y + c, reversed(coefficients), 0 * y)


@jax.custom_jvp
def student_t_log_prob(t: Float[Array, "..."], df: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log-density of the standard Student-t distribution with `df > 2` at `t`."""
    constant = log_gamma_ratio(df) - 0.5 * jnp.log(df * math.pi)
    return constant - 0.5 * (df + 1) * jnp.log1p(t * t / df)


@student_t_log_prob.defjvp
def _student_t_log_prob_jvp(
    primals: tuple[Array, Array], tangents: tuple[Array, Array]
) -> tuple[Array, Array]:
    """The derivatives written out: a few operations, where differentiating each costs many."""
    t, df = primals
    square = t * t / df
    pull = (df + 1) / (df + t * t)
    tail = 0.5 * (pull * square - jnp.log1p(square))
    slope = _log_gamma_ratio_slope(df) - 0.5 / df + tail
    return student_t_log_prob(t, df), -pull * t * tangents[0] + slope * tangents[1]


def cosine_of_turns(v: Float[Array, "..."]) -> Float[Array, "..."]:
    """`cos(2 pi v)` for `v` in [0, 1), to single precision.

    The sine of an angle in [-pi/2, pi/2] by its Taylor series: on a CPU a vectorised loop, where
    XLA calls a function for each cosine: an eighth of a training step.
    """
    angle = 2 * math.pi * (jnp.abs(v - 0.5) - 0.25)
    y = angle * angle
    series = 0.0
    for n in (11, 9, 7, 5, 3, 1):
        series = 1 / math.factorial(n) - y * series
    return angle * series


def standard_student_t(
    key: Key[Array, "..."], df: Float[Array, "..."], shape: tuple[int, ...]
) -> Float[Array, "..."]:
    """Standard Student-t draws by Bailey's polar formula (1994), differentiable in `df`.

    `sqrt(df (u^(-2/df) - 1)) cos(2 pi v)` for uniform `u`, `v`: no rejection, no gamma function.

    Args:
        key: a single key, or one for each row.
        df: degrees of freedom, broadcast against `shape`.
        shape: of the result; its last axis is the rows.
    """
    pair = uniform(key, (2, *shape))
    # Half a grid step away from 0 and from 1: at both the derivative in df does not exist.
    u, v = pair[0] + 2.0**-24, pair[1]
    return jnp.sqrt(df * jnp.expm1(-2 / df * jnp.log(u))) * cosine_of_turns(v)


class StudentT(dist.Distribution):
    """Student-t distribution with `df > 2`, in NumPyro's vocabulary."""

    arg_constraints = {
        "df": constraints.greater_than(2.0),
        "loc": constraints.real,
        "scale": constraints.positive,
    }
    support = constraints.real  # pyright: ignore[reportAssignmentType]
    reparametrized_params = ["df", "loc", "scale"]
    pytree_data_fields = ("df", "loc", "scale")

    def __init__(
        self,
        df: Float[Array, "..."],
        loc: Float[Array, "..."],
        scale: Float[Array, "..."],
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.df, self.loc, self.scale = df, loc, scale
        shape = jnp.broadcast_shapes(df.shape, loc.shape, scale.shape)
        super().__init__(batch_shape=shape, validate_args=validate_args)

    def sample(
        self, key: Key[Array, ""] | None, sample_shape: tuple[int, ...] = ()
    ) -> Float[Array, "..."]:
        """Draw by Bailey's formula."""
        assert key is not None
        shape = self.shape(sample_shape)
        df, loc, scale = (jnp.broadcast_to(a, shape) for a in (self.df, self.loc, self.scale))
        return loc + scale * standard_student_t(key, df, shape)

    def log_prob(
        self, value: Float[Array, "..."], intermediates: None = None
    ) -> Float[Array, "..."]:
        """Log-density at `value`."""
        t = (value - self.loc) / self.scale
        return student_t_log_prob(t, self.df) - jnp.log(self.scale)

    @property
    def mean(self) -> Float[Array, "..."]:
        """The location."""
        return jnp.broadcast_to(self.loc, self.batch_shape)

    @property
    def variance(self) -> Float[Array, "..."]:
        """`scale^2 df / (df - 2)`."""
        return jnp.broadcast_to(self.scale**2 * self.df / (self.df - 2), self.batch_shape)


class PointMasses(dist.Distribution):
    """Numbers that can take a few values each, in NumPyro's vocabulary.

    Args:
        logits: one for each value, along the first axis.
        values: broadcast against `logits`. Of equal ones the first counts, so that what takes
            fewer values than others can be padded with its last, at no probability.
    """

    arg_constraints = {
        "logits": constraints.independent(constraints.real, 1),
        "values": constraints.independent(constraints.real, 1),
    }
    support = constraints.real  # pyright: ignore[reportAssignmentType]
    pytree_data_fields = ("logits", "values")

    def __init__(
        self,
        logits: Float[Array, "C ..."],
        values: Float[Array, "C ..."],
        *,
        validate_args: bool | None = None,
    ) -> None:
        self.logits, self.values = logits, values
        super().__init__(batch_shape=logits.shape[1:], validate_args=validate_args)

    @property
    def log_probabilities(self) -> Float[Array, "C ..."]:
        """Of the values, along the first axis."""
        return jax.nn.log_softmax(self.logits, axis=0)

    def sample(
        self, key: Key[Array, ""] | None, sample_shape: tuple[int, ...] = ()
    ) -> Float[Array, "..."]:
        """One of the values."""
        assert key is not None
        shape = (*sample_shape, *self.batch_shape)
        codes = jax.random.categorical(key, self.logits, axis=0, shape=shape)
        values = jnp.broadcast_to(self.values, self.logits.shape)
        return jnp.sum(jnp.where(self._hit(codes), _lifted(values, len(shape)), 0.0), axis=0)

    def log_prob(
        self, value: Float[Array, "..."], intermediates: None = None
    ) -> Float[Array, "..."]:
        """Log-probability of the value that is nearest to a number."""
        codes = jnp.argmin(jnp.abs(_lifted(self.values, value.ndim) - value[None]), axis=0)
        table = _lifted(self.log_probabilities, max(value.ndim, len(self.batch_shape)))
        return jnp.sum(jnp.where(self._hit(codes), table, 0.0), axis=0)

    @property
    def mean(self) -> Float[Array, "..."]:
        """The sum of the values, each times its probability."""
        return jnp.sum(jnp.exp(self.log_probabilities) * self.values, axis=0)

    @property
    def variance(self) -> Float[Array, "..."]:
        """Around the mean."""
        probability = jnp.exp(self.log_probabilities)
        return jnp.sum(probability * (self.values - self.mean[None]) ** 2, axis=0)

    def _hit(self, codes: Int[Array, "..."]) -> Bool[Array, "C ..."]:
        """Which of the values each code stands for."""
        return codes[None] == jnp.arange(len(self.logits)).reshape(-1, *(1,) * codes.ndim)


def _lifted(a: Float[Array, "C ..."], n_axes: int) -> Float[Array, "C ..."]:
    """With so many axes behind the first: new ones come right behind it."""
    return a.reshape(len(a), *(1,) * (n_axes + 1 - a.ndim), *a.shape[1:])
