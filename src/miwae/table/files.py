"""Tables in files: the format is told by the suffix, or by the content."""

import gzip
import os
import sys
import zlib
from collections.abc import Iterable
from typing import Any, BinaryIO

from miwae.atomic import require_directory, write_atomically
from miwae.errors import DataError, MiwaeError
from miwae.table.base import AbstractTable
from miwae.table.convert import converted, pyarrow_or_error
from miwae.table.excel import ExcelTable, read_excel
from miwae.table.frames import ArrowTable, as_table
from miwae.table.text import DEFAULT_NA, TextTable, read_text

__all__ = [
    "converted",
    "read_table",
    "require_writable",
    "suffix_kind",
    "write_atomically",
    "write_table",
]

_KINDS = {
    ".csv": "text",
    ".tsv": "text",
    ".txt": "text",
    ".parquet": "parquet",
    ".feather": "feather",
    ".arrow": "feather",
    ".xlsx": "excel",
}

# Whoever opens one of these expects no text in it.
_NOT_WRITTEN = frozenset({".xls", ".xlsb", ".xlsm", ".ods", ".json"})

_GZIP = b"\x1f\x8b"
_MAGIC = {b"PAR1": "parquet", b"ARROW1": "feather", b"FEA1": "feather", b"PK\x03\x04": "excel"}


def _suffix(path: str) -> str:
    """The last suffix in lower case, the one before .gz if there is that."""
    name = os.path.basename(path).lower().removesuffix(".gz")
    return os.path.splitext(name)[1]


def suffix_kind(path: str) -> str:
    """The kind of file that a path names: "text", "parquet", "feather", "excel", or "".

    `.gz` is left out of account. `-`, which is standard input or output, is text.
    """
    return "text" if path == "-" else _KINDS.get(_suffix(path), "")


def _supported() -> str:
    return "the suffixes that are known are " + ", ".join(_KINDS) + ", each also with .gz"


def _content(path: str) -> bytes:
    """All bytes of a file, or of standard input."""
    try:
        if path == "-":
            return sys.stdin.buffer.read()
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError:
        raise DataError(f"there is no file {path}: check the path and the directory") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a directory: name a file in it") from None
    except PermissionError:
        raise DataError(f"{path} may not be read: change its permissions") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from error


def _unpacked(content: bytes) -> bytes:
    """Without gzip, which is known by how it starts, whatever the file is called."""
    if not content.startswith(_GZIP):
        return content
    try:
        return gzip.decompress(content)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the gzip file is damaged or cut off: {error}") from error


def _sniffed_kind(content: bytes) -> str:
    return next((kind for magic, kind in _MAGIC.items() if content.startswith(magic)), "text")


def read_table(
    path: str,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    na_words: Iterable[str] = DEFAULT_NA,
    header: bool = True,
) -> AbstractTable:
    """Read a table from a file.

    Args:
        path: of a .csv, .tsv, .txt, .parquet, .feather, .arrow or .xlsx file, also with .gz; `-`
            for standard input. A file of another suffix is known by its content.
        delimiter: between fields of text; None to find out.
        encoding: of text; None to find out.
        na_words: texts that stand for no value, in text and Excel files.
        header: whether the first record of text holds the names.

    Raises:
        DataError: the file cannot be read; the message names it and what to do.
    """
    content = _content(path)
    try:
        content = _unpacked(content)
        kind = "" if path == "-" else suffix_kind(path)
        kind = kind or _sniffed_kind(content)
        if kind == "text":
            if delimiter is None and _suffix(path) == ".tsv":
                delimiter = "\t"
            return read_text(
                content, delimiter=delimiter, encoding=encoding, na_words=na_words, header=header
            )
        if kind == "excel":
            return read_excel(content, na_words=na_words)
        return as_table(_arrow_content(content, kind))
    except DataError as error:
        place = "standard input" if path == "-" else path
        hint = "" if suffix_kind(path) else f" ({_supported()})"
        raise DataError(f"{place}: {error}{hint}") from error


