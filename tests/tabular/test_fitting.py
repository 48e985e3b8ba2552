"""Fitting: the linear core first, the deep model from there, more rows later."""

import dataclasses

import jax
import numpy as np
import pytest

from miwae.model import MixedColumns
from miwae.tabular import _fitting
from miwae.tabular._fitting import update_model
from tabular.small_tables import MODEL, OBSERVED, TRAINING, X, fitted


@pytest.fixture(scope="module")
def model():
    return fitted(X, OBSERVED)


def test_columns_that_follow_from_others_get_a_low_floor():
    """Two copies of one column up to a little noise, and a column of its own."""
    rng = np.random.default_rng(0)
    first = rng.normal(size=300)
    x = np.stack([first, first + 0.01 * rng.normal(size=300), rng.normal(size=300)], axis=1)
    observed = rng.random(x.shape) < 0.9
    observed[:, 2] = True
    floors = fitted(x.astype(np.float32), observed).autoencoder.generative.observation.floor
    assert max(floors[0], floors[1]) < floors[2] / 2


def test_too_few_cells_leave_the_model_linear():
    model = fitted(X[:20], OBSERVED[:20])
    assert model.history == ()
    assert "the model stays linear" in model.events[0]
    last = model.autoencoder.generative.decoder.network.layers[-1]
    assert not np.asarray(last.weight).any()


def test_more_rows_are_learned_from(model):
    more = update_model(model, *MODEL.padded(X[:70], OBSERVED[:70]), settings=TRAINING)
    assert int(more.state.step) == int(model.state.step) + 2
    assert len(more.history) == len(model.history) + 1
    before = model.autoencoder.generative.decoder.linear.weight
    assert not np.array_equal(before, more.autoencoder.generative.decoder.linear.weight)


def test_many_rows_leave_no_column_without_a_cell(monkeypatch):
    monkeypatch.setattr(_fitting, "CORE_ROWS", 5)
    observed = np.ones((100, 2), dtype=bool)
    observed[:, 1] = False
    observed[77, 1] = True
    rows = _fitting._core_rows(observed, jax.random.key(0))
    assert 77 in rows
    assert len(rows) in (5, 6)


def test_the_time_of_the_linear_core_is_part_of_the_time_allowed(monkeypatch):
    now = [1_000.0]

    def slow_core(*arguments, **options):
        now[0] += 30
        return linear_core(*arguments, **options)

    def recorded(*_, settings, **__):
        raise InterruptedError(settings.max_seconds)

    linear_core = _fitting.linear_core
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    monkeypatch.setattr(_fitting, "linear_core", slow_core)
    monkeypatch.setattr(_fitting, "fit", recorded)
    limited = dataclasses.replace(TRAINING, max_seconds=50.0)
    with pytest.raises(InterruptedError, match="20.0"):
        fitted(X, OBSERVED, settings=limited)


@pytest.mark.parametrize(("slower", "trains"), [(1.0, True), (2.0, False)])
def test_what_compilation_takes_is_part_of_the_time_allowed(monkeypatch, slower, trains):
    monkeypatch.setattr(_fitting, "compilation_time", lambda *_: 6.0)
    limited = dataclasses.replace(TRAINING, max_seconds=10.0)
    model = _fitting._empty_autoencoder(MODEL.observation, _fitting.TableSettings())
    assert _fitting._too_late(model, len(X), limited, slower) is not trains
    assert not _fitting._too_late(model, len(X), TRAINING, slower)


def test_a_second_fit_of_a_similar_shape_compiles_nothing():
    settings = _fitting.TableSettings(max_steps=2, n_models=1)
    table = MODEL.padded(X, OBSERVED)
    training = dataclasses.replace(TRAINING, max_steps=2)
    progress = _fitting.Progressor()
    fit = (MODEL.observation, *table, settings, training, None, progress)
    (model,) = _fitting.fit_ensemble(*fit)
    assert _fitting.compilation_time(model.autoencoder, len(X), training) == 0
    wider = MixedColumns.of([None] * 8, [], 0)
    other = _fitting._empty_autoencoder(wider, settings)
    assert _fitting.compilation_time(other, len(X) + 3, training) == 0
    larger = dataclasses.replace(training, batch_size=7)
    assert _fitting.compilation_time(model.autoencoder, len(X), larger) > 0


@pytest.mark.parametrize("member", [0, 1])
def test_a_bootstrap_sample_sees_every_column(member):
    observed = np.zeros((50, 3), bool)
    observed[:, 0] = True
    observed[7, 1] = observed[11, 2] = True
    settings = _fitting.TableSettings(bootstrap=True, seed=3)
    rows = _fitting._rows_of(member, observed, settings)
    assert observed[rows].any(axis=0).all()
    assert len(np.unique(rows)) < 50 <= len(rows) <= 52
    everything = _fitting._rows_of(member, observed, _fitting.TableSettings())
    np.testing.assert_array_equal(everything, np.arange(50))
