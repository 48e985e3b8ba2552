"""One impossible cell spoils neither its column nor the others."""

import re

import numpy as np
import pandas as pd
import pytest

from imputer.tables import make, same_bits
from miwae import DataWarning

NAN = np.nan
ROW, COLUMN = 8, 1


def _table() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    truth = rng.normal(size=(120, 2)) @ rng.normal(size=(2, 5))
    truth += 0.5 * rng.normal(size=truth.shape)
    return truth, rng.random(truth.shape) < 0.2


TRUTH, HIDDEN = _table()


def _completed(value: float | None = None, rows: int | list[int] = ROW):
    frame = pd.DataFrame(np.where(HIDDEN, NAN, TRUTH), columns=list("abcde"))
    if value is not None:
        frame.iloc[rows, COLUMN] = value
    imputer = make()
    return imputer.fit_transform(frame), imputer


def _errors(frame: pd.DataFrame) -> np.ndarray:
    squares = np.where(HIDDEN, frame.to_numpy() - TRUTH, 0.0) ** 2
    return np.sqrt(squares.sum(axis=0) / HIDDEN.sum(axis=0)) / TRUTH.std(axis=0)


@pytest.fixture(scope="module")
def clean() -> np.ndarray:
    return _errors(_completed()[0])


@pytest.fixture(scope="module")
def missing() -> pd.DataFrame:
    return _completed(NAN)[0]


@pytest.mark.parametrize(
    ("value", "word"), [(1e6, "1000000"), (1e12, "1000000000000"), (-1e300, "-1e+300")]
)
def test_an_impossible_cell_is_missing_to_the_model(value, word, clean, missing):
    with pytest.warns(DataWarning, match=f"column 'b': the value {re.escape(word)} in row {ROW}"):
        completed, imputer = _completed(value)
    assert (_errors(completed) < 1.1 * clean).all()
    assert completed.iloc[ROW, COLUMN] == value
    completed.iloc[ROW, COLUMN] = missing.iloc[ROW, COLUMN]
    assert same_bits(completed, missing)
    (event,) = (e for e in imputer.events_ if e.about == "value")
    assert event.column == "b"
    assert f"the value {word} in row {ROW} is impossible" in event.text


def test_several_impossible_cells_are_missing_to_the_model(clean):
    rows = [1, ROW, 30]
    with pytest.warns(DataWarning, match=r"1000000000000 in row 1 .*\(3 such cells\)"):
        completed, _ = _completed(1e12, rows)
    assert (_errors(completed) < 1.1 * clean).all()
    assert (completed.iloc[rows, COLUMN] == 1e12).all()
