"""A data set of Parquet files, completed part by part; each appears whole or not at all."""

import contextlib
import functools
import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq

from miwae._atomic import write_atomically
from miwae._compilation import enable_compilation_cache
from miwae._words import counted
from miwae.engines._worker import Worker
from miwae.errors import DataError, MiwaeError, SettingsError
from miwae.events import Event

# Rows of a part, more or less: a file with more is cut between its row groups.
PART_ROWS = 2**20

# Rows that are read at once.
READ_ROWS = 2**16

# In the metadata of a completed part, of which model, file and row groups it is.
_MARK = b"miwae"

_NULL = "__HIVE_DEFAULT_PARTITION__"


class Part(NamedTuple):
    """Rows of a file, and the file that they go to."""

    source: str
    target: str
    n_rows: int = 0
    groups: tuple[int, int] | None = None  # from this row group to before that one; None for all
    constants: tuple[tuple[str, Any], ...] = ()  # columns that the names of directories hold


class PartDone(NamedTuple):
    """What became of a part."""

    n_rows: int
    events: tuple[Event, ...] = ()
    kept: bool = False  # it was there already


class Outcome(NamedTuple):
    """What became of a data set."""

    files: list[str]  # that were written, or were there already
    n_rows: int
    n_kept: int  # parts that were there already
    events: tuple[Event, ...]


def parts_of(data: Any, out: str | Path, part_rows: int = PART_ROWS) -> list[Part]:
    """The parts of a Parquet file, of a directory of such files, or of several paths.

    Raises:
        DataError: there is no such file, or `out` holds files of another data set.
    """
    paths = [data] if isinstance(data, str | Path) else list(data)
    parts = [part for path in paths for part in _parts_of(Path(path), Path(out), part_rows)]
    targets = {part.target for part in parts}
    if len(targets) < len(parts):
        raise DataError("two files have the same name: complete them one after the other")
    if others := sorted({str(path) for path in _files_in(Path(out))} - targets):
        raise DataError(f"{out} holds other files, such as {others[0]}: name another directory")
    return parts


def _files_in(directory: Path) -> list[Path]:
    """The Parquet files of a data set; names that begin with a point or underscore are not."""
    return sorted(
        path
        for path in directory.rglob("*.parquet")
        if not any(name.startswith((".", "_")) for name in path.relative_to(directory).parts)
    )


def _parts_of(path: Path, out: Path, part_rows: int) -> Iterator[Part]:
    base, files = (path, _files_in(path)) if path.is_dir() else (path.parent, [path])
    if path.is_dir() and out.resolve().is_relative_to(path.resolve()):
        raise SettingsError(f"out={str(out)!r} is inside the data: name another directory")
    if not files or not files[0].is_file():
        raise DataError(f"{path}: there is no Parquet file: check the path")
    for file in files:
        yield from _cut(file, out / file.relative_to(base), base, part_rows)


def _cut(file: Path, target: Path, base: Path, part_rows: int) -> Iterator[Part]:
    """A file in parts of enough row groups; one that cannot be read is left to who reads it."""
    constants = tuple(_of_directories(file.relative_to(base).parts[:-1]))
    whole = Part(str(file), str(target), constants=constants)
    try:
        known = pq.read_metadata(file)
    except (pa.ArrowException, OSError):
        yield whole
        return
    sizes = [known.row_group(i).num_rows for i in range(known.num_row_groups)]
    starts, n_rows = [0], 0
    for i, size in enumerate(sizes):
        if n_rows and n_rows + size > part_rows:
            starts, n_rows = [*starts, i], 0
        n_rows += size
    for k, (start, stop) in enumerate(zip(starts, [*starts[1:], len(sizes)], strict=True)):
        name = target if len(starts) == 1 else target.with_stem(f"{target.stem}-{k:04}")
        yield whole._replace(target=str(name), n_rows=sum(sizes[start:stop]), groups=(start, stop))


