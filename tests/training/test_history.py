import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from miwae.training import TrainingRecord, initial_state
from miwae.training._history import best_step, with_score
from miwae.training._holdout import HeldOutScore
from small_training import KEY, SMALL, small_autoencoder


def test_a_first_score_that_is_no_number_is_not_the_one_to_beat():
    state = initial_state(small_autoencoder(), SMALL, KEY, n_rows=1)
    for value in (np.nan, -3.0, -2.0):
        score = HeldOutScore(jnp.asarray(value), jnp.asarray(1.0))
        state = with_score(state, score, SMALL)
    assert float(state.reference_score) == -2.0
    assert int(state.waited) == 0


@pytest.mark.parametrize(("monitor", "best"), [("log_density", 12), ("error", 6)])
def test_the_best_step_has_the_best_score_of_the_monitor(monitor, best):
    scores = [(0, np.nan, 0.9), (6, -2.0, 0.3), (12, -1.0, 0.5), (18, -3.0, np.nan)]
    history = [TrainingRecord(step, 0.0, *score, 1.0, 0.0) for step, *score in scores]
    assert best_step(history, dataclasses.replace(SMALL, monitor=monitor)) == best
