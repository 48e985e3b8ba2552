"""Parquet files that are too large for memory: one, or a directory of them, read in pieces."""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, final

from miwae._atomic import write_atomically
from miwae._extras import extra
from miwae.columns import check_names
from miwae.errors import DataError

BATCH_ROWS = 2**16  # that are read at once

MANY_ROWS = 2**18  # of files that are better read in pieces


def is_parquet(path: str) -> bool:
    """Whether it is a directory, or a file that is called Parquet."""
    return os.path.isdir(path) or (os.path.isfile(path) and path.lower().endswith(".parquet"))


@final
@dataclass(frozen=True, kw_only=True, eq=False)
class Dataset:
    """The rows of all files, in the order of their paths; the types are those of all files."""

    path: Path
    fragments: tuple[Any, ...]
    schema: Any
    partitions: tuple[str, ...]  # columns that the names of directories hold

    @property
    def n_rows(self) -> int:
        return sum(self.lengths)

    @property
    def lengths(self) -> list[int]:
        """Rows of each file, or of the row groups of it."""
        groups = (fragment.row_groups for fragment in self.fragments)
        return [sum(group.num_rows for group in own) for own in groups]

    @property
    def files(self) -> list[str]:
        """The files relative to the directory, or the name of the only one."""
        root = self.path if self.path.is_dir() else self.path.parent
        return [os.path.relpath(fragment.path, root) for fragment in self.fragments]

    def batches(self, start: int = 0) -> Iterator[Any]:
        """Tables of a few rows each, from a row on; what comes before is not read."""
        for fragment in self.fragments:
            for group in fragment.row_groups:
                if start >= group.num_rows:
                    start -= group.num_rows
                    continue
                for table in self._read(fragment, group.id):
                    if start < table.num_rows:
                        yield table.slice(start)
                    start = max(start - table.num_rows, 0)

    def cut(self, n_rows: int) -> "list[Dataset]":
        """The rows as data sets of so many each, more or less: whole row groups of one file."""
        cuts = []
        for fragment in self.fragments:
            held, n_held = [], 0
            for group in fragment.row_groups:
                if held and n_held + group.num_rows > n_rows:
                    cuts.append(fragment.subset(row_group_ids=held))
                    held, n_held = [], 0
                held, n_held = [*held, group.id], n_held + group.num_rows
            cuts += [fragment.subset(row_group_ids=held)] if held else []
        return [replace(self, fragments=(fragment,)) for fragment in cuts]

    def pieces(self, n_rows: int, start: int = 0) -> Iterator[Any]:
        """Tables of exactly so many rows, but for the last."""
        yield from in_pieces(self.batches(start), n_rows)

    def _read(self, fragment: Any, group: int) -> Iterator[Any]:
        pa = extra("pyarrow")
        options = {"schema": self.schema, "batch_size": BATCH_ROWS, "batch_readahead": 1}
        try:
            for batch in fragment.subset(row_group_ids=[group]).to_batches(**options):
                yield pa.Table.from_batches([batch])
        except (pa.ArrowException, OSError) as error:
            why = " ".join(str(error).split())
            raise DataError(f"cannot read {fragment.path}: {why}") from error


def in_pieces(tables: Iterable[Any], n_rows: int) -> Iterator[Any]:
    """The rows of tables, cut into tables of so many rows; the last can have fewer."""
    pa, held, n_held = extra("pyarrow"), [], 0
    for table in tables:
        held, n_held = [*held, table], n_held + table.num_rows
        while n_held >= n_rows:
            whole = pa.concat_tables(held)
            yield whole.slice(0, n_rows)
            held, n_held = [whole.slice(n_rows)], n_held - n_rows
    if n_held:
        yield pa.concat_tables(held)


def open_dataset(path: str) -> Dataset:
    """A Parquet file, or a directory of them, in whose names there can be columns (`year=2024`).

    Raises:
        DataError: there is none, or two files have columns that are not of one type.
    """
    pa, ds = extra("pyarrow"), extra("pyarrow.dataset")
    try:
        found = ds.dataset(path, format="parquet", partitioning="hive")
        fragments = sorted(found.get_fragments(), key=lambda fragment: fragment.path)
        own = [fragment.physical_schema for fragment in fragments]
        schema = _united([found.schema, *own])
    except FileNotFoundError:
        raise DataError(f"there is no file {path}: check the path and the directory") from None
    except (pa.ArrowException, OSError) as error:
        why = " ".join(str(error).split())
        raise DataError(f"{path} cannot be read as Parquet: {why}") from error
    if not fragments:
        raise DataError(
            f"{path} is a directory without Parquet files: name a file in it, or a directory of "
            "such files"
        )
    check_names(schema.names)
    inside = {name for each in own for name in each.names}
    partitions = tuple(name for name in schema.names if name not in inside)
    kept = {key: value for key, value in (own[0].metadata or {}).items() if key != b"pandas"}
    return Dataset(
        path=Path(path).absolute(),
        fragments=tuple(fragments),
        schema=schema.with_metadata(own[0].metadata if len(own) == 1 else kept),
        partitions=partitions,
    )


def _united(schemas: Sequence[Any]) -> Any:
    """A schema for all files: where only some have a dictionary, the type of its values."""
    pa = extra("pyarrow")
    types: dict[str, set[Any]] = {}
    for field in (field for own in schemas for field in own):
        types.setdefault(field.name, set()).add(field.type)

    def of_all(field: Any) -> Any:
        is_shared = len(types[field.name] - {pa.null()}) == 1
        plain = pa.types.is_dictionary(field.type) and not is_shared
        return field.with_type(field.type.value_type) if plain else field

    plain = [pa.schema(map(of_all, own), own.metadata) for own in schemas]
    return pa.unify_schemas(plain, promote_options="permissive")


def write_like(dataset: Dataset, tables: Iterable[Any], out: Path) -> None:
    """Write the rows to files as those of the data set are: a file, or a directory of them.

    One row group for each table, or piece of it, with statistics. Files appear whole.
    """
    rest = iter(tables)
    held = next(rest, None)
    for name, n_rows in zip(dataset.files, dataset.lengths, strict=True):
        path = out / name if dataset.path.is_dir() else out
        path.parent.mkdir(parents=True, exist_ok=True)

        def write(file: Any, n_left: int = n_rows) -> None:
            nonlocal held
            assert held is not None  # there are as many rows as before
            schema = _of_file(held, dataset).schema
            with extra("pyarrow.parquet").ParquetWriter(file, schema) as writer:
                while n_left:
                    own = held.slice(0, n_left)
                    writer.write_table(_of_file(own, dataset), row_group_size=max(len(own), 1))
                    n_left -= len(own)
                    held = held.slice(len(own))
                    if not len(held):
                        held = next(rest, held)

        write_atomically(str(path), write)


def _of_file(table: Any, dataset: Dataset) -> Any:
    """Without the columns that directories hold, and with what the file says of its own."""
    own = table.drop_columns([name for name in dataset.partitions if name in table.column_names])
    return own.replace_schema_metadata(dataset.schema.metadata)
