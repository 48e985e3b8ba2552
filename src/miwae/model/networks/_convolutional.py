"""Convolutional networks for images, after Salimans, Kingma & Welling (2015).

An image of height H, width W and C channels is a row of H * W * C features, in C order. Halving
the size of an image is written as moving 2 x 2 pixels into channels, followed by a convolution
with 3 x 3 filters; doubling it as such a convolution whose output maps are the 2 x 2 pixels of
each pixel. These are convolutions with 6 x 6 filters and stride 2, and their transposes, without
the multiplications by the zeros of a stretched image.

A convolution is a matrix product of three lines of pixels, as they lie in memory, with a banded
matrix of the filters that gives a line of the output. Most of that matrix is zeros, and it is
still the fastest on a CPU, where memory counts for more than multiplications: XLA's own
convolution takes more than ten times as long within a compiled loop, where training takes place
(`benchmarks/convolution.py`).
"""

from collections.abc import Sequence
from typing import NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from miwae._keys import split
from miwae._shapes import Eta, Kappa, Latents, OneKey
from miwae.errors import SettingsError
from miwae.model.networks._dense import ACTIVATIONS, Dense, generator, require_activation

WIDEST = 14  # pixels of a line that a banded matrix is made for


class ImageShape(NamedTuple):
    """The shape of an image: a row holds its pixels in C order."""

    height: int
    width: int
    channels: int = 1

    @property
    def n_features(self) -> int:
        return self.height * self.width * self.channels


