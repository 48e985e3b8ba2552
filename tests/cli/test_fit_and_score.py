"""`miwae fit`, and what `impute` and `score` do with a model.

A process that imputes takes seconds to start and to compile, so each of them is asked several
things: those runs are fixtures. Tables of fewer than 100 cells need no training.
"""

import json
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from cli.runs import Run, assert_fails, cells, miwae, succeeded, written
from miwae.cli._options import Uncertainty
from miwae.cli._uncertainty import write_beside
from miwae.documents import open_document
from miwae.tabular import LevelProbabilities

ROWS = 20


FILLABLE = {"height": (1, 5, 9), "share": (2, 5, 12), "grade": (3, 9, 15)}


OPTIONS = ("--kind", "grade=ordinal:S<M<L", "--bounds", "share=0:1", "--na", "miss", "--seed", 7)


def mixed_table() -> bytes:
    """Too few cells to train on: a latent value makes height, share and grade, up to noise."""
    rng = np.random.default_rng(0)
    latent = rng.normal(size=ROWS)
    noise = rng.normal(size=(2, ROWS)) * 0.3
    columns = {
        "person": [f"p{i}" for i in range(ROWS)],
        "height": [f"{170 + 8 * (z + e):.2f}" for z, e in zip(latent, noise[0], strict=True)],
        "share": [
            f"{1 / (1 + np.exp(-z - e)):.3f}" for z, e in zip(latent, noise[1], strict=True)
        ],
        "grade": ["SML"[int(z > -0.5) + int(z > 0.5)] for z in latent],
        "void": [""] * ROWS,
    }
    columns["person"][4] = "NA"
    for (name, rows), word in zip(FILLABLE.items(), ("NA", "miss", ""), strict=True):
        for row in rows:
            columns[name][row] = word
    lines = [",".join(columns), *map(",".join, zip(*columns.values(), strict=True))]
    return "\n".join(lines).encode() + b"\n"


def texts(summary: dict) -> list[str]:
    return [event["text"] for event in summary["events"]]


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


def test_fit_reports_what_it_did(fitted):
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
    assert "only 51 cells are observed: the model stays linear" in texts(data)


def test_only_the_holes_are_filled(completed):
    assert_only_holes_are_filled(cells(mixed_table()), cells(completed.content))


def test_imputed_numbers_follow_the_other_columns(completed):
    """The latent value of a row decides, up to noise: S is small, L is large."""
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
        *("file", "taken_as_missing", "comment_lines", "sheets", "rows", "columns"),
        "missing_cells",
        *(
            "patterns",
            "n_patterns",
            "hints",
            "filled_cells",
            "left_missing",
            "imputations",
            "events",
            "quality",
        ),
        *("seconds", "output"),
    }
    assert data["file"] == str(fitted.table)
    assert (data["missing_cells"], data["filled_cells"], data["imputations"]) == (30, 9, 0)
    assert data["left_missing"] == {"person": 1, "void": ROWS}
    assert {"about": "not filled", "column": "person", "count": 1} in [
        {key: event[key] for key in ("about", "column", "count")} for event in data["events"]
    ]
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


def test_a_category_that_the_model_does_not_know_stays_and_is_reported(piped):
    person, height, share, grade, void = cells(piped.stdout)[1]
    assert (person, share, grade, void) == ("new", "0.500", "XXL", "")
    assert 140 < float(height) < 200
    assert "'grade'" in piped.stderr
    assert "XXL" in piped.stderr


def test_the_summary_goes_to_stderr_where_stdout_has_the_table(piped):
    data = json.loads(piped.stderr)
    assert data["output"] is None
    assert data["filled_cells"] == 10
    (event,) = [event for event in data["events"] if "XXL" in event["text"]]
    assert (event["about"], event["column"], event["count"]) == ("value", "grade", 1)


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
    last = copies.stderr.splitlines()[-1]
    assert last.startswith("3 imputations of 9 cells in ")
    assert last.endswith(" s; 1 cell of 'person' stays missing; 20 cells of 'void' stay missing")


def test_what_was_taken_as_missing_is_reported_with_a_model_too(copies):
    assert '30 cells missing (30.0%): "" 23 times, "NA" 4 times, "miss" 3 times' in copies.stderr


def test_events_of_the_fit_are_not_repeated_with_a_model(copies):
    assert "cells are observed: the model stays linear" not in copies.stderr


STRANGE = b"\n".join([*mixed_table().splitlines()[:9], b"odd,100.00,0.999,S,"]) + b"\n"


def test_scores_are_one_line_for_each_row(fitted):
    arguments = ("--model", fitted.model, "--na", "miss", "--json")
    run = succeeded(miwae("score", "-", *arguments, stdin=STRANGE))
    header, *lines = cells(run.stdout)
    scores = [float(score) for _, score in lines]
    assert header == ["line", "log_density"]
    assert [line for line, _ in lines] == [str(number) for number in range(2, 11)]
    assert min(scores) == scores[-1]
    data = json.loads(run.stderr)
    assert data["rows"] == 9
    assert data["mean_log_density"] == pytest.approx(np.mean(scores), abs=1e-6)


def test_the_oddest_rows_come_first_with_the_column_that_names_them(fitted):
    arguments = ("--model", fitted.model, "--na", "miss", "--top", 3, "--id", "person")
    run = succeeded(miwae("score", "-", *arguments, stdin=STRANGE))
    header, *lines = cells(run.stdout)
    assert header == ["line", "person", "log_density"]
    assert lines[0][:2] == ["10", "odd"]
    scores = [float(score) for *_, score in lines]
    assert len(scores) == 3
    assert scores == sorted(scores)
    wrong = miwae("score", "-", "--model", fitted.model, "--id", "name", stdin=STRANGE)
    assert_fails(wrong, 2, "--id 'name'", "the columns are person, height")


