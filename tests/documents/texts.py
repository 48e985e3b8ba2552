"""Small text files for the tests of documents, and cells to put into them."""

from typing import Any, NamedTuple

import numpy as np

from miwae.columns import Cells
from miwae.documents import open_document, write
from miwae.documents._opening import open_text

__all__ = [
    "CSV",
    "MIDDLE",
    "Learned",
    "column_of",
    "copied",
    "fill_texts",
    "filled",
    "levels",
    "patched_texts",
]

CSV = b'a,b\r\n0.10,"x, y"\r\n,\r\n2,z'
MIDDLE = np.array([1])  # the row of it that is empty


def copied(source, target, cells=None):
    """Read a file, and write it with some cells replaced."""
    write(open_document(str(source)).read(), str(target), cells)


class Learned(NamedTuple):
    """What is known about a column from another file."""

    storage: str
    example: str = ""


def column_of(cells, **options):
    """A file with a column of cells; its second column keeps blank lines from being blank."""
    lines = "".join(f"{cell}|x\n" for cell in ["name", *cells])
    return open_text(lines.encode(), delimiter="|", **options)


def levels(*values):
    return np.array(values, dtype=object)


def filled(document, position, values, like=None):
    """The file with all missing cells of a column filled in turn."""
    reading = document.read(like=like)
    rows = np.flatnonzero(reading.columns[position].missing)
    return reading.patched({position: Cells(rows, np.asarray(values))})


def patched_texts(reading, position, cells: Cells) -> list[Any]:
    """The texts of a column after some of its cells were replaced."""
    return list(reading.frame({position: cells}, as_text=True).columns[position])


def fill_texts(cells, values, like=None, **options):
    """What is written into the missing cells of a column."""
    reading = column_of(cells, **options).read(like=like and [*like, Learned("text")])
    rows = np.flatnonzero(reading.columns[0].missing)
    after = patched_texts(reading, 0, Cells(rows, np.asarray(values)))
    return [after[row] for row in rows]
