"""Excel files, in which only empty cells of one sheet are filled and all else stays."""

import datetime
import io
import math
import re
import shlex
import warnings
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int, Shaped

from miwae._extras import extra
from miwae.columns import Cells, check_names, filled_objects, read_objects
from miwae.documents._document import (
    DEFAULT_NA,
    Document,
    Family,
    Patch,
    Reading,
    is_sparse,
    most_unpacked,
)
from miwae.documents._frame import NO_COLUMNS, Frame, objects_of
from miwae.errors import DataError, SettingsError

_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
_LONGEST = 32_767  # characters of a cell
_LARGEST = int(np.finfo(np.float64).max)
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff\ud800-\udfff]")

_DAY = 86400.0
_HELD = (str, bool, int, datetime.date, datetime.time, datetime.timedelta)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExcelDocument(Document):
    """A sheet of a workbook: names in its first row, one column below each."""

    family: ClassVar[Family] = "excel"
    content: bytes
    cells: tuple[np.ndarray, ...]  # of each column, None where empty
    top: int  # the row of the first cell below the header, counted from 1 as in Excel
    left: int
    fixed_cells: Mapping[str, Bool[np.ndarray, "N W"]]

    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "ExcelReading":
        missing, pairs = tuple(marks), zip(self.cells, self.names, strict=True)
        columns = (read_objects(cells, name, missing, "Excel") for cells, name in pairs)
        placed = tuple(replace(column, place=self.place) for column in columns)
        return ExcelReading(document=self, columns=placed)

    def row_numbers(self) -> Int[np.ndarray, " N"]:
        """As Excel counts the rows of the sheet."""
        return self.top + np.arange(self.n_rows)

    def fixed(self, position: int) -> Mapping[str, Bool[np.ndarray, " N"]]:
        return {what: cells[:, position] for what, cells in self.fixed_cells.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class ExcelReading(Reading):
    document: ExcelDocument

    def patched(self, cells: Patch, suffix: str = "", added: Frame = NO_COLUMNS) -> bytes:
        document = self.document
        book = extra("openpyxl").load_workbook(io.BytesIO(document.content))
        sheet = book[document.sheet]
        for position, given in cells.items():
            new = self._writable(position, given)
            values = self._filled(position, new)
            shown = self._number_format(sheet, position, new)
            for row in new.rows.tolist():
                cell = sheet.cell(document.top + row, document.left + position)
                if cell.number_format == "General":
                    cell.number_format = shown
                _put(cell, values[row], document.names[position])
        # Behind whatever else the sheet holds, since nothing of it may be overwritten.
        for place, (name, column) in enumerate(
            zip(added.names, added.columns, strict=True), start=sheet.max_column + 1
        ):
            _put(sheet.cell(document.top - 1, place), name, name)
            for row, value in enumerate(objects_of(column), start=document.top):
                _put(sheet.cell(row, place), value, name)
        return _saved(book)

    def frame(self, cells: Patch, *, as_text: bool = False) -> Frame:
        columns = list(self.document.cells)
        for position, new in cells.items():
            columns[position] = self._filled(position, self._writable(position, new))
        return Frame(self.document.names, tuple(columns))

    def _writable(self, position: int, new: Cells) -> Cells:
        """Without formulas and merged cells, and with times as precise as those of the column."""
        fixed, cells = self.document.fixed(position).values(), self.document.cells[position]
        free = ~np.logical_or.reduce([flags[new.rows] for flags in fixed])
        values = new.values[free]
        times = [value for value in cells if isinstance(value, datetime.datetime)]
        if times and values.dtype != object:
            unit = _DAY if all(time.time() == datetime.time() for time in times) else 1.0
            values = np.rint(values / unit) * unit
        return replace(new, rows=new.rows[free], values=values)

    def _filled(self, position: int, new: Cells) -> np.ndarray:
        return filled_objects(self.document.cells[position], new, self.document.names[position])

    def _number_format(self, sheet: Any, position: int, new: Cells) -> str:
        """How the first cell that has a value and keeps it is shown."""
        document, replaced = self.document, set(new.rows.tolist())
        for row, value in enumerate(document.cells[position]):
            if value is not None and row not in replaced:
                return sheet.cell(document.top + row, document.left + position).number_format
        return "General"


def _saved(book: Any) -> bytes:
    out = io.BytesIO()
    try:
        book.save(out)
    except Exception as error:  # openpyxl raises what its readers and writers raise
        raise DataError(f"the workbook cannot be written: {error}") from error
    return out.getvalue()


def workbook_bytes(frame: Frame) -> bytes:
    columns = [objects_of(column) for column in frame.columns]
    n_rows = len(columns[0]) if columns else 0
    if n_rows >= _MOST_ROWS or len(columns) > _MOST_COLUMNS:
        raise DataError(
            f"{n_rows} rows of {len(columns)} columns do not fit on a sheet of Excel: write "
            "Parquet or CSV"
        )
    book = extra("openpyxl").Workbook()
    sheet = book.worksheets[0]
    for j, (name, column) in enumerate(zip(frame.names, columns, strict=True), start=1):
        _put(sheet.cell(1, j), name, name)
        for i, value in enumerate(column, start=2):
            _put(sheet.cell(i, j), value, name)
    return _saved(book)


def _put(cell: Any, value: Any, name: str) -> None:
    """Put a value into a cell; text stays text, whatever it begins with."""
    value = _for_excel(value, name)
    if not isinstance(value, str):
        cell.value = value
        return
    if len(value) > _LONGEST or _NOT_IN_XML.search(value):
        raise DataError(
            f"column {name!r} has text with control characters, or of more than {_LONGEST} "
            f"characters, which Excel has not: {value[:30]!r}; write CSV or Parquet"
        )
    cell.value = value
    if cell.data_type != "s":  # a formula (=A1) or an error (#N/A), where only text is meant
        cell.data_type, cell.quotePrefix = "s", True


def _for_excel(value: Any, name: str) -> Any:
    if isinstance(value, np.floating | np.integer | np.bool_):
        value = value.item()
    if isinstance(value, int) and abs(value) > _LARGEST:
        raise DataError(
            f"column {name!r} has a whole number of {value.bit_length()} bits, which Excel has "
            "not: write CSV"
        )
    if isinstance(value, float | Decimal):
        if math.isinf(value):
            raise DataError(f"column {name!r} has the value {value}, which Excel has not")
        return None if math.isnan(value) else value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # Sheets have no time zones: in UTC, all instants can be compared.
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if value is None or isinstance(value, _HELD):
        return value
    what = f"{type(value).__name__}, such as {value!r}"
    raise DataError(f"column {name!r}: Excel has no cells for {what}")


def open_excel(
    content: bytes,
    *,
    na_words: Iterable[str] = DEFAULT_NA,
    sheet: str | None = None,
    allow_large: bool = False,
) -> ExcelDocument:
    """Read the first sheet, or the one of that name or number (from 1)."""
    if not allow_large:
        _refuse_bomb(content)
    both = _sheets(content)
    titles = tuple(one.title for one in both[0])
    place = _sheet_place(titles, sheet)
    shown, stored = (sheets[place] for sheets in both)
    if not allow_large and _is_sparse(stored):
        raise DataError(
            f"sheet {stored.title!r} reaches to row {stored.max_row} and column "
            f"{stored.max_column}, but only {len(stored._cells)} cells are used: delete the cell "
            "far from the table, or allow it by allow_large (--allow-large)"
        )
    remark = _remark(both[0]) if sheet is None else ""
    top, left, header = _header(shown, remark)
    names = tuple(
        f"Unnamed: {place}" if name is None else str(name).strip()
        for place, name in enumerate(header)
    )
    check_names(names)
    below = {"min_row": top + 1, "min_col": left, "max_col": left + len(names) - 1}
    rows = (list(sheet.iter_rows(**below)) for sheet in (stored, shown))
    stored_cells, shown_cells = (np.array(r, object).reshape(-1, len(names)) for r in rows)
    used = _each(lambda cell: cell.value is not None, stored_cells).any(axis=1)
    height = int(np.flatnonzero(used).max(initial=-1)) + 1
    stored_cells, shown_cells = stored_cells[:height], shown_cells[:height]
    formulas = _each(lambda cell: cell.data_type == "f", stored_cells)
    # All cells of a merged area but the first, which has the value.
    merged = _each(lambda cell: type(cell).__name__ == "MergedCell", stored_cells)
    if formulas.any() and all(cell.value is None for cell in shown_cells[formulas]):
        # The file was written by a program that cannot calculate.
        first = stored_cells[formulas][0].coordinate
        raise DataError(
            f"formulas have no stored results (the first is {first}): open the file in Excel or "
            "LibreOffice and save it"
        )
    words = frozenset(na_words)

    def value(cell: Any) -> Any:
        missing = isinstance(cell.value, str) and cell.value.strip() in words
        return None if missing or cell.data_type == "e" else cell.value  # an error such as #N/A

    return ExcelDocument(
        names=names,
        n_rows=height,
        content=content,
        cells=tuple(_each(value, shown_cells, object).T),
        top=top + 1,
        left=left,
        fixed_cells={"formulas": formulas, "parts of merged cells": merged},
        sheets=titles,
        sheet=titles[place],
        remark=remark,
    )


def _refuse_bomb(content: bytes) -> None:
    """Refuse what would be huge when it is unpacked, by the sizes that the file names."""
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            size = sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError):
        return  # no workbook, as openpyxl will say
    if size > most_unpacked(len(content)):
        raise DataError(
            f"the workbook of {len(content)} bytes would unpack to {size / 2**30:.1f} GiB: if "
            "that is right, allow it by allow_large (--allow-large)"
        )


