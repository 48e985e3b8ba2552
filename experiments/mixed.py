"""Tables of numbers and categories, by the command that users have: `miwae benchmark`.

    python experiments/mixed.py                    everything that is not in the results yet
    python experiments/mixed.py --show             the table of what there is

Three tenths of the observed cells are hidden uniformly at random and completed: in the table
itself, and in a fifth of the rows after learning from the others. The penguins ship with this
package, the other tables with statsmodels.
"""

import json
import subprocess
import sys
import tempfile
from functools import partial
from importlib import resources
from pathlib import Path

import pandas as pd
from rich.console import Console
from rich.table import Table
from statsmodels import datasets

from common import parser_of
from miwae._atomic import write_atomically

RESULTS = Path(__file__).parent / "results" / "mixed.jsonl"
METHODS = "miwae,mean,knn,pca,missforest,iterative"
RATE, NEW_ROWS = 0.3, 0.2


def penguins():
    """344 penguins: species, island and sex; bill, flipper and weight."""
    with resources.as_file(resources.files("miwae.data") / "penguins.csv") as path:
        return pd.read_csv(path), ()


def packaged(module):
    """A table of statsmodels."""
    frame = module.load_pandas().data
    assert isinstance(frame, pd.DataFrame)
    return frame


def voters():
    """944 American voters of 1996: opinions on scales, age, education, income, vote."""
    frame = packaged(datasets.anes96).drop(columns="logpopul")
    return frame, ("vote",)


def travellers():
    """840 choices between plane, train, bus and car: times, costs, income."""
    frame = packaged(datasets.modechoice).drop(columns="individual")
    return frame, ("mode", "choice")


def marriages():
    """1,500 of 6,366 answers on marriages: years, children, occupations of both."""
    frame = packaged(datasets.fair).sample(1_500, random_state=0)
    return frame, ("occupation", "occupation_husb")


TABLES = {"penguins": penguins, "voters": voters, "travellers": travellers, "marriages": marriages}


def compare(name, frame, categorical, *, new_rows, n_masks):
    """What the command says of a table."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "table.csv"
        frame.to_csv(path, index=False)
        kinds = [f"--kind={column}=categorical" for column in categorical]
        shares = [f"--rate={RATE}", f"--new-rows={new_rows}", f"--masks={n_masks}"]
        command = ["benchmark", str(path), "--methods", METHODS, *shares, *kinds, "--json"]
        done = subprocess.run(
            [sys.executable, "-m", "miwae", *command], stdout=subprocess.PIPE, check=True
        )
    (found,) = json.loads(done.stdout)
    return {
        "table": name,
        "shape": list(frame.shape),
        "protocol": "new-rows" if new_rows else "in-sample",
        "rate": RATE,
        "masks": n_masks,
        "methods": found["methods"],
    }


def results(path):
    """What there is, by table and protocol."""
    lines = path.read_text().splitlines() if path.exists() else []
    records = [json.loads(line) for line in lines]
    return {(record["table"], record["protocol"]): record for record in records}


def _write(content, file):
    file.write(content)


def run_missing(path, tables, *, new_rows, n_masks):
    """Compare on the tables that have no results yet; all of them are written after each."""
    for name, table in tables.items():
        found = results(path)
        if (name, "new-rows" if new_rows else "in-sample") in found:
            continue
        new = compare(name, *table(), new_rows=new_rows, n_masks=n_masks)
        text = "".join(json.dumps(record) + "\n" for record in (*found.values(), new))
        write_atomically(str(path), partial(_write, text.encode()))
        print(f"{name}, {new['protocol']}", flush=True)


def show(found):
    """One line for each table, protocol and method."""
    fields = ("mse", "mae", "crps", "accuracy", "log_loss", "seconds")
    view = Table(title="cells hidden from tables of numbers and categories")
    for column in ("table", "protocol", "method", *fields):
        view.add_column(column, justify="right" if column in fields else "left")
    for (table, protocol), record in found.items():
        for line in record["methods"]:
            numbers = ("" if line[field] is None else f"{line[field]:.3f}" for field in fields)
            view.add_row(table, protocol, line["method"], *numbers)
    Console(width=110).print(view)


def main():
    """Run, or show."""
    arguments = parser_of(__doc__, masks=2).parse_args()
    for new_rows in () if arguments.show else (0.0, NEW_ROWS):
        run_missing(RESULTS, TABLES, new_rows=new_rows, n_masks=arguments.masks)
    show(results(RESULTS))


if __name__ == "__main__":
    main()
