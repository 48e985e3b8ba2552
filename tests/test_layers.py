"""Code is read in import order: what a module may import, and what it has to say of itself."""

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "src" / "miwae"

# From the bottom up. A module may import from its own layer and from those below.
LAYERS: tuple[frozenset[str], ...] = (
    frozenset(
        {"errors", "_numerics", "_shapes", "_arrays", "_keys", "_row_keys", "_words", "kernels"}
    ),
    frozenset(
        {
            "_atomic",
            "_checked",
            "_compilation",
            "_deadlines",
            "_extras",
            "_interrupts",
            "_program_files",
            "_threads",
            "_memory",
        }
    ),
    frozenset({"events", "_callers"}),
    frozenset({"columns"}),
    frozenset({"frames", "documents"}),
    frozenset({"data"}),
    frozenset({"plots"}),
    frozenset({"evaluation"}),
    frozenset({"pooling"}),
    frozenset({"model"}),
    frozenset({"inference"}),
    frozenset({"training"}),
    frozenset({"tabular", "_progress"}),
    frozenset({"engines"}),
    frozenset({"report", "_outline", "_parameters"}),
    frozenset({"imputer"}),
    frozenset({"dask", "spark"}),
    frozenset({"cli"}),
    frozenset({"__main__"}),
)

# Tables and their copies know nothing of models, and models nothing of tables: neither is above
# the other, though the list has to put one first.
APART = (
    {"data", "columns", "frames", "documents", "plots", "pooling"},
    {"model", "inference", "training"},
)

MODULES = sorted(PACKAGE.rglob("*.py"))


def name_of(path: Path) -> str:
    return ".".join(path.relative_to(PACKAGE).with_suffix("").parts)


def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), filename=str(path))


