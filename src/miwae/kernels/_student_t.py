"""The Student-t distribution, as fast as a training step needs it.

To be deleted when XLA's CPU backend vectorises `lgamma`, `cos` and their derivatives.
"""

import functools
import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Key

from miwae.kernels._threefry import as_uniform, pair_of_bits

# Of Stirling's series for the ratio of gamma functions, in powers of 1 / b^2.
STIRLING = (-1 / 8, 1 / 192, -1 / 640, 17 / 14336)


def log_gamma_ratio(df: Float[Array, "..."]) -> Float[Array, "..."]:
    r"""`lgamma((df + 1) / 2) - lgamma(df / 2)` for `df > 2`, to single precision.

    Two steps of the recurrence of the gamma function, then Stirling's series for the ratio. Where
    `lgamma` and its derivative were a large share of a training step, this is one logarithm.

    Examples:
        >>> round(float(log_gamma_ratio(jnp.array(2.0))), 6)  # log(sqrt(pi) / 2)
        -0.120782
    """
    gammas, series = _gamma_ratio(df)
    return jnp.log(gammas) + series


def _gamma_ratio(df: Float[Array, "..."]) -> tuple[Float[Array, "..."], Float[Array, "..."]]:
    """A factor of the ratio, and the logarithm of the rest."""
    a = df / 2
    b = a + 2
    recurrence = a * (a + 1) / ((a + 0.5) * (a + 1.5))
    return recurrence * jnp.sqrt(b), _polynomial(1 / (b * b), STIRLING) / b


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
def softplus(a: Float[Array, "..."]) -> Float[Array, "..."]:
    """`log(1 + exp(a))`, with an absolute error of single precision at 1.

    Where it is near zero, callers add a floor to it. XLA's has a relative error of single
    precision there too, and takes two to three times as long.

    Examples:
        >>> round(float(softplus(jnp.array(0.0))), 6)
        0.693147
    """
    return jnp.maximum(a, 0) + jnp.log(1 + jnp.exp(-jnp.abs(a)))


@softplus.defjvp
def _softplus_jvp(primals: tuple[Array], tangents: tuple[Array]) -> tuple[Array, Array]:
    (a,) = primals
    return softplus(a), jax.nn.sigmoid(a) * tangents[0]


@jax.custom_jvp
def student_t_log_prob(t: Float[Array, "..."], df: Float[Array, "..."]) -> Float[Array, "..."]:
    """Log-density of the standard Student-t distribution with `df > 2` at `t`."""
    gammas, series = _gamma_ratio(df)
    constant = jnp.log(gammas * jax.lax.rsqrt(df * math.pi)) + series
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
    first, second = pair_of_bits(key, shape)
    # Half a grid step away from 0 and from 1: at both the derivative in df does not exist.
    u, v = as_uniform(first) + 2.0**-24, as_uniform(second)
    return jnp.sqrt(df * jnp.expm1(-2 / df * jnp.log(u))) * cosine_of_turns(v)
