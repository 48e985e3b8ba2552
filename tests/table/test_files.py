"""Files: whole or not at all, and told apart by suffix and content."""

import datetime
import errno
import gzip
import io
import os
import stat
import subprocess
import sys
import threading
from types import SimpleNamespace

import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from miwae import atomic
from miwae.errors import DataError, MiwaeError
from miwae.table.base import Fill
from miwae.table.excel import ExcelTable, read_excel
from miwae.table.files import (
    converted,
    read_table,
    suffix_kind,
    write_atomically,
    write_table,
)
from miwae.table.frames import ArrowTable, as_table
from miwae.table.text import TextTable, read_text

CSV = b'a,b\r\n0.10,"x, y"\r\n,\r\n2,z'
FILLED = b'a,b\r\n0.10,"x, y"\r\n1.50,z\r\n2,z'


def without_holes(table):
    """The middle row filled: 1.5 and "z"."""
    row = np.array([1])
    table.column(0)
    fills = {0: Fill(row, np.array([1.5])), 1: Fill(row, np.array(["z"], dtype=object))}
    return table.fill(fills)


def write(content):
    return lambda file: file.write(content) and None


# Text.


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.CSV", "t.data", "t"])
def test_text_files_come_back_byte_for_byte(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(CSV)
    table = read_table(str(path))
    assert isinstance(table, TextTable)
    write_table(table, str(tmp_path / ("new" + name)))
    assert (tmp_path / ("new" + name)).read_bytes() == CSV
    write_table(without_holes(table), str(path))
    assert path.read_bytes() == FILLED


def test_options_reach_the_reader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("é;x,y;1\nü;2,n;3\n".encode("latin-1"))
    table = read_table(
        str(path), delimiter=",", encoding="latin-1", na_words=["y;1"], header=False
    )
    assert table.names == ("column_1", "column_2")
    assert table.texts(0) == ["é;x", "ü;2"]
    assert table.column(1).missing.tolist() == [True, False]


def test_tsv_files_have_tabs(tmp_path):
    source, target = tmp_path / "t.tsv", tmp_path / "t.csv"
    source.write_bytes(b"a,b\tc\nx,y\t3\n")
    table = read_table(str(source))
    assert table.names == ("a,b", "c")
    write_table(table, str(target))
    assert target.read_bytes() == b'"a,b",c\n"x,y",3\n'
    write_table(read_table(str(target)), str(source))
    assert source.read_bytes() == b'"a,b"\tc\n"x,y"\t3\n'
    source.write_bytes(b"a\tb\n1,5\t3\n")
    write_table(read_table(str(source)), str(target))
    assert target.read_bytes() == b"a;b\n1,5;3\n"


def test_gzip_is_known_by_content_and_written_by_suffix(tmp_path):
    path, other = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(CSV))
    table = read_table(str(path))
    write_table(table, str(other))
    first = other.read_bytes()
    assert gzip.decompress(first) == CSV
    assert first[4:8] == bytes(4)  # no time: the same table gives the same file
    assert read_table(str(other)).to_bytes() == CSV
    path.write_bytes(gzip.compress(CSV)[:-9])
    with pytest.raises(DataError, match=r"t\.csv: the gzip file is damaged or cut off"):
        read_table(str(path))


def test_standard_input_and_output(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    for content in (CSV, gzip.compress(CSV)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        out.seek(0)
        out.truncate()
        write_table(without_holes(read_table("-")), "-")
        assert out.getvalue() == FILLED


def test_parquet_from_standard_input(monkeypatch):
    sink = io.BytesIO()
    parquet.write_table(pa.table({"a": [1, None]}), sink)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(sink.getvalue())))
    assert read_table("-").native == pa.table({"a": [1, None]})


def test_errors_on_standard_input_name_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(DataError, match="standard input: the file is empty"):
        read_table("-")


def test_a_full_disk_behind_standard_output(monkeypatch):
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Full()))
    with pytest.raises(MiwaeError, match="standard output: No space left"):
        write_table(read_text(CSV), "-")


