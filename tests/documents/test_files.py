"""Files: recognised by suffix and content, written whole or not at all, converted if asked."""

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
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from documents.texts import Learned
from miwae import _atomic as atomic
from miwae._atomic import write_atomically
from miwae.columns import Cells
from miwae.documents import Frame, open_document, require_writable, write, write_frame, write_long
from miwae.documents._opening import open_text
from miwae.documents._text import TextDocument
from miwae.errors import DataError, MiwaeError, SettingsError

CSV = b'a,b\r\n0.10,"x, y"\r\n,\r\n2,z'
FILLED = b'a,b\r\n0.10,"x, y"\r\n1.50,z\r\n2,z'


# The middle row filled: 1.5 and "z".
ROW = np.array([1])
CELLS = {0: Cells(ROW, np.array([1.5])), 1: Cells(ROW, np.array(["z"], dtype=object))}


def writes(content):
    return lambda file: file.write(content) and None


def copied(source, target, cells=None):
    write(open_document(str(source)).read(), str(target), cells)


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
    counts = {"_content": 0, "parse_column": 0}

    def counted(module, name):
        function = getattr(module, name)

        def counting(*args, **options):
            counts[name] += 1
            return function(*args, **options)

        return counting

    for module, name in ((_files, "_content"), (_text, "parse_column")):
        monkeypatch.setattr(module, name, counted(module, name))
    document = open_document(str(tmp_path / "t.csv"))
    require_writable(document, str(tmp_path / "u.csv"))
    reading = document.read()
    reading.missing_words()
    write(reading, str(tmp_path / "u.csv"), CELLS)
    write_long(reading, str(tmp_path / "v.csv"), [CELLS, CELLS])
    assert counts == {"_content": 1, "parse_column": 2}


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
    with pytest.raises(DataError, match=message):
        open_document(str(tmp_path / name))
    with pytest.raises(DataError, match=message):
        write(open_text(CSV).read(), str(tmp_path / name))
    with pytest.raises(DataError, match=message):
        require_writable(open_text(CSV), str(tmp_path / name))


def test_importing_loads_nothing_heavy():
    code = "import sys, miwae.documents; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = set(run.stdout.split())
    assert "miwae.documents" in loaded
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
        write_atomically(str(path), fails if place == "write" else writes(b"new"))
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
        write_atomically(str(tmp_path / "new"), writes(b"x"))
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o640
    (tmp_path / "new").chmod(0o604)
    write_atomically(str(tmp_path / "new"), writes(b"y"))
    assert stat.S_IMODE((tmp_path / "new").stat().st_mode) == 0o604


