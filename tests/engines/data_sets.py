"""Data sets of Parquet files, and what a single process makes of them."""

import hashlib

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from imputer.tables import factor_rows, make, with_holes

N_PARTS = 12


def saved_model(path):
    """A model of three numbers, which has to be sampled from, though it is linear."""
    frame = pd.DataFrame(with_holes(factor_rows(33, 1), 0.15, 1), columns=list("abc"))
    make(n_models=2).fit(frame).save(path)
    return path


def data_set(directory, n_rows=60, n_parts=N_PARTS):
    """Files of a table with holes; the first is empty, and the second has other types."""
    directory.mkdir()
    for k in range(n_parts):
        x = with_holes(factor_rows(n_rows, 10 + k), 0.2, k)[: n_rows if k else 0]
        table = pa.table(
            {"id": np.arange(len(x)) + k * n_rows, **dict(zip("abc", x.T, strict=True))}
        )
        if k == 1:
            table = table.select(["c", "id", "a"]).append_column("b", pa.nulls(n_rows))
        pq.write_table(table, directory / f"part-{k:02}.parquet", row_group_size=25)
    return directory


def completed_by(worker, directory):
    """The files of a data set, completed here and now."""
    files = sorted(directory.rglob("*.parquet"))
    return [worker(pq.ParquetFile(file).read()) for file in files]


def digest(tables):
    """Of all cells and types, in order."""
    found = hashlib.sha256()
    for table in tables:
        with pa.ipc.new_stream(sink := pa.BufferOutputStream(), table.schema) as stream:
            stream.write_table(table.combine_chunks())
        found.update(sink.getvalue())
    return found.hexdigest()


def read(directory):
    files = sorted(directory.rglob("*.parquet"))
    return [pq.ParquetFile(file).read().replace_schema_metadata() for file in files]
