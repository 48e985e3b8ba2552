import dataclasses

import numpy as np
import pytest

import oracle
from miwae.errors import DataError
from miwae.training import fit_stream, initial_state
from small_training import KEY, MODEL, OBSERVED, SMALL, X, small_autoencoder


def test_online_learning_uses_batches_once_and_of_any_size():
    settings = dataclasses.replace(SMALL, learning_rate=1e-2, batch_size=50)
    state = initial_state(small_autoencoder(), settings, KEY, n_rows=1)
    sizes = [70, 50, 80, 10, 120]
    x, observed = oracle.simulate(MODEL, 50 * sum(sizes), missing=0.3)

    def batches():
        place = 0
        for _ in range(10):
            for size in sizes:
                yield x[place : place + size], observed[place : place + size]
                place += size

    result = fit_stream(state, batches(), settings=settings)
    assert len(result.history) == 50
    assert int(result.state.step) == 10 * (2 + 1 + 2 + 1 + 3)
    first, last = (
        np.mean([r.bound for r in result.history[i]]) for i in (slice(5), slice(-5, 50))
    )
    assert last > first + 1


def test_an_unusual_row_does_not_end_online_learning():
    state = initial_state(small_autoencoder(), SMALL, KEY, n_rows=1)
    strange = np.full((1, 5), 500.0)
    result = fit_stream(state, [X, strange, X], settings=SMALL)
    assert result.history[1].bound < result.history[0].bound - 50
    assert np.isfinite(result.history[2].bound)
    assert result.events == ()


def test_a_row_with_nothing_observed_is_refused_in_a_stream():
    state = initial_state(small_autoencoder(), SMALL, KEY, n_rows=1)
    seen = OBSERVED[:60].copy()
    seen[40] = False
    with pytest.raises(DataError, match="row 40 has no observed cell"):
        fit_stream(state, [(X[:60], seen)], settings=SMALL)
