"""The README is true: its examples run, and its numbers are those of the committed results."""

import json
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


@pytest.mark.slow
def test_the_examples_run_one_after_the_other(capsys):
    names = {}
    for example in EXAMPLES:
        exec(compile(example, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    assert "stopped after" in printed
    assert "(150, 4) (5, 150, 4)" in printed or "(149, 4) (5, 149, 4)" in printed


def test_the_numbers_are_those_of_the_committed_results():
    training = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["training"]
    for columns in ("p = 11", "p = 30"):
        for value in training[columns]["ms_per_step"].values():
            assert f"{value:.1f}" in README


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z]+):", makefile, flags=re.MULTILINE))
    assert {"demo", "test", "benchmark"} <= targets
    assert set(re.findall(r"make ([a-z]+)", README)) <= targets
