"""An hour of work in one process: memory, files and mappings stay flat, and results the same.

Rounds of fits of random shapes, imputations, files and threads. After each, what the process holds
is written to the file of results, and at the end a verdict. Compiled programs are kept until there
are many, and dropped together: therefore cycles from one drop to the next are compared. With a
smaller `--room` for programs there are more cycles in the same time.
"""

import argparse
import gc
import json
import os
import platform
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from fuzz.campaign import RESULTS, Failure
from miwae import MIWAEImputer, _compilation

SMALL = {"n_hidden": 16, "n_layers": 1, "n_latent": 3, "n_imputation_samples": 64}

# The first part of the cycles is warm-up; of the rest, the second half may exceed the first by
# this factor, and by so many files, threads or mappings. Of fewer cycles nothing can be said.
WARM_UP, FACTOR, FEW, LEAST = 0.4, 1.1, 8, 5

HELD = ("resident_mib", "files", "mappings", "threads", "objects")


def table(rng: np.random.Generator, n_rows: int, n_columns: int) -> pd.DataFrame:
    """Numbers and categories that depend on each other, a sixth of them missing."""
    x = rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns))
    x += 0.3 * rng.normal(size=x.shape)
    frame = pd.DataFrame(x, columns=[f"c{j}" for j in range(n_columns)])
    n_levels = int(rng.integers(2, 6))
    edges = np.quantile(x[:, 0], np.arange(1, n_levels) / n_levels)
    frame["c0"] = np.array(list("abcdef"))[np.searchsorted(edges, x[:, 0])]
    return frame.mask(rng.random(frame.shape) < 1 / 6)


def imputer_for(seed: int, **settings: Any) -> MIWAEImputer:
    """One that takes little time."""
    return MIWAEImputer(**SMALL, **{"max_steps": 20, "random_state": seed, **settings})


def reference() -> tuple[pd.DataFrame, MIWAEImputer, bytes]:
    """A fit that has the same result whenever it is done."""
    frame = table(np.random.default_rng(0), 90, 5)
    imputer = imputer_for(0)
    return frame, imputer, bits(imputer.fit_transform(frame))


def bits(frame: pd.DataFrame) -> bytes:
    """All values of a table."""
    return repr([frame[name].tolist() for name in frame.columns]).encode()


def work(seed: int, folder: Path) -> None:
    """Fit a table of random shape, use the model in every way, and compare the results."""
    rng = np.random.default_rng(seed)
    n_rows, n_columns = int(20 * 2 ** rng.uniform(0, 4)), int(rng.integers(2, 20))
    frame = table(rng, n_rows, n_columns)
    imputer = imputer_for(seed, n_models=int(rng.integers(1, 3))).fit(frame)
    completed = bits(imputer.transform(frame))
    imputer.sample(frame, 2)
    imputer.interval(frame)
    imputer.save(folder / "model")
    if bits(MIWAEImputer.load(folder / "model").transform(frame)) != completed:
        raise Failure(f"round {seed}: a loaded model imputes otherwise")
    if seed % 4 == 0:
        with ThreadPoolExecutor(3) as pool:
            refit = pool.submit(imputer_for(seed + 1).fit, frame)
            others = [pool.submit(imputer.transform, frame) for _ in range(4)]
            refit.result()
            if any(bits(own.result()) != completed for own in others):
                raise Failure(f"round {seed}: threads impute otherwise")


def held() -> dict[str, int]:
    """What this process holds, as Linux counts it."""
    status = Path("/proc/self/status").read_text()
    fields = dict(line.split(":", 1) for line in status.splitlines())
    return {
        "resident_mib": int(fields["VmRSS"].split()[0]) // 1024,
        "files": len(os.listdir("/proc/self/fd")),
        "mappings": Path("/proc/self/maps").read_bytes().count(b"\n"),
        "threads": threading.active_count(),
        "objects": len(gc.get_objects()),
        "left_by_drop": _compilation._kept,  # mappings; another number after each drop
    }


def most_in_cycles(samples: Sequence[dict[str, Any]]) -> list[dict[str, int]]:
    """The most of everything from one drop of compiled programs to the next."""
    cycles = [list(own) for _, own in groupby(samples, lambda sample: sample["left_by_drop"])]
    return [{name: max(sample[name] for sample in own) for name in HELD} for own in cycles]


def growth(cycles: Sequence[dict[str, int]]) -> dict[str, tuple[int, int]]:
    """What grew after warm-up: the most in the first half, and in the second."""
    rest = cycles[int(WARM_UP * len(cycles)) :]
    first, second = rest[: len(rest) // 2], rest[len(rest) // 2 :]
    grown = {}
    for name in HELD:
        most = [max(sample[name] for sample in half) for half in (first, second)]
        if most[1] > FACTOR * most[0] + FEW:
            grown[name] = (most[0], most[1])
    return grown


def soak(minutes: float, path: Path) -> dict[str, Any]:
    """Work for so long, write samples, and return the verdict, which is the last line."""
    started, samples, n_rounds = time.monotonic(), [], 0
    frame, imputer, before = reference()
    with path.open("w") as file, tempfile.TemporaryDirectory() as name:
        while (seconds := time.monotonic() - started) < 60 * minutes:
            samples.append({"seconds": round(seconds), "rounds": n_rounds, **held()})
            file.write(json.dumps(samples[-1]) + "\n")
            file.flush()
            work(n_rounds, Path(name))
            n_rounds += 1
        same = bits(imputer.transform(frame)) == before == reference()[2]
        seconds = round(time.monotonic() - started)
        cycles = most_in_cycles(samples)
        machine = f"{platform.system()}, {os.cpu_count()} cores"
        verdict = {
            "minutes": round(seconds / 60),
            "rounds": n_rounds,
            "same_results": same,
            "room": round(_compilation.ADDED, 3),
            "cycles": len(cycles),
            "grown": growth(cycles) if len(cycles) >= LEAST else "too few cycles to tell",
            "machine": machine,
        }
        file.write(json.dumps(verdict) + "\n")
    return verdict


def main() -> None:
    """Soak, from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument(
        "--room",
        type=float,
        default=_compilation.ADDED,
        help="share of the memory mappings that Linux allows which programs may add",
    )
    options = parser.parse_args()
    _compilation.ADDED = options.room
    verdict = soak(options.minutes, RESULTS / "soak.jsonl")
    print(json.dumps(verdict))
    if verdict["grown"] or not verdict["same_results"]:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
