"""Distributions q(z | x_obs) over the latent variables of a batch of rows.

A proposal is a value: its parameters are arrays with the rows first, so that
`jax.lax.stop_gradient` of a proposal is the proposal with fixed parameters. The gradient
estimators rest on that.
"""

import abc
import math
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from flowjax.distributions import Transformed
from jaxtyping import Array, Float
from paramax import unwrap

from miwae._numerics import LOG_2PI, features_first, features_last
from miwae._shapes import Kappa, Keys, Latents, Matrices, PerLatent, PerRow, PerSample
from miwae.errors import SettingsError
from miwae.kernels import normal, solve_lower, split_key, standard_student_t, student_t_log_prob


class AbstractProposal(eqx.Module):
    """A reparametrised distribution for each of B rows.

    `sample` must be a differentiable function of the parameters for a fixed key. It takes a single
    key for the batch, or one for each row: the samples of a row then depend on its own key only.

    A proposal is `stratified` if sample k comes from a fixed part of the distribution. The mean
    over all K samples is then an unbiased estimate, a single sample is not.
    """

    stratified: ClassVar[bool] = False

    @property
    def centre(self) -> PerLatent | None:
        """The point about which each row's distribution is symmetric, if there is one."""
        return None

    @abc.abstractmethod
    def sample(self, key: Keys, n_samples: int) -> Latents:
        """K draws for each row."""

    @abc.abstractmethod
    def log_prob(self, z: Latents) -> PerSample:
        """Log-density of each latent sample under its row's distribution."""

    def sample_and_log_prob(self, key: Keys, n_samples: int) -> tuple[Latents, PerSample]:
        """Draws and their log-densities; what draws came from often tells these sooner."""
        z = self.sample(key, n_samples)
        return z, self.log_prob(z)

    def log_stratum(self, n_samples: int) -> Float[Array, "K #B"]:
        """What is subtracted from `log_prob` of K draws before importance weights divide by it.

        Zero for independent draws. In a stratified proposal sample k comes from one part of the
        distribution: the logarithm of that part's probability over its share of the K samples.
        """
        return jnp.zeros((n_samples, 1))


class AbstractSymmetric(AbstractProposal):
    """A proposal that is symmetric about its location."""

    loc: eqx.AbstractVar[PerLatent]

    @property
    def centre(self) -> PerLatent:
        return self.loc


class NormalProposal(AbstractSymmetric):
    """Independent normals: the diagonal Gaussian of Kingma & Welling (2014)."""

    loc: PerLatent
    scale: PerLatent

    def sample(self, key: Keys, n_samples: int) -> Latents:
        loc, scale = features_first(self.loc), features_first(self.scale)
        eps = normal(key, (loc.shape[0], n_samples, loc.shape[1]))
        return features_last(loc[:, None] + scale[:, None] * eps)

    def log_prob(self, z: Latents) -> PerSample:
        loc, scale = features_first(self.loc)[:, None], features_first(self.scale)[:, None]
        eps = (features_first(z) - loc) / scale
        return jnp.sum(-0.5 * (eps * eps + LOG_2PI) - jnp.log(scale), axis=0)


class StudentTProposal(AbstractSymmetric):
    """Independent Student-t distributions, as in the paper's section 4.2."""

    loc: PerLatent
    scale: PerLatent
    df: PerLatent

    def sample(self, key: Keys, n_samples: int) -> Latents:
        loc, scale, df = map(features_first, (self.loc, self.scale, self.df))
        shape = (loc.shape[0], n_samples, loc.shape[1])
        eps = standard_student_t(key, df[:, None], shape)
        return features_last(loc[:, None] + scale[:, None] * eps)

    def log_prob(self, z: Latents) -> PerSample:
        loc, scale, df = (features_first(a)[:, None] for a in (self.loc, self.scale, self.df))
        t = (features_first(z) - loc) / scale
        return jnp.sum(student_t_log_prob(t, df) - jnp.log(scale), axis=0)

    def sample_and_log_prob(self, key: Keys, n_samples: int) -> tuple[Latents, PerSample]:
        loc, scale, df = (features_first(a)[:, None] for a in (self.loc, self.scale, self.df))
        eps = standard_student_t(key, df, (loc.shape[0], n_samples, loc.shape[2]))
        log_prob = jnp.sum(student_t_log_prob(eps, df) - jnp.log(scale), axis=0)
        return features_last(loc + scale * eps), log_prob


def _standard_normal(key: Keys, n_samples: int, like: PerLatent) -> Latents:
    shape = (like.shape[1], n_samples, like.shape[0])
    return features_last(normal(key, shape))


def _whiten(tril: Matrices, centred: Latents) -> tuple[Latents, PerRow]:
    """`T^-1 (z - mu)` and `log |T|`."""
    eps = solve_lower(jnp.moveaxis(tril, 0, -1), features_first(centred))
    log_det = jnp.sum(jnp.log(jnp.diagonal(tril, axis1=-2, axis2=-1)), axis=-1)
    return features_last(eps), log_det


class FullNormalProposal(AbstractSymmetric):
    """Normal with full covariance `T T'`, T lower triangular."""

    loc: PerLatent
    tril: Matrices

    def sample(self, key: Keys, n_samples: int) -> Latents:
        eps = _standard_normal(key, n_samples, self.loc)
        return self.loc[None] + jnp.einsum("blm,kbm->kbl", self.tril, eps)

    def log_prob(self, z: Latents) -> PerSample:
        eps, log_det = _whiten(self.tril, z - self.loc[None])
        return -0.5 * jnp.sum(eps * eps + LOG_2PI, axis=-1) - log_det[None]


