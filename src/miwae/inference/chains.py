"""The Markov chains that the paper discusses in section 3.1, for comparison.

Both alternate between codes and missing cells, and both propose codes from q(z | x) of the
*completed* row: they are made for models trained on complete data, whose amortizer approximates
p(z | x).
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Key

from miwae._arrays import require_at_least
from miwae._compilation import compiled
from miwae.errors import SettingsError
from miwae.model.latent import Autoencoder, check_data

__all__ = ["Chain", "gibbs"]


class Chain(NamedTuple):
    """The visited completions of each row."""

    x: Float[np.ndarray, "T N D"]
    acceptance: Float[np.ndarray, " N"]  # share of accepted codes; 1 for pseudo-Gibbs


class _Place(NamedTuple):
    x: Float[Array, "N D"]
    z: Float[Array, "N L"]
    accepted: Float[Array, " N"]


@compiled
def _run(
    autoencoder: Autoencoder,
    x: Float[Array, "N D"],
    observed: Bool[Array, "N D"],
    key: Key[Array, ""],
    n_steps: int,
    scheme: str,
) -> tuple[_Place, Float[Array, "T N D"]]:
    observation = autoencoder.generative.observation
    everything = jnp.ones(x.shape, dtype=bool)

    def fill(z: Float[Array, "N L"], key: Key[Array, ""]) -> Float[Array, "N D"]:
        eta = autoencoder.generative.decode(z[None])
        return jnp.where(observed, x, observation.sample(eta, x, observed, key)[0])

    def log_ratio(x: Float[Array, "N D"], z: Float[Array, "N L"]) -> Float[Array, " N"]:
        """`log p(x, z) - log q(z | x)` of completed rows."""
        joint = autoencoder.log_joint(z[None], x, everything)
        return (joint - autoencoder.propose(x, everything).log_prob(z[None]))[0]

    def step(place: _Place, key: Key[Array, ""]) -> tuple[_Place, Float[Array, "N D"]]:
        key_z, key_u, key_x = jax.random.split(key, 3)
        proposed = autoencoder.propose(place.x, everything).sample(key_z, 1)[0]
        if scheme == "pseudo-gibbs":
            accept = jnp.ones(len(x), dtype=bool)
        else:
            log_u = jnp.log(jax.random.uniform(key_u, (len(x),)))
            accept = log_u < log_ratio(place.x, proposed) - log_ratio(place.x, place.z)
        z = jnp.where(accept[:, None], proposed, place.z)
        new = _Place(fill(z, key_x), z, place.accepted + accept)
        return new, new.x

    key_start, key_run = jax.random.split(key)
    # The paper: "starting with some random imputation"; here, one from the proposal for x_obs.
    z = autoencoder.propose(x, observed).sample(key_start, 1)[0]
    start = _Place(fill(z, jax.random.fold_in(key_start, 1)), z, jnp.zeros(len(x)))
    return jax.lax.scan(step, start, jax.random.split(key_run, n_steps))


def gibbs(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    key: Key[Array, ""],
    n_steps: int,
    scheme: str = "metropolis-within-gibbs",
) -> Chain:
    """Draw completions of incomplete rows by a Markov chain.

    "pseudo-gibbs" (Rezende et al., 2014) autoencodes again and again: it has the right limit only
    if q(z | x) is the exact posterior of complete rows. "metropolis-within-gibbs" (Mattei &
    Frellsen, 2018) accepts a code with the Metropolis-Hastings ratio, and has the right limit
    always.

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
