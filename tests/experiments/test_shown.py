"""Every script can show what it has committed."""

import importlib
import sys

import pytest
from matplotlib import pyplot as plt

SCRIPTS = {
    "benchmarked": ("benchmarked",),
    "ceiling": (),
    "choices": ("choices",),
    "coverage": (),
    "mixed": (),
    "pooling": (),
    "sequences": ("sequences",),
    "small": (),
    "study": ("study-samples", "study"),
    "uci": ("table2",),
    "unseen": ("unseen",),
    "values": (),
}


@pytest.mark.parametrize("name", SCRIPTS)
def test_committed_results_are_shown(name, monkeypatch, capsys):
    module = importlib.import_module(name)
    figures = []
    monkeypatch.setattr(module, "save", lambda _, own: figures.append(own), raising=False)
    monkeypatch.setattr(module, "enable_compilation_cache", lambda: None, raising=False)
    monkeypatch.setattr(sys, "argv", [name, "--show"])
    module.main()
    plt.close("all")
    assert tuple(figures) == SCRIPTS[name]
    assert len(capsys.readouterr().out.splitlines()) > 5
