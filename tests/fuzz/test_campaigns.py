"""The first cases of each campaign, so that a failure is found before the campaign is run."""

import json
import re
import signal
import sys
import threading
import warnings
from pathlib import Path

import pytest

from fuzz import campaign, files, frames, models, numbers, signals, soak

CASES = {
    "models": (models.case, 60),
    "files": (files.case, 300),
    "frames": (frames.case, 60),
    "frames_fitted": (frames.fit_case, 4),
    "numbers": (numbers.case, 4),
}

CAMPAIGNS = sorted(
    path for path in campaign.RESULTS.glob("*.jsonl") if not path.stem.startswith("soak")
)

PAGE = Path(__file__).parents[2] / "docs" / "reliability.md"


def results(name):
    path = campaign.RESULTS / f"{name}.jsonl"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


@pytest.mark.parametrize("name", CASES)
def test_the_first_cases_of_a_campaign_do_not_fail(name):
    case, n_cases = CASES[name]
    if name == "models":
        models.base()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about what is generated
        outcomes = [campaign.outcome_of(case, 10**6 + seed) for seed in range(n_cases)]
    assert [failure for _, failure in outcomes if failure is not None] == []
    assert len({word for word, _ in outcomes}) > 1 or n_cases < 10


@pytest.mark.slow
@pytest.mark.parametrize("number", signals.CODES)
def test_a_run_that_is_killed_leaves_nothing_behind_and_goes_on_to_the_same_end(number):
    # It fails by itself. On a busy machine the run may have ended before.
    word = signals.killed("checkpointed fit", number, signals.until_it_has_written)
    assert word in ("ended before", f"checkpointed fit by {number.name}")


def test_commands_hear_ctrl_c_where_the_campaign_runs_in_the_background():
    usual = signal.signal(signal.SIGINT, signal.SIG_IGN)  # as shells have it
    try:
        signals.hear_interrupts()
        command = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT))"]
        stdout, _ = signals._start(command).communicate(timeout=60)
    finally:
        signal.signal(signal.SIGINT, usual)
    assert b"default_int_handler" in stdout


def test_what_grows_after_the_warm_up_is_named():
    flat = [{**dict.fromkeys(soak.held(), 100), "seconds": i} for i in range(20)]
    assert soak.growth(flat) == {}
    assert soak.growth([{**own, "files": 90 * (i < 3) + 10} for i, own in enumerate(flat)]) == {}
    leaking = [{**own, "files": 10 + 2 * i} for i, own in enumerate(flat)]
    assert soak.growth(leaking) == {"files": (36, 48)}


def test_samples_are_compared_from_one_drop_of_programs_to_the_next():
    same = dict.fromkeys(soak.HELD, 100)
    samples = [
        {**same, "mappings": 100 + 50 * within, "left_by_drop": cycle}
        for cycle in range(6)
        for within in range(3)
    ]
    cycles = soak.most_in_cycles(samples)
    assert cycles == 6 * [{**same, "mappings": 200}]
    assert soak.growth(samples[:8]) == {"mappings": (150, 200)}  # which it is not


def test_the_committed_soak_is_long_enough_and_nothing_grew():
    verdict = results("soak")[-1]
    assert verdict["cycles"] >= soak.LEAST
    assert (verdict["grown"], verdict["same_results"]) == ({}, True)


def test_the_page_has_the_figures_of_the_committed_results():
    row = r"^\| `fuzz/(\w+)\.py( --fits)?` \|.*\| ([\d,]+) \| [\d,]+ \| \d*\s?\|$"
    shown = {
        name + fits.replace(" --fits", "_fitted"): int(number.replace(",", ""))
        for name, fits, number in re.findall(row, PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    }
    assert set(shown) >= {path.stem for path in CAMPAIGNS}
    assert shown == {name: sum(line["cases"] for line in results(name)) for name in shown}


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_committed_results_have_no_gap_and_no_failure(path):
    done = 0
    for line in results(path.stem):
        assert line["first"] == done
        assert line["failures"] == []
        assert sum(line["outcomes"].values()) == line["cases"]
        done += line["cases"]


def test_a_case_that_raises_is_a_failure_with_its_seed():
    def case(seed: int) -> str:
        raise campaign.Failure("it broke")

    word, failure = campaign.outcome_of(case, 7)
    assert word == "failed"
    assert failure is not None
    assert (failure["seed"], failure["error"]) == (7, "Failure: it broke")


def test_a_campaign_goes_on_where_it_stopped(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(campaign, "RESULTS", tmp_path)

    def case(seed: int) -> str:
        seen.append(seed)
        return "fine"

    for n in (30, 60):
        monkeypatch.setattr("sys.argv", ["fuzz", "--cases", str(n)])
        campaign.run("some", case, 100)
    assert seen == list(range(60))


def test_cases_at_a_time_have_the_lines_of_cases_in_turn(tmp_path, monkeypatch):
    at_a_time = threading.Barrier(3)

    def case(seed: int) -> str:
        at_a_time.wait(60)
        if seed == 4:
            raise campaign.Failure("it broke")
        return f"word {seed % 2}"

    monkeypatch.setattr(campaign, "RESULTS", tmp_path)
    monkeypatch.setattr("sys.argv", ["fuzz", "--cases", "6", "--jobs", "3"])
    campaign.run("some", case, 6)
    line = json.loads((tmp_path / "some.jsonl").read_text())
    assert line["outcomes"] == {"failed": 1, "word 0": 2, "word 1": 3}
    assert [failure["seed"] for failure in line["failures"]] == [4]


def test_results_hold_no_folders_of_a_machine():
    def case(seed: int) -> str:
        raise campaign.Failure('it broke in "/home/somebody/miwae/_atomic.py", line 3')

    _, failure = campaign.outcome_of(case, 7)
    assert failure is not None
    assert failure["error"] == 'Failure: it broke in "_atomic.py", line 3'
    text = "".join(path.read_text() for path in CAMPAIGNS)
    assert campaign.without_folders(text) == text
