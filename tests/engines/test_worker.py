"""Parts of a table completed as the whole table is, in one schema, whatever each looks like."""

import pickle

import cloudpickle
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from imputer.tables import make
from miwae import DataError, FileFormatError, MIWAEImputer
from miwae.engines import Worker, _worker
from miwae.engines._types import schema_of
from miwae.tabular import FittedTable


def mixed(n_rows=33):
    """One factor behind numbers of two sorts, words, flags and days; few cells, so no training."""
    rng = np.random.default_rng(0)
    factor = rng.normal(size=n_rows)
    frame = pd.DataFrame(
        {
            "size": factor,
            "visits": pd.array(rng.poisson(3, n_rows), "Int64"),
            "colour": pd.Categorical(np.where(factor > 0, "red", "blue"), ["red", "blue"]),
            "big": pd.array(factor > 0.3, "boolean"),
            "day": pd.Timestamp("2024-01-01")
            + pd.to_timedelta(rng.integers(300, size=n_rows), "D"),
        }
    )
    return frame.mask(rng.random(frame.shape) < 0.15)


@pytest.fixture(scope="module")
def frame():
    return mixed()


@pytest.fixture(scope="module")
def imputer(frame):
    return make().fit(frame)


@pytest.fixture(scope="module")
def worker(imputer):
    return Worker(*imputer._saved())


@pytest.fixture(scope="module")
def whole(frame):
    return pa.Table.from_pandas(frame, preserve_index=False)


@pytest.fixture(scope="module")
def expected(imputer, frame, worker):
    table = pa.Table.from_pandas(imputer.transform(frame), preserve_index=False)
    return table.cast(worker.schema)


def test_a_part_is_completed_as_the_imputer_completes_it(worker, whole, expected, imputer):
    assert worker(whole).equals(expected)
    assert worker(whole).schema == imputer.output_schema_
    assert [str(t) for t in imputer.output_schema_.types] == [
        "double",
        "int64",
        "dictionary<values=large_string, indices=int8, ordered=0>",
        "bool",
        str(whole.schema.field("day").type),
    ]


def test_record_batches_and_the_parts_of_any_cut_give_the_same(worker, whole, expected):
    batches = whole.to_batches(max_chunksize=5)
    assert pa.concat_tables(map(worker, batches)).equals(expected)
    assert pa.concat_tables(part.table for part in worker.stream(batches)).equals(expected)


def test_empty_parts_have_the_schema(worker, whole):
    empty = whole.slice(0, 0).append_column("id", pa.array([], pa.int32()))
    done = Worker(worker.fitted, worker.extra, ("id",))(empty)
    assert done.num_rows == 0
    assert done.schema == pa.schema([("id", pa.int32()), *worker.schema])


def test_columns_in_another_order_and_keys_that_are_carried_along(worker, whole, expected):
    ids = pa.array([f"row {i}" for i in range(len(whole))])
    part = whole.select(whole.column_names[::-1]).append_column("id", ids)
    with pytest.raises(DataError, match=r"unknown id.*keys=\['id'\] carries"):
        worker(part)
    done = Worker(worker.fitted, worker.extra, ("id",))(part)
    assert done.column_names == ["id", *expected.column_names]
    assert done["id"].combine_chunks().equals(ids)
    assert done.drop_columns("id").equals(expected)
    with pytest.raises(DataError, match="lacks the key id"):
        Worker(worker.fitted, worker.extra, ("id",))(whole)


def replaced(table, name, column):
    return table.set_column(table.column_names.index(name), name, column)


# Columns of other types that hold the same values.
OTHER_TYPES = {
    "whole numbers as floats": ("visits", lambda c: c.cast(pa.float64())),
    "fewer bits": ("visits", lambda c: c.cast(pa.int8())),
    "unsigned": ("visits", lambda c: c.cast(pa.uint16())),
    "plain text": ("colour", lambda c: c.cast(pa.string())),
    "text of another sort": ("colour", lambda c: c.cast(pa.string()).cast(pa.string_view())),
    "a wider dictionary": ("colour", lambda c: c.cast(pa.string()).dictionary_encode()),
    "another unit of time": ("day", lambda c: c.cast(pa.timestamp("s"))),
    "days": ("day", lambda c: c.cast(pa.date32())),
}


