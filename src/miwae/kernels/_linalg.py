"""Cholesky factors and triangular systems of many small matrices at once, the matrices last.

Batched LAPACK calls are not used, for two reasons. Two of them that do not depend on each other
can wait for each other forever on XLA's CPU runtime (jaxlib 0.10: each runs on a worker of the
thread pool and waits there for work that it has given to the same pool), and training runs two
halves of a batch side by side. And there is no call for each matrix: one step for each of a dozen
columns, vectorised over all rows of a batch. To be deleted when XLA's CPU backend has batched
factors of small matrices that do neither.
"""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int


def cholesky_solve(
    a: Float[Array, "L L B"], b: Float[Array, "L K B"]
) -> tuple[Float[Array, "L L B"], Float[Array, "L K B"]]:
    """C with `C C' = a`, and `C^-1 b`: elimination turns `[a | b]` into `[C' | C^-1 b]`.

    Each turn of a compiled loop costs more than the few numbers it works on, so both are had from
    one loop.

    Examples:
        >>> a, b = jnp.array([[4.0, 2.0], [2.0, 5.0]]), jnp.array([[2.0], [5.0]])
        >>> factor, solution = cholesky_solve(a[:, :, None], b[:, :, None])
        >>> factor[:, :, 0].tolist(), solution[:, 0, 0].tolist()
        ([[2.0, 0.0], [1.0, 2.0]], [1.0, 2.0])
    """
    n = a.shape[0]
    whole = jnp.concatenate([a, b], axis=1)
    place = jnp.arange(whole.shape[1])[:, None]

    def step(j: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, done = carry
        row = jnp.where(place >= j, rest[j] / jnp.sqrt(rest[j, j])[None], 0.0)
        return rest - row[:n, None] * row[None], done.at[j].set(row)

    done = jax.lax.fori_loop(0, n, step, (whole, jnp.zeros_like(whole)))[1]
    return jnp.swapaxes(done[:, :n], 0, 1), done[:, n:]


def solve_lower(c: Float[Array, "L L B"], b: Float[Array, "L K B"]) -> Float[Array, "L K B"]:
    """`C^-1 b`, by forward substitution."""

    def step(j: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, solution = carry
        value = rest[j] / c[j, j][None]
        return rest - c[:, j][:, None] * value[None], solution.at[j].set(value)

    return jax.lax.fori_loop(0, c.shape[0], step, (b, jnp.zeros_like(b)))[1]


def solve_lower_transposed(
    c: Float[Array, "L L B"], b: Float[Array, "L K B"]
) -> Float[Array, "L K B"]:
    """`C^-T b`, by back substitution."""
    last = c.shape[0] - 1

    def step(i: Int[Array, ""], carry: tuple[Array, Array]) -> tuple[Array, Array]:
        rest, solution = carry
        j = last - i
        value = rest[j] / c[j, j][None]
        return rest - c[j][:, None] * value[None], solution.at[j].set(value)

    return jax.lax.fori_loop(0, c.shape[0], step, (b, jnp.zeros_like(b)))[1]
