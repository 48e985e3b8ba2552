"""What a user waits for, beside an earlier version of this project and beside other imputers.

    python benchmarks/waiting.py                        everything
    python benchmarks/waiting.py rows small             some parts: rows, small, tables
    python benchmarks/waiting.py --before e4b25f3 rows  another version to compare with

Each measurement is a process of its own; those of the two versions (the earlier one is checked out
into a git worktree) and of the other imputers take turns, round by round. Besides the seconds on
the clock there are seconds of both cores: where other users share the machine, they say more.
Results are written to results/waiting.json after each part; other parts keep theirs.
"""

import argparse
import contextlib
import itertools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from threadpoolctl import threadpool_limits

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results" / "waiting.json"
BEFORE = "e4b25f3"  # the last commit before weights, padded programs and blocks of samples

PEERS = {
    "iris": ("iterative", "boosted", "missforest"),
    "white wine": ("iterative", "boosted", "missforest"),
    "50000": ("iterative", "boosted"),  # forests would take hours
}


def synthetic(n_rows, n_columns=20, seed=0):
    """Standardised nonlinear columns of four factors."""
    rng = np.random.default_rng(seed)
    loadings = np.random.default_rng(1).normal(size=(4, n_columns))
    x = np.tanh(rng.normal(size=(n_rows, 4)) @ loadings)
    return (x + 0.3 * rng.normal(size=x.shape)) / 0.8


def table(name):
    if name.isdigit():
        return synthetic(int(name))
    if name == "iris":
        from sklearn.datasets import load_iris

        x = np.asarray(load_iris(return_X_y=True)[0])
    else:
        path = Path(os.environ["MIWAE_DATA"]) / "wine_white.csv"
        x = np.genfromtxt(
            path, delimiter=";" if ";" in path.read_text()[:400] else ",", skip_header=1
        )
    return (x - x.mean(0)) / x.std(0)


def incomplete(x, seed=3):
    """30 % of the cells removed."""
    holes = np.random.default_rng(seed).random(x.shape) < 0.3
    return np.where(holes, np.nan, x), holes


class Watch:
    """Seconds on the clock and of all cores since the last reading."""

    def __init__(self):
        self.read()

    def read(self):
        now = time.perf_counter(), time.process_time()
        past = [b - a for a, b in zip(getattr(self, "last", now), now, strict=True)]
        self.last = now
        return {"seconds": round(past[0], 3), "cpu": round(past[1], 3)}


def error(completed, x, holes):
    return round(float(np.mean((completed - x)[holes] ** 2)), 5)


def seconds_of_products(n_columns, n=4_096, repeats=20):
    """NumPy's, of one core, for the matrix products of one latent sample, decoded."""
    rng = np.random.default_rng(0)
    widths = (10, 128, 128, 128, 3 * n_columns)
    pairs = itertools.pairwise(widths)
    weights = [rng.normal(0, 0.1, size=pair).astype(np.float32) for pair in pairs]
    values = [np.ones((n, width), dtype=np.float32) for width in widths]
    best = np.inf
    with threadpool_limits(1):
        for _ in range(repeats):
            before = time.process_time()
            for i, weight in enumerate(weights):
                np.matmul(values[i], weight, out=values[i + 1])
            best = min(best, time.process_time() - before)
    return best / n


def child_rows(n_rows):
    """A fit of 5,000 x 20; then new rows, compiled before; then 200 single rows."""
    from miwae import MIWAEImputer

    watch = Watch()
    imputer = MIWAEImputer(random_state=0).fit(incomplete(synthetic(5_000))[0])
    out = {"fit of 5,000": watch.read()}
    imputer.transform(incomplete(synthetic(500, seed=5))[0])
    x = synthetic(int(n_rows), seed=2)
    given, holes = incomplete(x)
    watch.read()
    completed = imputer.transform(given)
    out["new rows"] = {**watch.read(), "squared error": error(completed, x, holes)}
    n_samples = int(np.sum(imputer.diagnostics(given).n_samples))
    products = seconds_of_products(x.shape[1])
    out["new rows"]["latent samples"] = n_samples
    out["new rows"]["products"] = round(n_samples * products / out["new rows"]["cpu"], 3)
    times = []
    for row in given[:220]:
        watch.read()
        imputer.transform(row[None])
        times.append(1e3 * watch.read()["seconds"])
    times = times[20:]
    out["one row, ms"] = {
        "median": round(float(np.median(times)), 1),
        "95 %": round(float(np.quantile(times, 0.95)), 1),
    }
    return out


def child_small(cache):
    """150 x 4 in a new process, then 120 x 5; with a cache on disk if one is named."""
    watch = Watch()
    from miwae import MIWAEImputer

    if cache != "none":
        import miwae

        miwae.enable_compilation_cache(cache)
    first = watch.read()
    given, _ = incomplete(table("iris"))
    MIWAEImputer(random_state=0).fit_transform(given)
    second = watch.read()
    wider, _ = incomplete(synthetic(120, 5))
    MIWAEImputer(random_state=0).fit_transform(wider)
    return {"import": first, "150 x 4": second, "then 120 x 5": watch.read()}


