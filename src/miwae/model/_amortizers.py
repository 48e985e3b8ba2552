"""From the inputs of a row to its proposal: the paper's q(z | x_obs) = Psi(z | g(iota(x_obs)))."""

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from miwae._shapes import Inputs, InputsSeen, Kappa
from miwae.model._fill import AbstractFill
from miwae.model._linear import FactorAnalysis, LinearPosterior
from miwae.model._posteriors import LATENT_DF_FLOOR, AbstractPosterior
from miwae.model._proposals import AbstractProposal, LinearProposal
from miwae.model._widths import applied, require_width
from miwae.model.observations._levels import LinearStart

# Limits of what an encoder makes of the core's posterior: it may be a thousand times narrower or
# wider, and its tails those of a normal distribution. Beyond, with few samples, float32 overflows.
MOST_WIDENING = 7.0
N_SCORING = 2  # steps towards the mode of a row whose cells are not Gaussian
INITIAL_DF = 8.0  # of what the core proposes
LIGHTEST_TAIL = 5.0  # about 900 degrees of freedom


class AbstractAmortizer(eqx.Module):
    """A function from inputs to proposals."""

    @abc.abstractmethod
    def __call__(self, inputs: Inputs, seen: InputsSeen) -> AbstractProposal:
        """The proposal of each row; inputs that were not seen may hold anything."""


class Amortizer(AbstractAmortizer):
    """Fill, encode, and read the result as the parameters of a posterior family: Eqn. (3).

    With `indicator` the encoder also gets the indicators of what was seen, after the inputs.
    """

    fill: AbstractFill
    encoder: Callable[[Float[Array, "B I"]], Kappa]
    posterior: AbstractPosterior
    indicator: bool = eqx.field(static=True, default=False)

    def __call__(self, inputs: Inputs, seen: InputsSeen) -> AbstractProposal:
        filled = _filled(self.fill, inputs, seen)
        if self.indicator:
            filled = jnp.concatenate([filled, seen.astype(filled.dtype)], axis=-1)
        given = "inputs and indicators of a row" if self.indicator else "inputs of a row"
        kappa = applied(self.encoder, filled, called="encoder", given=given)
        family = f"{type(self.posterior).__name__}({self.posterior.n_latent})"
        require_width(kappa, self.posterior.n_parameters, _output(self.encoder), family)
        return self.posterior(kappa)


class LinearAmortizer(AbstractAmortizer):
    """The exact posterior of the linear-Gaussian core for each row's own pattern, corrected.

    `z = m + C^-T (delta + exp(gamma) eps)` with `C C' = I + W_obs' diag(psi_obs)^-1 W_obs` and m
    the posterior mean of factor analysis; the encoder sees the filled inputs, what was seen, and
    m, and gives delta, gamma and the degrees of freedom of eps. Where it gives zeros the proposal
    is that of factor analysis with slightly heavier tails.
    """

    core: FactorAnalysis
    fill: AbstractFill
    encoder: Callable[[Float[Array, "B I"]], Kappa]
    start: LinearStart | None = None  # for columns that are not Gaussian to the core

    def __call__(self, inputs: Inputs, seen: InputsSeen) -> AbstractProposal:
        # The core is where the proposal starts from; what it lacks later on is the encoder's to
        # learn.
        n_inputs, n_latent = self.core.loadings.shape
        require_width(inputs, n_inputs, "the row of inputs", "the linear core")
        core = self._of_core(inputs, seen)
        filled = _filled(self.fill, inputs, seen)
        row = jnp.concatenate([filled, seen.astype(filled.dtype), core.mean], axis=-1)
        given = "inputs, indicators and factors of a row"
        correction = applied(self.encoder, row, called="encoder", given=given)
        require_width(
            correction, 3 * n_latent, _output(self.encoder), "the linear core's proposal"
        )
        delta, gamma, tail = jnp.split(correction, 3, axis=-1)
        gamma = jnp.clip(gamma, -MOST_WIDENING, MOST_WIDENING)
        tail = jnp.minimum(tail, LIGHTEST_TAIL)
        df = LATENT_DF_FLOOR + (INITIAL_DF - LATENT_DF_FLOOR) * jnp.exp(tail)
        return LinearProposal(core.mean, core.cholesky, core.inverse, delta, jnp.exp(gamma), df)

    def _of_core(self, inputs: Inputs, seen: InputsSeen) -> LinearPosterior:
        """The posterior of the core, by steps of Fisher scoring where cells are not Gaussian."""
        core, start = jax.lax.stop_gradient((self.core, self.start))
        if start is None or start.exact:
            return core.posterior(inputs, seen)
        centre = core.mean[None]

        def scored(predicted: Inputs) -> LinearPosterior:
            slope, weight = start(inputs, seen, predicted)
            return core.posterior_given(weight, weight * (predicted - centre) + slope)

        predicted = jnp.broadcast_to(centre, inputs.shape)
        for _ in range(N_SCORING - 1):
            predicted = centre + scored(predicted).mean @ core.loadings.T
        return scored(predicted)


def _filled(fill: AbstractFill, inputs: Inputs, seen: InputsSeen) -> Inputs:
    return applied(fill, inputs, seen, called="fill", given="inputs of a row")


def _output(encoder: object) -> str:
    return f"the output of the encoder {type(encoder).__name__}"
