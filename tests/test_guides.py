"""The guides are true: their examples run, one after the other, and do what they say."""

import re
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"


def run(guide, directory, monkeypatch, **fewer):
    monkeypatch.chdir(directory)
    text = (DOCS / guide).read_text(encoding="utf-8")
    for name, (said, enough) in fewer.items():
        assert f"{name}={said}" in text
        text = text.replace(f"{name}={said}", f"{name}={enough}")
    names = {}
    for example in re.findall(r"```python\n(.*?)```", text, flags=re.DOTALL):
        exec(compile(example, guide, "exec"), names)
    return names


@pytest.mark.slow
def test_networks(tmp_path, monkeypatch, capsys):
    names = run("networks.md", tmp_path, monkeypatch)
    assert float(names["fitted"].generative.decoder.frequency) == pytest.approx(0.7, abs=0.02)
    hidden = ~names["seen"]
    # Of waves that are known, the noise is left: 0.01, and what 8 noisy points leave open.
    assert np.mean((names["filled"] - names["truth"])[hidden] ** 2) < 0.02
    assert "frequency: 0." in capsys.readouterr().out


@pytest.mark.slow
def test_images(tmp_path, monkeypatch, capsys):
    names = run("images.md", tmp_path, monkeypatch, max_steps=("1_000", "250"))
    assert (tmp_path / "inpainted.png").read_bytes().startswith(b"\x89PNG")
    missing = names["missing"]
    error = np.mean((names["single"].x - names["truth"][:8])[missing] ** 2)
    # The mean of each pixel has 0.30, the guide's thousand steps 0.14.
    assert error < 0.25
    assert names["draws"].x.shape == (5, 8, 64)
    assert "stopped after" in capsys.readouterr().out


@pytest.mark.parametrize("guide", sorted(path.name for path in DOCS.glob("*.md")))
def test_links_lead_somewhere(guide):
    text = (DOCS / guide).read_text(encoding="utf-8")
    for link in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (DOCS / link).exists(), link
