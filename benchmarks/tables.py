"""What completing a table costs: time and memory, from the start of a process.

    python benchmarks/tables.py              everything, written to benchmarks/results/tables.json
    python benchmarks/tables.py small scale  some parts: start, small, scale, million

Each number is measured in a process of its own, without a cache of compiled programs, so that
compilation is part of it. Results are written after each part; parts that are not asked for keep
theirs.
"""

import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from memory import peak_memory

RESULTS = Path(__file__).parent / "results" / "tables.json"
DATA = os.environ.get("MIWAE_DATA", "")

# name: (rows, columns, seconds allowed by the project's goals)
GOALS = {"white wine": 60, "breast cancer": 30, "iris": 12}


def measured(name):
    """The table of that name, standardised, with half of its cells removed."""
    from sklearn import datasets

    if name == "iris":
        x = np.asarray(datasets.load_iris(return_X_y=True)[0])
    elif name == "breast cancer":
        x = np.asarray(datasets.load_breast_cancer(return_X_y=True)[0])
    else:
        path = Path(DATA) / "wine_white.csv"
        if not path.exists():
            raise SystemExit(f"{path} is not there: set MIWAE_DATA to the folder of the data sets")
        delimiter = ";" if ";" in path.read_text().split("\n", 1)[0] else ","
        x = np.genfromtxt(path, delimiter=delimiter, skip_header=1)
    holes = np.random.default_rng(0).random(x.shape) < 0.5
    return (x - x.mean(0)) / x.std(0), holes


def synthetic(n_rows, n_columns=20, seed=0, missing=0.3):
    """Nonlinear columns of four factors, 30 % of the cells removed."""
    rng = np.random.default_rng(seed)
    loadings = np.random.default_rng(1).normal(size=(4, n_columns))
    x = np.tanh(rng.normal(size=(n_rows, 4)) @ loadings)
    x += 0.3 * rng.normal(size=x.shape)
    x[rng.random(x.shape) < missing] = np.nan
    return x


def peak_gib():
    return peak_memory() / 2**20


def child_small(name):
    """`fit_transform` of a table with half of its cells missing."""
    x, holes = measured(name)
    from miwae import MIWAEImputer

    incomplete = np.where(holes, np.nan, x)
    before = time.perf_counter()
    imputer = MIWAEImputer(random_state=0)
    completed = imputer.fit_transform(incomplete)
    seconds = time.perf_counter() - before
    return {
        "rows": len(x),
        "columns": x.shape[1],
        "seconds": round(seconds, 1),
        "allowed": GOALS[name],
        "steps": imputer.history_[-1].step,
        "peak_gib": round(peak_gib(), 2),
        "mse_of_removed_cells": round(float(np.mean((completed - x)[holes] ** 2)), 4),
    }


def child_scale(path):
    """`transform` of new rows, and of one row."""
    from miwae import MIWAEImputer

    imputer = MIWAEImputer(random_state=0).fit(synthetic(5_000))
    imputer.transform(synthetic(2_000, seed=5))  # compiled for many rows
    out = {}
    for n_rows in (25_000, 50_000, 100_000):
        x = synthetic(n_rows, seed=2)
        before, memory = time.perf_counter(), peak_memory(reset=True)
        imputer.transform(x)
        seconds = time.perf_counter() - before
        out[f"{n_rows} rows"] = {
            "seconds": round(seconds, 1),
            "microseconds_per_row": round(1e6 * seconds / n_rows),
            "table_mib": round(x.nbytes / 2**20, 1),
            "above_baseline_mib": round((peak_memory() - memory) / 1024, 1),
        }
    rows = synthetic(200, seed=3)
    imputer.transform(rows[:1])  # compiled for one row
    times = []
    for row in rows:
        before = time.perf_counter()
        imputer.transform(row[None])
        times.append(1e3 * (time.perf_counter() - before))
    out["one row, milliseconds"] = {
        "median": round(float(np.median(times)), 1),
        "95 %": round(float(np.quantile(times, 0.95)), 1),
        "worst of 200": round(max(times), 1),
    }
    return out


def child_million(_):
    """Fit and transform a million rows, with few latent samples to save time."""
    from miwae import MIWAEImputer

    x = synthetic(1_000_000)
    before = time.perf_counter()
    imputer = MIWAEImputer(random_state=0, n_imputation_samples=120).fit(x)
    fitted = time.perf_counter()
    completed = imputer.transform(x)
    assert not np.isnan(completed).any()
    return {
        "table_gib": round(x.nbytes / 2**30, 2),
        "n_imputation_samples": 120,
        "fit_seconds": round(fitted - before, 1),
        "steps": imputer.history_[-1].step,
        "transform_seconds": round(time.perf_counter() - fitted, 1),
        "peak_gib": round(peak_gib(), 2),
        "allowed_gib": 6,
    }


CHILDREN = {"small": child_small, "scale": child_scale, "million": child_million}


def in_new_process(child, argument=""):
    command = [sys.executable, __file__, "--child", child, argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{child} {argument} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def seconds_of(*command):
    """The shortest of five runs: what the machine's other users cost is not ours."""
    times = []
    for _ in range(5):
        before = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        times.append(time.perf_counter() - before)
    return round(min(times), 2)


def start():
    """Until something can be used, or seen."""
    empty = seconds_of(sys.executable, "-c", "pass")
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "table.csv"
        np.savetxt(path, synthetic(5_000)[:, :12], delimiter=",", header=",".join("abcdefghijkl"))
        inspect = seconds_of(sys.executable, "-m", "miwae", "inspect", str(path))
    return {
        "python itself": empty,
        "import miwae": seconds_of(sys.executable, "-c", "import miwae"),
        "from miwae import MIWAEImputer": seconds_of(
            sys.executable, "-c", "from miwae import MIWAEImputer"
        ),
        "miwae inspect, 5,000 x 12": inspect,
    }


PARTS = {
    "start": start,
    "small": lambda: {name: in_new_process("small", name) for name in GOALS},
    "scale": lambda: in_new_process("scale"),
    "million": lambda: in_new_process("million"),
}


def main():
    """Run the parts asked for and write their results."""
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(json.dumps(CHILDREN[sys.argv[2]](sys.argv[3])) + "\n")
        return
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        raise SystemExit(f"{unknown[0]} is not a part: {', '.join(PARTS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in wanted:
        results[part] = PARTS[part]()
        results["machine"] = {"cores": os.cpu_count(), "python": platform.python_version()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        sys.stdout.write(json.dumps({part: results[part]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
