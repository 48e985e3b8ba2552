"""`miwae benchmark`: methods compared on hidden cells of the user's tables."""

import json

import numpy as np
import pytest

from cli.runs import assert_fails, correlated_table, miwae, succeeded, written


def test_benchmark_compares_methods_on_hidden_cells(tmp_path):
    table = written(tmp_path / "table.csv", correlated_table())
    picture = tmp_path / "picture.svg"
    arguments = ("--methods", "mean,iterative", "--masks", 2, "--plot", picture)
    run = succeeded(miwae("benchmark", table, *arguments, "--json"))
    (data,) = json.loads(run.stdout)
    assert data["columns"] == ["a", "b", "c"]
    assert [line["method"] for line in data["methods"]] == ["iterative", "mean"]
    regression, mean = data["methods"]
    assert regression["mse"] < 0.5 < mean["mse"]
    assert regression["accuracy"] > mean["accuracy"]
    assert [len(data["records"]), regression["n_masks"]] == [4, 2]
    assert mean["crps"] == mean["mae"]
    assert mean["log_loss"] is None
    assert b"<svg" in picture.read_bytes()


def test_benchmark_says_plainly_when_another_method_is_as_good():
    """Below 100 cells our model is linear: so is the regression, and so is this table."""
    lines = correlated_table().splitlines(keepends=True)[:31]
    arguments = ("--methods", "miwae,mean,iterative", "--masks", 2, "--ignore", "c")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=b"".join(lines)))
    assert "-: 2 columns" in run.stdout.decode()
    (verdict,) = [line for line in run.stdout.decode().splitlines() if "on this table" in line]
    assert verdict.startswith("squared error: on this table iterative is ")
    assert "than miwae (" in verdict or "as miwae (" in verdict


@pytest.mark.parametrize("options", [("--only", "b"), ("--predictor", "a", "--predictor", "c")])
def test_benchmark_hides_cells_only_of_columns_that_are_to_be_imputed(options):
    """`c` follows from the others: there would be accuracies if its cells were hidden."""
    arguments = ("--methods", "mean,iterative", "--masks", 1, *options, "--json")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=correlated_table()))
    (data,) = json.loads(run.stdout)
    assert data["columns"] == ["a", "b", "c"]
    for record in data["records"]:
        assert "accuracy" not in record
    regression, mean = data["methods"]
    assert regression["mse"] < 0.5 < mean["mse"]


def test_benchmark_prints_the_most_accurate_method_first():
    arguments = ("--methods", "mean,iterative", "--masks", 1, "--mechanism", "mar")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=correlated_table()))
    lines = run.stdout.decode().splitlines()
    assert "CRPS" in lines[1]
    assert "log-loss" not in lines[1]  # none of the two has probabilities
    assert [line.split()[0] for line in lines[2:4]] == ["iterative", "mean"]
    assert run.stderr.count("mask 1 of 1") == 2


def test_benchmark_draws_a_table_of_categories(tmp_path):
    table = b"a,b\n" + b"yes,left\nno,right\n" * 20
    picture = tmp_path / "picture.svg"
    arguments = ("--methods", "mean,knn", "--masks", 1, "--plot", picture, "--json")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=table))
    (data,) = json.loads(run.stdout)
    assert [line["method"] for line in data["methods"]] == ["knn", "mean"]
    assert b"share of wrong categories" in picture.read_bytes()


def test_benchmark_on_rows_that_were_not_learned_from():
    arguments = ("--methods", "miwae,mean", "--masks", 1, "--new-rows", 0.25, "--json")
    run = succeeded(miwae("benchmark", "-", *arguments, stdin=correlated_table()))
    (data,) = json.loads(run.stdout)
    ours, mean = data["methods"]
    assert (ours["method"], mean["method"]) == ("miwae", "mean")
    assert {record["protocol"] for record in data["records"]} == {"new-rows"}
    assert ours["crps"] < ours["mae"] < mean["mae"]
    assert ours["log_loss"] < np.log(2)


def test_benchmark_refuses_what_it_does_not_know():
    for arguments, words in (
        (("--new-rows", "1.5"), ("--new-rows 1.5", "share")),
        (("--methods", "magic"), ("--methods magic", "missforest")),
        (("--mechanism", "magic"), ("--mechanism magic", "mnar-self")),
        (("--plot", "x.doc"), ("--plot x.doc", ".png")),
        (("--rate", "1.5"), ("--rate", "1.5")),
        (("--only", "z"), ("--only 'z'", "no such column")),
    ):
        run = miwae("benchmark", "-", *arguments, stdin=correlated_table())
        assert_fails(run, 2, *words)
