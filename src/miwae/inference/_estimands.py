"""What is computed from the latent samples of a row: means, draws, quantiles.

An estimand has a value at each latent sample, computed from the decoded parameters. Means and
their errors follow from the values and the weights; a summary, such as quantiles, is optional.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.tree_util import Partial
from jaxtyping import Array, Float, Int, Key, PyTree

from miwae._shapes import Drawn, Eta, Means, RowKeys, Rows, Seen
from miwae.inference._importance import resample, weighted_quantile
from miwae.model import AbstractObservation

# Of the rows that are summarised together.
Weights: TypeAlias = Float[Array, "K G"]
Chosen: TypeAlias = Int[Array, " G"]
ChosenKeys: TypeAlias = Key[Array, " G"]


class Estimand(NamedTuple):
    """A value of each latent sample, and a summary of all samples of a row.

    `values(observation, eta, x, observed, key)` is (K, B, V), with one key for each row.
    `summary(log_w, values, rows, key)` takes the log-weights (K, G) of the chosen rows of `values`
    (K, B, V), which may be large; the leaves of its result have the G rows first.
    """

    values: Callable[..., Float[Array, "K B V"]]
    n_values: int
    summary: Callable[..., PyTree] | None = None


def conditional_mean(observation: AbstractObservation) -> Estimand:
    """`E[statistics | x_obs, z]` in closed form: Eqn. (12), of smaller variance than draws."""
    return Estimand(_closed_form, observation.n_statistics)


def expectation_of(h: Callable[[Float[Array, " D"]], Float[Array, " S"]], width: int) -> Estimand:
    """`h` of completed rows whose missing cells are drawn given z."""
    return Estimand(Partial(_of_drawn, h), width)


def completed_rows(observation: AbstractObservation, n_imputations: int) -> Estimand:
    """M completed rows, at latent samples drawn with the probability of their weights."""
    summary = Partial(_resampled, n_imputations=n_imputations)
    return Estimand(_drawn, observation.n_features, summary)


def row_quantiles(observation: AbstractObservation, levels: tuple[float, ...]) -> Estimand:
    """Quantiles of the draws of each cell."""
    summary = Partial(_quantiles, levels=jnp.asarray(levels))
    return Estimand(_drawn, observation.n_features, summary)


def no_values() -> Estimand:
    """Nothing but the weights, for likelihoods."""
    return Estimand(_nothing, 0)


def _closed_form(
    observation: AbstractObservation, eta: Eta, x: Rows, observed: Seen, key: RowKeys
) -> Means:
    known, is_known = observation.statistics(x, observed)
    # A known statistic is the same at every sample: it has no Monte Carlo error.
    return jnp.where(is_known[None], known[None], observation.mean(eta, x, observed))


def _drawn(
    observation: AbstractObservation, eta: Eta, x: Rows, observed: Seen, key: RowKeys
) -> Drawn:
    """Completed rows, missing cells drawn from `p(x_mis | x_obs, z)`."""

    def one(eta: Array, x: Array, observed: Array, key: Array) -> Float[Array, "K D"]:
        return observation.sample(eta[:, None], x[None], observed[None], key)[:, 0]

    drawn = jax.vmap(one, in_axes=(1, 0, 0, 0), out_axes=1)(eta, x, observed, key)
    return jnp.where(observed[None], x[None], drawn)


def _of_drawn(h: Callable[[Float[Array, " D"]], Float[Array, " S"]], *arguments: PyTree) -> Means:
    return jax.vmap(jax.vmap(h))(_drawn(*arguments))


def _nothing(observation: AbstractObservation, eta: Eta, *_: PyTree) -> Float[Array, "K B 0"]:
    return eta[..., :0]


def _resampled(
    log_w: Weights, values: Drawn, rows: Chosen, key: ChosenKeys, *, n_imputations: int
) -> Float[Array, "G M D"]:
    index = resample(key, log_w, n_imputations)
    return jnp.moveaxis(values[index, rows[None]], 0, 1)


def _quantiles(
    log_w: Weights, values: Drawn, rows: Chosen, key: ChosenKeys, *, levels: Float[Array, " Q"]
) -> Float[Array, "G Q D"]:
    def one(row: tuple[Array, Array]) -> Float[Array, "Q D"]:
        log_w, place = row
        return weighted_quantile(log_w[:, None], values[:, place][:, None], levels)[:, 0]

    # One row after the other, so that memory does not grow with the rows that are sorted.
    return jax.lax.map(one, (log_w.T, rows))
