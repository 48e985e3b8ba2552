"""What is kept of the codes of a row, for each kind of imputation."""

from collections.abc import Callable
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Key, PyTree

from miwae.inference.importance import Running, resample, smoothed, weighted_quantile
from miwae.inference.sampling import BLOCK, AbstractSummary, Round
from miwae.model.latent import Autoencoder
from miwae.model.observations import AbstractObservation
from miwae.randomness import fold_rows, split_key

__all__ = [
    "DrawnStatistic",
    "MeanSummary",
    "Means",
    "QuantileSummary",
    "ResampleSummary",
    "SmoothedDraws",
    "SmoothedSummary",
    "closed_form",
    "smoothed_means",
]


def _sampled(
    observation: AbstractObservation,
    eta: Float[Array, "K B P"],
    x: Float[Array, "B D"],
    observed: Bool[Array, "B D"],
    key: Key[Array, " B"],
) -> Float[Array, "K B D"]:
    """Completed rows, missing cells drawn from `p(x_mis | x_obs, z)` with each row's key."""

    def one(eta: Array, x: Array, observed: Array, key: Array) -> Float[Array, "K D"]:
        return observation.sample(eta[:, None], x[None], observed[None], key)[:, 0]

    drawn = jax.vmap(one, in_axes=(1, 0, 0, 0), out_axes=1)(eta, x, observed, key)
    return jnp.where(observed[None], x[None], drawn)


class Means(NamedTuple):
    """Self-normalised means, their Monte Carlo errors, and the mean of the weights."""

    mean: Float[Array, "B S"]
    standard_error: Float[Array, "B S"]
    log_mean_weight: Float[Array, " B"]


class MeanSummary(AbstractSummary):
    """Keeps nothing but the running sums: the mean of a statistic of z and x."""

    statistic: Callable[[Round], Float[Array, "K B S"]]

    def start(self, autoencoder: Autoencoder, n_rows: int) -> PyTree:
        """Nothing."""
        return ()

    def statistics(self, round_: Round) -> Float[Array, "K B S"]:
        """The statistic."""
        return self.statistic(round_)

    def judged(
        self, autoencoder: Autoencoder, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
    ) -> Bool[Array, "B #S"]:
        """Those of missing cells, where the statistics are those of cells; else all."""
        if self.statistic is closed_form:
            return _of_missing_cells(autoencoder, x, observed)
        return jnp.ones((x.shape[0], 1), dtype=bool)

    def update(self, kept: PyTree, running: Running, round_: Round) -> PyTree:
        """Nothing."""
        return kept

    def result(
        self,
        autoencoder: Autoencoder,
        kept: PyTree,
        running: Running,
        x: Float[Array, "B D"],
        observed: Bool[Array, "B D"],
        key: Key[Array, " B"],
    ) -> PyTree:
        """Means and their errors."""
        return Means(running.mean(), running.standard_error(), running.log_mean_weight())


def closed_form(round_: Round) -> Float[Array, "K B S"]:
    """`E[statistics | x_obs, z]`: Eqn. (12), the estimate of smaller variance."""
    generative = round_.autoencoder.generative
    return generative.observation.mean(generative.decoder(round_.z), round_.x, round_.observed)


def _of_missing_cells(
    autoencoder: Autoencoder, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
) -> Bool[Array, "B S"]:
    return ~autoencoder.generative.observation.statistics(x, observed)[1]


class DrawnStatistic(eqx.Module):
    """`h` of completed rows, their missing cells drawn given the codes."""

    h: Callable[[Float[Array, " D"]], Float[Array, " S"]]

    def __call__(self, round_: Round) -> Float[Array, "K B S"]:
        """Draw, complete, apply."""
        generative = round_.autoencoder.generative
        eta = generative.decoder(round_.z)
        rows = _sampled(generative.observation, eta, round_.x, round_.observed, round_.key)
        return jax.vmap(jax.vmap(self.h))(rows)


