"""Permutation-invariant encoders: a row as the set of its observed inputs.

Each input i has an embedding `a_i` of its value and `b_i` of its identity, as in EDDI (Ma et al.,
2019), the "partial VAE". An observed input enters as `h(a_i x_i + b_i)`, a missing one not at all;
what enters is summed, or looked at by attention, and mapped to the outputs. With `b_i = 0` and h
the identity, the sum is the first layer of a dense network on inputs that are filled with zeros:
zero imputation is a special case (the paper's section 3.4).
"""

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from miwae._arrays import require_at_least
from miwae._keys import split
from miwae._shapes import Inputs, InputsSeen, Kappa, OneKey
from miwae.model.networks._dense import ACTIVATIONS, Dense, generator, require_activation


class Embeddings(eqx.Module):
    """`a_i x_i + b_i` for each input: (B, E) to (B, E, M)."""

    value: Float[Array, "E M"]
    identity: Float[Array, "E M"]

    def __init__(self, n_inputs: int, n_embedding: int, *, key: OneKey) -> None:
        rng = generator(key)
        draw = lambda: jnp.asarray(  # noqa: E731
            rng.normal(0.0, 1 / np.sqrt(n_embedding), (n_inputs, n_embedding)).astype(np.float32)
        )
        self.value, self.identity = draw(), draw()

    def __call__(self, x: Inputs) -> Float[Array, "B E M"]:
        return x[..., None] * self.value[None] + self.identity[None]


def _halves(a: Float[Array, "B I"]) -> tuple[Inputs, InputsSeen]:
    """Values and what was seen, as an `Amortizer` with `indicator=True` gives them."""
    x, seen = jnp.split(a, 2, axis=-1)
    return x, seen > 0.5


class SetEncoder(eqx.Module):
    """Sums over observed inputs: (B, 2 E) to (B, n_out), values and then indicators.

    Embeddings have the size M = `n_embedding`; h, which sees one input at a time, has `n_inner`
    hidden layers (0 for the identity), and `n_layers` follow behind the sum.

    Examples:
        >>> net = SetEncoder(3, 4, key=jax.random.key(0))
        >>> net(jnp.ones((5, 6))).shape
        (5, 4)
    """

    embeddings: Embeddings
    inner: Dense | None
    outer: Dense
    activation: str = eqx.field(static=True)

    def __init__(
        self,
        n_inputs: int,
        n_out: int,
        *,
        n_embedding: int = 32,
        n_hidden: int = 128,
        n_inner: int = 1,
        n_layers: int = 2,
        activation: str = "tanh",
        key: OneKey,
    ) -> None:
        require_at_least(1, n_inputs=n_inputs, n_embedding=n_embedding, n_hidden=n_hidden)
        require_at_least(0, n_inner=n_inner, n_layers=n_layers)
        require_activation(activation)
        key_e, key_i, key_o = split(key, 3)
        self.embeddings = Embeddings(n_inputs, n_embedding, key=key_e)
        shape = {"n_hidden": n_hidden, "activation": activation}
        inner = eqx.Partial(Dense, n_embedding, n_embedding, n_layers=n_inner, **shape)
        self.inner = inner(key=key_i) if n_inner else None
        self.outer = Dense(n_embedding, n_out, n_layers=n_layers, **shape, key=key_o)
        self.activation = activation

    def __call__(self, a: Float[Array, "B I"]) -> Kappa:
        x, seen = _halves(a)
        each = self.embeddings(x)
        if self.inner is not None:
            each = self.inner(each)
        total = jnp.sum(jnp.where(seen[..., None], each, 0.0), axis=1)
        return self.outer(ACTIVATIONS[self.activation][0](total))


class AttentionEncoder(eqx.Module):
    """Attention over observed inputs: (B, 2 E) to (B, n_out), values and then indicators.

    Learned questions are put to the observed inputs, whose embeddings give keys and answers (the
    pooling of the Set Transformer; Lee et al., 2019); the answers together are mapped to the
    outputs by `n_layers` hidden layers. Embeddings and answers have the size M = `n_embedding`. A
    row with nothing observed gets answers of zero.

    Examples:
        >>> net = AttentionEncoder(3, 4, key=jax.random.key(0))
        >>> net(jnp.ones((5, 6))).shape
        (5, 4)
    """

    embeddings: Embeddings
    keys: Dense
    answers: Dense
    questions: Float[Array, "H M"]
    outer: Dense

    def __init__(
        self,
        n_inputs: int,
        n_out: int,
        *,
        n_embedding: int = 32,
        n_questions: int = 4,
        n_hidden: int = 128,
        n_layers: int = 2,
        activation: str = "tanh",
        key: OneKey,
    ) -> None:
        require_at_least(1, n_inputs=n_inputs, n_embedding=n_embedding, n_hidden=n_hidden)
        require_at_least(1, n_questions=n_questions)
        require_at_least(0, n_layers=n_layers)
        key_e, key_k, key_a, key_q, key_o = split(key, 5)
        self.embeddings = Embeddings(n_inputs, n_embedding, key=key_e)
        shape = {"n_hidden": n_hidden, "activation": activation}
        self.keys = Dense(n_embedding, n_embedding, n_layers=1, **shape, key=key_k)
        self.answers = Dense(n_embedding, n_embedding, n_layers=1, **shape, key=key_a)
        rng = generator(key_q)
        self.questions = jnp.asarray(rng.normal(size=(n_questions, n_embedding)), jnp.float32)
        self.outer = Dense(n_questions * n_embedding, n_out, n_layers=n_layers, **shape, key=key_o)

    def __call__(self, a: Float[Array, "B I"]) -> Kappa:
        x, seen = _halves(a)
        each = self.embeddings(x)
        fit = self.keys(each) @ self.questions.T / np.sqrt(self.questions.shape[1])  # (B, E, H)
        # A constant far below, not -inf: a row with nothing observed must have gradients, too.
        share = jax.nn.softmax(jnp.where(seen[..., None], fit, -1e9), axis=1)
        share = jnp.where(seen[..., None], share, 0.0)
        pooled = jnp.einsum("beh,bem->bhm", share, self.answers(each))
        return self.outer(pooled.reshape(len(a), -1))