def _sheets(content: bytes) -> list[list[Any]]:
    """The sheets with the results of formulas, and with formulas."""
    openpyxl = extra("openpyxl")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about parts of the workbook that are not read
            both = [
                openpyxl.load_workbook(io.BytesIO(content), data_only=values).worksheets
                for values in (True, False)
            ]
    except MemoryError:
        raise
    except Exception as error:  # openpyxl raises what its zip and XML readers raise
        raise DataError(
            "this is not an Excel workbook (.xlsx), or it is damaged: open it in Excel or "
            "LibreOffice and save it again"
        ) from error
    if not both[0]:
        raise DataError("the workbook has no sheet with cells")
    return both


def _is_sparse(sheet: Any) -> bool:
    """Whether a sheet is large because of a few cells that are far from the others."""
    return is_sparse(sheet.max_row, sheet.max_column, len(sheet._cells))


def _sheet_place(titles: Sequence[str], sheet: str | None) -> int:
    if sheet is None:
        return 0
    if sheet in titles:
        return titles.index(sheet)
    if sheet.isdecimal() and 1 <= int(sheet) <= len(titles):
        return int(sheet) - 1
    raise SettingsError(
        f"sheet {sheet!r} is not in the workbook; its sheets are {', '.join(titles)}"
    )


def _size(sheet: Any) -> tuple[int, int]:
    """How many columns and rows a table on this sheet would have; no columns if it is empty."""
    used = [sum(value is not None for value in row) for row in sheet.iter_rows(values_only=True)]
    used = [n for n in used if n]
    return (used[0], len(used) - 1) if used else (0, 0)


