"""Sheets of Excel, in which only empty cells are filled and all else stays."""

import datetime
import io
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any, ClassVar

import numpy as np
from jaxtyping import Bool, Int

from miwae.errors import DataError
from miwae.table.base import AbstractTable, Column, Fill
from miwae.table.frames.objects import fill_objects, read_objects
from miwae.table.frames.shared import check_names
from miwae.table.text import DEFAULT_NA

__all__ = ["ExcelTable", "read_excel"]

_MOST_ROWS, _MOST_COLUMNS = 1_048_576, 16_384
_DAY = 86400.0


def _openpyxl() -> Any:
    try:
        import openpyxl
    except ImportError:
        raise DataError("Excel files need openpyxl: pip install 'miwae[excel]'") from None
    return openpyxl


@dataclass(frozen=True)
class _Workbook:
    """The file that a table is in.

    Attributes:
        content: of the file.
        top: the row of the first cell below the header, from 1 as Excel counts.
        left: the column of the first cell.
        formulas: for each column of the table, where they are.
        merged: for each column, where cells are parts of others.
    """

    content: bytes
    top: int
    left: int
    formulas: tuple[Bool[np.ndarray, " N"], ...]
    merged: tuple[Bool[np.ndarray, " N"], ...]


class ExcelTable(AbstractTable):
    """The first sheet of a workbook: names in its first row, one column below each.

    Filled cells go into the workbook as it was read: formats, formulas and other sheets stay. A
    table of other rows or columns is written as a workbook of its own, with values only.

    Args:
        names: of the columns.
        columns: their cells, None where empty.
        workbook: where they were read; None for a table that has no workbook yet.
        filled: the cells that differ from the workbook, by column and row.
        n_rows: the length, which a table without columns cannot tell otherwise.
    """

    typed: ClassVar[bool] = False

    def __init__(
        self,
        names: tuple[str, ...],
        columns: tuple[np.ndarray, ...],
        workbook: _Workbook | None = None,
        filled: Mapping[tuple[int, int], Any] | None = None,
        n_rows: int = 0,
    ) -> None:
        check_names(names)
        self._names = names
        self._columns = columns
        self._workbook = workbook
        self._filled = dict(filled or {})
        self._n_rows = len(columns[0]) if columns else n_rows

    @property
    def native(self) -> "ExcelTable":
        """The table itself."""
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns."""
        return self._names

    @property
    def n_rows(self) -> int:
        """Its length, without the header."""
        return self._n_rows

    def cells(self, position: int) -> np.ndarray:
        """The cells of a column as Python objects, None where empty."""
        return self._columns[position]

    def column(self, position: int, missing_values: tuple[Any, ...] = ()) -> Column:
        """A column in neutral form, typed by the cells that have a value."""
        cells = self._columns[position]
        return read_objects(cells, self._names[position], missing_values, "Excel")

    def fixed(self, position: int) -> dict[str, Bool[np.ndarray, " N"]]:
        """Formulas and parts of merged cells, which are not overwritten."""
        if self._workbook is None:
            return {}
        return {
            "formulas": self._workbook.formulas[position],
            "parts of merged cells": self._workbook.merged[position],
        }

    def fill(self, fills: Mapping[int, Fill]) -> "ExcelTable":
        """A copy with some cells replaced, but no formula and no merged cell."""
        columns, filled = list(self._columns), dict(self._filled)
        for position, fill in fills.items():
            fill = _shown(self._columns[position], self._unlocked(position, fill))
            columns[position] = fill_objects(columns[position], fill, self._names[position])
            values = columns[position][fill.rows]
            filled |= {
                (position, row): value
                for row, value in zip(fill.rows.tolist(), values, strict=True)
            }
        return ExcelTable(self._names, tuple(columns), self._workbook, filled, n_rows=self._n_rows)

    def _unlocked(self, position: int, fill: Fill) -> Fill:
        free = np.ones(len(fill.rows), bool)
        for fixed in self.fixed(position).values():
            free &= ~fixed[fill.rows]
        return replace(fill, rows=fill.rows[free], values=fill.values[free])

    def keep(self, positions: Sequence[int]) -> "ExcelTable":
        """Only some of the columns; without the workbook, unless they are all."""
        if list(positions) == list(range(len(self._names))):
            return self
        names = tuple(self._names[j] for j in positions)
        columns = tuple(self._columns[j] for j in positions)
        return ExcelTable(names, columns, n_rows=self._n_rows)

    def rows(self, start: int, stop: int) -> "ExcelTable":
        """Some consecutive rows; without the workbook, unless they are all."""
        if (start, stop) == (0, self.n_rows):
            return self
        columns = tuple(cells[start:stop] for cells in self._columns)
        length = len(range(self._n_rows)[start:stop])
        return ExcelTable(self._names, columns, n_rows=length)

    def with_columns(
        self, columns: Mapping[str, Bool[np.ndarray, " N"] | Int[np.ndarray, " N"]], *, first: bool
    ) -> "ExcelTable":
        """With further columns, in a workbook of its own."""
        names = tuple(columns)
        cells = tuple(values.astype(object) for values in columns.values())
        if first:
            return ExcelTable(names + self._names, cells + self._columns, n_rows=self._n_rows)
        return ExcelTable(self._names + names, self._columns + cells, n_rows=self._n_rows)

    @classmethod
    def stacked(cls, tables: Sequence["ExcelTable"]) -> "ExcelTable":
        """Tables of the same columns, one below the other, in a workbook of their own."""
        names = tables[0].names
        if any(table.names != names for table in tables):
            raise DataError("tables of different columns cannot be put below each other")
        return ExcelTable(
            names,
            tuple(
                np.concatenate([table._columns[j] for table in tables]) for j in range(len(names))
            ),
            n_rows=sum(table.n_rows for table in tables),
        )

    def to_bytes(self) -> bytes:
        """The content of a file."""
        openpyxl = _openpyxl()
        if self._workbook is None:
            book = openpyxl.Workbook()
            self._write_all(book.worksheets[0])
        else:
            book = openpyxl.load_workbook(io.BytesIO(self._workbook.content))
            self._write_filled(book.worksheets[0], self._workbook)
        out = io.BytesIO()
        book.save(out)
        return out.getvalue()

    def _write_all(self, sheet: Any) -> None:
        if self.n_rows >= _MOST_ROWS or len(self._names) > _MOST_COLUMNS:
            raise DataError(
                f"{self.n_rows} rows of {len(self._names)} columns do not fit on a sheet of "
                "Excel: write Parquet or CSV"
            )
        sheet.append(self._names)
        for row in zip(*self._columns, strict=True):
            sheet.append([_for_excel(value) for value in row])

    def _write_filled(self, sheet: Any, book: _Workbook) -> None:
        formats = [self._number_format(sheet, book, j) for j in range(len(self._names))]
        for (position, row), value in self._filled.items():
            cell = sheet.cell(book.top + row, book.left + position)
            if cell.number_format == "General":
                cell.number_format = formats[position]
            cell.value = _for_excel(value)

    def _number_format(self, sheet: Any, book: _Workbook, position: int) -> str:
        """How the first cell of a column that has a value is shown."""
        for row, value in enumerate(self._columns[position]):
            if value is not None and (position, row) not in self._filled:
                return sheet.cell(book.top + row, book.left + position).number_format
        return "General"


def _shown(cells: np.ndarray, fill: Fill) -> Fill:
    """Times rounded to what a sheet shows: to days where all others are days."""
    times = [value for value in cells if isinstance(value, datetime.datetime)]
    if not times or fill.values.dtype == object:
        return fill
    days = all(value.time() == datetime.time() for value in times)
    unit = _DAY if days else 1.0
    return replace(fill, values=np.rint(fill.values / unit) * unit)


def _for_excel(value: Any) -> Any:
    """A Python object as a sheet can hold it."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float | np.floating | np.integer | np.bool_ | Decimal):
        number = value.item() if isinstance(value, np.generic) else value
        if isinstance(number, int):
            return number
        if math.isinf(number):
            raise DataError(f"Excel has no {number}")
        return None if math.isnan(number) else number
    if isinstance(value, datetime.datetime) and value.tzinfo is not None:
        # Sheets know no zones: all are written in UTC, so that they can be compared.
        return value.astimezone(datetime.UTC).replace(tzinfo=None)
    if isinstance(value, datetime.date | datetime.time | datetime.timedelta):
        return value
    raise DataError(f"Excel has no cells for {type(value).__name__}, such as {value!r}")


