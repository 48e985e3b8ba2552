"""How accurate a model is that has seen more rows, and one that goes through them once, in shards.

    python benchmarks/rows.py            written to benchmarks/results/rows.json

A table of a million rows with 20 nonlinear columns of four factors, 30 % of its cells removed. One
model learns from its first 10,000 to 1,000,000 rows, and one from three million further rows as
well; `partial_fit` goes through ten shards, with as many steps in all as the largest fits have.
Each completes the same 10,000 other rows; what is compared is the squared error of their removed
cells. Measurements that the file has are not repeated.
"""

import json
import os
import platform
import time
from functools import partial
from pathlib import Path

import numpy as np
from waiting import incomplete, synthetic

from miwae import MIWAEImputer

RESULTS = Path(__file__).parent / "results" / "rows.json"
ROWS = (10_000, 30_000, 100_000, 262_144, 1_000_000)
FURTHER = 3_000_000  # rows, generated only where they are needed
SHARDS, SHARD_ROWS = 10, 96_000  # 15,000 steps of 64 rows
N_NEW, SEEDS = 10_000, (0, 1)


def fitted(x, n_rows, seed):
    return MIWAEImputer(n_models=1, random_state=seed).fit(x[:n_rows])


def fitted_to_more(x, seed):
    more, _ = incomplete(synthetic(FURTHER, seed=6), seed=4)
    return fitted(np.concatenate([x[: ROWS[-1]], more]), ROWS[-1] + FURTHER, seed)


def in_shards(x, seed):
    imputer = MIWAEImputer(n_models=1, random_state=seed)
    for start in range(0, SHARDS * SHARD_ROWS, SHARD_ROWS):
        imputer.partial_fit(x[start : start + SHARD_ROWS])
    return imputer


def measured(learn, new, whole, holes):
    before = time.process_time()
    imputer = learn()
    seconds = time.process_time() - before
    (model,) = imputer._fitted.table.models
    error = np.mean((imputer.transform(new) - whole)[holes] ** 2)
    return {
        "squared_error": round(float(error), 5),
        "steps": int(model.state.step),
        "cpu_seconds": round(seconds),
    }


def main():
    rows = synthetic(ROWS[-1] + N_NEW, seed=5)
    x, holes = incomplete(rows)
    new = (x[-N_NEW:], rows[-N_NEW:], holes[-N_NEW:])
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for seed in SEEDS:
        ways = {f"{n} rows": partial(fitted, x, n, seed) for n in ROWS}
        ways[f"{ROWS[-1] + FURTHER} rows"] = partial(fitted_to_more, x, seed)
        ways["partial_fit, 960000 rows in ten shards"] = partial(in_shards, x, seed)
        for name, learn in ways.items():
            own = results.setdefault(name, {})
            if str(seed) in own:
                continue
            own[str(seed)] = found = measured(learn, *new)
            results["machine"] = {"cores": os.cpu_count(), "python": platform.python_version()}
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            print(name, seed, found, flush=True)


if __name__ == "__main__":
    main()
