"""Tables learned from and completed on a Dask cluster: `pip install miwae[dask]`.

    from miwae import MIWAEImputer, dask

    imputer = dask.fit(MIWAEImputer(random_state=0), "data/")      # a directory of Parquet files
    dask.transform(imputer, "data/", out="completed/")
    completed = dask.transform(imputer, frame)                     # a Dask DataFrame, lazily

What a row gets does not depend on the part it is in, or on the worker: the result is that of a
single process, bit for bit.
"""

import contextlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import distributed
import pyarrow as pa
from dask import config
from dask.delayed import delayed

from miwae import frames
from miwae.documents import Dataset, open_dataset
from miwae.engines import (
    PART_ROWS,
    Outcome,
    Part,
    Parts,
    Worker,
    complete_part,
    complete_parts,
    gathered_from,
    outcome_of,
    parts_of,
    united,
)
from miwae.errors import SettingsError
from miwae.imputer import MIWAEImputer

__all__ = ["fit", "local_client", "transform"]

Callback: TypeAlias = Callable[[int, int], object]


def fit(
    imputer: MIWAEImputer,
    data: Any,
    *,
    client: distributed.Client | None = None,
    batch_rows: int = PART_ROWS,
    sample_rows: int | None = None,
    keys: Iterable[str] = (),
) -> MIWAEImputer:
    """Learn from a table that is in parts what `fit_stream` learns from its rows, bit for bit.

    The workers go through their parts once: for the facts that decide on kinds, and for the
    sample, on which the model is trained in this process.

    Args:
        imputer: is fitted.
        data: a Dask DataFrame; or a Parquet file, or a directory of such files (also a partitioned
            one), which all workers can read.
        client: of the cluster; by default the current client, and without one a cluster on this
            machine, for this call.
        batch_rows: files with more rows than this are cut, between row groups.
        sample_rows: rows that the model is trained on, at most.
        keys: columns that are left out.

    Returns:
        The imputer.
    """
    with _client(client) as own:

        def gather(**known: Any) -> Parts:
            sources, lengths, names = _sources(own, data, batch_rows)
            options = {"sample_rows": sample_rows, "keys": tuple(keys), **known}
            options["names"] = [name for name in names if name not in options["keys"]]
            firsts = [sum(lengths[:i]) for i in range(len(lengths))]
            look = delayed(_looked_at, pure=False)
            found = [look(*pair, **options) for pair in zip(sources, firsts, strict=True)]
            while len(found) > 1:  # neighbours, since the order of rows counts
                found = [_both(*found[i : i + 2]) for i in range(0, len(found), 2)]
            whole: Any = own.compute(found[0], sync=True) if found else None
            return complete_parts(whole)

        return imputer._fit_parts(gather)


def _sources(
    client: distributed.Client, data: Any, batch_rows: int
) -> tuple[list[Any], list[int], Sequence[str]]:
    """The parts of a table, how many rows each has, and the columns."""
    if hasattr(data, "map_partitions"):
        partitions = data.to_delayed()
        lengths = client.compute([delayed(len)(own) for own in partitions])
        return partitions, client.gather(lengths), frames.names(data._meta)  # pyright: ignore
    whole = open_dataset(str(data))
    cuts = whole.cut(batch_rows)
    return cuts, [own.n_rows for own in cuts], whole.schema.names


def _looked_at(
    source: Any, first_row: int, *, keys: tuple[str, ...], **known: Any
) -> Parts | None:
    """What a worker finds out about a part."""
    batches = source.batches() if isinstance(source, Dataset) else [source]
    return gathered_from((_without(own, keys) for own in batches), first_row, **known)


def _without(frame: Any, keys: tuple[str, ...]) -> Any:
    names = frames.names(frame)
    return frames.keep(frame, [i for i, name in enumerate(names) if name not in keys])


def _both(one: Any, *other: Any) -> Any:
    return delayed(united)(one, *other) if other else one


