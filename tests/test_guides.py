"""The guides are true: their examples run, one after the other, and do what they say."""

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import distributed
import numpy as np
import pytest

import miwae
from engines.data_sets import data_set, saved_model
from miwae import plots

DOCS = Path(__file__).parents[1] / "docs"
PENGUINS = DOCS.parent / "src/miwae/data/penguins.csv"

_spec: Any = importlib.util.spec_from_file_location("hooks", DOCS / "hooks.py")
hooks: Any = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(hooks)


def run(guide, directory, monkeypatch, names=None, **fewer):
    """Run the examples of a guide, after those of others if it gets their names."""
    monkeypatch.chdir(directory)
    text = (DOCS / guide).read_text(encoding="utf-8")
    for name, (said, enough) in fewer.items():
        assert f"{name}={said}" in text
        text = text.replace(f"{name}={said}", f"{name}={enough}")
    names = {} if names is None else names
    for example in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(example, guide, "exec"), names)
    return names


@pytest.mark.long
def test_networks(tmp_path, monkeypatch, capsys):
    names = run("networks.md", tmp_path, monkeypatch)
    assert float(names["fitted"].generative.decoder.frequency) == pytest.approx(0.7, abs=0.02)
    hidden = ~names["seen"]
    # Of waves that are known, the noise is left: 0.01, and what 8 noisy points leave open.
    assert np.mean((names["filled"] - names["truth"])[hidden] ** 2) < 0.02
    assert "frequency: 0." in capsys.readouterr().out


@pytest.mark.long
def test_images(tmp_path, monkeypatch, capsys):
    names = run("images.md", tmp_path, monkeypatch, max_steps=("1_000", "100"))
    assert (tmp_path / "inpainted.png").read_bytes().startswith(b"\x89PNG")
    missing = names["missing"]
    error = np.mean((names["single"].x - names["truth"][:8])[missing] ** 2)
    # The mean of each pixel has 0.30, the guide's thousand steps 0.14.
    assert error < 0.25
    assert names["draws"].x.shape == (5, 8, 64)
    assert "stopped after" in capsys.readouterr().out


