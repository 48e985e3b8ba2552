"""Partitions completed on Spark, whose Python workers die."""

import os
import shutil
import signal

import numpy as np
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
sql = pytest.importorskip("pyspark.sql", reason="pyspark is not installed: make spark")
spark = pytest.importorskip("miwae.spark")


@pytest.fixture(scope="module")
def session():
    options = {
        "spark.master": "local[2]",
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.task.maxFailures": "4",
    }
    builder = sql.SparkSession.builder
    for name, value in options.items():
        builder = builder.config(name, value)
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


def test_partitions_survive_a_worker_that_is_killed(session, model, data, tmp_path):
    """By itself, in the middle of a partition, the first two times."""
    markers = [tmp_path / "one", tmp_path / "two"]

    def die(batches):
        for batch in batches:
            for marker in markers:
                if not marker.exists():
                    marker.touch()
                    os.kill(os.getpid(), signal.SIGKILL)
            yield batch

    frame = session.read.parquet(str(data)).repartition(12)
    before = frame.mapInArrow(die, frame.schema)
    completed = spark.transform(model, before, keys=["id"])
    assert digest([in_order(completed)]) == digest([expected_of(model, data)])
    assert all(marker.exists() for marker in markers)