def test_a_closed_pipe_is_left_to_the_caller(monkeypatch):
    class Closed(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Closed()))
    with pytest.raises(BrokenPipeError):
        write_table(read_text(CSV), "-")


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("x.csv", "text"),
        ("/y.z/x.TSV.gz", "text"),
        ("x.txt", "text"),
        ("-", "text"),
        ("x.parquet", "parquet"),
        ("x.feather", "feather"),
        ("x.arrow", "feather"),
        ("x.xlsx", "excel"),
        ("x.gz", ""),
        ("x.xls", ""),
        ("csv", ""),
        ("a.csv/x", ""),
    ],
)
def test_kinds_by_suffix(path, kind):
    assert suffix_kind(path) == kind


# What cannot be read.


def test_paths_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"no file .*gone\.csv: check the path"):
        read_table(str(tmp_path / "gone.csv"))
    with pytest.raises(DataError, match="is a directory: name a file"):
        read_table(str(tmp_path))
    path = tmp_path / "t.csv"
    path.write_bytes(CSV)
    for error, message in [
        (PermissionError(errno.EACCES, "denied"), "may not be read: change its permissions"),
        (OSError(errno.EIO, "Input/output error"), r"cannot read .*t\.csv: Input/output error"),
    ]:

        def fails(*_, error=error):
            raise error

        monkeypatch.setattr("builtins.open", fails)
        with pytest.raises(DataError, match=message):
            read_table(str(path))


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("t.csv", b"a,b\n1\n", r"t\.csv: line 2 has 1 field"),
        ("t.csv", b"PAR1", r"t\.csv: this is not a text table"),
        ("t.dat", b"\x00\x01\x02", r"t\.dat: .*\.csv, \.tsv, \.txt, \.parquet"),
        ("t.parquet", CSV, r"t\.parquet: this is not a parquet file"),
        ("t.feather", CSV, r"t\.feather: this is not a feather file"),
        ("t.xlsx", CSV, r"t\.xlsx: this is not an Excel workbook"),
    ],
)
def test_files_that_are_not_what_they_say_are_named(tmp_path, name, content, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        read_table(str(tmp_path / name))


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("t.parquet", "pyarrow", r"pip install 'miwae\[parquet\]'"),
        ("t.xlsx", "openpyxl", r"pip install 'miwae\[excel\]'"),
    ],
)
def test_missing_libraries_are_named(tmp_path, monkeypatch, name, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    (tmp_path / name).write_bytes(b"anything")
    with pytest.raises(DataError, match=message):
        read_table(str(tmp_path / name))
    with pytest.raises(DataError, match=message):
        write_table(read_text(CSV), str(tmp_path / name))


def test_importing_loads_nothing_heavy():
    code = "import sys, miwae.table.files; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "miwae.table.files" in loaded
    assert not loaded & {"jax", "pandas", "polars", "pyarrow", "openpyxl", "scipy"}


# Whole or not at all.


def leftovers(directory):
    return sorted(path.name for path in directory.iterdir())


@pytest.mark.parametrize("existing", [True, False])
@pytest.mark.parametrize(
    "error",
    [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), RuntimeError()],
)
@pytest.mark.parametrize("place", ["write", "fsync", "replace"])
def test_a_failure_leaves_what_was_there(tmp_path, monkeypatch, existing, error, place):
    path = tmp_path / "t.csv"
    if existing:
        path.write_bytes(b"old")

    def fails(*_):
        raise error

    if place != "write":
        monkeypatch.setattr(os, place, fails)
    expected = MiwaeError if isinstance(error, OSError) else type(error)
    with pytest.raises(expected) as raised:
        write_atomically(str(path), fails if place == "write" else write(b"new"))
    if isinstance(error, OSError):
        assert str(raised.value) == f"cannot write {path}: No space left on device"
    assert leftovers(tmp_path) == (["t.csv"] if existing else [])
    if existing:
        assert path.read_bytes() == b"old"