class ResampleSummary(AbstractSummary):
    """Keeps M codes, each drawn with the probability of its weight among all seen so far.

    With each block, each of the M codes is replaced by one of the block with the block's share of
    the total weight: resampling with replacement, in memory that does not depend on L.
    """

    n_imputations: int = eqx.field(static=True)

    def start(self, autoencoder: Autoencoder, n_rows: int) -> PyTree:
        """Codes that the first block will replace."""
        n_latent = autoencoder.generative.prior.n_latent
        return jnp.zeros((n_rows, self.n_imputations, n_latent))

    def statistics(self, round_: Round) -> Float[Array, "K B S"]:
        """The conditional means decide how long to sample."""
        return closed_form(round_)

    def judged(
        self, autoencoder: Autoencoder, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
    ) -> Bool[Array, "B #S"]:
        """Those of missing cells."""
        return _of_missing_cells(autoencoder, x, observed)

    def update(self, kept: PyTree, running: Running, round_: Round) -> PyTree:
        """Replace codes by those of a block."""
        key_index, key_replace = split_key(fold_rows(round_.key, jnp.asarray(1)), 2)
        log_w = jnp.where(round_.used, round_.log_w, -jnp.inf)
        index = resample(key_index, log_w, self.n_imputations)  # (M, B)
        chosen = jnp.take_along_axis(round_.z, index[..., None], axis=0)  # (M, B, L)
        block = jax.nn.logsumexp(log_w, axis=0)
        before = running.log_scale + jnp.log(running.w)
        share = jax.nn.sigmoid(block - before)  # all of it where nothing came before
        uniform = jax.vmap(lambda own: jax.random.uniform(own, (self.n_imputations,)))(key_replace)
        replaced = uniform < share[:, None]
        return jnp.where(replaced[..., None], jnp.moveaxis(chosen, 0, 1), kept)

    def result(
        self,
        autoencoder: Autoencoder,
        kept: PyTree,
        running: Running,
        x: Float[Array, "B D"],
        observed: Bool[Array, "B D"],
        key: Key[Array, " B"],
    ) -> PyTree:
        """Completed rows, drawn given the codes."""
        generative = autoencoder.generative
        eta = generative.decoder(jnp.moveaxis(kept, 1, 0))
        rows = _sampled(generative.observation, eta, x, observed, key)
        return jnp.moveaxis(rows, 0, 1)


