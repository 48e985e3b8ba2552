"""The estimator as its users meet it: frames in, frames of the same kind out."""

import copy
import datetime
import functools
import io
import json
import os
import pickle
import subprocess
import sys
import time
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import openpyxl
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from safetensors.numpy import save_file
from scipy import stats
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

from miwae import MIWAEImputer, MultiplyImputed
from miwae.errors import DataError, DataWarning, FileFormatError, MiwaeError, SettingsError
from miwae.imputer import _told_of
from miwae.table.excel import read_excel
from miwae.table.text import read_text

NAN = float("nan")

# Small networks, few codes: a table with fewer than 100 observed cells also skips the training.
CHEAP = {
    "n_imputation_samples": 120,
    "n_hidden": 8,
    "n_layers": 1,
    "n_models": 1,
    "random_state": 0,
}


def make(**settings):
    return MIWAEImputer(**{**CHEAP, **settings})


# ---------------------------------------------------------------------- scikit-learn's contract

# Checks that fail here, with the reason.
EXPECTED_FAILURES = {
    "check_do_not_raise_errors_in_init_or_set_params": "it passes -1 for everything, which the "
    "annotations refuse under the hook of conftest.py; WRONG_TYPES runs it without the hook",
}


@parametrize_with_checks(
    [make(max_steps=5, early_stopping=False)], expected_failed_checks=lambda _: EXPECTED_FAILURES
)
def test_scikit_learn_contract(estimator, check):
    check(estimator)


# ---------------------------------------------------------------------- one table, many libraries

SCORE = [0.31, -1.25, 2.5, None, 1.75, -0.1, 0.8, -2.3, 1.1, None, 0.45]
SIZE = [1.5, 2.25, None, 3.5, 2.0, 1.1, 4.75, None, 2.9, 3.3, 1.9]
NUMBER = [12, None, 17, 15, 21, 14, None, 19, 16, 13, 18]
FLAG = [True, False, True, None, True, False, False, True, None, True, False]
COLOUR = ["red", "green", "blue", "red", None, "green", "red", "blue", "green", None, "red"]
GRADE = ["low", "mid", None, "high", "mid", "low", "mid", "high", "low", "mid", None]
DAYS = [0, 3, 10, None, 7, 12, 20, 5, None, 16, 9]
FIRST = datetime.datetime(2020, 3, 1)
WHEN = [None if day is None else FIRST + datetime.timedelta(days=day) for day in DAYS]

COLUMNS = {
    "score": SCORE,
    "size": SIZE,
    "number": NUMBER,
    "flag": FLAG,
    "colour": COLOUR,
    "grade": GRADE,
    "when": WHEN,
}
N_ROWS = len(SCORE)
LEVELS = {
    "flag": {True, False},
    "colour": {"red", "green", "blue"},
    "grade": {"low", "mid", "high"},
}
GRADES = ["low", "mid", "high"]
TOLD = {"grade": "ordinal:low<mid<high"}
INDEX = [f"r{i}" for i in range(N_ROWS)]


def pandas_numpy():
    """The types that numpy has: integers and booleans cannot be missing."""
    frame = pd.DataFrame(
        {
            "score": pd.Series(SCORE, dtype="float64"),
            "size": pd.Series(SIZE, dtype="float32"),
            "number": pd.Series([-1 if n is None else n for n in NUMBER], dtype="int64"),
            "flag": pd.Series([bool(f) for f in FLAG]),
            "colour": pd.Series(COLOUR, dtype=object),
            "grade": pd.Series(GRADE, dtype=pd.CategoricalDtype(GRADES, ordered=True)),
            "when": pd.Series(WHEN, dtype="datetime64[ns]"),
        }
    )
    frame.index = pd.Index(INDEX, name="row")
    return frame


def pandas_nullable():
    frame = pd.DataFrame(
        {
            "score": pd.Series(SCORE, dtype="Float64"),
            "size": pd.Series(SIZE, dtype="Float32"),
            "number": pd.Series(NUMBER, dtype="Int16"),
            "flag": pd.Series(FLAG, dtype="boolean"),
            "colour": pd.Series(COLOUR, dtype="string"),
            "grade": pd.Series(GRADE, dtype=pd.CategoricalDtype([*GRADES, "top"], ordered=True)),
            "when": pd.Series(WHEN, dtype="datetime64[s]").dt.tz_localize("Europe/Paris"),
        }
    )
    frame.index = pd.MultiIndex.from_tuples([(i % 3, "x") for i in range(N_ROWS)])
    return frame


def pandas_arrow():
    types = {
        "score": pa.float64(),
        "size": pa.float32(),
        "number": pa.int32(),
        "flag": pa.bool_(),
        "colour": pa.string(),
        "grade": pa.string(),
        "when": pa.timestamp("us", "UTC"),
    }
    return pd.DataFrame(
        {name: pd.Series(COLUMNS[name], dtype=pd.ArrowDtype(t)) for name, t in types.items()}
    )


def pandas_objects():
    frame = pd.DataFrame({name: pd.Series(cells, dtype=object) for name, cells in COLUMNS.items()})
    frame["colour"] = pd.Series(
        COLOUR, dtype=pd.CategoricalDtype(["never", "red", "green", "blue"])
    )
    return frame


def polars_frame():
    types = {
        "score": pl.Float64,
        "size": pl.Float32,
        "number": pl.Int8,
        "flag": pl.Boolean,
        "colour": pl.Categorical,
        "grade": pl.Enum(GRADES),
        "when": pl.Datetime("us", "Europe/Paris"),
    }
    return pl.DataFrame(
        {
            name: pl.Series(name, cells).cast(types[name])
            if name != "when"
            else pl.Series(name, cells, dtype=pl.Datetime("us")).dt.replace_time_zone(
                "Europe/Paris"
            )
            for name, cells in COLUMNS.items()
        }
    )


def arrow_table():
    arrays = {
        "score": pa.array(SCORE),
        "size": pa.array(SIZE, pa.float32()),
        "number": pa.array(NUMBER, pa.uint8()),
        "flag": pa.array(FLAG),
        "colour": pa.array(COLOUR).dictionary_encode(),
        "grade": pa.array(GRADE, pa.large_string()),
        "when": pa.array([None if w is None else w.date() for w in WHEN], pa.date32()),
    }
    return pa.table(arrays)


def object_array():
    array = np.empty((N_ROWS, len(COLUMNS)), dtype=object)
    for j, cells in enumerate(COLUMNS.values()):
        array[:, j] = cells
    return array


FRAMES = {
    "pandas, numpy's types": (pandas_numpy, {"missing_values": -1}),
    "pandas, nullable": (pandas_nullable, {}),
    "pandas, pyarrow": (pandas_arrow, {}),
    "pandas, objects": (pandas_objects, {}),
    "polars": (polars_frame, {}),
    "pyarrow": (arrow_table, {}),
    "numpy, objects": (object_array, {}),
}


def cells_of(frame, j):
    """A column as Python objects."""
    if isinstance(frame, pd.DataFrame):
        return frame.iloc[:, j].tolist()
    if isinstance(frame, pl.DataFrame):
        return frame.to_series(j).to_list()
    if isinstance(frame, pa.Table):
        return frame.column(j).to_pylist()
    return frame[:, j].tolist()


def is_missing(cell):
    return cell is None or cell is pd.NaT or cell is pd.NA or cell != cell


def types_of(frame):
    if isinstance(frame, pd.DataFrame):
        return list(frame.dtypes)
    if isinstance(frame, pl.DataFrame):
        return list(frame.schema.items())
    return frame.schema if isinstance(frame, pa.Table) else frame.dtype


def holes_of(name):
    """Rows that are missing, as the builder wrote them, by column."""
    holes = {
        j: [i for i, cell in enumerate(cells) if cell is None]
        for j, cells in enumerate(COLUMNS.values())
    }
    if name == "pandas, numpy's types":
        holes[3] = []
    return holes


@functools.cache
def completed_of(name):
    build, settings = FRAMES[name]
    kinds = TOLD
    if isinstance(build(), np.ndarray):
        kinds = {5: TOLD["grade"]}
    elif name in ("pandas, numpy's types", "pandas, nullable"):
        kinds = None  # the table itself knows the order
    frame = build()
    imputer = make(column_kinds=kinds, **settings).fit(frame)
    return frame, imputer, imputer.transform(frame)


every_frame = pytest.mark.parametrize("name", FRAMES)


@every_frame
def test_the_frame_comes_back_as_it_came(name):
    frame, _, completed = completed_of(name)
    original = FRAMES[name][0]()
    assert type(completed) is type(frame)
    assert types_of(completed) == types_of(original)
    if isinstance(frame, pd.DataFrame):
        assert completed.index.identical(original.index)
        assert completed.columns.identical(original.columns)
    for j, holes in holes_of(name).items():
        before, after = cells_of(original, j), cells_of(completed, j)
        assert repr(cells_of(frame, j)) == repr(before)  # the user's own table is untouched
        for i in range(N_ROWS):
            if i in holes:
                assert not is_missing(after[i])
            else:
                assert repr(after[i]) == repr(before[i])
                assert type(after[i]) is type(before[i])


@every_frame
def test_kinds_are_the_same_in_every_library(name):
    _, imputer, _ = completed_of(name)
    kinds = [column.kind for column in imputer.schema_.columns]
    assert kinds == [
        "continuous",
        "positive",
        "integer",
        "binary",
        "categorical",
        "ordinal",
        "datetime",
    ]
    assert len(imputer.events_) >= len(kinds)
    for column, event in zip(imputer.schema_.columns, imputer.events_, strict=False):
        assert f"is {column.kind}: {column.reason}" in event


