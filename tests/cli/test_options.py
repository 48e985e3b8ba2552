"""What can be asked for: help, options and what they mean, and what a command imports."""

import importlib.metadata
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.main import get_command
from typer.testing import CliRunner

import miwae as miwae_package
from cli.runs import CONSTANT, INSPECTED, assert_fails, inspected, miwae, succeeded, written
from miwae import MIWAEImputer, __version__
from miwae.cli import main
from miwae.cli._app import app
from miwae.cli._options import table_seed
from miwae.evaluation import MECHANISMS
from miwae.evaluation.peers import PEERS

COMMANDS = ("impute", "fit", "score", "inspect", "report", "benchmark", "demo")


@pytest.mark.parametrize("command", ["", *COMMANDS])
def test_help_names_commands_and_options(command):
    run = succeeded(miwae(*command.split(), "--help"))
    assert "Usage:" in run.stdout.decode()
    expected = {
        "": COMMANDS,
        "impute": (
            "--output",
            "--model",
            "--kind",
            "--bounds",
            "--only-na",
            "--max-time",
            "--report",
            "--engine",
            "--scheduler",
        ),
        "report": ("--output", "--model", "--kind", "--ignore", "--not-applicable"),
        "fit": ("--output", "--seed", "--n-models"),
        "score": ("--model", "--encoding"),
        "inspect": ("--no-header", "--delimiter", "--json"),
        "benchmark": ("--methods", "--mechanism", "--rate", "--masks", "--plot", "--json"),
        "demo": ("--output",),
    }[command]
    assert [word for word in expected if word not in run.stdout.decode()] == []
    assert run.stderr == ""
    assert "Usage: miwae" in run.stdout.decode()
    if command:
        assert f"Example: miwae {command} " in run.stdout.decode()


@pytest.mark.parametrize("command", COMMANDS)
def test_options_have_long_names_and_help_shows_no_types(command):
    options = [
        p for p in get_command(app).commands[command].params if p.param_type_name == "option"
    ]
    assert options
    assert [p.name for p in options if not any(o.startswith("--") for o in p.opts)] == []
    shown = CliRunner().invoke(app, [command, "--help"]).output
    assert not set("<>{}") & set(
        shown.replace("S<M<L", "").replace("<=x<=", "").replace("x>=", "")
    )


def test_help_of_benchmark_names_all_methods_and_mechanisms():
    shown = " ".join(CliRunner().invoke(app, ["benchmark", "--help"]).output.split())
    assert f"miwae, {', '.join(PEERS)};" in shown
    assert [name for name in MECHANISMS if name not in shown] == []


def test_version():
    pyproject = tomllib.loads((Path(__file__).parents[2] / "pyproject.toml").read_text())
    expected = pyproject["project"]["version"]
    assert succeeded(miwae("--version")).stdout.decode() == f"miwae {expected}\n"
    assert __version__ == expected


def test_the_installed_command_is_that_of_python_m():
    (script,) = importlib.metadata.entry_points(group="console_scripts", name="miwae")
    assert script.load() is main


def test_a_seed_gives_the_same_models_as_in_python():
    x = [[1.0, 2.0], [2.0, 3.0]]
    for seed in (0, 7, 2**32 - 1):
        imputer = MIWAEImputer(random_state=seed).fit(x)  # of too few cells to train
        assert imputer._fitted.table.settings.seed == table_seed(seed)


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


def test_a_seed_is_not_negative():
    run = miwae("impute", "-", "--seed", "-1", stdin=CONSTANT)
    assert run.code == 2
    assert "--seed" in run.stderr
    assert "Traceback" not in run.stderr


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


def test_only_na_takes_no_other_word_as_missing():
    table = b"x,y\nNA,1\nnil,2\nGB,3\nNA,\n"
    data = inspected("-", "--only-na", "--na", "nil", stdin=table)
    assert data["taken_as_missing"] == {"nil": 1}
    assert [column["missing"] for column in data["columns"]] == [1, 0]
    assert [column["distinct"] for column in data["columns"]] == [2, 4]


def test_only_text_comes_without_a_header(tmp_path):
    pq.write_table(pa.table({"a": [1.0, 2.0]}), tmp_path / "x.parquet")
    run = miwae("inspect", tmp_path / "x.parquet", "--no-header")
    assert_fails(run, 2, "--no-header is for text files")


