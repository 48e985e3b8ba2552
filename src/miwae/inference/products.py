"""What can be made of the codes of a row: means of statistics, draws, quantiles."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from miwae.inference.importance import resample, weighted_quantile
from miwae.inference.slots import Codes, codes_at_once
from miwae.kernels.threefry import fold_in, split_key

__all__ = ["DrawnStatistic", "Draws", "Means", "Quantiles", "WeightedMeans", "closed_form"]


def _drawn(codes: Codes) -> Float[Array, "K B D"]:
    """Completed rows, missing cells drawn from `p(x_mis | x_obs, z)` with each row's key."""
    generative = codes.autoencoder.generative

    def one(eta: Array, x: Array, observed: Array, key: Array) -> Float[Array, "K D"]:
        return generative.observation.sample(eta[:, None], x[None], observed[None], key)[:, 0]

    eta = generative.decode(codes.z)
    of_rows = jax.vmap(one, in_axes=(1, 0, 0, 0), out_axes=1)
    drawn = of_rows(eta, codes.x, codes.observed, codes.key)
    return jnp.where(codes.observed[None], codes.x[None], drawn)


def _blocks(codes: Codes) -> tuple[Array, Array, Array]:
    """Codes and weights in blocks, to be decoded one after the other, and the blocks' numbers."""
    size = codes_at_once(codes.autoencoder)
    split = lambda a: a.reshape(-1, size, *a.shape[1:])  # noqa: E731
    z, w = split(codes.z), split(jax.nn.softmax(codes.log_w, axis=0))
    return z, w, jnp.arange(z.shape[0])


def _block(codes: Codes, z: Array, number: Array) -> Codes:
    """One of the blocks, with random numbers of its own."""
    return codes._replace(z=z, key=fold_in(codes.key, number))


def closed_form(codes: Codes) -> Float[Array, "K B S"]:
    """`E[statistics | x_obs, z]`: Eqn. (12), the estimate of smaller variance."""
    generative = codes.autoencoder.generative
    return generative.observation.mean(generative.decode(codes.z), codes.x, codes.observed)


class DrawnStatistic(eqx.Module):
    """`h` of completed rows, their missing cells drawn given the codes."""

    h: Callable[[Float[Array, " D"]], Float[Array, " S"]]

    def __call__(self, codes: Codes) -> Float[Array, "K B S"]:
        """Draw, complete, apply."""
        return jax.vmap(jax.vmap(self.h))(_drawn(codes))


class Means(NamedTuple):
    """Self-normalised means and their Monte Carlo errors."""

    mean: Float[Array, "B S"]
    standard_error: Float[Array, "B S"]


class WeightedMeans(eqx.Module):
    """The mean of a statistic of the codes, a block at a time."""

    statistic: Callable[[Codes], Float[Array, "K B S"]]

    def __call__(self, codes: Codes) -> Means:
        """Sums over the blocks."""
        z, weights, numbers = _blocks(codes)

        def add(sums: Array, block: tuple[Array, Array, Array]) -> tuple[Array, None]:
            z, w, number = block
            w = w[..., None]
            # Where there is no code of the row, nobody knows whether the statistic exists.
            h = jnp.where(w > 0, self.statistic(_block(codes, z, number)) - centre[None], 0.0)
            terms = [w * h, w**2 * h, w**2 * h**2]
            return sums + jnp.stack([jnp.sum(term, axis=0) for term in terms]), None

        # Sums of squares cancel unless they are taken near the mean.
        used = weights[0][..., None] > 0
        first = jnp.where(used, self.statistic(_block(codes, z[0], numbers[0])), 0.0)
        centre = jnp.sum(first, axis=0) / jnp.maximum(jnp.sum(used, axis=0), 1)
        start = jnp.zeros((3, *centre.shape))
        mean, w2h, w2h2 = jax.lax.scan(add, start, (z, weights, numbers))[0]
        w2 = jnp.sum(weights**2, axis=(0, 1))[:, None]
        squares = w2h2 - 2 * mean * w2h + mean**2 * w2
        return Means(centre + mean, jnp.sqrt(jnp.maximum(squares, 0.0)))


class Draws(eqx.Module):
    """M completed rows, from codes drawn with the probability of their weights."""

    n_imputations: int = eqx.field(static=True)

    def __call__(self, codes: Codes) -> Float[Array, "B M D"]:
        """Resample, decode, draw."""
        key_index, key_x = split_key(codes.key, 2)
        index = resample(key_index, codes.log_w, self.n_imputations)
        z = jnp.take_along_axis(codes.z, index[..., None], axis=0)
        return jnp.moveaxis(_drawn(codes._replace(z=z, key=key_x)), 0, 1)


class Quantiles(eqx.Module):
    """Weighted quantiles of the draws of each cell."""

    levels: tuple[float, ...] = eqx.field(static=True)

    def __call__(self, codes: Codes) -> Float[Array, "B Q D"]:
        """Draw for each code, then sort."""
        z, _, numbers = _blocks(codes)
        drawn = jax.lax.map(lambda block: _drawn(_block(codes, *block)), (z, numbers))
        drawn = drawn.reshape(-1, *drawn.shape[2:])
        levels = jnp.asarray(self.levels)
        return jnp.moveaxis(weighted_quantile(codes.log_w, drawn, levels), 0, 1)