@pytest.mark.parametrize("case", OTHER_TYPES)
def test_other_types_that_hold_the_same_values(worker, whole, expected, case):
    name, change = OTHER_TYPES[case]
    part = replaced(whole, name, change(whole[name]))
    assert part.schema != whole.schema
    assert worker(part).equals(expected)


def test_whole_numbers_where_others_have_floats(worker, whole):
    numbers = pa.array([None, *range(1, len(whole))])
    done = worker(replaced(whole, "size", numbers))
    assert done.schema == worker.schema
    assert done["size"].to_pylist()[1:] == [float(i) for i in range(1, len(whole))]
    assert done.equals(worker(replaced(whole, "size", numbers.cast(pa.float64()))))


def test_not_a_number_is_missing_where_whole_numbers_were_learned(worker, whole, expected):
    visits = whole["visits"].cast(pa.float64()).to_pandas(integer_object_nulls=True)
    part = replaced(whole, "visits", pa.array(visits.astype(float).to_numpy(), from_pandas=False))
    assert np.isnan(part["visits"].to_numpy()).any()
    assert worker(part).equals(expected)


def test_columns_of_the_null_type_are_filled_in_the_learned_one(worker, whole):
    for name in whole.column_names:
        done = worker(replaced(whole, name, pa.nulls(len(whole))))
        assert done.schema == worker.schema
        assert done[name].null_count == 0


def test_categories_that_are_absent_come_out_in_the_same_dictionary(worker, whole, expected):
    red = pa.array(["red", None] * 16 + ["red"]).dictionary_encode()
    done = worker(replaced(whole, "colour", red))
    assert done["colour"].chunk(0).dictionary.to_pylist() == ["red", "blue"]
    assert done.schema == expected.schema


def test_an_unseen_category_stays_and_is_reported(worker, whole):
    part = worker.complete(replaced(whole, "colour", pa.array(["green", *["red"] * 32])))
    assert part.table["colour"][0].as_py() == "green"
    assert [e.column for e in part.events if e.about == "value"] == ["colour"]


IMPOSSIBLE = {
    "fractions": ("visits", pa.array([2.5] * 33), r"'visits' is double here, such as 2.5, and"),
    "text": ("size", pa.array(["1"] * 33), "'size' is string here and was learned as double"),
    "numbers": ("colour", pa.array([1] * 33), "'colour' is int64 here"),
    "large": (
        "size",
        pa.array([2**53 + 1] * 33),
        "'size' is int64 here, such as 9007199254740993",
    ),
    "zones": ("day", pa.array([0] * 33, pa.timestamp("us", "UTC")), "'day' is timestamp"),
    "hours": ("day", pa.array([1] * 33, pa.time64("us")), "'day' is time64"),
    "levels": ("colour", pa.array([f"c{i}" for i in range(200)]), "'colour' .* with 202 values"),
}


@pytest.mark.parametrize("case", IMPOSSIBLE)
def test_values_that_the_learned_type_cannot_hold_are_refused_by_name(worker, whole, case):
    name, column, message = IMPOSSIBLE[case]
    part = pa.table(
        {
            c: column if c == name else whole[c].take(pa.array([0] * len(column)))
            for c in whole.column_names
        }
    )
    with pytest.raises(DataError, match=f"{message}.*convert the column, or fit again"):
        worker(part)


def test_a_precision_that_would_be_lost_is_refused(whole, frame):
    narrow = make().fit(frame.astype({"size": "float32"}))
    with pytest.raises(DataError, match="'size' is double here, such as"):
        Worker(*narrow._saved())(whole)


