"""Imputing files that are too large for memory: learned in one pass, completed in pieces."""

import contextlib
import importlib.util
import os
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from miwae._atomic import write_atomically
from miwae._words import counted
from miwae.cli import _options as options
from miwae.cli._options import Format, Roles, Texts
from miwae.cli._report import Report, Reporter
from miwae.cli._source import keep_programs, text_options
from miwae.cli._visible import say
from miwae.documents import (
    MANY_ROWS,
    is_parquet,
    is_text,
    open_dataset,
    open_large_text,
    suffix_of,
)
from miwae.errors import DataError, SettingsError

if TYPE_CHECKING:
    from miwae._deadlines import Deadline
    from miwae.engines import AbstractLarge, Run, Worker
    from miwae.tabular import FittedTable

# Bytes from which a text file may be too large, by whether it is packed.
LARGE_TEXT = {False: 2**26, True: 2**24}


class Asked(NamedTuple):
    """The options that hold for files of any size."""

    model: str | None
    kind: Texts
    bounds: Texts
    roles: Roles
    form: Format
    settings: Mapping[str, Any]  # of the training, None for what was not chosen
    seed: int | None


def pieces_are_enough(
    source: str, output: str, others: Mapping[str, Any], *, resume: bool
) -> bool:
    """Whether nothing is asked for that needs all rows at once, such as these options.

    Raises:
        SettingsError: it is, of what is never read as a whole.
    """
    needed = [name for name, value in others.items() if value]
    needed += ["standard output"] if output == "-" else []
    if needed and (resume or os.path.isdir(source)):
        raise SettingsError(
            f"{', '.join(needed)}: not for directories and not with --resume, where only pieces "
            "of the table are in memory"
        )
    return not needed


def large_table(
    source: str,
    asked: Asked,
    reporter: Reporter,
    output: str | None = None,
    *,
    resume: bool = False,
) -> "AbstractLarge | None":
    """The table, if only pieces of it should be in memory: a directory, or a large file.

    A file that is completed must also stay a file of the same sort.

    Raises:
        SettingsError: it is no such table, but has to be one.
    """
    out, must = output or source, resume or os.path.isdir(source)
    found = _parquet(source, out, must=must) or _text(source, out, asked, reporter, must=must)
    if resume and found is None:
        raise SettingsError(
            "--resume is for what is completed in pieces: directories of Parquet files, and large "
            "Parquet and text files that stay what they are"
        )
    return found


def _parquet(source: str, output: str, *, must: bool) -> "AbstractLarge | None":
    if not is_parquet(source):
        return None
    is_file = not os.path.isdir(source)
    if is_file and suffix_of(output) != ".parquet":
        return None
    # Reading the file as a whole will explain what is wrong with it.
    with contextlib.nullcontext() if must else contextlib.suppress(DataError):
        dataset = open_dataset(source)
        if not is_file and suffix_of(output) and not os.path.isdir(output):
            raise SettingsError(f"-o {output}: a directory is completed as a directory")
        if must or dataset.n_rows > MANY_ROWS:
            from miwae.engines import LargeParquet

            return LargeParquet(dataset)
    return None


