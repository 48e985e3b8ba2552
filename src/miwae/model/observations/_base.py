"""What an observation model p(x | z) has to offer."""

import abc
from typing import ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float
from numpyro.distributions import Distribution

from miwae._numerics import features_first, features_last, masked_sum
from miwae._shapes import Drawn, Eta, Means, OneKey, PerSample, Rows, Seen, Statistics
from miwae.model.observations._levels import LinearStart
from miwae.model.observations._shapes import Embedded, EtaFirst, Measured, PerInput


class Linearisation(eqx.Module):
    """The affine map `eta = slope @ u + offset` from predicted inputs to parameters.

    The linear-Gaussian core predicts `embed(x)` by `u = W z + mu`; this map turns that prediction
    into parameters of the observation model, exactly for Gaussian locations and to first order
    elsewhere.
    """

    slope: Float[Array, "P E"]
    offset: Float[Array, " P"]


class AbstractObservation(eqx.Module):
    """The paper's Phi(x | eta): a family over rows, given parameters from the decoder.

    To write a new one, subclass this (or `AbstractFactorized`, when the features are independent
    given z) and implement what is abstract. Values are stored as floats, categories as 0.0, 1.0,
    ...; rows come with the indicator of what was observed, and nothing may read a missing cell.
    Three views of a row matter:

    - `x`, D features, as the data have them;
    - `embed(x)`, E inputs, as networks and the linear core want them (one-hot, logarithms);
    - the S statistics whose conditional mean is the single imputation: x itself for numbers,
      indicators for categories. `point` turns their mean back into features.
    """

    n_features: eqx.AbstractVar[int]
    padded: ClassVar[bool] = False  # some features only pad the others, and are never observed

    @property
    @abc.abstractmethod
    def n_parameters(self) -> int:
        """P, the width of the decoder's output."""

    @property
    @abc.abstractmethod
    def n_inputs(self) -> int:
        """E, the width of `embed`."""

    @property
    @abc.abstractmethod
    def n_statistics(self) -> int:
        """S, the width of `mean`."""

    @abc.abstractmethod
    def supports(self, x: Rows) -> Seen:
        """True where a value is possible under the model."""

    @abc.abstractmethod
    def embed(self, x: Rows, observed: Seen) -> Embedded:
        """The inputs of a row and which of them were observed.

        What is returned for missing inputs is whatever the missing cells hold, NaN included: a
        fill function decides what the encoder sees there.
        """

    @abc.abstractmethod
    def statistics(self, x: Rows, observed: Seen) -> Measured:
        """The statistics of a row and which of them were observed."""

    @abc.abstractmethod
    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        """`log p(x_obs | z)`: the density of the observed cells only."""

    @abc.abstractmethod
    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        """`E[statistics | x_obs, z]` in closed form; meaningful where a cell is missing."""

    @abc.abstractmethod
    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        """A draw from `p(x_mis | x_obs, z)`; meaningful where a cell is missing."""

    @abc.abstractmethod
    def point(self, mean: Statistics) -> Rows:
        """The single imputation that follows from the mean of the statistics."""

    @abc.abstractmethod
    def linearise(self, mean: PerInput, noise: PerInput) -> Linearisation:
        """Parameters whose mean follows a linear predictor near `mean`, with variance `noise`."""

    def linear_start(self, mean: PerInput, noise: PerInput) -> LinearStart | None:
        """Better pseudo-observations of cells that are not Gaussian, if there are any."""
        return None


class AbstractNumbers(AbstractObservation):
    """Numbers, all of them possible, whose statistics are the values themselves."""

    def supports(self, x: Rows) -> Seen:
        return jnp.isfinite(x)

    def to_input(self, x: Rows) -> Rows:
        """The scale on which networks see a value: its own, unless a subclass says otherwise."""
        return x

    @property
    def n_inputs(self) -> int:
        return self.n_features

    n_statistics = n_inputs

    def embed(self, x: Rows, observed: Seen) -> Embedded:
        return self.to_input(x), observed

    def statistics(self, x: Rows, observed: Seen) -> Measured:
        return x, observed

    def point(self, mean: Statistics) -> Rows:
        return mean


class AbstractFactorized(AbstractNumbers):
    """Numbers, independent given z, each with the same family of univariate distributions.

    The parameters of a row are laid out in `blocks` of D: first all locations, then all scales,
    and so on. A subclass says what the distribution is, given those blocks with the features
    first.
    """

    blocks: eqx.AbstractVar[int]
    interior: eqx.AbstractClassVar[float]  # a value inside the support, put into missing cells

    @abc.abstractmethod
    def distribution(self, eta: EtaFirst) -> Distribution:
        """The distribution of the cells, with batch shape (D, K, B)."""

    @property
    def n_parameters(self) -> int:
        return self.blocks * self.n_features

    def log_prob(self, eta: Eta, x: Rows, observed: Seen) -> PerSample:
        safe = features_first(jnp.where(observed, x, self.interior))[:, None, :]
        cells = jnp.asarray(self.distribution(features_first(eta)).log_prob(safe))
        return masked_sum(cells, features_first(observed)[:, None, :], axis=0)

    def mean(self, eta: Eta, x: Rows, observed: Seen) -> Means:
        """The mean of each cell: given z, the observed cells tell nothing more."""
        return features_last(self.distribution(features_first(eta)).mean)

    def sample(self, eta: Eta, x: Rows, observed: Seen, key: OneKey) -> Drawn:
        draw = self.distribution(features_first(eta)).sample(key)
        return features_last(jnp.asarray(draw, dtype=eta.dtype))