@every_frame
def test_imputed_cells_are_possible_values(name):
    _, _, completed = completed_of(name)
    holes = holes_of(name)
    columns = dict(zip(COLUMNS, range(len(COLUMNS)), strict=True))
    filled = {
        column: [cells_of(completed, j)[i] for i in holes[j]] for column, j in columns.items()
    }
    assert all(np.isfinite(float(x)) for x in filled["score"])
    assert all(x > 0 for x in filled["size"])
    assert all(x == int(x) and x >= 1 for x in filled["number"])
    for column, levels in LEVELS.items():
        assert set(filled[column]) <= levels
    for when in filled["when"]:
        instant = pd.Timestamp(when)
        utc = instant.tz_convert("UTC") if instant.tz else instant
        # Paris midnights are whole hours of UTC; the others were written as whole days.
        coarse = "h" if str(instant.tz) == "Europe/Paris" else "D"
        assert utc == utc.floor(coarse)


def test_the_same_cells_in_another_library_get_the_same_values():
    """To the bit, if the cells are the same: float64, and text in alphabetical order."""
    _, _, reference = completed_of("numpy, objects")
    others = [
        pd.DataFrame({name: pd.Series(c, dtype=object) for name, c in COLUMNS.items()}),
        pl.DataFrame(COLUMNS),
        pa.table(COLUMNS),
    ]
    for frame in others:
        completed = make(column_kinds=TOLD).fit_transform(frame)
        assert type(completed) is type(frame)
        for j in range(len(COLUMNS)):
            assert cells_of(completed, j) == cells_of(reference, j)


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


# ---------------------------------------------------------------------- three columns of numbers

LOADINGS = np.array([2.0, 1.0, -3.0])
NOISE = np.array([0.5, 0.8, 1.0])
CENTRE = np.array([0.0, 10.0, -5.0])
COVARIANCE = np.outer(LOADINGS, LOADINGS) + np.diag(NOISE**2)


def factor_rows(n_rows, seed):
    """Rows of a Gaussian model with one factor, complete."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(n_rows, 1))
    return CENTRE + z * LOADINGS + rng.normal(size=(n_rows, 3)) * NOISE


def with_holes(x, share, seed):
    """At random, at least one cell of each row left."""
    rng = np.random.default_rng(seed)
    missing = rng.random(x.shape) < share
    missing[missing.all(axis=1), 0] = False
    return np.where(missing, np.nan, x)


def numbers(n_rows=33, share=0.15, seed=1):
    """At most 99 cells: the model of this table stays linear."""
    return pd.DataFrame(with_holes(factor_rows(n_rows, seed), share, seed), columns=list("abc"))


@pytest.fixture(scope="module")
def linear():
    frame = numbers()
    return frame, make().fit(frame)


@pytest.fixture(scope="module")
def trained():
    """A deep model, trained for a few steps."""
    frame = pd.DataFrame(with_holes(factor_rows(600, 2), 0.15, 2), columns=list("abc"))
    return frame, make(max_steps=60, n_imputation_samples=500).fit(frame)


def same_bits(left, right):
    left, right = np.asarray(left), np.asarray(right)
    return (
        left.dtype == right.dtype
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_arrays_keep_their_precision(dtype):
    x = numbers().to_numpy(dtype=dtype)
    before = x.copy()
    out = make().fit_transform(x)
    assert type(out) is np.ndarray
    assert out.dtype == dtype
    assert out.shape == x.shape
    assert same_bits(x, before)
    assert same_bits(out[~np.isnan(x)], x[~np.isnan(x)])
    assert np.isfinite(out).all()


def test_imputations_beat_the_column_mean(linear):
    frame, imputer = linear
    truth = factor_rows(33, 1)
    holes = frame.isna().to_numpy()
    error = np.mean((imputer.transform(frame).to_numpy() - truth)[holes] ** 2)
    crude = np.mean((frame.mean().to_numpy() - truth)[holes] ** 2)
    assert error < 0.5 * crude


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


def test_output_in_pandas_from_pyarrow(linear):
    frame, _ = linear
    table = pa.Table.from_pandas(frame, preserve_index=False)
    out = make().set_output(transform="pandas").fit_transform(table)
    assert list(out.columns) == list("abc")


def test_an_imputer_that_is_not_fitted_says_so(tmp_path):
    for method in ("transform", "sample", "interval", "score_samples", "diagnostics"):
        with pytest.raises(NotFittedError):
            getattr(make(), method)(numbers())
    with pytest.raises(NotFittedError):
        make().save(tmp_path / "x")
    assert list(tmp_path.iterdir()) == []


# ---------------------------------------------------------------------- kinds


def test_counts_stay_counts():
    rng = np.random.default_rng(0)
    visits = rng.negative_binomial(1, 0.25, size=30).astype(float)
    frame = pd.DataFrame({"visits": visits, "y": visits + rng.normal(size=30)})
    frame.loc[:4, "visits"] = np.nan
    imputer = make().fit(frame)
    assert imputer.schema_.columns[0].kind == "count"
    for copy_ in [imputer.transform(frame), *imputer.sample(frame, 5)]:
        filled = copy_.loc[:4, "visits"]
        assert (filled == np.rint(filled)).all()
        assert (filled >= 0).all()


@pytest.fixture(scope="module")
def ratings():
    """A number, and what people make of it: stars in halves, and yes or no as -0.7 and 1.4."""
    rng = np.random.default_rng(0)
    quality = rng.normal(size=400)
    stars = np.clip(np.rint(quality + 0.5 * rng.normal(size=400)) / 2, -1, 1) + 2
    choice = np.where(quality + 0.5 * rng.normal(size=400) > 0.4, 1.4, -0.7)
    truth = pd.DataFrame({"quality": quality, "stars": stars, "choice": choice})
    frame = truth.mask(rng.random(truth.shape) < 0.2)
    return truth, frame, make(max_steps=300).fit(frame)


def test_numbers_that_take_few_values_get_means_and_are_drawn_as_they_are(ratings):
    truth, frame, imputer = ratings
    reasons = [known.reason for known in imputer.schema_.columns[1:]]
    assert reasons == [
        "all observed numbers are above 0, from 1 to 3; modelled by its 5 values",
        "numbers from -0.7 to 1.4; modelled by its 2 values",
    ]
    filled, copies = imputer.transform(frame), imputer.sample(frame, 20)
    drawn = np.stack([copy[["stars", "choice"]] for copy in copies])
    for j, name in enumerate(("stars", "choice")):
        hole = frame[name].isna()
        values = np.unique(truth[name])
        # Means lie between the values, draws at them.
        assert filled[name][hole].between(values[0], values[-1]).all()
        assert (~filled[name][hole].isin(values)).mean() > 0.9
        assert np.isin(drawn[:, :, j], values).all()
        # Draws scatter around the mean, within five standard errors for nearly all cells.
        error = drawn[:, hole, j].std(0) / np.sqrt(20) + 0.05
        distance = np.abs(drawn[:, hole, j].mean(0) - filled[name][hole])
        assert (distance < 5 * error).mean() > 0.98
        squared = np.mean((filled[name] - truth[name])[hole] ** 2)
        assert squared < 0.8 * np.mean((frame[name].mean() - truth[name])[hole] ** 2)


def test_other_values_in_a_column_of_few_need_no_other_program(ratings):
    _, frame, imputer = ratings
    imputer.transform(frame)  # whichever test comes first
    other = frame.assign(stars=1.7 * frame["stars"], choice=-frame["choice"])
    compiled = []

    def listen(event, _, **__):
        compiled.append(event)

    jax.monitoring.register_event_duration_secs_listener(listen)
    try:
        make(max_steps=300).fit(other).transform(other)
    finally:
        jax.monitoring.unregister_event_duration_listener(listen)
    assert not [event for event in compiled if "backend_compile" in event]


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


def test_numbers_that_take_few_values_survive_a_file_and_other_values(ratings, tmp_path):
    _, frame, imputer = ratings
    imputer.save(tmp_path / "model")
    again = MIWAEImputer.load(tmp_path / "model")
    assert again.schema_ == imputer.schema_
    new = frame.iloc[:6].assign(choice=[0.2, 9.0, NAN, -0.7, 1.4, -5.0])
    told = (
        r"column 'choice': the value 0.2 was not seen in fitting \(3 such cells\): kept in the "
        r"table, taken for the nearest known value by the model"
    )
    with pytest.warns(DataWarning, match=told):
        filled = again.transform(new)
    with pytest.warns(DataWarning, match=told):
        assert same_bits(filled, imputer.transform(new))
    assert filled["choice"][[0, 1, 5]].tolist() == [0.2, 9.0, -5.0]
    assert np.isfinite(filled.to_numpy()).all()
    # To the model it is the nearest.
    nearest = new.assign(choice=[-0.7, 1.4, NAN, -0.7, 1.4, -0.7])
    assert same_bits(filled[["quality", "stars"]], again.transform(nearest)[["quality", "stars"]])
    with pytest.warns(DataWarning, match=told):
        assert same_bits(again.score_samples(new), again.score_samples(nearest))


def test_bounds_hold_for_every_draw(linear):
    frame, _ = linear
    low, high = frame["b"].min() - 0.01, frame["b"].max() + 0.01
    top = frame["c"].max() + 0.01
    imputer = make(bounds={"b": (low, high), 2: (None, top)}).fit(frame)
    assert [column.kind for column in imputer.schema_.columns] == [
        "continuous",
        "bounded",
        "bounded",
    ]
    lower, upper = imputer.interval(frame, level=0.999)
    for copy_ in [imputer.transform(frame), lower, upper, *imputer.sample(frame, 20)]:
        assert copy_["b"].between(low, high).all()
        assert (copy_["c"] <= top).all()
    # Without the bounds some draws are outside: the bounds did something.
    free = make().fit(frame).sample(frame, 200)
    assert any(not copy_["b"].between(low, high).all() for copy_ in free)


def test_kinds_can_be_told():
    frame = pd.DataFrame(
        {
            "zip": [10, 20, 30, 10, 20, 30, 10, None, 20, 30.0],
            "size": ["S", "M", "L", "S", None, "L", "M", "S", "M", "L"],
            "name": ["ann", "bob", "ann", "bob", None, "ann", "bob", "ann", "bob", "ann"],
        }
    )
    kinds = {"zip": "categorical", "size": "ordinal:S<M<L", "name": "identifier"}
    imputer = make(column_kinds=kinds).fit(frame)
    assert [(c.kind, c.reason) for c in imputer.schema_.columns] == [
        ("categorical", "as told"),
        ("ordinal", "as told"),
        ("identifier", "as told"),
    ]
    assert imputer.schema_.columns[1].levels == ("S", "M", "L")
    completed = imputer.transform(frame)
    assert completed.loc[7, "zip"] in {10.0, 20.0, 30.0}
    assert completed.loc[4, "size"] in {"S", "M", "L"}
    assert is_missing(completed.loc[4, "name"])
    assert any("'name' is not modelled" in e and "stay missing" in e for e in imputer.events_)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"column_kinds": {"aa": "integer"}}, SettingsError, "'aa', which does not exist; did"),
        ({"column_kinds": {"zzz": "integer"}}, SettingsError, "there are a, b, c"),
        ({"column_kinds": {"a": "number"}}, SettingsError, "the kind 'number' is not one of cont"),
        ({"column_kinds": {7: "integer"}}, SettingsError, "column 7, which does not exist"),
        (
            {"column_kinds": {"a": "integer"}},
            DataError,
            r"'a' cannot be integer: .*not whole \(row",
        ),
        (
            {"column_kinds": {"a": "positive"}},
            DataError,
            r"'a' cannot be positive: .*above 0 \(row",
        ),
        ({"column_kinds": {"a": "binary"}}, DataError, "distinct values, not 2"),
        ({"column_kinds": {"a": "datetime"}}, DataError, "it does not hold times"),
        ({"column_kinds": {"a": "empty"}}, DataError, "it has observed cells"),
        ({"column_kinds": {"a": "constant"}}, DataError, "'a' cannot be constant"),
        ({"column_kinds": {"a": "ordinal:1<2"}}, SettingsError, "numbers have an order already"),
        ({"bounds": {"d": (0.0, 1.0)}}, SettingsError, "bounds names the column 'd'"),
        ({"bounds": {"a": (1.0, 0.0)}}, SettingsError, "1 is not below 0"),
        (
            {"bounds": {"a": (0.0, 1.0)}},
            DataError,
            r"column 'a' has the value .* in row \d+, outside",
        ),
        ({"n_latent": 0}, SettingsError, "n_latent"),
        ({"n_hidden": 0}, SettingsError, "n_hidden"),
        ({"n_layers": -1}, SettingsError, "n_layers"),
        ({"n_models": 0}, SettingsError, "n_models"),
        ({"n_imputation_samples": 0}, SettingsError, "n_imputation_samples"),
        ({"n_samples": 0}, SettingsError, "n_samples"),
        ({"batch_size": 0}, SettingsError, "batch_size"),
        ({"max_steps": 0}, SettingsError, "max_steps"),
        ({"max_time": 0.0}, SettingsError, "max_time must be positive or None, not 0"),
        ({"objective": "elbo"}, SettingsError, "elbo"),
        ({"device": "abacus"}, SettingsError, "device='abacus' is not available"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_fit(settings, error, message):
    with pytest.raises(error, match=message):
        make(**settings).fit(numbers())


def test_kinds_of_text_that_make_no_sense_are_refused():
    frame = pd.DataFrame({"t": ["a", "b", "c", "a", None], "x": [1.5, 2.5, 3.5, 2.0, 1.0]})
    for kind, message in (
        ("ordinal", "text has no order; give it"),
        ("continuous", "cannot be continuous: it holds text"),
        ("ordinal:a<b", "must name each of the values a, b, c once"),
    ):
        with pytest.raises(MiwaeError, match=message):
            make(column_kinds={"t": kind}).fit(frame)
    with pytest.raises(SettingsError, match="which is categorical: only columns of numbers"):
        make(bounds={"t": (0.0, 1.0)}).fit(frame)


WRONG_TYPES = """
import numpy as np
import openpyxl
from sklearn.utils import estimator_checks
from miwae import MIWAEImputer
from miwae.errors import SettingsError