class FullStudentTProposal(AbstractSymmetric):
    """Multivariate Student-t with full scale `T T'` and one degree of freedom per row."""

    loc: PerLatent
    tril: Matrices
    df: PerRow

    def sample(self, key: Keys, n_samples: int) -> Latents:
        """A normal over the root of a gamma variable, with implicit gradients in `df`."""
        key_eps, key_g = split_key(key, 2)
        eps = _standard_normal(key_eps, n_samples, self.loc)
        half = self.df / 2
        if key_g.ndim == 0:
            gamma = jax.random.gamma(key_g, half[None], (n_samples, *half.shape))
        else:
            one = lambda own, a: jax.random.gamma(own, a, (n_samples,))  # noqa: E731
            gamma = jax.vmap(one, out_axes=1)(key_g, half)
        scaled = eps / jnp.sqrt(gamma / half[None])[..., None]
        return self.loc[None] + jnp.einsum("blm,kbm->kbl", self.tril, scaled)

    def log_prob(self, z: Latents) -> PerSample:
        n_latent = z.shape[-1]
        eps, log_det = _whiten(self.tril, z - self.loc[None])
        df = self.df[None]
        constant = (
            jax.lax.lgamma((df + n_latent) / 2)
            - jax.lax.lgamma(df / 2)
            - 0.5 * n_latent * jnp.log(df * math.pi)
        )
        squared = jnp.sum(eps * eps, axis=-1)
        return constant - 0.5 * (df + n_latent) * jnp.log1p(squared / df) - log_det[None]


class MixtureProposal(AbstractProposal):
    """A mixture with stratified sampling: each component gives as many samples, or one more.

    The weight of a sample from component c is multiplied by its share pi_c over K_c/K, so that the
    mean of the weights stays an unbiased estimate of p(x_obs), and the shares can be learned
    although the choice of a component has no gradient (Morningstar et al., 2021).
    """

    stratified: ClassVar[bool] = True

    components: tuple[AbstractProposal, ...]
    log_shares: Float[Array, "B C"]

    def sample(self, key: Keys, n_samples: int) -> Latents:
        """The draws of the components in turn: 0, 1, ..., C - 1, 0, 1, ..."""
        count = len(self.components)
        if n_samples < count:
            raise SettingsError(
                f"a mixture of {count} components needs as many samples, not {n_samples}"
            )
        keys = split_key(key, count)
        rounds = -(-n_samples // count)
        draws = [
            component.sample(k, rounds) for component, k in zip(self.components, keys, strict=True)
        ]
        return jnp.stack(draws, axis=1).reshape(-1, *draws[0].shape[1:])[:n_samples]

    def log_prob(self, z: Latents) -> PerSample:
        terms = jnp.stack([component.log_prob(z) for component in self.components])
        return jax.nn.logsumexp(terms + self.log_shares.T[:, None, :], axis=0)

    def log_stratum(self, n_samples: int) -> Float[Array, "K #B"]:
        """`log(pi_c K / K_c)` for the component c of each draw, which has K_c of the K."""
        component = np.arange(n_samples) % len(self.components)
        log_given = np.log(np.bincount(component) / n_samples).astype(np.float32)
        return self.log_shares.T[component] - log_given[component][:, None]


class FlowProposal(AbstractProposal):
    """Location and scale of a normalising flow whose shape depends on a context."""

    flow: Transformed  # on standard normals, with a condition
    loc: PerLatent
    scale: PerLatent
    context: Kappa

    def sample(self, key: Keys, n_samples: int) -> Latents:
        eps = _standard_normal(key, n_samples, self.loc)
        transform = jax.vmap(jax.vmap(unwrap(self.flow).bijection.transform), in_axes=(0, None))
        return self.loc[None] + self.scale[None] * transform(eps, self.context)

    def log_prob(self, z: Latents) -> PerSample:
        eps = (z - self.loc[None]) / self.scale[None]
        inner = self.flow.log_prob(eps, condition=self.context[None])
        return inner - jnp.sum(jnp.log(self.scale), axis=-1)[None]


class LinearProposal(AbstractProposal):
    """`z = mean + C^-T (delta + scale * eps)` with independent Student-t `eps`.

    C is the Cholesky factor of a posterior precision: with delta 0 and scale 1 the draws have (but
    for their tails) the posterior of the linear-Gaussian core.
    """

    mean: PerLatent
    cholesky: Matrices
    inverse: Matrices  # of the factor
    delta: PerLatent
    scale: PerLatent
    df: PerLatent

    @property
    def centre(self) -> PerLatent:
        return self.mean + _transposed_product(self.inverse, self.delta[None])[0]

    def sample(self, key: Keys, n_samples: int) -> Latents:
        return self.mean[None] + _transposed_product(
            self.inverse, self._inner.sample(key, n_samples)
        )

    def log_prob(self, z: Latents) -> PerSample:
        inner = _transposed_product(self.cholesky, z - self.mean[None])
        return self._inner.log_prob(inner) + self._log_det[None]

    def sample_and_log_prob(self, key: Keys, n_samples: int) -> tuple[Latents, PerSample]:
        inner, log_prob = self._inner.sample_and_log_prob(key, n_samples)
        z = self.mean[None] + _transposed_product(self.inverse, inner)
        return z, log_prob + self._log_det[None]

    @property
    def _inner(self) -> StudentTProposal:
        return StudentTProposal(self.delta, self.scale, self.df)

    @property
    def _log_det(self) -> PerRow:
        return jnp.sum(jnp.log(jnp.diagonal(self.cholesky, axis1=-2, axis2=-1)), axis=-1)


def _transposed_product(matrices: Matrices, vectors: Latents) -> Latents:
    """`M' v` for each row's matrix and its K vectors.

    As products of matrices: a sum over products of numbers took a quarter of a training step.
    """
    return jnp.einsum("blm,kbl->kbm", matrices, vectors)
