import json

import numpy as np
import pytest

from miwae.errors import DataError
from miwae.evaluation import metrics
from miwae.evaluation._protocol import (
    ROWS,
    Completed,
    Experiment,
    hidden_cells,
    in_sample,
    new_rows,
)
from miwae.evaluation.peers import complete, fit


def table(n=400):
    rng = np.random.default_rng(0)
    x = 5 + 3 * rng.standard_normal((n, 4))
    x[:, 3] = rng.integers(3, size=n)
    return x, np.array([False, False, False, True])


def experiment(**changes):
    x, categorical = table()
    return Experiment("noise", x, categorical)._replace(**changes)


def mean(x, categorical, seed):
    return complete("mean", x, categorical, seed)


def broken(x, categorical, seed):
    raise ArithmeticError("it diverged")


def test_the_mean_has_an_error_of_one_in_standardised_columns():
    records = list(in_sample(experiment(), {"mean": mean}, range(5)))
    assert [record["mask"] for record in records] == [0, 1, 2, 3, 4]
    assert np.mean([r["mse"] for r in records]) == pytest.approx(1.0, abs=0.05)
    assert all(r["rmse"] == pytest.approx(np.sqrt(r["mse"])) for r in records)
    assert np.mean([r["mae"] for r in records]) == pytest.approx(np.sqrt(2 / np.pi), abs=0.05)
    assert np.mean([r["wasserstein"] for r in records]) == pytest.approx(0.8, abs=0.05)
    assert 0.2 < np.mean([r["accuracy"] for r in records]) < 0.45
    assert json.loads(json.dumps(records)) == records


def test_methods_see_half_of_the_cells_standardised_and_all_the_same():
    seen = []

    def spy(x, categorical, seed):
        seen.append((x.copy(), seed))
        x[:] = 0.0  # what a method does to its copy is its own affair
        return x

    whole = experiment()
    records = list(in_sample(whole, {"a": spy, "b": spy}, [2]))
    assert "observed cells were changed" in records[0]["error"]
    np.testing.assert_array_equal(seen[0][0], seen[1][0])
    given = seen[0][0]
    assert np.isnan(given).sum() == given.size / 2
    complete_z = (whole.x - whole.x.mean(0)) / whole.x.std(0)
    there = ~np.isnan(given[:, 0])
    np.testing.assert_allclose(given[there, 0], complete_z[there, 0])
    codes = given[~np.isnan(given[:, 3]), 3]
    assert set(codes) == {0.0, 1.0, 2.0}


def test_deviations_of_observed_cells():
    def spy(x, categorical, seed):
        np.testing.assert_allclose(np.nanmean(x[:, :3], axis=0), 0, atol=1e-12)
        np.testing.assert_allclose(np.nanstd(x[:, :3], axis=0), 1)
        return mean(x, categorical, seed)

    (record,) = in_sample(experiment(standardise="observed"), {"spy": spy}, [0])
    assert "mse" in record


@pytest.mark.parametrize("mechanism", ["mar", "mnar-self"])
def test_other_mechanisms_and_tables_with_holes(mechanism):
    x, categorical = table()
    x[np.random.default_rng(1).random(x.shape) < 0.2] = np.nan
    whole = Experiment("holes", x, categorical, mechanism=mechanism, rate=0.3)
    (record,) = in_sample(whole, {"mean": mean}, [0])
    assert record["mechanism"] == mechanism
    assert 0.5 < record["mse"] < 3


def test_a_method_that_fails_does_not_stop_the_others():
    def lazy(x, categorical, seed):
        return x

    def short(x, categorical, seed):
        return x[:3]

    methods = {"broken": broken, "lazy": lazy, "short": short, "mean": mean}
    records = {record["method"]: record for record in in_sample(experiment(), methods, [0])}
    assert records["broken"]["error"] == "ArithmeticError: it diverged"
    assert "800 hidden cells were not imputed" in records["lazy"]["error"]
    assert "has the shape (3, 4), not (400, 4)" in records["short"]["error"]
    assert records["mean"]["mse"] > 0
    assert all("mse" not in records[name] for name in ("broken", "lazy", "short"))


