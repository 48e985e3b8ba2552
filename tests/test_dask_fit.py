"""A model learned from parts on a cluster: the bits of one that is learned from them in a row."""

import distributed
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from engines.data_sets import data_set
from engines.test_worker import mixed
from imputer.tables import make
from miwae import DataError, dask

FRAME = mixed(33)


@pytest.fixture(scope="module")
def client():
    """Two threads of this process: what the parts find out is put together as on machines."""
    options = {"n_workers": 2, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.Client(processes=False, **options) as own:
        yield own


@pytest.fixture
def directory(tmp_path):
    """Files of which one is empty, and one has several row groups and another order of columns."""
    (tmp_path / "data").mkdir()
    table = pa.Table.from_pandas(FRAME, preserve_index=False)
    for k, (start, stop) in enumerate([(0, 9), (9, 9), (9, 30), (30, 33)]):
        own = table.slice(start, stop - start)
        own = own.select(own.column_names[::-1]) if k == 2 else own
        pq.write_table(own, tmp_path / "data" / f"{k}.parquet", row_group_size=7)
    return tmp_path / "data"


def assert_same_model(one, other):
    assert one.schema_ == other.schema_
    assert one.events_ == other.events_
    assert one.output_schema_ == other.output_schema_
    pd.testing.assert_frame_equal(one.transform(FRAME), other.transform(FRAME), check_exact=True)


@pytest.mark.parametrize("sample_rows", [None, 20])
def test_files_give_the_model_of_their_rows(client, directory, sample_rows):
    stream = ds.dataset(directory, format="parquet")
    expected = make().fit_stream(stream, sample_rows=sample_rows)
    options = {"batch_rows": 7, "sample_rows": sample_rows, "client": client}
    assert_same_model(dask.fit(make(), directory, **options), expected)


def test_a_frame_of_dask_gives_the_model_of_its_rows(client):
    frames = pytest.importorskip("dask.dataframe")
    keyed = FRAME.assign(id=np.arange(33))
    own = dask.fit(make(), frames.from_pandas(keyed, npartitions=4), client=client, keys=["id"])
    assert_same_model(own, make().fit(FRAME))


def test_a_part_that_cannot_be_read_is_named(client, tmp_path):
    data = data_set(tmp_path / "data", n_parts=3)
    path = data / "part-02.parquet"
    content = bytearray(path.read_bytes())
    content[4:400] = bytes(396)
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"cannot read .*part-02.parquet"):
        dask.fit(make(), data, client=client, keys=["id"])
