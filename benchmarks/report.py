"""What a report costs beyond the imputation: seconds for 5,000 x 30, and the size for 100 columns.

    python benchmarks/report.py        writes benchmarks/results/report.json

The tables have numbers, whole numbers and categories in turn, and a fifth of their cells missing.
Training is short, as a report does not depend on its length. The first report of a process
compiles what it needs; a second one shows what is left. Besides the seconds on the clock there are
seconds of both cores: where other users share the machine, they say more.
"""

import json
import os
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from miwae import MIWAEImputer
from miwae.frames import columns
from miwae.report import report_on

RESULTS = Path(__file__).parent / "results" / "report.json"
SIZES = {"5,000 x 30": (5_000, 30), "1,000 x 100": (1_000, 100)}
STEPS = 500


def table(n_rows, n_columns):
    """A number, a whole number and a category in turn, of four factors."""
    rng = np.random.default_rng(0)
    x = np.tanh(rng.normal(size=(n_rows, 4)) @ rng.normal(size=(4, n_columns)))
    x += 0.3 * rng.normal(size=x.shape)
    thirds = (-0.5, 0.5)
    forms = (lambda c: c.round(3), lambda c: np.rint(20 * c), lambda c: np.digitize(c, thirds))
    frame = pd.DataFrame({f"column_{j}": forms[j % 3](x[:, j]) for j in range(n_columns)})
    for name in frame.columns[2::3]:
        frame[name] = np.array(["low", "middle", "high"])[frame[name]]
    return frame.mask(rng.random(frame.shape) < 0.2)


def timed(call):
    clock, cpu = time.perf_counter(), time.process_time()
    result = call()
    seconds = round(time.perf_counter() - clock, 2), round(time.process_time() - cpu, 2)
    return result, dict(zip(("seconds", "cpu"), seconds, strict=True))


def measured(n_rows, n_columns):
    frame = table(n_rows, n_columns)
    fitted = MIWAEImputer(random_state=0, max_steps=STEPS).fit(frame)._fitted.table
    own = columns(frame)
    imputed, imputation = timed(lambda: fitted.means(fitted.encoded(own)))
    page, first = timed(lambda: report_on(fitted, own, imputed=imputed))
    _, again = timed(lambda: report_on(fitted, own, imputed=imputed))
    size = len(page.html.encode())
    return {"imputation": imputation, "report": first, "second report": again, "bytes": size}


if __name__ == "__main__":
    results: dict[str, Any] = {"machine": f"{os.cpu_count()} cores, {platform.machine()}"}
    for name, size in SIZES.items():
        results[name] = measured(*size)
        print(name, json.dumps(results[name]))
    RESULTS.write_text(json.dumps(results, indent=2) + "\n")