def _text(
    source: str, output: str, asked: Asked, reporter: Reporter, *, must: bool
) -> "AbstractLarge | None":
    if not (os.path.isfile(source) and is_text(source) and is_text(output)):
        return None
    size = os.path.getsize(source)
    small = size < LARGE_TEXT[source.lower().endswith(".gz")] and not must
    if small or importlib.util.find_spec("pyarrow") is None:
        return None
    marks, like = options.marks_of(asked.form.na), None
    if asked.model is not None:
        fitted = _loaded(asked.model)
        marks, like = (*fitted.marks, *marks), fitted.schema.columns
    with reporter.progress() as progress:
        show = progress.rows("looking", "MB") or (lambda done, total: None)
        count = lambda done: show(done // 10**6, size // 10**6)  # noqa: E731
        form = text_options(source, asked.form, asked.kind)
        form["allow_large"] = asked.form.allow_large
        text = open_large_text(source, marks, like, callback=count, **form)
    if text is None or not (must or text.n_rows > MANY_ROWS):
        return None
    from miwae.engines import LargeCsv

    return LargeCsv(text, output, marks, like)


def _loaded(model: str) -> "FittedTable":
    from miwae.tabular import FittedTable

    if not os.path.isfile(model):
        raise DataError(f"there is no model {model}: make one with 'miwae fit IN -o {model}'")
    return FittedTable.load(model)[0]


def impute_in_pieces(
    table: "AbstractLarge", output: str, asked: Asked, reporter: Reporter, *, resume: bool
) -> None:
    from miwae.engines import Run, Worker, digest_of

    keep_programs()
    known = {**asked._asdict(), "roles": list(asked.roles), "form": list(asked.form)}
    if asked.model is not None:
        _loaded(asked.model).require_columns(table.names)
        known["model"] = digest_of(asked.model)
    run = Run.begin(table, output, known, resume=resume)
    events = []
    try:
        if not run.model.exists():
            _provide_model(run, asked, reporter)
        worker = Worker.load(run.model)
        with reporter.progress() as progress:
            show = progress.rows("imputing") or (lambda done, total: None)
            events += run.complete(worker, lambda done: show(done, table.n_rows))
        run.finish()
    except BaseException:
        if run.directory.exists() and reporter.shows_text:
            say(f"finished pieces are in {run.directory}: --resume goes on")
        raise
    _report(table, worker, events, reporter)


def _provide_model(run: "Run", asked: Asked, reporter: Reporter) -> None:
    """The model that was given, or one that is learned now."""
    if asked.model is not None:
        with open(asked.model, "rb") as file:
            content = file.read()
        write_atomically(str(run.model), lambda out: out.write(content))
        return
    _learned(run.table, asked, reporter).save(run.model)


def _learned(
    table: "AbstractLarge", asked: Asked, reporter: Reporter, limit: "Deadline | None" = None
) -> "FittedTable":
    from miwae.engines import learned
    from miwae.tabular import TableSettings

    marks = options.marks_of(asked.form.na)
    chosen = {name: value for name, value in asked.settings.items() if value is not None}
    settings = TableSettings(**chosen, seed=options.table_seed(asked.seed or 0))
    user = {
        "column_kinds": options.kinds_and_orders(asked.kind)[0],
        "bounds": options.limits_of(asked.bounds),
        "roles": options.roles_of(table.names, asked.roles),
        "not_applicable": options.conditions_of(asked.roles),
        "rest": options.rest_of(asked.roles),
    }
    with reporter.progress() as progress:
        show = progress.rows("reading") or (lambda done, total: None)
        count = lambda done: show(done, table.n_rows)  # noqa: E731
        parts = table.gathered(seed=settings.seed, marks=marks, callback=count)
        work: dict[str, Any] = {"deadline": limit, "progress": progress}
        return learned(parts, settings, asked=user, marks=marks, **work)


def fit_in_one_pass(
    table: "AbstractLarge", output: str, asked: Asked, reporter: Reporter, limit: "Deadline | None"
) -> None:
    keep_programs()
    fitted = _learned(table, asked, reporter, limit)
    fitted.save(output)
    what = f"fitted to {counted(table.n_rows, 'row')}"
    reporter.finish(Report(_data(table, fitted), [what], fitted.events, fitted.quality))


def _report(
    table: "AbstractLarge", worker: "Worker", events: Sequence[Any], reporter: Reporter
) -> None:
    fitted = worker.fitted
    what = f"completed {counted(table.n_rows, 'row')} of {counted(len(table.files), 'file')}"
    every = [*fitted.events, *events]
    reporter.finish(Report(_data(table, fitted), [what], every, fitted.quality))


def _data(table: "AbstractLarge", fitted: "FittedTable") -> dict[str, Any]:
    return {
        "file": str(table.path),
        "rows": table.n_rows,
        "files": len(table.files),
        "columns": [
            {"name": c.name, "kind": c.kind.label, "reason": c.reason}
            for c in fitted.schema.columns
        ],
        "quality": fitted.quality.as_data(),
    }
