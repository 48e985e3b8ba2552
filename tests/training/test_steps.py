import dataclasses

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.training import _steps as steps
from miwae.training import fit, initial_state
from small_training import KEY, OBSERVED, SMALL, X, arrays_of, small_autoencoder


def test_the_result_can_be_an_average_of_the_weights():
    """Of those after each step, each with a smaller share than the next."""
    settings = dataclasses.replace(SMALL, averaging=0.9, max_steps=12, evaluate_every=1)
    state = initial_state(small_autoencoder(), settings, KEY, len(X))
    average = weights = arrays_of(state.autoencoder)
    data = (jnp.asarray(X, dtype=jnp.float32), jnp.asarray(OBSERVED), jnp.ones(len(X)))
    for step in range(12):
        state = steps.advance(state, *data, jnp.asarray(len(X)), jnp.asarray(1), settings).state
        weights = arrays_of(state.autoencoder)
        share = max(0.1, 9 / (10 + step))
        average = [a + share * (w - a) for a, w in zip(average, weights, strict=True)]
    result = arrays_of(state.result(settings))
    for ours, expected in zip(result, average, strict=True):
        np.testing.assert_allclose(ours, expected, rtol=1e-5, atol=1e-6)
    assert any(np.abs(a - w).max() > 1e-4 for a, w in zip(result, weights, strict=True))


def test_hidden_inputs_are_others_in_each_step_and_stay_in_the_bound():
    observed = jnp.asarray(OBSERVED)
    settings = dataclasses.replace(SMALL, input_dropout=0.3)
    first, second = (steps._visible(observed, jax.random.key(i), settings) for i in (0, 1))
    assert not (first & ~observed).any()
    assert (first != second).any()
    # About 700 observed cells: a share has a standard deviation of 0.017.
    assert float(first.sum() / observed.sum()) == pytest.approx(0.7, abs=0.08)
    plain = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    hiding = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    assert hiding.history[-1].bound != plain.history[-1].bound
    assert np.isfinite(hiding.history[-1].bound)


def test_every_epoch_visits_rows_in_a_new_order():
    state = initial_state(small_autoencoder(), SMALL, KEY, 200)
    visited = []
    for step in range(8):
        state = eqx.tree_at(lambda s: s.step, state, jnp.asarray(step))
        order, rows = steps._next_rows(state, jnp.asarray(200), 50)
        state = eqx.tree_at(lambda s: s.order, state, order)
        visited.append(np.asarray(rows))
    first, second = np.concatenate(visited[:4]), np.concatenate(visited[4:])
    assert np.array_equal(np.sort(first), np.arange(200))
    assert np.array_equal(np.sort(second), np.arange(200))
    assert not np.array_equal(first, second)


def test_rows_that_pad_are_never_visited():
    state = initial_state(small_autoencoder(), SMALL, KEY, 256)
    for step in range(8):
        state = eqx.tree_at(lambda s: s.step, state, jnp.asarray(step))
        order, rows = steps._next_rows(state, jnp.asarray(200), 50)
        state = eqx.tree_at(lambda s: s.order, state, order)
        assert (np.asarray(rows) < 200).all()
