"""One imputer in several threads, and in processes that were forked."""

import os
import threading

import pytest

from imputer.tables import make, same_bits
from miwae.errors import MiwaeError


def test_a_table_transformed_during_a_refit_is_that_of_the_old_or_the_new_model(trained):
    frame, imputer = trained
    before = imputer.transform(frame)
    other = {"random_state": 1, "n_models": 2, "max_steps": 60, "n_imputation_samples": 500}
    after = make(**other).fit(frame).transform(frame)
    assert not same_bits(before, after)
    completed, ended = [], threading.Event()

    def transform() -> None:
        while not ended.is_set():
            completed.append(imputer.transform(frame))

    thread = threading.Thread(target=transform)
    thread.start()
    try:
        imputer.set_params(**other).fit(frame)
    finally:
        ended.set()
        thread.join()
    assert completed
    assert all(same_bits(own, before) or same_bits(own, after) for own in completed)
    assert same_bits(imputer.transform(frame), after)


@pytest.mark.parametrize("method", ["fit", "transform", "sample", "score_samples", "partial_fit"])
def test_a_fork_of_a_process_that_computes_is_refused_with_the_remedy(linear, monkeypatch, method):
    frame, imputer = linear
    imputer.transform(frame)
    monkeypatch.setattr(os, "getpid", lambda: -1)
    with pytest.raises(MiwaeError, match="forked .*'spawn'.*'loky'"):
        getattr(imputer, method)(frame)
