"""Recurrent networks for sequences.

A sequence of T steps of F features is a row of T * F features, step after step. Steps that are
missing, and those after the end of a shorter sequence, are cells that were not observed: nothing
else has to be said about lengths.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Key

from miwae.arrays import require_at_least
from miwae.model.networks.dense import Dense, DenseLayer, dense_layer
from miwae.numerics import features_first, features_last

__all__ = ["GRU", "RecurrentDecoder", "RecurrentEncoder"]


def _on_last(layer: DenseLayer, a: Float[Array, "... n_in"]) -> Float[Array, "... n_out"]:
    return features_last(layer(features_first(a)))


class GRU(eqx.Module):
    """Gated recurrent units (Cho et al., 2014), over the first axis: (T, B, n_in) to (T, B, n).

    The reset gate acts after the product with the state, so that a step is one product.
    """

    inputs: DenseLayer  # of reset, update and candidate, one after the other
    state: DenseLayer

    def __init__(self, n_in: int, n_hidden: int, *, key: Key[Array, ""]) -> None:
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key)))
        self.inputs = dense_layer(rng, n_in, 3 * n_hidden, "tanh")
        self.state = dense_layer(rng, n_hidden, 3 * n_hidden, "tanh")

    def __call__(
        self, a: Float[Array, "T B I"], *, reverse: bool = False
    ) -> Float[Array, "T B H"]:
        """The states after each step, from zero."""
        # Products of the inputs do not depend on the state: one product for all steps.
        entering = _on_last(self.inputs, a)

        def step(h: Float[Array, "B H"], own: Float[Array, "B H3"]) -> tuple[Array, Array]:
            reset, update, candidate = jnp.split(own, 3, axis=-1)
            turned = _on_last(self.state, h)
            reset_h, update_h, candidate_h = jnp.split(turned, 3, axis=-1)
            new = jnp.tanh(candidate + jax.nn.sigmoid(reset + reset_h) * candidate_h)
            keep = jax.nn.sigmoid(update + update_h)
            h = keep * h + (1 - keep) * new
            return h, h

        start = jnp.zeros((a.shape[1], self.state.weight.shape[1]), a.dtype)
        return jax.lax.scan(step, start, entering, reverse=reverse)[1]


class RecurrentEncoder(eqx.Module):
    """Sequences to parameters of a posterior: (B, I) to (B, n_out).

    One GRU reads forwards and one backwards; their last states together are mapped to the outputs.

    Args:
        n_steps: T, the longest length.
        n_out: number of outputs.
        n_in: numbers for each step: F, or 2 F with the indicators of what was seen.
        n_hidden: units of each GRU.
        indicator: a row holds the indicators of what was seen after the values, as an `Amortizer`
            with `indicator=True` gives it. Without them a missing step is a step of zeros.
        key: for the initial weights.

    Example:
        >>> net = RecurrentEncoder(7, 6, n_in=2, key=jax.random.key(0))
        >>> net(jnp.ones((5, 2 * 7 * 1))).shape
        (5, 6)
    """

    forwards: GRU
    backwards: GRU
    head: Dense
    n_steps: int = eqx.field(static=True)
    indicator: bool = eqx.field(static=True)

    def __init__(
        self,
        n_steps: int,
        n_out: int,
        *,
        n_in: int,
        n_hidden: int = 64,
        indicator: bool = True,
        key: Key[Array, ""],
    ) -> None:
        require_at_least(1, n_steps=n_steps, n_in=n_in, n_hidden=n_hidden)
        key_f, key_b, key_head = jax.random.split(key, 3)
        self.forwards = GRU(n_in, n_hidden, key=key_f)
        self.backwards = GRU(n_in, n_hidden, key=key_b)
        self.head = Dense(2 * n_hidden, n_out, n_hidden=n_hidden, n_layers=1, key=key_head)
        self.n_steps, self.indicator = n_steps, indicator

    def __call__(self, a: Float[Array, "B I"]) -> Float[Array, "B Q"]:
        """Apply the network."""
        planes = jnp.split(a, 2, axis=-1) if self.indicator else [a]
        steps = [plane.reshape(len(a), self.n_steps, -1) for plane in planes]
        sequence = jnp.swapaxes(jnp.concatenate(steps, axis=-1), 0, 1)
        first_to_last = self.forwards(sequence)[-1]
        last_to_first = self.backwards(sequence, reverse=True)[0]
        return self.head(jnp.concatenate([first_to_last, last_to_first], axis=-1))


class RecurrentDecoder(eqx.Module):
    """Codes to the parameters of sequences: (K, B, n_latent) to (K, B, n_blocks * T * F).

    The code enters a GRU at each step, with the place of the step; what leaves it is mapped to the
    parameters of that step's features.

    Args:
        n_latent: dimension of the code.
        n_steps: T, the longest length.
        n_features: F, of a step.
        n_blocks: parameters for each feature: 1 for Bernoulli, 2 for Normal, 3 for Student-t.
        n_hidden: units of the GRU.
        key: for the initial weights.

    Example:
        >>> net = RecurrentDecoder(3, 7, 2, key=jax.random.key(0))
        >>> net(jnp.ones((5, 4, 3))).shape
        (5, 4, 28)
    """

    gru: GRU
    head: DenseLayer
    n_steps: int = eqx.field(static=True)
    n_blocks: int = eqx.field(static=True)

    def __init__(
        self,
        n_latent: int,
        n_steps: int,
        n_features: int,
        *,
        n_blocks: int = 2,
        n_hidden: int = 64,
        key: Key[Array, ""],
    ) -> None:
        require_at_least(1, n_latent=n_latent, n_steps=n_steps, n_features=n_features)
        key_gru, key_head = jax.random.split(key)
        self.gru = GRU(n_latent + 1, n_hidden, key=key_gru)
        rng = np.random.default_rng(np.asarray(jax.random.key_data(key_head)))
        self.head = dense_layer(rng, n_hidden, n_blocks * n_features, "tanh")
        self.n_steps, self.n_blocks = n_steps, n_blocks

    def __call__(self, z: Float[Array, "K B L"]) -> Float[Array, "K B P"]:
        """Apply the network to all codes at once."""
        codes = z.reshape(-1, z.shape[-1])
        places = jnp.linspace(-1.0, 1.0, self.n_steps)[:, None, None]
        shape = (self.n_steps, len(codes))
        sequence = jnp.concatenate(
            [
                jnp.broadcast_to(codes[None], (*shape, codes.shape[-1])),
                jnp.broadcast_to(places, (*shape, 1)),
            ],
            axis=-1,
        )
        states = self.gru(sequence)
        out = _on_last(self.head, states)
        out = out.reshape(*shape, self.n_blocks, -1)
        return jnp.transpose(out, (1, 2, 0, 3)).reshape(*z.shape[:-1], -1)
