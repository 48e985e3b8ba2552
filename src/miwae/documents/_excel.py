"""Excel files, in which only empty cells of the first sheet are filled and all else stays."""

import datetime
import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Shaped

from miwae.columns import Cells, check_names, filled_objects, read_objects
from miwae.documents._document import DEFAULT_NA, Document, Family, Patch, Reading
from miwae.documents._frame import Frame, extra, objects_of
from miwae.errors import DataError

_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
_DAY = 86400.0
_HELD = (str, bool, int, datetime.date, datetime.time, datetime.timedelta)


@dataclass(frozen=True, kw_only=True, eq=False)
class ExcelDocument(Document):
    """The first sheet of a workbook: names in its first row, one column below each."""

    family: ClassVar[Family] = "excel"
    content: bytes
    cells: tuple[np.ndarray, ...]  # of each column, None where empty
    top: int  # the row of the first cell below the header, counted from 1 as in Excel
    left: int
    fixed_cells: Mapping[str, Bool[np.ndarray, "N W"]]

    def read(self, marks: Iterable[Any] = (), like: Sequence[Any] | None = None) -> "ExcelReading":
        missing, pairs = tuple(marks), zip(self.cells, self.names, strict=True)
        columns = tuple(read_objects(cells, name, missing, "Excel") for cells, name in pairs)
        return ExcelReading(document=self, columns=columns)

    def fixed(self, position: int) -> Mapping[str, Bool[np.ndarray, " N"]]:
        return {what: cells[:, position] for what, cells in self.fixed_cells.items()}


@dataclass(frozen=True, kw_only=True, eq=False)
class ExcelReading(Reading):
    document: ExcelDocument

    def patched(self, cells: Patch, suffix: str = "") -> bytes:
        document = self.document
        book = extra("openpyxl").load_workbook(io.BytesIO(document.content))
        sheet = book.worksheets[0]
        for position, given in cells.items():
            new = self._writable(position, given)
            values = self._filled(position, new)
            shown = self._number_format(sheet, position, new)
            for row in new.rows.tolist():
                cell = sheet.cell(document.top + row, document.left + position)
                if cell.number_format == "General":
                    cell.number_format = shown
                cell.value = _for_excel(values[row])
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
    book.save(out)
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
    sheet.append(frame.names)
    for row in zip(*columns, strict=True):
        sheet.append([_for_excel(value) for value in row])
    return _saved(book)


def _for_excel(value: Any) -> Any:
    if isinstance(value, np.floating | np.integer | np.bool_):
        value = value.item()
    if isinstance(value, float | Decimal):
        if math.isinf(value):
            raise DataError(f"Excel has no {value}")
        return None if math.isnan(value) else value
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # Sheets have no time zones: in UTC, all instants can be compared.
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if value is None or isinstance(value, _HELD):
        return value
    raise DataError(f"Excel has no cells for {type(value).__name__}, such as {value!r}")


def open_excel(content: bytes, *, na_words: Iterable[str] = DEFAULT_NA) -> ExcelDocument:
    openpyxl = extra("openpyxl")
    try:
        shown, stored = (
            openpyxl.load_workbook(io.BytesIO(content), data_only=values).worksheets[0]
            for values in (True, False)
        )
    except Exception as error:  # openpyxl raises what its zip and XML readers raise
        raise DataError(f"this is not an Excel workbook (.xlsx): {error}") from error
    top, left, header = _header(shown)
    names = tuple(
        f"column_{place}" if name is None else str(name).strip()
        for place, name in enumerate(header, start=1)
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
    )


def _header(sheet: Any) -> tuple[int, int, list[Any]]:
    """The row and column of the first name, and the cells from the first name to the last."""
    for row in sheet.iter_rows():
        used = [cell for cell in row if cell.value is not None]
        if used:
            left, right = used[0].column, used[-1].column
            names = [sheet.cell(used[0].row, j).value for j in range(left, right + 1)]
            return used[0].row, left, names
    raise DataError("the first sheet is empty")


def _each(
    function: Callable[[Any], Any], grid: Shaped[np.ndarray, "N W"], dtype: type = bool
) -> Shaped[np.ndarray, "N W"]:
    return np.frompyfunc(function, 1, 1)(grid).astype(dtype)