def read_excel(content: bytes, *, na_words: Iterable[str] = DEFAULT_NA) -> ExcelTable:
    """Read the first sheet of a workbook.

    Args:
        content: of an .xlsx file.
        na_words: texts that stand for no value.

    Raises:
        DataError: it is no workbook, its first sheet is empty, two columns have the same name, or
            its formulas have never been calculated.
    """
    openpyxl = _openpyxl()
    try:
        values = openpyxl.load_workbook(io.BytesIO(content), data_only=True).worksheets[0]
        formulas = openpyxl.load_workbook(io.BytesIO(content)).worksheets[0]
    except Exception as error:  # openpyxl raises what its zip and XML readers raise
        raise DataError(f"this is not an Excel workbook (.xlsx): {error}") from error
    top, left, header = _header(values)
    height = _height(formulas, top, left, len(header))
    area = {
        "min_row": top + 1,
        "max_row": top + height,
        "min_col": left,
        "max_col": left + len(header) - 1,
    }
    shown = list(values.iter_rows(**area)) if height else []
    stored = list(formulas.iter_rows(**area)) if height else []
    words = frozenset(na_words)
    formulas, merged = (
        _by_column([[what(cell) for cell in row] for row in stored], len(header), bool)
        for what in (_is_formula, _is_merged)
    )
    cells = _by_column(
        [[_value(cell, words) for cell in row] for row in shown], len(header), object
    )
    _refuse_uncalculated(shown, stored)
    return ExcelTable(_names(header), cells, _Workbook(content, top + 1, left, formulas, merged))


