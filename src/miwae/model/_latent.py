"""The two halves of a deep latent variable model, and both together."""

import functools
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae._arrays import as_incomplete
from miwae._compilation import compiled
from miwae._numerics import by_blocks
from miwae._shapes import Eta, Latents, OneKey, PerSample, Rows, Seen, Table, TableSeen
from miwae._threads import require_own_process
from miwae._words import counted
from miwae.errors import DataError
from miwae.model._amortizers import AbstractAmortizer
from miwae.model._priors import AbstractPrior
from miwae.model._proposals import AbstractProposal
from miwae.model._widths import applied, require_width
from miwae.model.observations._base import AbstractObservation


class LatentModel(eqx.Module):
    """What is assumed, Eqn. (1): `z ~ p(z)`, `x | z ~ Phi(x | f(z))`."""

    prior: AbstractPrior
    decoder: Callable[[Latents], Eta]
    observation: AbstractObservation

    def decode(self, z: Latents) -> Eta:
        """`f(z)`, the parameters of the observation model; a `SettingsError` if widths differ."""
        # The density of a prior may be a sum over the dimensions, whatever their number.
        of_prior = f"the prior {type(self.prior).__name__}"
        require_width(z, self.prior.n_latent, "a latent sample of the proposal", of_prior)
        eta = applied(self.decoder, z, called="decoder", given="dimensions of a latent sample")
        output = f"the output of the decoder {type(self.decoder).__name__}"
        family = f"{type(self.observation).__name__} of {self.observation.n_features} features"
        require_width(eta, self.observation.n_parameters, output, family)
        return eta


class Autoencoder(eqx.Module):
    """A latent variable model and the amortizer that proposes latent samples for its rows."""

    generative: LatentModel
    amortizer: AbstractAmortizer

    def propose(self, x: Rows, observed: Seen) -> AbstractProposal:
        """`q(z | x_obs)`."""
        return self.amortizer(*self.generative.observation.embed(x, observed))

    def log_joint(self, z: Latents, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        """`log p(x_obs | z) + log p(z)`, where `eta` is the decoded z."""
        likelihood = self.generative.observation.log_prob(eta, x, observed)
        return likelihood + self.generative.prior.log_prob(z, self.amortizer)

    def generate(self, key: OneKey, n_rows: int) -> Float[Array, "N D"]:
        """New complete rows from the model."""
        key_z, key_x = jax.random.split(key)
        z = self.generative.prior.sample(key_z, n_rows, self.amortizer)
        eta = self.generative.decode(z[None])
        observation = self.generative.observation
        nothing = jnp.zeros((n_rows, observation.n_features))
        return observation.sample(eta, nothing, jnp.zeros(nothing.shape, dtype=bool), key_x)[0]


def check_data(
    autoencoder: Autoencoder, x: object, observed: object = None
) -> tuple[Table, TableSeen]:
    """`as_incomplete`, and a `DataError` for values that the model cannot have produced.

    Here each computation with a model begins; in a fork it is refused.
    """
    require_own_process()
    observation = autoencoder.generative.observation
    values, seen = as_incomplete(x, observed, observation.n_features)
    impossible = seen & ~by_blocks(functools.partial(_supported, observation), values)
    if impossible.any():
        row, column = np.argwhere(impossible)[0]
        such = counted(int(impossible.sum()), "such cell")
        raise DataError(
            f"row {row}, column {column} is {values[row, column]}, which "
            f"{type(observation).__name__} does not allow ({such})"
        )
    return values, seen


@compiled
def _supported(observation: AbstractObservation, x: Float[Array, "N D"]) -> Bool[Array, "N D"]:
    return observation.supports(x)
