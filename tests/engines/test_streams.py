"""Tables learned and completed batch by batch, as they are learned and completed as a whole."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from engines.test_worker import mixed
from imputer.tables import make
from miwae import DataError, SettingsError

FRAME = mixed().assign(row=np.arange(33))
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)
CUTS = {"whole": 33, "halves": 17, "tens": 10, "sevens": 7, "threes": 3}


def pieces(size, frame=FRAME):
    return [frame.iloc[start : start + size] for start in range(0, len(frame), size)]


@pytest.fixture(scope="module")
def fitted():
    return make().fit(FRAME)


@pytest.fixture(scope="module")
def completed(fitted):
    return fitted.transform(FRAME)


@pytest.mark.parametrize("size", CUTS.values(), ids=CUTS)
def test_the_cut_of_the_rows_changes_no_bit_of_a_model(size, fitted, completed):
    own = make().fit_stream(iter(pieces(size)))
    assert own.schema_ == fitted.schema_
    assert own.events_ == fitted.events_
    pd.testing.assert_frame_equal(own.transform(FRAME), completed, check_exact=True)


@pytest.mark.parametrize("size", CUTS.values(), ids=CUTS)
def test_the_cut_changes_no_bit_of_a_model_of_a_sample(size):
    own = make().fit_stream(pieces(size), sample_rows=20)
    whole = make().fit_stream([FRAME], sample_rows=20)
    assert own.schema_ == whole.schema_
    assert own.events_[-1] == whole.events_[-1]
    assert own.events_[-1].count == 13
    assert "sample of 33" in own.events_[-1].text
    pd.testing.assert_frame_equal(own.transform(FRAME), whole.transform(FRAME), check_exact=True)


def test_batches_can_be_frames_of_any_library_or_sources_of_them(tmp_path, completed):
    pq.write_table(TABLE, tmp_path / "a.parquet", row_group_size=8)
    sources = {
        "a frame": FRAME,
        "a data set": ds.dataset(tmp_path, format="parquet"),
        "a reader": pa.RecordBatchReader.from_batches(TABLE.schema, TABLE.to_batches(9)),
        "record batches": TABLE.to_batches(5),
    }
    for name, source in sources.items():
        own = make().fit_stream(source)
        done = pa.concat_tables(own.transform_stream(TABLE.to_batches(4)))
        expected = TABLE.from_pandas(completed, preserve_index=False)
        assert done.to_pylist() == expected.to_pylist(), name


def test_batches_of_polars_give_the_model_of_the_whole_frame():
    whole = pl.from_arrow(TABLE)
    own, expected = make().fit_stream(whole.iter_slices(7)), make().fit(whole)
    assert own.transform(whole).equals(expected.transform(whole))
    lazy = make().fit_stream(whole.lazy())
    assert lazy.schema_ == expected.schema_
    assert pl.concat(lazy.transform_stream(whole.lazy())).equals(expected.transform(whole))


def test_frames_come_out_one_by_one_in_their_own_library(fitted, completed):
    parts = [*pieces(20), FRAME.iloc[:0]]
    done = list(fitted.transform_stream(iter(parts)))
    assert [len(own) for own in done] == [20, 13, 0]
    pd.testing.assert_frame_equal(pd.concat(done[:2]), completed, check_exact=True)


def test_tables_of_arrow_have_the_output_schema(fitted):
    own = TABLE.drop_columns("big").append_column("big", pa.nulls(33))
    done = list(fitted.transform_stream([TABLE.slice(0, 0), own]))
    assert [part.schema for part in done] == [fitted.output_schema_]
    assert done[0].num_rows == 33
    assert done[0]["big"].null_count == 0


def test_parts_may_have_their_columns_in_another_order(fitted):
    one, two = pieces(17)
    own = make().fit_stream([one, two[two.columns[::-1]]])
    assert own.schema_ == fitted.schema_


def test_types_of_parts_are_united():
    whole = pd.DataFrame({"a": [1, 2, 3, 4], "b": [0.5, 1.5, 2.5, 9.5]})
    parts = [whole[:2], whole[2:].astype({"a": float})]
    own = make().fit_stream(map(pa.Table.from_pandas, [p.reset_index(drop=True) for p in parts]))
    assert own.output_schema_.field("a").type == pa.float64()


def test_other_columns_and_nothing_to_learn_from_are_refused():
    with pytest.raises(DataError, match="a part has the columns size, but the first has size, v"):
        make().fit_stream([FRAME, FRAME[["size"]]])
    with pytest.raises(DataError, match="nothing to learn from"):
        make().fit_stream([FRAME[:0]])
    with pytest.raises(SettingsError, match="sample_rows"):
        make().fit_stream([FRAME], sample_rows=0)


def test_an_infinite_value_outside_of_the_sample_is_found():
    frame = pd.DataFrame({"a": [*np.arange(1.0, 40), np.inf], "b": np.arange(40.0)[::-1] ** 2})
    with pytest.raises(DataError, match=r"'a' has 1 infinite value|the value inf"):
        make().fit_stream([frame], sample_rows=10)
