"""Tables completed on a Spark cluster: `pip install miwae[spark]`, on the workers as well.

    from miwae import spark

    completed = spark.transform("model.miwae", frame)

What a row gets does not depend on its partition: the rows are those of a single process, bit for
bit.
"""

import functools
import importlib
from collections.abc import Iterable, Iterator
from typing import Any

import pyarrow as pa

from miwae.engines import Worker

__all__ = ["transform"]


def transform(model: Any, df: Any, *, keys: Iterable[str] = ()) -> Any:
    """Complete a DataFrame of Spark, lazily, by `mapInArrow`.

    Args:
        model: a fitted imputer, or the path of a model file, which is sent to the workers.
        df: with the columns that were fitted, in any order.
        keys: columns that the model does not know, to be carried along, as the first ones.

    Returns:
        A DataFrame with the keys and the columns of the model, of the types that they have in
        `df`. A column of the type void gets the learned one.
    """
    worker = Worker.of(model, keys)
    empty = worker(_empty(df))  # refuses other columns before anything is computed

    # Whoever has a frame has Spark; the package is checked where there is none.
    types = importlib.import_module("pyspark.sql.types")
    found = types.StructType([_field(types, df.schema, field) for field in empty.schema])
    wanted = _empty(df.sparkSession.createDataFrame([], found)).schema
    return df.mapInArrow(functools.partial(_complete, worker, wanted), found)


def _complete(
    worker: Worker, wanted: pa.Schema, batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    for part in worker.stream(batches):
        yield from part.table.cast(wanted).to_batches()


def _empty(df: Any) -> pa.Table:
    """No row of a frame, in the types of Arrow that its batches have."""
    return df.limit(0).toArrow()


def _field(types: Any, schema: Any, field: pa.Field) -> Any:
    """A column of the result: of its own type, or of the learned one."""
    own = {known.name: known.dataType for known in schema}.get(field.name)
    if own is None or isinstance(own, types.NullType):
        convert = importlib.import_module("pyspark.sql.pandas.types").from_arrow_type
        arrow = field.type
        own = convert(arrow.value_type if pa.types.is_dictionary(arrow) else arrow)
    return types.StructField(field.name, own, nullable=True)
