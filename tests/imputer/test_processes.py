"""One imputer in several threads, and in processes that were forked."""

import os
import subprocess
import sys
import threading

import numpy as np
import pytest

from imputer.tables import make, same_bits
from miwae import _threads
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
    monkeypatch.setattr(_threads, "_forked", True)
    with pytest.raises(MiwaeError, match="forked .*'spawn'.*'loky'"):
        getattr(imputer, method)(frame)


# A server that loads a model and then forks its workers, and one that forks them before.
SERVER = """
import os, sys
import numpy as np
from miwae import MIWAEImputer
from miwae.errors import MiwaeError
from miwae.model import check_data

if sys.argv[1] == "late":
    imputer = MIWAEImputer.load(sys.argv[2])
if os.fork() == 0:
    if sys.argv[1] == "early":
        imputer = MIWAEImputer.load(sys.argv[2])
    autoencoder = imputer._fitted.table.models[0].autoencoder
    n_features = autoencoder.generative.observation.n_features
    row = [[1.0, np.nan, 0.0, 1.0]]
    calls = (imputer.transform, row), (check_data, autoencoder, np.ones((1, n_features)))
    for function, *arguments in calls:
        try:
            function(*arguments)
            print("worked", flush=True)
        except MiwaeError as error:
            print("forked" in str(error), flush=True)
    os._exit(0)
os.wait()
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
@pytest.mark.parametrize(("moment", "said"), [("late", "True"), ("early", "worked")])
def test_a_worker_that_is_forked_too_late_is_refused(tmp_path, moment, said):
    x = np.random.default_rng(0).normal(size=(12, 4))
    make(max_steps=2).fit(x).save(tmp_path / "model")
    command = [sys.executable, "-W", "ignore", "-c", SERVER, moment, str(tmp_path / "model")]
    run = subprocess.run(command, capture_output=True, text=True, timeout=240, check=True)
    assert run.stdout.split() == [said, said]
