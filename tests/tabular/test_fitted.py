"""A fitted table is a value: nothing that is asked of it changes it."""

import dataclasses

import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema
from miwae.errors import DataError
from miwae.frames import columns
from miwae.tabular import EncodedTable, FittedTable, TableSettings
from small_training import arrays_of
from tabular.small_tables import SMALL, mixed_frame

FRAME = mixed_frame()
LEVELS = (0.1, 0.9)
LINEAR = dataclasses.replace(SMALL, n_models=1)  # below 100 cells nothing is trained


def encoded(frame):
    table = columns(frame)
    return EncodedTable.of(infer_schema(table), table)


def contents(fitted, table):
    """Everything that a fitted table and an encoded one hold, as copies."""
    arrays = arrays_of(fitted.models) + [table.x, table.observed, table.log_slope]
    arrays += [gap.missing for gap in table.gaps]
    values = [fitted.schema, fitted.settings, fitted.training, fitted.incomplete, fitted.marks]
    histories = [(model.history, model.events) for model in fitted.models]
    return [a.copy() for a in arrays], [*values, fitted.events, table.events, histories]


def assert_same_cells(one, two):
    assert list(one) == list(two)
    for position in one:
        np.testing.assert_array_equal(one[position].rows, two[position].rows)
        np.testing.assert_array_equal(one[position].values, two[position].values)


QUESTIONS = {
    "means": lambda fitted, table: fitted.means(table),
    "draws": lambda fitted, table: fitted.draws(table, 3),
    "quantiles": lambda fitted, table: fitted.quantiles(table, LEVELS),
    "probabilities": lambda fitted, table: fitted.probabilities(table),
    "log_prob": lambda fitted, table: fitted.log_prob(table),
    "updated": lambda fitted, table: fitted.updated(table),
    "fit": lambda fitted, table: FittedTable.fit(table, SMALL),
}


@pytest.mark.parametrize("question", QUESTIONS)
def test_no_question_changes_the_fitted_or_the_encoded_table(fitted, table, question):
    arrays, values = contents(fitted, table)
    first = QUESTIONS[question](fitted, table)
    arrays_after, values_after = contents(fitted, table)
    assert values == values_after
    for before, after in zip(arrays, arrays_after, strict=True):
        np.testing.assert_array_equal(before, after)
    assert first is not fitted


@pytest.mark.parametrize("cls", [FittedTable, EncodedTable])
def test_fields_cannot_be_set(fitted, table, cls):
    value = fitted if cls is FittedTable else table
    with pytest.raises(dataclasses.FrozenInstanceError):
        value.schema = None


def test_the_same_question_has_the_same_answer(fitted, table):
    assert_same_cells(fitted.means(table).cells, fitted.means(table).cells)
    for one, two in zip(fitted.draws(table, 3)[0], fitted.draws(table, 3)[0], strict=True):
        assert_same_cells(one, two)


def test_the_same_table_is_fitted_to_the_same_bits(fitted, table):
    again = FittedTable.fit(table, SMALL)
    for one, two in zip(arrays_of(fitted.models), arrays_of(again.models), strict=True):
        np.testing.assert_array_equal(one, two)
    assert again.events == fitted.events


def test_every_missing_cell_is_imputed_but_those_of_names(fitted, table):
    cells = fitted.means(table).cells
    assert list(cells) == [0, 1, 2, 3, 4]
    for position, own in cells.items():
        missing = FRAME.iloc[:, position].isna().to_numpy()
        np.testing.assert_array_equal(own.rows, np.flatnonzero(missing))
    assert set(cells[4].values) == {7.0}
    assert set(cells[2].values) <= {"red", "blue", "green"}
    assert np.all(cells[1].values == np.rint(cells[1].values))
    assert np.all(cells[3].values % 86_400 == 0)


def test_the_report_has_a_line_for_each_row(fitted, table):
    report = fitted.means(table).report
    assert len(report.n_samples) == table.n_rows
    assert np.all((report.n_samples > 0) == table.needed)


def test_quantiles_are_in_order_and_categories_are_their_most_probable_level(fitted, table):
    lower, upper = fitted.quantiles(table, LEVELS)
    for position in (0, 1, 3):
        assert np.all(lower[position].values <= upper[position].values)
        assert np.any(lower[position].values < upper[position].values)
    assert lower[2].values.tolist() == upper[2].values.tolist()
    assert lower[2].values.tolist() == fitted.means(table).cells[2].values.tolist()


def test_quantiles_need_no_second_imputation(fitted, table, monkeypatch):
    imputed = fitted.means(table)
    expected = fitted.quantiles(table, LEVELS)
    monkeypatch.setattr(FittedTable, "means", None)
    for one, other in zip(fitted.quantiles(table, LEVELS, imputed=imputed), expected, strict=True):
        for position in one:
            np.testing.assert_array_equal(one[position].values, other[position].values)


def test_draws_differ_and_are_possible_values(fitted, table):
    copies, _ = fitted.draws(table, 3)
    assert len({tuple(copy[0].values) for copy in copies}) == 3
    assert all(np.all(copy[1].values >= 0) for copy in copies)


# Learning more.


