"""docs/notation.md is true: it lists each letter of a shape for the file that uses it."""

import re

import pytest

from test_architecture import ROOT
from test_layers import MODULES, PACKAGE, name_of

TEXT = (ROOT / "docs" / "notation.md").read_text(encoding="utf-8")
SIZES, _, OTHERS = TEXT.partition("## Quantities")[0].partition("These letters mean the above")

# Those of all files, and those of some: by the files or folders that a row of the table names.
EVERYWHERE = set(re.findall(r"^\| ([A-Z]) \|", SIZES, flags=re.MULTILINE))
ROWS = [row.split("|")[1:3] for row in OTHERS.splitlines() if row.startswith("| `")]
ELSEWHERE = [(re.findall(r"`([^`]+)`", where), letters) for where, letters in ROWS]

ARRAY = re.compile(r'(?:Float|Bool|Int|Integer|Real|Key|Shaped|UInt\d+)\[[^"\n]*, "([^"\n]*)"\]')


def letters_of(path):
    """The letters in the shapes of a file; SH is S times H, C4 is four times C."""
    shapes = ARRAY.findall(path.read_text(encoding="utf-8"))
    axes = {axis.strip("#*") for shape in shapes for axis in shape.split()}
    return {letter for axis in axes if axis.isupper() for letter in axis if letter.isalpha()}


@pytest.mark.parametrize("path", [p for p in MODULES if letters_of(p)], ids=name_of)
def test_letters_of_shapes_are_listed(path):
    own = path.relative_to(PACKAGE).as_posix()
    rows = [text for places, text in ELSEWHERE if any(own.startswith(place) for place in places)]
    listed = {letter for text in rows for letter in re.findall(r"\b[A-Z]\b", text)}
    assert letters_of(path) <= EVERYWHERE | listed


def test_letters_are_found():
    assert {"N", "B", "D", "L", "K"} <= EVERYWHERE
    assert letters_of(PACKAGE / "model/networks/_convolutional.py") >= {"H", "W", "C", "S", "O"}