def _arrow_content(content: bytes, kind: str) -> Any:
    pa = pyarrow_or_error()
    try:
        if kind == "parquet":
            from pyarrow import parquet

            return parquet.ParquetFile(pa.BufferReader(content)).read()
        from pyarrow import feather

        return feather.read_table(pa.BufferReader(content))
    except (pa.ArrowException, OSError) as error:
        raise DataError(f"this is not a {kind} file: {error}") from error


def _kind_to_write(table: AbstractTable, path: str) -> str:
    """By the suffix; a path without one, such as /dev/stdout, gets text."""
    kind = suffix_kind(path)
    if kind:
        return kind
    if _suffix(path) in _NOT_WRITTEN:
        raise DataError(f"{path}: files of this format are not written; {_supported()}")
    if isinstance(table, TextTable) or not _suffix(path):
        return "text"
    raise DataError(f"{path}: cannot tell which format to write: {_supported()}")


def _delimited(table: TextTable, path: str) -> TextTable:
    """With tabs in .tsv files, and without them in .csv files."""
    now = table.format.delimiter
    if _suffix(path) == ".tsv" and now != "\t":
        return table.with_delimiter("\t")
    if _suffix(path) == ".csv" and now == "\t":
        return table.with_delimiter(";" if table.format.decimal == "," else ",")
    return table


def _payload(table: AbstractTable, kind: str) -> bytes | memoryview:
    """The content of a file."""
    if isinstance(table, TextTable | ExcelTable):
        return table.to_bytes()
    if not isinstance(table, ArrowTable):
        raise DataError(f"a {type(table).__name__} cannot be written")
    pa = pyarrow_or_error()
    sink = pa.BufferOutputStream()
    try:
        if kind == "parquet":
            from pyarrow import parquet

            parquet.write_table(table.native, sink)
        else:
            from pyarrow import feather

            feather.write_feather(table.native, sink)
    except pa.ArrowException as error:
        raise DataError(f"a column cannot be written as {kind}: {error}") from error
    return memoryview(sink.getvalue())


def _written(file: BinaryIO, payload: bytes | memoryview, *, packed: bool) -> None:
    if not packed:
        file.write(payload)
        return
    # Neither name nor time: the same table gives the same file.
    with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as out:
        out.write(payload)


def require_writable(table: AbstractTable, path: str) -> None:
    """Find out, before long work, what would keep its result from being written.

    Raises:
        DataError: the format is unknown, or needs a library that is not installed.
        MiwaeError: there is no such directory, or it may not be written to.
    """
    converted(table.rows(0, min(table.n_rows, 1)), _kind_to_write(table, path))
    if path != "-":
        require_directory(path)


def write_table(table: AbstractTable, path: str) -> None:
    """Write a table to a file, which appears whole or not at all.

    Args:
        table: of any kind; it is converted if the file is of another format.
        path: the suffix says which format, as for `read_table`; `-` is standard output, as text.

    Raises:
        DataError: a column cannot be written in this format, or the suffix is unknown.
        MiwaeError: the system refused to write.
    """
    kind = _kind_to_write(table, path)
    table = converted(table, kind)
    if isinstance(table, TextTable):
        table = _delimited(table, path)
    payload = _payload(table, kind)
    if path == "-":
        _to_standard_output(payload)
        return
    packed = path.lower().endswith(".gz")
    write_atomically(path, lambda file: _written(file, payload, packed=packed))


def _to_standard_output(payload: bytes | memoryview) -> None:
    try:
        sys.stdout.buffer.write(payload)
        sys.stdout.buffer.flush()
    except BrokenPipeError:
        raise  # whoever read our output has seen enough: the caller knows what to do
    except OSError as error:
        raise MiwaeError(f"cannot write to standard output: {error.strerror or error}") from error
