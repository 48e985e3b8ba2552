"""The README is true: its examples run, and its numbers are those of the committed results."""

import json
import re
import shutil
from pathlib import Path

import pytest

from cli.runs import miwae, succeeded

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
OF_BENCHMARKS = (ROOT / "benchmarks/README.md").read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)


COMMANDS = re.findall(r"^    miwae ((?!demo).*?)(?: {2,}#.*)?$", README, flags=re.MULTILINE)
PENGUINS = ROOT / "src/miwae/data/penguins.csv"


@pytest.mark.slow
def test_the_examples_run_one_after_the_other(capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    enough = 60  # steps, to see it run
    monkeypatch.setattr("miwae.tabular._settings._most_steps", lambda *_: enough)
    shutil.copy(PENGUINS, tmp_path / "penguins.csv")
    names = {}
    for example in EXAMPLES:
        exec(compile(example, "README.md", "exec"), names)
    printed = capsys.readouterr().out
    shown = re.findall(r"```\n(.*?)```", README, flags=re.DOTALL)
    for line in ("".join(shown)).splitlines():
        if line.startswith(
            ("column             held", "Pooled over", "                   estimate")
        ):
            assert line.split()[:3] in [own.split()[:3] for own in printed.splitlines()]
    assert "C(sex)[T.male]" in printed  # the pooled regression
    completed = names["completed"]
    assert not completed.isna().any().any()
    inside = names["lower"]["body_mass_g"] <= names["upper"]["body_mass_g"]
    assert inside.all()


@pytest.mark.slow
def test_the_commands_run_one_after_the_other(tmp_path):
    lines = PENGUINS.read_text().splitlines(keepends=True)
    (tmp_path / "penguins.csv").write_text("".join(lines[:13]))  # so few that nothing is trained
    assert len(COMMANDS) == 7
    for command in COMMANDS:
        done = succeeded(miwae(*command.split(), cwd=tmp_path))
    assert (tmp_path / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert "NA" not in (tmp_path / "completed.csv").read_text()
    assert "bill_length_mm.lower" in (tmp_path / "completed.csv").read_text()
    assert (tmp_path / "copies.csv").read_text().count("\n") == 1 + 21 * 12
    assert len(done.stdout.splitlines()) == 13
    assert b"NA" not in done.stdout


def test_it_is_short_and_has_one_picture():
    assert len(README.splitlines()) <= 120
    assert len(re.findall(r"!\[.+?\]\(", README)) == 1


def test_the_numbers_are_those_of_the_committed_results():
    training = json.loads((ROOT / "benchmarks/results/speed.json").read_text())["training"]
    for columns in ("p = 11", "p = 30"):
        for value in training[columns]["ms_per_step"].values():
            assert f"{value:.1f}" in OF_BENCHMARKS
    tables = json.loads((ROOT / "benchmarks/results/tables.json").read_text())
    for result in tables["small"].values():
        assert f"{result['rows']:,} x {result['columns']}" in OF_BENCHMARKS
        assert any(f"{result['seconds']:.{n}f}" in OF_BENCHMARKS for n in (0, 1))
    assert f"{tables['scale']['100000 rows']['seconds']:.0f}" in OF_BENCHMARKS
    largest = max(tables["small"].values(), key=lambda result: result["rows"])
    assert f"**{largest['seconds']:.0f} seconds** on two cores to learn" in README


@pytest.mark.parametrize("link", re.findall(r"\]\(([^)#:]+)\)", README))
def test_links_lead_somewhere(link):
    assert (ROOT / link).exists()


def test_commands_are_targets_of_the_makefile():
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = set(re.findall(r"^([a-z0-9]+):", makefile, flags=re.MULTILINE))
    assert {"demo", "test", "benchmark"} <= targets
    assert set(re.findall(r"make ([a-z0-9]+)", README)) <= targets
