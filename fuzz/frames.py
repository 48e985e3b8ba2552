"""Generated frames through the table half: observed cells stay, and errors are our own.

With `--fits` in the name of the file of results: the same frames through real fits.
"""

import contextlib
import datetime
import sys
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from fuzz.campaign import Failure, run
from miwae import MIWAEImputer, frames
from miwae.columns import Cells, infer_schema
from miwae.errors import MiwaeError
from miwae.tabular import EncodedTable

Rng = np.random.Generator

# A fit that compiles little and takes a step.
SMALL = {"n_hidden": 4, "n_layers": 1, "n_models": 1, "n_latent": 2, "n_imputation_samples": 64}


def _numbers(n: int, rng: Rng) -> Any:
    x = rng.choice([rng.normal(size=n), rng.lognormal(0, 3, n), rng.standard_cauchy(n)])
    x = np.array(x) * 10.0 ** rng.integers(-300, 300) if rng.random() < 0.3 else np.array(x)
    if rng.random() < 0.1:
        x[rng.integers(n)] = rng.choice([1e308, -1e308, 5e-324, 0.0, -0.0, np.inf, 1e300])
    return x.astype(rng.choice(["float64", "float32"])) if np.abs(x).max() < 1e38 else x


def _whole(n: int, rng: Rng) -> Any:
    kind = rng.choice(["int8", "uint8", "int16", "int64", "uint64"])
    top = min(10 ** int(rng.integers(1, 19)), int(np.iinfo(kind).max))
    return rng.integers(0, top, n, dtype=kind)


def _words(n: int, rng: Rng) -> Any:
    words = [
        "a",
        "",
        " ",
        "NA",
        "nan",
        "1",
        "1e5",
        "=1+1",
        "é",
        "\x1b[2J",
        "\x00",
        "日本",
        "x" * 300,
    ]
    chosen = rng.choice(words, size=int(rng.integers(1, 6)))
    return rng.choice(chosen, n).astype(object)


def _objects(n: int, rng: Rng) -> Any:
    pools = [
        [1, 2.5, None], [True, False, None], [1, "1", True], [10**20, 1], [10**400, 2, 3],
        [Decimal("1.10"), Decimal("2")], [[1], [2, 3]], [{"a": 1}, None], [b"x", b"y"],
        [datetime.date(2020, 1, 1), datetime.date(9999, 12, 31)], [datetime.time(1), None],
        [datetime.timedelta(days=1), datetime.timedelta(0)], [float("nan"), "a"], [1j, 2j],
        [np.float32(1), np.int8(2)], [pd.NA, pd.NaT, None], [object(), 1],
    ]  # fmt: skip
    pool = pools[int(rng.integers(len(pools)))]
    return np.fromiter((pool[i] for i in rng.integers(len(pool), size=n)), object, n)


def _times(n: int, rng: Rng) -> Any:
    unit = str(rng.choice(["s", "ms", "us", "ns"]))
    ticks = rng.integers(-(2**40), 2**40, n)
    sort = rng.choice(["datetime64", "timedelta64"])
    return ticks.astype(f"{sort}[{unit}]")


def _booleans(n: int, rng: Rng) -> Any:
    return rng.random(n) < rng.choice([0.0, 0.5, 1.0])


MAKERS = (_numbers, _numbers, _whole, _words, _words, _objects, _times, _booleans)


def pandas_frame(rng: Rng) -> pd.DataFrame:
    """Of random size, types, names and missing cells."""
    n, columns = int(rng.integers(1, 60)), {}
    for j in range(int(rng.integers(1, 7))):
        maker = MAKERS[int(rng.integers(len(MAKERS)))]
        values = pd.Series(maker(n, rng), name=j)
        if maker is _words and rng.random() < 0.5:
            values = values.astype(rng.choice(["category", "string"]))
        if maker is _whole and rng.random() < 0.5:
            values = values.astype("Int64") if values.max() < 2**63 else values
        hidden = rng.random(n) < rng.choice([0.0, 0.1, 0.5, 1.0])
        columns[str(rng.choice(["a", "b", "x y", "é", "", "0"])) + str(j)] = values.mask(hidden)
    frame = pd.DataFrame(columns)
    if rng.random() < 0.3:
        frame.index = pd.Index(rng.integers(0, n, n))
    return frame


def any_frame(rng: Rng) -> Any:
    """The same of any library."""
    frame = pandas_frame(rng)
    library = int(rng.integers(5))
    if library == 0:
        return frame
    if library == 1:
        return frame.to_numpy()
    # These libraries do not take every object.
    with contextlib.suppress(
        pa.ArrowException, TypeError, ValueError, OverflowError, pl.exceptions.PolarsError
    ):
        if library == 2:
            return pl.from_pandas(frame.reset_index(drop=True))
        if library == 3:
            return pa.Table.from_pandas(frame, preserve_index=False)
    return frame


def case(seed: int) -> str:
    """Read a frame, encode it, fill its missing cells, and compare the others."""
    rng = np.random.default_rng(seed)
    frame = any_frame(rng)
    try:
        given = frames.as_frame(frame)
        columns = frames.columns(given)
        schema = infer_schema(columns)
        table = EncodedTable.of(schema, columns)
        if not np.isfinite(table.x[table.observed]).all():
            raise Failure("an observed cell is not finite on the scale of the model")
        cells = {}
        for i, (known, column) in enumerate(zip(schema.columns, columns, strict=True)):
            rows = np.flatnonzero(column.missing)
            if known.is_imputed(column, zeros_if_empty=False) and len(rows):
                cells[i] = known.cells(rows, rng.normal(size=len(rows)).round())
        completed = frames.completed(given, cells)
    except MiwaeError:
        return "refused"
    _require_same(columns, frames.columns(completed), cells)
    return "completed"


def _require_same(before: Any, after: Any, cells: dict[int, Cells]) -> None:
    for i, (old, new) in enumerate(zip(before, after, strict=True)):
        seen = ~old.missing
        texts = [(old.text(r), new.text(r)) for r in np.flatnonzero(seen)[:50].tolist()]
        if new.missing[seen].any() or any(a != b for a, b in texts):
            raise Failure(f"observed cells of {old.name!r} ({old.dtype}) have changed")
        if i in cells and new.missing.any():
            raise Failure(f"cells of {old.name!r} ({old.dtype}) stay missing")


def fit_case(seed: int) -> str:
    """Fit an imputer to a frame."""
    rng = np.random.default_rng(seed)
    frame = any_frame(rng)
    try:
        before = frames.columns(frames.as_frame(frame))
        imputer = MIWAEImputer(**SMALL, max_steps=2, random_state=0, keep_empty_features=True)
        completed = imputer.fit(frame).transform(frame)
    except MiwaeError:
        return "refused"
    _require_same(before, frames.columns(frames.as_frame(completed)), {})
    return "completed"


if __name__ == "__main__":
    if "--fits" in sys.argv:
        sys.argv.remove("--fits")
        run("frames_fitted", fit_case, 300, __doc__ or "")
    else:
        run("frames", case, 10_000, __doc__ or "")