def test_delimiter_and_header_can_be_given():
    table = b"1;5,2\n2;6,3\n3;,4\n"
    data = inspected("-", "--delimiter", ";", "--no-header", stdin=table)
    assert data["rows"] == 3
    assert [column["name"] for column in data["columns"]] == ["column_1", "column_2"]
    data = inspected("-", "--delimiter", ",", "--no-header", stdin=table)
    assert [column["missing"] for column in data["columns"]] == [0, 0]
    assert [column["kind"] for column in data["columns"]] == ["categorical", "integer"]


def test_kinds_and_bounds_can_be_given():
    table = b"zip,size,a=b\n1010,S,0.5\n1020,L,0.25\n1010,M,\n"
    data = inspected(
        *("-", "--kind", "zip=categorical", "--kind", "size=ordinal:S<M<L"),
        *("--bounds", "a=b=0:1"),
        stdin=table,
    )
    assert [column["kind"] for column in data["columns"]] == ["categorical", "ordinal", "bounded"]
    assert [column["reason"] for column in data["columns"]][:2] == ["specified by the user"] * 2


def test_the_order_of_day_and_month_can_be_given():
    table = b"when,x\n01/02/2024,7\n03/02/2024,7\n01/02/2024,\n"
    data = inspected("-", "--kind", "when=datetime:month-first", stdin=table)
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
    assert_fails(wrong, 2, "--kind of 'when'", "month is first", "give the other order")
    right = inspected("-", "--kind", "when=datetime:day-first", stdin=table)
    assert right["columns"][0]["kind"] == "datetime"


def test_the_order_of_dates_is_refused_for_files_with_types(tmp_path):
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table({"when": ["01/02/2024", "03/02/2024", "01/02/2024"]}), path)
    (hint,) = inspected(path)["hints"]
    assert "store it as dates" in hint
    assert "--kind" not in hint
    wrong = miwae("inspect", path, "--kind", "when=datetime:day-first")
    assert_fails(wrong, 2, "--kind of 'when'", "store the column as dates")


def test_processes_run_the_package_under_test(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", "import miwae; print(miwae.__file__)"],
        capture_output=True,
        check=True,
        cwd=tmp_path,
    )
    assert Path(done.stdout.decode().strip()) == Path(miwae_package.__file__).resolve()


HOUSES = b"""\
garage,garage_year,size,kind
0,,100,a
1,1990,120,b
1,,130,b
2,1980,,b
2,1981,150,
0,,95,a
1,1992,121,b
"""


def test_roles_and_cells_that_do_not_apply(tmp_path):
    (tmp_path / "in.csv").write_bytes(HOUSES)
    options = ["--only", "garage_year", "--ignore", "kind", "--json", "-o", "out.csv"]
    condition = ["--not-applicable", "garage_year: garage == 0"]
    run = succeeded(miwae("impute", "in.csv", *options, *condition, cwd=tmp_path))
    data = json.loads(run.stdout)
    assert data["filled_cells"] == 1
    assert data["left_missing"] == {"garage_year": 2, "size": 1, "kind": 1}
    assert {e["column"]: e["count"] for e in data["events"] if e["about"] == "role"} == {
        "size": 1,
        "kind": 1,
    }
    lines = (tmp_path / "out.csv").read_bytes().splitlines()
    assert [line.split(b",")[1] == b"" for line in lines[1:]] == [True, *[False] * 4, True, False]


@pytest.mark.parametrize(
    ("options", "kind"), [((), "identifier"), (("--predictor", "id"), "integer")]
)
def test_only_makes_no_predictors_of_row_numbers_unless_they_are_named(options, kind):
    table = b"id,a,b\n" + b"".join(b"%d,%d.5,%d\n" % (i, i * i, i % 7) for i in range(60))
    data = inspected("-", "--only", "a", *options, stdin=table)
    assert {c["name"]: c["kind"] for c in data["columns"]}["id"] == kind


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--ignore", "knd"], "--ignore 'knd': there is no such column; did you mean 'kind'?"),
        (["--only", "size", "--predictor", "size"], "'size' can have one of"),
        (["--not-applicable", "size"], "must be COLUMN: CONDITION"),
        (["--not-applicable", "size: garge == 0"], "did you mean 'garage'"),
    ],
)
def test_wrong_roles_are_refused(tmp_path, options, words):
    (tmp_path / "in.csv").write_bytes(HOUSES)
    assert_fails(miwae("inspect", tmp_path / "in.csv", *options), 2, words)
