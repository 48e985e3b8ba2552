"""Files: recognised by suffix and content, read and written back; what cannot be read is named."""

import errno
import gzip
import io
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from documents.texts import CSV, MIDDLE, copied
from miwae.columns import Cells
from miwae.documents import open_document, require_writable, write, write_long
from miwae.documents._opening import open_text
from miwae.documents._text import TextDocument
from miwae.errors import DataError, MiwaeError, SettingsError

FILLED = b'a,b\r\n0.10,"x, y"\r\n1.50,z\r\n2,z'
# The middle row filled: 1.5 and "z".
CELLS = {0: Cells(MIDDLE, np.array([1.5])), 1: Cells(MIDDLE, np.array(["z"], dtype=object))}


# Text.


@pytest.mark.parametrize("name", ["t.csv", "t.txt", "t.CSV", "t.data", "t"])
def test_text_files_come_back_byte_for_byte(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(CSV)
    assert isinstance(open_document(str(path)), TextDocument)
    copied(path, tmp_path / ("new" + name))
    assert (tmp_path / ("new" + name)).read_bytes() == CSV
    copied(path, path, CELLS)
    assert path.read_bytes() == FILLED


def test_options_reach_the_reader(tmp_path):
    path = tmp_path / "t.csv"
    path.write_bytes("é;x,y;1\nü;2,n;3\n".encode("latin-1"))
    document = open_document(
        str(path), delimiter=",", encoding="latin-1", na_words=["y;1"], header=False
    )
    assert document.names == ("column_1", "column_2")
    columns = document.read().columns
    assert columns[0].levels == ("é;x", "ü;2")
    assert columns[1].missing.tolist() == [True, False]
    path.write_bytes(b"when\n01/02/1970\n")
    document = open_document(str(path), date_orders={"when": "month-first"})
    assert document.read().columns[0].values.tolist() == [86400.0]


def test_options_of_text_are_refused_for_other_formats(tmp_path):
    path = str(tmp_path / "t.parquet")
    parquet.write_table(pa.table({"when": ["01/02/2024"]}), path)
    with pytest.raises(SettingsError, match="header=False is for text files"):
        open_document(path, header=False)
    with pytest.raises(SettingsError, match="'when'.* text files only"):
        open_document(path, date_orders={"when": "day-first"})


def test_a_file_is_read_and_its_columns_are_parsed_once(tmp_path, monkeypatch):
    from miwae.documents import _files, _text

    (tmp_path / "t.csv").write_bytes(CSV)
    counts = {"_content": 0, "plain_numbers": 0, "parse_column": 0}

    def counted(module, name):
        function = getattr(module, name)

        def counting(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return counting

    for name in counts:
        module = _files if name == "_content" else _text
        monkeypatch.setattr(module, name, counted(module, name))
    document = open_document(str(tmp_path / "t.csv"))
    require_writable(document, str(tmp_path / "u.csv"))
    reading = document.read()
    reading.missing_words()
    write(reading, str(tmp_path / "u.csv"), CELLS)
    write_long(reading, str(tmp_path / "v.csv"), [CELLS, CELLS])
    # Of the two columns, one is of plain numbers.
    assert counts == {"_content": 1, "plain_numbers": 2, "parse_column": 1}


def test_tsv_files_have_tabs(tmp_path):
    source, target = tmp_path / "t.tsv", tmp_path / "t.csv"
    source.write_bytes(b"a,b\tc\nx,y\t3\n")
    assert open_document(str(source)).names == ("a,b", "c")
    copied(source, target)
    assert target.read_bytes() == b'"a,b",c\n"x,y",3\n'
    copied(target, source)
    assert source.read_bytes() == b'"a,b"\tc\n"x,y"\t3\n'
    source.write_bytes(b"a\tb\n1,5\t3\n")
    copied(source, target)
    assert target.read_bytes() == b"a;b\n1,5;3\n"


def test_gzip_is_known_by_content_and_written_by_suffix(tmp_path):
    path, other = tmp_path / "t.csv", tmp_path / "t.csv.gz"
    path.write_bytes(gzip.compress(CSV))
    copied(path, other)
    first = other.read_bytes()
    assert gzip.decompress(first) == CSV
    assert first[4:8] == bytes(4)  # no time: the same table gives the same file
    copied(other, path)
    assert path.read_bytes() == CSV
    path.write_bytes(gzip.compress(CSV)[:-9])
    with pytest.raises(DataError, match=r"t\.csv: the gzip file is damaged or cut off"):
        open_document(str(path))


def test_standard_input_and_output(monkeypatch):
    out = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=out))
    for content in (CSV, gzip.compress(CSV)):
        monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(content)))
        out.seek(0)
        out.truncate()
        copied("-", "-", CELLS)
        assert out.getvalue() == FILLED


def test_parquet_from_standard_input(monkeypatch):
    sink = io.BytesIO()
    parquet.write_table(pa.table({"a": [1, None]}), sink)
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(sink.getvalue())))
    document = open_document("-")
    assert (document.names, document.n_rows) == (("a",), 2)
    np.testing.assert_array_equal(document.read().columns[0].values, [1, np.nan])


def test_errors_on_standard_input_name_it(monkeypatch):
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=io.BytesIO(b"")))
    with pytest.raises(DataError, match="standard input: the file is empty"):
        open_document("-")


def test_a_full_disk_behind_standard_output(monkeypatch):
    class Full(io.BytesIO):
        def write(self, _):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Full()))
    with pytest.raises(MiwaeError, match="standard output: No space left"):
        write(open_text(CSV).read(), "-")


def test_a_closed_pipe_is_left_to_the_caller(monkeypatch):
    class Closed(io.BytesIO):
        def write(self, _):
            raise BrokenPipeError

    monkeypatch.setattr(sys, "stdout", SimpleNamespace(buffer=Closed()))
    with pytest.raises(BrokenPipeError):
        write(open_text(CSV).read(), "-")


@pytest.mark.parametrize(
    ("name", "start"),
    [
        ("x.csv", b"a,b"),
        ("x.TSV.gz", b"\x1f\x8b"),
        ("x.txt", b"a,b"),
        ("x.parquet", b"PAR1"),
        ("x.feather", b"ARROW1"),
        ("x.arrow", b"ARROW1"),
        ("x.xlsx", b"PK"),
        ("csv", b"a,b"),
        ("x.unknown", b"a,b"),
    ],
)
def test_the_suffix_says_which_format_is_written(tmp_path, name, start):
    path = tmp_path / name
    require_writable(open_text(CSV), str(path))
    write(open_text(CSV).read(), str(path))
    assert path.read_bytes().startswith(start)


# What cannot be read.


def test_paths_that_cannot_be_read_are_named(tmp_path, monkeypatch):
    with pytest.raises(DataError, match=r"no file .*gone\.csv: check the path"):
        open_document(str(tmp_path / "gone.csv"))
    with pytest.raises(DataError, match="is a directory: name a file"):
        open_document(str(tmp_path))
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
            open_document(str(path))


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
        open_document(str(tmp_path / name))


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
    with pytest.raises(SettingsError, match=message):
        open_document(str(tmp_path / name))
    with pytest.raises(SettingsError, match=message):
        write(open_text(CSV).read(), str(tmp_path / name))
    with pytest.raises(SettingsError, match=message):
        require_writable(open_text(CSV), str(tmp_path / name))


def test_importing_loads_nothing_heavy():
    code = "import sys, miwae.documents; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "miwae.documents" in loaded
    assert not loaded & {"jax", "pandas", "polars", "pyarrow", "openpyxl", "scipy"}
