"""The command line, through real processes.

A process that imputes takes seconds to start and to compile, so each of them is asked several
things: those runs are fixtures of the module. Tables of constants need no model at all, and those
of fewer than 100 cells no training.
"""

import functools
import gzip
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from miwae import __version__

COMMANDS = ("impute", "fit", "score", "inspect", "benchmark", "demo")

INSPECTED = b"""\
name,height,colour,when,same,void
ann,1.70,red,2024-01-05,7,
ben,1.65,blue,2024-02-05,7,
cem,NA,red,2024-03-05,7,
dan,?,?,2024-04-05,7,
eva,1.80,green,2024-05-05,,
fay,1.75,red,2024-06-05,7,
gus,NA,blue,2024-07-05,7,
hal,1.60,green,2024-08-05,7,
ida,1.85,red,2024-09-05,7,
,1.90,blue,,7,
"""

CONSTANT = b"a,b\n1,2\n1,\n"


@pytest.fixture(scope="module", autouse=True)
def _environment(tmp_path_factory):
    """Compiled programs are shared by the processes of this module, and by nobody else."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        for name in ("FORCE_COLOR", "PYTHONIOENCODING", "PYTHONWARNINGS", "COLUMNS"):
            patch.delenv(name, raising=False)
        yield


class Run(NamedTuple):
    code: int
    stdout: bytes
    stderr: str


def miwae(*arguments: object, stdin=b"", stdout=subprocess.PIPE, cwd=None, **environment) -> Run:
    done = subprocess.run(
        [sys.executable, "-m", "miwae", *map(str, arguments)],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
    return Run(done.returncode, done.stdout or b"", done.stderr.decode())


def succeeded(run: Run) -> Run:
    assert run.code == 0, run.stderr
    return run


def assert_fails(run: Run, code: int, *words: str) -> None:
    """One line that names what is wrong, and nothing else."""
    assert run.code == code, run.stderr
    assert run.stdout == b""
    assert run.stderr.startswith("miwae: ")
    assert run.stderr.count("\n") == 1, run.stderr
    for word in words:
        assert word in run.stderr


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def cells(text: bytes) -> list[list[str]]:
    """Of a CSV file without quotes."""
    return [line.split(",") for line in text.decode().splitlines()]


# ---------------------------------------------------------------------- help and wrong use


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_tells_what_there_is(command):
    run = succeeded(miwae(*command.split(), "--help"))
    assert "Usage:" in run.stdout.decode()
    expected = {
        "": COMMANDS,
        "impute": ("--output", "--model", "--kind", "--bounds", "--only-na", "--max-time"),
        "fit": ("--output", "--seed", "--n-models"),
        "score": ("--model", "--encoding"),
        "inspect": ("--no-header", "--delimiter", "--json"),
        "benchmark": ("--methods", "--mechanism", "--rate", "--masks", "--plot", "--json"),
        "demo": ("--output",),
    }[command]
    assert [word for word in expected if word not in run.stdout.decode()] == []
    assert run.stderr == ""


def test_version():
    pyproject = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
    expected = pyproject["project"]["version"]
    assert succeeded(miwae("--version")).stdout.decode() == f"miwae {expected}\n"
    assert __version__ == expected


def test_no_arguments_show_the_help():
    run = miwae()
    assert run.code == 2
    assert [word for word in COMMANDS if word not in run.stdout.decode() + run.stderr] == []


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("inspect", "x.csv", "--nonsense"), "--nonsense"),
        (("impute",), "IN"),
        (("fit", "x.csv"), "--output"),
        (("impute", "x.csv", "-m", "-1"), "-m"),
        (("impute", "x.csv", "--n-models", "0"), "--n-models"),
        (("impute", "x.csv", "--max-time", "soon"), "--max-time"),
        (("explode",), "explode"),
    ],
)
def test_wrong_use_exits_with_2_and_names_the_option(arguments, word):
    run = miwae(*arguments)
    assert (run.code, run.stdout) == (2, b"")
    assert word in run.stderr
    assert "Traceback" not in run.stderr


# ---------------------------------------------------------------------- what is imported


def imported(code: str, *arguments: object) -> set[str]:
    """Which of the libraries that take long to import a program has imported."""
    ending = (
        "\nimport json, sys\nheavy = {'jax', 'equinox', 'sklearn', 'pandas', 'scipy'}\n"
        "sys.stderr.write(json.dumps(sorted(heavy & set(sys.modules))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code + ending, *map(str, arguments)],
        capture_output=True,
        check=True,
    )
    return set(json.loads(done.stderr))


def test_importing_the_package_imports_nothing_heavy():
    assert imported("import miwae") == set()


def test_inspect_and_version_do_not_import_jax(tmp_path):
    code = "from miwae.cli import main\ntry:\n    main()\nexcept SystemExit:\n    pass"
    table = written(tmp_path / "t.csv", INSPECTED)
    assert imported(code, "inspect", table) == set()
    assert imported(code, "--version") == set()


# ---------------------------------------------------------------------- inspect


def test_inspect_prints_kinds_counts_words_and_patterns(tmp_path):
    table = written(tmp_path / "t.csv", INSPECTED)
    run = succeeded(miwae("inspect", table))
    assert run.stderr == ""
    lines = run.stdout.decode().splitlines()
    assert lines[0] == (
        f"{table}: 10 rows, 6 columns, 17 cells missing (28.3%): "
        '"" 13 times, "NA" 2 times, "?" 2 times'
    )
    rows = [line.split()[:4] for line in lines[2:8]]
    assert rows == [
        ["name", "identifier", "1", "10.0%"],
        ["height", "positive", "3", "30.0%"],
        ["colour", "categorical", "1", "10.0%"],
        ["when", "datetime", "1", "10.0%"],
        ["same", "constant", "1", "10.0%"],
        ["void", "empty", "10", "100.0%"],
    ]
    patterns = [line.split(maxsplit=1) for line in lines[lines.index("") + 2 :]]
    assert [(int(count), names.strip()) for count, names in patterns[:2]] == [
        (5, "void"),
        (2, "height, void"),
    ]
    assert {(int(count), names.strip()) for count, names in patterns[2:]} == {
        (1, "height, colour, void"),
        (1, "same, void"),
        (1, "name, when, void"),
    }


def inspected(*arguments: object, stdin=b"") -> dict:
    run = succeeded(miwae("inspect", *arguments, "--json", stdin=stdin))
    assert run.stderr == ""
    return json.loads(run.stdout)


def test_inspect_gives_the_same_as_json():
    data = inspected("-", stdin=INSPECTED)
    assert {key: data[key] for key in ("file", "rows", "missing_cells", "n_patterns")} == {
        "file": "-",
        "rows": 10,
        "missing_cells": 17,
        "n_patterns": 5,
    }
    assert data["taken_as_missing"] == {"": 13, "NA": 2, "?": 2}
    found = [(c["name"], c["kind"], c["missing"], c["distinct"]) for c in data["columns"]]
    assert found == [
        ("name", "identifier", 1, 9),
        ("height", "positive", 3, 7),
        ("colour", "categorical", 1, 3),
        ("when", "datetime", 1, 9),
        ("same", "constant", 1, 1),
        ("void", "empty", 10, 0),
    ]
    assert data["patterns"][:2] == [
        {"missing": ["void"], "rows": 5},
        {"missing": ["height", "void"], "rows": 2},
    ]
    assert data["hints"] == []


def test_a_number_that_may_stand_for_nothing_is_pointed_at():
    numbers = [f"{i}.5" for i in range(12)] + ["-999", "-999"]
    data = inspected("-", stdin="\n".join(["x", *numbers]).encode())
    assert len(data["hints"]) == 1
    assert "'x'" in data["hints"][0]
    assert "-999 in 2 cells" in data["hints"][0]


def test_na_adds_words_that_mean_missing():
    table = b"x,y\nnone given,1\n-999,2\nNA,3\n4,-999\n"
    data = inspected("-", "--na", "none given", "--na", "-999", stdin=table)
    assert data["taken_as_missing"] == {"none given": 1, "-999": 2, "NA": 1}
    assert [column["missing"] for column in data["columns"]] == [3, 1]


def test_na_reaches_numbers_in_files_that_have_types(tmp_path):
    pa_table = pa.table({"a": [-999.0, 1.5, 2.5], "b": [1, -999, 3], "c": ["-999", "x", None]})
    pq.write_table(pa_table, tmp_path / "x.parquet")
    data = inspected(tmp_path / "x.parquet", "--na", "-999")
    assert {c["name"]: c["missing"] for c in data["columns"]} == {"a": 1, "b": 1, "c": 2}


def test_na_is_also_the_number_it_means():
    data = inspected("-", "--na", "-999", stdin=b"a,b\n-999.0,1\n-999,2\n3.5,3\n")
    assert data["columns"][0]["missing"] == 2


def test_only_text_comes_without_a_header(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "x.parquet")
    run = miwae("inspect", tmp_path / "x.parquet", "--no-header")
    assert_fails(run, 2, "--no-header is for text files")


def test_only_na_takes_no_other_word_as_missing():
    table = b"x,y\nNA,1\nnil,2\nGB,3\nNA,\n"
    data = inspected("-", "--only-na", "--na", "nil", stdin=table)
    assert data["taken_as_missing"] == {"nil": 1}
    assert [column["missing"] for column in data["columns"]] == [1, 0]
    assert [column["distinct"] for column in data["columns"]] == [2, 4]


def test_comments_above_the_names_are_told_and_kept(tmp_path):
    table = b"# made by hand\n#\nx,y\n1,2\n3,4\n"
    assert inspected("-", stdin=table)["comment_lines"] == 2
    run = succeeded(miwae("impute", "-", "-o", tmp_path / "out.csv", stdin=table))
    assert "the first 2 lines begin with #: not read" in run.stderr
    assert (tmp_path / "out.csv").read_bytes() == table


def test_delimiter_and_header_can_be_told():
    table = b"1;5,2\n2;6,3\n3;,4\n"
    data = inspected("-", "--delimiter", ";", "--no-header", stdin=table)
    assert data["rows"] == 3
    assert [column["name"] for column in data["columns"]] == ["column_1", "column_2"]
    data = inspected("-", "--delimiter", ",", "--no-header", stdin=table)
    assert [column["missing"] for column in data["columns"]] == [0, 0]
    assert [column["kind"] for column in data["columns"]] == ["categorical", "integer"]


def test_kinds_and_bounds_can_be_told():
    table = b"zip,size,a=b\n1010,S,0.5\n1020,L,0.25\n1010,M,\n"
    data = inspected(
        *("-", "--kind", "zip=categorical", "--kind", "size=ordinal:S<M<L"),
        *("--bounds", "a=b=0:1"),
        stdin=table,
    )
    assert [column["kind"] for column in data["columns"]] == ["categorical", "ordinal", "bounded"]
    assert [column["reason"] for column in data["columns"]][:2] == ["as told", "as told"]


def test_the_order_of_day_and_month_can_be_told(tmp_path):
    table = b"when,x\n01/02/2024,7\n03/02/2024,7\n01/02/2024,\n"
    told = ("--kind", "when=datetime:month-first")
    data = inspected("-", *told, stdin=table)
    assert (data["columns"][0]["kind"], data["hints"]) == ("datetime", [])
    (hint,) = inspected("-", stdin=table)["hints"]
    assert "--kind when=datetime:day-first (or month-first)" in hint
    wrong = miwae("inspect", "-", "--kind", "x=datetime:day-first", stdin=table)
    assert_fails(wrong, 1, "'x' cannot be datetime")
    wrong = miwae("inspect", "-", "--kind", "when=datetime:dayfirst", stdin=table)
    assert_fails(wrong, 2, "'datetime:day-first'")


@pytest.mark.parametrize("cell", [b"31/01/2024", b"01.02.2024"])
def test_an_order_that_the_dates_contradict_is_refused(cell):
    table = b"when,x\n02/03/2024,7\n".replace(b"/", b"." if b"." in cell else b"/") + cell + b",\n"
    wrong = miwae("inspect", "-", "--kind", "when=datetime:month-first", stdin=table)
    assert_fails(wrong, 2, "when=datetime:month-first", "tell the other order")
    right = inspected("-", "--kind", "when=datetime:day-first", stdin=table)
    assert right["columns"][0]["kind"] == "datetime"


def test_the_order_of_dates_is_not_told_for_tables_with_types(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    parquet.write_table(pa.table({"when": ["01/02/2024", "03/02/2024", "01/02/2024"]}), path)
    (hint,) = inspected(path)["hints"]
    assert "store it as dates" in hint
    assert "--kind" not in hint
    wrong = miwae("inspect", path, "--kind", "when=datetime:day-first")
    assert_fails(wrong, 2, "store the column as dates")


def test_brackets_and_colons_in_names_are_printed_as_they_are(tmp_path):
    content = b"weight [kg],:smile:\n1.5,a\n2.5,b\n[x],b\n"
    table = written(tmp_path / "t[raw].csv", content)
    run = succeeded(miwae("inspect", table, "--na", "[x]"))
    expected = ("t[raw].csv", '"[x]" 1 times', "weight [kg]", ":smile:")
    assert [text for text in expected if text not in run.stdout.decode()] == []


def test_a_name_with_a_slash_in_brackets_is_no_error():
    run = succeeded(miwae("inspect", "-", stdin=b"x [/m]\n1.5\n2.5\n"))
    assert "x [/m]" in run.stdout.decode()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_names_that_the_terminal_cannot_show_are_no_error(options):
    table = "größe,b\n1,2\n1,\n".encode()
    run = miwae("inspect", "-", *options, stdin=table, PYTHONIOENCODING="ascii")
    assert (run.code, run.stderr) == (0, "")
    assert b"2 rows" in run.stdout or json.loads(run.stdout)["columns"][0]["name"] == "größe"


# ---------------------------------------------------------------------- errors

PEOPLE = b"height,colour\n1.75,red\n1.65,blue\n,red\n"


@pytest.mark.parametrize(
    ("content", "options", "code", "words"),
    [
        (b"\x00\x01\x02\xff" * 100, "", 1, ("in.csv", "not a text table", "suffix")),
        (b"a,b\n1,2\n1,2,3\n", "", 1, ("in.csv", "line 3 has 3 fields", "correct the line")),
        (b"a,b,a\n1,2,3\n", "", 1, ("in.csv", "'a'", "rename")),
        (b"a,b\n1,2\ninf,3\n", "", 1, ("'a'", "inf", "correct it, or mark it as missing")),
        (b"", "", 1, ("in.csv", "empty")),
        (b"a,b\n", "", 1, ("no rows",)),
        (b'a,b\n1,"2\n', "", 1, ("in.csv", "line 2", "quote")),
        (PEOPLE, "--kind height=tall", 2, ("'height'", "'tall'", "positive, bounded")),
        (PEOPLE, "--kind heigth=positive", 2, ("--kind names", "did you mean 'height'?")),
        (PEOPLE, "--kind colour=count", 1, ("'colour'", "count", "red")),
        (PEOPLE, "--kind colour=ordinal:red<green", 2, ("'colour'", "blue")),
        (PEOPLE, "--kind height", 2, ("--kind", "'height'", "COLUMN=")),
        (PEOPLE, "--bounds height=0:1.7", 1, ("'height'", "1.75", "widen the bounds")),
        (PEOPLE, "--bounds height=0-2", 2, ("--bounds", "height=0-2", "LOW:HIGH")),
        (PEOPLE, "--bounds heigth=0:2", 2, ("--bounds names", "did you mean 'height'?")),
        (PEOPLE, "--bounds height=2:0", 2, ("--bounds of 'height'", "2 is not below 0")),
        (PEOPLE, "--bounds colour=0:1", 2, ("'colour'", "only columns of numbers")),
        (PEOPLE, "--model no.miwae", 1, ("no.miwae", "miwae fit")),
        (PEOPLE, "--model no.miwae --kind height=positive", 2, ("--kind", "refit")),
        (PEOPLE, "--delimiter ab", 2, ("delimiter", "'ab'")),
        (PEOPLE, "--encoding nope", 2, ("'nope'", "utf-8")),
        (CONSTANT, "--max-time -5", 2, ("max", "-5")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_cannot_be_done_is_said_in_one_line(tmp_path, content, options, code, words):
    table = written(tmp_path / "in.csv", content)
    run = miwae("impute", table, "-o", tmp_path / "out.csv", *options.split(), cwd=tmp_path)
    assert_fails(run, code, *words)
    assert os.listdir(tmp_path) == ["in.csv"]


def test_a_file_that_does_not_exist(tmp_path):
    run = miwae("impute", tmp_path / "none.csv", "-o", tmp_path / "out.csv")
    assert_fails(run, 1, str(tmp_path / "none.csv"), "check the path")
    assert os.listdir(tmp_path) == []


def test_a_directory_is_no_table(tmp_path):
    run = miwae("impute", tmp_path, "-o", tmp_path / "out.csv")
    assert_fails(run, 1, str(tmp_path), "directory", "name a file in it")
    assert os.listdir(tmp_path) == []


def test_a_failure_leaves_the_earlier_output_as_it_was(tmp_path):
    output = written(tmp_path / "out.csv", b"earlier")
    assert miwae("impute", "-", "-o", output, stdin=b"a,b\n1\n").code == 1
    assert output.read_bytes() == b"earlier"


def test_a_foreign_file_is_no_model(tmp_path):
    table = written(tmp_path / "in.csv", PEOPLE)
    run = miwae("impute", table, "--model", table, "-o", tmp_path / "out.csv")
    assert_fails(run, 1, str(table), "not a miwae file")
    assert os.listdir(tmp_path) == ["in.csv"]


# ---------------------------------------------------------------------- where output cannot go


def test_a_seed_is_not_negative():
    run = miwae("impute", "-", "--seed", "-1", stdin=CONSTANT)
    assert run.code == 2
    assert "--seed" in run.stderr
    assert "Traceback" not in run.stderr


def test_an_output_directory_that_does_not_exist_is_named(tmp_path):
    output = tmp_path / "nowhere" / "out.csv"
    run = miwae("impute", "-", "-o", output, "-q", stdin=CONSTANT)
    assert_fails(run, 1, f"cannot write {output}", "No such file or directory")
    assert os.listdir(tmp_path) == []


def test_a_model_that_cannot_be_written_is_not_trained(tmp_path):
    output = tmp_path / "nowhere" / "m"
    run = miwae("fit", "-", "-o", output, stdin=b"a,b\n1,2\n1,\n")
    assert_fails(run, 1, f"cannot write {output}", "No such file or directory")


FULL = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="there is no /dev/full")


@FULL
def test_a_full_disk_is_said_in_one_line():
    with open("/dev/full", "wb") as full:
        run = miwae("impute", "-", "-q", stdin=CONSTANT, stdout=full)
    assert_fails(run, 1, "standard output", "No space left on device")


@FULL
@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_full_disk_is_said_in_one_line_by_inspect_too(options):
    with open("/dev/full", "wb") as full:
        run = miwae("inspect", "-", *options, stdin=CONSTANT, stdout=full)
    assert_fails(run, 1, "standard output", "No space left on device")


@pytest.mark.parametrize("command", ["impute", "inspect"])
def test_a_reader_that_has_gone_is_no_traceback(tmp_path, command):
    table = written(tmp_path / "t.csv", CONSTANT)
    process = subprocess.Popen(
        [sys.executable, "-m", "miwae", command, str(table)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    process.stdout.close()
    _, stderr = process.communicate(timeout=300)
    assert process.returncode == 1
    assert "Traceback" not in stderr.decode()
    assert "Exception ignored" not in stderr.decode()


def test_a_demo_directory_that_is_a_file_is_named(tmp_path):
    place = written(tmp_path / "file", b"")
    assert_fails(miwae("demo", "-o", place), 1, str(place))


def test_a_dash_is_never_the_name_of_a_file(tmp_path):
    miwae("fit", written(tmp_path / "in.csv", CONSTANT), "-o", "-", cwd=tmp_path)
    assert os.listdir(tmp_path) == ["in.csv"]


# ---------------------------------------------------------------------- formats

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
    assert last.startswith(
        "filled 3 cells; 1 cells of 'name' stay missing; 10 cells of 'void' stay missing in "
    )
    assert last.endswith(f" s -> {output}")
    assert sorted(os.listdir(tmp_path)) == ["in.csv", "out.csv"]


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
    openpyxl = pytest.importorskip("openpyxl")
    book = openpyxl.Workbook()
    for row in [("a", "b"), (7, 2), (None, 2), (None, 2), (7, 2)]:
        book.worksheets[0].append(row)
    book.worksheets[0].merge_cells("A2:A3")
    book.save(tmp_path / "in.xlsx")
    run = succeeded(miwae("impute", tmp_path / "in.xlsx", "-o", tmp_path / "out.xlsx", "--json"))
    data = json.loads(run.stdout)
    assert (data["filled_cells"], data["left_missing"]) == (1, {"a": 1})
    assert any("'a': 1 missing cell stays missing" in event for event in data["events"])
    sheet = openpyxl.load_workbook(tmp_path / "out.xlsx").worksheets[0]
    assert [row[0] for row in sheet.values] == ["a", 7, None, 7, 7]


def test_csv_becomes_parquet(tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    table = written(
        tmp_path / "in.csv", b"n,x,word,when\n7,0.50,on,\n7,,,2024-01-05\n,0.5,on,NA\n"
    )
    run = succeeded(miwae("impute", table, "-o", tmp_path / "out.parquet", "-q"))
    assert (run.stdout, run.stderr) == (b"", "")
    completed = parquet.read_table(tmp_path / "out.parquet")
    assert [str(field.type) for field in completed.schema] == [
        *("int64", "double", "string", "timestamp[us]")
    ]
    assert completed.column_names == ["n", "x", "word", "when"]
    assert [str(when)[:10] for when in completed.column("when").to_pylist()] == ["2024-01-05"] * 3
    assert completed.drop_columns("when").to_pylist() == [{"n": 7, "x": 0.5, "word": "on"}] * 3


def test_parquet_stays_parquet(tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table(
        {
            "small": pa.array([3, None, 3], pa.int8()),
            "flag": pa.array([True, True, None]),
            "kind": pa.array(["a", None, "a"]).dictionary_encode(),
            "void": pa.array([None, None, None], pa.float32()),
        }
    )
    parquet.write_table(table, tmp_path / "in.parquet")
    run = succeeded(
        miwae("impute", tmp_path / "in.parquet", "-o", tmp_path / "out.parquet", "--json")
    )
    completed = parquet.read_table(tmp_path / "out.parquet")
    assert completed.schema.types == table.schema.types
    assert completed.to_pydict() == {
        "small": [3, 3, 3],
        "flag": [True, True, True],
        "kind": ["a", "a", "a"],
        "void": [None, None, None],
    }
    data = json.loads(run.stdout)
    assert (data["taken_as_missing"], data["left_missing"]) == (None, {"void": 3})


# ---------------------------------------------------------------------- with a model

ROWS = 20
FILLABLE = {"height": (1, 5, 9), "share": (2, 5, 12), "grade": (3, 9, 15)}
OPTIONS = ("--kind", "grade=ordinal:S<M<L", "--bounds", "share=0:1", "--na", "miss", "--seed", 7)


def mixed_table() -> bytes:
    """Of too few cells to train on: a code makes height, share and grade; the rest is noise."""
    rng = np.random.default_rng(0)
    code = rng.normal(size=ROWS)
    noise = rng.normal(size=(2, ROWS)) * 0.3
    columns = {
        "person": [f"p{i}" for i in range(ROWS)],
        "height": [f"{170 + 8 * (z + e):.2f}" for z, e in zip(code, noise[0], strict=True)],
        "share": [f"{1 / (1 + np.exp(-z - e)):.3f}" for z, e in zip(code, noise[1], strict=True)],
        "grade": ["SML"[int(z > -0.5) + int(z > 0.5)] for z in code],
        "void": [""] * ROWS,
    }
    columns["person"][4] = "NA"
    for (name, rows), word in zip(FILLABLE.items(), ("NA", "miss", ""), strict=True):
        for row in rows:
            columns[name][row] = word
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    return "\n".join(lines).encode() + b"\n"


class Fitted(NamedTuple):
    table: Path
    model: Path
    summary: dict


@pytest.fixture(scope="module")
def fitted(tmp_path_factory) -> Fitted:
    place = tmp_path_factory.mktemp("fitted")
    table = written(place / "table.csv", mixed_table())
    run = succeeded(miwae("fit", table, "-o", place / "model", *OPTIONS, "--json"))
    assert sorted(os.listdir(place)) == ["model", "table.csv"]
    return Fitted(table, place / "model", json.loads(run.stdout))


class Completed(NamedTuple):
    content: bytes
    run: Run


@pytest.fixture(scope="module")
def completed(fitted, tmp_path_factory) -> Completed:
    """Fitted and imputed by one command, with the seed of `fitted`, in another process."""
    output = tmp_path_factory.mktemp("completed") / "out.csv"
    run = succeeded(miwae("impute", fitted.table, *OPTIONS, "-o", output, "--json"))
    return Completed(output.read_bytes(), run)


def assert_only_holes_are_filled(before: list[list[str]], after: list[list[str]]) -> None:
    """Row after row, for tables with the header of `mixed_table`."""
    assert after[0] == before[0]
    assert len(after) == len(before)
    place = {name: before[0].index(name) for name in before[0]}
    for row, (old, new) in enumerate(zip(before[1:], after[1:], strict=True)):
        for name in before[0]:
            if row not in FILLABLE.get(name, ()):
                assert new[place[name]] == old[place[name]]
    assert all(float(after[row + 1][place["height"]]) > 0 for row in FILLABLE["height"])
    assert all(0 <= float(after[row + 1][place["share"]]) <= 1 for row in FILLABLE["share"])
    assert all(after[row + 1][place["grade"]] in {"S", "M", "L"} for row in FILLABLE["grade"])


def test_fit_says_what_it_did(fitted):
    data = fitted.summary
    assert data["output"] == str(fitted.model)
    assert data["rows"] == ROWS
    assert {c["name"]: c["kind"] for c in data["columns"]} == {
        "person": "identifier",
        "height": "positive",
        "share": "bounded",
        "grade": "ordinal",
        "void": "empty",
    }
    assert data["taken_as_missing"] == {"": 23, "NA": 4, "miss": 3}
    assert "only 51 cells are observed: the model stays linear" in data["events"]


def test_only_the_holes_are_filled(completed):
    assert_only_holes_are_filled(cells(mixed_table()), cells(completed.content))


def test_imputed_numbers_follow_the_other_columns(completed):
    """The code of a row decides, up to noise: S is small, L is large."""
    rows = [
        dict(zip(("person", "height", "share", "grade"), r, strict=False))
        for r in cells(completed.content)[1:]
    ]
    holes = [rows[row] for row in FILLABLE["height"] if row not in FILLABLE["share"]]
    for row in holes:
        share = float(row["share"])
        expected = 170 + 8 * np.log(share / (1 - share))
        assert abs(float(row["height"]) - expected) < 8


def test_the_summary_goes_to_stdout_as_json(completed, fitted):
    data = json.loads(completed.run.stdout)
    assert completed.run.stderr == ""
    assert set(data) == {
        *("file", "taken_as_missing", "comment_lines", "rows", "columns", "missing_cells"),
        *(
            "patterns",
            "n_patterns",
            "hints",
            "filled_cells",
            "left_missing",
            "imputations",
            "events",
        ),
        *("seconds", "output"),
    }
    assert data["file"] == str(fitted.table)
    assert (data["missing_cells"], data["filled_cells"], data["imputations"]) == (30, 9, 0)
    assert data["left_missing"] == {"person": 1, "void": ROWS}
    assert any("'person'" in event and "stay missing" in event for event in data["events"])
    assert data["columns"] == fitted.summary["columns"]


@pytest.fixture(scope="module")
def piped(fitted) -> Run:
    """The table, behind a row with a grade that the model does not know."""
    header, *rows = mixed_table().splitlines(keepends=True)
    stdin = b"".join([header, b"new,,0.500,XXL,\n", *rows])
    arguments = ("--model", fitted.model, "--na", "miss", "-o", "-", "--json")
    return succeeded(miwae("impute", "-", *arguments, stdin=stdin))


def test_a_model_gives_the_same_bytes_in_another_process(piped, completed):
    """As the process that fitted it: also behind another row. Nothing else is on stdout."""
    header, *rows = completed.content.splitlines(keepends=True)
    lines = piped.stdout.splitlines(keepends=True)
    assert [lines[0], *lines[2:]] == [header, *rows]


def test_a_category_that_the_model_does_not_know_stays_and_is_told(piped):
    person, height, share, grade, void = cells(piped.stdout)[1]
    assert (person, share, grade, void) == ("new", "0.500", "XXL", "")
    assert 140 < float(height) < 200
    assert "'grade'" in piped.stderr
    assert "XXL" in piped.stderr


def test_the_summary_goes_to_stderr_where_stdout_has_the_table(piped):
    data = json.loads(piped.stderr)
    assert data["output"] is None
    assert data["filled_cells"] == 10
    assert any("XXL" in event for event in data["events"])


def test_a_table_without_rows_is_named_with_a_model_too(fitted, tmp_path):
    table = written(tmp_path / "none.csv", fitted.table.read_bytes().splitlines(keepends=True)[0])
    run = miwae("score", table, "--model", fitted.model)
    assert_fails(run, 1, "none.csv: the table has no rows")


def test_other_columns_than_those_of_the_model_are_named(fitted, tmp_path):
    table = mixed_table().replace(b"share", b"part", 1)
    output = tmp_path / "out.csv"
    run = miwae("impute", "-", "--model", fitted.model, "-o", output, stdin=table)
    assert_fails(run, 1, "lacks share", "unknown part", "fitted to person, height, share")
    assert os.listdir(tmp_path) == []


@pytest.fixture(scope="module")
def copies(fitted) -> Run:
    arguments = ("--model", fitted.model, "--na", "miss", "-m", 3)
    return succeeded(miwae("impute", fitted.table, *arguments))


def test_copies_are_stacked_as_in_mice(copies):
    header, *rows = cells(copies.stdout)
    before = cells(mixed_table())
    assert header == [".imp", ".id", *before[0]]
    assert [row[:2] for row in rows] == [
        [str(copy), str(row)] for copy in range(4) for row in range(1, ROWS + 1)
    ]
    blocks = [[row[2:] for row in rows[i * ROWS : (i + 1) * ROWS]] for i in range(4)]
    assert blocks[0] == before[1:]
    for block in blocks[1:]:
        assert_only_holes_are_filled(before, [before[0], *block])
    heights = {tuple(block[row][1] for row in FILLABLE["height"]) for block in blocks[1:]}
    assert len(heights) == 3


def test_the_summary_of_copies_goes_to_stderr(copies):
    assert "3 imputations of 9 cells; 1 cells of 'person' stay missing" in copies.stderr


def test_what_was_taken_as_missing_is_told_with_a_model_too(copies):
    assert '30 cells missing (30.0%): "" 23 times, "NA" 4 times, "miss" 3 times' in copies.stderr


def test_nothing_is_said_of_fitting_where_nothing_is_fitted(copies):
    assert "cells are observed: the model stays linear" not in copies.stderr


def test_scores_are_one_line_for_each_row(fitted):
    strange = mixed_table().splitlines()[:9]
    strange.append(b"odd,100.00,0.999,S,")
    arguments = ("--model", fitted.model, "--na", "miss", "--json")
    run = succeeded(miwae("score", "-", *arguments, stdin=b"\n".join(strange) + b"\n"))
    header, *lines = run.stdout.decode().splitlines()
    scores = [float(line) for line in lines]
    assert header == "log_density"
    assert len(scores) == 9
    assert min(scores) == scores[-1]
    data = json.loads(run.stderr)
    assert data["rows"] == 9
    assert data["mean_log_density"] == pytest.approx(np.mean(scores), abs=1e-6)


# ---------------------------------------------------------------------- with training


def curved_table() -> bytes:
    """Worth training on for some seconds: no line tells a parabola."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    values = np.stack([x, x**2, np.sin(2 * x)], axis=1) + 0.1 * rng.normal(size=(600, 3))
    holes = rng.random((600, 3)) < 0.1
    lines = [
        ",".join("" if hole else f"{value:.3f}" for value, hole in zip(*row, strict=True))
        for row in zip(values, holes, strict=True)
    ]
    return "\n".join(["a,b,c", *lines]).encode() + b"\n"


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
    assert run.stdout == b""


