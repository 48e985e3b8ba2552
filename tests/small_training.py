"""A small model, its data and a short run, for the tests of training."""

import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

import oracle
from miwae.model import StudentT
from miwae.model._build import dense_autoencoder
from miwae.training import TrainingSettings

MODEL = oracle.linear_gaussian(n_features=5, n_latent=2)
X, OBSERVED = oracle.simulate(MODEL, 200, missing=0.3)
KEY = jax.random.key(0)
SMALL = TrainingSettings(max_steps=24, evaluate_every=6, n_samples=4, batch_size=50)
FINISHED = dataclasses.replace(
    SMALL, held_out=0.3, monitor="error", patience=None, learning_rate=3e-3, finish=0.5
)


def small_autoencoder(key=KEY, **options):
    return dense_autoencoder(StudentT(5), n_latent=2, n_hidden=8, n_layers=1, key=key, **options)


def arrays_of(tree):
    data = lambda a: jax.random.key_data(a) if jnp.issubdtype(a.dtype, jax.dtypes.prng_key) else a  # noqa: E731
    return [np.asarray(data(leaf)) for leaf in jax.tree.leaves(eqx.filter(tree, eqx.is_array))]


def assert_equal(a, b):
    for left, right in zip(arrays_of(a), arrays_of(b), strict=True):
        assert np.array_equal(left, right)
