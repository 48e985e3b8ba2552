"""One table with columns of many kinds, in every library of frames."""

import datetime
import functools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from imputer.tables import make

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


ORDERED = {"grade": "ordinal:low<mid<high"}


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
    kinds = ORDERED
    if isinstance(build(), np.ndarray):
        kinds = {5: ORDERED["grade"]}
    elif name in ("pandas, numpy's types", "pandas, nullable"):
        kinds = None  # the table itself knows the order
    frame = build()
    imputer = make(column_kinds=kinds, **settings).fit(frame)
    return frame, imputer, imputer.transform(frame)