def _remark(sheets: Sequence[Any]) -> str:
    """That the first sheet looks like a note and another one like a table, if so."""
    if len(sheets) < 2 or min(_size(sheets[0])) > 1:
        return ""
    others = [sheet for sheet in sheets[1:] if not _is_sparse(sheet)]
    tables = [sheet.title for sheet in others if min(_size(sheet)) > 1]
    if not tables:
        return ""
    option = shlex.join(["--sheet", tables[0]])
    return f"the first sheet looks like a note, and {tables[0]!r} like a table: {option}"


def _header(sheet: Any, remark: str) -> tuple[int, int, list[Any]]:
    """The row and column of the first name, and the cells from the first name to the last."""
    for row in sheet.iter_rows():
        used = [cell for cell in row if cell.value is not None]
        if used:
            left, right = used[0].column, used[-1].column
            names = [sheet.cell(used[0].row, j).value for j in range(left, right + 1)]
            return used[0].row, left, names
    raise DataError(f"the sheet {sheet.title!r} is empty{'; ' if remark else ''}{remark}")


def _each(
    function: Callable[[Any], Any], grid: Shaped[np.ndarray, "N W"], dtype: type = bool
) -> Shaped[np.ndarray, "N W"]:
    return np.frompyfunc(function, 1, 1)(grid).astype(dtype)
