"""Recurrent networks for sequences.

A sequence of T steps of F features is a row of T * F features, step after step. Steps that are
missing, and those after the end of a shorter sequence, are cells that were not observed: nothing
else has to be said about lengths.
"""

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from miwae._arrays import require_at_least
from miwae._keys import split
from miwae._numerics import features_first
from miwae._shapes import Eta, Floats, Kappa, Latents, OneKey
from miwae.model.networks._dense import Dense, DenseLayer, dense_layer, generator


class GRU(eqx.Module):
    """Gated recurrent units (Cho et al., 2014), over the first axis: (T, B, n_in) to (T, B, n).

    The reset gate acts after the product with the state, so that a step is one product. Inside,
    features come first and rows last, as in `Dense`.
    """

    inputs: DenseLayer  # of reset, update and candidate, one after the other
    state: DenseLayer

    def __init__(self, n_in: int, n_hidden: int, *, key: OneKey) -> None:
        rng = generator(key)
        self.inputs = dense_layer(rng, n_in, 3 * n_hidden, "tanh")
        self.state = dense_layer(rng, n_hidden, 3 * n_hidden, "tanh")

    def start(self, n_rows: int) -> Float[Array, "H B"]:
        return jnp.zeros((self.state.weight.shape[1], n_rows))

    def step(self, h: Float[Array, "H B"], entering: Float[Array, "H3 B"]) -> Float[Array, "H B"]:
        """The next state; `entering` is what `inputs` makes of a step."""
        reset, update, candidate = jnp.split(entering, 3)
        reset_h, update_h, candidate_h = jnp.split(self.state(h), 3)
        new = jnp.tanh(candidate + jax.nn.sigmoid(reset + reset_h) * candidate_h)
        keep = jax.nn.sigmoid(update + update_h)
        return keep * h + (1 - keep) * new

    def __call__(
        self, a: Float[Array, "T B I"], *, reverse: bool = False
    ) -> Float[Array, "T B H"]:
        # Products with the inputs do not depend on the state: one for all steps.
        entering = jnp.moveaxis(self.inputs(features_first(a)), 0, 1)

        def step(h: Floats, own: Floats) -> tuple[Floats, Floats]:
            h = self.step(h, own)
            return h, h

        states = jax.lax.scan(step, self.start(a.shape[1]), entering, reverse=reverse)[1]
        return jnp.moveaxis(states, 1, -1)


class RecurrentEncoder(eqx.Module):
    """Sequences to parameters of a posterior: (B, I) to (B, n_out).

    One GRU reads the T steps of F features forwards and one backwards; their last states together
    are mapped to the outputs. With `indicator` a row holds the indicators of what was seen after
    the values, as an `Amortizer` with `indicator=True` gives it; without them a missing step is a
    step of zeros.

    Examples:
        >>> net = RecurrentEncoder(7, 2, 6, key=jax.random.key(0))
        >>> net(jnp.ones((5, 2 * 7 * 2))).shape
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
        n_features: int,
        n_out: int,
        *,
        n_hidden: int = 64,
        indicator: bool = True,
        key: OneKey,
    ) -> None:
        require_at_least(1, n_steps=n_steps, n_features=n_features, n_hidden=n_hidden)
        n_in = n_features * (2 if indicator else 1)
        key_f, key_b, key_head = split(key, 3)
        self.forwards = GRU(n_in, n_hidden, key=key_f)
        self.backwards = GRU(n_in, n_hidden, key=key_b)
        self.head = Dense(2 * n_hidden, n_out, n_hidden=n_hidden, n_layers=1, key=key_head)
        self.n_steps, self.indicator = n_steps, indicator

    def __call__(self, a: Float[Array, "B I"]) -> Kappa:
        planes = jnp.split(a, 2, axis=-1) if self.indicator else [a]
        steps = [plane.reshape(len(a), self.n_steps, -1) for plane in planes]
        sequence = jnp.swapaxes(jnp.concatenate(steps, axis=-1), 0, 1)
        first_to_last = self.forwards(sequence)[-1]
        last_to_first = self.backwards(sequence, reverse=True)[0]
        return self.head(jnp.concatenate([first_to_last, last_to_first], axis=-1))


class RecurrentDecoder(eqx.Module):
    """Latent samples to the parameters of sequences: (K, B, n_latent) to (K, B, n_blocks * T * F).

    The latent sample enters a GRU at each step, with the position of the step; the GRU's state is
    mapped to the parameters of that step's features, `n_blocks` for each: 1 for Bernoulli, 2 for
    Normal, 3 for Student-t.

    Examples:
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
        key: OneKey,
    ) -> None:
        require_at_least(1, n_latent=n_latent, n_steps=n_steps, n_features=n_features)
        key_gru, key_head = split(key)
        self.gru = GRU(n_latent + 1, n_hidden, key=key_gru)
        rng = generator(key_head)
        self.head = dense_layer(rng, n_hidden, n_blocks * n_features, "tanh")
        self.n_steps, self.n_blocks = n_steps, n_blocks

    def __call__(self, z: Latents) -> Eta:
        flat = z.reshape(-1, z.shape[-1])
        # The latent sample is the same at each step, so its product is computed once.
        weight = self.gru.inputs.weight
        of_sample = DenseLayer(weight[:, :-1], self.gru.inputs.bias)(features_first(flat))

        def step(h: Floats, place: Floats) -> tuple[Floats, Floats]:
            h = self.gru.step(h, of_sample + place * weight[:, -1:])
            return h, self.head(h)

        places = jnp.linspace(-1.0, 1.0, self.n_steps)
        out = jax.lax.scan(step, self.gru.start(len(flat)), places)[1]
        blocks = out.reshape(self.n_steps, self.n_blocks, -1, len(flat))
        return jnp.transpose(blocks, (3, 1, 0, 2)).reshape(*z.shape[:-1], -1)