def child_tables(argument):
    """Fit and transform of a table by a method."""
    name, method = argument.split("/")
    x = table(name)
    given, holes = incomplete(x)
    watch = Watch()
    if method == "miwae":
        from miwae import MIWAEImputer

        imputer = MIWAEImputer(random_state=0).fit(given)
        fit = watch.read()
        completed = imputer.transform(given)
        own = {"fit": fit, "transform": watch.read()}
        total = {key: round(fit[key] + own["transform"][key], 3) for key in fit}
        return {**total, **own, "squared error": error(completed, x, holes)}
    from miwae.evaluation.peers import complete

    completed = complete(method, given, np.zeros(x.shape[1], dtype=bool), 0)
    return {**watch.read(), "squared error": error(completed, x, holes)}


CHILDREN = {"rows": child_rows, "small": child_small, "tables": child_tables}


def in_new_process(source, child, argument):
    command = [sys.executable, __file__, "--child", child, str(argument)]
    environment = {**os.environ, "PYTHONPATH": str(source / "src")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{child} {argument} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


@contextlib.contextmanager
def checked_out(commit):
    """The folder of an earlier version."""
    git = ["git", "-C", str(ROOT), "worktree"]
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory) / "before"
        subprocess.run(
            [*git, "add", "--detach", str(path), commit], check=True, capture_output=True
        )
        try:
            yield path
        finally:
            subprocess.run([*git, "remove", "--force", str(path)], check=True)


def medians(rounds):
    """Of each number over the rounds."""
    if isinstance(rounds[0], dict):
        return {key: medians([own[key] for own in rounds]) for key in rounds[0]}
    return round(float(np.median(rounds)), 5)


def ratios(before, now):
    """Times of now over before."""
    return {
        key: ratios(before[key], now[key])
        if isinstance(now[key], dict)
        else round(now[key] / before[key], 3)
        for key in now
    }


def in_turn(sources, child, argument, n_rounds):
    rounds = {name: [] for name in sources}
    for _ in range(n_rounds):
        for name, source in sources.items():
            rounds[name].append(in_new_process(source, child, argument))
    out = {name: medians(own) for name, own in rounds.items()}
    return {**out, "now / before": ratios(out["before"], out["now"]), "rounds": n_rounds}


def rows(sources, options):
    return {str(options.rows): in_turn(sources, "rows", options.rows, options.rounds)}


def small(sources, options):
    """Without a cache, and with one that an earlier process of the same version has filled."""
    out = {"nothing cached": in_turn(sources, "small", "none", options.rounds)}
    with contextlib.ExitStack() as stack:
        caches = {name: stack.enter_context(tempfile.TemporaryDirectory()) for name in sources}
        rounds = {name: [] for name in sources}
        for turn in range(options.rounds + 1):
            for name, source in sources.items():
                found = in_new_process(source, "small", caches[name])
                if turn:
                    rounds[name].append(found)
    cached = {name: medians(own) for name, own in rounds.items()}
    out["programs on disk"] = {**cached, "now / before": ratios(cached["before"], cached["now"])}
    cold = out["nothing cached"]["before"]
    out["programs on disk, over before with nothing cached"] = ratios(cold, cached["now"])
    return out


def tables(sources, options):
    out = {}
    for name in options.tables.split(","):
        rounds = {}
        for _ in range(options.rounds):
            for version, source in sources.items():
                found = in_new_process(source, "tables", f"{name}/miwae")
                rounds.setdefault(version, []).append(found)
            for method in PEERS[name]:
                found = in_new_process(sources["now"], "tables", f"{name}/{method}")
                rounds.setdefault(method, []).append(found)
        out[name] = {method: medians(own) for method, own in rounds.items()}
    return out


PARTS = {"rows": rows, "small": small, "tables": tables}


def main():
    """Run the parts asked for and write their results."""
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(json.dumps(CHILDREN[sys.argv[2]](sys.argv[3])) + "\n")
        return
    parser = argparse.ArgumentParser(description="What a user waits for")
    parser.add_argument("parts", nargs="*", metavar="part", help=", ".join(PARTS))
    parser.add_argument("--before", default=BEFORE, help="the commit to compare with")
    parser.add_argument("--rounds", type=int, default=3, help="of each measurement")
    parser.add_argument("--rows", type=int, default=20_000, help="new rows to complete")
    parser.add_argument("--tables", default=",".join(PEERS), help="to complete beside others")
    options = parser.parse_args()
    chosen = options.parts or list(PARTS)
    if unknown := set(chosen) - set(PARTS):
        parser.error(f"unknown: {', '.join(sorted(unknown))}; parts are {', '.join(PARTS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    with checked_out(options.before) as before:
        for part in chosen:
            own = PARTS[part]({"before": before, "now": ROOT}, options)
            results[part] = {**results.get(part, {}), **own}
            head = ["git", "-C", str(ROOT), "rev-parse", "--short", "HEAD"]
            now = subprocess.run(head, check=True, capture_output=True, text=True).stdout.strip()
            machine = {"cores": os.cpu_count(), "python": platform.python_version()}
            results |= {"before": options.before, "now": now, "machine": machine}
            RESULTS.write_text(json.dumps(results, indent=2) + "\n")
            sys.stdout.write(json.dumps({part: own}, indent=2) + "\n")


if __name__ == "__main__":
    main()