class ConvolutionLayer(eqx.Module):
    """3 x 3 filters, the border padded with zeros: (B, H, W, I) to (B, S * H, S * W, O).

    The filters give each pixel S x S pixels of O maps. Lines of more than `WIDEST` pixels are cut
    into pieces.
    """

    weight: Float[Array, "3 3 I SSO"]
    bias: Float[Array, " SSO"]
    scale: int = eqx.field(static=True, default=1)

    def __call__(self, a: Float[Array, "B H W I"]) -> Float[Array, "B SH SW O"]:
        n, height, full, n_in = a.shape
        scale, pieces = self.scale, -(-full // WIDEST)
        width = -(-full // pieces)
        margin = int(pieces > 1)  # the pixels a piece sees of its neighbours
        # Three lines side by side, each cut into pieces with a margin on both sides.
        right = pieces * width - full + margin
        padded = jnp.pad(a, ((0, 0), (1, 1), (margin, right), (0, 0)))
        cuts = [padded[:, :, i * width : (i + 1) * width + 2 * margin] for i in range(pieces)]
        lines = jnp.stack([cut.reshape(n, height + 2, -1) for cut in cuts], axis=2)
        triples = jnp.concatenate([lines[:, i : i + height] for i in range(3)], axis=-1)
        filters = self.weight.reshape(3, 3, n_in, scale, scale, -1)
        # Which column of the input each column of the output sees through the filter.
        j, out, into = np.ogrid[:3, :width, : width + 2 * margin]
        band = (into == out + j - 1 + margin).astype(np.float32)
        banded = jnp.einsum("ijcyxo,jab->ibcyaxo", filters, band)
        out = triples.reshape(-1, triples.shape[-1]) @ banded.reshape(triples.shape[-1], -1)
        out = out.reshape(n, height, pieces, scale, -1).swapaxes(2, 3)
        out = out.reshape(n, height * scale, pieces * width * scale, -1)
        bias = jnp.tile(self.bias.reshape(scale, 1, scale, -1), (height, pieces * width, 1, 1))
        out = out + bias.reshape(1, *out.shape[1:])
        return out[:, :, : full * scale]


def _layer(
    rng: np.random.Generator, activation: str, n_in: int, n_out: int, scale: int = 1
) -> ConvolutionLayer:
    initialise, copies = ACTIVATIONS[activation][1], scale**2
    weight = initialise(rng, n_out * copies, 9 * n_in).T.reshape(3, 3, n_in, n_out * copies)
    bias = jnp.zeros(n_out * copies, dtype=jnp.float32)
    return ConvolutionLayer(jnp.asarray(weight.astype(np.float32)), bias, scale)


def pixels_to_channels(a: Float[Array, "B H W C"]) -> Float[Array, "B H2 W2 C4"]:
    """Blocks of 2 x 2 pixels become channels; odd sizes are padded with zeros."""
    a = jnp.pad(a, ((0, 0), (0, a.shape[1] % 2), (0, a.shape[2] % 2), (0, 0)))
    n, height, width, channels = a.shape
    blocks = a.reshape(n, height // 2, 2, width // 2, 2, channels)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, height // 2, width // 2, 4 * channels)


def _sizes(shape: ImageShape, n_stages: int) -> list[ImageShape]:
    """Of the image and behind each stage, which halves height and width, rounded up."""
    height, width, channels = shape
    steps = [2**i for i in range(n_stages + 1)]
    return [ImageShape(-(-height // step), -(-width // step), channels) for step in steps]


def _start(
    shape: ImageShape, maps: Sequence[int], activation: str, key: OneKey
) -> tuple[ImageShape, int, np.random.Generator, OneKey]:
    """The shape, features behind the last stage, randomness of the stages and of the head."""
    shape = ImageShape(*shape)
    if min(shape) < 1:
        raise SettingsError(f"an image has at least one pixel and one channel, not {shape}")
    if not maps or min(maps) < 1:
        raise SettingsError(f"maps needs a positive number for each stage, not {tuple(maps)}")
    require_activation(activation)
    key_stages, key_head = split(key)
    innermost = _sizes(shape, len(maps))[-1]._replace(channels=maps[-1])
    return shape, innermost.n_features, generator(key_stages), key_head


class ConvolutionalEncoder(eqx.Module):
    """Images to parameters of a posterior: (B, I) to (B, n_out).

    Each stage halves height and width, and has as many feature maps as `maps` says; a dense layer
    of `n_hidden` units follows. With `indicator` a row holds the indicators of what was seen after
    the pixels, as an `Amortizer` with `indicator=True` gives it.

    Examples:
        >>> import jax
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
        key: OneKey,
    ) -> None:
        shape, n_innermost, rng, key_head = _start(shape, maps, activation, key)
        widths = [shape.channels * (2 if indicator else 1), *maps]
        pairs = zip(widths, maps, strict=False)
        self.stages = tuple(_layer(rng, activation, 4 * a, b) for a, b in pairs)
        sizes = {"n_hidden": n_hidden, "n_layers": 1, "activation": activation}
        self.head = Dense(n_innermost, n_out, **sizes, key=key_head)
        self.shape, self.activation, self.indicator = shape, activation, indicator

    def __call__(self, a: Float[Array, "B I"]) -> Kappa:
        function = ACTIVATIONS[self.activation][0]
        planes = jnp.split(a, 2, axis=-1) if self.indicator else [a]
        h = jnp.concatenate([p.reshape(-1, *self.shape) for p in planes], axis=-1)
        for stage in self.stages:
            h = function(stage(pixels_to_channels(h)))
        return self.head(h.reshape(len(h), -1))


class ConvolutionalDecoder(eqx.Module):
    """Latent samples to parameters of pixels: (K, B, n_latent) to (K, B, n_blocks * H * W * C).

    A dense layer of `n_hidden` units comes before the stages, whose `maps` are given from the
    image inwards, as in the encoder. Each pixel has `n_blocks` parameters: 1 for Bernoulli, 2 for
    Normal, 3 for Student-t.

    Examples:
        >>> import jax
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
        key: OneKey,
    ) -> None:
        shape, n_innermost, rng, key_head = _start(shape, maps, activation, key)
        sizes = {"n_hidden": n_hidden, "n_layers": 1, "activation": activation}
        self.head = Dense(n_latent, n_innermost, **sizes, key=key_head)
        inwards = [n_blocks * shape.channels, *maps]
        self.stages = tuple(
            # The last stage has no activation behind it: Glorot's variance.
            _layer(rng, activation if i else "tanh", inwards[i + 1], inwards[i], scale=2)
            for i in reversed(range(len(maps)))
        )
        self.shape, self.activation = shape, activation

    def __call__(self, z: Latents) -> Eta:
        function = ACTIVATIONS[self.activation][0]
        sizes = _sizes(self.shape, len(self.stages))
        h = self.head(z.reshape(-1, z.shape[-1]))
        h = h.reshape(len(h), sizes[-1].height, sizes[-1].width, -1)
        for stage, size in zip(self.stages, reversed(sizes[:-1]), strict=True):
            h = stage(function(h))[:, : size.height, : size.width]
        blocks = h.reshape(*h.shape[:-1], -1, self.shape.channels)
        return jnp.moveaxis(blocks, -2, 1).reshape(*z.shape[:-1], -1)
