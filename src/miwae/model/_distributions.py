"""Distributions that NumPyro lacks, or has in a form too slow for the inner loop."""

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int
from numpyro import distributions as dist
from numpyro.distributions import constraints

from miwae._shapes import Floats, OneKey
from miwae.kernels import standard_student_t, student_t_log_prob


class StudentTDistribution(dist.StudentT):
    """NumPyro's Student-t distribution with a faster sampler and log-density."""

    arg_constraints = dist.StudentT.arg_constraints | {"df": constraints.greater_than(2.0)}
    df: Floats
    loc: Floats
    scale: Floats

    def sample(self, key: OneKey | None, sample_shape: tuple[int, ...] = ()) -> Floats:
        assert key is not None
        shape = self.shape(sample_shape)
        df, loc, scale = (jnp.broadcast_to(a, shape) for a in (self.df, self.loc, self.scale))
        return loc + scale * standard_student_t(key, df, shape)

    def log_prob(self, value: Floats, intermediates: None = None) -> Floats:
        t = (value - self.loc) / self.scale
        return student_t_log_prob(t, self.df) - jnp.log(self.scale)


class PointMasses(dist.Distribution):
    """Numbers that can take a few values each, along the first axis, in NumPyro's vocabulary.

    Of equal values the first counts, so that what takes fewer values than others can be padded
    with its last, at no probability.
    """

    support = constraints.real  # pyright: ignore[reportAssignmentType]
    pytree_data_fields = ("logits", "values")

    def __init__(self, logits: Float[Array, "C ..."], values: Float[Array, "C ..."]) -> None:
        self.logits, self.values = logits, values
        super().__init__(batch_shape=logits.shape[1:])

    @property
    def log_probabilities(self) -> Float[Array, "C ..."]:
        return jax.nn.log_softmax(self.logits, axis=0)

    def sample(self, key: OneKey | None, sample_shape: tuple[int, ...] = ()) -> Floats:
        assert key is not None
        shape = (*sample_shape, *self.batch_shape)
        chosen = jax.random.categorical(key, self.logits, axis=0, shape=shape)
        values = jnp.broadcast_to(self.values, self.logits.shape)
        return jnp.sum(jnp.where(self._hit(chosen), _lifted(values, len(shape)), 0.0), axis=0)

    def log_prob(self, value: Floats, intermediates: None = None) -> Floats:
        """Log-probability of the value that is nearest to a number."""
        chosen = jnp.argmin(jnp.abs(_lifted(self.values, value.ndim) - value[None]), axis=0)
        table = _lifted(self.log_probabilities, max(value.ndim, len(self.batch_shape)))
        return jnp.sum(jnp.where(self._hit(chosen), table, 0.0), axis=0)

    @property
    def mean(self) -> Floats:
        return jnp.sum(jnp.exp(self.log_probabilities) * self.values, axis=0)

    @property
    def variance(self) -> Floats:
        probability = jnp.exp(self.log_probabilities)
        return jnp.sum(probability * (self.values - self.mean[None]) ** 2, axis=0)

    def _hit(self, chosen: Int[Array, "..."]) -> Bool[Array, "C ..."]:
        return chosen[None] == jnp.arange(len(self.logits)).reshape(-1, *(1,) * chosen.ndim)


def _lifted(a: Float[Array, "C ..."], n_axes: int) -> Float[Array, "C ..."]:
    """With so many axes behind the first: new ones come right behind it."""
    return a.reshape(len(a), *(1,) * (n_axes + 1 - a.ndim), *a.shape[1:])
