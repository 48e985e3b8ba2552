"""Whatever the frame: what comes back is the same frame, with possible values in its holes."""

import datetime
import warnings

import numpy as np
import pandas as pd
import pyarrow as pa
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from imputer.tables import make
from miwae.errors import DataWarning

FIRST = datetime.datetime(2021, 5, 1)

# Of each type: what a cell can be, and how a column of cells becomes a series. With two possible
# values at most, all columns of text have the same number of levels, and few programs are
# compiled; a column can still come out as constant, empty, or unmodelled.
FLOATS = st.floats(-1e6, 1e6, width=32)
WHOLE = st.integers(-100, 100)
WORDS = st.sampled_from(["yes", "no"])
FLAGS = st.booleans()
DAYS = st.integers(-400, 400).map(lambda day: FIRST + datetime.timedelta(days=day))

TYPES = {
    "float64": (FLOATS, "float64"),
    "float32": (FLOATS, "float32"),
    "Float64": (FLOATS, "Float64"),
    "Int8": (WHOLE, "Int8"),
    "int16[pyarrow]": (WHOLE, pd.ArrowDtype(pa.int16())),
    "positive": (st.floats(1e-3, 1e6), "float64"),
    "boolean": (FLAGS, "boolean"),
    "bool[pyarrow]": (FLAGS, pd.ArrowDtype(pa.bool_())),
    "flags as objects": (FLAGS, object),
    "str": (WORDS, "str"),
    "text as objects": (WORDS, object),
    "category": (WORDS, pd.CategoricalDtype(["never", "no", "yes"])),
    "ordered": (WORDS, pd.CategoricalDtype(["no", "perhaps", "yes"], ordered=True)),
    "datetime64[ns]": (DAYS, "datetime64[ns]"),
    "datetime64[us, UTC]": (DAYS, "datetime64[us, UTC]"),
    "lists": (st.lists(WHOLE, max_size=2), object),
}


@st.composite
def frames(draw):
    n_rows = draw(st.sampled_from([3, 7, 12]))
    kinds = draw(st.lists(st.sampled_from(sorted(TYPES)), min_size=1, max_size=5))
    columns = {}
    for j, kind in enumerate(kinds):
        cell, dtype = TYPES[kind]
        cells = draw(st.lists(cell, min_size=n_rows, max_size=n_rows))
        holes = draw(st.lists(st.booleans(), min_size=n_rows, max_size=n_rows))
        values = [None if hole else value for value, hole in zip(cells, holes, strict=True)]
        columns[f"{kind} {j}"] = pd.Series(values, dtype=dtype)
    frame = pd.DataFrame(columns)
    labels = draw(st.lists(st.integers(0, 5), min_size=n_rows, max_size=n_rows))
    return frame.set_axis(pd.Index(labels, name="label"), axis=0)


def possible(known, value):
    """Whether a value is one that the kind of its column allows."""
    label = known.kind.label
    if label in ("binary", "categorical", "ordinal"):
        return value in known.kind.levels
    if label == "constant":
        return value == known.kind.value or known.storage == "time"
    if label == "datetime":
        return value == value.floor("D")  # as all that were drawn
    if label == "empty":
        return known.storage in ("number", "boolean") and value == 0
    whole = label in ("integer", "count")
    above = label != "positive" or value > 0
    return bool(np.isfinite(value)) and (value == round(value) or not whole) and above


@settings(
    derandomize=True,
    max_examples=15,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
@given(frames(), st.booleans())
def test_any_frame_comes_back_completed(frame, keep_empty):
    imputer = make(n_models=2, keep_empty_features=keep_empty)
    before = frame.copy(deep=True)
    imputer.fit(frame)  # outside: catching warnings is not thread-safe, and fitting uses threads
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", DataWarning)
        completed = imputer.transform(frame)
    pd.testing.assert_frame_equal(frame, before, check_exact=True)

    schema = {column.name: column for column in imputer.schema_.columns}
    kept = [name for name in frame if keep_empty or schema[name].kind.label != "empty"]
    assert list(completed.columns) == kept == list(imputer.get_feature_names_out())
    assert completed.index.identical(frame.index)
    assert list(completed.dtypes) == list(frame[kept].dtypes)
    stay_missing = []
    for name in kept:
        known, holes = schema[name], frame[name].isna().to_numpy()
        label = known.kind.label
        assert label != "empty" or holes.all()
        assert repr(completed[name][~holes].tolist()) == repr(frame[name][~holes].tolist())
        filled = completed[name][holes]
        empty = label == "empty" and known.storage not in ("number", "boolean")
        if label == "identifier" or empty:
            assert filled.isna().all()
            stay_missing += [name] if holes.any() else []
        else:
            assert all(possible(known, value) for value in filled)
    # Each column whose cells stay missing is a warning, and nothing else is.
    said = [str(warning.message).split("'")[1] for warning in caught]
    assert sorted(said) == sorted(stay_missing)

    # A row alone is completed as it was among the others.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        alone = imputer.transform(frame.iloc[[-1]])
    pd.testing.assert_frame_equal(alone, completed.iloc[[-1]], check_exact=True)
