"""A model of which everything is known: `x = W z + mu + noise`, in float64 and dense algebra.

The formulas condition the joint normal of (z, x) directly. The package uses the precision of z and
Woodbury's identity instead, so that agreement is not agreement with a copy.
"""

from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae.model import Dense, Normal
from miwae.model._amortizers import AbstractAmortizer
from miwae.model._latent import Autoencoder, LatentModel
from miwae.model._priors import StandardNormal
from miwae.model._proposals import AbstractProposal, FullNormalProposal, MixtureProposal

__all__ = [
    "DenseConditioning",
    "LinearGaussian",
    "conditional",
    "exact_autoencoder",
    "linear_gaussian",
    "log_prob",
    "mixture_autoencoder",
    "posterior",
    "simulate",
    "wide_autoencoder",
]

ORACLE_SCALE_FLOOR = 1e-6  # the noise of the oracle is to be free


class LinearGaussian(NamedTuple):
    """`z ~ N(0, I)`, `x | z ~ N(W z + mu, diag(psi))`, in float64."""

    loadings: Float[np.ndarray, "D L"]
    mean: Float[np.ndarray, " D"]
    noise: Float[np.ndarray, " D"]

    @property
    def covariance(self) -> Float[np.ndarray, "D D"]:
        """Of x: `W W' + diag(psi)`."""
        return self.loadings @ self.loadings.T + np.diag(self.noise)


def linear_gaussian(n_features: int = 4, n_latent: int = 2, seed: int = 0) -> LinearGaussian:
    """A model with loadings and means of order one and noise variances from 0.2 to 0.8."""
    rng = np.random.default_rng(seed)
    return LinearGaussian(
        rng.normal(size=(n_features, n_latent)),
        rng.normal(size=n_features),
        rng.uniform(0.2, 0.8, size=n_features),
    )


def simulate(
    model: LinearGaussian, n_rows: int, *, missing: float = 0.4, seed: int = 0
) -> tuple[Float[np.ndarray, "N D"], Bool[np.ndarray, "N D"]]:
    """Complete rows in float32, and which cells are seen; each row has a seen cell."""
    rng = np.random.default_rng(seed)
    n_features, n_latent = model.loadings.shape
    z = rng.normal(size=(n_rows, n_latent))
    noise = rng.normal(size=(n_rows, n_features)) * np.sqrt(model.noise)
    x = (z @ model.loadings.T + model.mean + noise).astype(np.float32)
    observed = rng.uniform(size=x.shape) >= missing
    observed[np.arange(n_rows), rng.integers(n_features, size=n_rows)] = True
    return x, observed


def log_prob(
    model: LinearGaussian, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
) -> Float[np.ndarray, " N"]:
    """`log p(x_obs)` of each row."""
    values = []
    for row, seen in zip(x.astype(np.float64), observed, strict=True):
        covariance = model.covariance[np.ix_(seen, seen)]
        centred = row[seen] - model.mean[seen]
        _, log_det = np.linalg.slogdet(2 * np.pi * covariance)
        values.append(-0.5 * (centred @ np.linalg.solve(covariance, centred) + log_det))
    return np.array(values)


def posterior(
    model: LinearGaussian, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
) -> tuple[Float[np.ndarray, "N L"], Float[np.ndarray, "N L L"]]:
    """Mean and covariance of z given x_obs, for each row."""
    means, covariances = [], []
    for row, seen in zip(x.astype(np.float64), observed, strict=True):
        loadings = model.loadings[seen]
        gain = np.linalg.solve(model.covariance[np.ix_(seen, seen)], loadings).T
        means.append(gain @ (row[seen] - model.mean[seen]))
        covariances.append(np.eye(loadings.shape[1]) - gain @ loadings)
    return np.array(means), np.array(covariances)


def conditional(
    model: LinearGaussian, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
) -> tuple[Float[np.ndarray, "N D"], Float[np.ndarray, "N D D"]]:
    """Mean and covariance of x given x_obs; observed cells are themselves, with covariance 0."""
    means, covariances = [], []
    for row, seen in zip(x.astype(np.float64), observed, strict=True):
        cross = model.covariance[np.ix_(~seen, seen)]
        gain = np.linalg.solve(model.covariance[np.ix_(seen, seen)], cross.T).T
        mean, covariance = row.copy(), np.zeros_like(model.covariance)
        mean[~seen] = model.mean[~seen] + gain @ (row[seen] - model.mean[seen])
        covariance[np.ix_(~seen, ~seen)] = model.covariance[np.ix_(~seen, ~seen)] - gain @ cross.T
        means.append(mean)
        covariances.append(covariance)
    return np.array(means), np.array(covariances)