class Interrupted(NamedTuple):
    run: Run
    files: list[str]


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory) -> Interrupted:
    """By Ctrl-C, as soon as the progress bar tells of training."""
    place = tmp_path_factory.mktemp("interrupted")
    table = written(tmp_path_factory.mktemp("table") / "in.csv", curved_table())
    process = subprocess.Popen(
        [sys.executable, "-m", "miwae", "impute", str(table), "-o", str(place / "out.csv")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # Otherwise the bar is drawn once, at its end.
        env={**os.environ, "FORCE_COLOR": "1"},
    )
    assert process.stderr is not None
    said = b""
    while b"training" not in said:
        more = os.read(process.stderr.fileno(), 4096)
        assert more, said.decode()
        said += more
    process.send_signal(signal.SIGINT)
    stdout, stderr = process.communicate(timeout=300)
    run = Run(process.returncode, stdout, (said + stderr).decode())
    return Interrupted(run, os.listdir(place))


def test_an_interrupt_in_training_leaves_nothing_behind(interrupted):
    assert interrupted.files == []
    assert interrupted.run.code != 0
    assert interrupted.run.stdout == b""
    assert "Traceback" not in interrupted.run.stderr
    assert "imputing" not in interrupted.run.stderr


def test_an_interrupt_exits_with_1_and_says_so(interrupted):
    assert interrupted.run.code == 1
    assert interrupted.run.stderr.endswith("miwae: interrupted; no output was written\n")


@pytest.mark.long
def test_the_demo_ends_with_three_files(tmp_path):
    run = succeeded(miwae("demo", "-o", tmp_path / "demo"))
    names = ["completed.csv", "penguins.csv", "penguins.miwae"]
    assert sorted(os.listdir(tmp_path / "demo")) == names
    assert [n for n in names if str(tmp_path / "demo" / n) not in run.stdout.decode()] == []
    assert "90 % interval" in run.stdout.decode()
    before, after = (
        cells((tmp_path / "demo" / name).read_bytes()) for name in ("penguins.csv", names[0])
    )
    pairs = [
        (was, now)
        for old, new in zip(before, after, strict=True)
        for was, now in zip(old, new, strict=True)
    ]
    missing = [now for was, now in pairs if was in ("", "NA")]
    assert len(missing) == 19
    assert not {"", "NA"} & set(missing)
    assert all(now == was for was, now in pairs if was not in ("", "NA"))


# ---------------------------------------------------------------------- benchmark


def correlated_table() -> bytes:
    rng = np.random.default_rng(0)
    first = rng.normal(size=80)
    lines = [
        f"{a:.3f},{2 * a + 0.1 * e:.3f},{'high' if a > 0 else 'low'}"
        for a, e in zip(first, rng.normal(size=80), strict=True)
    ]
    return ("a,b,c\n" + "\n".join(lines) + "\n").encode()


def test_benchmark_compares_methods_on_hidden_cells(tmp_path):
    table = written(tmp_path / "table.csv", correlated_table())
    picture = tmp_path / "picture.svg"
    arguments = ("--methods", "mean,iterative", "--masks", 2, "--plot", picture)
    run = succeeded(miwae("benchmark", table, *arguments, "--json"))
    (data,) = json.loads(run.stdout)
    assert data["columns"] == ["a", "b", "c"]
    assert [line["method"] for line in data["methods"]] == ["iterative", "mean"]
    regression, mean = data["methods"]
    assert regression["mse"] < 0.5 < mean["mse"]
    assert regression["accuracy"] > mean["accuracy"]
    assert [len(data["records"]), regression["n_masks"]] == [4, 2]
    assert mean["crps"] == mean["mae"]
    assert mean["log_loss"] is None
    assert b"<svg" in picture.read_bytes()


def test_benchmark_prints_the_most_accurate_method_first():
    arguments = ("--methods", "mean,iterative", "--masks", 1, "--mechanism", "mar")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=correlated_table()))
    lines = run.stdout.decode().splitlines()
    assert "CRPS" in lines[1]
    assert "log-loss" not in lines[1]  # none of the two has probabilities
    assert [line.split()[0] for line in lines[2:4]] == ["iterative", "mean"]
    assert run.stderr.count("mask 1 of 1") == 2


