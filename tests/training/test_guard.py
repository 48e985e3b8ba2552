import dataclasses
from functools import partial

import equinox as eqx
import jax.numpy as jnp
import pytest

from miwae.errors import DivergenceError
from miwae.inference._likelihood import log_likelihood
from miwae.model import Normal
from miwae.model._build import dense_autoencoder, linear_autoencoder, linear_core
from miwae.training import _loop as loop
from miwae.training import fit
from miwae.training._guard import Guard
from small_training import FINISHED, KEY, OBSERVED, SMALL, X, assert_equal, small_autoencoder


def broken_after(n_calls, monkeypatch):
    """From the given chunk on, training meets NaN unless the step has been halved often enough."""
    original, calls = loop.training_program, []

    def take_steps(settings, state, *rows_and_steps):
        new, n_steps = original(settings)(state, *rows_and_steps), rows_and_steps[-1]
        if int(n_steps) == 0:  # only compiled
            return new
        calls.append(float(state.step_scale))
        if len(calls) > n_calls and float(state.step_scale) > 0.3:
            return new._replace(bound=jnp.asarray(jnp.nan), finite=jnp.asarray(False))
        return new

    monkeypatch.setattr(loop, "training_program", lambda settings: partial(take_steps, settings))
    return calls


def test_a_run_that_meets_nan_goes_back_with_a_smaller_step(monkeypatch):
    calls = broken_after(1, monkeypatch)
    result = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    assert calls[:4] == [1.0, 1.0, 0.5, 0.25]
    assert [record.step for record in result.history] == [6, 12, 18, 24]
    assert sum("went back and halved the step" in event for event in result.events) == 2


def test_a_run_that_cannot_be_saved_stops_with_an_error(monkeypatch):
    broken_after(1, monkeypatch)
    settings = dataclasses.replace(SMALL, max_rollbacks=1)
    with pytest.raises(DivergenceError, match="between steps 6 and 12"):
        fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)


def test_a_run_with_rollbacks_ends_alike_after_an_interruption(monkeypatch, tmp_path):
    original = loop.training_program

    def take_steps(settings, state, *rows_and_steps):
        new, n_steps = original(settings)(state, *rows_and_steps), rows_and_steps[-1]
        largest = {6: 0.6, 12: 0.3}.get(int(state.step), 1.0)
        fails = int(n_steps) > 0 and float(state.step_scale) > largest
        return new._replace(finite=jnp.asarray(False)) if fails else new

    monkeypatch.setattr(loop, "training_program", lambda settings: partial(take_steps, settings))
    whole = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY)
    assert sum("went back" in event for event in whole.events) == 2
    half = dataclasses.replace(SMALL, max_steps=12)
    path = tmp_path / "run.safetensors"
    fit(small_autoencoder(), X, OBSERVED, settings=half, key=KEY, checkpoint=path)
    resumed = fit(small_autoencoder(), X, OBSERVED, settings=SMALL, key=KEY, checkpoint=path)
    assert_equal(whole.state, resumed.state)
    assert resumed.events == whole.events


def test_a_run_that_blows_up_at_once_goes_back_to_its_start():
    observation = Normal(5)
    core = linear_core(observation, X, OBSERVED, n_latent=2)
    start = linear_autoencoder(observation, core, n_hidden=8, n_layers=1, key=KEY)
    wild = dataclasses.replace(SMALL, learning_rate=1.5, max_rollbacks=20, clip=1e9)
    result = fit(start, X, OBSERVED, settings=wild, key=KEY)
    assert "went back and halved the step" in result.events[0]
    assert "between steps 0 and 6" in result.events[0]
    assert result.history[0].bound > -100


def test_real_nan_and_real_divergence_are_noticed():
    bad = eqx.tree_at(
        lambda a: a.generative.decoder.layers[-1].bias, small_autoencoder(), jnp.full(15, jnp.nan)
    )
    with pytest.raises(DivergenceError, match="not finite"):
        fit(bad, X, OBSERVED, settings=SMALL, key=KEY)
    wild = dataclasses.replace(SMALL, learning_rate=1e4, max_steps=200, divergence=5.0)
    with pytest.raises(DivergenceError, match=r"learning_rate \(now 10000\)"):
        fit(small_autoencoder(), X, OBSERVED, settings=wild, key=KEY)


def test_one_strange_row_is_no_divergence():
    """A normal density has no limit: one row would be worth more than all others together."""
    x, observed = X.copy(), OBSERVED.copy()
    x[7], observed[7] = 1e5, True
    start = dense_autoencoder(Normal(5), n_latent=2, n_hidden=8, n_layers=1, key=KEY)
    alone = log_likelihood(start, x[7:8], observed[7:8], key=KEY, n_samples=4).log_prob
    assert alone < -1e9
    result = fit(start, x, observed, settings=SMALL, key=KEY)
    assert result.events == ("stopped after 24 steps, the most allowed",)
    # Of a chunk's 300 rows two at most are this one, with five cells.
    assert min(record.bound for record in result.history) > -20 - 2 * 500 / 300


def test_last_steps_that_diverge_are_not_kept(monkeypatch):
    settings = dataclasses.replace(FINISHED, finish=0.0)
    judged = fit(small_autoencoder(), X, OBSERVED, settings=settings, key=KEY)
    is_good = Guard.is_good
    calls = []

    def bad_at_last(guard, new):
        calls.append(new)
        return is_good(guard, new) and len(calls) < len(judged.history)

    monkeypatch.setattr(Guard, "is_good", bad_at_last)
    finished = fit(small_autoencoder(), X, OBSERVED, settings=FINISHED, key=KEY)
    assert finished.events[-1].endswith("training diverged with them")
    assert_equal(finished.autoencoder, judged.autoencoder)
