"""Learning in batches."""

import copy

import numpy as np
import pandas as pd
import pytest

from imputer.tables import batch, make, same_bits
from miwae import MIWAEImputer
from miwae.errors import DataError, DataWarning


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """An imputer that has seen one batch, and the same from a file."""
    path = tmp_path_factory.mktemp("stream") / "model"
    imputer = make().partial_fit(batch(30, 20))
    imputer.save(path)
    return imputer, path


def test_batches_are_learned_from(stream):
    """The first batch decides on the scale; the distribution of later ones is learned."""
    imputer = copy.deepcopy(stream[0])
    held_out = batch(200, 99, shift=2.0)
    scores = [imputer.score(held_out)]
    first_schema = imputer.schema_
    for seed in range(6):
        imputer.partial_fit(batch(1280, 100 + seed, shift=2.0))
        scores.append(imputer.score(held_out))
    assert imputer.schema_ == first_schema
    assert scores[-1] > scores[0] + 0.5
    assert scores[-1] > scores[3] > scores[0]


def test_going_on_after_loading_is_going_on(stream):
    imputer, path = copy.deepcopy(stream[0]), stream[1]
    loaded = MIWAEImputer.load(path)
    later, rows = batch(64, 21), batch(40, 22)
    assert same_bits(loaded.transform(rows), imputer.transform(rows))
    before = imputer.transform(rows)
    imputer.partial_fit(later)
    loaded.partial_fit(later)
    assert not same_bits(imputer.transform(rows), before)
    assert same_bits(loaded.transform(rows), imputer.transform(rows))
    assert same_bits(loaded.score_samples(rows), imputer.score_samples(rows))


def test_batches_with_nothing_new(stream):
    imputer = copy.deepcopy(stream[0])
    rows = batch(10, 23)
    before = imputer.transform(rows)
    imputer.partial_fit(rows * np.nan)
    assert same_bits(imputer.transform(rows), before)
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.partial_fit(rows[["a", "b"]])
    with pytest.raises(DataError, match="was learned as continuous"):
        imputer.partial_fit(rows.assign(a="text"))


def test_batches_with_unseen_categories(words):
    imputer = copy.deepcopy(words[1])
    levels = imputer.schema_.columns[0].kind.levels
    new = pd.DataFrame({"word": ["new", "a", "b", "c"], "x": [1.0, 0.1, 4.1, 8.1]})
    with pytest.warns(DataWarning, match="the value new was not seen"):
        imputer.partial_fit(new)
    assert imputer.schema_.columns[0].kind.levels == levels
    rows = pd.DataFrame({"word": pd.Series([None], dtype="str"), "x": [8.0]})
    assert imputer.transform(rows).loc[0, "word"] == "c"
