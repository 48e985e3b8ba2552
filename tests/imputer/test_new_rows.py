"""Rows that were not fitted: unseen values, other types, other bounds."""

import copy

import numpy as np
import pandas as pd
import pytest

from imputer.tables import make, same_bits, texts
from miwae import MIWAEImputer
from miwae.errors import DataError, DataWarning


def test_categories_follow_the_numbers(words):
    _, imputer = words
    new = pd.DataFrame({"word": pd.Series([None] * 3, dtype="str"), "x": [0.0, 4.0, 8.0]})
    assert imputer.transform(new)["word"].tolist() == ["a", "b", "c"]
    back = imputer.transform(pd.DataFrame({"word": ["a", "b", "c"], "x": [np.nan] * 3}))
    assert back["x"].to_numpy() == pytest.approx([0.0, 4.0, 8.0], abs=1.5)


def test_unseen_categories_are_kept_and_reported(words):
    _, imputer = words
    imputer = copy.deepcopy(imputer)
    new = pd.DataFrame({"word": ["zebra", "a", "zebra"], "x": [np.nan, np.nan, 1.0]})
    message = r"column 'word': the value zebra was not seen in fitting \(2 such cells\)"
    with pytest.warns(DataWarning, match=message):
        completed = imputer.transform(new)
    assert completed["word"].tolist() == ["zebra", "a", "zebra"]
    assert any("zebra" in text for text in texts(imputer))
    # To the model the unseen one is missing.
    missing = new.assign(word=pd.Series([None, "a", None], dtype="str"))
    assert completed.loc[0, "x"] == imputer.transform(missing).loc[0, "x"]
    with pytest.warns(DataWarning):
        imputer.transform(new)
    assert sum("zebra" in text for text in texts(imputer)) == 1


def test_numbers_outside_the_given_bounds_are_kept_and_reported(linear, tmp_path):
    frame = linear[0]
    make(bounds={"a": (-99.0, 99.0)}).fit(frame).save(tmp_path / "model")
    imputer = MIWAEImputer.load(tmp_path / "model")
    new = frame.head(2).assign(a=[100.0, 99.0], b=np.nan)
    message = r"column 'a': the value 100 is outside its bounds \(-99.0, 99.0\) \(1 such cell\)"
    with pytest.warns(DataWarning, match=message):
        completed = imputer.transform(new)
    assert completed["a"].tolist() == [100.0, 99.0]
    assert any("outside its bounds" in text for text in texts(imputer))
    # To the model it is missing.
    missing = new.assign(a=[np.nan, 99.0])
    assert completed["b"].tolist() == imputer.transform(missing)["b"].tolist()


def test_absent_categories_are_no_problem(words):
    frame, imputer = words
    only = frame[frame["word"] == "b"].assign(x=np.nan)
    assert imputer.transform(only)["x"].notna().all()
    as_category = only.assign(word=only["word"].astype("category"))
    assert same_bits(imputer.transform(as_category)["x"], imputer.transform(only)["x"])


@pytest.mark.parametrize(
    ("word", "x", "message"),
    [
        ([1.0, 2.0], [0.5, 0.5], "'word' was learned as categorical from text, but now holds num"),
        (
            ["a", "b"],
            ["p", "q"],
            r"'x' was learned as \w+ from number, but now holds text .*such as '?p",
        ),
    ],
)
def test_another_type_than_learned_is_refused(words, word, x, message):
    with pytest.raises(DataError, match=message):
        words[1].transform(pd.DataFrame({"word": word, "x": x}))


def test_an_empty_column_of_another_type_is_named(words):
    with pytest.raises(DataError, match="'word' was learned as categorical from text"):
        words[1].transform(pd.DataFrame({"word": pd.array([None], "Float64"), "x": [8.0]}))


def test_values_that_are_not_finite_are_refused(linear):
    frame, imputer = linear
    row = int(np.flatnonzero(frame["b"].notna())[2])
    wild = frame.copy()
    wild.loc[row, "b"] = -np.inf
    for method in (make().fit, imputer.transform, imputer.sample, imputer.score_samples):
        with pytest.raises(DataError, match=f"'b' has the value -inf in row {row}: only finite"):
            method(wild)
    declared = make(missing_values=[-np.inf]).fit_transform(wild)
    assert np.isfinite(declared.to_numpy()).all()
