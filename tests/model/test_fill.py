import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from cases import FILLS, N_FEATURES, OBSERVATIONS, READS_MISSING_CELLS, possible_rows
from miwae.model._build import dense_autoencoder
from miwae.model._fill import LearnedFill, MeanFill

EVERY = pytest.mark.parametrize("name", FILLS)
UNSEEING = pytest.mark.parametrize("name", [n for n in FILLS if n not in READS_MISSING_CELLS])

X = np.random.default_rng(0).normal(size=(3, N_FEATURES)).astype(np.float32)
SEEN = np.array([[True, False, True, True], [False, True, False, False], [True] * 4])

CONSTANTS = {
    "zero": np.zeros(N_FEATURES),
    "mean": np.array([0.5, -1.0, 2.0, 0.25]),
    "learned": np.array([0.5, -1.0, 2.0, 0.25]),
}


@EVERY
def test_observed_inputs_stay_as_they_are(name):
    filled = np.asarray(FILLS[name]()(jnp.asarray(X), jnp.asarray(SEEN)))
    np.testing.assert_array_equal(filled[SEEN], X[SEEN])


@UNSEEING
@pytest.mark.parametrize("content", [jnp.nan, 0.0, 1e9])
def test_missing_inputs_become_the_constants_of_their_columns(name, content):
    stored = jnp.where(SEEN, X, content)
    filled = FILLS[name]()(stored, jnp.asarray(SEEN))
    np.testing.assert_array_equal(filled, np.where(SEEN, X, CONSTANTS[name][None]))


def test_the_oracle_sees_the_truth():
    np.testing.assert_array_equal(FILLS["oracle"]()(jnp.asarray(X), jnp.asarray(SEEN)), X)


@pytest.mark.parametrize(("fill", "learns"), [(MeanFill, False), (LearnedFill, True)])
def test_only_learned_constants_have_a_gradient(fill, learns):
    values = jnp.asarray(CONSTANTS["mean"], jnp.float32)
    gradient = jax.grad(lambda v: jnp.sum(fill(v)(jnp.asarray(X), jnp.asarray(SEEN))))(values)
    missing = (~SEEN).sum(0)  # the sum over the filled cells moves by one for each missing cell
    np.testing.assert_array_equal(gradient, missing if learns else 0)


def test_the_encoder_cannot_read_missing_cells():
    model = dense_autoencoder(
        OBSERVATIONS["positive"](),  # whose inputs, logarithms, are NaN for a missing 0 or -1
        n_latent=2,
        n_hidden=4,
        n_layers=1,
        fill=FILLS["learned"](),
        indicator=True,
        key=jax.random.key(0),
    )
    x = possible_rows("positive")

    @eqx.filter_jit
    def everything(model, x):
        def total(model):
            z = model.propose(x, jnp.asarray(SEEN)).sample(jax.random.key(1), 2)
            eta = model.generative.decode(z)
            return jnp.sum(z**2) + jnp.sum(model.log_joint(z, eta, x, jnp.asarray(SEEN)))

        return eqx.filter_value_and_grad(total)(model)

    first, *others = (
        jax.tree.leaves(eqx.filter(everything(model, jnp.where(SEEN, x, content)), eqx.is_array))
        for content in (1.0, jnp.nan, 0.0, -1.0, 1e9)
    )
    for other in others:
        for a, b in zip(other, first, strict=True):
            assert np.isfinite(a).all()
            np.testing.assert_array_equal(a, b)
