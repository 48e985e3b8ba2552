import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema
from miwae.errors import DataError
from miwae.evaluation._tables import as_matrix, standings, summarise
from miwae.frames import columns


def matrix_of(frame, **asked):
    table = columns(frame)
    return as_matrix(infer_schema(table, **asked), table)


def test_numbers_stay_and_categories_become_codes():
    frame = pd.DataFrame(
        {
            "size": [1.5, None, 3.0, 4.0, 2.5, 9.0],
            "same": [1] * 6,
            "colour": ["red", "blue", None, "red", "blue", "red"],
        }
    )
    matrix = matrix_of(frame)
    assert matrix.names == ("size", "colour")
    assert matrix.categorical.tolist() == [False, True]
    np.testing.assert_array_equal(matrix.x[:, 0], [1.5, np.nan, 3.0, 4.0, 2.5, 9.0])
    np.testing.assert_array_equal(matrix.x[:, 1], [1, 0, np.nan, 1, 0, 1])


def test_one_column_is_nothing_to_compare():
    with pytest.raises(DataError, match="needs at least two columns"):
        matrix_of(pd.DataFrame({"a": [1.0, 2.0, None, 4.0], "b": [1, 1, 1, 1]}))


def test_predictors_are_no_columns_to_be_imputed():
    frame = pd.DataFrame({"a": [1.5, 2.0, None, 4.0], "b": [1.5, 2.5, 3.5, 0.0]})
    assert matrix_of(frame, roles={"a": "predictor"}).imputed.tolist() == [False, True]
    with pytest.raises(DataError, match="more than a predictor"):
        matrix_of(frame, roles={"a": "predictor", "b": "predictor"})


def test_the_most_accurate_comes_first_and_failures_last():
    records = [
        {"method": "a", "mse": 0.5, "mae": 0.4, "seconds": 1.0},
        {"method": "a", "mse": 0.7, "mae": 0.6, "seconds": 3.0},
        {"method": "b", "error": "no", "seconds": 1.0},
        {"method": "c", "mse": 0.1, "mae": 0.2, "accuracy": 0.9, "seconds": 1.0},
    ]
    best, second, failed = summarise(records)
    assert (best.method, best.mse, best.mse_deviation, best.accuracy) == ("c", 0.1, None, 0.9)
    assert (second.n_masks, second.mse, second.mae, second.seconds) == (2, 0.6, 0.5, 2.0)
    assert second.mse_deviation == pytest.approx(np.sqrt(0.02))
    assert (failed.method, failed.mse, failed.error) == ("b", None, "no")


def test_where_there_are_no_numbers_the_categories_decide():
    records = [
        {"method": name, "accuracy": share, "seconds": 1.0}
        for name, share in (("poor", 0.4), ("good", 0.9), ("fair", 0.6))
    ]
    assert [line.method for line in summarise(records)] == ["good", "fair", "poor"]


def of_masks(**errors):
    """Records of methods with these squared errors, one for each mask."""
    return [
        {"method": name, "mask": mask, "mse": error, "seconds": 1.0}
        for name, own in errors.items()
        for mask, error in enumerate(own)
    ]


@pytest.mark.parametrize(
    ("others", "better", "as_good"),
    [
        ({"mean": [1.0, 1.0], "knn": [0.7, 0.8]}, (), ()),
        ({"mean": [0.51, 0.52], "knn": [0.7, 0.8]}, (), ("mean",)),
        ({"mean": [0.3, 0.31], "knn": [0.49, 0.5]}, ("mean",), ("knn",)),
        ({"mean": [0.2, 0.7]}, (), ("mean",)),  # which is better depends on the mask
        ({"mean": [0.4, 0.41], "knn": [0.2, 0.2]}, ("knn", "mean"), ()),
    ],
)
def test_methods_that_are_as_good_are_named(others, better, as_good):
    (own,) = standings(of_masks(miwae=[0.5, 0.5], **others), "miwae")
    assert (own.measure, own.error) == ("squared error", 0.5)
    assert (own.better, own.as_good) == (better, as_good)


def test_a_single_mask_and_categories_are_compared_too():
    records = [
        {"method": "miwae", "mask": 0, "mse": 0.5, "accuracy": 0.66},
        {"method": "mean", "mask": 0, "mse": 1.0, "accuracy": 0.68},
        {"method": "copula", "mask": 0, "error": "not installed"},
    ]
    number, category = standings(records, "miwae")
    assert (number.better, number.as_good, number.best) == ((), (), 1.0)
    assert category.measure == "wrong categories"
    assert (category.better, category.as_good) == (("mean",), ())


@pytest.mark.parametrize("records", [[], of_masks(mean=[0.5]), of_masks(miwae=[0.5])])
def test_without_ours_or_others_nothing_is_compared(records):
    assert standings(records, "miwae") == []
