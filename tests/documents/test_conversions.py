"""Tables from one file format to another, and copies below each other."""

import datetime

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

from documents.texts import CSV, MIDDLE, Learned, copied
from miwae.columns import Cells
from miwae.documents import Frame, open_document, require_writable, write, write_frame, write_long
from miwae.documents._opening import open_text
from miwae.errors import DataError, MiwaeError

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
        0: Cells(MIDDLE, np.array([2.6])),
        1: Cells(rows, np.array([0.25, 0.3])),
        2: Cells(MIDDLE, np.array([86400.0 * 2])),
        3: Cells(rows, np.array([0.0, 86400.0]), storage="time"),
        4: Cells(MIDDLE, np.array(["7"], object)),
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
    copied(
        path, path, {0: Cells(MIDDLE, np.array([2.2])), 1: Cells(MIDDLE, np.array(["z"], object))}
    )
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
    with pytest.raises(DataError, match="column 'a' holds a whole number of 65 bits"):
        write(open_text(b"a,b\n18446744073709551616,1\n").read(), str(tmp_path / "t.parquet"))
    with pytest.raises(DataError, match=r"t\.xls: files of this format are not written; .*\.xlsx"):
        write(open_text(b"a,b\n1,1\n").read(), str(tmp_path / "t.xls"))
    assert [path.name for path in tmp_path.iterdir()] == ["nested.parquet"]


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
    {0: Cells(MIDDLE, np.array([2.0])), 1: Cells(MIDDLE, np.array(["z"], object))},
    {0: Cells(MIDDLE, np.array([2.5])), 1: Cells(MIDDLE, np.array(["u; v"], object))},
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
    with pytest.raises(DataError, match=r"a column '\.id' already"):
        require_writable(document, path, long=True)
    with pytest.raises(DataError, match=r"a column '\.id' already"):
        write_long(document.read(), path, LONG[:1])