def _header(sheet: Any) -> tuple[int, int, list[Any]]:
    """The row and column of the first name, and the cells from the first name to the last."""
    for row in sheet.iter_rows():
        used = [cell for cell in row if cell.value is not None]
        if used:
            left, right = used[0].column, used[-1].column
            names = [sheet.cell(used[0].row, j).value for j in range(left, right + 1)]
            return used[0].row, left, names
    raise DataError("the first sheet is empty")


def _names(header: Sequence[Any]) -> tuple[str, ...]:
    return tuple(
        f"column_{place}" if name is None else str(name).strip()
        for place, name in enumerate(header, start=1)
    )


def _height(sheet: Any, top: int, left: int, width: int) -> int:
    """The number of rows below the header, up to the last that is not blank."""
    last = top
    for row in sheet.iter_rows(min_row=top + 1, min_col=left, max_col=left + width - 1):
        if any(cell.value is not None for cell in row):
            last = row[0].row
    return last - top


def _by_column(rows: Sequence[Sequence[Any]], width: int, dtype: type) -> tuple[np.ndarray, ...]:
    table = np.empty((len(rows), width), dtype=dtype)
    for i, row in enumerate(rows):
        for j, value in enumerate(row):
            table[i, j] = value
    return tuple(table.T.copy())


def _is_formula(cell: Any) -> bool:
    return cell.data_type == "f"


def _is_merged(cell: Any) -> bool:
    """All cells of a merged area but the first, which has its value."""
    return type(cell).__name__ == "MergedCell"


def _value(cell: Any, na_words: frozenset[str]) -> Any:
    """The value of a cell; None also for #N/A and other errors, and for words that mean none."""
    if cell.data_type == "e":
        return None
    if isinstance(cell.value, str) and cell.value.strip() in na_words:
        return None
    return cell.value


def _refuse_uncalculated(shown: Sequence[Any], stored: Sequence[Any]) -> None:
    """Formulas without any stored result were written by a program that cannot calculate."""
    pairs = [
        (value, cell)
        for values, cells in zip(shown, stored, strict=True)
        for value, cell in zip(values, cells, strict=True)
        if _is_formula(cell)
    ]
    if pairs and all(value.value is None for value, _ in pairs):
        raise DataError(
            f"formulas have no stored results (the first is {pairs[0][1].coordinate}): open the "
            "file in Excel or LibreOffice and save it"
        )
