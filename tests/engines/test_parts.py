"""Files of a data set, completed one by one: whole or not at all, and not twice."""

import re

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from engines.data_sets import completed_by, data_set, digest, read, saved_model
from miwae import DataError, SettingsError
from miwae.engines import Worker, _parts, complete_part, outcome_of, parts_of
from miwae.engines._parts import PartDone
from miwae.events import Event


@pytest.fixture(scope="module")
def worker(tmp_path_factory):
    return Worker.load(saved_model(tmp_path_factory.mktemp("model") / "model"), ["id"])


@pytest.fixture(scope="module")
def expected(worker, tmp_path_factory):
    return completed_by(worker, data_set(tmp_path_factory.mktemp("data") / "data"))


@pytest.fixture(autouse=True)
def no_cache_on_disk(monkeypatch):
    """It would be one for the whole process."""
    monkeypatch.setattr(_parts, "_keep_programs", lambda: None)


def run(worker, parts):
    ends = []
    for part in parts:
        try:
            ends.append(complete_part(worker, part))
        except DataError as error:
            ends.append(error)
    return outcome_of(parts, ends)


def test_files_come_out_as_they_are_completed_alone(worker, expected, tmp_path):
    data, out = data_set(tmp_path / "data"), tmp_path / "out"
    outcome = run(worker, parts_of(data, out))
    assert [file.name for file in sorted(out.iterdir())] == [
        f"part-{k:02}.parquet" for k in range(12)
    ]
    assert outcome.n_rows == 11 * 60
    assert {str(table.schema) for table in read(out)} == {str(expected[0].schema)}
    assert digest(read(out)) == digest(expected)


def test_long_files_are_cut_between_row_groups(worker, expected, tmp_path):
    data, out = data_set(tmp_path / "data"), tmp_path / "out"
    parts = parts_of(data / "part-03.parquet", out, part_rows=30)
    assert [part.groups for part in parts] == [(0, 1), (1, 2), (2, 3)]
    assert [part.n_rows for part in parts] == [25, 25, 10]
    run(worker, parts)
    assert [file.name for file in sorted(out.iterdir())] == [
        f"part-03-000{k}.parquet" for k in range(3)
    ]
    assert pa.concat_tables(read(out)).equals(expected[3])
    groups = [part.groups for part in parts_of(data, tmp_path / "other", 50)]
    assert groups[:5] == [(0, 1), (0, 2), (2, 3), (0, 2), (2, 3)]


def test_parts_that_are_there_are_kept_unless_file_or_model_have_changed(worker, tmp_path):
    data, out = data_set(tmp_path / "data", n_parts=3), tmp_path / "out"
    parts = parts_of(data, out)
    assert run(worker, parts).n_kept == 0
    before = {path: path.stat().st_mtime_ns for path in out.iterdir()}
    assert run(worker, parts_of(data, out)).n_kept == 3
    assert {path: path.stat().st_mtime_ns for path in out.iterdir()} == before
    changed = pq.read_table(data / "part-02.parquet").slice(1)
    pq.write_table(changed, data / "part-02.parquet")
    assert run(worker, parts_of(data, out)).n_kept == 2
    assert read(out)[2].num_rows == changed.num_rows
    other = Worker(worker.fitted, worker.extra, ())
    (data / "part-00.parquet").unlink()
    with pytest.raises(DataError, match="out holds other files, such as .*part-00.parquet"):
        parts_of(data, out)
    with pytest.raises(DataError, match="unknown id"):
        run(other, parts_of(data / "part-01.parquet", tmp_path / "other"))


