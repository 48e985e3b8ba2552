"""Generated parts of the documentation, and what becomes of links that lead out of it."""

import os
import re
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]

# Groups of the page of names: a heading, and the modules whose names stand under it.
GROUPS = {
    "Tables": ("miwae.imputer", "miwae.events"),
    "Statistics": ("miwae.pooling",),
    "Plots": ("miwae.plots",),
    "Clusters": ("miwae.dask", "miwae.spark", "miwae.engines"),
    "Report": ("miwae.report",),
    "Training": ("miwae.training",),
    "Inference": ("miwae.inference",),
    "Models": ("miwae.model",),
    "Errors": ("miwae.errors",),
    "Compilation": ("miwae._compilation",),
}


NO_BREAK = "\N{NO-BREAK SPACE}"


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Put generated parts in their places, and name files outside of the documentation."""
    if page.parent is None:  # a tab of its own: the list of pages beside it would have one line
        page.meta.setdefault("hide", ["navigation"])
    markdown = re.sub(r"<!-- file (\S+) -->", lambda found: _file(found[1]), markdown)
    if "<!-- help -->" in markdown:
        markdown = markdown.replace("<!-- help -->", _help())
    if "<!-- names -->" in markdown:
        markdown = markdown.replace("<!-- names -->", _names())
    if "<!-- blocks -->" in markdown:
        markdown = markdown.replace("<!-- blocks -->", _blocks())
    markdown = re.sub(r"^\|.*\|$", _whole_numbers, markdown, flags=re.MULTILINE)
    # Files of the repository that are not part of the site have no address here.
    return re.sub(r"\[([^\]]*)\]\(\.\./([^)#]+)(?:#[^)]*)?\)", _without_link, markdown)


def _whole_numbers(row: re.Match[str]) -> str:
    """A row of a table, of which no number is parted from its unit or its error."""
    return re.sub(r"(?<=\d) (?=%|[±x] \d)|(?<=\d [±x]) (?=\d)", NO_BREAK, row[0])


def _without_link(found: re.Match[str]) -> str:
    text, path = found.groups()
    return f"`{path}`" if text == path else f"{text} (`{path}`)"


# A script that the theme loads from elsewhere, for the search of pages that are opened from disk.
SHIM = "https://unpkg.com/iframe-worker/shim"


def on_post_page(output: str, **_: Any) -> str:
    """Load nothing from elsewhere."""
    return output.replace(SHIM, "javascripts/worker.js")


def _file(name: str) -> str:
    """A file of the repository as a page, its links as they are from here."""
    text = (ROOT / name).read_text(encoding="utf-8")
    text = re.sub(r"\]\(docs/([^)]+)\)", r"](\1)", text)
    return re.sub(r"\]\(([A-Za-z]+/[^):]+)\)", r"](../\1)", text)


def _help() -> str:
    """The help of every command, as it is printed."""
    os.environ |= {"COLUMNS": "100", "TERM": "dumb", "NO_COLOR": "1"}
    from typer.main import get_command
    from typer.testing import CliRunner

    from miwae.cli._app import app

    parts = []
    for name in get_command(app).commands:  # pyright: ignore[reportAttributeAccessIssue]
        text = CliRunner().invoke(app, [name, "--help"], prog_name="miwae").output
        lines = "\n".join(line.rstrip() for line in text.strip().splitlines())
        parts.append(f"## miwae {name}\n\n```text\n{lines}\n```\n")
    return "\n".join(parts)


def _names() -> str:
    """Every public name with its docstring, by group."""
    return "\n".join(f"## {title}\n" + _of(homes) for title, homes in GROUPS.items())


# Users import these names from `miwae`, wherever they live.
SHORT = "    options:\n      show_root_full_path: false\n"


def _of(homes: tuple[str, ...]) -> str:
    import importlib

    import miwae

    names = []
    for home in homes:
        if home in PUBLIC:
            names += [f"::: {home}.{name}\n" for name in importlib.import_module(home).__all__]
        else:
            names += [f"::: {home}.{name}\n{SHORT}" for name in miwae._HOMES[home].split()]
    return "\n".join(names)


# Modules with more names than the front door repeats.
BLOCKS = ("miwae.model", "miwae.inference", "miwae.training", "miwae.evaluation")


def _blocks() -> str:
    """Classes and functions that the front door leaves to its modules."""
    import importlib
    import inspect

    import miwae

    parts = []
    for home in BLOCKS:
        module = importlib.import_module(home)
        names = [name for name in module.__all__ if name not in miwae.__all__]
        values = [(name, getattr(module, name)) for name in names]
        shown = [name for name, v in values if inspect.isclass(v) or inspect.isfunction(v)]
        parts.append(f"## {home}\n" + "\n".join(f"::: {home}.{name}\n" for name in shown))
    return "\n".join(parts)


# Modules whose names are not repeated by the front door.
PUBLIC = ("miwae.plots", "miwae.report", "miwae.dask", "miwae.spark", "miwae.engines")
