"""What the experiments share: arguments, and cells that are attempted once."""

import argparse
import subprocess
import time
from functools import cache
from pathlib import Path

import numpy as np

from miwae.errors import MiwaeError
from miwae.evaluation import key_of

PICTURES = Path(__file__).parent.parent / "docs" / "images"


def save(figure, name):
    """A figure for the documentation, as PNG and SVG."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    for suffix in ("png", "svg"):
        figure.savefig(PICTURES / f"{name}.{suffix}", dpi=130)


def parser_of(description, *, masks):
    """Arguments that every experiment has."""
    parser = argparse.ArgumentParser(description=(description or "").partition("\n")[0])
    parser.add_argument("--masks", type=int, default=masks)
    parser.add_argument("--show", action="store_true", help="run nothing")
    return parser


@cache
def commit():
    """The state of the code, with a mark where it was changed since; results may change."""

    def git(*command):
        return subprocess.run(["git", *command], capture_output=True, text=True, check=False)

    changed = git("diff", "--quiet", "HEAD", "--", "src", "experiments/*.py").returncode
    known = git("describe", "--always").stdout.strip()
    return f"{known}-dirty" if known and changed else known or None


def cell(protocol, data, method, mask, *, rate, standardise):
    """A cell of an experiment with exactly this share of the cells removed."""
    return {
        "protocol": protocol,
        "data": data,
        "method": method,
        "mechanism": "mcar-exact",
        "rate": rate,
        "standardise": standardise,
        "mask": mask,
        "seed": 0,
    }


def finished(store):
    """The records of cells that did not fail."""
    return [record for record in store.records() if "error" not in record]


def run_missing(store, cells, attempt):
    """Attempt the cells that the store does not have, and tell of each in a line."""
    done = store.done()
    for one in cells:
        if key_of(one) in done:
            continue
        start = time.perf_counter()
        try:
            result = attempt(one)
        except MiwaeError as error:  # one that fails must not stop the others
            result = {"error": f"{type(error).__name__}: {error}"}
        seconds = time.perf_counter() - start
        store.append({**one, **result, "seconds": seconds})
        numbers = "  ".join(
            f"{name} {value}" if isinstance(value, str) else f"{name} {value:.4g}"
            for name, value in result.items()
        )
        where = f"mask {one['mask']}  {one['rate']:.0%}  {one['data']:18} {one['method']:32}"
        print(f"{where} {numbers}  {seconds:.1f} s", flush=True)


def padded_to(observation, x, observed):
    """Rows as an observation model has them that may pad the columns of a table."""
    margin = ((0, 0), (0, observation.n_features - x.shape[1]))
    return np.pad(x, margin), np.pad(observed, margin)
