"""Files that would take too much time or memory, and what other programs would make of text."""

import gzip
import io
import time
import zipfile

import numpy as np
import openpyxl
import pandas as pd
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet
import pytest

from miwae import frames
from miwae.columns import Cells, infer_schema
from miwae.documents import Frame, open_document, write, write_frame
from miwae.documents._opening import open_text
from miwae.errors import DataError

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "=cmd|' /C calc'!A0", "#N/A", "plain"]


def sheet_of(path):
    return openpyxl.load_workbook(path).worksheets[0]


def seconds(function, *arguments):
    before = time.process_time()
    function(*arguments)
    return time.process_time() - before


def read_all(data: bytes) -> None:
    infer_schema(open_text(data).read().columns)


def test_time_grows_with_the_number_of_unnamed_columns():
    small, large = (seconds(read_all, b"," * n + b"\n" + b"," * n) for n in (500, 4000))
    assert large < 20 * small + 0.5  # with the square it would be 64 times


@pytest.mark.parametrize("digits", ["9{}", "0.{}", "1e{}", "{}.5", "9{}x"])
def test_time_grows_with_the_number_of_digits(digits):
    def read(n: int) -> None:
        open_text(f"a,b\n{digits.format('9' * n)},1\n2,3\n".encode()).read()

    read(10)
    assert seconds(read, 1_000_000) < 1.0


@pytest.fixture
def far_cell(tmp_path):
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in (["a", "b"], [1, 2], [3, None]):
        sheet.append(row)
    sheet.cell(1_000_000, 700).value = "far"
    book.save(tmp_path / "far.xlsx")
    return str(tmp_path / "far.xlsx")


def test_a_sheet_with_a_far_cell_is_refused_soon(far_cell):
    with pytest.raises(DataError, match=r"reaches to row 1000000 and column 700.*allow_large"):
        open_document(far_cell)


def test_a_far_cell_can_be_allowed(tmp_path, monkeypatch):
    monkeypatch.setattr("miwae.documents._document.LARGE_AREA", 1000)
    book = openpyxl.Workbook()
    book.worksheets[0].append(["a", "b"])
    book.worksheets[0].cell(1200, 1).value = 5
    book.save(path := str(tmp_path / "t.xlsx"))
    with pytest.raises(DataError, match="--allow-large"):
        open_document(path)
    assert open_document(path, allow_large=True).n_rows == 1199


def test_a_gzip_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("miwae.documents._document.LARGE", 2**20)
    path = tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(b"a\n" + b"1\n" * 2**20))
    with pytest.raises(DataError, match=r"would unpack to more than 1 MiB.*--allow-large"):
        open_document(str(path))
    assert open_document(str(path), allow_large=True).n_rows == 2**20
    path.write_bytes(gzip.compress(np.random.default_rng(0).bytes(2**21).hex().encode()))
    assert open_document(str(path)).n_rows == 0  # large, but not by compression


def test_a_workbook_that_is_a_bomb_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("miwae.documents._document.LARGE", 2**20)
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("xl/worksheets/sheet1.xml", b"<c/>" * 2**20)
    with pytest.raises(DataError, match=r"would unpack to 0.0 GiB.*--allow-large"):
        open_document(str(path))


@pytest.mark.filterwarnings("ignore:Feather V1")
@pytest.mark.parametrize("suffix", [".parquet", ".feather"])
def test_a_column_that_repeats_one_value_for_ever_is_refused(tmp_path, monkeypatch, suffix):
    monkeypatch.setattr("miwae.documents._document.LARGE", 2**20)
    path = str(tmp_path / f"t{suffix}")
    table = pa.table({"a": np.zeros(2**20), "b": np.arange(2**20) % 2})
    if suffix == ".parquet":
        pa.parquet.write_table(table, path, compression="zstd")
    else:
        pa.feather.write_feather(table, path, compression="zstd", compression_level=19)
    with pytest.raises(DataError, match=r"would need 0.0 GiB.*--allow-large"):
        open_document(path)
    assert open_document(path, allow_large=True).n_rows == 2**20
    pa.feather.write_feather(table, str(tmp_path / "old.feather"), version=1)
    assert open_document(str(tmp_path / "old.feather")).n_rows == 2**20  # as large on disk