class DenseConditioning(AbstractAmortizer):
    """The exact posterior of a linear-Gaussian model, moved and widened if so asked."""

    loadings: Float[Array, "D L"]
    mean: Float[Array, " D"]
    noise: Float[Array, " D"]
    shift: Float[Array, ""]
    widen: Float[Array, ""]

    def __call__(self, inputs: Float[Array, "B E"], seen: Bool[Array, "B E"]) -> AbstractProposal:
        covariance = (self.loadings @ self.loadings.T + jnp.diag(self.noise))[None]
        both = seen[:, :, None] & seen[:, None, :]
        # Missing cells become independent of all else, with residual 0: they drop out.
        system = jnp.where(both, covariance, jnp.eye(covariance.shape[-1])[None])
        cross = jnp.where(seen[:, :, None], self.loadings[None], 0.0)
        residual = jnp.where(seen, jnp.where(seen, inputs, 0.0) - self.mean[None], 0.0)
        gain = jnp.linalg.solve(system, cross)
        loc = jnp.einsum("bdl,bd->bl", gain, residual)
        spread = jnp.eye(cross.shape[-1])[None] - jnp.einsum("bdl,bdm->blm", gain, cross)
        return FullNormalProposal(loc + self.shift, self.widen * jnp.linalg.cholesky(spread))


class MixtureConditioning(AbstractAmortizer):
    """A mixture of three wide normals beside the exact posterior, of unequal shares."""

    exact: DenseConditioning

    def __call__(self, inputs: Float[Array, "B E"], seen: Bool[Array, "B E"]) -> AbstractProposal:
        centre = self.exact(inputs, seen)
        assert isinstance(centre, FullNormalProposal)
        shifts = ((-0.7, 1.2), (0.0, 1.0), (0.9, 1.4))
        components = tuple(
            FullNormalProposal(centre.loc + shift, widen * centre.tril) for shift, widen in shifts
        )
        shares = jnp.log(jnp.array([0.2, 0.5, 0.3]))
        return MixtureProposal(components, jnp.tile(shares[None], (len(seen), 1)))


def _autoencoder(model: LinearGaussian, *, shift: float, widen: float) -> Autoencoder:
    as_array = lambda a: jnp.asarray(a, dtype=jnp.float32)  # noqa: E731
    n_features, n_latent = model.loadings.shape
    raw_scale = np.log(np.expm1(np.sqrt(model.noise) - ORACLE_SCALE_FLOOR))
    decoder = Dense(n_latent, 2 * n_features, n_layers=0, key=jax.random.key(0))
    decoder = eqx.tree_at(
        lambda net: (net.layers[0].weight, net.layers[0].bias),
        decoder,
        (
            as_array(np.concatenate([model.loadings, np.zeros_like(model.loadings)])),
            as_array(np.concatenate([model.mean, raw_scale])),
        ),
    )
    return Autoencoder(
        LatentModel(StandardNormal(n_latent), decoder, Normal(n_features, ORACLE_SCALE_FLOOR)),
        DenseConditioning(
            *(as_array(a) for a in (model.loadings, model.mean, model.noise, shift, widen))
        ),
    )


def exact_autoencoder(model: LinearGaussian) -> Autoencoder:
    """The model, with its exact posterior as proposal: log-weights are log p(x_obs)."""
    return _autoencoder(model, shift=0.0, widen=1.0)


def wide_autoencoder(
    model: LinearGaussian, *, shift: float = 0.3, widen: float = 1.5
) -> Autoencoder:
    """The model, with a proposal beside its posterior and wider: weights bounded, not constant."""
    return _autoencoder(model, shift=shift, widen=widen)


def mixture_autoencoder(model: LinearGaussian) -> Autoencoder:
    """The model, with a stratified mixture as proposal."""
    exact = _autoencoder(model, shift=0.0, widen=1.0)
    return Autoencoder(exact.generative, MixtureConditioning(exact.amortizer))
