"""Dense networks."""

import itertools
from collections.abc import Callable
from typing import ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from miwae._numerics import features_first, features_last
from miwae._shapes import OneKey
from miwae.errors import SettingsError


# Initial weights come from NumPy: JAX would compile a program for each shape, a second or two for
# a network.
def _glorot(rng: np.random.Generator, n_out: int, n_in: int) -> np.ndarray:
    """Uniform, of variance 2 / (n_in + n_out): Glorot & Bengio (2010)."""
    limit = np.sqrt(6 / (n_in + n_out))
    return rng.uniform(-limit, limit, (n_out, n_in))


def _he(rng: np.random.Generator, n_out: int, n_in: int) -> np.ndarray:
    """Normal, of variance 2 / n_in: He et al. (2015)."""
    return rng.normal(0.0, np.sqrt(2 / n_in), (n_out, n_in))


# Name: (function, initialiser): Glorot where the activation is odd, He where it is one-sided, as
# in the paper's section 4.
ACTIVATIONS: dict[str, tuple[Callable[[Array], Array], Callable[..., np.ndarray]]] = {
    "tanh": (jnp.tanh, _glorot),
    "relu": (jax.nn.relu, _he),
    "silu": (jax.nn.silu, _he),
}


def require_activation(name: str) -> None:
    if name not in ACTIVATIONS:
        raise SettingsError(f"activation must be one of {', '.join(ACTIVATIONS)}, not {name!r}")


def generator(key: OneKey) -> np.random.Generator:
    return np.random.default_rng(np.asarray(jax.random.key_data(key)))


class DenseLayer(eqx.Module):
    """`weight @ a + bias`, features first: (n_in, ...) to (n_out, ...)."""

    weight: Float[Array, "n_out n_in"]
    bias: Float[Array, " n_out"]

    def __call__(self, a: Float[Array, "n_in ..."]) -> Float[Array, "n_out ..."]:
        bias = self.bias.reshape(-1, *[1] * (a.ndim - 1))
        return jnp.tensordot(self.weight, a, axes=1) + bias


def dense_layer(
    rng: np.random.Generator, n_in: int, n_out: int, activation: str, *, zero: bool = False
) -> DenseLayer:
    """A layer with the initial weights that go with an activation, or with zeros."""
    weight = np.zeros((n_out, n_in)) if zero else ACTIVATIONS[activation][1](rng, n_out, n_in)
    bias = np.zeros(n_out, np.float32)
    return DenseLayer(*jax.device_put((weight.astype(np.float32), bias)))


class Dense(eqx.Module):
    """A multi-layer perceptron on the last axis: (..., n_in) to (..., n_out).

    It has `n_layers` hidden layers of `n_hidden` units; without any it is an affine map. The
    initial weights suit the activation: "tanh", "relu" or "silu". With `residual`, the input of
    each hidden layer but the first is added to its output; with `zero_last`, the last layer
    starts with weights of zero, and so the network as zero.

    Examples:
        >>> net = Dense(3, 2, n_hidden=8, n_layers=2, key=jax.random.key(0))
        >>> net(jnp.ones((5, 4, 3))).shape
        (5, 4, 2)
    """

    decays_weights: ClassVar[bool] = True  # its matrices decay if the optimizer is "adamw"

    layers: tuple[DenseLayer, ...]
    activation: str = eqx.field(static=True)
    residual: bool = eqx.field(static=True)

    def __init__(
        self,
        n_in: int,
        n_out: int,
        *,
        n_hidden: int = 128,
        n_layers: int = 3,
        activation: str = "tanh",
        residual: bool = False,
        zero_last: bool = False,
        key: OneKey,
    ) -> None:
        require_activation(activation)
        rng, widths = generator(key), [n_in, *[n_hidden] * n_layers]
        layers = [dense_layer(rng, a, b, activation) for a, b in itertools.pairwise(widths)]
        # The last layer has no activation behind it: Glorot's variance.
        layers.append(dense_layer(rng, widths[-1], n_out, "tanh", zero=zero_last))
        self.layers, self.activation, self.residual = tuple(layers), activation, residual

    def __call__(self, a: Float[Array, "... n_in"]) -> Float[Array, "... n_out"]:
        function = ACTIVATIONS[self.activation][0]
        # One long last axis of all samples of all rows: the loops over it are vectorised best.
        h = features_first(a).reshape(a.shape[-1], -1)
        for i, layer in enumerate(self.layers[:-1]):
            out = function(layer(h))
            h = h + out if self.residual and i > 0 else out
        # What comes back to the last layer is computed once, not once for each use of it.
        out = jax.lax.optimization_barrier(self.layers[-1](h))
        return features_last(out.reshape(-1, *a.shape[:-1]))


class LinearResidual(eqx.Module):
    """An affine map plus a network: `A a + b + f(a)`."""

    linear: DenseLayer
    network: Dense

    def __call__(self, a: Float[Array, "... n_in"]) -> Float[Array, "... n_out"]:
        return features_last(self.linear(features_first(a))) + self.network(a)
