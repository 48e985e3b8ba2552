"""Overviews: the same summaries and the same sample, however the rows are cut into parts."""

from functools import reduce

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from columns.cases import column_of, columns_of, words
from columns.test_summary import SERIES
from miwae.columns import Overview, infer_schema
from miwae.columns._order import RowOrder
from miwae.columns._parts import joined, taken
from miwae.columns._summary import summarise
from miwae.errors import DataError
from miwae.frames import columns

N, MOST = 60, 25
FRAME = pd.DataFrame({name: SERIES[name] for name in SERIES if name != "lists"}).assign(
    row=np.arange(N), names=[*words(N, N)]
)
CUTS = {
    "whole": [N],
    "halves": [30, 30],
    "single rows": [40, *[1] * 12, 8],
    "with empty parts": [0, 7, 0, 0, 50, 3, 0],
    "uneven": [1, 41, 2, 16],
}


def cut(frame, lengths):
    ends = np.cumsum(lengths)
    return [frame.iloc[end - n : end] for end, n in zip(ends, lengths, strict=True)]


def overview(frame, lengths, *, most=MOST, seed=0):
    parts = cut(frame, lengths)
    firsts = np.cumsum([0, *lengths])[:-1].tolist()
    own = [
        Overview.of(columns(part), first, seed=seed, most=most)
        for part, first in zip(parts, firsts, strict=True)
    ]
    return reduce(Overview.followed_by, own)


def as_frame(sample):
    return pd.DataFrame({c.name: [c.text(i) if not c.missing[i] else None
                                  for i in range(len(c.missing))] for c in sample})  # fmt: skip


@pytest.mark.parametrize("lengths", CUTS.values(), ids=CUTS)
def test_an_overview_does_not_depend_on_the_cut(lengths):
    whole, parts = overview(FRAME, [N]), overview(FRAME, lengths)
    assert parts.summaries == whole.summaries
    assert parts.orders[-1] == whole.orders[-1] == RowOrder(N, 0, 0.0, N - 1.0, 1.0, 1.0)
    pd.testing.assert_frame_equal(as_frame(parts.sample()), as_frame(whole.sample()))
    known = {"summaries": parts.summaries, "orders": parts.orders}
    assert infer_schema(parts.sample(), **known) == infer_schema(
        whole.sample(), summaries=whole.summaries, orders=whole.orders
    )


@pytest.mark.parametrize("lengths", CUTS.values(), ids=CUTS)
def test_a_small_table_is_its_own_sample(lengths):
    parts = overview(FRAME, lengths, most=N)
    for own, whole in zip(parts.sample(), columns(FRAME), strict=True):
        np.testing.assert_array_equal(own.values, whole.values)
        assert own.levels == whole.levels
    assert infer_schema(parts.sample(), summaries=parts.summaries) == infer_schema(columns(FRAME))


def test_parts_can_be_merged_in_any_grouping():
    cuts = zip(cut(FRAME, [20, 20, 20]), [0, 20, 40], strict=True)
    parts = [Overview.of(columns(part), first, seed=0, most=9) for part, first in cuts]
    left = parts[0].followed_by(parts[1]).followed_by(parts[2])
    right = parts[0].followed_by(parts[1].followed_by(parts[2]))
    pd.testing.assert_frame_equal(as_frame(left.sample()), as_frame(right.sample()))


def test_every_row_is_sampled_with_the_same_probability():
    frame = pd.DataFrame({"a": np.arange(8.0)})
    counts = np.zeros(8)
    for seed in range(300):
        halves = [columns(part) for part in (frame[:3], frame[3:])]
        own = [Overview.of(h, 3 * i, seed=seed, most=4) for i, h in enumerate(halves)]
        sample = own[0].followed_by(own[1]).sample()[0].values.astype(int)
        assert len(sample) == 4
        assert np.all(np.diff(sample) > 0)
        counts[sample] += 1
    # Counts of draws without replacement: of 300 N n / N (N - n) / N, about.
    assert stats.chi2.sf(np.sum((counts - 150) ** 2) / (300 / 4) * 7 / 8, 7) > 1e-3


def test_a_sampled_row_is_called_as_in_the_table():
    sample = overview(FRAME, [30, 30], most=5).sample()
    row = int(sample[-1].values[4])
    assert sample[0].place(4) == f"row {row}"


@pytest.mark.parametrize("sampled", [True, False])
def test_an_impossible_cell_decides_nothing_whether_it_is_sampled_or_not(sampled):
    frame = pd.DataFrame({"a": np.random.default_rng(0).integers(20, 60, 200).astype(float)})
    inside = overview(frame, [200], most=50).pieces[0].priorities.argsort()
    row = int(inside[0 if sampled else -1])
    frame.loc[row, "a"] = 1e300
    parts = overview(frame, [90, 110], most=50)
    (column,) = parts.sample()
    assert (1e300 in column.values) == sampled
    (known,) = infer_schema([column], summaries=parts.summaries, orders=parts.orders).columns
    assert known.kind.label == "integer"
    assert known.reason == "whole numbers from 20 to 58"
    events = known.encoded(column).events
    assert [f"1e+300 in row {row} is" in event.text for event in events] == [True] * sampled


def test_parts_stored_in_two_ways_are_refused_by_name():
    parts = [columns(pd.DataFrame({"size": own})) for own in ([1.5, 2.5], ["a", "b"])]
    one, two = (Overview.of(part, 2 * i, seed=0, most=9) for i, part in enumerate(parts))
    with pytest.raises(DataError, match="column 'size' is stored as number, another as text"):
        one.followed_by(two)


def test_a_part_without_values_has_the_type_of_the_others():
    parts = [column_of([None, None], object), column_of(["b", "a"])]
    whole = joined(parts)
    assert (whole.storage, whole.levels) == ("text", ("a", "b"))
    np.testing.assert_array_equal(whole.values, [np.nan, np.nan, 1, 0])


def test_rows_of_text_keep_only_the_texts_they_hold():
    own = taken(column_of(["c", None, "a", "b"]), np.array([1, 3, 0]))
    assert own.levels == ("b", "c")
    assert summarise(own).values == ("b", "c")
    np.testing.assert_array_equal(own.values, [np.nan, 0, 1])


def test_row_numbers_of_parts_are_row_numbers_of_the_whole():
    numbers = columns_of(row=np.arange(1, 41), year=np.arange(1, 41) * 2)
    parts = [[taken(c, rows) for c in numbers] for rows in np.array_split(np.arange(40), 3)]
    orders = [reduce(RowOrder.followed_by, map(RowOrder.of, own)) for own in zip(*parts)]  # noqa: B905
    known = {"summaries": [summarise(c) for c in numbers], "orders": orders}
    few = [taken(c, np.arange(0, 40, 3)) for c in numbers]
    labels = [c.kind.label for c in infer_schema(few, **known).columns]
    assert labels == ["identifier", "integer"]
