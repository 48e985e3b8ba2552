"""`miwae report` and `miwae impute --report`: a page beside the completed table, or alone."""

import json
import re

from cli.runs import assert_fails, correlated_table, miwae, succeeded, written


def data_of(html: str) -> dict:
    (inside,) = re.findall(r'id="data">(.*?)</script>', html)
    return json.loads(inside)


def with_holes() -> bytes:
    lines = correlated_table().splitlines()[:13]  # so few that nothing is trained
    lines[3] = b"," + lines[3].split(b",", 1)[1]
    lines[5] = lines[5].rsplit(b",", 1)[0] + b","
    return b"\n".join(lines) + b"\n"


def test_a_page_beside_the_completed_table_and_one_from_a_model(tmp_path):
    table, page = written(tmp_path / "table.csv", with_holes()), tmp_path / "page.html"
    run = ("impute", "table.csv", "-o", "out.csv", "--report", "page.html", "--seed", 3)
    succeeded(miwae(*run, cwd=tmp_path))
    data = data_of(page.read_text(encoding="utf-8"))
    assert data["title"] == "table.csv"
    assert data["n_imputed"] == data["n_missing"] == 2
    assert data["command"] == "miwae impute table.csv -o out.csv --report page.html --seed 3"
    first, *_ = data["columns"][0]["examples"]
    assert (data["row_word"], first["row"]) == ("line", 4)  # as an editor counts them
    cell = (tmp_path / "out.csv").read_text().splitlines()[3].split(",")[0]
    assert abs(float(cell) - float(first["value"])) < 2e-3

    succeeded(miwae("fit", table, "-o", "m.miwae", "--seed", 3, cwd=tmp_path))
    done = succeeded(miwae("report", table, "--model", "m.miwae", "-o", "-", cwd=tmp_path))
    assert "described in " in done.stderr
    other = data_of(done.stdout.decode())
    assert other["columns"] == data["columns"]


def test_what_cannot_be_done_is_said_before_long_work(tmp_path):
    table = written(tmp_path / "table.csv", with_holes())
    assert_fails(miwae("report", table, "-o", tmp_path / "no" / "page.html"), 1, "No such")
    assert_fails(miwae("impute", table, "--report", tmp_path), 1, "it is a directory")
    run = miwae("report", table, "-o", "-", "--model", "m", "--kind", "a=count")
    assert_fails(run, 2, "part of a model")
