"""The paper's iota: what the encoder sees in the place of missing inputs."""

import abc

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from miwae._shapes import Inputs, InputsSeen


class AbstractFill(eqx.Module):
    """A function from incomplete to complete inputs that leaves the observed ones as they are."""

    @abc.abstractmethod
    def __call__(self, inputs: Inputs, seen: InputsSeen) -> Inputs:
        """The completed inputs."""


class ZeroFill(AbstractFill):
    """Zeros, as in all experiments of the paper."""

    def __call__(self, inputs: Inputs, seen: InputsSeen) -> Inputs:
        return jnp.where(seen, inputs, 0.0)


class MeanFill(AbstractFill):
    """Fixed constants, such as the means of the observed inputs."""

    values: Float[Array, " E"]

    def __call__(self, inputs: Inputs, seen: InputsSeen) -> Inputs:
        return jnp.where(seen, inputs, jax.lax.stop_gradient(self.values)[None, :])


class LearnedFill(AbstractFill):
    """Constants learned with the encoder, by maximising the bound."""

    values: Float[Array, " E"]

    def __call__(self, inputs: Inputs, seen: InputsSeen) -> Inputs:
        return jnp.where(seen, inputs, self.values[None, :])


class OracleFill(AbstractFill):
    """The truth, where an experiment knows it: reads what is stored in the missing cells.

    Only for experiments like the one of the paper's Figure 1. It is the one place where what a
    missing cell holds matters.
    """

    def __call__(self, inputs: Inputs, seen: InputsSeen) -> Inputs:
        return inputs
