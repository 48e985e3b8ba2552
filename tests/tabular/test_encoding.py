"""Tables on the scale of the model, and cells back from it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from columns.cases import KINDS, NAN, column_of, words
from miwae.columns import Schema, infer_schema
from miwae.errors import DataError
from miwae.frames import columns
from miwae.tabular import EncodedTable, ImputedCells

FRAME = pd.DataFrame(
    {
        "k": [1.0, 1.0, NAN, 1.0],
        "s": ["x", "y", "x", None],
        "e": [NAN] * 4,
        "n": [1.5, NAN, 2.5, NAN],
    }
)


def encoded(frame, **options):
    table = columns(frame)
    return EncodedTable.of(infer_schema(table), table, **options)


def test_only_modelled_columns_are_encoded_in_their_order():
    table = encoded(FRAME)
    assert table.schema.modelled == (1, 3)
    np.testing.assert_array_equal(table.x[:, 0], [0, 1, 0, 0])
    np.testing.assert_array_equal(
        table.observed, [[True, True], [True, False], [True, True], [False, False]]
    )
    assert table.x.dtype == np.float32
    assert np.all(table.x[~table.observed] == 0)
    assert table.needed.tolist() == [False, True, False, True]
    assert table.trainable.tolist() == [True, True, True, False]


def test_a_table_without_columns():
    empty = EncodedTable.of(Schema(()), [])
    assert (empty.x.shape, empty.events, empty.n_rows) == ((0, 0), (), 0)


def test_a_row_collects_the_change_of_scale_of_its_observed_cells():
    table = columns(
        pd.DataFrame(
            {
                "a": np.append(np.exp(np.random.default_rng(0).normal(size=99)), NAN),
                "b": np.append(NAN, np.arange(99) + 0.5),
                "c": ["x", "y"] * 50,
                "d": [0, 0, 1, 9] * 25,
            }
        )
    )
    schema = infer_schema(table)
    kinds = [known.kind for known in schema.columns]
    assert [kind.label for kind in kinds] == ["positive", "positive", "binary", "count"]
    expected = np.zeros(100)
    expected[:-1] += kinds[0].scale.log_slope(table[0].values[:-1])
    expected[1:] += kinds[1].scale.log_slope(table[1].values[1:])
    np.testing.assert_allclose(EncodedTable.of(schema, table).log_slope, expected, rtol=1e-12)


@pytest.mark.parametrize("rest", [np.inf, -5.0, 0.0, 1e300])
def test_missing_cells_are_not_read(rest):
    table = columns(FRAME)
    others = [
        dataclasses.replace(column, values=np.where(column.missing, rest, column.values))
        for column in table
    ]
    schema = infer_schema(table)
    one, two = EncodedTable.of(schema, table), EncodedTable.of(schema, others)
    np.testing.assert_array_equal(one.x, two.x)
    np.testing.assert_array_equal(one.observed, two.observed)
    np.testing.assert_array_equal(one.log_slope, two.log_slope)
    assert one.events == two.events


def test_events_are_about_values_and_cells_that_stay_missing():
    learned = columns(FRAME)
    new = columns(FRAME.assign(s=["x", "z", "z", None]))
    events = EncodedTable.of(infer_schema(learned), new).events
    assert [(event.about, event.column, event.count) for event in events] == [
        ("value", "s", 2),
        ("empty", "e", 4),
    ]


def test_a_column_without_values_is_completed_in_the_type_that_was_learned():
    names = FRAME[["s"]]
    table = EncodedTable.of(
        infer_schema(columns(names)), columns(pd.DataFrame({"s": [None, None]}))
    )
    (event,) = table.events
    assert (event.about, event.count) == ("type", 2)
    assert event.text.endswith("completed as text")


def test_a_column_of_a_type_that_cannot_hold_what_is_imputed_is_refused_at_once():
    schema = infer_schema([column_of(["x", "y", "x"])])
    with pytest.raises(DataError, match="was learned as binary from text"):
        EncodedTable.of(schema, [column_of([None, None], "Int64")])


# Cells.


def imputed(table):
    """As if the model had put out a large number everywhere."""
    rows = np.flatnonzero(table.needed)
    values = np.full((len(rows), table.x.shape[1]), 0.9, dtype=np.float32)
    return ImputedCells(table, rows, values)


def test_cells_are_those_that_are_missing_in_columns_that_are_imputed():
    cells = imputed(encoded(FRAME))
    assert list(cells) == [0, 1, 3]
    assert (len(cells), 2 in cells) == (3, False)
    assert cells[0].rows.tolist() == [2]  # a constant needs no model
    assert cells[0].values.tolist() == [1.0]
    assert (cells[1].rows.tolist(), cells[1].values.tolist()) == ([3], ["y"])
    assert cells[3].rows.tolist() == [1, 3]
    with pytest.raises(KeyError):
        cells[2]


def test_columns_without_any_value_are_zeros_by_request():
    table = encoded(FRAME, zeros_if_empty=True)
    assert table.events == ()
    assert imputed(table)[2].values.tolist() == [0.0] * 4


def test_skipped_columns_have_no_cells():
    table = encoded(pd.DataFrame({"a": [*words(9, 9), None], "b": [*range(9), NAN]}))
    assert list(imputed(table)) == [1]


@pytest.mark.parametrize("name", [name for name, case in KINDS.items() if case.cls.modelled])
def test_observed_cells_would_come_back(name):
    """The contract of kinds holds for whole tables, in single precision."""
    column = KINDS[name].column()
    schema = Schema((KINDS[name].schema(column),))
    x = EncodedTable.of(schema, [column]).x
    hidden = dataclasses.replace(column, missing=np.ones(len(column.missing), bool))
    table = EncodedTable.of(schema, [hidden])
    cells = ImputedCells(table, np.arange(len(x)), x)[0].values[~column.missing]
    observed = column.observed_values
    if column.levels:
        assert cells.tolist() == [column.levels[int(code)] for code in observed]
    else:
        np.testing.assert_allclose(cells, observed, rtol=1e-5, atol=1e-6)
