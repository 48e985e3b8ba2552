"""Roles, structural missing values and weights of rows, in whole fits."""

import warnings

import numpy as np
import pandas as pd
import pytest
import sklearn
from sklearn.pipeline import make_pipeline

from imputer.tables import make
from miwae import MIWAEImputer
from miwae.errors import DataError, DataWarning

N = 300


def people():
    """`y` is the sum of `a` and `b`, `c` is `y` with noise: without `y`, `c` follows from both."""
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, N))
    y = a + b + 0.1 * rng.normal(size=N)
    frame = pd.DataFrame({"a": a, "b": b, "y": y, "c": y + 0.1 * rng.normal(size=N)})
    frame["id"] = [f"p{i}" for i in range(N)]
    return frame


def with_holes(frame):
    holes = frame.copy()
    holes.loc[0:9, "a"] = np.nan
    holes.loc[5:14, "y"] = np.nan
    holes.loc[10:19, "c"] = np.nan
    holes.loc[3, "id"] = None
    return holes


@pytest.fixture(scope="module")
def fitted():
    holes = with_holes(people())
    roles = {"id": "ignore", "a": "predictor", "y": "target"}
    return holes, make(roles=roles, n_latent=3).fit(holes)


def test_each_column_is_imputed_as_its_role_says(fitted):
    holes, imputer = fitted
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        completed = imputer.transform(holes)
    assert completed["a"].isna().sum() == 10
    assert completed["id"].isna().sum() == 1
    assert completed[["y", "c", "b"]].notna().all().all()


def test_roles_that_keep_cells_missing_are_events(fitted):
    _, imputer = fitted
    found = {(e.column, e.count) for e in imputer.events_ if e.about == "role"}
    assert found == {("a", 10), ("id", 1)}


def test_a_target_says_nothing_about_other_columns(fitted):
    """Whatever it holds, the others are imputed alike; it is imputed from them all the same."""
    holes, imputer = fitted
    other = holes.assign(y=holes["y"] + 50)
    with pytest.warns(DataWarning):  # it is far from what was learned
        two = imputer.transform(other)
    pd.testing.assert_series_equal(imputer.transform(holes)["c"], two["c"])
    rows = slice(10, 14)
    truth = people().loc[rows, "y"]
    error = (imputer.transform(holes).loc[rows, "y"] - truth).abs().max()
    assert error < 1.0


def test_roles_are_part_of_a_model_file(fitted, tmp_path):
    holes, imputer = fitted
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert loaded.schema_ == imputer.schema_
    pd.testing.assert_frame_equal(loaded.transform(holes), imputer.transform(holes))


def test_cells_that_do_not_apply_stay_missing():
    rng = np.random.default_rng(1)
    garage = rng.integers(0, 3, size=120)
    year = np.where(garage == 0, np.nan, 1950.5 + 10 * garage + rng.normal(size=120))
    frame = pd.DataFrame({"garage": garage, "garage_year": year, "size": rng.normal(size=120)})
    lost = np.flatnonzero(garage > 0)[:5]
    frame.loc[lost, "garage_year"] = np.nan
    imputer = make(not_applicable={"garage_year": "garage == 0"}).fit(frame)
    completed = imputer.transform(frame)
    assert completed["garage_year"].isna().tolist() == (garage == 0).tolist()
    assert not [event for event in imputer.events_ if event.about == "not filled"]


def weighted_table():
    """Two groups in which `b` follows `a` with opposite signs."""
    rng = np.random.default_rng(2)
    group = np.arange(N) % 2
    a = rng.normal(size=N)
    frame = pd.DataFrame({"a": a, "b": np.where(group == 0, a, -a) + 0.1 * rng.normal(size=N)})
    return frame, group


def test_rows_of_more_weight_decide():
    frame, group = weighted_table()
    new = pd.DataFrame({"a": [1.0], "b": [np.nan]})
    imputer = make(max_steps=60, n_latent=2)
    for sign, of_group in ((1, 0), (-1, 1)):
        weights = np.where(group == of_group, 1.0, 0.01)
        imputed = imputer.fit(frame, sample_weight=weights).transform(new).loc[0, "b"]
        assert 0.5 < sign * imputed < 1.5


