"""What happened is in `events_`; what users should see at once is a warning at their own line."""

import inspect
import warnings

import numpy as np
import pandas as pd
import pytest

from imputer.tables import make, numbers
from miwae._callers import warn_caller
from miwae.errors import DataWarning
from miwae.events import Event

STAY = (
    "column 'name' is not modelled: its 2 missing cells stay missing; give its kind to have it "
    "imputed"
)


def people(n_missing=2):
    """Two numbers and a name that nobody shares."""
    frame = numbers(30)[["a", "b"]].assign(name=[f"person {i}" for i in range(30)])
    frame.loc[: n_missing - 1, "name"] = None
    return frame


@pytest.fixture(scope="module")
def fitted():
    return make().fit(people())


def test_names_of_things_stay_missing_and_that_is_said_each_time(fitted):
    frame = people()
    assert fitted.events_.count(Event("not filled", "name", 2, STAY)) == 1
    for _ in range(2):
        with pytest.warns(DataWarning) as caught:
            completed = fitted.transform(frame)
        assert [str(warning.message) for warning in caught] == [STAY]
    assert fitted.events_.count(Event("not filled", "name", 2, STAY)) == 1
    assert completed["name"].isna().sum() == 2
    assert completed["name"].dropna().equals(frame["name"].dropna())
    assert completed[["a", "b"]].notna().all(axis=None)
    with pytest.warns(DataWarning, match="stay missing"):
        draws = fitted.sample(frame, 2)
    assert draws.complete(1)["name"].isna().sum() == 2
    assert "not imputed: name" in repr(draws)


def test_names_that_are_missing_later_are_an_event():
    imputer = make().fit(people(0))
    with pytest.warns(DataWarning, match="'name'"):
        imputer.transform(people(30).assign(name=pd.Series([None] * 30, dtype="str")))
    assert [(e.column, e.count) for e in imputer.events_ if e.about == "not filled"] == [
        ("name", 30)
    ]


def test_an_empty_column_that_is_kept_and_cannot_be_filled_is_a_warning():
    frame = numbers(30)[["a", "b"]].assign(note=pd.Series([None] * 30, dtype="str"))
    imputer = make(keep_empty_features=True).fit(frame)
    with pytest.warns(DataWarning, match="'note' has no observed cell: nothing is imputed"):
        assert imputer.transform(frame)["note"].isna().all()
    # That one which is dropped has no cells to miss.
    assert list(imputer.set_params(keep_empty_features=False).transform(frame)) == ["a", "b"]


CALLS = {
    "transform": lambda imputer, frame: imputer.transform(frame),
    "fit_transform": lambda imputer, frame: imputer.fit_transform(frame),
    "set_output": lambda imputer, frame: imputer.set_output(transform="pandas").transform(frame),
    "interval": lambda imputer, frame: imputer.interval(frame),
    "sample": lambda imputer, frame: imputer.sample(frame, 1),
    "score": lambda imputer, frame: imputer.score(frame),
    "expectation": lambda imputer, frame: imputer.expectation(
        frame, lambda one: one["a"], n_imputations=1
    ),
}


@pytest.mark.parametrize("call", CALLS)
def test_warnings_point_at_the_line_of_the_caller(call):
    ask, imputer = CALLS[call], make().fit(people())
    with pytest.warns(DataWarning) as caught:
        ask(imputer, people())
    lines, first = inspect.getsourcelines(ask)
    for warning in caught:
        assert warning.filename == __file__
        assert first <= warning.lineno < first + len(lines)


def test_code_that_was_typed_into_a_console_is_a_caller():
    typed = compile("warn_caller('x')", "<stdin>", "exec")
    with pytest.warns(DataWarning) as caught:
        exec(typed, {"__name__": "__main__", "warn_caller": warn_caller})
    assert [(warning.filename, warning.lineno) for warning in caught] == [("<stdin>", 1)]


def test_nothing_is_warned_of_where_all_is_filled():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        completed = make().fit_transform(numbers())
    assert np.isfinite(completed.to_numpy()).all()
