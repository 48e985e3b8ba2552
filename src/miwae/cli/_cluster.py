"""`miwae impute data/ --engine dask`: files completed on a cluster."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from miwae._words import counted
from miwae.cli._options import Cluster
from miwae.cli._report import Report, Reporter
from miwae.cli._visible import say
from miwae.errors import DataError, MiwaeError, SettingsError

if TYPE_CHECKING:
    import distributed

# Seconds in which a scheduler answers.
PATIENCE = 30


def impute_on(
    asked: Cluster, source: str, model: str | None, reporter: Reporter, *, refused: bool
) -> None:
    """Complete the files of a directory with a model."""
    if asked.engine != "dask":
        named = "--scheduler and --key need --engine dask"
        raise SettingsError(named if asked.engine is None else "--engine can be dask")
    if model is None or refused:
        raise SettingsError(
            "--engine goes with --model, -o, --scheduler, --key, --json and --quiet, and needs "
            "the first two: learn with 'miwae fit IN -o MODEL'"
        )
    if reporter.output == "-" or Path(reporter.output).is_file():
        raise SettingsError("--engine writes files: -o DIRECTORY")
    if not Path(model).is_file():
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    try:
        from miwae import dask
    except ImportError as error:
        raise MiwaeError(f"--engine dask: {error}; pip install 'miwae[dask]'") from error
    with _client(asked.scheduler, reporter) as client, reporter.progress() as progress:
        done = dask.transform(
            model,
            source,
            out=reporter.output,
            client=client,
            keys=asked.key or (),
            callback=progress.rows("imputing"),
        )
    words = [f"completed {counted(done.n_rows, 'row')} in {counted(len(done.files), 'file')}"]
    if done.n_kept:
        words.append(f"{done.n_kept} of them were there already")
    data = {"rows": done.n_rows, "files": done.files, "kept": done.n_kept}
    reporter.finish(Report(data, words, done.events))


@contextlib.contextmanager
def _client(scheduler: str | None, reporter: Reporter) -> "Iterator[distributed.Client]":
    """Of a cluster that exists, or of one on this machine."""
    import distributed

    from miwae import dask

    if scheduler is None:
        with dask.local_client() as client:
            if reporter.shows_text:
                say(f"a cluster on this machine: {client.dashboard_link}")
            yield client
        return
    try:
        client = distributed.Client(scheduler, timeout=PATIENCE)
    except (OSError, ValueError) as error:
        raise MiwaeError(f"--scheduler {scheduler} does not answer: {error}") from error
    with client:
        yield client
