"""`miwae impute` from format to format. Tables of constants need no model."""

import functools
import gzip
import json
import os
import time

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.parquet as pq

from cli.runs import cells, curved_table, inspected, miwae, succeeded, written

# Two ways to write a number, quotes, spaces, a delimiter and a quote within quotes.


LINES = [
    'name;x;"label";void;flag',
    '"Müller; 1";0.10;"a ""b""";; on',
    "Étienne 2;0.1;;; on",
    '"Jose 3";NA;"a ""b""";;',
    ';0.100;"a ""b""";;on',
    *(f'Ng {i};+0.1;"a ""b""";;on' for i in range(4, 10)),
]


LINES_COMPLETED = [
    *LINES[:2],
    'Étienne 2;0.1;"a ""b""";; on',
    '"Jose 3";0.100;"a ""b""";;on',
    *LINES[4:],
]


def test_observed_cells_stay_character_for_character(tmp_path):
    encoded = functools.partial(str.encode, encoding="latin-1")
    table = written(tmp_path / "in.csv", encoded("\r\n".join(LINES) + "\r\n"))
    output = tmp_path / "out.csv"
    run = succeeded(miwae("impute", table, "-o", output))
    assert output.read_bytes() == encoded("\r\n".join(LINES_COMPLETED) + "\r\n")
    assert run.stdout == b""
    first, *_, last = run.stderr.splitlines()
    assert first.startswith(f"{table}: 10 rows, 5 columns, 14 cells missing")
    assert last.startswith("filled 3 cells in ")
    left = "1 cell of 'name' stays missing; 10 cells of 'void' stay missing"
    assert last.endswith(f" s -> {output}; {left}")
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv"]


def test_comments_above_the_names_are_counted_and_kept(tmp_path):
    table = b"# made by hand\n#\nx,y\n1,2\n3,4\n"
    assert inspected("-", stdin=table)["comment_lines"] == 2
    run = succeeded(miwae("impute", "-", "-o", tmp_path / "out.csv", stdin=table))
    assert "the first 2 lines begin with #: not read" in run.stderr
    assert (tmp_path / "out.csv").read_bytes() == table


def test_tabs_gzip_and_no_header(tmp_path):
    table = written(tmp_path / "in.tsv.gz", gzip.compress(b"1\t0.50\t\n1\t\tx\n1\t0.5\tx\n"))
    output = tmp_path / "out.tsv.gz"
    run = succeeded(miwae("impute", table, "--no-header", "-o", output, "--json"))
    assert output.read_bytes().startswith(b"\x1f\x8b")
    assert gzip.decompress(output.read_bytes()) == b"1\t0.50\tx\n1\t0.50\tx\n1\t0.5\tx\n"
    data = json.loads(run.stdout)
    assert run.stderr == ""
    assert (data["filled_cells"], data["output"]) == (2, str(output))


def test_cells_of_excel_that_cannot_be_filled_are_counted_as_left(tmp_path):
    book = openpyxl.Workbook()
    for row in [("a", "b"), (7, 2), (None, 2), (None, 2), (7, 2)]:
        book.worksheets[0].append(row)
    book.worksheets[0].merge_cells("A2:A3")
    book.save(tmp_path / "in.xlsx")
    run = succeeded(miwae("impute", tmp_path / "in.xlsx", "-o", tmp_path / "out.xlsx", "--json"))
    data = json.loads(run.stdout)
    assert (data["filled_cells"], data["left_missing"]) == (1, {"a": 1})
    assert [event for event in data["events"] if event["about"] == "not filled"] == [
        {
            "about": "not filled",
            "column": "a",
            "count": 1,
            "text": "column 'a': 1 missing cell stays missing: parts of merged cells are not "
            "overwritten",
        }
    ]
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0]
    assert [row[0] for row in sheet.values] == ["a", 7, None, 7, 7]


def test_csv_becomes_parquet(tmp_path):
    table = written(
        tmp_path / "in.csv", b"n,x,word,when\n7,0.50,on,\n7,,,2024-01-05\n,0.5,on,NA\n"
    )
    run = succeeded(miwae("impute", table, "-o", tmp_path / "out.parquet", "-q"))
    assert (run.stdout, run.stderr) == (b"", "")
    completed = pq.read_table(tmp_path / "out.parquet")
    assert [str(field.type) for field in completed.schema] == [
        *("int64", "double", "string", "timestamp[us]")
    ]
    assert completed.column_names == ["n", "x", "word", "when"]
    assert [str(when)[:10] for when in completed.column("when").to_pylist()] == ["2024-01-05"] * 3
    assert completed.drop_columns("when").to_pylist() == [{"n": 7, "x": 0.5, "word": "on"}] * 3


def test_parquet_stays_parquet(tmp_path):
    table = pa.table(
        {
            "small": pa.array([3, None, 3], pa.int8()),
            "flag": pa.array([True, True, None]),
            "kind": pa.array(["a", None, "a"]).dictionary_encode(),
            "void": pa.array([None, None, None], pa.float32()),
        }
    )
    pq.write_table(table, tmp_path / "in.parquet")
    run = succeeded(
        miwae("impute", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--json")
    )
    completed = pq.read_table(tmp_path / "out.parquet")
    assert completed.schema.types == table.schema.types
    assert completed.to_pydict() == {
        "small": [3, 3, 3],
        "flag": [True, True, True],
        "kind": ["a", "a", "a"],
        "void": [None, None, None],
    }
    data = json.loads(run.stdout)
    assert (data["taken_as_missing"], data["left_missing"]) == (None, {"void": 3})


def test_max_time_bounds_the_run_and_the_result_is_complete(tmp_path):
    table = written(tmp_path / "in.csv", curved_table())
    started = time.monotonic()
    run = succeeded(miwae("impute", table, "-o", tmp_path / "out.csv", "--max-time", 8))
    assert time.monotonic() - started < 60
    before, after = cells(curved_table()), cells((tmp_path / "out.csv").read_bytes())
    n_holes = 0
    for old, new in zip(before, after, strict=True):
        for was, now in zip(old, new, strict=True):
            assert now == was if was else np.isfinite(float(now))
            n_holes += not was
    assert f"filled {n_holes} cells in " in run.stderr
    # This option is --max-time here; only the folder of this test has the other name in it.
    assert "max_time" not in run.stderr.replace(str(tmp_path), "")
    assert run.stdout == b""
