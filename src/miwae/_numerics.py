"""Small numerical functions that every layer may use."""

import math
from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, PyTree

from miwae._shapes import Floats

LOG_2PI = math.log(2 * math.pi)


def logmeanexp(a: Floats, axis: int = 0) -> Floats:
    """Log of the mean of `exp(a)` along an axis, without overflow.

    Examples:
        >>> round(float(logmeanexp(jnp.log(jnp.array([1.0, 3.0])))), 4) == round(math.log(2), 4)
        True
    """
    return jax.nn.logsumexp(a, axis=axis) - math.log(a.shape[axis])


def log1mexp(a: Floats) -> Floats:
    """`log(1 - exp(-a))` for `a > 0`, accurate at both ends (Maechler, 2012)."""
    small = a < math.log(2)
    near = jnp.log(-jnp.expm1(-jnp.where(small, a, 1.0)))
    far = jnp.log1p(-jnp.exp(-jnp.where(small, 1.0, a)))
    return jnp.where(small, near, far)


def softplus_inverse(y: Floats) -> Floats:
    """The `a` with `softplus(a) = y`, for `y > 0`."""
    return y + jnp.log(-jnp.expm1(-y))


def masked_sum(values: Floats, observed: Bool[Array, "..."], axis: int) -> Floats:
    """Sum of `values` over the cells where `observed` is true.

    Callers replace what is stored in missing cells *before* they compute `values`, so that neither
    this sum nor its gradient can see it: `where` alone would let a NaN through the gradient.
    """
    return jnp.sum(jnp.where(observed, values, 0.0), axis=axis)


def features_first(a: Array) -> Array:
    """Move the last axis to the front: (K, B, D) to (D, K, B).

    Arrays are (samples, rows, features) wherever they pass from one function to another. Inside
    the densities and dense layers the features go first: with a last axis of ten or thirty XLA's
    loops on a CPU are not vectorised. The compiler cancels a `features_last` that meets a
    `features_first`, so nothing is moved in memory.
    """
    return jnp.moveaxis(a, -1, 0)


def features_last(a: Array) -> Array:
    """Undo `features_first`."""
    return jnp.moveaxis(a, 0, -1)


def by_blocks(function: Callable[..., PyTree], *arrays: np.ndarray, n_rows: int = 256) -> PyTree:
    """Apply a function of rows to blocks of `n_rows` rows, and join what comes out.

    A compiled function is then compiled once, not for each number of rows that there can be. The
    last block is padded with rows of zeros, whose results are dropped.

    Examples:
        >>> by_blocks(lambda a: -a, np.arange(5.0), n_rows=2)
        array([-0., -1., -2., -3., -4.])
    """
    total = len(arrays[0])
    results = []
    for first in range(0, max(total, 1), n_rows):
        parts = [array[first : first + n_rows] for array in arrays]
        padding = (0, n_rows - len(parts[0]))
        parts = [np.pad(a, [padding, *[(0, 0)] * (a.ndim - 1)]) for a in parts]
        results.append(jax.tree.map(np.asarray, function(*parts)))
    return jax.tree.map(lambda *blocks: np.concatenate(blocks)[:total], *results)
