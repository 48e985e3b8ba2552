"""Conditions under which missing cells do not apply."""

import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema
from miwae.columns._conditions import Comparison, holds, parsed
from miwae.errors import SettingsError
from miwae.frames import columns

HOUSES = pd.DataFrame(
    {
        "garage": [0, 1, 2, None],
        "type": ["none", "built in", None, "none"],
        "sold": pd.array([True, False, None, True], dtype="boolean"),
        "garage year": [None, 1990.0, None, None],
    }
)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("garage == 0", [True, False, False, False]),
        ("garage != 0", [False, True, True, False]),
        ("garage>=1", [False, True, True, False]),
        ("garage < 1 and type == 'none'", [True, False, False, False]),
        ("type == built in", [False, True, False, False]),
        ('type != "none"', [False, True, False, False]),
        ("sold == true", [True, False, False, True]),
        ("`garage year` > 1980", [False, True, False, False]),
    ],
)
def test_a_condition_holds_where_its_cells_are_observed_and_say_so(text, expected):
    assert holds(text, columns(HOUSES)).tolist() == expected


def test_values_in_quotes_may_have_any_words():
    assert parsed("bed and bath == 'a and b' and `x or y` != \"c or d\" and e < 5") == (
        Comparison("bed and bath", "==", "a and b"),
        Comparison("x or y", "!=", "c or d"),
        Comparison("e", "<", 5.0),
    )


def test_text_in_quotes_is_no_number():
    assert parsed("a == 1 and b == '1'") == (
        Comparison("a", "==", 1.0),
        Comparison("b", "==", "1"),
    )


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ("garage", "COLUMN OP VALUE"),
        ("garrage == 0", "did you mean 'garage'"),
        ("garage == 0 or garage == 1", "joined by 'and', not by 'or'"),
        (0, "must be text, not 0"),
    ],
)
def test_conditions_that_mean_nothing_are_refused(condition, words):
    with pytest.raises(SettingsError, match=words):
        infer_schema(columns(HOUSES), not_applicable={"garage year": condition})


@pytest.mark.parametrize("text", ["garage == 'none'", "type > 'a'"])
def test_numbers_and_text_are_not_compared(text):
    with pytest.raises(SettingsError, match="not_applicable compares column"):
        holds(text, columns(HOUSES))


def test_missing_cells_that_do_not_apply_are_no_gaps():
    own = columns(HOUSES)
    schema = infer_schema(own, not_applicable={"garage year": "garage == 0"})
    year = schema.columns[3]
    assert year.gaps(own[3], own).missing.tolist() == [False, False, True, True]
    assert schema.columns[0].gaps(own[0], own) is own[0]
    np.testing.assert_array_equal(own[3].missing, [True, False, True, True])