estimator_checks.check_do_not_raise_errors_in_init_or_set_params("MIWAEImputer", MIWAEImputer())
x = np.array([[1.5, -2.0], [2.5, 3.0], [np.nan, 1.0], [4.0, 0.5]])
for bounds in ({0: 3}, {0: ("x", 1)}, {0: (1,)}, {0: (4, 2)}):
    try:
        MIWAEImputer(bounds=bounds).fit(x)
    except SettingsError as error:
        print(error)
for settings in ({"column_kinds": {0: 5}}, {"column_kinds": ["x0"]}, {"bounds": (0, 1)}):
    try:
        MIWAEImputer(**settings).fit(x)
    except SettingsError as error:
        print(error)
"""


def test_settings_of_the_wrong_type_are_refused():
    """In a process of its own: here the annotations themselves would refuse them."""
    run = [sys.executable, "-c", WRONG_TYPES]
    said = subprocess.run(run, check=True, timeout=120, capture_output=True, text=True).stdout
    expected = [
        "must be a pair of numbers, not 3",
        "must be a pair of numbers, not ('x', 1)",
        "must be a pair of numbers, not (1,)",
        "4 is not below 2",
        "the kind 5 is not one of continuous",
        "column_kinds must be a dictionary by column, not ['x0']",
        "bounds must be a dictionary by column, not (0, 1)",
    ]
    assert all(part in line for part, line in zip(expected, said.splitlines(), strict=True)), said


@pytest.mark.parametrize("pair", [(NAN, None), (None, NAN)])
def test_a_bound_that_is_no_number_is_refused(pair):
    with pytest.raises(SettingsError):
        make(bounds={"a": pair}).fit(numbers())


def test_a_bound_holds_in_the_precision_of_the_column():
    x = np.array([[0.1], [0.1], [0.05], [0.02], [np.nan]], dtype=np.float32)
    out = make(bounds={0: (0.0, 0.1)}).fit_transform(x)
    assert out[4, 0] <= np.float32(0.1)


# ---------------------------------------------------------------------- edge cases


def test_an_empty_column_is_dropped_or_kept(linear):
    frame = linear[0].assign(nothing=np.nan)
    dropping = make().fit(frame)
    dropped = dropping.transform(frame)
    assert list(dropped.columns) == list("abc")
    assert list(dropping.get_feature_names_out()) == list("abc")
    assert any("'nothing' has no observed cell: dropped" in event for event in dropping.events_)
    keeping = make(keep_empty_features=True).fit(frame)
    kept = keeping.transform(frame)
    assert list(kept.columns) == ["a", "b", "c", "nothing"]
    assert (kept["nothing"] == 0).all()
    assert any("'nothing' has no observed cell: kept" in event for event in keeping.events_)
    assert same_bits(kept[list("abc")], dropped)
    draws = dropping.sample(frame, 2)
    assert list(draws.complete(1).columns) == list("abc")
    assert (keeping.sample(frame, 2).complete(1)["nothing"] == 0).all()


def test_a_table_of_nothing_is_dropped_or_zero():
    x = np.full((4, 2), np.nan)
    assert make().fit_transform(x).shape == (4, 0)
    assert same_bits(make(keep_empty_features=True).fit_transform(x), np.zeros((4, 2)))
    assert same_bits(make().fit(x).score_samples(x), np.zeros(4))


def test_a_constant_column_is_filled_with_its_value(linear):
    frame = linear[0].assign(one=3.25, word="same", day=pd.Timestamp("2020-02-03"))
    frame.loc[[2, 5], ["one", "word", "day"]] = None
    imputer = make().fit(frame)
    completed = imputer.transform(frame)
    assert [c.kind for c in imputer.schema_.columns[3:]] == ["constant"] * 3
    assert (completed["one"] == 3.25).all()
    assert (completed["word"] == "same").all()
    assert (completed["day"] == pd.Timestamp("2020-02-03")).all()
    assert same_bits(completed[list("abc")], linear[1].transform(linear[0]))


def test_a_single_row():
    row = pd.DataFrame({"a": [1.5], "b": [np.nan], "c": ["x"]})
    imputer = make(keep_empty_features=True).fit(row)
    completed = imputer.transform(row)
    assert completed.to_numpy().tolist() == [[1.5, 0.0, "x"]]
    later = imputer.transform(pd.DataFrame({"a": [np.nan], "b": [2.0], "c": ["y"]}))
    assert later.to_numpy().tolist() == [[1.5, 2.0, "y"]]


def test_a_single_column_gets_its_centre():
    x = np.array([[-2.5], [-1.0], [0.25], [1.0], [2.25], [np.nan]])
    completed = make().fit_transform(x)
    assert completed[5, 0] == pytest.approx(0.0, abs=0.5)


def test_rows_with_nothing_observed_get_the_centre_of_the_table(linear):
    frame = linear[0].copy()
    frame.loc[[3, 7]] = np.nan
    imputer = make().fit(frame)
    completed = imputer.transform(frame)
    assert same_bits(completed.loc[[3]], completed.loc[[7]])
    centre = frame.mean()
    assert (abs(completed.loc[3] - centre) < 3 * frame.sem()).all()
    assert any("2 rows have no observed cell" in event for event in imputer.events_)
    assert imputer.score_samples(frame)[[3, 7]].tolist() == [0.0, 0.0]


def test_a_table_without_holes_stays_as_it_is(linear):
    complete = pd.DataFrame(factor_rows(20, 5), columns=list("abc"))
    imputer = linear[1]
    pd.testing.assert_frame_equal(imputer.transform(complete), complete, check_exact=True)
    assert (imputer.diagnostics(complete).n_samples == 0).all()
    lower, upper = imputer.interval(complete)
    assert same_bits(lower, complete)
    assert same_bits(upper, complete)


def test_a_column_that_was_complete_in_fitting_may_be_missing_later():
    x = factor_rows(30, 6)
    imputer = make().fit(x)
    holes = with_holes(factor_rows(200, 7), 0.3, 7)
    completed = imputer.transform(holes)
    gone = np.isnan(holes)
    error = np.mean((completed - factor_rows(200, 7))[gone] ** 2)
    assert error < 0.5 * np.mean((x.mean(axis=0) - factor_rows(200, 7))[gone] ** 2)


def test_most_cells_missing():
    x = factor_rows(400, 8)
    rng = np.random.default_rng(8)
    holes = np.where(rng.random(x.shape) < 0.95, np.nan, x)
    assert np.isfinite(holes).sum() < 100
    completed = make().fit_transform(holes)
    assert np.isfinite(completed).all()
    # What is imputed scatters no more than what is observed.
    spread = np.nanmax(holes, axis=0) - np.nanmin(holes, axis=0)
    assert (completed.max(axis=0) - completed.min(axis=0) <= spread).all()


def test_names_that_occur_twice_are_refused():
    frame = pd.DataFrame(factor_rows(5, 0), columns=["a", "b", "a"])
    with pytest.raises(DataError, match="two columns are named 'a'"):
        make().fit(frame)


@pytest.mark.parametrize("x", [np.empty((0, 3)), np.empty((3, 0)), pd.DataFrame({"a": []})])
def test_tables_without_cells_are_refused(x):
    with pytest.raises(ValueError, match="minimum of 1 is required"):
        make().fit(x)


@pytest.fixture(scope="module")
def words():
    """Text of three levels, and a number that depends on it; of 40 rows, it is shrunk too much."""
    rng = np.random.default_rng(3)
    code = rng.integers(3, size=120)
    frame = pd.DataFrame({"word": np.array(["a", "b", "c"])[code], "x": 4.0 * code})
    frame["x"] += rng.normal(size=120)
    frame.loc[:2, "word"] = None
    frame.loc[5:6, "x"] = np.nan
    return frame, make().fit(frame)


def test_categories_follow_the_numbers(words):
    _, imputer = words
    new = pd.DataFrame({"word": pd.Series([None] * 3, dtype="str"), "x": [0.0, 4.0, 8.0]})
    assert imputer.transform(new)["word"].tolist() == ["a", "b", "c"]
    back = imputer.transform(pd.DataFrame({"word": ["a", "b", "c"], "x": [np.nan] * 3}))
    assert back["x"].to_numpy() == pytest.approx([0.0, 4.0, 8.0], abs=1.5)


def test_unseen_categories_are_kept_and_told(words):
    _, imputer = words
    imputer = copy.deepcopy(imputer)
    new = pd.DataFrame({"word": ["zebra", "a", "zebra"], "x": [np.nan, np.nan, 1.0]})
    message = r"column 'word': the value zebra was not seen in fitting \(2 such cells\)"
    with pytest.warns(DataWarning, match=message):
        completed = imputer.transform(new)
    assert completed["word"].tolist() == ["zebra", "a", "zebra"]
    assert any("zebra" in event for event in imputer.events_)
    # To the model the unseen one is missing.
    missing = new.assign(word=pd.Series([None, "a", None], dtype="str"))
    assert completed.loc[0, "x"] == imputer.transform(missing).loc[0, "x"]
    with pytest.warns(DataWarning):
        imputer.transform(new)
    assert sum("zebra" in event for event in imputer.events_) == 1


def test_numbers_outside_the_given_bounds_are_kept_and_told(linear, tmp_path):
    frame = linear[0]
    make(bounds={"a": (-99.0, 99.0)}).fit(frame).save(tmp_path / "model")
    imputer = MIWAEImputer.load(tmp_path / "model")
    new = frame.head(2).assign(a=[100.0, 99.0], b=np.nan)
    message = r"column 'a': the value 100 is outside its bounds \(-99.0, 99.0\) \(1 such cell\)"
    with pytest.warns(DataWarning, match=message):
        completed = imputer.transform(new)
    assert completed["a"].tolist() == [100.0, 99.0]
    assert any("outside its bounds" in event for event in imputer.events_)
    # To the model it is missing.
    missing = new.assign(a=[np.nan, 99.0])
    assert completed["b"].tolist() == imputer.transform(missing)["b"].tolist()


def test_absent_categories_are_no_problem(words):
    frame, imputer = words
    only = frame[frame["word"] == "b"].assign(x=np.nan)
    assert imputer.transform(only)["x"].notna().all()
    as_category = only.assign(word=only["word"].astype("category"))
    assert same_bits(imputer.transform(as_category)["x"], imputer.transform(only)["x"])


def test_categories_that_a_few_rows_lack_are_added_whichever_is_imputed(words):
    _, imputer = words
    for cells, x in (([None, "b"], [8.0, 1.0]), ([None, "b"], [0.0, 1.0]), ([None], [8.0])):
        new = pd.DataFrame({"word": pd.Series(cells, dtype="category"), "x": x})
        completed = imputer.transform(new)["word"]
        declared = new["word"].cat.categories.tolist()
        added = [level for level in ("a", "b", "c") if level not in declared]
        assert completed.cat.categories.tolist() == declared + added
        assert completed.iloc[0] == ("c" if x[0] == 8.0 else "a")


def test_a_category_without_a_place_in_the_order_is_named(words):
    _, imputer = words
    declared = pd.CategoricalDtype(["a", "b"], ordered=True)
    new = pd.DataFrame({"word": pd.Series([None], dtype=declared), "x": [8.0]})
    with pytest.raises(DataError, match="'c' is not among the categories of column 'word'"):
        imputer.transform(new)


@pytest.mark.parametrize(
    "row",
    [
        pd.DataFrame([{"word": float("nan"), "x": 8.0}]),
        pd.DataFrame([{"word": None, "x": 8.0}]),
        pl.DataFrame([{"word": None, "x": 8.0}]),
        pa.table({"word": pa.nulls(1), "x": [8.0]}),
    ],
    ids=["floats", "objects", "polars", "pyarrow"],
)
def test_a_row_without_a_word_is_completed_whatever_its_type(words, row):
    _, imputer = words
    assert list(imputer.transform(row)["word"]) in (["c"], [pa.scalar("c")])
    told = any("'word' has no value here, and its type" in event for event in imputer.events_)
    assert told or (isinstance(row, pd.DataFrame) and row["word"].dtype == object)


def test_words_are_not_added_to_categories_that_are_numbers(words):
    _, imputer = words
    new = pd.DataFrame({"word": pd.Categorical([1, None]), "x": [4.0, 8.0]})
    with pytest.warns(DataWarning), pytest.raises(DataError, match="'c' is not among the categor"):
        imputer.transform(new)


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow"])
def test_numbers_and_times_without_a_type_are_completed(library):
    days = pd.Series(pd.date_range("2024-01-01", periods=40, freq="D"))
    frame = pd.DataFrame({"t": days.where(days.index % 4 > 0), "x": np.arange(40.0)})
    imputer = make().fit(frame)
    row = {
        "pandas": pd.DataFrame({"t": [None], "x": [None]}),
        "polars": pl.DataFrame({"t": [None], "x": [None]}),
        "pyarrow": pa.table({"t": pa.nulls(1), "x": pa.nulls(1)}),
    }[library]
    completed = imputer.transform(row)
    frame_out = completed if library == "pandas" else completed.to_pandas()
    assert frame_out.notna().all(axis=None)
    assert abs((frame_out["t"].iloc[0] - days.mean()).days) < 10


def test_what_a_masked_array_masks_is_missing():
    rows = np.array([[1, 2], [-999, 4], [5, 6]] * 20)
    completed = make().fit_transform(np.ma.masked_equal(rows, -999))
    plain = make().fit_transform(np.where(rows == -999, np.nan, rows))
    assert np.array_equal(completed, plain)


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


def test_a_fit_that_is_interrupted_leaves_the_imputer_as_it_was(words, monkeypatch):
    frame, _ = words

    def interrupted(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr("miwae.imputer.fit_model", interrupted)
    new = make()
    with pytest.raises(KeyboardInterrupt):
        new.fit(frame)
    with pytest.raises(NotFittedError):
        new.transform(frame)


@pytest.mark.parametrize(
    ("word", "x", "message"),
    [
        ([1.0, 2.0], [0.5, 0.5], "'word' was learned as categorical from text, but now holds num"),
        (
            ["a", "b"],
            ["p", "q"],
            r"'x' was learned as \w+ from number, but now holds text .*such as '?p",
        ),
    ],
)
def test_another_type_than_learned_is_refused(words, word, x, message):
    with pytest.raises(DataError, match=message):
        words[1].transform(pd.DataFrame({"word": word, "x": x}))


def test_an_empty_column_of_another_type_is_named(words):
    with pytest.raises(DataError, match="'word' was learned as categorical from text"):
        words[1].transform(pd.DataFrame({"word": pd.array([None], "Float64"), "x": [8.0]}))


def test_names_of_things_stay_missing_and_that_is_told():
    frame = numbers(30)[["a", "b"]].assign(name=[f"person {i}" for i in range(30)])
    frame.loc[[4, 9], "name"] = None
    imputer = make().fit(frame)
    completed = imputer.transform(frame)
    assert completed["name"].isna().sum() == 2
    assert completed["name"].dropna().equals(frame["name"].dropna())
    assert completed[["a", "b"]].notna().all(axis=None)
    event = "column 'name' is not modelled: its 2 missing cells stay missing"
    assert any(event in told for told in imputer.events_)
    assert imputer.sample(frame, 2).complete(1)["name"].isna().sum() == 2


def test_names_that_are_missing_later_are_told():
    frame = numbers(30)[["a", "b"]].assign(name=[f"person {i}" for i in range(30)])
    imputer = make().fit(frame)
    n_events = len(imputer.events_)
    with pytest.warns(DataWarning, match="'name'"):
        imputer.transform(frame.assign(name=pd.Series([None] * 30, dtype="str")))
    assert any("'name'" in event for event in imputer.events_[n_events:])


def test_values_that_are_not_finite_are_refused(linear):
    frame, imputer = linear
    row = int(np.flatnonzero(frame["b"].notna())[2])
    wild = frame.copy()
    wild.loc[row, "b"] = -np.inf
    for method in (make().fit, imputer.transform, imputer.sample, imputer.score_samples):
        with pytest.raises(DataError, match=f"'b' has the value -inf in row {row}: only finite"):
            method(wild)
    declared = make(missing_values=[-np.inf]).fit_transform(wild)
    assert np.isfinite(declared.to_numpy()).all()


def test_one_wild_column_does_not_spoil_the_others():
    rng = np.random.default_rng(4)
    truth = factor_rows(30, 9)[:, :2]
    wild = rng.standard_cauchy(30) * 10.0 ** rng.uniform(0, 6, 30)
    frame = pd.DataFrame({"a": truth[:, 0], "b": truth[:, 1], "wild": wild})
    frame.loc[:4, "b"] = np.nan
    frame.loc[8:10, "wild"] = np.nan
    imputer = make().fit(frame)
    transform = imputer.schema_.columns[2].transform
    assert transform is not None
    assert transform.shape == "asinh"
    completed = imputer.transform(frame)
    crude = np.mean((frame["b"].mean() - truth[:5, 1]) ** 2)
    assert np.mean((completed.loc[:4, "b"] - truth[:5, 1]) ** 2) < crude
    # An observed value far outside what was fitted does not break its neighbours either.
    extreme = pd.DataFrame({"a": [1.0], "b": [np.nan], "wild": [1e300]})
    seen = frame["b"].dropna()
    reach = seen.max() - seen.min()
    assert seen.min() - reach < imputer.transform(extreme).loc[0, "b"] < seen.max() + reach


@pytest.mark.long
def test_a_thousand_levels():
    rng = np.random.default_rng(5)
    levels = [f"level {i}" for i in range(1000)]
    frame = pd.DataFrame({"k": np.repeat(levels, 2), "x": rng.normal(size=2000)})
    frame.loc[::50, "k"] = None
    frame["k"] = frame["k"].astype("category")
    sizes = {"n_latent": 2, "n_hidden": 4, "n_imputation_samples": 20, "n_samples": 1}
    imputer = make(max_steps=1, early_stopping=False, **sizes).fit(frame)
    assert imputer.schema_.columns[0].kind == "categorical"
    assert len(imputer.schema_.columns[0].levels) == frame["k"].nunique()
    completed = imputer.transform(frame.iloc[:60])
    assert completed["k"].notna().all()
    assert completed["k"].dtype == frame["k"].dtype


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


@pytest.mark.parametrize("marks", [[-999, "?"], (-999.0, "?"), {-999, "?"}])
def test_several_values_can_mean_missing(marks):
    frame = pd.DataFrame(
        {
            "a": [1.5, 2.5, -999, 4.5, 3.0, 2.0],
            "b": ["p", "?", "q", "p", None, "q"],
            "c": [1, 2, 3, 4, -999, 6],
        }
    )
    completed = make(missing_values=marks).fit_transform(frame)
    assert (completed["a"] > 0).all()
    assert set(completed["b"]) == {"p", "q"}
    assert (completed["c"] > 0).all()
    assert list(completed.dtypes) == list(frame.dtypes)


# ---------------------------------------------------------------------- determinism


def test_the_same_seed_gives_the_same_bits(linear):
    frame, imputer = linear
    again = make().fit(frame)
    assert same_bits(again.transform(frame), imputer.transform(frame))
    assert same_bits(again.score_samples(frame), imputer.score_samples(frame))
    for left, right in zip(again.sample(frame, 3), imputer.sample(frame, 3), strict=True):
        assert same_bits(left, right)
    other = make(random_state=1).fit(frame)
    assert not same_bits(other.sample(frame, 1).complete(1), imputer.sample(frame, 1).complete(1))


@pytest.mark.parametrize("which", ["linear", "trained"])
def test_neither_order_nor_neighbours_change_a_bit(which, request):
    frame, imputer = request.getfixturevalue(which)
    frame = frame.iloc[:64]
    completed = imputer.transform(frame)
    rng = np.random.default_rng(0)
    order = rng.permutation(len(frame))
    assert same_bits(imputer.transform(frame.iloc[order]), completed.iloc[order])
    subset = rng.choice(len(frame), 9, replace=False)
    assert same_bits(imputer.transform(frame.iloc[subset]), completed.iloc[subset])
    row = int(np.flatnonzero(frame.isna().any(axis=1))[0])
    assert same_bits(imputer.transform(frame.iloc[[row]]), completed.iloc[[row]])
    scores = imputer.score_samples(frame)
    assert same_bits(imputer.score_samples(frame.iloc[order]), scores[order])
    lower, upper = imputer.interval(frame)
    lower_, upper_ = imputer.interval(frame.iloc[order])
    assert same_bits(lower_, lower.iloc[order])
    assert same_bits(upper_, upper.iloc[order])


def test_mixed_rows_alone_get_the_same_bits():
    frame, imputer, completed = completed_of("pandas, nullable")
    for row in (1, 3, 10):
        pd.testing.assert_frame_equal(
            imputer.transform(frame.iloc[[row]]), completed.iloc[[row]], check_exact=True
        )


# ---------------------------------------------------------------------- uncertainty


def test_copies_agree_where_observed_and_differ_elsewhere(linear):
    frame, imputer = linear
    draws = imputer.sample(frame, 4)
    assert isinstance(draws, MultiplyImputed)
    assert len(draws) == 4
    pd.testing.assert_frame_equal(draws.complete(0), frame, check_exact=True)
    copies = np.stack([copy_.to_numpy() for copy_ in draws])
    holes = frame.isna().to_numpy()
    assert np.isfinite(copies).all()
    assert same_bits(copies[:, ~holes], np.repeat(frame.to_numpy()[~holes][None], 4, axis=0))
    assert (np.ptp(copies[:, holes], axis=0) > 0).all()
    again = np.stack([copy_.to_numpy() for copy_ in imputer.sample(frame, 4)])
    assert same_bits(again, copies)


def test_equal_rows_get_their_own_draws(linear):
    _, imputer = linear
    twins = pd.DataFrame([[1.0, np.nan, np.nan]] * 3, columns=list("abc"))
    completed = imputer.transform(twins)
    assert same_bits(completed.iloc[[0]], completed.iloc[[2]])
    drawn = imputer.sample(twins, 1).complete(1)["b"]
    assert drawn.nunique() == 3


@pytest.mark.parametrize("n", [0, -1])
def test_at_least_one_copy_is_drawn(linear, n):
    with pytest.raises(SettingsError, match="n_imputations"):
        linear[1].sample(linear[0], n)


def test_draws_scatter_around_the_imputation(trained):
    _, imputer = trained
    rows = pd.DataFrame(with_holes(factor_rows(30, 11), 0.5, 11), columns=list("abc"))
    holes = rows.isna().to_numpy()
    n = 100
    copies = np.stack([c.to_numpy()[holes] for c in imputer.sample(rows, n)])
    error = copies.std(axis=0) / np.sqrt(n)
    z = (copies.mean(axis=0) - imputer.transform(rows).to_numpy()[holes]) / error
    # Both have Monte Carlo errors; those of the draws' mean are the larger ones.
    assert np.sqrt(np.mean(z**2)) < 2
    assert np.abs(z).max() < 5


def test_draws_have_the_variance_of_the_model(trained):
    """Var(x_b | x_a) of the Gaussian model, in closed form."""
    _, imputer = trained
    rows = pd.DataFrame([[0.5, np.nan, np.nan]], columns=list("abc"))
    drawn = imputer.sample(rows, 100)
    spread = np.std([copy_.loc[0, "b"] for copy_ in drawn])
    exact = np.sqrt(COVARIANCE[1, 1] - COVARIANCE[0, 1] ** 2 / COVARIANCE[0, 0])
    assert spread == pytest.approx(exact, rel=0.3)


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


def test_the_expectation_of_a_linear_function(trained):
    _, imputer = trained
    rows = pd.DataFrame(with_holes(factor_rows(30, 13), 0.4, 13), columns=list("abc"))
    weights = np.array([1.0, 2.0, -1.0])
    answer = imputer.expectation(rows, lambda frame: frame.to_numpy() @ weights)
    copies = np.stack([c.to_numpy() @ weights for c in imputer.sample(rows, 100)])
    np.testing.assert_allclose(answer, copies.mean(axis=0), rtol=1e-12)
    error = copies.std(axis=0) / 10
    exact = imputer.transform(rows).to_numpy() @ weights
    incomplete = rows.isna().any(axis=1).to_numpy()
    assert (np.abs(answer - exact)[incomplete] < 5 * error[incomplete]).all()
    np.testing.assert_allclose(answer[~incomplete], exact[~incomplete], rtol=1e-12)
    vectors = imputer.expectation(rows, lambda frame: frame, n_imputations=3)
    assert vectors.shape == (30, 3)


@pytest.mark.parametrize("h", [lambda f: 1.0, lambda f: f.to_numpy()[:-1], lambda f: f.T])
def test_a_function_that_is_not_of_rows_is_refused(linear, h):
    with pytest.raises(DataError, match="h must return one value for each of the 33 rows"):
        linear[1].expectation(linear[0], h, n_imputations=2)


def gaussian_log_density(x):
    out = np.zeros(len(x))
    for i, row in enumerate(x):
        seen = np.flatnonzero(~np.isnan(row))
        block = COVARIANCE[np.ix_(seen, seen)]
        out[i] = stats.multivariate_normal(CENTRE[seen], block).logpdf(row[seen])
    return out


def test_scores_are_log_densities_in_the_units_of_the_table(trained):
    """Against the truth: 600 rows estimate 9 parameters, about 0.01 nats a row too few."""
    _, imputer = trained
    x = with_holes(factor_rows(400, 14), 0.2, 14)
    scores = imputer.score_samples(pd.DataFrame(x, columns=list("abc")))
    exact = gaussian_log_density(x)
    assert np.mean(scores) == pytest.approx(np.mean(exact), abs=0.1)
    assert np.sqrt(np.mean((scores - exact) ** 2)) < 0.4
    assert imputer.score(pd.DataFrame(x, columns=list("abc"))) == pytest.approx(scores.mean())


@pytest.mark.parametrize(("factor", "tolerance"), [(8.0, 1e-5), (10.0, 0.05)])
def test_a_change_of_units_changes_scores_by_its_logarithm(linear, factor, tolerance):
    """A power of two changes no bit of the standardised table; ten changes the random numbers."""
    frame, imputer = linear
    scaled = frame.assign(a=frame["a"] * factor)
    difference = make().fit(scaled).score_samples(scaled) - imputer.score_samples(frame)
    expected = np.where(frame["a"].isna(), 0.0, -np.log(factor))
    np.testing.assert_allclose(difference, expected, atol=tolerance)


def test_several_models(linear):
    frame, single = linear
    imputer = make(n_models=2).fit(frame)
    assert len(imputer.models_) == 2
    completed = imputer.transform(frame)
    holes = frame.isna()
    assert same_bits(completed.to_numpy()[~holes.to_numpy()], frame.to_numpy()[~holes.to_numpy()])
    assert completed.notna().all(axis=None)
    order = np.random.default_rng(1).permutation(len(frame))
    assert same_bits(imputer.transform(frame.iloc[order]), completed.iloc[order])
    draws = imputer.sample(frame, 5)
    assert len(draws) == 5
    copies = np.stack([copy_.to_numpy() for copy_ in draws])
    assert np.isfinite(copies).all()
    assert (np.ptp(copies[:, holes.to_numpy()], axis=0) > 0).all()
    # A mixture of two models of the same rows: its density is near that of one of all rows.
    assert imputer.score(frame) == pytest.approx(single.score(frame), abs=0.5)
    report = imputer.diagnostics(frame)
    assert report.n_samples.max() <= 2 * 2 * CHEAP["n_imputation_samples"]


def test_models_see_all_rows_unless_they_are_bootstrapped(linear):
    frame, _ = linear
    observed = frame.notna().to_numpy()
    everything = np.arange(len(frame))
    plain, bootstrapped = make(n_models=2), make(n_models=2, bootstrap=True)
    plain.seed_ = bootstrapped.seed_ = 0
    for member in range(2):
        assert np.array_equal(plain._rows_of(member, observed), everything)
        rows = bootstrapped._rows_of(member, observed)
        assert len(rows) == len(frame)
        # A row is left out with probability 1/e.
        assert len(np.unique(rows)) == pytest.approx((1 - np.exp(-1)) * len(frame), rel=0.15)
    first, second = (bootstrapped._rows_of(member, observed) for member in range(2))
    assert not np.array_equal(first, second)


def test_a_bootstrap_sample_is_one_also_where_columns_are_many():
    rng = np.random.default_rng(0)
    observed = rng.random((50, 400)) < 0.05
    observed[0] = True
    bootstrapped = make(bootstrap=True)
    shares = []
    for seed in range(40):
        bootstrapped.seed_ = seed
        rows = bootstrapped._rows_of(0, observed)
        assert observed[rows].any(axis=0).all()
        shares.append(len(np.unique(rows)) / 50)
    assert np.mean(shares) < 0.75  # 0.632, and what columns that no row showed add to it


def test_several_models_trained_side_by_side_are_those_trained_alone(trained, monkeypatch):
    frame, _ = trained
    options = {"n_models": 2, "bootstrap": True, "max_steps": 20}
    imputer = make(**options).fit(frame)
    alone = lambda tasks: [task(lambda: None) for task in tasks]  # noqa: E731
    monkeypatch.setattr("miwae.imputer.side_by_side", alone)
    one_by_one = make(**options).fit(frame)
    weights = lambda model: jax.tree.leaves(eqx.filter(model.autoencoder, eqx.is_array))  # noqa: E731
    for left, right in zip(imputer.models_, one_by_one.models_, strict=True):
        assert left.history[-1].step == 20
        assert all(map(np.array_equal, weights(left), weights(right)))
    first, second = (weights(model) for model in imputer.models_)
    assert not all(map(np.array_equal, first, second))


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


def test_diagnostics_of_rows(linear):
    frame, imputer = linear
    report = imputer.diagnostics(frame)
    incomplete = frame.isna().any(axis=1).to_numpy()
    assert report._fields == ("n_samples", "effective_sample_size", "pareto_k", "smoothed")
    assert all(len(values) == len(frame) for values in report)
    assert (report.n_samples[~incomplete] == 0).all()
    assert (report.n_samples[incomplete] > 0).all()
    assert np.isnan(report.effective_sample_size[~incomplete]).all()
    assert (report.effective_sample_size[incomplete] >= 1).all()
    assert (
        report.effective_sample_size[incomplete] <= report.n_samples[incomplete] * (1 + 1e-6)
    ).all()
    assert report.smoothed.dtype == bool
    assert not report.smoothed[~incomplete].any()


# ---------------------------------------------------------------------- learning in batches


def batch(n_rows, seed, shift=0.0):
    x = with_holes(factor_rows(n_rows, seed), 0.1, seed) + shift
    return pd.DataFrame(x, columns=list("abc"))


@pytest.fixture(scope="module")
def stream(tmp_path_factory):
    """An imputer that has seen one batch, and the same from a file."""
    path = tmp_path_factory.mktemp("stream") / "model"
    imputer = make().partial_fit(batch(30, 20))
    imputer.save(path)
    return imputer, path


def test_batches_are_learned_from(stream):
    """The first batch decides on the scale; the distribution of later ones is learned."""
    imputer = copy.deepcopy(stream[0])
    held_out = batch(200, 99, shift=2.0)
    scores = [imputer.score(held_out)]
    first_schema = imputer.schema_
    for seed in range(6):
        imputer.partial_fit(batch(1280, 100 + seed, shift=2.0))
        scores.append(imputer.score(held_out))
    assert imputer.schema_ == first_schema
    assert scores[-1] > scores[0] + 0.5
    assert scores[-1] > scores[3] > scores[0]


def test_going_on_after_loading_is_going_on(stream):
    imputer, path = copy.deepcopy(stream[0]), stream[1]
    loaded = MIWAEImputer.load(path)
    later, rows = batch(64, 21), batch(40, 22)
    assert same_bits(loaded.transform(rows), imputer.transform(rows))
    before = imputer.transform(rows)
    imputer.partial_fit(later)
    loaded.partial_fit(later)
    assert not same_bits(imputer.transform(rows), before)
    assert same_bits(loaded.transform(rows), imputer.transform(rows))
    assert same_bits(loaded.score_samples(rows), imputer.score_samples(rows))


def test_batches_with_nothing_new(stream):
    imputer = copy.deepcopy(stream[0])
    rows = batch(10, 23)
    before = imputer.transform(rows)
    imputer.partial_fit(rows * np.nan)
    assert same_bits(imputer.transform(rows), before)
    with pytest.raises(ValueError, match="feature names should match"):
        imputer.partial_fit(rows[["a", "b"]])
    with pytest.raises(DataError, match="was learned as continuous"):
        imputer.partial_fit(rows.assign(a="text"))


def test_batches_with_unseen_categories(words):
    imputer = copy.deepcopy(words[1])
    levels = imputer.schema_.columns[0].levels
    new = pd.DataFrame({"word": ["new", "a", "b", "c"], "x": [1.0, 0.1, 4.1, 8.1]})
    with pytest.warns(DataWarning, match="the value new was not seen"):
        imputer.partial_fit(new)
    assert imputer.schema_.columns[0].levels == levels
    rows = pd.DataFrame({"word": pd.Series([None], dtype="str"), "x": [8.0]})
    assert imputer.transform(rows).loc[0, "word"] == "c"


# ---------------------------------------------------------------------- among other estimators


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


# ---------------------------------------------------------------------- files

IN_A_NEW_PROCESS = """
import sys
import numpy as np
import openpyxl
import pandas as pd
from miwae import MIWAEImputer

