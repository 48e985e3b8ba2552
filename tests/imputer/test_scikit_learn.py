"""The imputer among scikit-learn's estimators: its contract, names, pipelines, output."""

import copy
import pickle

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import sklearn
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from imputer.libraries import COLUMNS, completed_of
from imputer.tables import factor_rows, make, numbers, same_bits

EXPECTED_FAILURES = {
    "check_do_not_raise_errors_in_init_or_set_params": "it passes -1 for everything, which the "
    "annotations refuse under the hook of conftest.py; WRONG_TYPES runs it without the hook"
}


@parametrize_with_checks(
    [make(max_steps=5, early_stopping=False)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


def test_an_imputer_that_is_not_fitted_says_so(tmp_path):
    for method in ("transform", "sample", "interval", "score_samples", "diagnostics"):
        with pytest.raises(NotFittedError):
            getattr(make(), method)(numbers())
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


def test_names_of_columns_in_and_out():
    _, imputer, _ = completed_of("pandas, nullable")
    assert imputer.n_features_in_ == len(COLUMNS)
    assert list(imputer.feature_names_in_) == list(COLUMNS)
    assert list(imputer.get_feature_names_out()) == list(COLUMNS)
    with pytest.raises(ValueError, match="not equal to feature_names_in_"):
        imputer.get_feature_names_out(["x"] * len(COLUMNS))
    array = completed_of("numpy, objects")[1]
    assert not hasattr(array, "feature_names_in_")
    assert list(array.get_feature_names_out()) == [f"x{j}" for j in range(len(COLUMNS))]
    assert list(array.get_feature_names_out(list("abcdefg"))) == list("abcdefg")
    with pytest.raises(ValueError, match="should have length equal"):
        array.get_feature_names_out(["a"])


@pytest.mark.parametrize("name", ["polars", "pyarrow", "pandas, arrow"])
def test_columns_in_another_order_are_refused(name):
    frame, imputer, _ = completed_of(name.replace("pandas, arrow", "pandas, pyarrow"))
    order = list(reversed(COLUMNS))
    with pytest.raises(ValueError, match="must be in the same order"):
        imputer.transform(frame.select(order) if hasattr(frame, "select") else frame[order])


def test_in_a_pipeline(linear):
    frame, imputer = linear
    y = factor_rows(33, 1)[:, 0]
    pipeline = make_pipeline(make(), StandardScaler(), LinearRegression()).fit(frame, y)
    by_hand = make_pipeline(StandardScaler(), LinearRegression()).fit(imputer.transform(frame), y)
    np.testing.assert_array_equal(
        pipeline.predict(frame), by_hand.predict(imputer.transform(frame))
    )
    assert list(pipeline[:-1].get_feature_names_out()) == list("abc")


def test_in_a_column_transformer(linear):
    frame, imputer = linear
    table = frame.assign(name="x")
    transformer = ColumnTransformer(
        [("holes", make(), list("abc"))], remainder="passthrough", verbose_feature_names_out=False
    ).set_output(transform="pandas")
    out = transformer.fit_transform(table)
    assert list(out.columns) == ["a", "b", "c", "name"]
    assert same_bits(out[list("abc")], imputer.transform(frame))


def test_model_selection_by_its_own_score(linear):
    frame, _ = linear
    scores = cross_val_score(make(), frame, cv=2)
    half = make().fit(frame.iloc[17:])
    assert scores.shape == (2,)
    assert scores[0] == half.score(frame.iloc[:17])
    search = GridSearchCV(make(), {"random_state": [0, 1]}, cv=2).fit(frame)
    means = search.cv_results_["mean_test_score"]
    assert means[0] == pytest.approx(scores.mean())
    assert search.best_params_["random_state"] == np.argmax(means)
    assert means[0] != means[1]
    assert search.best_estimator_.transform(frame).notna().all(axis=None)


def test_clones_and_pickles(trained):
    frame, imputer = trained
    kinds = {"a": "continuous"}
    cloned = clone(make(column_kinds=kinds, missing_values=[-1, "?"], bounds={"a": (None, 9.0)}))
    assert cloned.get_params()["column_kinds"] == kinds
    assert cloned.get_params()["missing_values"] == [-1, "?"]
    assert not hasattr(clone(imputer), "schema_")
    other = pickle.loads(pickle.dumps(imputer))
    rows = frame.iloc[:50]
    assert same_bits(other.transform(rows), imputer.transform(rows))
    assert same_bits(other.sample(rows, 1).complete(1), imputer.sample(rows, 1).complete(1))


def test_output_in_another_library(linear):
    frame, imputer = linear
    imputer = copy.deepcopy(imputer)
    expected = imputer.transform(frame)
    as_polars = imputer.set_output(transform="polars").transform(frame)
    assert isinstance(as_polars, pl.DataFrame)
    assert as_polars.columns == list("abc")
    assert same_bits(as_polars.to_numpy(), expected)
    array = make().fit(frame.to_numpy()).set_output(transform="pandas")
    as_pandas = array.transform(frame.to_numpy())
    assert list(as_pandas.columns) == ["x0", "x1", "x2"]
    assert same_bits(as_pandas, expected)


def test_output_in_pandas_from_polars_has_numbers(words):
    frame = pl.from_pandas(words[0])
    out = make().set_output(transform="pandas").fit_transform(frame)
    assert str(out["x"].dtype) == "float64"


def test_output_by_the_configuration_of_scikit_learn(linear):
    frame, imputer = linear
    table = pa.Table.from_pandas(frame, preserve_index=False)
    expected = make().set_output(transform="pandas").fit_transform(table)
    with sklearn.config_context(transform_output="pandas"):
        out = make().fit_transform(table)
        assert isinstance(imputer.transform(frame), pd.DataFrame)
    pd.testing.assert_frame_equal(out, expected, check_exact=True)


def test_output_in_pandas_from_pyarrow(linear):
    frame, _ = linear
    table = pa.Table.from_pandas(frame, preserve_index=False)
    out = make().set_output(transform="pandas").fit_transform(table)
    assert list(out.columns) == list("abc")


def test_indicators_tell_what_was_missing(linear):
    frame, plain = linear
    frame = frame.assign(b=frame["b"].fillna(0.5))
    imputer = make(add_indicator=True).fit(frame)
    out = imputer.transform(frame)
    names = ["a", "b", "c", "missingindicator_a", "missingindicator_c"]
    assert list(out.columns) == names
    assert list(imputer.get_feature_names_out()) == names
    for column in "ac":
        assert out[f"missingindicator_{column}"].tolist() == frame[column].isna().tolist()
    array = make(add_indicator=True).fit_transform(frame.to_numpy())
    assert array.shape == (len(frame), 5)
    assert array[:, 3].tolist() == frame["a"].isna().tolist()


@pytest.mark.filterwarnings("ignore:columns without any observed cell are dropped")
def test_indicators_beside_labels_that_are_no_text_suit_a_pipeline(linear):
    frame = linear[0].set_axis([0, 2, 3], axis=1).rename_axis(columns="label")
    frame.insert(1, 1, np.nan)  # which is dropped
    # As scikit-learn names them: SimpleImputer does so, too.
    names = ["x0", "x2", "x3", *(f"missingindicator_x{i}" for i in range(4))]
    pipeline = make_pipeline(make(add_indicator=True), StandardScaler(), LinearRegression())
    pipeline.fit(frame, np.arange(len(frame)))
    imputer = pipeline[0]
    assert list(imputer.get_feature_names_out()) == names
    for out in (imputer.transform(frame), *imputer.interval(frame)):
        assert list(out.columns) == names
        assert out.columns.name == "label"
    # Without indicators labels stay as they are, and so do several levels of them.
    assert list(make().fit(frame).transform(frame).columns) == [0, 2, 3]
    levels = frame.set_axis(pd.MultiIndex.from_product([["a", "b"], [0, 1]]), axis=1)
    out = make(add_indicator=True).fit(levels).transform(levels)
    assert list(out.columns[:3]) == [("a", 0), ("b", 0), ("b", 1)]
