"""Files by their path: the format is known by the suffix, or by the content."""

import csv
import gzip
import io
import os
import sys
import zlib
from collections.abc import Iterable, Mapping, Sequence

from miwae._atomic import require_directory, write_atomically
from miwae._extras import extra
from miwae.columns import COPY, ROW, require_free
from miwae.documents._arrow import open_arrow
from miwae.documents._dialect import Dialect
from miwae.documents._document import DEFAULT_NA, Document, Family, Patch, Reading, most_unpacked
from miwae.documents._excel import open_excel, workbook_bytes
from miwae.documents._frame import Frame, arrow_bytes, arrow_table, stacked, texts_of
from miwae.documents._further import further_columns
from miwae.documents._json import json_bytes, open_json
from miwae.documents._opening import open_text
from miwae.documents._statistics import READERS, open_statistics, statistics_bytes
from miwae.documents._text import TextReading
from miwae.errors import DataError, MiwaeError, SettingsError

_FAMILIES: dict[str, Family] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), "text"),
    **dict.fromkeys((".parquet", ".feather", ".arrow"), "arrow"),
    ".xlsx": "excel",
    **dict.fromkeys(READERS, "statistics"),
    **dict.fromkeys((".jsonl", ".ndjson"), "json"),
}

_SUPPORTED = f"the suffixes that are known are {', '.join(_FAMILIES)}, each also with .gz"

# Programs that open such a file expect a format that is not written here.
_NOT_WRITTEN = frozenset({".xls", ".xlsb", ".xlsm", ".ods", ".json"})

_LIBRARIES: dict[Family, tuple[str, ...]] = {
    "text": (),
    "arrow": ("pyarrow",),
    "excel": ("openpyxl",),
    "statistics": ("pyreadstat", "pandas"),
    "json": (),
}

_GZIP = b"\x1f\x8b"
_MAGIC = {b"PAR1": ".parquet", b"ARROW1": ".feather", b"FEA1": ".feather", b"PK\x03\x04": ".xlsx"}


def open_document(
    path: str,
    *,
    delimiter: str | None = None,
    encoding: str | None = None,
    na_words: Iterable[str] = DEFAULT_NA,
    header: bool = True,
    date_orders: Mapping[str, str] | None = None,
    sheet: str | None = None,
    allow_large: bool = False,
) -> Document:
    """Open a file with a table, known by its suffix (also with .gz) or else by its content.

    Args:
        path: of the file; `-` for standard input.
        delimiter: between fields of text; None to find out.
        encoding: of text; None to find out.
        na_words: texts that mean missing, in text and Excel files.
        header: whether the first record of text holds the names.
        date_orders: "day-first" or "month-first" by name of a column of text, for dates such as
            01/02/2024 that do not show which it is.
        sheet: of an Excel file, by name or number (from 1); None for the first.
        allow_large: read a file that becomes hundreds of times larger in memory, too.
    """
    content, suffix = _content(path), suffix_of(path)
    try:
        content = _unpacked(content, allow_large=allow_large)
        if suffix not in _FAMILIES:
            suffix = next((s for magic, s in _MAGIC.items() if content.startswith(magic)), suffix)
        family = "json" if suffix == ".json" else _FAMILIES.get(suffix, "text")
        if sheet is not None and family != "excel":
            raise SettingsError("sheet is for Excel files (.xlsx): other files have none")
        if family == "text":
            if delimiter is None and suffix == ".tsv":
                delimiter = "\t"
            return open_text(
                content,
                delimiter=delimiter,
                encoding=encoding,
                na_words=na_words,
                header=header,
                date_orders=date_orders,
            )
        if not header:
            raise SettingsError("header=False is for text files: in others columns have names")
        if date_orders:
            raise SettingsError(
                f"date_orders of {next(iter(date_orders))!r}: the order of day and month can be "
                "given for text files only; store the column as dates"
            )
        if family == "excel":
            return open_excel(content, na_words=na_words, sheet=sheet, allow_large=allow_large)
        if family == "statistics":
            return open_statistics(content, suffix, allow_large=allow_large)
        if family == "json":
            return open_json(content, allow_large=allow_large)
        return open_arrow(content, suffix, allow_large=allow_large)
    except DataError as error:
        place = "standard input" if path == "-" else path
        hint = "" if path == "-" or suffix in (*_FAMILIES, ".json") else f" ({_SUPPORTED})"
        raise DataError(f"{place}: {error}{hint}") from error


def is_text(path: str) -> bool:
    """Whether a file is called as text files are, packed or not."""
    return _FAMILIES.get(suffix_of(path)) == "text"


def suffix_of(path: str) -> str:
    """The suffix that says which format a file has, in lower case and without .gz."""
    name = os.path.basename(path).lower().removesuffix(".gz")
    return os.path.splitext(name)[1]


def _content(path: str) -> bytes:
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


def _unpacked(content: bytes, *, allow_large: bool) -> bytes:
    if not content.startswith(_GZIP):  # whatever the file is called
        return content
    limit = -1 if allow_large else most_unpacked(len(content))
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(content)) as file:
            unpacked = file.read(limit)
            more = file.read(1)
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"the gzip file is damaged or cut off: {error}") from error
    if more:
        raise DataError(
            f"the gzip file of {len(content)} bytes would unpack to more than "
            f"{limit / 2**20:.0f} MiB: if that is right, allow it by allow_large (--allow-large)"
        )
    return unpacked


def require_writable(document: Document | None, path: str, *, long: bool = False) -> None:
    """Find out, before long work, what would keep its result from being written.

    The document is None for a plain frame; `long` is for what `write_long` will write.
    """
    family = _family_to_write("text" if document is None else document.family, path)
    for library in _LIBRARIES[family]:
        extra(library)
    if document is not None and family != document.family:
        _frame_bytes([document.head()], family, suffix_of(path))
        if family == "statistics":  # which have rules for names
            statistics_bytes(Frame(document.names, ((0,),) * len(document.names)), suffix_of(path))
    if document is not None and long:
        require_free(document.names, (COPY, ROW))
    if path != "-":
        require_directory(path)