def test_batches_are_filled_with_incomplete_rows(worker, monkeypatch):
    complete = pa.Table.from_pandas(mixed().dropna(), preserve_index=False).slice(0, 1)
    holes = replaced(complete, "size", pa.array([None], pa.float64()))
    parts = [complete, complete, holes] * 20
    sizes = []
    means = FittedTable.means

    def counting(self, table, **options):
        sizes.append((table.n_rows, int(table.needed.sum())))
        return means(self, table, **options)

    monkeypatch.setattr(FittedTable, "means", counting)
    monkeypatch.setattr(_worker, "FULL_ROWS", 8)
    done = [part.table for part in worker.stream(parts)]
    assert sizes == [(24, 8), (24, 8), (12, 4)]
    assert pa.concat_tables(done).equals(pa.concat_tables(map(worker, parts)))


def test_what_is_held_is_bounded_in_bytes(worker, whole, expected, monkeypatch):
    monkeypatch.setattr(_worker, "FULL_BYTES", whole.nbytes // 4)
    done = [part.table for part in worker.stream([whole])]
    assert len(done) >= 4
    assert pa.concat_tables(done).equals(expected)


@pytest.mark.parametrize("dumps", [pickle.dumps, cloudpickle.dumps], ids=["Dask", "Spark"])
def test_a_worker_travels_as_its_model_file_and_is_read_once(worker, whole, expected, dumps):
    content = dumps(Worker(worker.fitted, worker.extra, ("id",)))
    assert b"Autoencoder" not in content  # no code, no classes of models
    one, two = pickle.loads(content), pickle.loads(content)
    assert one.fitted is two.fitted
    assert one.keys == ("id",)
    assert Worker.load(worker.content)(whole).equals(expected)


@pytest.mark.filterwarnings("ignore:columns without any")
def test_indicators_and_empty_columns_as_the_imputer_treats_them(frame):
    own = frame.assign(empty=np.nan)
    for settings in ({"add_indicator": True}, {"keep_empty_features": True}):
        imputer = make(**settings).fit(own)
        done = Worker(*imputer._saved())(pa.Table.from_pandas(own, preserve_index=False))
        assert done.schema == imputer.output_schema_
        assert done.column_names == list(imputer.get_feature_names_out())
        same = pa.Table.from_pandas(imputer.transform(own), preserve_index=False)
        assert done.equals(same.cast(done.schema))


def test_columns_without_names_are_taken_by_position(frame):
    x = frame[["size", "visits"]].astype(float).to_numpy()
    imputer = make().fit(x)
    worker = Worker(*imputer._saved())
    done = worker(pa.table({"a": x[:, 0], "b": x[:, 1]}))
    assert done.column_names == ["x0", "x1"]
    np.testing.assert_array_equal(done["x1"].to_numpy(), imputer.transform(x)[:, 1])
    with pytest.raises(DataError, match="the table has 1 column"):
        worker(pa.table({"a": x[:, 0]}))


def test_the_schema_survives_the_file_and_older_files_have_one_by_storage(
    worker, imputer, tmp_path
):
    imputer.save(tmp_path / "model")
    assert MIWAEImputer.load(tmp_path / "model").output_schema_ == imputer.output_schema_
    assert Worker.load(tmp_path / "model").schema == worker.schema
    by_storage = [str(t) for t in schema_of(worker.fitted.schema, b"").types]
    assert by_storage == ["double", "double", "string", "bool", "timestamp[us]"]


@pytest.mark.parametrize(
    "arrow", [b"no schema", pa.schema([("a", pa.int8())]).serialize().to_pybytes()]
)
def test_damaged_types_are_refused(worker, arrow):
    with pytest.raises(FileFormatError, match="the model is damaged: its types"):
        schema_of(worker.fitted.schema, arrow)


@pytest.mark.parametrize(
    "extra",
    [{"parameters": "many"}, {"parameters": None}, {"parameters": {"add_indicator": []}}],
    ids=str,
)
def test_damaged_parameters_are_refused(imputer, tmp_path, extra):
    imputer._fitted.table.save(tmp_path / "model", extra)
    with pytest.raises(FileFormatError, match="parameters make no sense"):
        Worker.load(tmp_path / "model")
