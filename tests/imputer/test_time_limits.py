"""Time limits are kept, and what they do not allow is said."""

import subprocess
import sys
import time
import warnings

import numpy as np
import pytest

from cli.runs import curved_table, run_alone, succeeded, written
from imputer.tables import make
from miwae import DataWarning
from miwae._deadlines import remaining, share
from miwae.tabular import _fitted

X = np.random.default_rng(0).normal(size=(60, 1)) @ np.ones((1, 4))
X[::7, 0] = np.nan


def test_a_part_of_the_work_gets_its_share_of_the_time(monkeypatch):
    monkeypatch.setattr("time.monotonic", lambda: 100.0)
    assert share(160.0, 1, 3) == 120.0
    assert share(70.0, 1, 3) == 90.0  # it is late already
    assert share(None, 1, 3) is None
    assert (remaining(160.0), remaining(90.0), remaining(None)) == (60.0, 0.0, None)


def test_without_time_for_a_step_the_linear_start_completes_the_table():
    with pytest.warns(DataWarning, match="max_time left no time for a training step") as caught:
        imputer = make(max_time=1e-3).fit(X)
    assert {warning.filename for warning in caught} == {__file__}
    (event,) = [event for event in imputer.events_ if event.about == "time"]
    assert event.text == str(caught[0].message)
    assert imputer.history_ == ()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # compilation takes longer
        completed = imputer.transform(X)
    np.testing.assert_allclose(completed[::7, 0], X[::7, 1], atol=0.3)


def test_many_rows_that_take_longer_are_no_secret(monkeypatch):
    imputer = make().fit(X)
    imputer.max_time = 1e-3
    monkeypatch.setattr(_fitted, "LATE", 0.0)
    with pytest.warns(DataWarning, match=r"max_time was exceeded by \d+ s: .* 9 rows") as caught:
        completed = imputer.transform(X)
    assert {warning.filename for warning in caught} == {__file__}
    assert np.isfinite(completed).all()


@pytest.mark.long
def test_a_run_keeps_its_time_on_a_busy_machine(tmp_path):
    table, limit = written(tmp_path / "in.csv", curved_table()), 30.0
    command = [sys.executable, "-c", "while True: pass"]
    busy = [subprocess.Popen(command) for _ in range(2)]
    try:
        started = time.monotonic()
        options = ("-o", tmp_path / "out.csv", "--max-time", limit)
        run = succeeded(run_alone("impute", table, *options, XDG_CACHE_HOME=str(tmp_path)))
        seconds = time.monotonic() - started
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert seconds <= 1.1 * limit + 3, run.stderr
    assert (tmp_path / "miwae" / "seconds.json").exists()
