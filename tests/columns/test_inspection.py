"""A table at a glance: what is missing, together with what, and what looks like a mark for it."""

import json
from collections import Counter

import numpy as np
import pandas as pd
import pytest

from columns.cases import column_of
from miwae.columns import infer_schema, inspect_columns
from miwae.columns._inspection import MOST_PATTERNS, Pattern
from miwae.frames import columns

NAN = float("nan")


def inspection_of(frame):
    table = columns(frame)
    return inspect_columns(table, infer_schema(table))


def hints(values):
    """The texts of all hints about a column."""
    return tuple(hint.text for hint in inspection_of(pd.DataFrame({"a": values})).hints)


def test_counts_kinds_and_patterns():
    frame = pd.DataFrame(
        {"x": [1.5, NAN, NAN, 2.5, NAN], "word": ["u", None, None, "v", "u"], "k": [7, 7, 7, 7, 7]}
    )
    found = inspection_of(frame)
    assert (found.n_rows, found.n_cells, found.n_missing, found.n_patterns) == (5, 15, 5, 3)
    assert [(c.name, c.kind, c.n_missing, c.n_distinct) for c in found.columns] == [
        ("x", "positive", 3, 2),
        ("word", "binary", 2, 2),
        ("k", "constant", 0, 1),
    ]
    assert found.columns[1].reason == "text with two values"
    assert found.patterns[:2] == (Pattern((), 2), Pattern(("x", "word"), 2))
    assert found.patterns[2:] == (Pattern(("x",), 1),)


@pytest.mark.parametrize("n_columns", [1, 7, 8, 9, 15, 16, 17, 64, 65, 101, 300])
def test_patterns_are_those_of_a_dictionary(n_columns):
    rng = np.random.default_rng(n_columns)
    distinct = rng.random((6, n_columns)) < 0.4
    missing = distinct[rng.integers(0, 6, size=400)]
    missing[:, -1] |= rng.random(400) < 0.5
    found = inspection_of(np.where(missing, NAN, 1.5))
    names = np.array([f"x{i}" for i in range(n_columns)])
    counted = Counter(tuple(names[row].tolist()) for row in missing)
    assert found.n_patterns == len(counted)
    assert len(found.patterns) == min(len(counted), MOST_PATTERNS)
    assert [p.n_rows for p in found.patterns] == [n for _, n in counted.most_common(MOST_PATTERNS)]
    for pattern in found.patterns:
        assert counted[pattern.missing] == pattern.n_rows
    np.testing.assert_array_equal([c.n_missing for c in found.columns], missing.sum(axis=0))


def test_the_most_frequent_patterns_are_listed():
    sizes = np.arange(1, 16)
    rows = [np.arange(15) == i for i in range(15) for _ in range(sizes[i])]
    found = inspection_of(np.where(rows, NAN, 2.5))
    assert found.n_patterns == 15
    assert found.patterns == tuple(
        Pattern((f"x{i}",), int(sizes[i])) for i in range(14, 14 - MOST_PATTERNS, -1)
    )


def test_patterns_do_not_depend_on_the_order_of_rows():
    rng = np.random.default_rng(0)
    values = np.where(rng.random((60, 12)) < 0.3, NAN, 1.5)
    found = inspection_of(values)
    for seed in range(3):
        shuffled = np.random.default_rng(seed).permutation(values)
        assert inspection_of(shuffled) == found


def test_nothing_missing_and_everything_missing():
    whole = inspection_of(np.ones((3, 9)))
    assert (whole.n_missing, whole.patterns) == (0, (Pattern((), 3),))
    none = inspection_of(np.full((3, 9), NAN))
    assert none.n_missing == none.n_cells == 27
    assert none.patterns == (Pattern(tuple(f"x{i}" for i in range(9)), 3),)


@pytest.mark.parametrize(("rows", "columns"), [(0, 3), (0, 0)])
def test_tables_without_cells(rows, columns):
    found = inspection_of(np.ones((rows, columns)))
    assert (found.n_rows, found.n_cells, found.n_patterns, found.patterns) == (0, 0, 0, ())
    assert len(found.columns) == columns


