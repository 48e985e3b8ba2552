"""Families Psi(z | kappa) of proposals: how the encoder's output becomes a distribution."""

import abc
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from flowjax.distributions import Normal as FlowNormal
from flowjax.distributions import Transformed
from flowjax.flows import coupling_flow
from jaxtyping import Array, Float

from miwae._shapes import Floats, Kappa, Matrices, OneKey
from miwae.model import _proposals as proposals
from miwae.model._proposals import AbstractProposal

LATENT_SCALE_FLOOR = 1e-3  # keeps weights finite where x determines a latent dimension exactly
LATENT_DF_FLOOR = 2.1


def _scale(raw: Floats) -> Floats:
    return LATENT_SCALE_FLOOR + jax.nn.softplus(raw)


def _df(raw: Floats) -> Floats:
    return LATENT_DF_FLOOR + jax.nn.softplus(raw)


def _tril(raw: Float[Array, "B T"], n_latent: int) -> Matrices:
    """A lower triangle with a positive diagonal, from its entries row by row."""
    rows, columns = jnp.tril_indices(n_latent)
    full = jnp.zeros((raw.shape[0], n_latent, n_latent)).at[:, rows, columns].set(raw)
    diagonal = jnp.eye(n_latent, dtype=bool)[None]
    return jnp.where(diagonal, _scale(full), full)


class AbstractPosterior(eqx.Module):
    """The paper's variational family Psi, Eqn. (3)."""

    n_latent: eqx.AbstractVar[int]

    @property
    @abc.abstractmethod
    def n_parameters(self) -> int:
        """Q, the width of the encoder's output."""

    @abc.abstractmethod
    def __call__(self, kappa: Kappa) -> AbstractProposal:
        """The distribution with parameters `kappa`, a row each."""


class NormalPosterior(AbstractPosterior):
    """Diagonal normal."""

    n_latent: int = eqx.field(static=True)

    @property
    def n_parameters(self) -> int:
        return 2 * self.n_latent

    def __call__(self, kappa: Kappa) -> AbstractProposal:
        loc, raw = jnp.split(kappa, 2, axis=-1)
        return proposals.NormalProposal(loc, _scale(raw))


class StudentTPosterior(AbstractPosterior):
    """Product of Student-t distributions, as in the paper's experiments on tables."""

    n_latent: int = eqx.field(static=True)

    @property
    def n_parameters(self) -> int:
        return 3 * self.n_latent

    def __call__(self, kappa: Kappa) -> AbstractProposal:
        loc, raw, tail = jnp.split(kappa, 3, axis=-1)
        return proposals.StudentTProposal(loc, _scale(raw), _df(tail))


class FullNormalPosterior(AbstractPosterior):
    """Normal with full covariance."""

    n_latent: int = eqx.field(static=True)

    @property
    def n_parameters(self) -> int:
        return self.n_latent + self.n_latent * (self.n_latent + 1) // 2

    def __call__(self, kappa: Kappa) -> AbstractProposal:
        loc, raw = jnp.split(kappa, [self.n_latent], axis=-1)
        return proposals.FullNormalProposal(loc, _tril(raw, self.n_latent))


class FullStudentTPosterior(AbstractPosterior):
    """Multivariate Student-t with full scale matrix (Domke & Sheldon, 2018)."""

    n_latent: int = eqx.field(static=True)

    @property
    def n_parameters(self) -> int:
        return self.n_latent + self.n_latent * (self.n_latent + 1) // 2 + 1

    def __call__(self, kappa: Kappa) -> AbstractProposal:
        loc, raw, tail = jnp.split(kappa, [self.n_latent, self.n_parameters - 1], axis=-1)
        tril, df = _tril(raw, self.n_latent), _df(jnp.squeeze(tail, -1))
        return proposals.FullStudentTProposal(loc, tril, df)


class MixturePosterior(AbstractPosterior):
    """A mixture of another family, sampled in strata."""

    component: AbstractPosterior
    n_components: int = eqx.field(static=True)

    @property
    def n_latent(self) -> int:
        return self.component.n_latent

    @property
    def n_parameters(self) -> int:
        return self.n_components * (self.component.n_parameters + 1)

    def __call__(self, kappa: Kappa) -> AbstractProposal:
        width = self.component.n_parameters
        parts, logits = jnp.split(kappa, [self.n_components * width], axis=-1)
        components = tuple(self.component(own) for own in jnp.split(parts, self.n_components, -1))
        return proposals.MixtureProposal(components, jax.nn.log_softmax(logits, axis=-1))


class FlowPosterior(AbstractPosterior):
    """A coupling flow (flowjax) that depends on the row through location, scale and a context."""

    n_latent: int = eqx.field(static=True)
    n_context: int = eqx.field(static=True)
    flow: Transformed

    def __init__(
        self,
        n_latent: int,
        *,
        n_context: int = 8,
        n_flow_layers: int = 4,
        n_hidden: int = 32,
        key: OneKey,
    ) -> None:
        self.n_latent, self.n_context = n_latent, n_context
        sizes: Any = {"cond_dim": n_context, "flow_layers": n_flow_layers, "nn_width": n_hidden}
        self.flow = coupling_flow(key, base_dist=FlowNormal(jnp.zeros(n_latent)), **sizes)

    @property
    def n_parameters(self) -> int:
        return 2 * self.n_latent + self.n_context

    def __call__(self, kappa: Kappa) -> AbstractProposal:
        loc, raw, context = jnp.split(kappa, [self.n_latent, 2 * self.n_latent], axis=-1)
        return proposals.FlowProposal(self.flow, loc, _scale(raw), context)