model, rows, out = sys.argv[1:]
rows = pd.read_pickle(rows)
imputer = MIWAEImputer.load(model)
assert "torch" not in sys.modules
np.savez(
    out,
    transform=imputer.transform(rows).to_numpy(),
    sample=imputer.sample(rows, 2).complete(2).to_numpy(),
)
"""


def test_a_new_process_imputes_the_same_bits(trained, tmp_path):
    frame, imputer = trained
    rows = frame.iloc[:40]
    imputer.save(tmp_path / "model")
    rows.to_pickle(tmp_path / "rows")
    names = [str(tmp_path / name) for name in ("model", "rows", "out.npz")]
    subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS, *names], check=True, timeout=120)
    with np.load(tmp_path / "out.npz") as there:
        assert same_bits(there["transform"], imputer.transform(rows))
        assert same_bits(there["sample"], imputer.sample(rows, 2).complete(2))


def test_everything_is_restored(trained, tmp_path):
    frame, imputer = trained
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert repr(loaded.get_params()) == repr(imputer.get_params())
    assert loaded.schema_ == imputer.schema_
    assert loaded.events_ == imputer.events_
    assert repr(loaded.history_) == repr(imputer.history_)
    assert len(loaded.history_) > 0
    assert loaded.settings_ == imputer.settings_
    assert loaded.n_features_in_ == 3
    assert list(loaded.feature_names_in_) == list("abc")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_mixed_columns_survive_a_file(tmp_path):
    for name in ("pandas, numpy's types", "pandas, nullable", "numpy, objects"):
        frame, imputer, completed = completed_of(name)
        imputer.save(tmp_path / "model")
        loaded = MIWAEImputer.load(tmp_path / "model")
        assert loaded.schema_ == imputer.schema_
        again = loaded.transform(frame)
        assert types_of(again) == types_of(completed)
        for j in range(len(COLUMNS)):
            assert repr(cells_of(again, j)) == repr(cells_of(completed, j))


def test_any_name_and_any_setting_survives_a_file(linear, tmp_path):
    names = ["../../x", 'quote " and \n line', "naïve ☃ \x00"]
    frame = linear[0].set_axis(names, axis=1).assign(code=pd.Categorical([7] * 33))
    settings = {
        "column_kinds": {"../../x": "continuous"},
        "bounds": {names[1]: (None, np.float64(99))},
        "missing_values": [np.nan, -np.inf, "?", None],
        "add_indicator": True,
    }
    imputer = make(**settings).fit(frame)
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert list(loaded.feature_names_in_) == [*names, "code"]
    assert repr(loaded.missing_values) == repr(settings["missing_values"])
    assert loaded.bounds == settings["bounds"]
    pd.testing.assert_frame_equal(
        loaded.transform(frame), imputer.transform(frame), check_exact=True
    )
    assert [file.name for file in tmp_path.rglob("*")] == ["model"]


def test_an_imputer_without_a_model_survives_a_file(tmp_path):
    frame = pd.DataFrame({"a": [2.5, np.nan], "b": ["x", None]})
    make().fit(frame).save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert loaded.transform(frame).to_numpy().tolist() == [[2.5, "x"], [2.5, "x"]]


@pytest.mark.parametrize("marks", [{-1, -9}, np.array([-1, -9]), pd.NA])
def test_every_kind_of_missing_values_survives_a_file(linear, tmp_path, marks):
    make(missing_values=marks).fit(linear[0]).save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert same_bits(loaded.transform(linear[0]), linear[1].transform(linear[0]))


def test_categories_that_are_no_text_are_refused(tmp_path):
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"] * 4)
    frame = pd.DataFrame({"day": pd.Categorical(days), "x": np.arange(12) ** 1.5})
    imputer = make().fit(frame)
    with pytest.raises(DataError, match="cannot save Timestamp.*must be text, numbers or bool"):
        imputer.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written(linear, tmp_path):
    imputer = linear[1]
    for path in (tmp_path / "absent" / "model", tmp_path):
        with pytest.raises(MiwaeError, match="cannot write"):
            imputer.save(path)
    protected = tmp_path / "protected"
    protected.write_bytes(b"precious")
    protected.chmod(0o444)
    if not os.access(protected, os.W_OK):  # root may write everywhere
        with pytest.raises(MiwaeError, match="read-only"):
            imputer.save(protected)
        assert protected.read_bytes() == b"precious"
    assert [file.name for file in tmp_path.iterdir()] == ["protected"]


@pytest.fixture(scope="module")
def saved(linear, tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    linear[1].save(path)
    return path.read_bytes()


def parts_of(data):
    """The table of arrays with the metadata, and the bytes of the arrays."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(table, body):
    head = json.dumps(table).encode()
    return len(head).to_bytes(8, "little") + head + body


