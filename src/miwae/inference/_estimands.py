"""What is wanted of each row: means, draws, quantiles.

An estimand has a value at each latent sample, computed from the decoded parameters. Means and
their errors follow from the values and the weights; a summary, such as quantiles, is optional.
"""

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.tree_util import Partial
from jaxtyping import Array, Float

from miwae._numerics import features_first, features_last
from miwae._shapes import Drawn, Eta, KeyWords, Means, RowKeys, Rows, Seen
from miwae.inference._importance import LogWeights, Values, resample, weighted_quantile
from miwae.model import AbstractObservation


class Given(NamedTuple):
    """What values are computed from: decoded samples and the rows that they belong to."""

    eta: Eta
    x: Rows
    observed: Seen
    held_out: Seen
    key: RowKeys


class Estimand(NamedTuple):
    """A value of each latent sample, and a summary of all samples of a row.

    `values(observation, given)` is (K, B, V) and compiled; `summary(log_w, values, key)` takes
    NumPy arrays, with the two words of the key of each row, and has the rows first.
    """

    values: Callable[..., Float[Array, "K B V"]]
    n_values: int
    summary: Callable[..., np.ndarray] | None = None


def conditional_mean(observation: AbstractObservation) -> Estimand:
    """`E[statistics | x_obs, z]` in closed form: Eqn. (12), of smaller variance than draws.

    Before them comes `log p(x_held | z)` of held-out cells, 0 where there are none: the same
    program then serves imputation and the evaluation of a model in training.
    """
    return Estimand(_closed_form, 1 + observation.n_statistics)


def expectation_of(h: Callable[[Float[Array, " D"]], Float[Array, " S"]], width: int) -> Estimand:
    """`h` of completed rows whose missing cells are drawn given z."""
    return Estimand(Partial(_of_drawn, h), width)


def completed_rows(observation: AbstractObservation, n_imputations: int) -> Estimand:
    """M completed rows, at latent samples drawn with the probability of their weights."""
    return Estimand(_drawn, observation.n_features, Partial(_resampled, n_imputations))


def row_quantiles(observation: AbstractObservation, levels: tuple[float, ...]) -> Estimand:
    """Quantiles of the draws of each cell."""
    return Estimand(_drawn, observation.n_features, Partial(_quantiles, levels))


def no_values() -> Estimand:
    """Nothing but the weights, for likelihoods."""
    return Estimand(_nothing, 0)


def _closed_form(observation: AbstractObservation, given: Given) -> Means:
    # All with the features first, as they are in memory: otherwise XLA would move them.
    statistics = observation.statistics(given.x, given.observed)
    # Without the barrier XLA computes what is known of a row again for each of its samples.
    known, is_known = map(features_first, jax.lax.optimization_barrier(statistics))
    mean = features_first(observation.mean(given.eta, given.x, given.observed))
    # A known statistic is the same at every sample: it has no Monte Carlo error.
    mean = jnp.where(is_known[:, None], known[:, None], mean)
    first = features_first(given.eta)
    log_held = jax.lax.cond(
        jnp.any(given.held_out),
        lambda: observation.log_prob(features_last(first), given.x, given.held_out),
        lambda: jnp.zeros(given.eta.shape[:2]),
    )
    return features_last(jnp.concatenate([log_held[None], mean]))


def _drawn(observation: AbstractObservation, given: Given) -> Drawn:
    """Completed rows, missing cells drawn from `p(x_mis | x_obs, z)`."""

    def one(eta: Array, x: Array, observed: Array, key: Array) -> Float[Array, "K D"]:
        return observation.sample(eta[:, None], x[None], observed[None], key)[:, 0]

    rows = (given.eta, given.x, given.observed, given.key)
    drawn = jax.vmap(one, in_axes=(1, 0, 0, 0), out_axes=1)(*rows)
    return jnp.where(given.observed[None], given.x[None], drawn)


def _of_drawn(
    h: Callable[[Float[Array, " D"]], Float[Array, " S"]],
    observation: AbstractObservation,
    given: Given,
) -> Means:
    return jax.vmap(jax.vmap(h))(_drawn(observation, given))


def _nothing(observation: AbstractObservation, given: Given) -> Float[Array, "K B 0"]:
    return given.eta[..., :0]


def _resampled(
    n_imputations: int, log_w: LogWeights, values: Values, key: KeyWords
) -> Float[np.ndarray, "B M D"]:
    draws = [np.random.Generator(np.random.Philox(key=own.astype(np.uint64))) for own in key]
    level = np.stack([own.random(n_imputations) for own in draws], axis=1)
    index = resample(level, log_w)
    return np.moveaxis(np.asarray(values)[index, np.arange(len(key))[None]], 0, 1)


def _quantiles(
    levels: tuple[float, ...], log_w: LogWeights, values: Values, key: KeyWords
) -> Float[np.ndarray, "B Q D"]:
    return np.moveaxis(weighted_quantile(log_w, values, np.asarray(levels)), 0, 1)
