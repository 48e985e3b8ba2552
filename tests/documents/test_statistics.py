"""Stata, SPSS and SAS files: codes with labels, read as categories and written back as codes."""

import datetime

import numpy as np
import pandas as pd
import pyreadstat
import pytest

from miwae.columns import Cells, infer_schema
from miwae.documents import open_document, require_free_names, require_writable, write
from miwae.errors import DataError

SURVEY = pd.DataFrame(
    {
        "health": [1, 2, np.nan, 3, 1],
        "weight": [61.5, np.nan, 99.0, 83.25, 70.0],
        "visits": [0, 2, 1, 1, 5],
        "city": ["Ulm", "Bonn", "", "Bonn", "Ulm"],
        "day": [datetime.date(2024, 1, day) for day in range(5, 10)],
    }
)
LABELS = {"health": {1: "poor", 2: "fair", 3: "good"}, "weight": {99: "refused"}}
CELLS = {
    0: Cells(np.array([2]), np.array(["fair"], object)),
    1: Cells(np.array([1]), np.array([66.125])),
    3: Cells(np.array([2]), np.array(["Ulm"], object)),
}


def survey(path):
    labels = {"column_labels": {"health": "How are you?"}}
    if path.suffix != ".xpt":
        labels["variable_value_labels"] = LABELS
    if path.suffix == ".sav":
        labels["variable_measure"] = {"health": "ordinal"}
    name = "xport" if path.suffix == ".xpt" else path.suffix[1:]
    getattr(pyreadstat, f"write_{name}")(SURVEY, str(path), **labels)
    return open_document(str(path)).read()


@pytest.mark.parametrize("suffix", [".dta", ".sav"])
def test_labels_are_levels_where_each_code_has_one(tmp_path, suffix):
    reading = survey(tmp_path / f"in{suffix}")
    health, weight, visits, city, day = reading.columns
    assert (health.storage, health.levels) == ("category", ("poor", "fair", "good"))
    assert health.ordered == (suffix == ".sav")
    assert (weight.storage, visits.storage, day.storage) == ("number", "number", "time")
    assert [column.n_missing for column in reading.columns] == [1, 1, 0, 1, 0]
    assert city.levels == ("Bonn", "Ulm")
    kinds = [known.kind.label for known in infer_schema(reading.columns).columns]
    assert kinds[0] == ("ordinal" if suffix == ".sav" else "categorical")
    assert reading.document.row_numbers().tolist() == [1, 2, 3, 4, 5]
    assert [column.place(4) for column in reading.columns] == ["row 5"] * len(reading.columns)


@pytest.mark.parametrize("suffix", [".dta", ".sav"])
def test_a_column_called_as_a_further_one_is_refused_not_replaced(tmp_path, suffix):
    """Names of further columns have no points in these files: `x.lower` is `x_lower` there."""
    frame = pd.DataFrame({"x": [1.0, np.nan], "x_lower": [5.0, 6.0]})
    path = tmp_path / f"in{suffix}"
    getattr(pyreadstat, f"write_{suffix[1:]}")(frame, str(path))
    document = open_document(str(path))
    with pytest.raises(DataError, match="has a column 'x_lower' already"):
        require_free_names(document, str(path), (".lower",))
    require_free_names(document, str(tmp_path / "out.csv"), (".lower",))
    require_free_names(document, str(path), (".upper", ".imputed"))


@pytest.mark.parametrize("suffix", [".dta", ".sav", ".xpt"])
def test_only_the_given_cells_change(tmp_path, suffix):
    reading = survey(tmp_path / f"in{suffix}")
    coded = suffix != ".xpt"
    cells = CELLS if coded else {**CELLS, 0: Cells(np.array([2]), np.array([2.0]))}
    write(reading, str(tmp_path / f"out{suffix}"), cells, flag=True)
    read = pyreadstat.read_xport if suffix == ".xpt" else getattr(pyreadstat, f"read_{suffix[1:]}")
    frame, meta = read(str(tmp_path / f"out{suffix}"))
    expected = SURVEY.copy()
    expected.loc[2, "health"], expected.loc[1, "weight"] = 2, 66.125
    expected.loc[2, "city"] = "Ulm"
    assert isinstance(frame, pd.DataFrame)
    for name in expected:
        assert frame[name].tolist() == expected[name].tolist(), name
    assert frame["weight_imputed"].tolist() == [0, 1, 0, 0, 0]
    assert meta.column_names_to_labels["health"] == "How are you?"
    assert meta.variable_value_labels == (LABELS if coded else {})


def test_they_become_other_files_with_labels_as_text(tmp_path):
    reading = survey(tmp_path / "in.dta")
    write(reading, str(tmp_path / "out.csv"), CELLS)
    assert (tmp_path / "out.csv").read_text().splitlines()[:4] == [
        "health,weight,visits,city,day",
        "poor,61.5,0,Ulm,2024-01-05",
        "fair,66.125,2,Bonn,2024-01-06",
        "fair,99.0,1,Ulm,2024-01-07",
    ]


def test_other_files_become_them(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"a,b,c\n1.5,x,true\n,y,false\n")
    document = open_document(str(tmp_path / "in.csv"))
    require_writable(document, str(tmp_path / "out.sav"))
    write(document.read(), str(tmp_path / "out.sav"), {0: Cells(np.array([1]), np.array([2.5]))})
    frame, _ = pyreadstat.read_sav(str(tmp_path / "out.sav"))
    assert frame.to_dict("list") == {"a": [1.5, 2.5], "b": ["x", "y"], "c": [1, 0]}


def test_what_cannot_be_written_is_refused_before_the_work(tmp_path):
    (tmp_path / "in.csv").write_bytes(b"bill length,b\n1.5,x\n")
    document = open_document(str(tmp_path / "in.csv"))
    with pytest.raises(DataError, match="cannot hold this table.*write .csv"):
        require_writable(document, str(tmp_path / "out.dta"))
    with pytest.raises(DataError, match="read only; write .xpt"):
        require_writable(document, str(tmp_path / "out.sas7bdat"))


def test_a_file_of_another_format_is_named(tmp_path):
    (tmp_path / "in.dta").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(DataError, match=r"in.dta: this is not a .dta file"):
        open_document(str(tmp_path / "in.dta"))


@pytest.mark.parametrize("suffix", [".sav", ".zsav"])
def test_a_file_that_says_it_has_very_many_rows_is_refused(tmp_path, suffix):
    path = tmp_path / f"survey{suffix}"
    pyreadstat.write_sav(SURVEY[["weight"]], str(path), compress=suffix == ".zsav")
    content = bytearray(path.read_bytes())
    content[80:84] = (2**29).to_bytes(4, "little")
    path.write_bytes(content)
    with pytest.raises(DataError, match=r"would need 4\.0 GiB.*allow_large"):
        open_document(str(path))
