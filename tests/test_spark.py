"""Partitions completed on Spark, whose Python workers die."""

import os
import shutil
import signal
import sys

import numpy as np
import psutil
import pyarrow as pa
import pytest

from engines.data_sets import completed_by, data_set, digest, saved_model
from miwae import DataError
from miwae.engines import Worker

pytestmark = [
    pytest.mark.long,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]

if shutil.which("java") is None:
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)
pyspark = pytest.importorskip("pyspark", reason="pyspark is not installed: make spark")
sql = pytest.importorskip("pyspark.sql")
spark = pytest.importorskip("miwae.spark")


@pytest.fixture(scope="module")
def session():
    options = {
        "spark.master": "local[2, 4]",  # two tasks at once, each tried up to four times
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
    }
    builder = sql.SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYSPARK_PYTHON", sys.executable)  # of the workers
        own = builder.getOrCreate()
        yield own
        own.stop()


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return saved_model(tmp_path_factory.mktemp("model") / "model")


@pytest.fixture
def data(tmp_path):
    directory = data_set(tmp_path / "data")
    for k in range(2):  # the empty one, and the one of other types, which Spark does not read
        (directory / f"part-{k:02}.parquet").unlink()
    return directory


def in_order(frame):
    table = frame.toArrow().sort_by("id")
    return table.cast(pa.schema([pa.field(f.name, f.type) for f in table.schema]))


def expected_of(model, data):
    return pa.concat_tables(completed_by(Worker.load(model, ["id"]), data))


def test_partitions_are_completed_as_by_a_plain_run(session, model, data):
    frame = session.read.parquet(str(data)).select("c", "id", "b", "a")
    completed = spark.transform(model, frame, keys=["id"])
    assert completed.columns == ["id", "a", "b", "c"]
    assert digest([in_order(completed)]) == digest([expected_of(model, data)])


def test_types_of_the_frame_are_kept_and_void_gets_the_learned_one(session, model, data):
    frame = session.read.parquet(str(data)).selectExpr("id", "cast(a as float) a", "b", "null c")
    completed = spark.transform(model, frame, keys=["id"])
    assert [kind for _, kind in completed.dtypes] == ["bigint", "float", "double", "double"]
    table = in_order(completed)
    assert not any(column.null_count or np.isnan(column).any() for column in table.columns[1:])


def test_a_frame_with_other_columns_is_refused_before_anything_runs(session, model, data):
    frame = session.read.parquet(str(data))
    with pytest.raises(DataError, match="unknown id"):
        spark.transform(model, frame)


def test_partitions_survive_workers_that_are_killed(session, model, data, tmp_path):
    """By SIGKILL, after three and after six of twelve partitions, with a task in their hands."""
    started, killed, out = tmp_path / "started", tmp_path / "killed", tmp_path / "out"
    started.mkdir()
    killed.mkdir()

    def kill(batches):
        """In the process before the one with the model; both are children of a daemon."""
        for batch in batches:
            (started / str(pyspark.TaskContext.get().partitionId())).touch()
            # Two run at once, so that all others are finished.
            n_finished, n_killed = len(list(started.iterdir())) - 2, len(list(killed.iterdir()))
            if n_finished >= 3 * (1 + n_killed) and n_killed < 2:
                for other in psutil.Process(os.getppid()).children():
                    if any("jaxlib" in region.path for region in other.memory_maps()):
                        (killed / str(other.pid)).touch()
                        other.send_signal(signal.SIGKILL)
                        break
            yield batch

    frame = session.read.parquet(str(data)).repartition(12)
    before = frame.mapInArrow(kill, frame.schema)
    spark.transform(model, before, keys=["id"]).write.parquet(str(out))
    assert len(list(killed.iterdir())) >= 2  # two tasks can kill at the same time
    assert len(list(out.glob("*.parquet"))) == 12
    completed = session.read.parquet(str(out))
    assert digest([in_order(completed)]) == digest([expected_of(model, data)])