def test_a_protected_file_is_not_replaced(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_bytes(b"old")
    path.chmod(0o444)
    monkeypatch.setattr(os, "access", lambda *_: False)  # the tests may run as root
    with pytest.raises(MiwaeError, match=r"t\.csv: the file is read-only"):
        write_atomically(str(path), writes(b"new"))
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("existing", [True, False])
def test_symbolic_links_stay_links(tmp_path, existing):
    target, link = tmp_path / "far" / "t.csv", tmp_path / "link.csv"
    target.parent.mkdir()
    if existing:
        target.write_bytes(b"old")
    link.symlink_to(target)
    write_atomically(str(link), writes(b"new"))
    assert link.is_symlink()
    assert target.read_bytes() == b"new"
    assert leftovers(target.parent) == ["t.csv"]


def test_paths_that_cannot_be_written_are_named(tmp_path):
    with pytest.raises(MiwaeError, match="cannot write .*: it is a directory"):
        write_atomically(str(tmp_path), writes(b"x"))
    with pytest.raises(MiwaeError, match="cannot write .*: No such file or directory"):
        write_atomically(str(tmp_path / "gone" / "t.csv"), writes(b"x"))


def test_a_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_atomically("t.csv", writes(b"x"))
    assert (tmp_path / "t.csv").read_bytes() == b"x"


def test_devices_and_pipes_are_written_directly(tmp_path):
    write_atomically("/dev/null", writes(b"x"))
    assert stat.S_ISCHR(os.stat("/dev/null").st_mode)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    got = []
    reader = threading.Thread(target=lambda: got.append(pipe.read_bytes()))
    reader.start()
    write(open_text(CSV).read(), str(pipe))
    reader.join(timeout=10)
    assert got == [CSV]
    assert leftovers(tmp_path) == ["pipe"]


def test_a_name_of_an_open_file_is_not_replaced(tmp_path):
    with open(tmp_path / "out", "wb") as file:
        inode = os.fstat(file.fileno()).st_ino
        write_atomically(f"/dev/fd/{file.fileno()}", writes(b"x"))
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


def arrow_of(path):
    return parquet.read_table(path)


def test_text_becomes_typed_columns(tmp_path):
    path = str(tmp_path / "t.parquet")
    write(open_text(TYPED).read(), path)
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
    assert arrow_of(path).equals(expected)


def test_patched_text_becomes_typed_columns(tmp_path):
    """As the same cells would be read from a text file, also in columns without values."""
    path = str(tmp_path / "t.parquet")
    reading = open_text(b"a,b,c,d,e\n1,,05/06/1970,,x\n,,,,\n").read(
        like=open_text(b"a,b,c,d,e\n1,0.5,31/01/1970,31/01/1970,x\n").read().columns
    )
    rows = np.array([0, 1])
    cells = {
        0: Cells(ROW, np.array([2.6])),
        1: Cells(rows, np.array([0.25, 0.3])),
        2: Cells(ROW, np.array([86400.0 * 2])),
        3: Cells(rows, np.array([0.0, 86400.0]), storage="time"),
        4: Cells(ROW, np.array(["7"], object)),
    }
    write(reading, path, cells)
    moment = datetime.datetime
    assert arrow_of(path).to_pydict() == {
        "a": [1, 3],
        "b": [0.2, 0.3],
        "c": [moment(1970, 6, 5), moment(1970, 1, 3)],
        "d": [moment(1970, 1, 1), moment(1970, 1, 2)],
        "e": ["x", "7"],
    }


NATIVE = pa.table({"a": [1, None, 3], "b": ["x", None, "y"], "c": [0.5, None, 2.0]})


@pytest.mark.parametrize("name", ["t.parquet", "t.feather", "t.arrow", "t.parquet.gz"])
def test_arrow_files_come_back(tmp_path, name):
    source, path = str(tmp_path / "s.parquet"), str(tmp_path / name)
    native = NATIVE.replace_schema_metadata({"source": "here"})
    parquet.write_table(native, source)
    copied(source, path)
    table = open_document(path).table
    assert table.equals(native, check_metadata=True)
    copied(path, path, {0: Cells(ROW, np.array([2.2])), 1: Cells(ROW, np.array(["z"], object))})
    filled = {"a": [1, 2, 3], "b": ["x", "z", "y"], "c": [0.5, None, 2.0]}
    assert open_document(path).table.to_pydict() == filled


def test_arrow_files_are_known_by_content(tmp_path):
    parquet.write_table(NATIVE, tmp_path / "p.bin")
    feather.write_feather(NATIVE, tmp_path / "f.bin")
    assert open_document(str(tmp_path / "p.bin")).table.equals(NATIVE)
    assert open_document(str(tmp_path / "f.bin")).table.equals(NATIVE)


def test_two_columns_of_one_name_are_refused_with_the_path(tmp_path):
    path = str(tmp_path / "t.feather")
    feather.write_feather(pa.table([[1], [2]], names=["a", "a"]), path, version=2)
    with pytest.raises(DataError, match=r"t\.feather: two columns are named 'a'"):
        open_document(path)


def test_csv_to_parquet_to_csv(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b,c\n1,x,0.5\n,,\n3,y,2.0\n")
    copied(tmp_path / "t.csv", tmp_path / "t.parquet")
    copied(tmp_path / "t.parquet", tmp_path / "u.csv")
    assert (tmp_path / "u.csv").read_bytes() == b"a,b,c\n1,x,0.5\n,,\n3,y,2\n"


def test_arrow_types_are_written_as_text(tmp_path):
    """Categories as their values; nanoseconds, which Python does not have, to the last digit."""
    native = pa.table(
        {
            "category": pa.array(["u", None]).dictionary_encode(),
            "instant": pa.array([1, None], pa.timestamp("ns", "UTC")),
            "day": pa.array([0, None], pa.date32()),
            "flag": pa.array([True, None]),
            "half": pa.array([1.5, None], pa.float16()),
            "nothing": pa.nulls(2),
            "view": pa.array(["x,y", None], pa.string_view()),
        }
    )
    parquet.write_table(native, tmp_path / "t.parquet")
    copied(tmp_path / "t.parquet", tmp_path / "t.csv")
    header, first, second = (tmp_path / "t.csv").read_text().splitlines()
    assert header == "category,instant,day,flag,half,nothing,view"
    assert first == 'u,1970-01-01 00:00:00.000000001Z,1970-01-01,true,1.5,,"x,y"'
    assert second == ",,,,,,"


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_durations_are_written_as_text_in_the_same_way_from_every_unit(tmp_path, unit):
    seconds = [90, None, 97_200, -3_605, 0]
    spans = [s if s is None else datetime.timedelta(seconds=s) for s in seconds]
    cells = ["0:01:30", "", "27:00:00", "-1:00:05", "0:00:00"]
    content = "\n".join(["spent,x", *(f"{cell},1" for cell in cells), ""]).encode()
    path = tmp_path / "t.csv"
    native = pa.table({"spent": pa.array(spans, pa.duration(unit)), "x": [1] * 5})
    feather.write_feather(native, tmp_path / "t.feather")
    copied(tmp_path / "t.feather", path)
    assert path.read_bytes() == content
    write_frame(Frame(("spent", "x"), (spans, [1] * 5)), str(path))
    assert path.read_bytes() == content


def test_fractions_of_seconds_of_durations_are_written_too(tmp_path):
    spans = [datetime.timedelta(microseconds=n) for n in (1_250_000, -1)]
    write_frame(Frame(("spent",), (spans,)), str(tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").read_bytes() == b"spent\n0:00:01.250000\n-0:00:00.000001\n"


def test_what_has_no_counterpart_is_refused(tmp_path):
    source = str(tmp_path / "nested.parquet")
    parquet.write_table(pa.table({"a": [[1], [2]]}), source)
    nested = open_document(source)
    for name, message in [
        ("t.csv", "column 'a' cannot be written as text"),
        ("t.xlsx", "no cells for list"),
        ("t.xyz", r"t\.xyz: cannot tell which format"),
    ]:
        with pytest.raises(DataError, match=message):
            write(nested.read(), str(tmp_path / name))
        with pytest.raises(DataError, match=message):
            require_writable(nested, str(tmp_path / name))
    with pytest.raises(DataError, match="18446744073709551616, which is larger"):
        write(open_text(b"a,b\n18446744073709551616,1\n").read(), str(tmp_path / "t.parquet"))
    with pytest.raises(DataError, match=r"t\.xls: files of this format are not written; .*\.xlsx"):
        write(open_text(b"a,b\n1,1\n").read(), str(tmp_path / "t.xls"))
    assert leftovers(tmp_path) == ["nested.parquet"]


def test_a_path_that_cannot_be_written_is_found_before_long_work(tmp_path):
    with pytest.raises(MiwaeError, match="No such file or directory"):
        require_writable(open_text(CSV), str(tmp_path / "gone" / "t.csv"))
    require_writable(open_text(CSV), "-")
    require_writable(None, str(tmp_path / "scores.csv"))


# Plain frames.


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.parquet", "t.xlsx"])
def test_a_plain_frame_is_written_in_every_format(tmp_path, name):
    path = str(tmp_path / name)
    write_frame(Frame(("row", "log_density"), ([1, 2], [-1.25, 1 / 3])), path, decimals=6)
    columns = open_document(path).read().columns
    assert [column.name for column in columns] == ["row", "log_density"]
    assert columns[0].values.tolist() == [1, 2]
    np.testing.assert_allclose(columns[1].values, [-1.25, 1 / 3], atol=1e-6)
    if name == "t.csv":
        assert (tmp_path / name).read_bytes() == b"row,log_density\n1,-1.250000\n2,0.333333\n"


LONG = [
    {0: Cells(ROW, np.array([2.0])), 1: Cells(ROW, np.array(["z"], object))},
    {0: Cells(ROW, np.array([2.5])), 1: Cells(ROW, np.array(["u; v"], object))},
]


def test_copies_of_text_keep_its_characters(tmp_path):
    source, target = tmp_path / "t.csv", tmp_path / "long.csv"
    source.write_bytes("# note\r\na;b\r\n1,50;ä\r\nNA;".encode("cp1252"))
    write_long(open_document(str(source)).read(), str(target), LONG)
    rows = ["1;1,50;ä", "2;NA;", "1;1,50;ä", "2;2,00;z", "1;1,50;ä", '2;2,50;"u; v"']
    lines = [".imp;.id;a;b", *(f"{i // 2};{row}" for i, row in enumerate(rows)), ""]
    assert target.read_bytes() == "\r\n".join(lines).encode("cp1252")


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".feather", ".xlsx"])
@pytest.mark.parametrize("source", [".csv", ".parquet", ".feather", ".xlsx"])
def test_copies_are_below_each_other_in_every_format(tmp_path, source, suffix):
    path, target = str(tmp_path / f"t{source}"), str(tmp_path / f"long{suffix}")
    if source in (".csv", ".xlsx"):
        write_frame(
            Frame(("a", "b", "c", "d"), ([1.5, None], ["x", None], [None] * 2, [7, 8])), path
        )
    else:
        words = pa.array(["x", None]).dictionary_encode()
        native = pa.table({"a": [1.5, None], "b": words, "c": pa.nulls(2), "d": [7, 8]})
        writer = parquet.write_table if source == ".parquet" else feather.write_feather
        writer(native, path)
    both = np.array([0, 1])
    days = [{**cells, 2: Cells(both, np.array([0.0, 86400.0]), storage="time")} for cells in LONG]
    like = [Learned(storage) for storage in ("number", "text", "time", "number")]
    write_long(open_document(path).read(like=like), target, days)
    columns = open_document(target).read().columns
    assert [column.name for column in columns] == [".imp", ".id", "a", "b", "c", "d"]
    nan = np.nan
    expected = [
        [0, 0, 1, 1, 2, 2],
        [1, 2, 1, 2, 1, 2],
        [1.5, nan, 1.5, 2.0, 1.5, 2.5],
        ["x", None, "x", "z", "x", "u; v"],
        [nan, nan, 0, 86400, 0, 86400],
        [7, 8, 7, 8, 7, 8],
    ]
    for column, values in zip(columns, expected, strict=True):
        if column.levels:
            codes = np.where(column.missing, -1, column.values).astype(int)
            assert [(*column.levels, None)[code] for code in codes] == values
        else:
            np.testing.assert_array_equal(column.values, values)


def test_copies_need_two_names_for_themselves(tmp_path):
    document, path = open_text(b"a,.id\n1,2\n,3\n"), str(tmp_path / "long.csv")
    require_writable(document, path)
    with pytest.raises(DataError, match=r"a column \.id already"):
        require_writable(document, path, long=True)
    with pytest.raises(DataError, match=r"a column \.id already"):
        write_long(document.read(), path, LONG[:1])
