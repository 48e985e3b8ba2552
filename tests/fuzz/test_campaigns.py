"""The first cases of each campaign, so that a failure is found before the campaign is run."""

import json
import warnings

import pytest

from fuzz import campaign, files, frames, models

CASES = {"models": (models.case, 60), "files": (files.case, 300), "frames": (frames.case, 60)}


@pytest.mark.parametrize("name", CASES)
def test_the_first_cases_of_a_campaign_do_not_fail(name):
    case, n_cases = CASES[name]
    if name == "models":
        models.base()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries, about what is generated
        outcomes = [campaign.outcome_of(case, 10**6 + seed) for seed in range(n_cases)]
    assert [failure for _, failure in outcomes if failure is not None] == []
    assert len({word for word, _ in outcomes}) > 1


@pytest.mark.parametrize("path", sorted(campaign.RESULTS.glob("*.jsonl")), ids=lambda p: p.stem)
def test_committed_results_have_no_gap_and_no_failure(path):
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    done = 0
    for line in lines:
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
