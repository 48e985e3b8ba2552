"""docs/architecture.md is true: what it names exists, and folders import what it says."""

import re
from pathlib import Path

import pytest

from test_layers import MODULES, PACKAGE, imported, layer_of, name_of, tree_of

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")

# Folders of the package, by the table: what each says that it imports.
ROWS = re.findall(r"^\| `(\w+)` \|.*\|(.*)\|$", TEXT, flags=re.MULTILINE)
IMPORTS = {folder: set(re.findall(r"`(\w+)`", cell)) for folder, cell in ROWS}
FOLDERS = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}


def imported_folders(folder):
    modules = (path for path in MODULES if name_of(path).startswith(f"{folder}."))
    names = {name.split(".")[0] for path in modules for name in imported(tree_of(path))}
    return names & FOLDERS - {folder}


def test_the_table_has_every_folder_once():
    assert sorted(folder for folder, _ in ROWS) == sorted(FOLDERS)


@pytest.mark.parametrize("folder", sorted(FOLDERS))
def test_the_table_has_the_imports_of_the_code(folder):
    assert IMPORTS[folder] == imported_folders(folder)


@pytest.mark.parametrize("folder", sorted(IMPORTS))
def test_imports_of_the_table_are_not_above_in_the_layers(folder):
    assert all(layer_of(other) <= layer_of(folder) for other in IMPORTS[folder])


@pytest.mark.parametrize("path", sorted(set(re.findall(r"[\w/]+\.py|\w[\w/]*/(?=[\s`])", TEXT))))
def test_files_and_folders_exist(path):
    assert any((base / path).exists() for base in (PACKAGE, ROOT))


@pytest.mark.parametrize("step", re.findall(r"^\| \d\. .*$", TEXT, flags=re.MULTILINE))
def test_the_functions_of_a_step_are_in_its_files(step):
    _, _, functions, files, _ = step.split("|")
    paths = [PACKAGE / name for name in re.findall(r"`([\w/]+\.py)`", files)]
    code = "".join(path.read_text(encoding="utf-8") for path in paths)
    for call in re.findall(r"`([^`]+)`", functions):
        for name in re.findall(r"(\w+)(?=\()|(\w+)$", call):
            assert re.search(rf"\b(?:def|class) {name[0] or name[1]}\b", code), call
