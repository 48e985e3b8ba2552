r"""Lower bounds of `log p(x_obs)`, as functions of the log-weights of K samples for each row.

Four names, two formulas. Where nothing is missing MIWAE is the importance-weighted bound of Burda
et al. (2016) and MVAE the variational bound of Kingma & Welling (2014); with K = 1 the two
formulas agree.
"""

from collections.abc import Callable

import jax.numpy as jnp

from miwae._numerics import logmeanexp
from miwae._shapes import PerRow, PerSample


def miwae_bound(log_w: PerSample) -> PerRow:
    """`log (1/K) sum_k w_k`, Eqn. (4): tight as K grows.

    Examples:
        >>> miwae_bound(jnp.zeros((5, 2)))
        Array([0., 0.], dtype=float32)
    """
    return logmeanexp(log_w, axis=0)


def mvae_bound(log_w: PerSample) -> PerRow:
    """`(1/K) sum_k log w_k`: the one-sample bound L_1, Eqn. (5), averaged over K draws."""
    return jnp.mean(log_w, axis=0)


iwae_bound = miwae_bound
vae_bound = mvae_bound

BOUNDS: dict[str, Callable[[PerSample], PerRow]] = {
    "miwae": miwae_bound,
    "mvae": mvae_bound,
    "iwae": iwae_bound,
    "vae": vae_bound,
}
