"""Cases by number, their outcomes as JSON lines, and going on where the last run stopped."""

import argparse
import json
import re
import time
import traceback
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeAlias

RESULTS = Path(__file__).parent / "results"

# From the number of a case, which is its random seed, to one word for what happened. Whatever it
# raises is a failure.
Case: TypeAlias = Callable[[int], str]

BATCH = 25  # cases of one line
SLOW = 30.0  # seconds after which a case counts as a failure


class Failure(AssertionError):
    """Something happened that must not happen."""


def without_folders(text: str) -> str:
    """Names of files without their folders, which are those of one machine."""
    return re.sub(r"/(?:[^/\s\"']+/)+", "", text)


def outcome_of(case: Case, seed: int) -> tuple[str, dict[str, Any] | None]:
    """What happened in a case, and the failure, if it is one."""
    started, worked = time.monotonic(), time.process_time()
    try:
        word = case(seed)
    except Exception as error:
        last = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(last.filename).name}:{last.lineno}"
        what = without_folders(f"{type(error).__name__}: {error}")[:300]
        return "failed", {"seed": seed, "error": what, "where": where}
    # What it would take on a machine with nothing else to do.
    seconds = min(time.monotonic() - started, time.process_time() - worked)
    if seconds > SLOW:
        return "failed", {"seed": seed, "error": f"took {seconds:.0f} s"}
    return word, None


def run(
    name: str,
    case: Case,
    n_cases: int,
    note: str = "",
    prepare: Callable[[int], object] | None = None,
) -> None:
    """Run a campaign from the command line, after the cases that its file of results has.

    `prepare` makes what all cases need, before their time is taken. It is told how many cases will
    run at a time.
    """
    parser = argparse.ArgumentParser(description=note)
    parser.add_argument("--cases", type=int, default=n_cases, help="in all, earlier runs included")
    parser.add_argument("--seed", type=int, help="only this case, with its traceback")
    parser.add_argument("--jobs", type=int, default=1, help="cases at a time")
    parser.add_argument("--again", action="store_true", help="the cases that failed")
    options = parser.parse_args()
    if prepare is not None:
        prepare(options.jobs)
    if options.seed is not None:
        print(case(options.seed))
        return
    path = RESULTS / f"{name}.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    if options.again:
        lines = [_again(case, line) for line in lines]
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return
    first = max((line["first"] + line["cases"] for line in lines), default=0)
    for start in range(first, options.cases, BATCH):
        line = _batch(case, start, min(BATCH, options.cases - start), options.jobs)
        with path.open("a") as file:
            file.write(json.dumps(line) + "\n")
        print(name, start + line["cases"], line["outcomes"], *line["failures"], flush=True)


def _again(case: Case, line: dict[str, Any]) -> dict[str, Any]:
    """A line with its failed cases run again; their seeds and first errors stay in it."""
    if not line["failures"]:
        return line
    words, failures = Counter(line["outcomes"]), []
    del words["failed"]
    for old in line["failures"]:
        word, failure = outcome_of(case, old["seed"])
        print(old["seed"], word, failure or "")
        words[word] += 1
        failures += [] if failure is None else [failure]
    again = [*line.get("again", []), *line["failures"]]
    return {**line, "outcomes": dict(sorted(words.items())), "failures": failures, "again": again}


def _outcomes(case: Case, seeds: range, jobs: int) -> list[tuple[str, dict[str, Any] | None]]:
    if jobs == 1:
        return [outcome_of(case, seed) for seed in seeds]
    with ThreadPoolExecutor(jobs) as pool:
        return list(pool.map(lambda seed: outcome_of(case, seed), seeds))


def _batch(case: Case, first: int, count: int, jobs: int) -> dict[str, Any]:
    started, words, failures = time.monotonic(), Counter[str](), []
    for word, failure in _outcomes(case, range(first, first + count), jobs):
        words[word] += 1
        failures += [] if failure is None else [failure]
    seconds = round(time.monotonic() - started, 1)
    outcomes = dict(sorted(words.items()))
    return {
        "first": first,
        "cases": count,
        "outcomes": outcomes,
        "failures": failures,
        "seconds": seconds,
    }