def test_an_updated_table_is_another(fitted, table):
    more = fitted.updated(table)
    assert more.schema is fitted.schema
    for one, two in zip(fitted.models, more.models, strict=True):
        assert int(two.state.step) == int(one.state.step) + 1  # a batch of 64 for 60 rows
        before, after = arrays_of(one.autoencoder), arrays_of(two.autoencoder)
        assert any(not np.array_equal(a, b) for a, b in zip(before, after, strict=True))


def test_rows_without_an_observed_cell_teach_nothing(fitted):
    nothing = FRAME.iloc[:2].mask(np.ones((2, FRAME.shape[1]), bool))
    assert fitted.updated(fitted.encoded(columns(nothing))) is fitted


def test_what_is_known_before_training_can_be_updated():
    table = encoded(np.random.default_rng(0).normal(size=(30, 2)))
    start = FittedTable.start(table, LINEAR)
    assert (start.models, start.training, start.history) == ((), None, ())
    first = start.updated(table)
    assert start.models == ()
    assert len(first.models) == 1
    assert first.settings == start.settings  # not the single step of its first training


def test_rows_that_are_not_used_are_an_event():
    frame = pd.DataFrame({"a": [1.5, 2.5, None, 4.0], "b": [2.0, None, None, 5.5]})
    events = FittedTable.fit(encoded(frame), LINEAR).events
    (event,) = [event for event in events if event.about == "rows"]
    assert (event.column, event.count) == (None, 1)
    assert [event.about for event in events].count("kind") == 2
    assert "the model stays linear" in [e.text for e in events if e.about == "training"][0]


# Tables without a model, in other units, with other columns.


def test_where_nothing_is_modelled_constants_are_imputed():
    table = encoded(pd.DataFrame({"a": [1.0, np.nan], "b": [np.nan, np.nan]}))
    fitted = FittedTable.fit(table, SMALL)
    assert fitted.models == ()
    assert fitted.means(table).cells[0].values.tolist() == [1.0]
    assert list(fitted.means(table).cells) == [0]
    assert [copy[0].values.tolist() for copy in fitted.draws(table, 2)[0]] == [[1.0], [1.0]]
    assert fitted.quantiles(table, LEVELS)[1][0].values.tolist() == [1.0]
    assert fitted.log_prob(table).tolist() == [0.0, 0.0]
    assert fitted.updated(table) is fitted


def test_the_log_density_is_one_per_unit_of_the_table():
    """In units 1,024 times as small, densities are so many times as small for each cell."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(24, 3))
    x[rng.random(x.shape) < 0.2] = np.nan
    x[5] = np.nan
    log_prob = []
    for unit in (1.0, 1024.0):
        table = encoded(x * unit)
        log_prob.append(FittedTable.fit(table, LINEAR).log_prob(table))
    n_observed = (~np.isnan(x)).sum(axis=1)
    np.testing.assert_allclose(log_prob[0] - log_prob[1], n_observed * np.log(1024), rtol=1e-9)
    assert log_prob[0][5] == log_prob[1][5] == 0.0


@pytest.mark.parametrize(
    ("names", "message"),
    [
        (["a"], "the table lacks b; the model was fitted to a, b"),
        (["a", "b", "c"], "the table has the unknown c; the model was fitted to a, b"),
        (["a", "c"], "the table lacks b and has the unknown c; the model was fitted to a, b"),
        (["b", "a"], "the table has its columns in another order; the model was fitted to a, b"),
    ],
)
def test_other_columns_are_refused(names, message):
    table = encoded(pd.DataFrame({"a": [1.5, 2.5], "b": [1.0, 3.5]}))
    fitted = FittedTable.start(table, TableSettings())
    fitted.require_columns(["a", "b"])
    with pytest.raises(DataError) as raised:
        fitted.require_columns(names)
    assert str(raised.value) == message


def test_columns_without_names_are_counted():
    table = encoded(np.array([[1.5, 2.5], [2.0, 1.0]]))
    fitted = FittedTable.start(table, TableSettings())
    fitted.require_columns(["u", "v"], named=False)
    with pytest.raises(DataError, match="has 3 columns, but the model was fitted to 2"):
        fitted.require_columns(["u", "v", "w"], named=False)


def test_probabilities_sum_to_one_and_the_most_probable_level_is_imputed(fitted, table):
    cells, found = fitted.means(table).cells, fitted.probabilities(table)
    coded = {i for i in cells if fitted.schema.columns[i].kind.label in ("binary", "categorical")}
    assert coded
    assert coded <= set(found)
    for position in coded:
        rows, levels, values, _ = found[position]
        np.testing.assert_array_equal(rows, cells[position].rows)
        np.testing.assert_allclose(values.sum(axis=1), 1, rtol=1e-6)
        most = [levels[i] for i in values.argmax(axis=1)]
        assert most == cells[position].values.tolist()


def test_probabilities_are_the_frequencies_of_draws(fitted, table):
    n_imputations = 400
    copies, _ = fitted.draws(table, n_imputations)
    for position, (_, levels, values, _) in fitted.probabilities(table).items():
        drawn = np.stack([copy[position].values for copy in copies])
        for level, expected in zip(levels, values.T, strict=True):
            error = np.sqrt(expected * (1 - expected) / n_imputations) + 0.02
            assert np.all(np.abs((drawn == level).mean(axis=0) - expected) < 4 * error)
