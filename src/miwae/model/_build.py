"""Ready-made autoencoders: the paper's, those for images and sequences, the linear start."""

from collections.abc import Callable, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae._arrays import as_incomplete, require_at_least
from miwae._compilation import compiled
from miwae._keys import split
from miwae._shapes import OneKey, Table, TableSeen
from miwae.errors import SettingsError
from miwae.model._amortizers import Amortizer, LinearAmortizer
from miwae.model._fill import AbstractFill, ZeroFill
from miwae.model._latent import Autoencoder, LatentModel
from miwae.model._linear import FactorAnalysis, fit_factor_analysis
from miwae.model._posteriors import AbstractPosterior, NormalPosterior, StudentTPosterior
from miwae.model._priors import AbstractPrior, StandardNormal
from miwae.model.networks._convolutional import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    ImageShape,
)
from miwae.model.networks._dense import Dense, DenseLayer, LinearResidual
from miwae.model.networks._recurrent import RecurrentDecoder, RecurrentEncoder
from miwae.model.observations._base import AbstractObservation
from miwae.model.observations._levels import LinearStart


def _joined(
    observation: AbstractObservation,
    decoder: Callable[..., Array],
    encoder: Callable[..., Array],
    n_latent: int,
    prior: AbstractPrior | None,
    posterior: AbstractPosterior,
    fill: AbstractFill | None,
    *,
    indicator: bool,
) -> Autoencoder:
    """The autoencoder of these parts; refuses parts of another number of latent variables."""
    prior = prior or StandardNormal(n_latent)
    for name, part in (("prior", prior), ("posterior", posterior)):
        if part.n_latent != n_latent:
            raise SettingsError(
                f"the {name} has {part.n_latent} latent variables, but n_latent is {n_latent}"
            )
    amortizer = Amortizer(fill or ZeroFill(), encoder, posterior, indicator)
    return Autoencoder(LatentModel(prior, decoder, observation), amortizer)


def dense_autoencoder(
    observation: AbstractObservation,
    *,
    n_latent: int = 10,
    n_hidden: int = 128,
    n_layers: int = 3,
    activation: str = "tanh",
    residual: bool = False,
    prior: AbstractPrior | None = None,
    posterior: AbstractPosterior | None = None,
    fill: AbstractFill | None = None,
    indicator: bool = False,
    key: OneKey,
) -> Autoencoder:
    """Dense encoder and decoder; by default the architecture of the paper's section 4.2.

    Args:
        observation: the observation model.
        n_latent: number of latent variables.
        n_hidden: units per hidden layer.
        n_layers: hidden layers of encoder and of decoder.
        activation: "tanh", "relu" or "silu".
        residual: with residual connections.
        prior: by default standard normal.
        posterior: by default a product of Student-t distributions.
        fill: by default zeros.
        indicator: let the encoder see which inputs were observed.
        key: for the initial weights.
    """
    require_at_least(1, n_latent=n_latent, n_hidden=n_hidden)
    require_at_least(0, n_layers=n_layers)
    posterior = posterior or StudentTPosterior(n_latent)
    key_e, key_d = split(key)
    sizes = {"n_hidden": n_hidden, "n_layers": n_layers}
    network = eqx.Partial(Dense, **sizes, activation=activation, residual=residual)
    decoder = network(n_latent, observation.n_parameters, key=key_d)
    n_inputs = observation.n_inputs * (2 if indicator else 1)
    encoder = network(n_inputs, posterior.n_parameters, key=key_e)
    chosen = (n_latent, prior, posterior, fill)
    return _joined(observation, decoder, encoder, *chosen, indicator=indicator)


def convolutional_autoencoder(
    observation: AbstractObservation,
    shape: tuple[int, ...],
    *,
    n_latent: int = 50,
    maps: Sequence[int] = (16, 32, 32),
    n_hidden: int = 450,
    activation: str = "silu",
    prior: AbstractPrior | None = None,
    posterior: AbstractPosterior | None = None,
    fill: AbstractFill | None = None,
    indicator: bool = False,
    key: OneKey,
) -> Autoencoder:
    """Convolutional encoder and decoder for images, after Salimans, Kingma & Welling (2015).

    Args:
        observation: the observation model of the pixels, each with the same parameters:
            `Bernoulli(784)`, `Normal(3 * 32 * 32)`.
        shape: height, width and, if there are several, channels: the pixels of a row in C order.
        n_latent: number of latent variables.
        maps: feature maps of the stages, from the image inwards; each halves height and width.
        n_hidden: units of the dense layers between the last stage and the latent variables.
        activation: "silu", "relu" or "tanh".
        prior: by default standard normal.
        posterior: by default a product of normal distributions.
        fill: by default zeros.
        indicator: let the encoder see which pixels were observed.
        key: for the initial weights.
    """
    require_at_least(1, n_latent=n_latent, n_hidden=n_hidden)
    posterior = posterior or NormalPosterior(n_latent)
    image = ImageShape(*shape)
    n_blocks = _blocks(observation, image.n_features, f"an image of {image}")
    key_e, key_d = split(key)
    sizes = {"maps": maps, "n_hidden": n_hidden, "activation": activation}
    decoder = ConvolutionalDecoder(n_latent, image, n_blocks=n_blocks, **sizes, key=key_d)
    n_out = posterior.n_parameters
    encoder = ConvolutionalEncoder(image, n_out, indicator=indicator, **sizes, key=key_e)
    chosen = (n_latent, prior, posterior, fill)
    return _joined(observation, decoder, encoder, *chosen, indicator=indicator)