def test_new_rows_are_completed_by_what_was_learned_elsewhere():
    rows = []

    def fit(known, categorical, seed):
        centre = np.nanmean(known, axis=0)
        rows.append(known)

        def transform(new):
            rows.append(new.copy())
            return np.where(np.isnan(new), np.rint(centre), new)

        return transform

    whole = experiment()
    records = list(new_rows(whole, {"fit": fit, "broken": broken}, [0, 1], share=0.25))
    known, new, _, other = rows
    assert (len(known), len(new)) == (300, 100)
    assert not np.array_equal(np.isnan(new), np.isnan(other))
    assert [record["protocol"] for record in records] == ["new-rows"] * 4
    assert records[0]["mse"] == pytest.approx(1.0, abs=0.3)
    assert "error" in records[1]


@pytest.mark.parametrize(("share", "count"), [(0.001, 0), (0.9999, 400)])
def test_some_rows_have_to_be_new_and_some_not(share, count):
    with pytest.raises(DataError, match=f"{count} of the 400 rows of noise are new"):
        next(new_rows(experiment(), {}, [0], share=share))


def test_one_table_is_scored_as_a_draw_that_is_sure_of_itself():
    (record,) = in_sample(experiment(), {"mean": mean}, [0])
    assert record["crps"] == record["mae"]
    assert "log_loss" not in record


def test_draws_are_scored_as_distributions():
    """Draws from the normal distribution that the numbers have, and even draws of three codes."""

    def draw(x, size=300):
        rng = np.random.default_rng(5)
        draws = rng.standard_normal((size, *x.shape))
        draws[:, :, 3] = rng.integers(3, size=draws.shape[:2])
        return np.where(np.isnan(x), draws, x)

    def knows(x, categorical, seed):
        return Completed(complete("mean", x, categorical, seed), lambda: draw(x))

    whole = experiment()
    (record,) = in_sample(whole, {"knows": knows}, [0])
    # The expected score of the standard normal distribution itself is 1 / sqrt(pi).
    assert record["crps"] == pytest.approx(1 / np.sqrt(np.pi), abs=0.03)
    assert record["log_loss"] == pytest.approx(np.log(3), abs=0.02)
    x, hidden = hidden_cells(whole, 0)
    numbers = hidden & ~whole.categorical
    draws = draw(np.where(hidden, np.nan, x))
    assert record["crps"] == metrics.crps(x, draws, numbers)


def test_no_code_is_taken_for_impossible_after_a_few_draws():
    def stubborn(x, categorical, seed):
        filled = np.where(np.isnan(x), 0.0, x)
        return Completed(filled, lambda: np.stack([filled] * 4))

    whole = experiment()
    (record,) = in_sample(whole, {"stubborn": stubborn}, [0])
    x, hidden = hidden_cells(whole, 0)
    zeros = (x[hidden[:, 3], 3] == 0).mean()
    # Four draws of the code 0 and a fifth in equal parts of 0, 1 and 2.
    expected = -zeros * np.log((4 + 1 / 3) / 5) - (1 - zeros) * np.log(1 / 3 / 5)
    assert record["log_loss"] == pytest.approx(expected)


def test_a_code_counts_though_no_scored_row_has_it():
    """Draws of it are not lost, and the even draw has a part of it."""

    def surprised(known, categorical, seed):
        def completed(new):
            filled = np.where(np.isnan(new), 9.0, new)
            return Completed(filled, lambda: np.stack([filled] * 4))

        return completed

    x = np.random.default_rng(0).integers(2, size=(200, 2)).astype(float)
    split = Experiment("rare", x, np.array([True, True]), rate=0.3)
    order = np.random.default_rng([split.seed, 0, ROWS]).permutation(len(x))
    x[order[-1], 0] = x[order[-1], 1] = 9.0  # in a row that is learned from
    (record,) = new_rows(split, {"surprised": surprised}, [0], share=0.2)
    assert record["log_loss"] == pytest.approx(-np.log(0.1 / 5))


def test_peers_complete_new_rows_together_with_the_others():
    def regression(x, categorical, seed):
        return fit("iterative", x, categorical, seed)

    rng = np.random.default_rng(1)
    z = rng.standard_normal((300, 1))
    x = z + 0.1 * rng.standard_normal((300, 3))
    line = Experiment("line", x, np.zeros(3, dtype=bool), rate=0.2)
    (record,) = new_rows(line, {"iterative": regression}, [0])
    assert record["mse"] < 0.2
