import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.model import Normal
from miwae.model._build import linear_autoencoder, linear_core
from miwae.training import TrainingSettings, fit
from miwae.training._state import optimizer
from small_training import KEY, OBSERVED, SMALL, X, assert_equal

SETTINGS = TrainingSettings(max_steps=100, learning_rate=0.1, clip=1e9)


def sizes_of_steps(settings, n_steps):
    """With a constant gradient every Adam step has the size of the learning rate."""
    transform = optimizer(settings)
    parameters = jnp.zeros(())
    state, sizes = transform.init(parameters), []
    for _ in range(n_steps):
        update, state = transform.update(jnp.ones(()), state, parameters)
        sizes.append(-float(update))
    return np.array(sizes)


def test_a_constant_schedule_is_constant_after_its_warm_up():
    np.testing.assert_allclose(sizes_of_steps(SETTINGS, 5), 0.1, rtol=1e-4)
    warm = sizes_of_steps(dataclasses.replace(SETTINGS, warmup_steps=4), 8)
    np.testing.assert_allclose(warm, [0, 0.025, 0.05, 0.075, 0.1, 0.1, 0.1, 0.1], rtol=1e-3)


def test_a_cosine_schedule_ends_at_zero():
    sizes = sizes_of_steps(dataclasses.replace(SETTINGS, schedule="cosine"), 100)
    expected = 0.05 * (1 + np.cos(np.pi * np.arange(100) / 100))
    np.testing.assert_allclose(sizes, expected, rtol=1e-3, atol=1e-6)


def test_a_warm_up_must_end_before_the_run():
    with pytest.raises(SettingsError, match=r"warmup_steps \(100\) must be below max_steps"):
        optimizer(dataclasses.replace(SETTINGS, schedule="cosine", warmup_steps=100))


def test_gradients_are_clipped_by_their_norm():
    transform = optimizer(dataclasses.replace(SETTINGS, clip=1.0))
    parameters = jnp.zeros(2)
    small, _ = transform.update(jnp.array([0.6, 0.8]), transform.init(parameters), parameters)
    large, _ = transform.update(jnp.array([60.0, 80.0]), transform.init(parameters), parameters)
    np.testing.assert_allclose(small, large, rtol=1e-5)


def test_weight_decay_leaves_the_linear_core_alone():
    core = linear_core(Normal(5), X, OBSERVED, n_latent=2)
    start = linear_autoencoder(Normal(5), core, n_hidden=8, n_layers=1, key=KEY)
    settings = dataclasses.replace(SMALL, optimizer="adamw", weight_decay=10.0)
    end = fit(start, X, OBSERVED, settings=settings, key=KEY).autoencoder
    assert_equal(end.amortizer.core, start.amortizer.core)
    norm = lambda a: float(jnp.linalg.norm(a.amortizer.encoder.layers[0].weight))  # noqa: E731
    assert norm(end) < 0.9 * norm(start)
