"""Cholesky factors and triangular systems of many small matrices at once, the matrices last.

Batched LAPACK calls are not used, for two reasons. Two of them that do not depend on each other
can wait for each other forever on XLA's CPU runtime (jaxlib 0.10: each runs on a worker of the
thread pool and waits there for work that it has given to the same pool), and training runs two
halves of a batch side by side. And with a hundred matrices or more, loops over the matrices are
faster: one step for each of a dozen columns, vectorised over all rows of a batch.
"""

import jax.numpy as jnp
from jaxtyping import Array, Float

__all__ = ["cholesky", "solve_lower", "solve_lower_transposed"]


def cholesky(a: Float[Array, "L L B"]) -> Float[Array, "L L B"]:
    """The lower triangular C with `C C' = a`, for each of B positive definite matrices.

    Example:
        >>> cholesky(jnp.array([[4.0, 2.0], [2.0, 5.0]])[:, :, None])[:, :, 0].tolist()
        [[2.0, 0.0], [1.0, 2.0]]
    """
    columns = []
    for place in range(a.shape[0]):
        column = a[:, 0] / jnp.sqrt(a[0, 0])[None]
        columns.append(jnp.pad(column, ((place, 0), (0, 0))))
        a = a[1:, 1:] - column[1:, None] * column[None, 1:]
    return jnp.stack(columns, axis=1)


def solve_lower(c: Float[Array, "L L B"], b: Float[Array, "L K B"]) -> Float[Array, "L K B"]:
    """`C^-1 b`, by forward substitution."""
    solution = []
    for place in range(c.shape[0]):
        value = b[0] / c[place, place][None]
        solution.append(value)
        b = b[1:] - c[place + 1 :, place][:, None] * value[None]
    return jnp.stack(solution)


def solve_lower_transposed(
    c: Float[Array, "L L B"], b: Float[Array, "L K B"]
) -> Float[Array, "L K B"]:
    """`C^-T b`, by back substitution."""
    solution = []
    for place in reversed(range(c.shape[0])):
        value = b[-1] / c[place, place][None]
        solution.append(value)
        b = b[:-1] - c[place, :place][:, None] * value[None]
    return jnp.stack(solution[::-1])