@pytest.mark.parametrize("method", ["fit", "partial_fit"])
def test_equal_weights_change_no_bit(method):
    frame, _ = weighted_table()
    frame.loc[:9, "b"] = np.nan
    one, two = (getattr(make(max_steps=20), method) for _ in range(2))
    pd.testing.assert_frame_equal(
        one(frame).transform(frame),
        two(frame, sample_weight=np.full(N, 0.3)).transform(frame),
        check_exact=True,
    )


def test_rows_of_more_weight_decide_in_batches_too():
    frame, group = weighted_table()
    new = pd.DataFrame({"a": [1.0], "b": [np.nan]})
    for sign, of_group in ((1, 0), (-1, 1)):
        weights, imputer = np.where(group == of_group, 1.0, 0.01), make(n_latent=2)
        for _ in range(3):
            imputer.partial_fit(frame, sample_weight=weights)
        assert 0.5 < sign * imputer.transform(new).loc[0, "b"] < 1.5
    none = np.zeros(N)
    with pytest.raises(DataError, match="zero in all rows"):
        imputer.partial_fit(frame, sample_weight=none)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        (np.ones(N - 1), "for each of the 300 rows"),
        (np.r_[-1.0, np.ones(N - 1)], "is -1.0 in row 0"),
        (np.r_[np.nan, np.ones(N - 1)], "is nan in row 0"),
        (np.zeros(N), "zero in all rows"),
        (["a"] * N, "a number for each row"),
    ],
)
def test_wrong_weights_are_refused(weights, words):
    frame, _ = weighted_table()
    with pytest.raises(DataError, match=words):
        make().fit(frame, sample_weight=weights)


def test_weights_are_routed():
    frame, group = weighted_table()
    with sklearn.config_context(enable_metadata_routing=True):
        pipe = make_pipeline(make().set_fit_request(sample_weight=True))
        weights = np.where(group == 0, 1.0, 1e-3)
        pipe.fit(frame, sample_weight=weights)
        imputed = pipe.transform(pd.DataFrame({"a": [1.0], "b": [np.nan]})).loc[0, "b"]
    assert imputed > 0.3


def test_columns_that_are_dropped_are_named():
    frame, _ = weighted_table()
    with pytest.warns(DataWarning, match="dropped: 'void'; keep_empty_features=True"):
        make(max_steps=2).fit(frame.assign(void=np.nan))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        make(keep_empty_features=True, max_steps=2).fit(frame.assign(void=np.nan))
        make(max_steps=2).fit(frame.assign(void=np.nan).to_numpy())


@pytest.mark.parametrize("library", ["pandas", "polars", "numpy"])
def test_diagnostics_are_a_table_of_the_same_kind(fitted, library):
    frame, _ = weighted_table()
    frame.loc[3:7, "b"] = np.nan
    frame.index = pd.Index(range(10, 10 + N))
    imputer = make(max_steps=2).fit(frame)
    if library == "numpy":
        report = imputer.diagnostics(frame)
        array = make(max_steps=2).fit(frame.to_numpy()).diagnostics(frame.to_numpy())
        np.testing.assert_array_equal(array.n_samples > 0, report["n_samples"] > 0)
        return
    if library == "polars":
        pl = pytest.importorskip("polars")
        report = make(max_steps=2).fit(pl.from_pandas(frame)).diagnostics(pl.from_pandas(frame))
        assert isinstance(report, pl.DataFrame)
    else:
        report = imputer.diagnostics(frame)
        assert report.index.equals(frame.index)
    expected = ["n_samples", "effective_sample_size", "pareto_k", "smoothed"]
    assert list(report.columns) == expected
    assert np.flatnonzero(np.asarray(report["n_samples"]) > 0).tolist() == [3, 4, 5, 6, 7]


def test_probabilities_are_a_table_for_each_column_of_categories():
    rng = np.random.default_rng(3)
    code = rng.integers(3, size=150)
    frame = pd.DataFrame({"word": np.array(["a", "b", "c"])[code], "x": 4.0 * code})
    frame["x"] += rng.normal(size=150)
    frame.loc[:4, "word"] = None
    frame.index = pd.Index(range(50, 200))
    (found,) = make(max_steps=30).fit(frame).probabilities(frame).values()
    assert found.index.equals(frame.index)
    assert list(found.columns) == ["a", "b", "c"]
    assert found[5:].isna().all().all()
    np.testing.assert_allclose(found[:5].sum(axis=1), 1.0, atol=1e-6)
    assert (found[:5].to_numpy().argmax(axis=1) == code[:5]).mean() >= 0.8