# Marks for missing cells.

AGES = [18, 25, 33, 47, 52, 61, 70, 80]


@pytest.mark.parametrize(
    ("values", "mark", "count", "low", "high"),
    [
        ([*AGES, -999, -999], "-999", 2, "18", "80"),
        ([*AGES, -99, -99, -99], "-99", 3, "18", "80"),
        ([*AGES, 999, 999, NAN], "999", 2, "18", "80"),
        ([*AGES, -9999.0, -9999.0], "-9999", 2, "18", "80"),
        ([0.5, 0.25, 0.75, 0.5, 0.125, -9, -9, -9, -9, -9], "-9", 5, "0.125", "0.75"),
        ([0.5, 0.25, 0.75, 0.5, 0.125, -1, -1, -1, -1, -1], "-1", 5, "0.125", "0.75"),
        ([1] * 8 + [-999] * 2, "-999", 2, "1", "1"),
    ],
)
def test_numbers_that_stand_for_nothing_are_asked_about(values, mark, count, low, high):
    assert hints(values) == (
        f"column 'a' has the value {mark} in {count} cells, far from all others ({low} to {high})"
        ": does it mean that the value is missing?",
    )


def test_several_marks_are_all_asked_about():
    found = hints([*AGES, -99, -99, -999, -999, 9999, 9999])
    assert [hint.split()[5] for hint in found] == ["-99", "-999", "9999"]
    assert all("(18 to 80)" in hint for hint in found)


@pytest.mark.parametrize(
    "values",
    [
        AGES * 2,
        [*AGES, 99, 99],  # old people
        [*AGES, -999],  # once is no habit
        [1, -1] * 10,
        [1, 0, -1] * 10,
        [-2, -1, 0, 1, 2] * 4,
        list(range(90, 110)) * 2,
        list(range(-20, 20)) * 2,
        list(np.linspace(-3000, 3000, 50)) + [-999, -999],
        [1, -999] * 4,  # too few
        [-999] * 20,
        [2019, 2020, 2021, 1999] * 5,
        ["-999"] * 5 + ["x"] * 10,
        [True, False] * 10,
        list(pd.to_datetime(["2020-01-01", "2021-01-01"])) * 10,
        [NAN] * 20,
    ],
)
def test_ordinary_columns_raise_no_question(values):
    assert hints(values) == ()


@pytest.mark.parametrize(
    ("cells", "what"),
    [
        (["10%", "7.5 %"], "number"),
        (["$5", "-$6.50"], "number"),
        (["1,234.50", "12"], "number"),
        (["1'234", "1'234'567"], "number"),
        (["1\u00a0234,5", "\u22123"], "number"),
        (["2024-01-31", "1.2.2024"], "date"),
        (["01/02/2024", "03/04/2024"], "date"),
    ],
)
def test_text_that_people_take_for_something_else_is_pointed_at(cells, what):
    (hint,) = hints(cells)
    assert hint.startswith(f"column 'a' is read as text, but {min(cells)!r} looks like a {what}")


def test_a_stray_word_among_numbers_is_pointed_at():
    numbers = [f"{i}.5" for i in range(30)]
    (hint,) = hints([*numbers, "not known", "not known"])
    assert hint.startswith("column 'a' is read as text because of 'not known' (2 cells); all oth")
    assert "--na 'not known'" in hint
    assert hints([*numbers[:5], "not known"]) == ()  # too few to tell
    assert hints([*numbers, "a", "b", "c", "d"]) == ()  # no strays any more


@pytest.mark.parametrize(
    "cells",
    [["20095", "10115"], ["01234", "20095"], ["10%", "low"], ["1.2.3", "1.2.4"], ["A1", "B2"]],
)
def test_codes_and_words_are_text(cells):
    assert hints(cells) == ()


def test_numbers_that_are_all_days_are_pointed_at():
    (hint,) = hints([20240229, NAN, 20231231, 20240101])
    assert hint.startswith("column 'a' is read as numbers, but 20231231 looks like a date: ")


