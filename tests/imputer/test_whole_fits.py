"""A fit succeeds as a whole, or leaves the imputer as it was."""

import copy
import threading

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from imputer.tables import make
from miwae.errors import SettingsError
from miwae.tabular import FittedTable


def test_a_fit_that_fails_leaves_the_imputer_as_it_was(words):
    frame, _ = words
    new = make(device="no such device")
    with pytest.raises(SettingsError, match="no such device"):
        new.fit(frame)
    with pytest.raises(NotFittedError):
        new.transform(frame)
    assert not hasattr(new, "n_features_in_")
    fitted = make().fit(frame)
    before, events = fitted.transform(frame), list(fitted.events_)
    fitted.set_params(device="no such device")
    with pytest.raises(SettingsError, match="no such device"):
        fitted.fit(frame[["x"]])
    fitted.set_params(device=None)
    pd.testing.assert_frame_equal(fitted.transform(frame), before)
    assert fitted.events_ == events


def state_of(imputer):
    """All that an imputer holds, to compare."""
    fitted = imputer._fitted
    return fitted.table, fitted.named, list(fitted.later), imputer.get_params()


@pytest.fixture
def interrupt(monkeypatch):
    """Interrupt training once it has been reached."""

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    def start():
        monkeypatch.setattr("miwae.tabular._fitting.fit_model", interrupted)
        monkeypatch.setattr("miwae.tabular._fitted.update_model", interrupted)

    return start


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_first_fit_that_is_interrupted_leaves_nothing(words, interrupt, method):
    new = make()
    before = dict(vars(new))
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        getattr(new, method)(words[0])
    with pytest.raises(NotFittedError):
        new.transform(words[0])
    assert vars(new) == before


@pytest.mark.filterwarnings("ignore::miwae.errors.DataWarning")
@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_a_later_fit_that_is_interrupted_changes_nothing(words, interrupt, method):
    """Not even the events: the value that the model does not know was never learned from."""
    imputer = copy.deepcopy(words[1])
    completed, before = imputer.transform(words[0]), state_of(imputer)
    interrupt()
    new = pd.DataFrame({"word": ["zebra", "a", "b", "c"], "x": [1.0, 0.1, 4.1, 8.1]})
    with pytest.raises(KeyboardInterrupt):
        getattr(imputer, method)(new)
    after = state_of(imputer)
    assert after[0] is before[0]
    assert after[1:] == before[1:]
    pd.testing.assert_frame_equal(imputer.transform(words[0]), completed, check_exact=True)


@pytest.mark.filterwarnings("ignore:columns without any observed cell")
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_transform_beside_a_fit_gives_the_result_of_one_of_them(words, monkeypatch, when):
    """Another thread fits the same imputer, to a table that lost a column, in mid-transform."""
    frame, fitted = words
    imputer = copy.deepcopy(fitted)
    other = frame.head(60).assign(x=np.nan)
    expected, means = imputer.transform(frame), FittedTable.means

    def in_company(*args, **options):
        monkeypatch.setattr(FittedTable, "means", means)
        result = means(*args, **options) if when == "after" else None
        fit = threading.Thread(target=imputer.fit, args=(other,))
        fit.start()
        fit.join()
        return result or means(*args, **options)

    monkeypatch.setattr(FittedTable, "means", in_company)
    pd.testing.assert_frame_equal(imputer.transform(frame), expected, check_exact=True)
    # Those who come later see the new fit, as a whole: the column is empty, and dropped.
    assert imputer.events_ == make().fit(other).events_
    assert [c.kind.label for c in imputer.schema_.columns] == ["categorical", "empty"]
    assert list(imputer.transform(other).columns) == ["word"]
