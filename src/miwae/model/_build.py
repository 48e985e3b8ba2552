"""Ready-made autoencoders: the paper's, those for images and sequences, the linear start."""

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from miwae._arrays import as_incomplete, require_at_least
from miwae._shapes import OneKey, Table, TableSeen
from miwae.errors import SettingsError
from miwae.model._amortizers import Amortizer, LinearAmortizer
from miwae.model._fill import AbstractFill, ZeroFill
from miwae.model._latent import Autoencoder, LatentModel
from miwae.model._linear import FactorAnalysis, fit_factor_analysis
from miwae.model._posteriors import AbstractPosterior, NormalPosterior, StudentTPosterior
from miwae.model._priors import AbstractPrior, StandardNormal
from miwae.model.networks import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    Dense,
    DenseLayer,
    ImageShape,
    LinearResidual,
    RecurrentDecoder,
    RecurrentEncoder,
)
from miwae.model.observations import AbstractObservation


def _require_dimension(n_latent: int, **parts: AbstractPrior | AbstractPosterior | None) -> None:
    """Refuse a prior or a posterior with another number of latent variables, by name."""
    for name, part in parts.items():
        if part is not None and part.n_latent != n_latent:
            raise SettingsError(
                f"the {name} has {part.n_latent} latent variables, but n_latent is {n_latent}"
            )


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
    _require_dimension(n_latent, prior=prior, posterior=posterior)
    posterior = StudentTPosterior(n_latent) if posterior is None else posterior
    key_e, key_d = jax.random.split(key)
    shape = {
        "n_hidden": n_hidden,
        "n_layers": n_layers,
        "activation": activation,
        "residual": residual,
    }
    n_inputs = observation.n_inputs * (2 if indicator else 1)
    return Autoencoder(
        LatentModel(
            StandardNormal(n_latent) if prior is None else prior,
            Dense(n_latent, observation.n_parameters, **shape, key=key_d),
            observation,
        ),
        Amortizer(
            ZeroFill() if fill is None else fill,
            Dense(n_inputs, posterior.n_parameters, **shape, key=key_e),
            posterior,
            indicator,
        ),
    )


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
    _require_dimension(n_latent, prior=prior, posterior=posterior)
    image = ImageShape(*shape)
    n_blocks = _blocks(observation, image.n_features, f"an image of {image}")
    posterior = NormalPosterior(n_latent) if posterior is None else posterior
    key_e, key_d = jax.random.split(key)
    sizes = {"maps": maps, "n_hidden": n_hidden, "activation": activation}
    decoder = ConvolutionalDecoder(n_latent, image, n_blocks=n_blocks, **sizes, key=key_d)
    encoder = ConvolutionalEncoder(
        image, posterior.n_parameters, indicator=indicator, **sizes, key=key_e
    )
    return Autoencoder(
        LatentModel(StandardNormal(n_latent) if prior is None else prior, decoder, observation),
        Amortizer(ZeroFill() if fill is None else fill, encoder, posterior, indicator),
    )


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
    _require_dimension(n_latent, prior=prior, posterior=posterior)
    n_features, left = divmod(observation.n_features, n_steps)
    if left:
        raise SettingsError(
            f"{observation.n_features} features are not a whole number for each of {n_steps} steps"
        )
    n_blocks = _blocks(observation, n_steps * n_features, f"a sequence of {n_steps} steps")
    posterior = StudentTPosterior(n_latent) if posterior is None else posterior
    key_e, key_d = jax.random.split(key)
    return Autoencoder(
        LatentModel(
            StandardNormal(n_latent) if prior is None else prior,
            RecurrentDecoder(
                n_latent, n_steps, n_features, n_blocks=n_blocks, n_hidden=n_hidden, key=key_d
            ),
            observation,
        ),
        Amortizer(
            ZeroFill() if fill is None else fill,
            RecurrentEncoder(
                n_steps,
                n_features,
                posterior.n_parameters,
                n_hidden=n_hidden,
                indicator=indicator,
                key=key_e,
            ),
            posterior,
            indicator,
        ),
    )


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
) -> FactorAnalysis:
    """Factor analysis of the inputs that networks would see, padded to `n_latent` factors.

    Categories and counts meet it as Gaussian pseudo-observations (indicators, logarithms). It
    shapes the proposal and the start of the decoder, not the observation model: weights correct
    the rest.
    """
    x, observed = as_incomplete(x, observed, observation.n_features)
    inputs, seen = _embedded(
        observation, jnp.asarray(np.where(observed, x, np.float32(np.nan))), jnp.asarray(observed)
    )
    n_factors = min(n_latent, observation.n_inputs)
    fit = fit_factor_analysis(
        np.asarray(inputs), np.asarray(seen), n_factors=n_factors, noise_floor=noise_floor
    )
    return fit.model.padded(n_latent)


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
    key_e, key_d = jax.random.split(key)
    network = eqx.Partial(
        Dense,
        n_hidden=n_hidden,
        n_layers=n_layers,
        activation=activation,
        residual=residual,
        zero_last=True,
    )
    linear = _linear_decoder(observation, core)
    n_inputs = 2 * observation.n_inputs + n_latent
    return Autoencoder(
        LatentModel(
            StandardNormal(n_latent),
            LinearResidual(linear, network(n_latent, observation.n_parameters, key=key_d)),
            observation,
        ),
        LinearAmortizer(core, ZeroFill(), network(n_inputs, 3 * n_latent, key=key_e)),
    )


@eqx.filter_jit
def _linear_decoder(observation: AbstractObservation, core: FactorAnalysis) -> DenseLayer:
    start = observation.linearise(core.mean, core.noise)
    return DenseLayer(start.slope @ core.loadings, start.slope @ core.mean + start.offset)


# Compiled as wholes: operation by operation, JAX would compile each of them, a second in all.
@eqx.filter_jit
def _embedded(
    observation: AbstractObservation, x: Float[Array, "N D"], observed: Bool[Array, "N D"]
) -> tuple[Float[Array, "N E"], Bool[Array, "N E"]]:
    return observation.embed(x, observed)