def imported(tree: ast.AST) -> Iterator[str]:
    """The modules of this package that a module imports, without the leading `miwae`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            # `from miwae import x` imports the module x, or a name of the package itself.
            names = [
                f"miwae.{alias.name}" if node.module == "miwae" else str(node.module)
                for alias in node.names
            ]
        else:
            continue
        for name in names:
            if name.split(".")[0] == "miwae":
                yield name.removeprefix("miwae").removeprefix(".")


def layer_of(module: str) -> int:
    top = module.split(".")[0]
    for height, names in enumerate(LAYERS):
        if top in names:
            return height
    pytest.fail(f"{module} belongs to no layer: give it one in LAYERS")


def exported(tree: ast.Module) -> list[str] | None:
    """What `__all__` says, if there is one."""
    for node in tree.body:
        if isinstance(node, ast.Assign) and [ast.unparse(t) for t in node.targets] == ["__all__"]:
            return ast.literal_eval(node.value)
    return None


def defined(tree: ast.Module) -> set[str]:
    """The names that a module binds at its top level."""
    names = set()
    under_conditions = [n for node in tree.body if isinstance(node, ast.If) for n in node.body]
    for node in [*tree.body, *under_conditions]:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        elif isinstance(node, ast.Assign):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            names.add(node.target.id)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            names |= {alias.asname or alias.name.split(".")[0] for alias in node.names}
    return names


# The package's own __init__ stands above all layers.
@pytest.mark.parametrize(
    "path", [p for p in MODULES if p.parent != PACKAGE or p.stem != "__init__"], ids=name_of
)
def test_imports_go_downwards_only(path):
    own = layer_of(name_of(path))
    upwards = [name for name in imported(tree_of(path)) if not name or layer_of(name) > own]
    assert not upwards


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_tables_and_models_know_nothing_of_each_other(path):
    top = name_of(path).split(".")[0]
    others = {name for side in APART for name in side if top in APART[0] | APART[1]}
    others -= next((side for side in APART if top in side), others)
    assert not [name for name in imported(tree_of(path)) if name.split(".")[0] in others]


def test_the_parser_sees_every_way_to_import():
    source = "import miwae.training._loop\nfrom miwae.model import x\nfrom miwae import errors\n"
    assert list(imported(ast.parse(source))) == ["training._loop", "model", "errors"]


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_are_absolute(path):
    relative = [n for n in ast.walk(tree_of(path)) if isinstance(n, ast.ImportFrom) and n.level]
    assert not relative


def foreign_private(tree: ast.AST, own: str) -> list[str]:
    """The underscored files of other folders that a module imports.

    Underscored files at the root, such as `miwae._numerics`, may be imported by all folders.
    """
    folder = own.split(".")[0]
    paths = [path_of.split(".") for path_of in deep_imports(tree)]
    return [
        ".".join(parts)
        for parts in paths
        if parts[0] != folder and any(part.startswith("_") for part in parts[1:])
    ]


def deep_imports(tree: ast.AST) -> Iterator[str]:
    """What a module imports of this package, down to the name, without the leading `miwae`."""
    yield from imported(tree)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).startswith("miwae."):
            yield from (f"{str(node.module).removeprefix('miwae.')}.{a.name}" for a in node.names)


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_folder_imports_an_underscored_file_of_another(path):
    assert not foreign_private(tree_of(path), name_of(path))


def test_the_parser_sees_underscored_files_of_others():
    own = "from miwae.training import _loop\nfrom miwae._numerics import x\nimport miwae._arrays\n"
    assert not foreign_private(ast.parse(own), "training._guard")
    assert foreign_private(ast.parse(own), "tabular._file") == ["training._loop"]
    source = "import miwae.columns.kinds._base\nfrom miwae.pooling._rubin import Pooled\n"
    assert len(foreign_private(ast.parse(source), "tabular._file")) == 3


def is_public(path: Path) -> bool:
    """Doors and the few public files; the front door, which is lazy, has a test of its own."""
    is_door = path.stem == "__init__" and path.parent != PACKAGE
    return is_door or not path.stem.startswith("_")


def test_every_name_of_the_front_door_opens():
    import miwae

    assert all(getattr(miwae, name) is not None for name in miwae.__all__)
    assert len(miwae.__all__) == len(set(miwae.__all__))
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        _ = miwae.nothing


@pytest.mark.parametrize("path", [p for p in MODULES if is_public(p)], ids=name_of)
def test_public_names_are_listed_once_and_exist(path):
    tree = tree_of(path)
    names = exported(tree)
    if names is None:
        assert path.stem == "__init__", "__all__ is missing"
        return
    assert len(names) == len(set(names))
    assert set(names) <= defined(tree)


DOORS = [path for path in MODULES if path.stem == "__init__" and path.parent != PACKAGE]


@pytest.mark.parametrize("path", [p for p in DOORS if exported(tree_of(p)) is None], ids=name_of)
def test_what_an_inner_door_imports_is_used(path):
    """Doors for other folders, not for users, list their names by importing them."""
    door, tree = name_of(path.parent), tree_of(path)
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}
    others = [tree_of(other) for other in MODULES if other != path]
    used = {name for other in others for name in names_from(other, door)}
    assert {alias.asname or alias.name for node in imports for alias in node.names} <= own | used


def names_from(tree: ast.AST, door: str) -> Iterator[str]:
    """What a module uses of a folder, by `from miwae.folder import x` or as `folder.x`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == f"miwae.{door}":
            yield from (alias.name for alias in node.names)
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name):
            if node.value.id == door.rpartition(".")[2]:
                yield node.attr


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_nothing_prints(path):
    calls = [
        node.lineno
        for node in ast.walk(tree_of(path))
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "print"
    ]
    assert not calls


def test_files_and_functions_are_short():
    files = [*MODULES, *Path(__file__).parent.rglob("*.py")]
    assert not [p for p in files if len(p.read_text(encoding="utf-8").splitlines()) > 450]
    nodes = (node for path in MODULES for node in ast.walk(tree_of(path)))
    functions = (node for node in nodes if isinstance(node, ast.FunctionDef))
    lengths = sorted(int(f.end_lineno or 0) - f.lineno + 1 for f in functions)
    assert lengths[int(0.95 * len(lengths))] <= 30


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_every_module_says_what_it_is(path):
    assert ast.get_docstring(tree_of(path))