def require_free_names(document: Document, path: str, words: Sequence[str]) -> None:
    """Refuse, before long work, a table with a column called as `write` calls a further one."""
    family = _family_to_write(document.family, path)
    further = (_called(name + word, family) for name in document.names for word in words)
    require_free(document.names, further)


def _called(name: str, family: Family) -> str:
    """The name of a further column; statistics programs allow no points in it."""
    return name.replace(".", "_") if family == "statistics" else name


def write(
    reading: Reading,
    path: str,
    cells: Patch | None = None,
    *,
    flag: bool = False,
    further: Mapping[str, Patch] | None = None,
) -> None:
    """Write a document with some cells replaced to a file, which appears whole or not at all.

    The suffix says which format, as for `open_document`; the table is converted if the document
    has another one. `-` is standard output.

    Args:
        reading: the document.
        path: of the file to write.
        cells: that are replaced.
        flag: whether to add a column `NAME.imputed` for each column NAME with replaced cells.
        further: other values of these cells, for columns that are called NAME and this word.
    """
    own = reading.document.family
    family, suffix, new = _family_to_write(own, path), suffix_of(path), cells or {}
    as_text = family == own == "text"
    added = further_columns(reading, new, further or {}, flag=flag, as_text=as_text)
    added = Frame(tuple(_called(name, family) for name in added.names), added.columns)
    if family == own:
        _put(path, reading.patched(new, suffix, added))
    else:
        frame = reading.frame(new)
        both = Frame(frame.names + added.names, frame.columns + added.columns)
        _put(path, _frame_bytes([both], family, suffix))


def write_long(reading: Reading, path: str, copies: Iterable[Patch]) -> None:
    """Write a document and completed copies of it below each other, as R's mice exchanges them.

    Two columns stand before all others: `.imp`, the number of the copy (0 for the original), and
    `.id`, the number of the row from 1.
    """
    document, suffix = reading.document, suffix_of(path)
    require_free(document.names, (COPY, ROW))
    family = _family_to_write(document.family, path)
    frames = (reading.frame(cells, as_text=family == "text") for cells in [{}, *copies])
    rows = range(1, document.n_rows + 1)
    numbered = (
        Frame((COPY, ROW, *names), ([number] * len(rows), rows, *columns))
        for number, (names, columns) in enumerate(frames)
    )
    dialect = reading.dialect(suffix) if isinstance(reading, TextReading) else None
    _put(path, _frame_bytes(numbered, family, suffix, dialect))


def write_frame(frame: Frame, path: str, *, decimals: int | None = None) -> None:
    """Write a plain frame to a file as `write` does; `decimals` are those of floats in text."""
    family = _family_to_write("text", path)
    _put(path, _frame_bytes([frame], family, suffix_of(path), decimals=decimals))


def _family_to_write(own: Family, path: str) -> Family:
    """By the suffix; a path without one, such as /dev/stdout or -, gets text, or JSON lines."""
    suffix = suffix_of(path)
    if suffix in (".sas7bdat", ".por"):
        other = ".xpt" if suffix == ".sas7bdat" else ".sav"
        raise DataError(f"{path}: files of this format are read only; write {other} instead")
    if suffix in _FAMILIES:
        return _FAMILIES[suffix]
    if suffix in _NOT_WRITTEN:
        raise DataError(f"{path}: files of this format are not written; {_SUPPORTED}")
    if own == "text" or not suffix:
        return "json" if own == "json" else "text"
    raise DataError(f"{path}: cannot tell which format to write: {_SUPPORTED}")


def _frame_bytes(
    frames: Iterable[Frame],
    family: Family,
    suffix: str,
    dialect: Dialect | None = None,
    decimals: int | None = None,
) -> bytes | memoryview:
    """Frames of the same columns, one below the other, as the content of a file."""
    if family == "text":
        dialect = dialect or Dialect(delimiter="\t" if suffix == ".tsv" else ",")
        return _text_bytes(frames, dialect, decimals)
    if family == "json":
        return json_bytes(frames)
    if family == "excel":
        return workbook_bytes(stacked(frames))
    if family == "statistics":
        return statistics_bytes(stacked(frames), suffix)
    return arrow_bytes(arrow_table(stacked(frames)), suffix)


def _text_bytes(frames: Iterable[Frame], dialect: Dialect, decimals: int | None) -> bytes:
    out = io.StringIO()
    writer = csv.writer(out, delimiter=dialect.delimiter, lineterminator=dialect.line_terminator)
    for number, (names, columns) in enumerate(frames):
        if dialect.header and not number:
            writer.writerow(names)
        texts = (texts_of(*pair, decimals) for pair in zip(columns, names, strict=True))
        writer.writerows(zip(*texts, strict=True))
    return dialect.encoded(out.getvalue().encode())


def _put(path: str, payload: bytes | memoryview) -> None:
    if path.lower().endswith(".gz"):
        payload = gzip.compress(payload, mtime=0)  # the same table gives the same file at any time
    if path != "-":
        write_atomically(path, lambda file: file.write(payload))
        return
    rest, stream = memoryview(payload), sys.stdout.buffer
    try:
        while rest:  # with PYTHONUNBUFFERED, the system may take only a part of it
            rest = rest[stream.write(rest) :]
        stream.flush()
    except BrokenPipeError:
        raise  # the reader of our output has stopped, which the caller handles
    except OSError as error:
        raise MiwaeError(f"cannot write to standard output: {error.strerror or error}") from error
