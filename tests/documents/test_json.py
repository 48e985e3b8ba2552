"""JSON lines: an object on each line, of which only the given values are replaced."""

import datetime
import json

import numpy as np
import pytest

from miwae.columns import Cells, infer_schema
from miwae.documents import open_document, write
from miwae.documents._json import open_json
from miwae.errors import DataError

LINES = (
    '{"name":"Ann","size":1.70,"n":3,"tags":["a,b","}"]}\n'
    "\n"
    '{"name" : null, "size": 1.6e0 , "n": 4}\r\n'
    '{"size":null,"n":5,"name":"B\\u00e9a \\"B\\""}\n'
    "{}"
)
CELLS = {
    0: Cells(np.array([1, 3]), np.array(["Cem", "Ann"], object)),
    1: Cells(np.array([2, 3]), np.array([1.6789, 1.75])),
    2: Cells(np.array([3]), np.array([4.0])),
}


def test_objects_become_columns():
    document = open_json(LINES.encode())
    assert document.names == ("name", "size", "n", "tags")
    assert document.row_numbers().tolist() == [1, 3, 4, 5]
    columns = document.read().columns
    assert [column.storage for column in columns] == ["text", "number", "number", "other"]
    assert [column.n_missing for column in columns] == [2, 2, 1, 3]
    assert infer_schema(columns).columns[3].kind.label == "identifier"


def test_only_the_given_values_change():
    patched = open_json(LINES.encode()).read().patched(CELLS).decode()
    assert patched == (
        '{"name":"Ann","size":1.70,"n":3,"tags":["a,b","}"]}\n'
        "\n"
        '{"name" : "Cem", "size": 1.6e0 , "n": 4}\r\n'
        '{"size":1.7,"n":5,"name":"B\\u00e9a \\"B\\""}\n'
        '{"name":"Ann","size":1.8,"n":4}'
    )
    assert open_json(LINES.encode()).read().patched({}) == LINES.encode()


def test_they_are_converted_to_and_from_other_files(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,day,c\n1.5,2024-01-31,x\n,2024-02-29,\n")
    reading = open_document(str(tmp_path / "in.csv")).read()
    cells = {0: Cells(np.array([1]), np.array([2.5]))}
    write(reading, str(tmp_path / "out.jsonl"), cells, flag=True)
    lines = [json.loads(line) for line in (tmp_path / "out.jsonl").read_text().splitlines()]
    assert lines == [
        {"a": 1.5, "day": "2024-01-31", "c": "x", "a.imputed": False},
        {"a": 2.5, "day": "2024-02-29", "c": None, "a.imputed": True},
    ]
    again = open_document(str(tmp_path / "out.jsonl")).read()
    write(again, str(tmp_path / "again.csv"))
    assert (tmp_path / "again.csv").read_bytes().splitlines()[2] == b"2.5,2024-02-29,,true"
    write(
        again,
        str(tmp_path / "flagged.jsonl"),
        {2: Cells(np.array([1]), np.array(["x"], object))},
        flag=True,
    )
    last = json.loads((tmp_path / "flagged.jsonl").read_text().splitlines()[1])
    assert (last["c"], last["c.imputed"]) == ("x", True)


def test_a_file_called_json_is_read_as_json(tmp_path):
    (tmp_path / "a.json").write_bytes(LINES.encode())
    assert open_document(str(tmp_path / "a.json")).names == ("name", "size", "n", "tags")
    (tmp_path / "b.json").write_bytes(b'[{"a": 1, "b": 2}]')
    with pytest.raises(DataError, match="b.json: this is a JSON array"):
        open_document(str(tmp_path / "b.json"))


def test_they_stay_what_they_are_on_standard_output(capfdbinary):
    reading = open_json(LINES.encode()).read()
    write(reading, "-", CELLS)
    assert capfdbinary.readouterr().out == reading.patched(CELLS)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"a": 1}\n{"a": 1,}\n', "line 2 is not JSON"),
        (b'{"a": 1}\n[1, 2]\n', "line 2 is not a JSON object"),
        (b' [{"a": 1}, {"a": 2}]', "a JSON array, not an object on each line: write JSON lines"),
        (b'{"a": "\xff"}\n', "UTF-8"),
    ],
)
def test_what_is_wrong_is_named_with_its_line(content, message):
    with pytest.raises(DataError, match=message):
        open_json(content)


def test_times_are_written_in_iso_8601(tmp_path):
    import pyarrow as pa
    from pyarrow import parquet

    table = pa.table({"t": [datetime.datetime(2024, 1, 31, 8, 15)], "n": [np.int16(3)]})
    parquet.write_table(table, tmp_path / "in.parquet")
    write(open_document(str(tmp_path / "in.parquet")).read(), str(tmp_path / "out.ndjson"))
    assert (tmp_path / "out.ndjson").read_text() == '{"t": "2024-01-31T08:15:00", "n": 3}\n'


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "line 2 is nested too deeply"),
        ('{"a": "x\\ud800y"}', r"line 2 has '\\ud800', which is half of a character"),
        ('{"\\uDFFF": 1}', r"line 2 has '\\udfff', which is half of a character"),
    ],
)
def test_what_no_table_can_hold_is_refused_by_line(line, words):
    with pytest.raises(DataError, match=words):
        open_json(b'{"a": 1}\n' + line.encode())


def test_characters_may_be_escaped():
    (column,) = open_json(b'{"a": "\\ud83d\\ude00"}').read().columns
    assert column.levels == ("\U0001f600",)


def test_numbers_beyond_all_floats_are_refused_by_column():
    for number in ("9" * 400, "9" * 100_000, "1e999"):
        columns = open_json(f'{{"a": 1}}\n{{"a": {number}}}'.encode()).read().columns
        with pytest.raises(DataError, match="column 'a' has the value inf in line 2"):
            infer_schema(columns)


def test_objects_with_few_names_in_common_are_refused():
    lines = b"\n".join(b'{"c%d": 1}' % i for i in range(3000))
    with pytest.raises(DataError, match=r"3000 lines have 3000 names, but only 3000 values"):
        open_json(lines)
    assert open_json(lines, allow_large=True).n_rows == 3000