def _of_directories(names: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Columns of a partitioned data set: directories called year=2024."""
    for name in names:
        column, equals, text = name.partition("=")
        if equals:
            value: Any = None if text == _NULL else unquote(text)
            with contextlib.suppress(TypeError, ValueError):
                value = int(value)
            yield unquote(column), value


def complete_part(worker: Worker, part: Part) -> PartDone:
    """Write the rows of a part completed, unless they are there already.

    Raises:
        DataError: the part cannot be read or completed; the message names its file.
    """
    _keep_programs()
    mark = _mark_of(worker, part)
    with contextlib.suppress(pa.ArrowException, OSError):  # none, or another file
        if (pq.read_metadata(part.target).metadata or {}).get(_MARK) == mark:
            return PartDone(part.n_rows, kept=True)
    try:
        # Open until it is written: a file is removed before it is damaged.
        with pq.ParquetFile(part.source, memory_map=False) as file:
            return _written(worker, part, file, mark)
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"{part.source} cannot be read: {_line(error)}") from error
    except DataError as error:
        raise DataError(f"{part.source}: {error}") from error


def _written(worker: Worker, part: Part, file: pq.ParquetFile, mark: bytes) -> PartDone:
    groups = range(*(part.groups or (0, file.num_row_groups)))
    first_row = sum(file.metadata.row_group(i).num_rows for i in range(groups.start))
    known = set(worker.fitted.schema.names) | set(worker.keys)
    further = [(n, v) for n, v in part.constants if n in known - set(file.schema_arrow.names)]
    plain = [name for name, _ in further]
    schema = worker(_with(file.schema_arrow.empty_table(), further)).drop_columns(plain).schema
    read = (_with(pa.Table.from_batches([b]), further) for b in _batches(file, groups))
    n_rows, events = 0, []

    def write(target: BinaryIO) -> None:
        nonlocal n_rows
        with pq.ParquetWriter(target, schema) as writer:
            writer.add_key_value_metadata({_MARK.decode(): mark.decode()})
            for done in worker.stream(read, first_row):
                writer.write_table(done.table.drop_columns(plain))
                n_rows += done.table.num_rows
                events.extend(_of_file(event, part) for event in done.events)

    os.makedirs(os.path.dirname(part.target), exist_ok=True)
    write_atomically(part.target, write)
    return PartDone(n_rows, tuple(dict.fromkeys(events)))


def _of_file(event: Event, part: Part) -> Event:
    """An event about cells, whose rows are those of the file."""
    named = event._replace(text=f"{part.source}: {event.text}")
    return named if event.about == "value" else event


def _batches(file: pq.ParquetFile, groups: range) -> Iterator[pa.RecordBatch]:
    try:
        yield from file.iter_batches(READ_ROWS, row_groups=list(groups))
    except OSError as error:  # not one of writing
        raise DataError(f"it cannot be read: {_line(error)}") from error


def _with(table: pa.Table, constants: list[tuple[str, Any]]) -> pa.Table:
    for name, value in constants:
        scalar = pa.scalar(value)
        table = table.append_column(name, pa.repeat(scalar, table.num_rows))
    return table


def _line(error: Exception) -> str:
    """Messages of pyarrow can have several lines."""
    return " ".join(str(error).split())


@functools.cache
def _keep_programs() -> None:
    """Keep compiled programs on disk, so that only the first worker of a machine compiles."""
    with contextlib.suppress(OSError):  # they are compiled again then
        enable_compilation_cache()


def _mark_of(worker: Worker, part: Part) -> bytes:
    """The same for the same model and rows: such a part need not be completed again."""
    with contextlib.suppress(OSError):
        known = os.stat(part.source)
        facts = (part.source, part.groups, known.st_size, known.st_mtime_ns, worker.keys)
        return hashlib.sha256(worker.content + repr(facts).encode()).hexdigest().encode()
    return b""


def outcome_of(parts: Sequence[Part], ends: Iterable[PartDone | BaseException]) -> Outcome:
    """What became of the parts, in their order.

    Raises:
        DataError: some failed; it names the first ones, and why.
    """
    done, failed = [], []
    for part, end in zip(parts, ends, strict=True):
        (done if isinstance(end, PartDone) else failed).append((part, end))
    if failed:
        shown = "; ".join(_reason(part, error) for part, error in failed[:3])
        more = f"; and {len(failed) - 3} more" if len(failed) > 3 else ""
        written = f"{counted(len(done), 'part')} of {len(parts)} were written"
        raise DataError(f"{shown}{more}; {written}, and are kept by another run")
    return Outcome(
        [part.target for part, _ in done],
        sum(end.n_rows for _, end in done),
        sum(end.kept for _, end in done),
        _united([end.events for _, end in done]),
    )


def _reason(part: Part, error: BaseException) -> str:
    if isinstance(error, MiwaeError):
        return str(error)
    return f"{part.source}: {type(error).__name__}: {_line(Exception(str(error)))}"


def _united(events: Sequence[tuple[Event, ...]]) -> tuple[Event, ...]:
    """The first of each sort about each column, and in how many parts there were more."""
    found: dict[tuple[str, str | None], list[Event]] = {}
    for event in (event for own in events for event in own):
        found.setdefault((event.about, event.column), []).append(event)
    united = []
    for first, *others in found.values():
        more = f" (the same in {counted(len(others), 'other part')})" if others else ""
        count = sum(event.count for event in (first, *others))
        united.append(first._replace(count=count, text=f"{first.text}{more}"))
    return tuple(united)
