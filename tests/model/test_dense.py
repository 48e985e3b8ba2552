import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.model import Dense
from miwae.model.networks._dense import DenseLayer, LinearResidual

KEY = jax.random.key(0)
FUNCTIONS = {
    "tanh": np.tanh,
    "relu": lambda a: np.maximum(a, 0.0),
    "silu": lambda a: a / (1 + np.exp(-a)),
}


def with_biases(net: Dense) -> Dense:
    """Biases start at zero, where their use could not be seen."""
    return jax.tree.map(lambda a: a + 0.1 * jnp.arange(a.shape[0]) if a.ndim == 1 else a, net)


def plain(net: Dense, a: np.ndarray) -> np.ndarray:
    h = a.astype(np.float64)
    for i, layer in enumerate(net.layers):
        out = h @ np.asarray(layer.weight, np.float64).T + np.asarray(layer.bias, np.float64)
        if i == len(net.layers) - 1:
            return out
        out = FUNCTIONS[net.activation](out)
        h = h + out if net.residual and i > 0 else out
    raise AssertionError("no layers")


@pytest.mark.parametrize("residual", [False, True])
@pytest.mark.parametrize("activation", FUNCTIONS)
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_a_network_is_its_products_and_activations(n_layers, activation, residual):
    net = with_biases(
        Dense(
            3, 2, n_hidden=4, n_layers=n_layers, activation=activation, residual=residual, key=KEY
        )
    )
    a = np.random.default_rng(0).normal(size=(5, 6, 3)).astype(np.float32)
    np.testing.assert_allclose(net(jnp.asarray(a)), plain(net, a), rtol=1e-4, atol=1e-5)


def test_rows_may_have_any_axes_before_the_features():
    net = with_biases(Dense(3, 2, n_hidden=4, n_layers=1, key=KEY))
    a = jax.random.normal(KEY, (5, 6, 3))
    np.testing.assert_allclose(net(a[2]), net(a)[2], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(net(a[2, 3]), net(a)[2, 3], rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    ("activation", "variance"),
    # Glorot: 2 / (fan_in + fan_out); He: 2 / fan_in.
    [("tanh", 2 / (200 + 300)), ("relu", 2 / 200), ("silu", 2 / 200)],
)
def test_hidden_weights_have_the_variance_that_their_activation_wants(activation, variance):
    net = Dense(200, 7, n_hidden=300, n_layers=2, activation=activation, key=KEY)
    first = np.asarray(net.layers[0].weight, np.float64)
    # 60,000 weights: the relative error of a variance is below sqrt(2 / 60,000) = 0.6 %.
    assert first.shape == (300, 200)
    np.testing.assert_allclose((first**2).mean(), variance, rtol=0.03)
    assert abs(first.mean()) < 5 * np.sqrt(variance / first.size)
    last = np.asarray(net.layers[-1].weight, np.float64)
    np.testing.assert_allclose((last**2).mean(), 2 / (300 + 7), rtol=0.15)  # 2,100 weights
    for layer in net.layers:
        np.testing.assert_array_equal(layer.bias, 0.0)


def test_layers_do_not_share_their_random_numbers():
    net = Dense(4, 4, n_hidden=4, n_layers=2, key=KEY)
    assert not np.isclose(net.layers[0].weight, net.layers[1].weight).any()
    assert not np.isclose(net.layers[1].weight, net.layers[2].weight).any()


def test_zero_last_starts_at_zero_and_can_leave_it():
    net = Dense(3, 2, n_hidden=4, n_layers=2, zero_last=True, key=KEY)
    a = jax.random.normal(KEY, (5, 3))
    np.testing.assert_array_equal(net(a), 0.0)
    assert np.abs(net.layers[0].weight).min() > 0
    gradient = jax.grad(lambda net: jnp.sum(net(a)))(net)
    assert np.abs(gradient.layers[-1].weight).min() > 0


def test_a_linear_residual_is_the_sum_of_both():
    linear = DenseLayer(jax.random.normal(KEY, (2, 3)), jnp.array([1.0, -2.0]))
    network = with_biases(Dense(3, 2, n_hidden=4, n_layers=1, key=KEY))
    a = jax.random.normal(KEY, (5, 6, 3))
    expected = np.asarray(a) @ np.asarray(linear.weight).T + np.array([1.0, -2.0])
    np.testing.assert_allclose(
        LinearResidual(linear, network)(a), expected + network(a), rtol=1e-4, atol=1e-5
    )


def test_an_unknown_activation_is_refused_with_those_that_exist():
    with pytest.raises(SettingsError, match="tanh, relu, silu, not 'sigmoid'"):
        Dense(3, 2, activation="sigmoid", key=KEY)
