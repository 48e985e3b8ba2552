"""`miwae inspect`: what each column is taken for, and what is missing."""

import json

import openpyxl
import pytest

from cli.runs import INSPECTED, inspected, miwae, run_alone, succeeded, written


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


def test_a_number_that_may_stand_for_nothing_is_pointed_at_with_its_remedy():
    table = "\n".join(["x", *(f"{i}.5" for i in range(12)), "-999", "-999"]).encode()
    (hint,) = inspected("-", stdin=table)["hints"]
    assert hint == (
        "column 'x' has the value -999 in 2 cells, far from all others (0.5 to 11.5): does it "
        "mean that the value is missing?"
    )
    lines = succeeded(miwae("inspect", "-", stdin=table)).stdout.decode().splitlines()
    assert f"{hint} If so: --na -999" in lines
    assert inspected("-", "--na", "-999", stdin=table)["hints"] == []


def test_brackets_and_colons_in_names_are_printed_as_they_are(tmp_path):
    content = b"weight [kg],:smile:\n1.5,a\n2.5,b\n[x],b\n"
    table = written(tmp_path / "t[raw].csv", content)
    run = succeeded(miwae("inspect", table, "--na", "[x]"))
    expected = ("t[raw].csv", '"[x]" 1 time', "weight [kg]", ":smile:")
    assert [text for text in expected if text not in run.stdout.decode()] == []


def test_a_name_with_a_slash_in_brackets_is_no_error():
    run = succeeded(miwae("inspect", "-", stdin=b"x [/m]\n1.5\n2.5\n"))
    assert "x [/m]" in run.stdout.decode()


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_names_that_the_terminal_cannot_show_are_no_error(options):
    table = "größe,b\n1,2\n1,\n".encode()
    run = run_alone("inspect", "-", *options, stdin=table, PYTHONIOENCODING="ascii")
    assert (run.code, run.stderr) == (0, "")
    assert b"2 rows" in run.stdout or json.loads(run.stdout)["columns"][0]["name"] == "größe"


def test_all_sheets_are_listed_and_a_note_before_the_table_is_pointed_out(tmp_path):
    book = openpyxl.Workbook()
    note = book.worksheets[0]
    note.title = "Note"
    for row in (["about"], ["written in May"]):
        note.append(row)
    data = book.create_sheet("Data")
    for row in (["a", "b"], *([number, 2 * number] for number in range(5))):
        data.append(row)
    book.save(tmp_path / "book.xlsx")
    run = succeeded(miwae("inspect", tmp_path / "book.xlsx"))
    lines = run.stdout.decode().splitlines()
    assert lines[1] == "sheet 'Note'; the other is 'Data'"
    assert lines[2].endswith("--sheet Data")
    run = succeeded(miwae("inspect", tmp_path / "book.xlsx", "--sheet", "Data", "--json"))
    data = json.loads(run.stdout)
    assert (data["sheets"], data["rows"]) == (["Note", "Data"], 5)
