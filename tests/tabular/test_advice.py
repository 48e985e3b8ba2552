"""Events about tables with little to learn from, and about new rows in another unit."""

import numpy as np
import pandas as pd

from miwae.columns import infer_schema
from miwae.frames import columns
from miwae.tabular import EncodedTable
from miwae.tabular._advice import advice
from miwae.tabular._drift import drift

N = 200
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.normal(size=(N, 4)), columns=list("abcd"))


def encoded(frame, schema=None, **asked):
    own = columns(frame)
    return EncodedTable.of(schema or infer_schema(own, **asked), own)


def told(frame, **asked):
    return [(event.about, event.column, event.count) for event in advice(encoded(frame, **asked))]


def with_holes(n_missing, column="a"):
    frame = FRAME.copy()
    frame.loc[: n_missing - 1, column] = np.nan
    return frame


def test_an_ordinary_table_needs_no_advice():
    assert told(with_holes(20)) == []


def test_columns_with_hardly_any_values_are_named():
    assert told(with_holes(190)) == [("few values", "a", 10)]
    assert told(with_holes(190), roles={"a": "predictor"}) == []


def test_few_rows_are_counted():
    assert told(FRAME[:30]) == [("few values", None, 30)]


def test_much_missing_is_counted():
    frame = FRAME.mask(RNG.random(FRAME.shape) < 0.6)
    assert told(frame) == [("few values", None, int(frame.isna().sum().sum()))]


def test_a_single_column_has_nothing_to_learn_from():
    assert told(with_holes(20)[["a"]]) == [("few values", "a", 20)]


def test_copies_of_rows_are_counted():
    assert told(pd.concat([FRAME[:100], FRAME[:100]])) == [("dependent rows", None, 100)]


def drifted(frame, schema):
    return drift(encoded(frame, schema), columns(frame))


def penguins(factor):
    """Masses in grams (or another unit), and a number of few values."""
    rng = np.random.default_rng(1)
    mass = rng.normal(4_200, 800, size=N) * factor
    return pd.DataFrame({"mass": mass, "stars": np.resize([1, 2, 3], N)})


def test_another_unit_is_noticed_with_the_factor():
    known = encoded(penguins(1)).schema
    (event,) = drifted(penguins(10)[:20], known)
    assert (event.about, event.column, event.count) == ("drift", "mass", 20)
    assert "10.5 times as much" in event.text
    (event,) = drifted(penguins(1e-3)[:1], known)
    assert "times less" in event.text


def test_rows_like_the_learned_ones_do_not_drift():
    known = encoded(penguins(1)).schema
    assert drifted(penguins(1), known) == ()
    assert drifted(penguins(1.2), known) == ()