@pytest.mark.parametrize(
    "values",
    [
        [20230229, 20231231, 20240101],  # no leap year
        [20241301, 20231231, 20240101],
        [20240101.5, 20231231, 20240102],
        [20240101, 20231231] * 5,
        [1.0, 20231231, 20240101, 20240102],
    ],
)
def test_numbers_that_are_not_all_days_are_numbers(values):
    assert hints(values) == ()


def test_there_is_no_hint_about_text_that_the_user_specified():
    table = [column_of(["10%", "7.5 %"])]
    schema = infer_schema(table, column_kinds={"a": "categorical"})
    assert inspect_columns(table, schema).hints == ()


def test_marks_that_are_known_are_not_asked_about():
    table = columns(pd.DataFrame({"a": [*AGES, -999, -999]}), (-999,))
    assert inspect_columns(table, infer_schema(table)).hints == ()


def test_as_data_is_json_and_says_the_same():
    frame = pd.DataFrame({"a": [*AGES, -999, -999], "b": ["u", None] * 5})
    found = inspection_of(frame)
    data = json.loads(json.dumps(found.as_data()))
    assert data == {
        "rows": 10,
        "columns": [
            {
                "name": "a",
                "kind": "integer",
                "reason": found.columns[0].reason,
                "missing": 0,
                "distinct": 9,
            },
            {
                "name": "b",
                "kind": "constant",
                "reason": "all 5 observed cells are equal",
                "missing": 5,
                "distinct": 1,
            },
        ],
        "missing_cells": 5,
        "patterns": [{"missing": [], "rows": 5}, {"missing": ["b"], "rows": 5}],
        "n_patterns": 2,
        "hints": [hint.text for hint in found.hints],
    }


def test_ambiguous_dates_are_pointed_at_with_and_without_a_clock():
    for clock in ("", " 10:15", "T08:00:30"):
        (hint,) = hints([f"0{i}/0{9 - i}/2024{clock}" for i in range(1, 9)] * 2)
        assert "--kind a=datetime:day-first" in hint


def test_a_hint_names_its_column_and_the_option_that_mends_it():
    (hint,) = inspection_of(pd.DataFrame({"a": [*AGES, -999, -999]})).hints
    assert (hint.column, hint.option) == ("a", "--na -999")


def test_dates_in_a_frame_are_to_be_stored_as_dates():
    table = [column_of(["01/02/2024", "03/04/2024"])]
    (hint,) = inspect_columns(table, infer_schema(table), of_text=False).hints
    assert hint.text.endswith("looks like a date: store it as dates to have it modelled so.")


def test_spellings_that_may_mean_the_same_are_pointed_at():
    (text,) = hints(["Female", "female ", "Male", "male", "other"] * 8)
    assert "'Female' and 'female '; 'Male' and 'male'" in text
    assert hints(["Female", "Male", "other"] * 8) == ()


def survey(n=60):
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"age": rng.integers(18, 80, n), "income": rng.normal(size=n)})
    return frame.assign(answer=rng.choice(["yes", "no", None], size=n))


def test_a_few_copies_of_rows_are_counted():
    frame = survey()
    assert inspection_of(frame).hints == ()
    (hint,) = inspection_of(pd.concat([frame, frame[:4]])).hints
    assert hint.text.startswith("4 rows are equal to an earlier row in all columns")
    (hint,) = inspection_of(pd.concat([frame, frame[:1]])).hints
    assert hint.text.startswith("1 row is equal")
    # Answers without anything that tells people apart are equal all the time.
    assert inspection_of(frame.assign(age=1, income=2.0)).hints == ()


def test_a_mark_for_missing_that_another_column_has_as_a_number_is_said_so():
    frame = survey().assign(stars=[99] * 3 + [1, 2, 3] * 19, share=[*range(59), 99])
    (hint,) = inspection_of(frame).hints
    assert hint.option == "--na 99"
    assert "may be a number" not in hint.text
    (hint,) = inspection_of(frame.assign(share=[*range(90, 120), *range(30)])).hints
    assert "It may be a number in 'share', where --na takes it, too." in hint.text
