import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.model import Bernoulli, Categorical, Normal
from miwae.model._build import convolutional_autoencoder
from miwae.model.networks._convolutional import (
    WIDEST,
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    ConvolutionLayer,
    ImageShape,
    pixels_to_channels,
)

KEY = jax.random.key(0)
SMALL = {"maps": (2, 3), "n_hidden": 5, "key": KEY}

# Run as one program: operation by operation, each shape would be compiled many times.
apply = eqx.filter_jit(lambda layer, a: layer(a))


def random(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


@pytest.mark.parametrize("width", [1, 5, WIDEST, WIDEST + 1, 3 * WIDEST - 1])
@pytest.mark.parametrize("scale", [1, 2])
def test_a_convolution_is_the_sum_over_its_window(width, scale):
    n_out = 2 * scale**2
    layer = ConvolutionLayer(
        jnp.asarray(random(3, 3, 3, n_out)), jnp.asarray(random(n_out)), scale
    )
    a = random(2, 4, width, 3, seed=1)
    padded = np.pad(a, ((0, 0), (1, 1), (1, 1), (0, 0)))
    out = np.asarray(apply(layer, jnp.asarray(a)))
    assert out.shape == (2, 4 * scale, width * scale, 2)
    for row in range(4):
        for column in range(width):
            window = padded[:, row : row + 3, column : column + 3]
            expected = np.einsum("bhwi,hwio->bo", window, np.asarray(layer.weight))
            expected = (expected + np.asarray(layer.bias)).reshape(2, scale, scale, 2)
            block = np.s_[
                :, row * scale : (row + 1) * scale, column * scale : (column + 1) * scale
            ]
            np.testing.assert_allclose(out[block], expected, rtol=1e-4, atol=1e-5)


def test_blocks_of_pixels_become_channels_and_pixels_again():
    a = jnp.asarray(random(2, 4, 6, 3))
    np.testing.assert_array_equal(pixels_to_channels(a)[0, 1, 2, :3], a[0, 2, 4])
    same = jnp.zeros((3, 3, 12, 12)).at[1, 1].set(jnp.eye(12))
    back = ConvolutionLayer(same, jnp.zeros(12), scale=2)
    np.testing.assert_allclose(apply(back, pixels_to_channels(a)), a, rtol=1e-6)
    odd = jnp.asarray(random(2, 5, 7, 3))
    there_and_back = apply(back, pixels_to_channels(odd))
    assert there_and_back.shape == (2, 6, 8, 3)
    np.testing.assert_allclose(there_and_back[:, :5, :7], odd, rtol=1e-6)
    np.testing.assert_array_equal(there_and_back[:, 5:], 0.0)


def test_a_stage_of_the_encoder_is_a_convolution_with_stride_two():
    """With 6 x 6 filters, as the module says."""
    layer = ConvolutionLayer(jnp.asarray(random(3, 3, 8, 3)), jnp.zeros(3))
    a = jnp.asarray(random(2, 8, 6, 2, seed=1))
    # (3, 3, (2, 2, I), O) with a block's own pixel before its channel, to (6, 6, I, O).
    filters = layer.weight.reshape(3, 3, 2, 2, 2, 3).transpose(0, 2, 1, 3, 4, 5)
    expected = jax.lax.conv_general_dilated(
        a,
        filters.reshape(6, 6, 2, 3),
        (2, 2),
        ((2, 2), (2, 2)),
        dimension_numbers=("NHWC", "HWIO", "NHWC"),
    )
    np.testing.assert_allclose(apply(layer, pixels_to_channels(a)), expected, rtol=1e-4, atol=1e-4)


def test_a_stage_of_the_decoder_is_the_transpose_of_one_of_the_encoder():
    """<up(h), x> = <h, down(x)> with the same filters, mirrored."""
    weight = jnp.asarray(random(3, 3, 8, 3))
    down = ConvolutionLayer(weight, jnp.zeros(3))
    up = ConvolutionLayer(jnp.flip(weight, (0, 1)).transpose(0, 1, 3, 2), jnp.zeros(8), scale=2)
    x, h = jnp.asarray(random(1, 8, 6, 2, seed=1)), jnp.asarray(random(1, 4, 3, 3, seed=2))
    left = jnp.sum(apply(up, h) * x)
    right = jnp.sum(h * apply(down, pixels_to_channels(x)))
    np.testing.assert_allclose(left, right, rtol=1e-4)


@pytest.mark.parametrize("shape", [(28, 28), (5, 7), (1, 1), (6, 3, 3), (9, 70)])
@pytest.mark.parametrize("n_blocks", [1, 2])
def test_images_of_any_size_and_number_of_channels(shape, n_blocks):
    image = ImageShape(*shape)
    encoder = ConvolutionalEncoder(image, 4, **SMALL)
    decoder = ConvolutionalDecoder(2, image, n_blocks=n_blocks, **SMALL)
    assert apply(encoder, jnp.zeros((3, image.n_features))).shape == (3, 4)
    out = apply(decoder, jnp.asarray(random(2, 3, 2)))
    assert out.shape == (2, 3, n_blocks * image.n_features)
    assert np.isfinite(out).all()


def test_all_codes_are_decoded_alike():
    decoder = ConvolutionalDecoder(2, ImageShape(5, 7), **SMALL)
    z = jnp.asarray(random(4, 3, 2))
    np.testing.assert_allclose(
        apply(decoder, z)[1:3, 2:], apply(decoder, z[1:3, 2:]), rtol=1e-4, atol=1e-5
    )


def test_parameters_come_block_by_block_and_pixels_in_c_order():
    """All locations first, then all scales, as the observation models want them."""
    image = ImageShape(4, 6, 3)
    decoder = ConvolutionalDecoder(2, image, n_blocks=2, **SMALL)
    # Without weights the bias of the last stage is what comes out: its channels are a block's
    # pixel (2 x 2), then block, then channel.
    bias = jnp.arange(24.0)
    last = ConvolutionLayer(jnp.zeros_like(decoder.stages[-1].weight), bias, scale=2)
    decoder = eqx.tree_at(lambda d: d.stages, decoder, (*decoder.stages[:-1], last))
    out = np.asarray(apply(decoder, jnp.zeros((1, 1, 2)))).reshape(2, 4, 6, 3)
    for block in range(2):
        for channel in range(3):
            expected = [
                [6 * (2 * i + j) + 3 * block + channel for j in range(2)] for i in range(2)
            ]
            np.testing.assert_array_equal(out[block, 2:, 4:, channel], expected)


def test_a_pixel_reaches_only_its_neighbours():
    """After one stage, blocks at a distance of one at most."""
    encoder = ConvolutionalEncoder(ImageShape(12, 12), 2, maps=(3,), n_hidden=4, key=KEY)
    images = np.zeros((2, 12, 12, 1), dtype=np.float32)
    images[1, 2, 6] = 1.0  # in block (1, 3)
    out = np.asarray(apply(encoder.stages[0], pixels_to_channels(jnp.asarray(images))))
    changed = (out[0] != out[1]).any(axis=-1)
    assert {tuple(place) for place in np.argwhere(changed)} == {
        (i, j) for i in (0, 1, 2) for j in (2, 3, 4)
    }


def test_indicators_are_further_channels():
    encoder = ConvolutionalEncoder(ImageShape(4, 4), 3, indicator=True, **SMALL)
    pixels, seen = random(2, 16), np.ones((2, 16), np.float32)
    out = apply(encoder, jnp.asarray(np.concatenate([pixels, seen], axis=1)))
    seen[1, 3] = 0.0
    other = apply(encoder, jnp.asarray(np.concatenate([pixels, seen], axis=1)))
    np.testing.assert_array_equal(out[0], other[0])
    assert np.abs(out[1] - other[1]).max() > 1e-6


def test_an_image_has_the_features_of_its_observation_model():
    with pytest.raises(SettingsError, match="has 16 features, the observation model 15"):
        convolutional_autoencoder(Bernoulli(15), (4, 4), key=KEY)
    with pytest.raises(SettingsError, match="Categorical has not the same parameters"):
        convolutional_autoencoder(Categorical((2, 3, 2, 2)), (2, 2), key=KEY)
    with pytest.raises(SettingsError, match="at least one pixel"):
        ConvolutionalEncoder(ImageShape(0, 4), 2, key=KEY)
    with pytest.raises(SettingsError, match="maps"):
        ConvolutionalDecoder(2, ImageShape(4, 4), maps=(), key=KEY)
    with pytest.raises(SettingsError, match="activation"):
        ConvolutionalDecoder(2, ImageShape(4, 4), activation="cosh", key=KEY)
    assert convolutional_autoencoder(Normal(48), (4, 4, 3), key=KEY, maps=(2,), n_hidden=3)
