"""Imputing files that are too large for memory: learned in one pass, completed in pieces."""

import contextlib
import os
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from miwae._atomic import write_atomically
from miwae._words import counted
from miwae.cli import _options as options
from miwae.cli._options import Roles, Texts
from miwae.cli._report import Report, Reporter
from miwae.cli._source import keep_programs
from miwae.documents import MANY_ROWS, Dataset, is_parquet, open_dataset
from miwae.errors import DataError, SettingsError

if TYPE_CHECKING:
    from miwae.engines import Run, Worker


class Asked(NamedTuple):
    """The options that hold for files of any size."""

    model: str | None
    kind: Texts
    bounds: Texts
    roles: Roles
    na: Texts
    settings: Mapping[str, Any]  # of the training, None for what was not chosen
    seed: int | None


def streamed(source: str, *, resume: bool) -> Dataset | None:
    """The data set, if it is completed in pieces: Parquet, a directory of it or large."""
    if source == "-" or not is_parquet(source):
        if resume:
            raise SettingsError("--resume is for Parquet files and directories of them")
        return None
    if os.path.isdir(source) or resume:
        return open_dataset(source)
    with contextlib.suppress(DataError):  # which reading it as a whole will explain
        found = open_dataset(source)
        return found if found.n_rows > MANY_ROWS else None
    return None


def require_streamable(output: str, others: Mapping[str, Any]) -> None:
    """Refuse what needs the table as a whole."""
    if output == "-":
        raise SettingsError("so large a table goes to a file or a directory: -o OUT")
    if asked := [name for name, value in others.items() if value]:
        raise SettingsError(
            f"{', '.join(asked)}: not for tables that are completed in pieces (directories, and "
            f"Parquet files of more than {MANY_ROWS:,} rows)"
        )


def impute_in_pieces(
    dataset: Dataset, output: str, asked: Asked, reporter: Reporter, *, resume: bool
) -> None:
    from miwae.engines import Run, Worker, digest_of

    keep_programs()
    known = {**asked._asdict(), "roles": list(asked.roles)}
    if asked.model is not None:
        known["model"] = digest_of(asked.model)
    run = Run.begin(dataset, output, known, resume=resume)
    events = []
    try:
        if not run.model.exists():
            _provide_model(run, asked, reporter)
        worker = Worker.load(run.model)
        with reporter.progress() as progress:
            show = progress.rows("imputing") or (lambda done, total: None)
            events += run.complete(worker, lambda done: show(done, dataset.n_rows))
        run.finish()
    except BaseException:
        if run.directory.exists() and reporter.shows_text:
            sys.stderr.write(f"finished pieces are in {run.directory}: --resume goes on\n")
        raise
    _report(run, worker, events, reporter)


def _provide_model(run: "Run", asked: Asked, reporter: Reporter) -> None:
    """The model that was given, or one that is learned now."""
    if asked.model is not None:
        with open(asked.model, "rb") as file:
            content = file.read()
        write_atomically(str(run.model), lambda out: out.write(content))
        return
    from miwae.engines import gathered, learned
    from miwae.tabular import TableSettings

    dataset, marks = run.dataset, options.marks_of(asked.na)
    chosen = {name: value for name, value in asked.settings.items() if value is not None}
    settings = TableSettings(**chosen, seed=options.table_seed(asked.seed or 0))
    user = {
        "column_kinds": options.kinds_and_orders(asked.kind)[0],
        "bounds": options.limits_of(asked.bounds),
        "roles": options.roles_of(dataset.schema.names, asked.roles),
        "not_applicable": options.conditions_of(asked.roles),
    }
    with reporter.progress() as progress:
        show = progress.rows("reading") or (lambda done, total: None)
        count = lambda done: show(done, dataset.n_rows)  # noqa: E731
        parts = gathered(dataset.batches(), settings.seed, marks, callback=count)
        fitted = learned(parts, settings, asked=user, marks=marks, progress=progress)
    fitted.save(run.model)


def _report(run: "Run", worker: "Worker", events: list[Any], reporter: Reporter) -> None:
    n_rows, n_files = run.dataset.n_rows, len(run.dataset.files)
    fitted = worker.fitted
    data = {
        "file": str(run.dataset.path),
        "rows": n_rows,
        "files": n_files,
        "columns": [
            {"name": c.name, "kind": c.kind.label, "reason": c.reason}
            for c in fitted.schema.columns
        ],
        "quality": fitted.quality.as_data(),
    }
    parts = [f"completed {counted(n_rows, 'row')} of {counted(n_files, 'file')}"]
    reporter.finish(Report(data, parts, [*fitted.events, *events], fitted.quality))