def test_benchmark_draws_a_table_of_categories(tmp_path):
    table = b"a,b\n" + b"yes,left\nno,right\n" * 20
    picture = tmp_path / "picture.svg"
    arguments = ("--methods", "mean,knn", "--masks", 1, "--plot", picture, "--json")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=table))
    (data,) = json.loads(run.stdout)
    assert [line["method"] for line in data["methods"]] == ["knn", "mean"]
    assert b"share of wrong categories" in picture.read_bytes()


def test_benchmark_on_rows_that_were_not_learned_from():
    arguments = ("--methods", "miwae,mean", "--masks", 1, "--new-rows", 0.25, "--json")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=correlated_table()))
    (data,) = json.loads(run.stdout)
    ours, mean = data["methods"]
    assert (ours["method"], mean["method"]) == ("miwae", "mean")
    assert {record["protocol"] for record in data["records"]} == {"new-rows"}
    assert ours["crps"] < ours["mae"] < mean["mae"]
    assert ours["log_loss"] < np.log(2)


def test_benchmark_refuses_what_it_does_not_know():
    for arguments, words in (
        (("--new-rows", "1.5"), ("--new-rows 1.5", "share")),
        (("--methods", "magic"), ("--methods magic", "missforest")),
        (("--mechanism", "magic"), ("--mechanism magic", "mnar-self")),
        (("--plot", "x.doc"), ("--plot x.doc", ".png")),
        (("--rate", "1.5"), ("--rate", "1.5")),
    ):
        run = miwae("benchmark", "-", *arguments, stdin=correlated_table())
        assert_fails(run, 2, *words)
