"""What a cluster of Dask costs, and what a second worker brings.

    python benchmarks/cluster.py            written to benchmarks/results/cluster.json

The same files of 20 columns (30 % of the cells missing) are completed by a plain process on one
core, by a cluster of one worker with one core, and by one of two; in turns, after a first pass in
which programs are compiled. Start-up is that of a worker process with programs on disk: import,
load, and the first small part. Only ratios within a run mean anything: machines are shared.
"""

import hashlib
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

RESULTS = Path(__file__).parent / "results" / "cluster.json"
N_PARTS, PART_ROWS, N_COLUMNS, ROUNDS = 8, 12_500, 20, 2


def rows(n_rows, seed):
    """Nonlinear columns of two factors."""
    rng = np.random.default_rng(seed)
    weights = np.random.default_rng(0).normal(size=(2, N_COLUMNS))
    x = np.tanh(rng.normal(size=(n_rows, 2)) @ weights) + 0.3 * rng.normal(
        size=(n_rows, N_COLUMNS)
    )
    return pa.table(
        {f"x{j:02}": pa.array(x[:, j], mask=rng.random(n_rows) < 0.3) for j in range(N_COLUMNS)}
    )


def prepare(directory):
    from miwae import MIWAEImputer

    (directory / "data").mkdir()
    for k in range(N_PARTS):
        pq.write_table(rows(PART_ROWS, 1 + k), directory / "data" / f"{k:02}.parquet")
    MIWAEImputer(random_state=0, max_steps=300).fit(rows(4_000, 0)).save(directory / "model")


def complete_all(worker, data, out):
    """As a plain process does it."""
    from miwae.engines import complete_part, parts_of

    return [complete_part(worker, part) for part in parts_of(data, out)]


def digest(out):
    found = hashlib.sha256()
    for path in sorted(out.glob("*.parquet")):
        for column in pq.ParquetFile(path).read().columns:
            found.update(column.to_numpy().tobytes())
    return found.hexdigest()


def plain(directory):
    """A process of its own, on one core, which says how long each pass took."""
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    from miwae.engines import Worker

    worker = Worker.load(directory / "model")
    for line in sys.stdin:
        started = time.monotonic()
        complete_all(worker, directory / "data", Path(line.strip()))
        print(time.monotonic() - started, flush=True)


def start_up(directory):
    """Seconds that a process needs to import, load and complete its first part, on one core."""
    code = (
        "import os, sys; os.sched_setaffinity(0, {0}); from miwae import engines; "
        "w = engines.Worker.load(sys.argv[1]); "
        "p = engines.parts_of(sys.argv[2], sys.argv[3])[0]; engines.complete_part(w, p)"
    )
    small = directory / "small.parquet"
    pq.write_table(rows(10, 99), small)
    seconds = []
    for k in range(3):
        started = time.monotonic()
        paths = [str(directory / "model"), str(small), str(directory / f"small-{k}")]
        subprocess.run([sys.executable, "-c", code, *paths], check=True)
        seconds.append(time.monotonic() - started)
    return seconds[1:]  # the first may have compiled


def measure(directory):
    from miwae import dask

    process = subprocess.Popen(
        [sys.executable, __file__, str(directory)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    seconds = {"plain": [], "one worker": [], "two workers": []}
    digests = set()
    with dask.local_client(1) as one, dask.local_client(2) as two:
        for k in range(ROUNDS + 1):
            for name, client in (("plain", None), ("one worker", one), ("two workers", two)):
                out = directory / f"{name}-{k}"
                if client is None:
                    process.stdin.write(f"{out}\n")
                    process.stdin.flush()
                    took = float(process.stdout.readline())
                else:
                    started = time.monotonic()
                    dask.transform(directory / "model", directory / "data", out=out, client=client)
                    took = time.monotonic() - started
                digests.add(digest(out))
                if k:
                    seconds[name].append(took)
    process.stdin.close()
    process.wait()
    return seconds, digests


def main():
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        os.environ["XDG_CACHE_HOME"] = str(directory / "cache")
        (directory / "cache").mkdir()
        prepare(directory)
        seconds, digests = measure(directory)
        starts = start_up(directory)
    median = {name: float(np.median(values)) for name, values in seconds.items()}
    n_rows = N_PARTS * PART_ROWS
    result = {
        "rows": n_rows,
        "columns": N_COLUMNS,
        "seconds": seconds,
        "rows_per_second": {name: n_rows / value for name, value in median.items()},
        "two_workers_by_one": median["one worker"] / median["two workers"],
        "one_worker_by_plain": median["one worker"] / median["plain"],
        "start_up_seconds": starts,
        "same_bits": len(digests) == 1,
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(result, indent=1))


if __name__ == "__main__":
    plain(Path(sys.argv[1])) if len(sys.argv) > 1 else main()