def transform(
    model: Any,
    data: Any,
    *,
    out: str | Path | None = None,
    client: distributed.Client | None = None,
    batch_rows: int = PART_ROWS,
    keys: Iterable[str] = (),
    callback: Callback | None = None,
) -> Any:
    """Complete a table that is in parts, on the workers of a cluster.

    Workers may die, as they do: their parts are completed by others. A part that cannot be read
    does not keep the others from being written. Parts that `out` has already, of the same model
    and the same files, are not completed again: a run that was interrupted is resumed by itself.

    Args:
        model: a fitted imputer, or the path of a model file.
        data: a Dask DataFrame; or a Parquet file, a directory of such files (also a partitioned
            one), or several paths, which all workers can read.
        out: the directory for the completed files, named as those of `data`; all workers can
            write to it. Not for a Dask DataFrame, which comes back as one.
        client: of the cluster; by default the current client, and without one a cluster on this
            machine, for this call.
        batch_rows: files with more rows than this are cut, between row groups.
        keys: columns that the model does not know, to be carried along, as the first ones.
        callback: called with the number of finished rows and of all rows.

    Returns:
        A Dask DataFrame; or for files, which were written, how many rows they have and what
        happened.

    Raises:
        DataError: some parts could not be completed; it names them, and the others are written.
    """
    worker = Worker.of(model, keys)
    if hasattr(data, "map_partitions"):
        if out is not None:
            raise SettingsError("out is for files: write the frame that is returned")
        loaded = delayed(Worker.load)(worker.content, worker.keys)
        return data.map_partitions(_frame, loaded, meta=_frame(data._meta, worker))
    if out is None:
        raise SettingsError("out is needed for files: the directory for the completed ones")
    parts = parts_of(data, out, batch_rows)
    with _client(client) as own:
        return _complete(own, worker, parts, callback)


@contextlib.contextmanager
def _client(client: distributed.Client | None) -> Iterator[distributed.Client]:
    """This client, the current one, or one of a new cluster on this machine."""
    if client is None:
        with contextlib.suppress(ValueError):  # there is none
            client = distributed.get_client()
    if client is not None:
        yield client
        return
    with local_client() as own:
        yield own


@contextlib.contextmanager
def local_client(n_workers: int | None = None, **options: Any) -> Iterator[distributed.Client]:
    """The client of a cluster on this machine, with a process for each core, or so many."""
    options = {
        "n_workers": n_workers,
        "threads_per_worker": 1,
        "dashboard_address": ":0",
        **options,
    }
    with (
        # Dask gives a worker up for ever that has not come back after 15 seconds, which a busy
        # machine may need to start it again.
        config.set({"distributed.deploy.lost-worker-timeout": "1 hour"}),
        distributed.LocalCluster(**options) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.register_plugin(_OwnCore())
        yield client


class _OwnCore(distributed.WorkerPlugin):
    """Each worker has a core, of which its pool of threads is made: they do not share cores."""

    def setup(self, worker: distributed.Worker) -> None:
        if hasattr(os, "sched_setaffinity"):  # Linux
            cores = sorted(os.sched_getaffinity(0))
            os.sched_setaffinity(0, {cores[int(worker.name) % len(cores)]})


def _complete(
    client: distributed.Client, worker: Worker, parts: list[Part], callback: Callback | None
) -> Outcome:
    # A task of its own, which is done again where its worker is lost, rather than scattered data.
    loaded = client.submit(Worker.load, worker.content, worker.keys)
    futures = [client.submit(complete_part, loaded, part, pure=False) for part in parts]
    place = {future.key: i for i, future in enumerate(futures)}
    ends: list[Any] = [None] * len(parts)
    n_done, n_rows = 0, sum(part.n_rows for part in parts)
    try:
        for future in distributed.as_completed(futures):
            i = place[future.key]
            ends[i] = future.exception() or future.result()
            n_done += parts[i].n_rows
            if callback is not None:
                callback(n_done, n_rows)
    finally:
        client.cancel(futures)  # those that an interrupt has left
    return outcome_of(parts, ends)


def _frame(frame: Any, worker: Worker) -> Any:
    """A pandas frame completed, with its own index and types."""
    table = worker(pa.Table.from_pandas(frame, preserve_index=False))
    completed = table.to_pandas().set_axis(frame.index)
    kept = [n for n in completed if n in frame and frame[n].dtype != "category"]
    return completed.astype({name: frame[name].dtype for name in kept})
