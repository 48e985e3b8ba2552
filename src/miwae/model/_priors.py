"""Distributions p(z) over the latent variables."""

import abc
from typing import Any, TypeAlias

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.distributions import Normal as FlowNormal
from flowjax.distributions import Transformed
from flowjax.flows import coupling_flow
from jaxtyping import Array, Float

from miwae._numerics import LOG_2PI, features_first, logmeanexp
from miwae._shapes import Latents, OneKey, PerSample
from miwae.model._amortizers import AbstractAmortizer
from miwae.model._proposals import AbstractProposal
from miwae.model._widths import applied

PriorSamples: TypeAlias = Float[Array, "K L"]


class AbstractPrior(eqx.Module):
    """A distribution over L latent variables."""

    n_latent: eqx.AbstractVar[int]

    @abc.abstractmethod
    def log_prob(self, z: Latents, amortizer: AbstractAmortizer) -> PerSample:
        """Log-density of each latent sample; priors made of posteriors need the amortizer."""

    @abc.abstractmethod
    def sample(self, key: OneKey, n_samples: int, amortizer: AbstractAmortizer) -> PriorSamples:
        """K draws."""

    def fixed(self, amortizer: AbstractAmortizer) -> "AbstractPrior":
        """The same distribution, which no longer depends on the model's amortizer."""
        return self


class StandardNormal(AbstractPrior):
    """N(0, I)."""

    n_latent: int = eqx.field(static=True)

    def log_prob(self, z: Latents, amortizer: AbstractAmortizer) -> PerSample:
        return jnp.sum(-0.5 * (features_first(z) ** 2 + LOG_2PI), axis=0)

    def sample(self, key: OneKey, n_samples: int, amortizer: AbstractAmortizer) -> PriorSamples:
        return jax.random.normal(key, (n_samples, self.n_latent))


class MixturePrior(AbstractPrior):
    """A learned mixture of diagonal normals."""

    loc: Float[Array, "C L"]
    log_scale: Float[Array, "C L"]
    logits: Float[Array, " C"]

    def __init__(self, n_latent: int, *, n_components: int = 10, key: OneKey) -> None:
        self.loc = jax.random.normal(key, (n_components, n_latent))
        self.log_scale = jnp.zeros((n_components, n_latent))
        self.logits = jnp.zeros(n_components)

    @property
    def n_latent(self) -> int:
        return self.loc.shape[1]

    def log_prob(self, z: Latents, amortizer: AbstractAmortizer) -> PerSample:
        loc, log_scale = self.loc[None, None], self.log_scale[None, None]
        eps = (z[:, :, None, :] - loc) / jnp.exp(log_scale)
        terms = jnp.sum(-0.5 * (eps**2 + LOG_2PI) - log_scale, axis=-1)
        return jax.nn.logsumexp(terms + jax.nn.log_softmax(self.logits)[None, None], axis=-1)

    def sample(self, key: OneKey, n_samples: int, amortizer: AbstractAmortizer) -> PriorSamples:
        key_c, key_z = jax.random.split(key)
        chosen = jax.random.categorical(key_c, self.logits, shape=(n_samples,))
        eps = jax.random.normal(key_z, (n_samples, self.n_latent))
        return self.loc[chosen] + jnp.exp(self.log_scale)[chosen] * eps


class VampPrior(AbstractPrior):
    """The mixture of the posteriors of learned pseudo-inputs (Tomczak & Welling, 2018)."""

    n_latent: int = eqx.field(static=True)
    pseudo_inputs: Float[Array, "C E"]
    own: AbstractAmortizer | None = None  # used instead of the model's, where the prior is fixed

    def _posterior(
        self, inputs: Float[Array, "C E"], amortizer: AbstractAmortizer
    ) -> AbstractProposal:
        seen = jnp.ones(inputs.shape, dtype=bool)
        given = "numbers of a pseudo-input of VampPrior"
        return applied(self.own or amortizer, inputs, seen, called="amortizer", given=given)

    def fixed(self, amortizer: AbstractAmortizer) -> "VampPrior":
        """Keeps the amortizer as it is now."""
        return VampPrior(self.n_latent, self.pseudo_inputs, self.own or amortizer)

    def log_prob(self, z: Latents, amortizer: AbstractAmortizer) -> PerSample:
        n_components = self.pseudo_inputs.shape[0]
        shape = (z.shape[0] * z.shape[1], n_components, z.shape[2])
        each = jnp.broadcast_to(z.reshape(-1, 1, z.shape[2]), shape)
        terms = self._posterior(self.pseudo_inputs, amortizer).log_prob(each)
        return logmeanexp(terms, axis=1).reshape(z.shape[:2])

    def sample(self, key: OneKey, n_samples: int, amortizer: AbstractAmortizer) -> PriorSamples:
        key_c, key_z = jax.random.split(key)
        chosen = jax.random.randint(key_c, (n_samples,), 0, self.pseudo_inputs.shape[0])
        rows = self.pseudo_inputs[chosen]
        return self._posterior(rows, amortizer).sample(key_z, 1)[0]


class FlowPrior(AbstractPrior):
    """A coupling flow on a standard normal (flowjax)."""

    n_latent: int = eqx.field(static=True)
    flow: Transformed

    def __init__(
        self, n_latent: int, *, n_flow_layers: int = 4, n_hidden: int = 32, key: OneKey
    ) -> None:
        self.n_latent = n_latent
        sizes: Any = {"flow_layers": n_flow_layers, "nn_width": n_hidden}
        self.flow = coupling_flow(key, base_dist=FlowNormal(jnp.zeros(n_latent)), **sizes)

    def log_prob(self, z: Latents, amortizer: AbstractAmortizer) -> PerSample:
        return self.flow.log_prob(z)

    def sample(self, key: OneKey, n_samples: int, amortizer: AbstractAmortizer) -> PriorSamples:
        return self.flow.sample(key, (n_samples,))
