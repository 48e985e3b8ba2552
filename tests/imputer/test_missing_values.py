"""Few cells, no cells, all cells: what is imputed from what is left."""

import numpy as np
import pandas as pd
import pytest

from imputer.tables import factor_rows, make, same_bits, with_holes
from miwae.errors import DataWarning
from miwae.events import Event


def test_imputations_beat_the_column_mean(linear):
    frame, imputer = linear
    truth = factor_rows(33, 1)
    holes = frame.isna().to_numpy()
    error = np.mean((imputer.transform(frame).to_numpy() - truth)[holes] ** 2)
    crude = np.mean((frame.mean().to_numpy() - truth)[holes] ** 2)
    assert error < 0.5 * crude


def test_an_empty_column_is_dropped_or_kept(linear):
    frame = linear[0].assign(nothing=np.nan)
    with pytest.warns(DataWarning, match="dropped: 'nothing'"):
        dropping = make().fit(frame)
    dropped = dropping.transform(frame)
    assert list(dropped.columns) == list("abc")
    assert list(dropping.get_feature_names_out()) == list("abc")
    text = "column 'nothing' has no observed cell: nothing is imputed"
    assert Event("empty", "nothing", len(frame), text) in dropping.events_
    keeping = make(keep_empty_features=True).fit(frame)
    kept = keeping.transform(frame)
    assert list(kept.columns) == ["a", "b", "c", "nothing"]
    assert (kept["nothing"] == 0).all()
    assert not [event for event in keeping.events_ if event.about == "empty"]
    assert same_bits(kept[list("abc")], dropped)
    draws = dropping.sample(frame, 2)
    assert list(draws.complete(1).columns) == list("abc")
    assert (keeping.sample(frame, 2).complete(1)["nothing"] == 0).all()


def test_a_table_of_nothing_is_dropped_or_zero():
    x = np.full((4, 2), np.nan)
    assert make().fit_transform(x).shape == (4, 0)
    assert same_bits(make(keep_empty_features=True).fit_transform(x), np.zeros((4, 2)))
    assert same_bits(make().fit(x).score_samples(x), np.zeros(4))


def test_a_single_row():
    row = pd.DataFrame({"a": [1.5], "b": [np.nan], "c": ["x"]})
    imputer = make(keep_empty_features=True).fit(row)
    completed = imputer.transform(row)
    assert completed.to_numpy().tolist() == [[1.5, 0.0, "x"]]
    later = imputer.transform(pd.DataFrame({"a": [np.nan], "b": [2.0], "c": ["y"]}))
    assert later.to_numpy().tolist() == [[1.5, 2.0, "y"]]


def test_a_single_column_gets_its_centre():
    x = np.array([[-2.5], [-1.0], [0.25], [1.0], [2.25], [np.nan]])
    completed = make().fit_transform(x)
    assert completed[5, 0] == pytest.approx(0.0, abs=0.5)


def test_rows_with_nothing_observed_get_the_centre_of_the_table(linear):
    frame = linear[0].copy()
    frame.loc[[3, 7]] = np.nan
    imputer = make().fit(frame)
    completed = imputer.transform(frame)
    assert same_bits(completed.loc[[3]], completed.loc[[7]])
    centre = frame.mean()
    assert (abs(completed.loc[3] - centre) < 3 * frame.sem()).all()
    assert [event.count for event in imputer.events_ if event.about == "rows"] == [2]
    assert imputer.score_samples(frame)[[3, 7]].tolist() == [0.0, 0.0]


def test_a_table_without_holes_stays_as_it_is(linear):
    complete = pd.DataFrame(factor_rows(20, 5), columns=list("abc"))
    imputer = linear[1]
    pd.testing.assert_frame_equal(imputer.transform(complete), complete, check_exact=True)
    assert (imputer.diagnostics(complete).n_samples == 0).all()
    lower, upper = imputer.interval(complete)
    assert same_bits(lower, complete)
    assert same_bits(upper, complete)


def test_a_column_that_was_complete_in_fitting_may_be_missing_later():
    x = factor_rows(30, 6)
    imputer = make().fit(x)
    holes = with_holes(factor_rows(200, 7), 0.3, 7)
    completed = imputer.transform(holes)
    gone = np.isnan(holes)
    error = np.mean((completed - factor_rows(200, 7))[gone] ** 2)
    assert error < 0.5 * np.mean((x.mean(axis=0) - factor_rows(200, 7))[gone] ** 2)


def test_most_cells_missing():
    x = factor_rows(400, 8)
    rng = np.random.default_rng(8)
    holes = np.where(rng.random(x.shape) < 0.95, np.nan, x)
    assert np.isfinite(holes).sum() < 100
    completed = make().fit_transform(holes)
    assert np.isfinite(completed).all()
    # What is imputed scatters no more than what is observed.
    spread = np.nanmax(holes, axis=0) - np.nanmin(holes, axis=0)
    assert (completed.max(axis=0) - completed.min(axis=0) <= spread).all()