def recurrent_autoencoder(
    observation: AbstractObservation,
    n_steps: int,
    *,
    n_latent: int = 10,
    n_hidden: int = 64,
    prior: AbstractPrior | None = None,
    posterior: AbstractPosterior | None = None,
    fill: AbstractFill | None = None,
    indicator: bool = True,
    key: OneKey,
) -> Autoencoder:
    """Recurrent encoder and decoder for sequences, with one latent sample for a sequence.

    Args:
        observation: the observation model of all steps' features, each with the same parameters:
            `Normal(n_steps * n_features)`. A row holds one step after the other; what comes after
            the end of a shorter sequence was not observed.
        n_steps: the longest length.
        n_latent: number of latent variables.
        n_hidden: units of the recurrent layers.
        prior: by default standard normal.
        posterior: by default a product of Student-t distributions.
        fill: by default zeros.
        indicator: let the encoder see which cells were observed.
        key: for the initial weights.
    """
    require_at_least(1, n_latent=n_latent, n_hidden=n_hidden, n_steps=n_steps)
    posterior = posterior or StudentTPosterior(n_latent)
    n_features, left = divmod(observation.n_features, n_steps)
    if left:
        raise SettingsError(
            f"{observation.n_features} features are not a whole number for each of {n_steps} steps"
        )
    n_blocks = _blocks(observation, n_steps * n_features, f"a sequence of {n_steps} steps")
    key_e, key_d = split(key)
    shape, sizes = (n_steps, n_features), {"n_hidden": n_hidden}
    decoder = RecurrentDecoder(n_latent, *shape, n_blocks=n_blocks, **sizes, key=key_d)
    n_out = posterior.n_parameters
    encoder = RecurrentEncoder(*shape, n_out, indicator=indicator, **sizes, key=key_e)
    chosen = (n_latent, prior, posterior, fill)
    return _joined(observation, decoder, encoder, *chosen, indicator=indicator)


def _blocks(observation: AbstractObservation, n_features: int, what: str) -> int:
    """Parameters for each feature, where all have the same and enter as they are."""
    n_blocks, left = divmod(observation.n_parameters, observation.n_features)
    if observation.n_features != n_features:
        raise SettingsError(
            f"{what} has {n_features} features, the observation model {observation.n_features}"
        )
    if left or observation.n_inputs != n_features:
        raise SettingsError(
            f"{type(observation).__name__} has not the same parameters for each feature: "
            "put your own encoder and decoder into an Autoencoder"
        )
    return n_blocks


def linear_core(
    observation: AbstractObservation,
    x: Table,
    observed: TableSeen | None = None,
    *,
    n_latent: int = 10,
    noise_floor: float = 0.01,
    deadline: float | None = None,
) -> FactorAnalysis:
    """Factor analysis of the inputs that networks would see, padded to `n_latent` factors.

    Categories and counts meet it as Gaussian pseudo-observations (indicators, logarithms). It
    shapes the proposal and the start of the decoder, not the observation model: weights correct
    the rest.
    """
    x, observed = as_incomplete(x, observed, observation.n_features)
    known = np.where(observed, x, np.float32(np.nan))
    inputs, seen = _embedded(observation, *jax.device_put((known, observed)))
    inputs, seen = np.asarray(inputs), np.asarray(seen)
    used = np.flatnonzero(seen.any(axis=0))
    part = np.ix_(np.flatnonzero(seen.any(axis=1)), used)
    n_factors = min(n_latent, len(used))
    options = {"noise_floor": noise_floor, "deadline": deadline}
    fit = fit_factor_analysis(inputs[part], seen[part], n_factors=n_factors, **options)
    return fit.model.padded(n_latent, used, observation.n_inputs)


def linear_autoencoder(
    observation: AbstractObservation,
    core: FactorAnalysis,
    *,
    n_hidden: int = 128,
    n_layers: int = 3,
    activation: str = "silu",
    residual: bool = False,
    key: OneKey,
) -> Autoencoder:
    """An autoencoder that is the factor analysis `core` before its first step of training.

    The decoder is `W z + mu` through the linearised observation model, plus a network that starts
    at zero; the proposal is the exact posterior of the core, corrected by an encoder that starts
    at zero.
    """
    n_latent = core.loadings.shape[1]
    key_e, key_d = split(key)
    sizes = {"n_hidden": n_hidden, "n_layers": n_layers, "activation": activation}
    network = eqx.Partial(Dense, **sizes, residual=residual, zero_last=True)
    linear, start = _linear_parts(observation, core)
    residual_network = network(n_latent, observation.n_parameters, key=key_d)
    encoder = network(2 * observation.n_inputs + n_latent, 3 * n_latent, key=key_e)
    decoder = LinearResidual(linear, residual_network)
    return Autoencoder(
        LatentModel(StandardNormal(n_latent), decoder, observation),
        LinearAmortizer(core, ZeroFill(), encoder, start),
    )


# Compiled as wholes: operation by operation, JAX would compile each of them, a second in all.
@compiled
def _linear_parts(
    observation: AbstractObservation, core: FactorAnalysis
) -> tuple[DenseLayer, LinearStart | None]:
    """The linear decoder, and where the proposals of columns that are not Gaussian start."""
    line = observation.linearise(core.mean, core.noise)
    bias = line.slope @ core.mean + line.offset
    start = observation.linear_start(core.mean, core.noise)
    return DenseLayer(line.slope @ core.loadings, bias), start


@compiled
def _embedded(
    observation: AbstractObservation, x: Float[Array, "N D"], observed: Bool[Array, "N D"]
) -> tuple[Float[Array, "N E"], Bool[Array, "N E"]]:
    return observation.embed(x, observed)
