"""Peak memory of `miwae impute` on Parquet files of many million rows.

    python benchmarks/scale.py 1 4 16      written to benchmarks/results/scale.json

Each file has 20 columns of four factors. Cells are missing in 2 % of its rows only (30 % of the
cells there), because memory is what is measured: the other rows are read, learned from and written
as well, but need no time to impute. The command learns from the file and completes it, in a
process of its own, whose peak memory is all that it ever had. Files are removed afterwards: 16
million rows need 8 GB for some minutes.
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
import pyarrow as pa
import pyarrow.parquet as pq

RESULTS = Path(__file__).parent / "results" / "scale.json"
N_COLUMNS, INCOMPLETE, MISSING, GROUP_ROWS = 20, 0.02, 0.3, 2**17


def row_groups(n_rows):
    """Nonlinear columns of four factors, with holes in few rows."""
    rng = np.random.default_rng(0)
    loadings = rng.normal(size=(4, N_COLUMNS))
    while n_rows:
        n_now = min(n_rows, GROUP_ROWS)
        x = np.tanh(rng.normal(size=(n_now, 4)) @ loadings) + 0.3 * rng.normal(
            size=(n_now, N_COLUMNS)
        )
        holes = (rng.random(n_now) < INCOMPLETE)[:, None] & (rng.random(x.shape) < MISSING)
        yield pa.table({f"x{j:02}": pa.array(x[:, j], mask=holes[:, j]) for j in range(N_COLUMNS)})
        n_rows -= n_now


def generate(path, n_rows):
    groups = row_groups(n_rows)
    first = next(groups)
    with pq.ParquetWriter(path, first.schema) as writer:
        writer.write_table(first)
        for group in groups:
            writer.write_table(group)


def impute(source, out):
    """Seconds and peak memory, in MiB, of the command."""
    command = [sys.executable, "-m", "miwae", "impute", str(source), "-o", str(out), "--quiet"]
    before = time.perf_counter()
    process = subprocess.Popen(command)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise SystemExit(f"{' '.join(command)} failed")
    return time.perf_counter() - before, usage.ru_maxrss / 1024


def compared(source, out):
    """How many cells were filled; all others must be as they were."""
    n_filled, row_groups = 0, pq.ParquetFile(out).iter_batches(GROUP_ROWS)
    for before, after in zip(
        pq.ParquetFile(source).iter_batches(GROUP_ROWS), row_groups, strict=True
    ):
        for old, new in zip(before.columns, after.columns, strict=True):
            assert new.null_count == 0
            n_filled += old.null_count
            assert old.fill_null(new).equals(new)
    return n_filled


def measure(millions, directory):
    source, out = directory / "in.parquet", directory / "out.parquet"
    n_rows = round(millions * 1e6)
    generate(source, n_rows)
    seconds, peak = impute(source, out)
    return {
        "rows": n_rows,
        "columns": N_COLUMNS,
        "file_mib": round(source.stat().st_size / 2**20),
        "peak_mib": round(peak),
        "seconds": round(seconds),
        "filled_cells": compared(source, out),
        "row_groups": pq.ParquetFile(out).num_row_groups,
    }


def main():
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for millions in map(float, sys.argv[1:] or ["1", "4", "16"]):
        with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as name:
            results[f"{millions:g} million rows"] = found = measure(millions, Path(name))
        results["incomplete_rows"], results["missing_cells_in_them"] = INCOMPLETE, MISSING
        results["machine"] = {"cores": os.cpu_count(), "python": platform.python_version()}
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")
        print(json.dumps(found))


if __name__ == "__main__":
    main()