def edited(data, edit, *, padding=0):
    """The file with another header, which `edit` changes in place or returns."""
    table, body = parts_of(data)
    header = json.loads(table["__metadata__"]["header"])
    header = edit(header) or header
    text = header if isinstance(header, str) else json.dumps(header)
    table["__metadata__"]["header"] = text + " " * padding
    return joined(table, body)


def setting(name, value):
    def edit(header):
        pairs = header["parameters"]["dict"]
        header["parameters"]["dict"] = [[k, value if k == name else v] for k, v in pairs]

    return edit


def fitted_value(name, value):
    def edit(header):
        pairs = header["fitted"]["dict"]
        header["fitted"]["dict"] = [[k, value if k == name else v] for k, v in pairs]

    return edit


def column_value(name, value):
    def edit(header):
        pairs = header["schema"][0]["dict"]
        header["schema"][0]["dict"] = [[k, value if k == name else v] for k, v in pairs]

    return edit


def peak_memory():
    """Bytes that this process held at most since the last `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


def refuse(path, data, *, match=None):
    """Loading fails with the right error, soon, and without much memory."""
    path.write_bytes(data)
    measured = Path("/proc/self/clear_refs").exists()
    if measured:
        forget_peak()
    before, start = (peak_memory() if measured else 0), time.monotonic()
    with pytest.raises(FileFormatError, match=match):
        MIWAEImputer.load(path)
    assert time.monotonic() - start < 5
    if measured:
        assert peak_memory() - before < 100 * 2**20


@pytest.mark.parametrize("quarter", range(4))
def test_truncated_files_are_refused(saved, tmp_path, quarter):
    refuse(tmp_path / "model", saved[: quarter * len(saved) // 4])


def test_files_that_lack_their_last_byte_or_have_one_more_are_refused(saved, tmp_path):
    refuse(tmp_path / "model", saved[:-1])
    refuse(tmp_path / "model", saved + b"\0")


def test_foreign_files_are_refused(saved, tmp_path):
    path = tmp_path / "model"
    save_file({"weights": np.zeros(3)}, path)
    refuse(path, path.read_bytes(), match="not one of miwae")
    refuse(path, b"a,b,c\n1,2,3\n" * 100)
    refuse(path, pickle.dumps({"a": 1}))
    refuse(path, (2**62).to_bytes(8, "little") + b"{}")
    refuse(path, (90 * 2**20).to_bytes(8, "little") + b"{}")
    checkpoint = edited(saved, lambda header: header.update(kind="checkpoint"))
    refuse(path, checkpoint, match="not an imputer")


def test_unknown_versions_are_refused(saved, tmp_path):
    table, body = parts_of(saved)
    for version in ("1", "99"):
        table["__metadata__"]["version"] = version
        refuse(tmp_path / "model", joined(table, body), match=f"format version {version}")


def test_corrupted_bytes_never_escape_as_another_error(saved, tmp_path):
    """A changed byte in the header is refused, or harmless (in a name, or a number)."""
    path = tmp_path / "model"
    length = int.from_bytes(saved[:8], "little")
    rng = np.random.default_rng(0)
    n_refused = 0
    for place in rng.integers(8 + length, size=150):
        data = bytearray(saved)
        data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        try:
            MIWAEImputer.load(path)
        except FileFormatError:
            n_refused += 1
    assert n_refused > 50


HOSTILE = {
    "wide network": setting("n_hidden", 10**6),
    "wide code": setting("n_latent", 10**7),
    "deep network": setting("n_layers", 10**9),
    "no width": setting("n_hidden", 0),
    "negative depth": setting("n_layers", -5),
    "width in words": setting("n_hidden", "many"),
    "width that is no integer": setting("n_hidden", 8.5),
    "infinite width": setting("n_hidden", {"float": "inf"}),
    "huge number": setting("n_hidden", 10**400),
    "unknown setting": lambda h: h["parameters"]["dict"].append(["evil", 1]),
    "lacking setting": lambda h: h["parameters"]["dict"].pop(),
    "many models": fitted_value("histories", [[]] * 100_000),
    "fewer models": fitted_value("histories", []),
    "no settings of training": fitted_value("settings_", None),
    "unknown setting of training": fitted_value("settings_", {"dict": [["evil", 1]]}),
    "other number of columns": fitted_value("n_features_in_", 10**9),
    "seed in words": fitted_value("seed_", "x"),
    "unknown kind": column_value("kind", "number"),
    "other kind": column_value("kind", "count"),
    "unknown storage": column_value("storage", "week"),
    "unknown scale": column_value("transform", {"dict": [["shape", "cube"]]}),
    "no column": lambda h: h.update(schema=[]),
    "columns in words": lambda h: h.update(schema="abc"),
    "unknown type of value": setting("bounds", {"object": []}),
    "ambiguous value": setting("bounds", {"tuple": [], "dict": []}),
    "unhashable key": setting("bounds", {"dict": [[[1], 2]]}),
    "empty header": lambda h: "{}",
    "header that is a list": lambda h: "[]",
    "header that is no JSON": lambda h: "{",
    "nothing but depth": lambda h: "[" * 200_000 + "]" * 200_000,
    "deep value": setting("bounds", functools.reduce(lambda v, _: [v], range(900), [])),
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers_are_refused(saved, tmp_path, what):
    refuse(tmp_path / "model", edited(saved, HOSTILE[what]))


@pytest.mark.parametrize(
    "edit",
    [
        fitted_value("seed_", {"float": "inf"}),
        lambda header: '{"kind": ' + "9" * 10_000 + "}",
    ],
    ids=["infinite seed", "number of 10,000 digits"],
)
def test_hostile_numbers_are_refused(saved, tmp_path, edit):
    path = tmp_path / "model"
    path.write_bytes(edited(saved, edit))
    try:
        MIWAEImputer.load(path)
    except FileFormatError:
        return
    pytest.fail("loaded")


def test_a_wide_code_beside_a_wide_layer_is_refused(saved, tmp_path):
    def edit(header):
        setting("n_hidden", 3000)(header)
        setting("n_latent", 3000)(header)

    refuse(tmp_path / "model", edited(saved, edit, padding=80_000))


def test_wrong_shapes_and_types_are_refused(saved, tmp_path):
    table, body = parts_of(saved)
    names = [name for name in table if len(table[name].get("shape", ())) == 2]
    assert names
    for change in ("transpose", "flatten", "type", "absent", "renamed"):
        changed = copy.deepcopy(table)
        name = next(n for n in names if len(set(table[n]["shape"])) == 2)
        entry = changed[name]
        if change == "transpose":
            entry["shape"] = entry["shape"][::-1]
        elif change == "flatten":
            entry["shape"] = [int(np.prod(entry["shape"]))]
        elif change == "type":
            entry["dtype"] = "I32"
        else:
            del changed[name]
            if change == "renamed":
                changed["evil"] = entry
        refuse(tmp_path / "model", joined(changed, body))
    changed = copy.deepcopy(table)
    changed[names[0]]["shape"] = [2**40, 2**20]
    refuse(tmp_path / "model", joined(changed, body))


def test_codes_learned_as_text_are_text_in_rows_that_look_like_numbers():
    lines = ["01234,1.0", "20095,", ",3.5", "01234,1.5", "20095,2.5", "33000,4.0"]
    learned = read_text(("zip,size\n" + "\n".join(lines * 3) + "\n").encode())
    imputer = MIWAEImputer(column_kinds={"zip": "categorical"}).fit(learned)
    filled = imputer.transform(read_text(b"zip,size\n20095,\n33000,2.0\n,2.5\n"))
    assert filled.texts(0)[:2] == ["20095", "33000"]
    assert filled.texts(0)[2] in {"01234", "20095", "33000"}


def table_of(header, *rows):
    return read_text("\n".join([header, *rows, ""]).encode())


@pytest.fixture(scope="module")
def dated():
    """Learned from days that are written first, flags in capitals, and numbers above 0."""
    rows = ["31/01/2024,TRUE,0.3,1", "02/02/2024,FALSE,2.5,2", "09/02/2024,,1.5,4", ",TRUE,2.0,3"]
    return make().fit(table_of("when,flag,size,n", *rows))


@pytest.mark.parametrize("loaded", [False, True])
def test_ambiguous_dates_are_read_as_they_were_learned(dated, loaded, tmp_path):
    if loaded:
        dated.save(tmp_path / "model")
        dated = MIWAEImputer.load(tmp_path / "model")
    new = table_of("when,flag,size,n", "01/02/2024,,1.0,2", ",TRUE,1.0,2")
    completed = dated.transform(new)
    assert completed.texts(0)[0] == "01/02/2024"
    assert completed.texts(1)[0] in {"TRUE", "FALSE"}
    day, month, year = completed.texts(0)[1].split("/")
    assert (month, year) in {("01", "2024"), ("02", "2024")}
    assert 1 <= int(day) <= 31
    # The first of February, written otherwise, is the same to the model.
    same = table_of("when,flag,size,n", "2024-02-01,,1.0,2")
    alone = table_of("when,flag,size,n", "01/02/2024,,1.0,2")
    assert dated.score_samples(same).tolist() == dated.score_samples(alone).tolist()
    told = [event for event in dated.events_ if "the day or the month" in event]
    assert told == [
        "column 'when': nothing in these rows tells whether the day or the month comes first; "
        f"read as learned, as in {dated.specimens_[0]}; write all cells as 2024-12-31 to be sure"
    ]
    assert int(dated.specimens_[0].split("/")[0]) > 12


def test_dates_that_tell_their_order_are_no_event(dated):
    dated = copy.deepcopy(dated)
    before = list(dated.events_)
    dated.transform(table_of("when,flag,size,n", "31/01/2024,,1.0,2", "01/02/2024,TRUE,1.0,2"))
    assert [event for event in dated.events_ if event not in before] == []


def test_files_with_other_specimens_than_columns_are_refused(dated, tmp_path):
    path = tmp_path / "model"
    dated.save(path)
    refuse(path, edited(path.read_bytes(), fitted_value("specimens_", {"tuple": ["", ""]})))


def test_times_of_day_in_text_are_completed_in_whole_minutes_of_the_day(tmp_path):
    rows = ["8:15 AM,1.0", "9:05 AM,1.5", ",5.0", "11:30 PM,4.5", "11:58 PM,4.9", "10:20 AM,2.0"]
    imputer = make().fit(table_of("start,x", *rows))
    assert imputer.schema_.columns[0].reason == "stored as times of day"
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    late, given = loaded.transform(table_of("start,x", ",90.0", "08:15:00,1.0")).texts(0)
    assert given == "08:15:00"
    assert late.endswith(":00")  # whole minutes, as this file writes them
    assert loaded.transform(table_of("start,x", ",90.0")).texts(0) == ["11:59 PM"]
    with pytest.raises(DataError, match="'start' .* from times of day, but now holds instants"):
        imputer.transform(table_of("start,x", "2024-01-31 08:15,1.0"))


def test_a_single_row_of_text_is_completed_as_the_table_was_written(dated):
    completed = dated.transform(table_of("when,flag,size,n", ",,,2"))
    when, flag, size, n = (completed.texts(j)[0] for j in range(4))
    assert datetime.datetime.strptime(when, "%d/%m/%Y").year == 2024
    assert flag in {"TRUE", "FALSE"}
    assert len(size.partition(".")[2]) == 1
    assert n == "2"


@pytest.mark.parametrize("dtype", ["Float64", "boolean", "timedelta64[ns]"])
def test_times_are_not_filled_into_a_column_of_another_type(dtype):
    when = pd.to_datetime(["2024-01-01", "2024-01-05", None, "2024-01-09"])
    imputer = make().fit(pd.DataFrame({"when": when, "x": [1.0, 2.0, 2.5, 3.0]}))
    with pytest.raises(DataError, match="'when' was learned as datetime.*convert it to instants"):
        imputer.transform(pd.DataFrame({"when": pd.Series([None], dtype=dtype), "x": [2.0]}))
    for nothing in (pd.NaT, None, np.nan):
        completed = imputer.transform(pd.DataFrame({"when": [nothing], "x": [2.0]}))
        assert completed["when"].dt.year.tolist() == [2024]


DAYS_AND_SPANS = {
    "datetime64[s]": [1704067200, 1704412800, None, 1704758400],
    "timedelta64[s]": [3600, 7200, None, 10800],
}


@pytest.mark.parametrize("library", ["pandas", "polars", "pyarrow", "numpy"])
@pytest.mark.parametrize("learned", DAYS_AND_SPANS)
def test_durations_are_not_filled_with_instants_nor_instants_with_durations(learned, library):
    frames = {
        dtype: pd.DataFrame({"t": pd.Series(ticks, dtype=dtype), "x": [1.0, 2.0, 2.5, 3.0]})
        for dtype, ticks in DAYS_AND_SPANS.items()
    }
    convert = {
        "pandas": lambda frame: frame,
        "polars": pl.from_pandas,
        "pyarrow": pa.Table.from_pandas,
        "numpy": lambda frame: frame[["t"]].to_numpy(),
    }[library]
    other = next(dtype for dtype in DAYS_AND_SPANS if dtype != learned)
    imputer = make().fit(convert(frames[learned]))
    with pytest.raises(DataError, match="column '(t|x0)' was learned as datetime from .* or fit"):
        imputer.transform(convert(frames[other]))
    # Also where no cell tells what they are.
    with pytest.raises(DataError, match="is of type .* here: convert it to .* or fit again"):
        imputer.transform(convert(frames[other].iloc[[2]]))
    imputer.transform(convert(frames[learned].iloc[[2]]))


@pytest.mark.parametrize(
    "cells",
    [
        [
            datetime.timedelta(hours=1),
            datetime.timedelta(hours=2),
            None,
            datetime.timedelta(days=1),
        ],
        [datetime.time(8, 15), datetime.time(9), None, datetime.time(23, 5)],
    ],
)
def test_objects_of_times_are_completed_in_a_row_of_its_own(cells):
    frame = pd.DataFrame({"t": pd.Series(cells, dtype=object), "x": [1.0, 2.0, 2.5, 3.0]})
    imputer = make().fit(frame)
    (alone,), together = imputer.transform(frame.iloc[[2]])["t"], imputer.transform(frame)["t"]
    assert type(alone) is type(cells[0])
    assert alone == together.iloc[2]


def test_numbers_are_not_filled_into_a_column_of_times():
    imputer = make().fit(pd.DataFrame({"n": [3.5, 1.0, 2.5], "x": [1.0, 2.0, 2.5]}))
    with pytest.raises(DataError, match="'n' was learned as positive from number, but is of type"):
        imputer.transform(pd.DataFrame({"n": pd.to_datetime([None]), "x": [2.0]}))


def test_durations_are_not_filled_into_text_files():
    spans = pd.to_timedelta([1.0, 2.0, None, 4.0], unit="h")
    imputer = make().fit(pd.DataFrame({"spent": spans, "x": [1.0, 2.0, 2.5, 3.0]}))
    with pytest.raises(DataError, match="'spent' was learned from durations, which text files"):
        imputer.transform(table_of("spent,x", ",2.0"))


def test_flags_in_a_column_of_nothing_are_flags():
    flag = [True, False, None, True, False]
    imputer = make().fit(pd.DataFrame({"flag": flag, "x": [1.0, 2.0, 2.5, 3.0, 4.0]}))
    completed = imputer.transform(pd.DataFrame({"flag": [None], "x": [2.0]}))
    assert isinstance(completed["flag"].tolist()[0], bool)


def test_written_numbers_stay_within_their_bounds():
    rows = [f"{value},{i % 3}.25" for i, value in enumerate(["-0.7", "0.3", "0.3", "0.2"] * 2)]
    table = table_of("level,x", *rows, ",0.25", ",1.25", ",2.25")
    imputer = make(bounds={"level": (None, 0.36)}).fit(table)
    numbers = [float(text) for copy in imputer.sample(table, 20) for text in copy.texts(0)]
    assert max(numbers) == 0.3  # which 0.36, the largest draw, is not when it is rounded


def test_cells_of_excel_that_stay_are_told():
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for row in [("a", "b"), (1.5, 2.5), (None, 3.5), (3.0, None), (4.5, 5.5), (None, 6.0)]:
        sheet.append(row)
    sheet.merge_cells("A2:A3")
    content = io.BytesIO()
    book.save(content)
    table = read_excel(content.getvalue())
    imputer = make().fit(table)
    event = "column 'a': 1 missing cell stays missing, since parts of merged cells are not over"
    with pytest.warns(DataWarning, match=event):
        completed = imputer.transform(table)
    assert any(event in told for told in imputer.events_)
    assert [cell is None for cell in completed.cells(0)] == [False, True, False, False, False]
    assert None not in completed.cells(1)


def test_a_dictionary_is_no_table():
    with pytest.raises(DataError, match="dict is not a table that is read: pass a pandas"):
        make().fit({"a": [1.0, None], "b": [1.0, 2.0]})


def test_events_of_some_models_say_of_which():
    assert _told_of([("a", "b"), ("a", "c")]) == ["a", "model 1 of 2: b", "model 2 of 2: c"]
    assert _told_of([("a",)]) == ["a"]


def test_the_kind_of_keys_that_jax_makes_by_default_does_not_matter():
    x = np.random.default_rng(0).normal(size=(40, 1)) @ np.ones((1, 3))
    x[0, 0] = np.nan
    expected = MIWAEImputer(max_steps=2, random_state=0).fit_transform(x)
    with jax.default_prng_impl("rbg"):
        completed = MIWAEImputer(max_steps=2, random_state=0).fit_transform(x)
    assert np.array_equal(completed, expected)