class QuantileSummary(AbstractSummary):
    """Keeps all draws of a row with their weights."""

    levels: tuple[float, ...] = eqx.field(static=True)
    n_samples: int = eqx.field(static=True)

    def start(self, autoencoder: Autoencoder, n_rows: int) -> PyTree:
        """Room for L draws, of no weight."""
        room = -(-self.n_samples // BLOCK) * BLOCK
        n_features = autoencoder.generative.observation.n_features
        return jnp.full((n_rows, room), -jnp.inf), jnp.zeros((n_rows, room, n_features))

    def statistics(self, round_: Round) -> Float[Array, "K B S"]:
        """The conditional means decide how long to sample."""
        return closed_form(round_)

    def judged(
        self, autoencoder: Autoencoder, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
    ) -> Bool[Array, "B #S"]:
        """Those of missing cells."""
        return _of_missing_cells(autoencoder, x, observed)

    def update(self, kept: PyTree, running: Running, round_: Round) -> PyTree:
        """Add a block."""
        generative = round_.autoencoder.generative
        eta = generative.decoder(round_.z)
        drawn = _sampled(generative.observation, eta, round_.x, round_.observed, round_.key)
        log_w = jnp.where(round_.used, round_.log_w, -jnp.inf)
        place = jax.vmap(lambda a, b, i: jax.lax.dynamic_update_slice_in_dim(a, b, i, 0))
        return (
            place(kept[0], log_w.T, running.count),
            place(kept[1], jnp.moveaxis(drawn, 0, 1), running.count),
        )

    def result(
        self,
        autoencoder: Autoencoder,
        kept: PyTree,
        running: Running,
        x: Float[Array, "B D"],
        observed: Bool[Array, "B D"],
        key: Key[Array, " B"],
    ) -> PyTree:
        """Quantiles with smoothed weights."""
        log_w, drawn = kept
        levels = jnp.asarray(self.levels)
        weights = smoothed(log_w.T, running.count)
        return jnp.moveaxis(weighted_quantile(weights, jnp.moveaxis(drawn, 0, 1), levels), 0, 1)


class _Codes(NamedTuple):
    """All codes of some rows, with smoothed weights."""

    autoencoder: Autoencoder
    z: Float[Array, "K B L"]
    log_w: Float[Array, "K B"]
    x: Float[Array, "B D"]
    observed: Bool[Array, "B D"]
    key: Key[Array, " B"]


class SmoothedSummary(AbstractSummary):
    """Keeps all codes of a row, smooths their weights, and only then uses them."""

    product: Callable[[_Codes], PyTree]
    n_samples: int = eqx.field(static=True)

    def start(self, autoencoder: Autoencoder, n_rows: int) -> PyTree:
        """Room for L codes, of no weight."""
        room = -(-self.n_samples // BLOCK) * BLOCK
        nothing = jnp.full((n_rows, room), jnp.asarray(-jnp.inf, jnp.float32))
        return nothing, jnp.zeros((n_rows, room, autoencoder.generative.prior.n_latent))

    def statistics(self, round_: Round) -> Float[Array, "K B S"]:
        """None on the way."""
        return jnp.zeros((*round_.log_w.shape, 0))

    def judged(
        self, autoencoder: Autoencoder, x: Float[Array, "B D"], observed: Bool[Array, "B D"]
    ) -> Bool[Array, "B #S"]:
        """None on the way."""
        return jnp.ones((x.shape[0], 0), dtype=bool)

    def update(self, kept: PyTree, running: Running, round_: Round) -> PyTree:
        """Add a block."""
        log_w = jnp.where(round_.used, round_.log_w, -jnp.inf)
        place = jax.vmap(lambda a, b, i: jax.lax.dynamic_update_slice_in_dim(a, b, i, 0))
        return (
            place(kept[0], log_w.T, running.count),
            place(kept[1], jnp.moveaxis(round_.z, 0, 1), running.count),
        )

    def result(
        self,
        autoencoder: Autoencoder,
        kept: PyTree,
        running: Running,
        x: Float[Array, "B D"],
        observed: Bool[Array, "B D"],
        key: Key[Array, " B"],
    ) -> PyTree:
        """Smooth, then use."""
        log_w = smoothed(kept[0].T, running.count)
        z = jnp.moveaxis(kept[1], 0, 1)
        return self.product(_Codes(autoencoder, z, log_w, x, observed, key))


def smoothed_means(codes: _Codes) -> tuple[Float[Array, "B S"], Float[Array, "B S"]]:
    """Means of the closed-form statistics and their Monte Carlo errors, a block at a time."""
    generative = codes.autoencoder.generative
    weights = jax.nn.softmax(codes.log_w, axis=0)

    def add(sums: Array, block: tuple[Array, Array]) -> tuple[Array, None]:
        z, w = block
        h = generative.observation.mean(generative.decoder(z), codes.x, codes.observed)
        terms = [w[..., None] * h, w[..., None] ** 2 * h, w[..., None] ** 2 * h**2]
        return sums + jnp.stack([jnp.sum(term, axis=0) for term in terms]), None

    blocks = jax.tree.map(lambda a: a.reshape(-1, BLOCK, *a.shape[1:]), (codes.z, weights))
    n_statistics = generative.observation.n_statistics
    start = jnp.zeros((3, codes.x.shape[0], n_statistics))
    mean, w2h, w2h2 = jax.lax.scan(add, start, blocks)[0]
    w2 = jnp.sum(weights**2, axis=0)[:, None]
    return mean, jnp.sqrt(jnp.maximum(w2h2 - 2 * mean * w2h + mean**2 * w2, 0.0))


class SmoothedDraws(eqx.Module):
    """M completed rows, from codes drawn with the probability of their smoothed weights."""

    n_imputations: int = eqx.field(static=True)

    def __call__(self, codes: _Codes) -> Float[Array, "B M D"]:
        """Resample, decode, draw."""
        key_index, key_x = split_key(codes.key, 2)
        index = resample(key_index, codes.log_w, self.n_imputations)
        z = jnp.take_along_axis(codes.z, index[..., None], axis=0)
        generative = codes.autoencoder.generative
        eta = generative.decoder(z)
        rows = _sampled(generative.observation, eta, codes.x, codes.observed, key_x)
        return jnp.moveaxis(rows, 0, 1)
