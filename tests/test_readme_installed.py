"""After `pip install .` in a fresh environment, every line of the README runs as it is printed."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
# The first command is shown with its output; others are indented, with comments.
COMMANDS = re.findall(r"^(?:\$ |    )((?:miwae|cd) .*?)(?: {2,}#.*)?$", README, flags=re.MULTILINE)
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """A virtual environment with nothing but pip, and variables that make the shell use it."""
    place = tmp_path_factory.mktemp("fresh")
    subprocess.run([sys.executable, "-m", "venv", place / "venv"], check=True)
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    path = f"{place / 'venv' / 'bin'}{os.pathsep}{os.environ['PATH']}"
    return {**kept, "PATH": path, "XDG_CACHE_HOME": str(place / "cache")}


def run(command, environment, place):
    done = subprocess.run(
        command,
        shell=True,
        env=environment,
        cwd=place,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.mark.long
def test_every_line_runs_as_printed(environment, tmp_path):
    """What needs no extra runs without any, and the rest with those that the README installs."""
    run("pip install --quiet .", environment, ROOT)
    installed = run("pip list", environment, ROOT)
    extras = "pandas|polars|pyarrow|openpyxl|matplotlib|Jinja2|statsmodels"
    assert not re.search(rf"^({extras}) ", installed, re.MULTILINE)
    assert COMMANDS[:2] == ["miwae demo", "cd miwae-demo"]
    run("miwae demo", environment, tmp_path)
    place = tmp_path / "miwae-demo"
    of_extras = [command for command in COMMANDS if command.startswith("miwae report")]
    for command in COMMANDS[2:]:
        if command not in of_extras:
            run(command, environment, place)
    (install,) = re.findall(r"^    (pip install .*)$", README, flags=re.MULTILINE)
    run(install, environment, ROOT)
    for command in of_extras:
        run(command, environment, place)
    (place / "examples.py").write_text("\n".join(EXAMPLES), encoding="utf-8")
    printed = run("python examples.py", environment, place)
    assert "C(sex)[T.male]" in printed
