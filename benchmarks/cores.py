"""What each mechanism that uses a second core, or saves compilation, is worth.

    python benchmarks/cores.py              written to benchmarks/results/cores.json

A run takes at most three and a half minutes, and adds to the measurements that the file has: what
was measured least comes next.

Fit and transform in new processes, compilation included. Each run replaces one mechanism, before
anything else is imported, by the plain way to do the same: `side_by_side` (two models at a time)
by one model after the other, `meanwhile` (compile beside other work) by compiling first,
`one_thread_each` (linear algebra of NumPy on one thread) by nothing.

Each mechanism has a ratio: the time without it divided by the time with it; above 1, it helps.
Contestants take turns, and the ratio is the median over the turns: other users of the machine slow
all of them down alike. A mechanism whose ratio stays at 1 should be deleted. Two were:
cutting a batch into two shards, so that XLA uses two cores within a step (1.04 with 11 columns,
0.98 with 30), and spreading shards over two devices (0.96).
"""

import contextlib
import json
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "cores.json"

# name: (rows, columns). Small tables are those for which compilation matters most.
TABLES = {"150 x 4": (150, 4), "1000 x 10": (1000, 10)}

BUDGET = 210  # seconds of a run; what would take longer is not begun


def table(n_rows, n_columns):
    """Nonlinear columns of two factors, 30 % of the cells missing."""
    rng = np.random.default_rng(0)
    x = np.tanh(rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns)))
    x += 0.3 * rng.normal(size=x.shape)
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


def without_side_by_side():
    from miwae import _threads as threads

    threads.side_by_side = lambda tasks: [task(lambda: None) for task in tasks]


def without_meanwhile():
    from miwae import _threads as threads

    @contextlib.contextmanager
    def first(*tasks):
        for task in tasks:
            task()
        yield

    threads.meanwhile = first


def without_one_thread_each():
    from miwae import _threads as threads

    threads.one_thread_each = contextlib.nullcontext


WITHOUT = {
    "side_by_side": without_side_by_side,
    "meanwhile": without_meanwhile,
    "one_thread_each": without_one_thread_each,
}


def child_table(argument):
    """Seconds to fit and transform a table, without one mechanism."""
    mechanism, name = argument.split(":")
    if mechanism in WITHOUT:
        WITHOUT[mechanism]()  # before anybody imports what it replaces
    from miwae import MIWAEImputer

    x = table(*TABLES[name])
    start = time.perf_counter()
    MIWAEImputer(random_state=0).fit(x).transform(x)
    return time.perf_counter() - start


def in_new_process(argument):
    command = [sys.executable, __file__, "--child", argument]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{argument} failed:\n{done.stderr[-2000:]}")
    return round(json.loads(done.stdout.splitlines()[-1]), 2)


def ratios(times):
    """The median of the ratios of each turn."""
    pairs = {key: list(zip(own, times["nothing"], strict=False)) for key, own in times.items()}
    return {
        k: round(float(np.median([a / b for a, b in pairs[k]])), 2) for k in WITHOUT if k in pairs
    }


def main():
    """Measure what was measured least, in turn, while there is time; write after each."""
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(json.dumps(child_table(sys.argv[2])) + "\n")
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    known = {name: results.get(name, {}).get("seconds without", {}) for name in TABLES}
    contestants = [(name, key) for name in TABLES for key in ("nothing", *WITHOUT)]
    started, longest = time.monotonic(), 0.0
    while time.monotonic() - started + longest < BUDGET:
        name, key = min(contestants, key=lambda pair: len(known[pair[0]].get(pair[1], ())))
        begun = time.monotonic()
        known[name].setdefault(key, []).append(in_new_process(f"{key}:{name}"))
        longest = max(longest, time.monotonic() - begun)
        results[name] = {
            "time without, over time with": ratios(known[name]),
            "seconds without": known[name],
        }
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
    sys.stdout.write(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