def test_the_old_content_is_there_until_the_new_one_is_complete(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes(b"old")

    def look(file):
        file.write(b"new")
        assert path.read_bytes() == b"old"

    write_atomically(str(path), look)
    assert path.read_bytes() == b"new"
    assert leftovers(tmp_path) == ["t.csv"]


def test_permissions_come_from_the_umask_or_the_old_file(tmp_path):
    before = os.umask(0o027)
    try:
        write_atomically(str(tmp_path / "new"), write(b"x"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(str(tmp_path / "new"), write(b"y"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b"old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(MiwaeError, match=r"t\.csv: the file is read-only"):
        write_atomically(str(path), write(b"new"))
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("existing", [True, False])
def test_symbolic_links_stay_links(tmp_path, existing):
    target, link = tmp_path / "far" / "t.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    if existing:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(str(link), write(b"new"))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert leftovers(target.parent) == ["t.csv"]


def test_paths_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(MiwaeError, match="cannot write .*: it is a directory"):
        write_atomically(str(tmp_path), write(b"x"))
    with pytest.raises(MiwaeError, match="cannot write .*: No such file or directory"):
        write_atomically(str(tmp_path / "gone" / "t.csv"), write(b"x"))


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomically("t.csv", write(b"x"))
    assert (tmp_path / "t.csv").read_bytes() == b"x"


def test_devices_and_pipes_are_written_directly(tmp_path):
    write_atomically("/dev/null", write(b"x"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write_table(read_text(CSV), str(pipe))
    reader.join(timeout=10)
    assert got == [CSV]
    assert leftovers(tmp_path) == ["pipe"]


def test_a_name_of_an_open_file_is_not_replaced(tmp_path):
    with open(tmp_path / "out", "wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        write_atomically(f"/dev/fd/{file.fileno()}", write(b"x"))
    assert (tmp_path / "out").stat().st_ino == inode
    assert (tmp_path / "out").read_bytes() == b"x"
    assert atomic._is_stream("/dev/stdout", stat.S_IFREG)


# Other formats.


TYPED = (
    b"whole,number,flag,day,instant,clock,text\n"
    b"9007199254740993,0.5,true,2024-01-31,2024-01-31T10:00:00+02:00,8:15:01.7,x\n"
    b",,,,,,\n"
    b"-3,1,false,2024-02-29,2024-01-31T10:00:00.25Z,23:59:30,007\n"
)
DAYS = [datetime.datetime(2024, 1, 31), None, datetime.datetime(2024, 2, 29)]
CLOCKS = [datetime.time(8, 15, 1, 700_000), None, datetime.time(23, 59, 30)]
INSTANTS = [
    datetime.datetime(2024, 1, 31, 8, tzinfo=datetime.UTC),
    None,
    datetime.datetime(2024, 1, 31, 10, 0, 0, 250_000, tzinfo=datetime.UTC),
]


def test_text_becomes_typed_columns():
    table = converted(read_text(TYPED), "parquet")
    assert isinstance(table, ArrowTable)
    expected = pa.table(
        {
            "whole": pa.array([9007199254740993, None, -3], pa.int64()),
            "number": pa.array([0.5, None, 1.0], pa.float64()),
            "flag": pa.array([True, None, False]),
            "day": pa.array(DAYS, pa.timestamp("us")),
            "instant": pa.array(INSTANTS, pa.timestamp("us", tz="UTC")),
            "clock": pa.array(CLOCKS, pa.time64("us")),
            "text": pa.array(["x", None, "007"]),
        }
    )
    assert table.native.equals(expected)


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow", "t.parquet.gz"])
def test_arrow_files_come_back(tmp_path, name):
    path = str(tmp_path / name)
    native = pa.table({"a": [1, None, 3], "b": ["x", None, "y"], "c": [0.5, None, 2.0]})
    write_table(as_table(native), path)
    assert read_table(path).native.equals(native)


def test_arrow_files_are_known_by_content(tmp_path):
    native = pa.table({"a": [1, None, 3]})
    parquet.write_table(native, tmp_path / "p.bin")
    feather.write_feather(native, tmp_path / "f.bin")
    assert read_table(str(tmp_path / "p.bin")).native.equals(native)
    assert read_table(str(tmp_path / "f.bin")).native.equals(native)


def test_csv_to_parquet_to_csv(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,x\n,\n3,y\n")
    write_table(read_table(str(tmp_path / "t.csv")), str(tmp_path / "t.parquet"))
    write_table(read_table(str(tmp_path / "t.parquet")), str(tmp_path / "u.csv"))
    assert (tmp_path / "u.csv").read_bytes() == b'"a","b"\n1,"x"\n,\n3,"y"\n'


def test_tables_of_other_libraries_are_written(tmp_path):
    path = str(tmp_path / "t.parquet")
    frame = {"a": [1.5, None], "b": ["x", "y"]}
    for native in (pd.DataFrame(frame), pl.DataFrame(frame), pa.table(frame)):
        write_table(as_table(native), path)
        assert read_table(path).native.to_pydict() == frame
    write_table(as_table(np.array([[1.5, 2.0], [np.nan, 3.0]])), str(tmp_path / "n.csv"))
    assert (tmp_path / "n.csv").read_bytes().splitlines()[1:] == [b"1.5,2", b",3"]
    category = pd.DataFrame({"c": pd.Categorical(["u", None])})
    write_table(as_table(category), str(tmp_path / "c.csv"))
    assert (tmp_path / "c.csv").read_bytes() == b'"c"\n"u"\n\n'


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_written_as_text_in_the_same_way_from_every_unit(tmp_path, unit):
    seconds = [90, None, 97_200, -3_605, 0]
    spans = [s if s is None else datetime.timedelta(seconds=s) for s in seconds]
    cells = ["0:01:30", "", "27:00:00", "-1:00:05", "0:00:00"]
    content = "\n".join(["spent,x", *(f"{cell},1" for cell in cells), ""]).encode()
    path = str(tmp_path / "t.csv")
    for table in (
        as_table(pa.table({"spent": pa.array(spans, pa.duration(unit)), "x": [1] * 5})),
        ExcelTable(("spent", "x"), (np.array(spans, object), np.array([1] * 5, object))),
    ):
        write_table(table, path)
        with open(path, "rb") as file:
            assert file.read().replace(b'"', b"") == content


def test_fractions_of_seconds_of_durations_are_written_too(tmp_path):
    spans = pa.array([1_250_000, -1], pa.duration("us"))
    write_table(as_table(pa.table({"spent": spans})), str(tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").read_bytes() == b'"spent"\n"0:00:01.250000"\n"-0:00:00.000001"\n'


def test_what_has_no_counterpart_is_refused(tmp_path):
    nested = as_table(pa.table({"a": [[1], [2]]}))
    with pytest.raises(DataError, match="cannot be written as text"):
        write_table(nested, str(tmp_path / "t.csv"))
    with pytest.raises(DataError, match="no cells for list"):
        write_table(nested, str(tmp_path / "t.xlsx"))
    with pytest.raises(DataError, match="18446744073709551616, which is larger"):
        write_table(read_text(b"a,b\n18446744073709551616,1\n"), str(tmp_path / "t.parquet"))
    with pytest.raises(DataError, match=r"t\.xyz: cannot tell which format"):
        write_table(nested, str(tmp_path / "t.xyz"))
    with pytest.raises(DataError, match=r"t\.xls: files of this format are not written; .*\.xlsx"):
        write_table(read_text(b"a,b\n1,1\n"), str(tmp_path / "t.xls"))
    with pytest.raises(DataError, match="no kind of file 'xml'"):
        converted(nested, "xml")
    assert leftovers(tmp_path) == []


# Excel.


def workbook(change=lambda book: None):
    """A sheet with formats, a formula and holes, and another sheet."""
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    day = datetime.datetime(2024, 1, 31)
    sheet.append(["a", "b", "day", None, "flag"])
    sheet.append([1, "x", day, 0.5, True])
    sheet.append([None, "NA", None, None, None])
    sheet.append([3, "y", day, 1.5, False])
    sheet["A2"].font = openpyxl.styles.Font(bold=True)
    sheet["A2"].number_format = "0.000"
    book.create_sheet("other")["B7"] = "=1+1"
    change(book)
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def opened(content):
    return openpyxl.load_workbook(io.BytesIO(content))


def test_excel_columns():
    table = read_excel(workbook())
    assert table.names == ("a", "b", "day", "column_4", "flag")
    kinds = [table.column(j).storage for j in range(5)]
    assert kinds == ["number", "text", "time", "number", "boolean"]
    for j in range(5):
        assert table.column(j).missing.tolist() == [False, True, False]
    assert table.column(2).values[0] == 19753 * 86400
    assert table.column(0).whole


def test_excel_fills_only_holes(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(workbook())
    table = read_table(str(tmp_path / "t.xlsx"))
    row = np.array([1])
    new = table.fill(
        {
            0: Fill(row, np.array([1.7])),
            1: Fill(row, np.array(["y"], dtype=object)),
            2: Fill(row, np.array([(19754 + 0.3) * 86400])),
            3: Fill(row, np.array([0.25])),
            4: Fill(row, np.array([1.0])),
        }
    )
    write_table(new, str(tmp_path / "t.xlsx"))
    book = openpyxl.load_workbook(tmp_path / "t.xlsx")
    sheet = book.worksheets[0]
    day = datetime.datetime(2024, 1, 31)
    assert list(sheet.values) == [
        ("a", "b", "day", None, "flag"),
        (1, "x", day, 0.5, True),
        (2, "y", day + datetime.timedelta(days=1), 0.25, True),
        (3, "y", day, 1.5, False),
    ]
    assert sheet["A2"].font.bold
    assert sheet["A3"].number_format == "0.000"
    assert sheet["C3"].number_format == sheet["C2"].number_format
    assert book["other"]["B7"].value == "=1+1"
    assert list(opened(workbook()).worksheets[0].values)[2] == (None, "NA", None, None, None)


def uncalculated(book):
    book.worksheets[0]["A3"] = "=A2+1"


def with_results(content):
    """The same workbook, with a stored result for one of two formulas, as Excel writes it."""
    import zipfile

    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                before = data
                data = data.replace(b"<f>A2+1</f><v />", b"<f>A2+1</f><v>2</v>")
                data = data.replace(b"<f>A2+1</f><v></v>", b"<f>A2+1</f><v>2</v>")
                assert data != before
            new.writestr(name, data)
    return out.getvalue()


def test_formulas_are_never_overwritten():
    def change(book):
        uncalculated(book)
        book.worksheets[0]["D3"] = '=IF(TRUE,"",1)'

    table = read_excel(with_results(workbook(change)))
    assert table.column(0).values.tolist() == [1, 2, 3]
    assert table.column(3).missing.tolist() == [False, True, False]
    row = np.array([1])
    new = table.fill({0: Fill(row, np.array([9.0])), 3: Fill(row, np.array([9.0]))})
    sheet = opened(new.to_bytes()).worksheets[0]
    assert sheet["A3"].value == "=A2+1"
    assert sheet["D3"].value == '=IF(TRUE,"",1)'
    assert new.column(3).missing.tolist() == [False, True, False]


def test_formulas_without_results_are_refused():
    with pytest.raises(DataError, match="A3.*open the file in Excel"):
        read_excel(workbook(uncalculated))


def test_merged_cells_stay():
    def merge(book):
        book.worksheets[0].merge_cells("A2:A3")

    table = read_excel(workbook(merge))
    new = table.fill({0: Fill(np.array([1]), np.array([9.0]))})
    sheet = opened(new.to_bytes()).worksheets[0]
    assert sheet["A3"].value is None
    assert [str(area) for area in sheet.merged_cells.ranges] == ["A2:A3"]


def test_cells_that_cannot_be_filled_are_named():
    def change(book):
        uncalculated(book)
        book.worksheets[0]["D3"] = '=IF(TRUE,"",1)'
        book.worksheets[0].merge_cells("B2:B3")

    table = read_excel(with_results(workbook(change)))
    fixed = [{w: np.flatnonzero(f).tolist() for w, f in table.fixed(j).items()} for j in range(5)]
    assert [cells["formulas"] for cells in fixed] == [[1], [], [], [1], []]
    assert [cells["parts of merged cells"] for cells in fixed] == [[], [1], [], [], []]
    assert table.rows(0, 2).fixed(0) == {}


@pytest.mark.parametrize(
    ("storage", "value", "cell"),
    [
        ("time", 0.0, datetime.datetime(1970, 1, 1)),
        ("duration", 90.0, datetime.timedelta(seconds=90)),
        ("clock", 90.0, datetime.time(0, 1, 30)),
        ("boolean", 1.0, True),
        ("number", 0.5, 0.5),
    ],
)
def test_a_column_without_values_gets_cells_of_its_kind(storage, value, cell):
    table = ExcelTable(("a",), (np.array([None, None], dtype=object),))
    new = table.fill({0: Fill(np.arange(2), np.full(2, value), storage=storage)})
    assert new.cells(0).tolist() == [cell, cell]


def test_a_table_that_starts_elsewhere():
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for place, value in {"C3": "a", "D3": "b", "C4": 1, "D5": 2, "C6": 4, "F9": None}.items():
        sheet[place] = value
    sheet["D9"].number_format = "0.0"  # touched, but empty
    out = io.BytesIO()
    book.save(out)
    table = read_excel(out.getvalue())
    assert (table.names, table.n_rows) == (("a", "b"), 3)
    new = table.fill({1: Fill(np.array([0, 2]), np.array([7.0, 8.0]))})
    sheet = opened(new.to_bytes()).worksheets[0]
    assert [sheet[f"D{i}"].value for i in range(3, 8)] == ["b", 7, 2, 8, None]


@pytest.mark.parametrize(
    ("rows", "message"), [([], "first sheet is empty"), ([["a", "b", "a"]], "'a'")]
)
def test_sheets_that_are_no_tables(rows, message):
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    out = io.BytesIO()
    book.save(out)
    with pytest.raises(DataError, match=message):
        read_excel(out.getvalue())


def test_other_rows_and_columns_of_excel():
    table = read_excel(workbook())
    part = table.keep([4, 0]).rows(1, 3)
    flagged = part.with_columns({"i": np.array([5, 6])}, first=True)
    both = ExcelTable.stacked([flagged, flagged])
    assert list(opened(both.to_bytes()).worksheets[0].values) == [
        ("i", "flag", "a"),
        (5, None, None),
        (6, False, 3),
        (5, None, None),
        (6, False, 3),
    ]
    assert table.keep(range(5)) is table
    assert table.rows(0, 3) is table
    with pytest.raises(DataError, match="different columns"):
        ExcelTable.stacked([part, flagged])


def test_excel_and_text(tmp_path):
    text, sheet = str(tmp_path / "t.csv"), str(tmp_path / "t.xlsx")
    write_table(read_text(TYPED), sheet)
    instants = [value and value.replace(tzinfo=None) for value in INSTANTS]
    columns = list(zip(*list(openpyxl.load_workbook(sheet).worksheets[0].values)[1:], strict=True))
    assert columns[1:] == [
        (0.5, None, 1),
        (True, None, False),
        tuple(DAYS),
        tuple(instants),
        tuple(CLOCKS),
        ("x", None, "007"),
    ]
    write_table(read_excel(workbook()), text)
    with open(text, "rb") as file:
        assert file.read() == (
            b"a,b,day,column_4,flag\n1,x,2024-01-31,0.5,true\n,,,,\n3,y,2024-01-31,1.5,false\n"
        )


def test_excel_and_arrow(tmp_path):
    path = str(tmp_path / "t.parquet")
    write_table(read_excel(workbook()), path)
    native = read_table(path).native
    assert native.column("a").to_pylist() == [1, None, 3]
    assert native.column("flag").to_pylist() == [True, None, False]
    write_table(as_table(native), str(tmp_path / "u.xlsx"))
    again = read_table(str(tmp_path / "u.xlsx"))
    for j in range(5):
        np.testing.assert_array_equal(
            again.column(j).values, read_excel(workbook()).column(j).values
        )


def test_a_column_of_several_types_is_no_parquet():
    book = openpyxl.Workbook()
    for row in [["a"], [1], ["x"]]:
        book.worksheets[0].append(row)
    out = io.BytesIO()
    book.save(out)
    with pytest.raises(DataError, match="column 'a' holds cells of several types"):
        converted(read_excel(out.getvalue()), "parquet")
