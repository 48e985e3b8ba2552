"""The page: facts and figures in one HTML file, escaped, without references to other files."""

import base64
import functools
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any, final

import numpy as np

from miwae._atomic import write_atomically
from miwae._extras import extra
from miwae.columns import Cells, Column, ColumnSchema, inspect_columns, missing_cells, plain_values
from miwae.report import _figures as figures
from miwae.report import _sentences as sentences
from miwae.report._facts import Facts, facts_of
from miwae.tabular import FittedTable, Imputed

FRAME_HEIGHT = 640  # pixels of a report in a notebook


@final
@dataclass(frozen=True, repr=False)
class Report:
    """A page about an imputation: shows itself in a notebook, and is saved as one HTML file.

    Args:
        html: the page.
        data: what the page says, as plain dictionaries and lists; the page has it as JSON inside.
    """

    html: str
    data: Mapping[str, Any]

    def save(self, path: str | Path) -> None:
        """Write the page to a file, which opens offline."""
        data = self.html.encode(errors="backslashreplace")  # Python has halves of characters
        write_atomically(str(path), lambda file: file.write(data))

    def _repr_html_(self) -> str:
        # In a frame of its own: its style and script are no business of the notebook.
        style = f"width:100%;height:{FRAME_HEIGHT}px;border:1px solid #ccc"
        return f'<iframe srcdoc="{escape(self.html)}" style="{style}"></iframe>'

    def __repr__(self) -> str:
        return f"Report({self.data['title']!r}, {len(self.html) // 1000} kB); report.save(path)"


def report_on(
    fitted: FittedTable,
    columns: Sequence[Column],
    *,
    imputed: Imputed | None = None,
    title: str = "table",
    command: str = "",
    of_text: bool = False,
) -> Report:
    """Describe how the missing cells of a table are imputed.

    Args:
        fitted: what was learned.
        columns: of the incomplete table.
        imputed: `fitted.means` of the table, if it is known already.
        title: the name of the table.
        command: what to type to do it again.
        of_text: whether the columns come from a text file.
    """
    extra("jinja2")
    inspection = inspect_columns(columns, fitted.schema, of_text=of_text)
    imputed = fitted.means(fitted.encoded(columns)) if imputed is None else imputed
    facts = facts_of(fitted, columns, inspection, imputed, title=title, command=command)
    cards = [
        _comparison(known, column, imputed.cells.get(i))
        for i, (known, column) in enumerate(zip(fitted.schema.columns, columns, strict=True))
    ]
    pictures = {
        "matrix": figures.matrix(missing_cells(columns)),
        "training": _training(facts),
        "weights": figures.histogram_of_k(imputed.report.pareto_k[imputed.report.n_samples > 0]),
    }
    return Report(_rendered(facts, cards, pictures), facts.as_data())


def _comparison(known: ColumnSchema, column: Column, cells: Cells | None) -> str:
    if column.storage == "other" or known.kind.label == "identifier":
        return ""
    imputed = np.zeros(0) if cells is None else cells.values
    return figures.comparison(known, plain_values(column, ~column.missing), imputed)


def _training(facts: Facts) -> str:
    records = facts.training
    bounds = ("o", [record["bound"] for record in records])
    scores = ("i", [record["log_density"] for record in records])
    return figures.training([record["step"] for record in records], [bounds, scores])


def _rendered(facts: Facts, cards: Sequence[str], pictures: Mapping[str, str]) -> str:
    template, style, script = _parts()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return template.render(
        facts=facts,
        done=sentences.done(facts),
        distrust=sentences.distrust(facts),
        verdicts=sentences.verdicts(facts),
        cards=list(zip(facts.columns, cards, strict=True)),
        pictures=pictures,
        style=style,
        script=script,
        # Nothing but this script runs, whatever the table has in its cells.
        policy=f"default-src 'none'; style-src 'unsafe-inline'; img-src data:; "
        f"script-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'",
        data=_as_json(facts.as_data()),
    )


def _as_json(data: Any) -> str:
    """JSON that can stand inside of HTML: no cell ends the element that holds it."""
    text = json.dumps(data, allow_nan=False)
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


@functools.cache
def _parts() -> tuple[Any, str, str]:
    """The template, the style and the script of the page."""
    import jinja2

    def text(name: str) -> str:
        return (resources.files("miwae.report") / name).read_text(encoding="utf-8")

    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(text("page.html")), text("page.css"), text("page.js")