@pytest.mark.slow
def test_start_and_the_guides_that_go_on_from_it(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("miwae.tabular._settings._most_steps", lambda *_: 60)
    (tmp_path / "miwae-demo").mkdir()
    shutil.copy(PENGUINS, tmp_path / "miwae-demo")
    names = run("start.md", tmp_path, monkeypatch)
    assert capsys.readouterr().out.endswith("True\n")  # the saved model imputes alike
    assert not names["completed"].isna().any().any()
    run("judge.md", tmp_path, monkeypatch, names)
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert (tmp_path / "overimputation.png").read_bytes().startswith(b"\x89PNG")
    assert "year" in names["doubtful"]
    run("statistics.md", tmp_path, monkeypatch, names)
    assert "flipper_length_mm" in names["pooled"].names
    run("production.md", tmp_path, monkeypatch, names)
    printed = capsys.readouterr().out
    assert "Atlantis" in printed
    assert printed.endswith("['island']\n")


SHOWING = DOCS / "start.md", DOCS / "statistics.md"


def outputs(text):
    """The outputs that a text shows, each as its lines, without those that are left out."""
    text = re.sub(r"```[a-z]+\n.*?```", "", text, flags=re.DOTALL)
    found = re.findall(r"```\n(.*?)```", text, flags=re.DOTALL)
    return [[line for line in one.splitlines() if line != "..."] for one in found]


def alike(shown, printed):
    """The same words; numbers within a tenth of each other, for processors differ."""
    ours, theirs = shown.split(), printed.split()
    return len(ours) == len(theirs) and all(map(_alike, ours, theirs))


def _alike(shown, printed):
    try:
        a, b = (float(word.removesuffix("%")) for word in (shown, printed))
    except ValueError:
        return shown == printed
    return a == pytest.approx(b, rel=0.1, abs=0.05)


@pytest.mark.long
def test_outputs_are_as_shown(tmp_path):
    """In a process of its own: the tests' programs are less optimised, and give other digits."""
    (tmp_path / "miwae-demo").mkdir()
    shutil.copy(PENGUINS, tmp_path / "miwae-demo")
    examples = [
        re.findall(r"```python\n(.*?)```", g.read_text(), flags=re.DOTALL) for g in SHOWING
    ]
    script = "\n".join(example for guide in examples for example in guide)
    users = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    given = {"cwd": tmp_path, "env": users, "capture_output": True, "text": True}
    done = subprocess.run([sys.executable, "-c", script], check=True, **given)
    printed = done.stdout.splitlines()
    shown = [one for guide in SHOWING for one in outputs(guide.read_text(encoding="utf-8"))]
    for line in (line for one in shown if one[0] != "$ miwae demo" for line in one):
        assert any(alike(line, own) for own in printed), line


def test_the_readme_shows_the_same_outputs():
    known = [one for guide in SHOWING for one in outputs(guide.read_text(encoding="utf-8"))]
    readme = outputs((DOCS.parent / "README.md").read_text(encoding="utf-8"))
    assert len(readme) == 3
    assert [one for one in readme if one not in known] == []


@pytest.mark.slow
def test_prediction(tmp_path, monkeypatch):
    monkeypatch.setattr("miwae.tabular._settings._most_steps", lambda *_: 50)
    names = run("prediction.md", tmp_path, monkeypatch)
    assert names["scores"].mean() > 0.8


@pytest.mark.slow
def test_scale(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("miwae.tabular._settings._most_steps", lambda *_: 50)
    run("scale.md", tmp_path, monkeypatch, max_time=("60", "None"), size=("(2_000", "(400"))
    assert capsys.readouterr().out == "True\n"


@pytest.mark.long
def test_sequences(tmp_path, monkeypatch, capsys):
    names = run("sequences.md", tmp_path, monkeypatch, max_steps=("1_000", "150"))
    error = np.mean((names["filled"] - names["truth"])[names["missing"]] ** 2)
    assert error < 0.8 * np.var(names["truth"])


@pytest.mark.slow
def test_the_engine(tmp_path, monkeypatch, capsys):
    names = run("engine.md", tmp_path, monkeypatch, max_steps=("600", "50"))
    printed = capsys.readouterr().out
    assert "stopped after" in printed.splitlines()[0]
    assert names["copies"].x.shape == (5, *names["x"].shape)


def test_clusters(tmp_path, monkeypatch, capsys):
    """With a cluster of one thread, which is the current one."""
    saved_model(tmp_path / "model.miwae")
    data_set(tmp_path / "data", n_parts=3)
    (tmp_path / "data" / "part-02.parquet").rename(tmp_path / "data" / "part-0.parquet")
    monkeypatch.setattr("miwae.engines._parts._keep_programs", lambda: None)
    options = {"n_workers": 1, "threads_per_worker": 1, "dashboard_address": ":0"}
    with distributed.Client(processes=False, **options):
        run("clusters.md", tmp_path, monkeypatch)
    assert capsys.readouterr().out == "120 completed/part-0.parquet\n60\n"


def headings(text):
    """The anchors that a page offers."""
    titles = re.findall(r"^#+ (.+)$", text, flags=re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-") for title in titles}


@pytest.mark.parametrize("guide", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_lead_somewhere(guide):
    text = (DOCS / guide).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"```.*?```", "", text, flags=re.DOTALL)):
        path, _, anchor = link.partition("#")
        if ":" not in link:
            path = path or guide
            assert (DOCS / path).exists(), link
            page = (DOCS / path).read_text(encoding="utf-8") if path.endswith(".md") else ""
            assert not anchor or anchor in headings(page), link


def test_numbers_of_tables_are_not_parted_from_their_units():
    a_page = SimpleNamespace(parent="a tab")
    shown = hooks.on_page_markdown("| 0.5 ± 0.1, 65 % | 2,000 x 12 |\n\n5 % of 3 x 4", a_page)
    assert shown == "| 0.5\xa0±\xa00.1, 65\xa0% | 2,000\xa0x\xa012 |\n\n5 % of 3 x 4"


def test_every_page_is_in_the_contents_once():
    contents = (DOCS.parent / "mkdocs.yml").read_text(encoding="utf-8")
    pages = re.findall(r"^ +- .+: (\w+\.md)$", contents, flags=re.MULTILINE)
    assert sorted(pages) == sorted(path.name for path in DOCS.glob("*.md"))


def test_every_plot_is_in_the_gallery():
    gallery = (DOCS / "gallery.md").read_text(encoding="utf-8")
    assert [name for name in plots.__all__ if f"plots.{name}(" not in gallery] == []
    pictures = {path.name for path in (DOCS / "images/gallery").glob("*.png")}
    assert pictures == set(re.findall(r"images/gallery/(\w+\.png)", gallery))


def test_the_reference_has_every_name_and_command():
    names, help_texts = hooks._names(), hooks._help()
    for home, own in miwae._HOMES.items():
        assert all(f"::: {home}.{name}\n" in names for name in own.split())
    blocks = hooks._blocks()
    for name in ("model.AbstractObservation", "model.Dense", "inference.miwae_bound"):
        assert f"::: miwae.{name}\n" in blocks
    assert "::: miwae.model.Normal\n" not in blocks  # it is among the names
    for command in ("impute", "fit", "score", "inspect", "report", "benchmark", "demo"):
        assert f"## miwae {command}\n" in help_texts
    assert "--max-time" in help_texts