LAUGHS = b"""<?xml version="1.0"?><!DOCTYPE l [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;">]>
<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData><row r="1">
<c r="A1" t="inlineStr"><is><t>&b;</t></is></c></row></sheetData></worksheet>"""


def test_a_workbook_with_entities_is_refused(tmp_path):
    out = io.BytesIO()
    openpyxl.Workbook().save(out)
    path = tmp_path / "t.xlsx"
    with zipfile.ZipFile(out) as old, zipfile.ZipFile(path, "w") as new:
        for name in old.namelist():
            new.writestr(name, LAUGHS if "sheet1" in name else old.read(name))
    with pytest.raises(DataError, match="not an Excel workbook"):
        open_document(str(path))


def test_a_workbook_without_a_sheet_of_cells_is_refused(tmp_path):
    book = openpyxl.Workbook()
    book.create_chartsheet()
    book.remove(book.worksheets[0])
    book.save(tmp_path / "t.xlsx")
    with pytest.raises(DataError, match="no sheet with cells|not an Excel workbook"):
        open_document(str(tmp_path / "t.xlsx"))


def test_text_that_looks_like_a_formula_stays_text_in_excel(tmp_path):
    path = str(tmp_path / "t.xlsx")
    write_frame(Frame(("=name",), (FORMULAS,)), path)
    cells = [row[0] for row in sheet_of(path).iter_rows()]
    assert [cell.value for cell in cells] == ["=name", *FORMULAS]
    assert {cell.data_type for cell in cells} == {"s"}


def test_imputed_text_that_looks_like_a_formula_stays_text_in_excel(tmp_path):
    path = str(tmp_path / "t.xlsx")
    write_frame(Frame(("a", "b"), ([*FORMULAS, None], range(8))), path)
    reading = open_document(path).read()
    new = Cells(np.array([7]), np.array(["=1+1"], dtype=object), storage="text")
    write(reading, path, {0: new})
    cell = sheet_of(path).cell(9, 1)
    assert (cell.value, cell.data_type) == ("=1+1", "s")


@pytest.mark.parametrize("text", ["a\x00b", "a\x1bb", "x" * 40_000])
def test_text_that_excel_has_not_is_refused_by_column(tmp_path, text):
    with pytest.raises(DataError, match="column 'b' has text.*write CSV or Parquet"):
        write_frame(Frame(("a", "b"), ([1], [text])), str(tmp_path / "t.xlsx"))


def test_numbers_beyond_all_floats_are_refused_by_column(tmp_path):
    frame = pd.DataFrame({"a": [1, 2], "b": pd.Series([1, -(10**400)], dtype=object)})
    with pytest.raises(DataError, match="column 'b' has the value -inf in row 1"):
        infer_schema(frames.columns(frame))
    with pytest.raises(DataError, match="column 'b' has a whole number of 1329 bits"):
        write_frame(Frame(("a", "b"), ([1], [10**400])), str(tmp_path / "t.xlsx"))
    table = tmp_path / "t.csv"
    table.write_text("a,b\n1," + "9" * 400 + "\n2,3\n")
    with pytest.raises(DataError, match="column 'b' has the value inf in line 2"):
        infer_schema(open_document(str(table)).read().columns)


def test_a_damaged_dictionary_of_a_feather_file_is_refused(tmp_path):
    table = pa.table({"b": pa.DictionaryArray.from_arrays([0, 1, 7], ["x", "y"], safe=False)})
    pa.feather.write_feather(table, str(tmp_path / "t.feather"))
    with pytest.raises(DataError, match="this is not a feather file"):
        open_document(str(tmp_path / "t.feather"))
