"""What is reported, and where: text for people, one JSON document for programs."""

import json

import numpy as np
import pytest

from miwae.cli._options import Format
from miwae.cli._report import Report, Reporter, imputed, nothing_missing, scored
from miwae.cli._source import inspected, opened
from miwae.columns import Cells
from miwae.events import Event
from miwae.tabular import Quality

KIND = Event("kind", "a", 1, "column 'a' is constant: all cells are equal")
STAYS = Event("not filled", "b", 2, "column 'b': 2 cells stay missing")


@pytest.fixture
def table(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"# by hand\na,b\n1,x\nNA,y\n?,z\n1,\n")
    return inspected(opened(str(tmp_path / "t.csv"), Format()))


def test_text_has_each_event_once_and_no_kinds(capsys):
    report = Report({}, ["filled 3 cells", "2 cells of 'b' stay missing"], [KIND, STAYS, STAYS])
    Reporter("out.csv").finish(report)
    stdout, stderr = capsys.readouterr()
    event, line = stderr.splitlines()
    assert (stdout, event) == ("", STAYS.text)
    assert line.startswith("filled 3 cells in ")
    assert line.endswith(" s -> out.csv; 2 cells of 'b' stay missing")


@pytest.mark.parametrize("output", ["-", "out.csv"])
def test_json_goes_where_the_result_does_not(capsys, output):
    Reporter(output, as_json=True).finish(Report({"rows": 4}, ["done"], [KIND, STAYS, STAYS]))
    texts = capsys.readouterr()
    used, other = (texts.err, texts.out) if output == "-" else (texts.out, texts.err)
    data = json.loads(used)
    assert other == ""
    assert list(data) == ["rows", "events", "seconds", "output"]
    assert data["events"] == [
        {"about": "kind", "column": "a", "count": 1, "text": KIND.text},
        {"about": "not filled", "column": "b", "count": 2, "text": STAYS.text},
    ]
    assert data["output"] == (None if output == "-" else output)


def test_quiet_prints_nothing_but_the_json_that_was_asked_for(capsys, table):
    reporter = Reporter("out.csv", quiet=True)
    reporter.show(table)
    reporter.finish(nothing_missing(table))
    assert capsys.readouterr() == ("", "")
    Reporter("out.csv", as_json=True, quiet=True).finish(nothing_missing(table))
    assert json.loads(capsys.readouterr().out)["filled_cells"] == 0


def test_a_report_of_imputation_counts_what_was_filled_and_what_was_not(table):
    cells = {0: Cells(np.array([1, 2]), np.array([1.0, 1.0]))}
    report = imputed(table, cells, (KIND,), 3, Quality())
    assert report.parts == ["3 imputations of 2 cells", "1 cell of 'b' stays missing"]
    expected = {"filled_cells": 2, "left_missing": {"b": 1}, "imputations": 3, "comment_lines": 1}
    assert {key: report.data[key] for key in expected} == expected
    assert report.data["taken_as_missing"] == {"NA": 1, "?": 1, "": 1}
    assert list(report.events) == [KIND]


def test_scores_are_summarised_by_their_mean():
    report = scored(np.array([-1.0, -2.0, -6.0]), ())
    assert report[:3] == (
        {"rows": 3, "mean_log_density": -3.0},
        ["scored 3 rows", "the mean log-density is -3.0000"],
        (),
    )
