import numpy as np
import pandas as pd
import pytest
from scipy import stats

from miwae.columns import missing_associations, missing_correlations, missing_patterns
from miwae.frames import columns


def test_patterns_are_counted_and_the_most_frequent_come_first():
    missing = np.array([[0, 1, 0], [0, 0, 0], [0, 1, 0], [0, 1, 0], [1, 1, 1], [0, 0, 0]], bool)
    patterns = missing_patterns(missing)
    assert patterns.n_rows.tolist() == [3, 2, 1]
    assert patterns.missing.tolist() == [[False, True, False], [False] * 3, [True] * 3]


def test_more_columns_than_a_byte_has_bits():
    missing = np.eye(19, dtype=bool)
    patterns = missing_patterns(missing)
    assert patterns.missing.sum() == 19
    assert (patterns.missing.sum(axis=1) == 1).all()


def test_correlations_of_gaps():
    a = np.array([True, False] * 20)
    correlations = missing_correlations(np.column_stack([a, a, ~a, np.zeros(40, bool)]))
    assert correlations[0, 1] == pytest.approx(1)
    assert correlations[0, 2] == pytest.approx(-1)
    assert np.isnan(correlations[:, 3]).all()


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.normal(size=500), "y": rng.normal(size=500)})
    frame["word"] = np.where(rng.random(500) < 0.5, "a", "b")
    frame["by_x"] = rng.normal(size=500)
    frame["by_word"] = rng.normal(size=500)
    frame.loc[frame["x"] > 0.5, "by_x"] = np.nan
    frame.loc[frame["word"] == "a", "by_word"] = np.nan
    return frame


def test_what_a_gap_depends_on(table):
    found = pd.DataFrame(missing_associations(columns(table, ())), table.columns, table.columns)
    # The indicator of the upper third of a uniform variable has this correlation with it.
    share = (table["x"] > 0.5).mean()
    assert found.loc["by_x", "x"] == pytest.approx(np.sqrt(3 * share * (1 - share)), abs=0.02)
    assert found.loc["by_word", "word"] == pytest.approx(1)
    assert found.loc["by_x", "y"] == 0
    assert found.loc["by_word", "y"] == 0
    assert found.loc["x"].isna().all()  # nothing is missing there
    assert np.isnan(found.loc["by_x", "by_x"])


def test_associations_are_those_of_scipy(table):
    found = pd.DataFrame(missing_associations(columns(table, ())), table.columns, table.columns)
    gap = table["by_x"].isna()
    r = stats.pearsonr(table["x"].rank(), gap).statistic
    assert found.loc["by_x", "x"] == pytest.approx(abs(r))
    three = np.where(table["x"] > 0.4, "high", np.where(table["x"] > 0, "middle", "low"))
    found = missing_associations(columns(table[["by_x"]].assign(three=three), ()))
    v = stats.contingency.association(pd.crosstab(three, gap).to_numpy(), method="cramer")
    assert found[0, 1] == pytest.approx(v)