def test_what_cannot_be_read_is_named_and_the_others_are_written(worker, tmp_path):
    data, out = data_set(tmp_path / "data", n_parts=4), tmp_path / "out"
    (data / "part-01.parquet").write_bytes(b"PAR1 no table PAR1")
    content = bytearray((data / "part-02.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    (data / "part-02.parquet").write_bytes(content)
    with pytest.raises(DataError) as raised:
        run(worker, parts_of(data, out))
    for name in ("part-01", "part-02"):
        assert re.search(rf"{name}.parquet[^;]* cannot be read: ", str(raised.value))
    assert str(raised.value).endswith("; 2 parts of 4 were written, and are kept by another run")
    assert sorted(file.name for file in out.iterdir()) == ["part-00.parquet", "part-03.parquet"]


def test_partitioned_data_sets_keep_their_directories(tmp_path, worker, expected):
    """Columns that stand in the names of directories are used, and not written."""
    for k, text in enumerate(["c=3", "c=__HIVE_DEFAULT_PARTITION__"]):
        (tmp_path / "data" / "year=2024" / text).mkdir(parents=True)
        table = pa.table({"id": [1, 2], "a": [1.0, None], "b": [None, 0.5]})
        pq.write_table(table, tmp_path / "data" / "year=2024" / text / f"{k}.parquet")
    out = tmp_path / "out"
    run(worker, parts_of(tmp_path / "data", out))
    assert [str(f.relative_to(out)) for f in sorted(out.rglob("*.parquet"))] == [
        "year=2024/c=3/0.parquet",
        "year=2024/c=__HIVE_DEFAULT_PARTITION__/1.parquet",
    ]
    three = worker(pa.table({"id": [1, 2], "a": [1.0, None], "b": [None, 0.5], "c": [3.0, 3.0]}))
    assert read(out)[0].equals(three.drop_columns("c"))
    none = worker(pa.table({"id": [1, 2], "a": [1.0, None], "b": [None, 0.5], "c": pa.nulls(2)}))
    assert read(out)[1].equals(none.drop_columns("c"))


def test_an_event_about_a_cell_names_its_file_and_its_row(worker, tmp_path):
    path = data_set(tmp_path / "data", n_parts=2) / "part-00.parquet"
    rows = np.arange(60.0)
    rows[57] = 1e12
    pq.write_table(
        pa.table({"id": rows, "a": rows, "b": rows, "c": rows}), path, row_group_size=25
    )
    events = run(worker, parts_of(path, tmp_path / "out", part_rows=30)).events
    texts = [event.text for event in events if "1000000000000" in event.text]
    begin = f"{path}: column 'a': the value 1000000000000 in row 57 is impossible"
    assert texts[0].startswith(begin), events


def test_wrong_paths_are_refused(tmp_path):
    (tmp_path / "data").mkdir()
    with pytest.raises(DataError, match="there is no Parquet file"):
        parts_of(tmp_path / "data", tmp_path / "out")
    with pytest.raises(DataError, match="there is no Parquet file"):
        parts_of(tmp_path / "data" / "x.parquet", tmp_path / "out")
    with pytest.raises(SettingsError, match="is inside the data"):
        parts_of(tmp_path / "data", tmp_path / "data" / "out")
    for name in ("one", "two"):
        data_set(tmp_path / name, n_parts=1)
    with pytest.raises(DataError, match="two files have the same name"):
        parts_of([tmp_path / "one", tmp_path / "two"], tmp_path / "out")


def test_hidden_files_are_no_parts(tmp_path):
    data = data_set(tmp_path / "data", n_parts=2)
    (data / "_temporary").mkdir()
    for name in ("_SUCCESS.parquet", ".part.parquet", "_temporary/part.parquet"):
        (data / name).write_bytes(b"")
    assert len(parts_of(data, tmp_path / "out")) == 2


def test_events_of_many_parts_are_told_once():
    event = Event("value", "a", 2, "two values")
    done = [PartDone(5, (event,)), PartDone(5, (event, event._replace(column="b"))), PartDone(5)]
    outcome = outcome_of(parts=[_parts.Part(str(k), str(k)) for k in range(3)], ends=done)
    assert outcome.events == (
        Event("value", "a", 4, "two values (the same in 1 other part)"),
        Event("value", "b", 2, "two values"),
    )
    assert outcome.n_rows == 15
