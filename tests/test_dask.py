"""Parts completed on a cluster, whose workers die."""

import contextlib
import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from engines.data_sets import N_PARTS, completed_by, data_set, digest, read, saved_model
from imputer.tables import factor_rows, with_holes
from miwae import MiwaeError, MIWAEImputer, SettingsError, dask
from miwae.cli._app import app
from miwae.engines import Worker


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def data(tmp_path):
    return data_set(tmp_path / "data")


@pytest.fixture
def expected(model, data):
    """What a plain run in this process gives."""
    return digest(completed_by(Worker.load(model, ["id"]), data))


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """Makes clusters of processes, whose programs are kept in a directory that is empty."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    with contextlib.ExitStack() as opened:
        yield lambda *n, **options: opened.enter_context(dask.local_client(*n, **options))


def test_parts_survive_two_workers_that_are_killed(model, data, expected, cluster, tmp_path):
    """By SIGKILL, which nobody can catch, in the middle of the next part, on one cold cache."""
    client = cluster(2)
    alive = list(client.run(os.getpid).values())

    def kill(n_done, n_rows):
        if alive and n_done >= 3 * 60 * (3 - len(alive)):
            os.kill(alive.pop(), signal.SIGKILL)

    options = {"client": client, "keys": ["id"], "callback": kill}
    outcome = dask.transform(model, data, out=tmp_path / "out", **options)
    assert not alive
    assert len(outcome.files) == N_PARTS
    assert digest(read(tmp_path / "out")) == expected


def command(model, data, out):
    arguments = ["impute", data, "--model", model, "-o", out, "--engine", "dask", "--key", "id"]
    return [sys.executable, "-m", "miwae", *map(str, arguments)]


def test_a_run_whose_driver_is_killed_goes_on_where_it_stopped(model, cluster, tmp_path):
    data, out = data_set(tmp_path / "data", n_rows=3_000), tmp_path / "out"
    driver = subprocess.Popen(command(model, data, out), stderr=subprocess.DEVNULL)
    while len(list(out.glob("*.parquet"))) < 3:
        assert driver.poll() is None
        time.sleep(0.02)
    driver.kill()
    driver.wait()
    _, _, _, *arguments = command(model, data, out)  # on another cluster
    arguments += ["--scheduler", cluster(1).scheduler.address, "--json"]
    told = json.loads(CliRunner().invoke(app, arguments, catch_exceptions=False).stdout)
    assert 3 <= told["kept"] < N_PARTS
    assert told["rows"] == 11 * 3_000
    assert len(list(out.iterdir())) == N_PARTS  # and nothing that is unfinished
    assert digest(read(out)) == digest(completed_by(Worker.load(model, ["id"]), data))


def hog(marker):
    """Allocate more than a worker may have, the first time."""
    if marker.exists():
        return
    marker.touch()
    held = []
    while True:
        held.append(np.ones(2**23))
        time.sleep(0.05)


def test_parts_survive_a_worker_that_runs_out_of_memory(model, data, expected, cluster, tmp_path):
    client, hogs = cluster(2, memory_limit="1.5GiB"), []

    def ask_for_memory(n_done, n_rows):
        if n_done >= 3 * 60 and not hogs:
            hogs.append(client.submit(hog, tmp_path / "marker", priority=10))

    options = {"client": client, "keys": ["id"], "callback": ask_for_memory}
    dask.transform(model, data, out=tmp_path / "out", **options)
    hogs[0].result()  # which was asked again, after the first worker had been killed
    assert digest(read(tmp_path / "out")) == expected


def test_the_command_names_a_part_that_cannot_be_read_and_writes_the_others(model, data, tmp_path):
    (data / "part-07.parquet").write_bytes(b"PAR1")
    run = subprocess.run(command(model, data, tmp_path / "out"), capture_output=True, check=False)
    assert run.returncode == 1
    assert b"a cluster on this machine: http://" in run.stderr
    last = run.stderr.decode().splitlines()[-1]
    assert last.startswith(f"miwae: {data / 'part-07.parquet'} cannot be read: ")
    assert "11 parts of 12 were written" in last
    (data / "part-07.parquet").unlink()
    assert digest(read(tmp_path / "out")) == digest(completed_by(Worker.load(model, ["id"]), data))


def test_a_frame_of_dask_comes_back_with_its_own_index_and_types(model):
    frames = pytest.importorskip("dask.dataframe")
    x = with_holes(factor_rows(40, 5), 0.2, 5)
    frame = pd.DataFrame(x, columns=list("abc"), index=pd.RangeIndex(100, 140)).assign(id="x")
    frame = frame.astype({"a": "float32"})
    own = frames.from_pandas(frame, npartitions=3)
    completed = dask.transform(model, own, keys=["id"])
    assert completed.dtypes.to_dict() == own[["id", *"abc"]].dtypes.to_dict()
    whole = MIWAEImputer.load(model).transform(frame[list("abc")].astype(float))
    done = completed.compute(scheduler="synchronous")
    expected = whole.assign(id=frame["id"])[["id", *"abc"]].astype(own.dtypes.to_dict())
    pd.testing.assert_frame_equal(done, expected, check_exact=True)
    with pytest.raises(SettingsError, match="out is for files"):
        dask.transform(model, own, out="x")


def test_files_need_a_place_for_the_completed_ones(model, data):
    with pytest.raises(SettingsError, match="out is needed for files"):
        dask.transform(model, data)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--engine", "ray"], "--engine can be dask"),
        (["--scheduler", "tcp://x:1"], "--scheduler and --key need --engine dask"),
        (["--engine", "dask"], "--engine goes with --model"),
        (["--engine", "dask", "--model", "m", "-m", "3"], "--engine goes with --model"),
        (["--engine", "dask", "--model", "m", "--na", "x"], "--engine goes with --model"),
        (["--engine", "dask", "--model", "m"], "--engine writes files: -o DIRECTORY"),
        (["--engine", "dask", "--model", "absent", "-o", "out"], "there is no model absent"),
    ],
)
def test_options_that_do_not_go_together(options, message):
    found = CliRunner().invoke(app, ["impute", "data", *options]).exception
    assert isinstance(found, MiwaeError)
    assert message in str(found)


def test_a_scheduler_that_does_not_answer(model, data, tmp_path, monkeypatch):
    monkeypatch.setattr("miwae.cli._cluster.PATIENCE", 0.2)
    options = ["--engine", "dask", "--scheduler", "tcp://127.0.0.1:9", "--model", str(model)]
    found = CliRunner().invoke(app, ["impute", str(data), *options, "-o", "out"]).exception
    assert isinstance(found, MiwaeError)
    assert "tcp://127.0.0.1:9 does not answer" in str(found)
