"""Parquet and Feather files: typed tables, which `miwae.frames` reads and completes."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from miwae._extras import extra
from miwae.columns import check_names
from miwae.documents._document import Document, Family, Patch, Reading, refuse_bomb
from miwae.documents._frame import NO_COLUMNS, Frame, arrow_bytes, arrow_table
from miwae.errors import DataError


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrowDocument(Document):
    """A Parquet or Feather file, as a table of pyarrow; the suffix is one of these two."""

    family: ClassVar[Family] = "arrow"
    table: Any
    suffix: str

    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "ArrowReading":
        from miwae import frames

        columns = frames.columns(self.table, tuple(marks))
        return ArrowReading(columns=tuple(columns), document=self)

    def head(self) -> Frame:
        return Frame(self.names, tuple(self.table.slice(0, 1).columns))


@dataclass(frozen=True, kw_only=True, eq=False)
class ArrowReading(Reading):
    document: ArrowDocument

    def patched(self, cells: Patch, suffix: str = "", added: Frame = NO_COLUMNS) -> memoryview:
        table = self._completed(cells)
        for name, column in zip(added.names, arrow_table(added).columns, strict=True):
            table = table.append_column(name, column)
        return arrow_bytes(table, suffix or self.document.suffix)

    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        return Frame(self.document.names, tuple(self._completed(cells).columns))

    def arrow_schema(self) -> bytes:
        from miwae import frames

        return frames.arrow_schema(self.columns, self.document.table)

    def _completed(self, cells: Patch) -> Any:
        from miwae import frames

        return frames.completed(self.document.table, cells)


def open_arrow(content: bytes, suffix: str, *, allow_large: bool = False) -> ArrowDocument:
    pa, suffix = extra("pyarrow"), suffix if suffix == ".parquet" else ".feather"
    try:
        if not allow_large:
            _refuse_bomb(content, suffix)
        if suffix == ".parquet":
            table = extra("pyarrow.parquet").ParquetFile(pa.BufferReader(content)).read()
        else:
            table = extra("pyarrow.feather").read_table(pa.BufferReader(content))
        table.validate(full=True)  # a damaged file can have indices that lead out of memory
        names = tuple(table.column_names)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as error:
        why = " ".join(str(error).split())  # pyarrow's messages can have several lines
        # A damaged file can say that it needs any memory.
        large = " or too large for the memory" if isinstance(error, MemoryError) else ""
        raise DataError(f"this is not a {suffix[1:]} file{large}: {why}") from error
    check_names(names)
    return ArrowDocument(names=names, n_rows=table.num_rows, table=table, suffix=suffix)


def _refuse_bomb(content: bytes, suffix: str) -> None:
    """Refuse what would be huge in memory: a column that repeats a value takes a few bytes."""
    if content.startswith(b"FEA1"):  # which compresses nothing
        return
    formats = extra("pyarrow.dataset")
    kind = formats.ParquetFileFormat if suffix == ".parquet" else formats.IpcFileFormat
    table = kind().make_fragment(extra("pyarrow").py_buffer(content))
    check_names(table.physical_schema.names)
    # Without columns: it looks for none by name, of which some are its own.
    n_rows = table.scanner(columns=[]).count_rows()
    refuse_bomb(len(content), n_rows * len(table.physical_schema))
