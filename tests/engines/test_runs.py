"""Parquet files completed in pieces: interrupted, resumed, whole or not there at all."""

import json

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.test_worker import mixed
from imputer.tables import make
from miwae import MiwaeError
from miwae.documents import open_dataset
from miwae.engines import LargeParquet, Run, Worker, _large

FRAME = mixed(40)


@pytest.fixture(scope="module")
def worker():
    return Worker(*make().fit(FRAME)._saved())


@pytest.fixture(autouse=True)
def _small_pieces(monkeypatch):
    monkeypatch.setattr(_large, "PIECE_CELLS", 1)
    monkeypatch.setattr(_large, "LEAST_ROWS", 12)


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "in.parquet"
    pq.write_table(pa.Table.from_pandas(FRAME, preserve_index=False), path, row_group_size=9)
    return path


@pytest.fixture
def directory(tmp_path):
    table = pa.Table.from_pandas(FRAME.assign(kind=np.arange(40) // 25), preserve_index=False)
    pq.write_to_dataset(table, tmp_path / "in", partition_cols=["kind"])
    return tmp_path / "in"


def opened(path):
    return LargeParquet(open_dataset(str(path)))


def finished(run, worker, rows=None):
    list(run.complete(worker, lambda done: rows.append(done) if rows is not None else None))
    run.finish()


def test_a_file_is_completed_by_row_groups(file, tmp_path, worker):
    out, rows = tmp_path / "out.parquet", []
    finished(Run.begin(opened(file), str(out), {}), worker, rows)
    assert pq.read_table(out).to_pylist() == worker(pq.read_table(file)).to_pylist()
    assert pq.read_schema(out).equals(pq.read_schema(file))
    assert rows == [0, 12, 24, 36, 40]
    groups = pq.ParquetFile(out).metadata
    assert [groups.row_group(i).num_rows for i in range(4)] == [12, 12, 12, 4]
    assert groups.row_group(0).column(0).statistics.null_count == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.parquet", "out.parquet"]


def test_a_partitioned_directory_has_the_same_files_as_before(directory, tmp_path):
    data = open_dataset(str(directory))
    table = pa.concat_tables(data.batches())
    own = make().fit(table)
    finished(Run.begin(LargeParquet(data), str(tmp_path / "out"), {}), Worker(*own._saved()))
    done = open_dataset(str(tmp_path / "out"))
    assert done.files == data.files
    assert done.partitions == ("kind",)
    assert pa.concat_tables(done.batches()).to_pylist() == own.transform(table).to_pylist()


def test_rows_in_events_are_those_of_the_file(tmp_path, worker):
    frame = FRAME.copy()
    frame.loc[38, "size"] = 1e12
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), tmp_path / "in.parquet")
    run = Run.begin(opened(tmp_path / "in.parquet"), str(tmp_path / "out.parquet"), {})
    events = list(run.complete(worker, lambda rows: None))
    assert ["1000000000000 in row 38 is impossible" in event.text for event in events] == [True]


def test_an_interrupted_run_goes_on_where_it_was(file, tmp_path, worker):
    data, out = opened(file), tmp_path / "out.parquet"
    run = Run.begin(data, str(out), {"seed": 1})

    def interrupted(rows):
        if rows == 24:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(run.complete(worker, interrupted))
    assert not out.exists()
    with pytest.raises(MiwaeError, match="another input or with other options"):
        Run.begin(data, str(out), {"seed": 2}, resume=True)
    rows = []
    finished(Run.begin(data, str(out), {"seed": 1}, resume=True), worker, rows)
    assert rows == [24, 36, 40]
    assert pq.read_table(out).to_pylist() == worker(pq.read_table(file)).to_pylist()


def test_without_resume_a_run_starts_again(file, tmp_path, worker):
    data, out = opened(file), str(tmp_path / "out.parquet")
    first = Run.begin(data, out, {})
    list(first.complete(worker, lambda rows: None))
    again = Run.begin(data, out, {})
    assert [path.name for path in again.directory.iterdir()] == ["run.json"]
    assert json.loads((again.directory / "run.json").read_text())["pieces"] == 4


def test_nothing_that_somebody_else_has_is_replaced(file, tmp_path):
    data = opened(file)
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine").touch()
    with pytest.raises(MiwaeError, match="not empty"):
        Run.begin(data, str(tmp_path / "out"), {})
    (tmp_path / "other.parquet.parts").mkdir()
    with pytest.raises(MiwaeError, match="holds something else"):
        Run.begin(data, str(tmp_path / "other.parquet"), {})


def test_files_of_other_types_are_read_as_one_table(tmp_path):
    for name, values in {"a": [1, 2], "b": [0.5, None], "c": [None, None]}.items():
        frame = pd.DataFrame({"x": values, "y": [1.5, 2.5]})
        table = pa.Table.from_pandas(frame, preserve_index=False)
        if name == "c":
            table = table.set_column(0, "x", pa.nulls(2)).select(["y", "x"])
        pq.write_table(table, tmp_path / f"{name}.parquet")
    data = open_dataset(str(tmp_path))
    assert data.schema.field("x").type == pa.float64()
    assert pa.concat_tables(data.batches(1))["x"].to_pylist() == [2.0, 0.5, None, None, None]
    assert data.n_rows == 6


def test_dictionaries_are_read_as_one_table_with_text(tmp_path):
    words = pa.array(["red", None, "blue"])
    codes = {"a": words, "b": words.dictionary_encode(), "c": words.cast(pa.large_string())}
    for name, values in codes.items():
        both = {"x": values, "y": words.dictionary_encode()}
        pq.write_table(pa.table(both), tmp_path / f"{name}.parquet")
    data = open_dataset(str(tmp_path))
    table = pa.concat_tables(data.batches())
    assert table["x"].to_pylist() == 3 * words.to_pylist()
    assert pa.types.is_dictionary(data.schema.field("y").type)
