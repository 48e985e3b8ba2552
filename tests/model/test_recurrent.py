import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.model import Normal, RecurrentDecoder, RecurrentEncoder, StudentT
from miwae.model._build import recurrent_autoencoder
from miwae.model.networks._recurrent import GRU

KEY = jax.random.key(0)


def random(*shape, seed=0):
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape).astype(np.float32))


def with_biases(net):
    return jax.tree.map(lambda a: a + 0.1 * jnp.arange(a.shape[0]) if a.ndim == 1 else a, net)


def test_the_gru_is_that_of_equinox():
    gru = with_biases(GRU(3, 4, key=KEY))
    cell = eqx.nn.GRUCell(3, 4, key=KEY)
    # Its gates have a bias in common, the candidate's state one of its own.
    bias = gru.inputs.bias.at[:8].add(gru.state.bias[:8])
    cell = eqx.tree_at(
        lambda c: (c.weight_ih, c.weight_hh, c.bias, c.bias_n),
        cell,
        (gru.inputs.weight, gru.state.weight, bias, gru.state.bias[8:]),
    )
    a = random(5, 2, 3)
    h, expected = jnp.zeros((2, 4)), []
    for step in a:
        h = jax.vmap(cell)(step, h)
        expected.append(h)
    np.testing.assert_allclose(gru(a), jnp.stack(expected), rtol=1e-5, atol=1e-6)
    backwards = jnp.flip(gru(jnp.flip(a, 0)), 0)
    np.testing.assert_allclose(gru(a, reverse=True), backwards, rtol=1e-5, atol=1e-6)


def test_the_encoder_reads_all_steps_in_their_order():
    encoder = RecurrentEncoder(6, 2, 4, n_hidden=3, indicator=False, key=KEY)
    a = random(1, 12)
    gradient = jax.jacobian(lambda a: encoder(a)[0])(a)[:, 0]
    assert (jnp.abs(gradient).max(axis=0) > 0).all()
    swapped = a.reshape(1, 6, 2)[:, jnp.array([1, 0, 2, 3, 4, 5])].reshape(1, 12)
    assert np.abs(encoder(a) - encoder(swapped)).max() > 1e-4


def test_a_step_gets_its_own_indicators():
    """Values and indicators of the same step enter together."""
    encoder = RecurrentEncoder(3, 2, 4, n_hidden=3, key=KEY)
    forwards = eqx.tree_at(
        lambda g: g.state, encoder.forwards, jax.tree.map(jnp.zeros_like, encoder.forwards.state)
    )
    seen = {}

    def spy(sequence, *, reverse=False):
        seen["sequence"] = sequence
        return forwards(sequence, reverse=reverse)

    values, indicators = random(2, 6), random(2, 6, seed=1)
    encoder = eqx.tree_at(lambda e: (e.forwards, e.backwards), encoder, (spy, spy))
    encoder(jnp.concatenate([values, indicators], axis=-1))
    np.testing.assert_array_equal(seen["sequence"][1, 0], [*values[0, 2:4], *indicators[0, 2:4]])


def test_the_decoder_gives_blocks_of_steps_of_features():
    decoder = RecurrentDecoder(2, 5, 3, n_blocks=2, n_hidden=4, key=KEY)
    decoder = eqx.tree_at(
        lambda d: (d.head.weight, d.head.bias),
        decoder,
        (jnp.zeros_like(decoder.head.weight), jnp.arange(6.0)),
    )
    out = np.asarray(decoder(random(1, 4, 2))).reshape(4, 2, 5, 3)
    np.testing.assert_array_equal(out[1], np.tile(np.arange(6.0).reshape(2, 1, 3), (1, 5, 1)))


def test_later_parameters_depend_on_the_code_and_on_the_place():
    decoder = RecurrentDecoder(2, 5, 1, n_blocks=1, n_hidden=4, key=KEY)
    z = random(3, 4, 2)
    out = decoder(z)
    assert out.shape == (3, 4, 5)
    np.testing.assert_allclose(decoder(z[1:2, 2:]), out[1:2, 2:], rtol=1e-5, atol=1e-6)
    assert np.abs(np.diff(out, axis=-1)).min() > 0
    assert np.abs(out[0, 0] - out[0, 1]).min() > 0


def test_what_does_not_fit_is_refused():
    with pytest.raises(SettingsError, match="10 features are not a whole number for each of 4"):
        recurrent_autoencoder(Normal(10), 4, key=KEY)
    with pytest.raises(SettingsError, match="n_steps"):
        recurrent_autoencoder(StudentT(10), 0, key=KEY)
