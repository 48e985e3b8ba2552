"""Processes of the command line, their results, and tables for them."""

import json
import os
import subprocess
import sys
import tempfile
import warnings
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest

from miwae.cli import _app

INSPECTED = b"""\
name,height,colour,when,same,void
ann,1.70,red,2024-01-05,7,
ben,1.65,blue,2024-02-05,7,
cem,NA,red,2024-03-05,7,
dan,?,?,2024-04-05,7,
eva,1.80,green,2024-05-05,,
fay,1.75,red,2024-06-05,7,
gus,NA,blue,2024-07-05,7,
hal,1.60,green,2024-08-05,7,
ida,1.85,red,2024-09-05,7,
,1.90,blue,,7,
"""


CONSTANT = b"a,b\n1,2\n1,\n"


PEOPLE = b"height,colour\n1.75,red\n1.65,blue\n,red\n"


class Run(NamedTuple):
    code: int
    stdout: bytes
    stderr: str


def miwae(*arguments: object, stdin=b"", cwd=None) -> Run:
    """A command in this process, which has compiled most programs and imported everything."""
    with (
        tempfile.TemporaryDirectory() as directory,
        pytest.MonkeyPatch.context() as patch,
        warnings.catch_warnings(),
    ):
        files = {name: Path(directory) / name for name in ("stdin", "stdout", "stderr")}
        files["stdin"].write_bytes(stdin)
        with ExitStack() as opened:
            for name, file in files.items():
                mode = "r" if name == "stdin" else "w"
                stream = opened.enter_context(file.open(mode, encoding="utf-8"))
                patch.setattr(sys, name, stream)
            patch.setattr(sys, "argv", ["miwae", *map(str, arguments)])
            # Programs on disk are for processes.
            patch.setattr("miwae._compilation.enable_compilation_cache", lambda *_: None)
            if cwd is not None:
                patch.chdir(cwd)
            code = _exit_code()
        return Run(code, files["stdout"].read_bytes(), files["stderr"].read_text("utf-8"))


def _exit_code() -> int:
    try:
        _app.run()
    except SystemExit as stop:
        return int(stop.code or 0)
    return 0


def run_alone(
    *arguments: object, stdin=b"", stdout=subprocess.PIPE, cwd=None, **environment
) -> Run:
    """A command as users run it."""
    done = subprocess.run(
        [sys.executable, "-m", "miwae", *map(str, arguments)],
        input=stdin,
        stdout=stdout,
        stderr=subprocess.PIPE,
        cwd=cwd,
        env={**os.environ, **environment},
        timeout=300,
        check=False,
    )
    return Run(done.returncode, done.stdout or b"", done.stderr.decode())


def succeeded(run: Run) -> Run:
    assert run.code == 0, run.stderr
    return run


def assert_fails(run: Run, code: int, *words: str) -> None:
    """One line that names what is wrong, and nothing else."""
    assert run.code == code, run.stderr
    assert run.stdout == b""
    assert run.stderr.startswith("miwae: ")
    assert run.stderr.count("\n") == 1, run.stderr
    for word in words:
        assert word in run.stderr


def written(path: Path, content: bytes) -> Path:
    path.write_bytes(content)
    return path


def cells(text: bytes) -> list[list[str]]:
    """Of a CSV file without quotes."""
    return [line.split(",") for line in text.decode().splitlines()]


def inspected(*arguments: object, stdin=b"") -> dict:
    run = succeeded(miwae("inspect", *arguments, "--json", stdin=stdin))
    assert run.stderr == ""
    return json.loads(run.stdout)


def curved_table() -> bytes:
    """Worth training on for some seconds: no linear model predicts a parabola."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    values = np.stack([x, x**2, np.sin(2 * x)], axis=1) + 0.1 * rng.normal(size=(600, 3))
    holes = rng.random((600, 3)) < 0.1
    lines = [
        ",".join("" if hole else f"{value:.3f}" for value, hole in zip(*row, strict=True))
        for row in zip(values, holes, strict=True)
    ]
    return "\n".join(["a,b,c", *lines]).encode() + b"\n"


def correlated_table() -> bytes:
    rng = np.random.default_rng(0)
    first = rng.normal(size=80)
    lines = [
        f"{a:.3f},{2 * a + 0.1 * e:.3f},{'high' if a > 0 else 'low'}"
        for a, e in zip(first, rng.normal(size=80), strict=True)
    ]
    return ("a,b,c\n" + "\n".join(lines) + "\n").encode()
