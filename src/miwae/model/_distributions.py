"""A distribution that NumPyro has in a form too slow for the inner loop."""

import jax.numpy as jnp
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
