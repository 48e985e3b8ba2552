import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.model import AttentionEncoder, Dense, SetEncoder

KEY = jax.random.key(0)
ENCODERS = {"sum": SetEncoder, "attention": AttentionEncoder}
SIZES = {"n_embedding": 4, "n_hidden": 5}


def rows(x, seen):
    return jnp.concatenate([jnp.where(seen, x, 0.0), seen.astype(jnp.float32)], axis=-1)


X = jnp.asarray(np.random.default_rng(0).normal(size=(6, 3)).astype(np.float32))
SEEN = jnp.asarray(np.random.default_rng(1).random((6, 3)) < 0.6).at[0].set(True).at[1].set(False)


@pytest.mark.parametrize("kind", ENCODERS)
def test_the_order_of_inputs_does_not_matter(kind):
    """Inputs that change places together with their embeddings change nothing."""
    encoder = ENCODERS[kind](3, 4, **SIZES, key=KEY)
    places = jnp.array([2, 0, 1])
    moved = eqx.tree_at(
        lambda e: (e.embeddings.value, e.embeddings.identity),
        encoder,
        (encoder.embeddings.value[places], encoder.embeddings.identity[places]),
    )
    np.testing.assert_allclose(
        moved(rows(X[:, places], SEEN[:, places])), encoder(rows(X, SEEN)), rtol=1e-4, atol=1e-5
    )
    assert (
        np.abs(encoder(rows(X[:, places], SEEN[:, places])) - encoder(rows(X, SEEN))).max() > 1e-3
    )


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_row_is_the_set_of_what_was_seen(kind):
    """As if the missing inputs were not inputs at all."""
    encoder = ENCODERS[kind](3, 4, **SIZES, key=KEY)
    fewer = eqx.tree_at(
        lambda e: (e.embeddings.value, e.embeddings.identity),
        encoder,
        (encoder.embeddings.value[:2], encoder.embeddings.identity[:2]),
    )
    seen = SEEN.at[:, 2].set(False).at[:, 0].set(True)
    np.testing.assert_allclose(
        encoder(rows(X, seen)), fewer(rows(X[:, :2], seen[:, :2])), rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_zero_that_was_seen_is_not_a_missing_one(kind):
    encoder = ENCODERS[kind](3, 4, **SIZES, key=KEY)
    zero = X.at[:, 1].set(0.0)
    seen = jnp.ones_like(SEEN)
    assert (
        np.abs(encoder(rows(zero, seen)) - encoder(rows(zero, seen.at[:, 1].set(False)))).min() > 0
    )


@pytest.mark.parametrize("kind", ENCODERS)
def test_a_row_with_nothing_seen_has_an_answer_and_gradients(kind):
    encoder = ENCODERS[kind](3, 4, **SIZES, key=KEY)
    nothing = rows(X, jnp.zeros_like(SEEN))
    np.testing.assert_array_equal(encoder(nothing)[0], encoder(nothing)[1])
    gradient = jax.grad(lambda e: jnp.sum(e(nothing) ** 2))(encoder)
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(gradient))


def test_zero_imputation_is_a_special_case():
    """Without embeddings of identity, the sum is a dense layer on inputs filled with zeros."""
    encoder = SetEncoder(3, 4, n_embedding=5, n_hidden=5, n_inner=0, n_layers=2, key=KEY)
    encoder = eqx.tree_at(
        lambda e: e.embeddings.identity, encoder, jnp.zeros_like(encoder.embeddings.identity)
    )
    dense = Dense(3, 4, n_hidden=5, n_layers=3, key=KEY)
    first = eqx.tree_at(lambda d: d.weight, dense.layers[0], encoder.embeddings.value.T)
    dense = eqx.tree_at(lambda d: d.layers, dense, (first, *encoder.outer.layers))
    np.testing.assert_allclose(
        encoder(rows(X, SEEN)), dense(jnp.where(SEEN, X, 0.0)), rtol=1e-4, atol=1e-5
    )


def test_attention_is_a_weighted_mean_of_answers():
    encoder = AttentionEncoder(3, 4, **SIZES, n_questions=2, key=KEY)
    each = encoder.embeddings(X[:1])
    keys, answers = encoder.keys(each)[0], encoder.answers(each)[0]
    seen = np.asarray(SEEN[2])
    fit = np.asarray(encoder.questions @ keys.T) / 2.0  # the root of four
    weights = np.where(seen, np.exp(fit), 0.0)
    pooled = weights @ np.asarray(answers) / weights.sum(axis=1, keepdims=True)
    expected = encoder.outer(jnp.asarray(pooled.reshape(1, -1), jnp.float32))
    np.testing.assert_allclose(encoder(rows(X[:1], SEEN[2:3])), expected, rtol=1e-4, atol=1e-5)


def test_sizes_are_checked():
    with pytest.raises(SettingsError, match="n_questions"):
        AttentionEncoder(3, 4, n_questions=0, key=KEY)
    with pytest.raises(SettingsError, match="n_embedding"):
        SetEncoder(3, 4, n_embedding=0, key=KEY)
    with pytest.raises(SettingsError, match="activation"):
        SetEncoder(3, 4, activation="cosh", key=KEY)
