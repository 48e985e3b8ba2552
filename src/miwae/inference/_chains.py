"""The Markov chains that the paper discusses in section 3.1, for comparison.

Both alternate between latent samples and missing cells, and both propose latent samples from
q(z | x) of the *completed* row: they are made for models trained on complete data, whose amortizer
approximates p(z | x).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae._arrays import require_at_least
from miwae._compilation import compiled
from miwae._shapes import OneKey
from miwae.errors import SettingsError
from miwae.inference._weights import draw, log_weights
from miwae.model import Autoencoder, check_data


class Chain(NamedTuple):
    """The visited completions of each row."""

    x: Float[np.ndarray, "T N D"]
    acceptance: Float[np.ndarray, " N"]  # share of accepted proposals; 1 for pseudo-Gibbs


class _Place(NamedTuple):
    """Where the chain of each row is: a completed row, its latent sample, decoded."""

    x: Float[Array, "N D"]
    z: Float[Array, "1 N L"]
    eta: Float[Array, "1 N P"]
    accepted: Float[Array, " N"]


@compiled
def _run(
    autoencoder: Autoencoder,
    x: Float[Array, "N D"],
    observed: Bool[Array, "N D"],
    key: OneKey,
    n_steps: int,
    scheme: str,
) -> tuple[_Place, Float[Array, "T N D"]]:
    everything = jnp.ones(x.shape, dtype=bool)

    def complete(eta: Float[Array, "1 N P"], key: OneKey) -> Float[Array, "N D"]:
        drawn = autoencoder.generative.observation.sample(eta, x, observed, key)[0]
        return jnp.where(observed, x, drawn)

    def step(place: _Place, key: OneKey) -> tuple[_Place, Float[Array, "N D"]]:
        key_z, key_u, key_x = jax.random.split(key, 3)
        proposal = autoencoder.propose(place.x, everything)
        z = proposal.sample(key_z, 1)
        eta = autoencoder.generative.decode(z)

        def log_ratio(z: Float[Array, "1 N L"], eta: Float[Array, "1 N P"]) -> Float[Array, " N"]:
            """`log p(x, z) - log q(z | x)` of the completed rows."""
            return log_weights(autoencoder, proposal.log_prob(z), z, eta, place.x, everything)[0]

        if scheme == "pseudo-gibbs":
            accept = jnp.ones(len(x), dtype=bool)
        else:
            log_u = jnp.log(jax.random.uniform(key_u, (len(x),)))
            accept = log_u < log_ratio(z, eta) - log_ratio(place.z, place.eta)
        z = jnp.where(accept[None, :, None], z, place.z)
        eta = jnp.where(accept[None, :, None], eta, place.eta)
        new = _Place(complete(eta, key_x), z, eta, place.accepted + accept)
        return new, new.x

    key_start, key_run = jax.random.split(key)
    # The paper: "starting with some random imputation"; here, one from the proposal for x_obs.
    z, eta, _ = draw(autoencoder, x, observed, key_start, 1)
    first = complete(eta, jax.random.fold_in(key_start, 1))
    start = _Place(first, z, eta, jnp.zeros(len(x)))
    return jax.lax.scan(step, start, jax.random.split(key_run, n_steps))


def gibbs(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    key: OneKey,
    n_steps: int,
    scheme: str = "metropolis-within-gibbs",
) -> Chain:
    """Draw completions of incomplete rows by a Markov chain.

    "pseudo-gibbs" (Rezende et al., 2014) autoencodes repeatedly: it has the right limit only if
    q(z | x) is the exact posterior of complete rows. "metropolis-within-gibbs" (Mattei & Frellsen,
    2018) accepts a latent sample with the Metropolis-Hastings ratio and always has the right
    limit.

    Args:
        autoencoder: the model, whose amortizer should be good for *complete* rows.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        key: for the chain.
        n_steps: T.
        scheme: which chain.
    """
    require_at_least(1, n_steps=n_steps)
    if scheme not in ("pseudo-gibbs", "metropolis-within-gibbs"):
        raise SettingsError(
            f"scheme must be pseudo-gibbs or metropolis-within-gibbs, not {scheme!r}"
        )
    values, seen = check_data(autoencoder, x, observed)
    safe = jnp.asarray(np.where(seen, values, 0.0))
    place, visited = _run(autoencoder, safe, jnp.asarray(seen), key, n_steps, scheme)
    return Chain(np.asarray(visited), np.asarray(place.accepted) / n_steps)