def test_a_column_called_as_those_of_scores_is_refused_before_the_model_is_read(tmp_path):
    run = miwae("score", "-", "--model", tmp_path / "none", "--id", "line", stdin=b"line,a\n1,2\n")
    assert_fails(run, 1, "has a column 'line' already")


@pytest.fixture(scope="module")
def side_files(fitted, tmp_path_factory) -> Path:
    place = tmp_path_factory.mktemp("beside")
    files = ("--probabilities", place / "levels.csv", "--diagnostics", place / "rows.csv")
    arguments = ("--model", fitted.model, "--na", "miss", "-o", place / "out.csv", "-q")
    columns = ("--interval", 0.9, "--flag")
    succeeded(miwae("impute", fitted.table, *arguments, *files, *columns))
    return place


def test_intervals_and_flags_are_columns_beside_the_others(side_files, completed):
    lines = [line.split(",") for line in (side_files / "out.csv").read_text().splitlines()]
    assert [line[:5] for line in lines] == cells(completed.content)
    header = lines[0][5:]
    kinds = {"height": ("imputed", "lower", "upper"), "share": ("imputed", "lower", "upper")}
    kinds["grade"] = ("imputed", "lower", "upper")  # its levels have an order
    assert header == [f"{name}.{word}" for name, words in kinds.items() for word in words]
    for number, line in enumerate(lines[1:]):
        row = dict(zip(lines[0], line, strict=True))
        for name, rows in FILLABLE.items():
            flag, lower, upper = (row[f"{name}.{word}"] for word in kinds[name])
            assert flag == ("true" if number in rows else "false")
            assert bool(lower) == bool(upper) == (number in rows)
            if number in rows and name != "grade":
                assert float(lower) <= float(row[name]) <= float(upper)


def test_probabilities_have_a_line_for_each_level_of_each_imputed_cell(side_files):
    header, *lines = cells((side_files / "levels.csv").read_bytes())
    assert header == ["line", "column", "level", "probability"]
    expected = [
        [str(row + 2), "grade", level] for row in FILLABLE["grade"] for level in ("S", "M", "L")
    ]
    assert [line[:3] for line in lines] == expected
    shares = np.array([float(line[3]) for line in lines]).reshape(-1, 3)
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=2e-4)
    completed = cells((side_files / "out.csv").read_bytes())
    for row, own in zip(FILLABLE["grade"], shares, strict=True):
        # The median of an ordinal column: half of the probability is at or below it.
        at = "SML".index(completed[row + 1][3])
        assert own[: at + 1].sum() > 0.499
        assert own[at:].sum() > 0.499


def test_levels_are_called_as_the_file_writes_them(tmp_path):
    """Flags and times are numbers to the model."""
    table, path = tmp_path / "table.csv", tmp_path / "levels.csv"
    table.write_text("flag,shift,code\n,,\nTRUE,06:00,1.0\nFALSE,14:00,2.0\n")
    reading = open_document(str(table)).read()
    levels = {"boolean": (0.0, 1.0), "clock": (21600.0, 50400.0), "number": (1.0, 2.0)}
    found = {
        position: LevelProbabilities(np.array([0]), own, np.array([[0.25, 0.75]]), storage)
        for position, (storage, own) in enumerate(levels.items())
    }
    write_beside(reading, Uncertainty(probabilities=str(path)), found=found)
    words = ["FALSE", "TRUE", "06:00", "14:00", "1.0", "2.0"]
    assert [line[2] for line in cells(path.read_bytes())[1:]] == words
    in_python = [list(own.by_level(2)) for own in found.values()]
    assert in_python == [["False", "True"], ["6:00:00", "14:00:00"], ["1", "2"]]


def test_diagnostics_have_a_line_for_each_incomplete_row(side_files):
    header, *lines = cells((side_files / "rows.csv").read_bytes())
    assert header == ["line", "n_samples", "effective_sample_size", "pareto_k", "smoothed"]
    incomplete = sorted({row for rows in FILLABLE.values() for row in rows})
    assert [int(line[0]) for line in lines] == [row + 2 for row in incomplete]
    assert all(int(line[1]) >= float(line[2]) > 0 for line in lines)
    assert {line[4] for line in lines} <= {"true", "false"}


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("-o", "out.csv", "--diagnostics", "out.csv"), "a file of its own"),
        (("--probabilities", "-"), "a file of its own"),
        (("--probabilities", "p.csv", "-m", 3), "leave out -m 3"),
        (("--flag", "-m", 3), "--flag is about a single completed table"),
        (("--interval", 90), "--interval 90 must lie between 0 and 1"),
        (("--probabilities", "p.json"), "not written"),
    ],
)
def test_files_that_could_not_be_written_are_refused_before_the_work(arguments, word):
    run = miwae("impute", "-", *arguments, stdin=mixed_table())
    assert_fails(run, 2 if "not written" not in word else 1, word)


def test_dates_that_could_be_read_in_two_ways_are_reported_as_read_as_learned(tmp_path):
    table = written(tmp_path / "in.csv", b"when,x\n31/01/2024,7\n31/01/2024,7\n")
    succeeded(miwae("fit", table, "-o", tmp_path / "model", "-q"))
    rows = b"when,x\n01/02/2024,\n03/02/2024,7\n"
    for command in ("impute", "score"):
        run = succeeded(miwae(command, "-", "--model", tmp_path / "model", "--json", stdin=rows))
        (event,) = json.loads(run.stderr)["events"]
        assert (event["about"], event["column"], event["count"]) == ("dates", "when", 2)
        assert "read as learned, as in 25/03/1999" in event["text"]
