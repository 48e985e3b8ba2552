"""Limits between which missing cells lie."""

import pandas as pd
import pytest

from imputer.libraries import N_ROWS, completed_of, holes_of
from imputer.tables import NAN, factor_rows, make, same_bits, with_holes
from miwae.errors import SettingsError


def test_intervals_enclose_the_imputation(linear):
    frame, imputer = linear
    completed = imputer.transform(frame)
    holes = frame.isna()
    lower, upper = imputer.interval(frame, level=0.9)
    assert same_bits(lower.to_numpy()[~holes.to_numpy()], frame.to_numpy()[~holes.to_numpy()])
    assert same_bits(upper.to_numpy()[~holes.to_numpy()], frame.to_numpy()[~holes.to_numpy()])
    assert (lower <= completed).all(axis=None)
    assert (completed <= upper).all(axis=None)
    inner_lower, inner_upper = imputer.interval(frame, level=0.5)
    assert (lower < inner_lower).to_numpy()[holes].all()
    assert (inner_upper < upper).to_numpy()[holes].all()


@pytest.mark.parametrize("level", [0.0, 1.0, -0.1, 90.0, NAN])
def test_levels_outside_0_to_1_are_refused(linear, level):
    with pytest.raises(SettingsError, match="level must lie strictly between 0 and 1"):
        linear[1].interval(linear[0], level=level)


def test_intervals_of_mixed_columns():
    frame, imputer, completed = completed_of("pandas, nullable")
    lower, upper = imputer.interval(frame, level=0.8)
    holes = holes_of("pandas, nullable")
    for limits in (lower, upper):
        assert list(limits.dtypes) == list(frame.dtypes)
        assert limits.notna().all(axis=None)
        for name in ("flag", "colour"):
            assert limits[name].tolist() == completed[name].tolist()
        for j, rows in holes.items():
            seen = [i for i in range(N_ROWS) if i not in rows]
            assert limits.iloc[seen, j].tolist() == frame.iloc[seen, j].tolist()
    for name in ("score", "size", "number", "grade", "when"):
        assert (lower[name] <= upper[name]).all()


def test_intervals_cover_at_their_level(trained):
    _, imputer = trained
    truth = factor_rows(500, 12)
    rows = pd.DataFrame(with_holes(truth, 0.3, 12), columns=list("abc"))
    lower, upper = (limits.to_numpy() for limits in imputer.interval(rows, level=0.9))
    holes = rows.isna().to_numpy()
    covered = (lower <= truth) & (truth <= upper)
    assert 0.80 <= covered[holes].mean() <= 0.97


def test_intervals_of_several_models(linear):
    frame, single = linear
    imputer = make(n_models=2).fit(frame)
    completed = imputer.transform(frame)
    lower, upper = imputer.interval(frame)
    assert (lower <= completed).all(axis=None)
    assert (completed <= upper).all(axis=None)
    holes = frame.isna().to_numpy()
    single_lower, single_upper = single.interval(frame)
    width = (upper - lower).to_numpy()[holes].mean()
    assert width == pytest.approx((single_upper - single_lower).to_numpy()[holes].mean(), rel=0.5)


def test_intervals_of_numbers_that_take_few_values_end_at_them(ratings):
    _, frame, _ = ratings
    two = make(max_steps=60, n_models=2).fit(frame)
    lower, upper = two.interval(frame, level=0.5)
    for name in ("stars", "choice"):
        values = frame[name].dropna().unique()
        assert lower[name].isin(values).all()
        assert upper[name].isin(values).all()
        assert (lower[name] <= upper[name]).all()
        assert (lower[name] < upper[name]).any()
