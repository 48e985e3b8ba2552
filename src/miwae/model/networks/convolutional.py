"""Convolutional networks for images, after Salimans, Kingma & Welling (2015).

An image of height H, width W and C channels is a row of H * W * C features, in C order. Halving
the size of an image is written as moving 2 x 2 pixels into channels, followed by a convolution
with 3 x 3 filters; doubling it as such a convolution, followed by moving channels back into 2 x 2
pixels. These are convolutions with 6 x 6 filters and stride 2, and their transposes, without the
multiplications by the zeros of a stretched image. A convolution is a matrix product with the 3 x 3
pixels around each pixel side by side: within a compiled loop, where training takes place, XLA's
own convolution is more than ten times slower on a CPU (`benchmarks/convolution.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from miwae.errors import SettingsError
from miwae.model.networks.dense import ACTIVATIONS, Dense, require_activation

__all__ = ["ConvolutionalDecoder", "ConvolutionalEncoder", "ConvolutionLayer", "ImageShape"]


class ImageShape(NamedTuple):
    """The shape of an image: a row holds its pixels in C order."""

    height: int
    width: int
    channels: int = 1

    @property
    def n_features(self) -> int:
        """Of a row."""
        return self.height * self.width * self.channels

    def halved(self) -> "ImageShape":
        """Half the height and width, rounded up."""
        return ImageShape(-(-self.height // 2), -(-self.width // 2), self.channels)


class ConvolutionLayer(eqx.Module):
    """3 x 3 filters, the border padded with zeros: (B, H, W, I) to (B, H, W, O)."""

    weight: Float[Array, "3 3 I O"]
    bias: Float[Array, " O"]

    def __call__(self, a: Float[Array, "B H W I"]) -> Float[Array, "B H W O"]:
        """Apply the layer."""
        height, width = a.shape[1:3]
        padded = jnp.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
        around = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
        patches = jnp.concatenate(around, axis=-1)
        out = jnp.tensordot(patches, self.weight.reshape(patches.shape[-1], -1), axes=1)
        return out + self.bias.reshape(1, 1, 1, -1)


def _layer(
    rng: np.random.Generator, activation: str, n_in: int, n_out: int, copies: int = 1
) -> ConvolutionLayer:
    """Initial weights by the rule of the activation, each output map `copies` times over."""
    initialise = ACTIVATIONS[activation][1]
    weight = initialise(rng, n_out * copies, 9 * n_in).T.reshape(3, 3, n_in, n_out * copies)
    return ConvolutionLayer(
        jnp.asarray(weight.astype(np.float32)), jnp.zeros(n_out * copies, dtype=jnp.float32)
    )


def pixels_to_channels(a: Float[Array, "B H W C"]) -> Float[Array, "B H2 W2 C4"]:
    """Blocks of 2 x 2 pixels become channels; odd sizes are padded with zeros."""
    a = jnp.pad(a, ((0, 0), (0, a.shape[1] % 2), (0, a.shape[2] % 2), (0, 0)))
    n, height, width, channels = a.shape
    blocks = a.reshape(n, height // 2, 2, width // 2, 2, channels)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, height // 2, width // 2, 4 * channels)


def channels_to_pixels(a: Float[Array, "B H W C4"]) -> Float[Array, "B H2 W2 C"]:
    """The inverse of `pixels_to_channels`."""
    n, height, width, channels = a.shape
    blocks = a.reshape(n, height, width, 2, 2, channels // 4)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * height, 2 * width, channels // 4)


def _sizes(shape: ImageShape, n_stages: int) -> list[ImageShape]:
    sizes = [shape]
    for _ in range(n_stages):
        sizes.append(sizes[-1].halved())
    return sizes


def _require_image(shape: ImageShape, maps: Sequence[int]) -> None:
    if min(shape) < 1:
        raise SettingsError(f"an image has at least one pixel and one channel, not {shape}")
    if not maps or min(maps) < 1:
        raise SettingsError(f"maps needs a positive number for each stage, not {tuple(maps)}")


class ConvolutionalEncoder(eqx.Module):
    """Images to parameters of a posterior: (B, I) to (B, n_out).

    Args:
        shape: of the images.
        n_out: number of outputs.
        maps: feature maps of each stage; each halves height and width.
        n_hidden: units of the dense layer behind the stages.
        activation: "silu", "relu" or "tanh".
        indicator: a row holds the indicators of what was seen after the pixels, as an `Amortizer`
            with `indicator=True` gives it.
        key: for the initial weights.

    Example:
        >>> net = ConvolutionalEncoder(ImageShape(28, 28), 6, key=jax.random.key(0))
        >>> net(jnp.ones((5, 784))).shape
        (5, 6)
    """

    stages: tuple[ConvolutionLayer, ...]
    head: Dense
    shape: ImageShape = eqx.field(static=True)
    activation: str = eqx.field(static=True)
    indicator: bool = eqx.field(static=True)

    def __init__(
        self,
        shape: ImageShape,
        n_out: int,
        *,
        maps: Sequence[int] = (16, 32, 32),
        n_hidden: int = 450,
        activation: str = "silu",
        indicator: bool = False,
        key: Key[Array, ""],
    ) -> None:
        shape = ImageShape(*shape)
        _require_image(shape, maps)
        require_activation(activation)
        key_stages, key_head = jax.random.split(key)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key_stages)))
        widths = [shape.channels * (2 if indicator else 1), *maps]
        self.stages = tuple(
            _layer(rng, activation, 4 * a, b) for a, b in zip(widths, maps, strict=False)
        )
        last = _sizes(shape, len(maps))[-1]
        self.head = Dense(
            last.height * last.width * maps[-1],
            n_out,
            n_hidden=n_hidden,
            n_layers=1,
            activation=activation,
            key=key_head,
        )
        self.shape, self.activation, self.indicator = shape, activation, indicator

    def __call__(self, a: Float[Array, "B I"]) -> Float[Array, "B Q"]:
        """Apply the network."""
        function = ACTIVATIONS[self.activation][0]
        planes = jnp.split(a, 2, axis=-1) if self.indicator else [a]
        h = jnp.concatenate([p.reshape(-1, *self.shape) for p in planes], axis=-1)
        for stage in self.stages:
            h = function(stage(pixels_to_channels(h)))
        return self.head(h.reshape(len(h), -1))


class ConvolutionalDecoder(eqx.Module):
    """Codes to the parameters of pixels: (K, B, n_latent) to (K, B, n_blocks * H * W * C).

    Args:
        n_latent: dimension of the code.
        shape: of the images.
        n_blocks: parameters for each pixel: 1 for Bernoulli, 2 for Normal, 3 for Student-t.
        maps: feature maps of each stage, from the image inwards, as in the encoder.
        n_hidden: units of the dense layer before the stages.
        activation: "silu", "relu" or "tanh".
        key: for the initial weights.

    Example:
        >>> net = ConvolutionalDecoder(10, ImageShape(28, 28), key=jax.random.key(0))
        >>> net(jnp.ones((5, 4, 10))).shape
        (5, 4, 784)
    """

    head: Dense
    stages: tuple[ConvolutionLayer, ...]
    shape: ImageShape = eqx.field(static=True)
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        n_latent: int,
        shape: ImageShape,
        *,
        n_blocks: int = 1,
        maps: Sequence[int] = (16, 32, 32),
        n_hidden: int = 450,
        activation: str = "silu",
        key: Key[Array, ""],
    ) -> None:
        shape = ImageShape(*shape)
        _require_image(shape, maps)
        require_activation(activation)
        key_stages, key_head = jax.random.split(key)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key_stages)))
        first = _sizes(shape, len(maps))[-1]
        self.head = Dense(
            n_latent,
            first.height * first.width * maps[-1],
            n_hidden=n_hidden,
            n_layers=1,
            activation=activation,
            key=key_head,
        )
        inwards = [n_blocks * shape.channels, *maps]
        self.stages = tuple(
            # The last stage has no activation behind it: Glorot's variance.
            _layer(rng, activation if i else "tanh", inwards[i + 1], inwards[i], copies=4)
            for i in reversed(range(len(maps)))
        )
        self.shape, self.activation = shape, activation

    def __call__(self, z: Float[Array, "K B L"]) -> Float[Array, "K B P"]:
        """Apply the network to all codes at once."""
        function = ACTIVATIONS[self.activation][0]
        sizes = _sizes(self.shape, len(self.stages))
        h = self.head(z.reshape(-1, z.shape[-1]))
        h = h.reshape(len(h), sizes[-1].height, sizes[-1].width, -1)
        for stage, size in zip(self.stages, reversed(sizes[:-1]), strict=True):
            h = channels_to_pixels(stage(function(h)))[:, : size.height, : size.width]
        blocks = h.reshape(*h.shape[:-1], -1, self.shape.channels)
        return jnp.moveaxis(blocks, -2, 1).reshape(*z.shape[:-1], -1)
