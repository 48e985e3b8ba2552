"""Columns that are added to a completed table, in every format."""

import datetime

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from pyarrow import parquet

from miwae.columns import Cells
from miwae.documents import open_document, write


def at(row, value):
    return Cells(np.array([row]), np.array([value]))


def written(path, target, cells, **added):
    reading = open_document(str(path)).read()
    write(reading, str(target), cells, **added)
    return target


LIMITS = {".lower": {1: at(1, 1.25)}, ".upper": {1: at(1, 4.0)}}


@pytest.mark.parametrize("last", [b"", b"NA", b'""'])
def test_text_files_get_fields_at_the_end_of_each_record(tmp_path, last):
    content = b'# by hand\r\na,b\r\n"x\r\ny",1.50\r\nz,' + last
    (tmp_path / "in.csv").write_bytes(content)
    written(tmp_path / "in.csv", tmp_path / "out.csv", {1: at(1, 2.5)}, flag=True, further=LIMITS)
    assert (tmp_path / "out.csv").read_bytes() == (
        b"# by hand\r\na,b,b.imputed,b.lower,b.upper\r\n"
        b'"x\r\ny",1.50,false,,\r\nz,2.50,true,1.25,4.00'
    )


def test_text_files_get_them_behind_another_delimiter_too(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b\nx y,1.5\nz,\n")
    written(tmp_path / "in.csv", tmp_path / "out.tsv", {1: at(1, 2.5)}, flag=True)
    expected = b"a\tb\tb.imputed\nx y\t1.5\tfalse\nz\t2.5\ttrue\n"
    assert (tmp_path / "out.tsv").read_bytes() == expected


def test_typed_files_keep_the_type_of_the_column(tmp_path):
    days = [datetime.date(2024, 1, 31), None, datetime.date(2024, 3, 31)]
    table = pa.table({"day": pa.array(days), "n": pa.array([1, None, 3], "int16")})
    parquet.write_table(table, tmp_path / "in.parquet")
    cells = {0: at(1, 19783 * 86400.0), 1: at(1, 2.0)}
    further = {".lower": {0: at(1, 19754 * 86400.0), 1: at(1, 1.0)}}
    out = written(
        tmp_path / "in.parquet", tmp_path / "out.parquet", cells, flag=True, further=further
    )
    done = parquet.read_table(out)
    names = ["day", "n", "day.imputed", "day.lower", "n.imputed", "n.lower"]
    assert done.column_names == names
    assert done["day.lower"].to_pylist() == [None, datetime.date(2024, 2, 1), None]
    assert (done["n.lower"].type, done["n.lower"].to_pylist()) == (pa.int16(), [None, 1, None])
    assert done["n.imputed"].to_pylist() == [False, True, False]


def test_a_sheet_gets_them_behind_whatever_it_holds(tmp_path):
    book = openpyxl.Workbook()
    for row in (["a", "b"], ["x", 1.5], ["y", None], ["z", 2]):
        book.worksheets[0].append(row)
    book.worksheets[0]["D2"] = "a note"
    book.save(tmp_path / "in.xlsx")
    out = written(
        tmp_path / "in.xlsx", tmp_path / "out.xlsx", {1: at(1, 2.5)}, flag=True, further=LIMITS
    )
    sheet = openpyxl.load_workbook(out).worksheets[0]
    assert [cell.value for cell in sheet[1]] == [
        "a",
        "b",
        None,
        None,
        "b.imputed",
        "b.lower",
        "b.upper",
    ]
    assert [cell.value for cell in sheet[3]][4:] == [True, 1.25, 4]
    assert [cell.value for cell in sheet[2]][3:] == ["a note", False, None, None]


def test_text_becomes_a_typed_file_with_them(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b\nx,1.5\nz,\n")
    out = written(
        tmp_path / "in.csv", tmp_path / "out.parquet", {1: at(1, 2.5)}, flag=True, further=LIMITS
    )
    assert parquet.read_table(out).to_pylist() == [
        {"a": "x", "b": 1.5, "b.imputed": False, "b.lower": None, "b.upper": None},
        {"a": "z", "b": 2.5, "b.imputed": True, "b.lower": 1.2, "b.upper": 4.0},
    ]
