"""Numbers that take few values: modelled by the shares of the values."""

import numpy as np
import pandas as pd
import pytest

from columns.cases import NAN, column_of, repeated, schema_of
from miwae.columns._scales import standardisation
from miwae.columns.kinds import Points
from miwae.columns.kinds._points import MOST_POINTS
from miwae.events import Event


def test_numbers_that_take_few_values_are_modelled_by_them():
    known = schema_of([*repeated([0.5, 1.0, 2.5]), *repeated([1.0]), NAN])
    kind = known.kind
    assert (kind.label, kind.values, kind.shares) == (
        "positive",
        (0.5, 1.0, 2.5),
        (0.25, 0.5, 0.25),
    )
    assert known.reason.endswith("; modelled by its 3 values")
    assert kind.scale == standardisation(np.array(repeated([0.5, 1.0, 1.0, 2.5])))
    assert kind.family is not None
    assert kind.family.values == kind.scale.forward(np.array(kind.values)).tolist()
    assert kind.family.shares == kind.shares
    assert schema_of(repeated([-0.7, 1.4])).kind.label == "continuous"
    assert schema_of(repeated([1, 2, 5])).kind.values == (1.0, 2.0, 5.0)


@pytest.mark.parametrize(
    "values",
    [
        [5e-324, 1e-323],
        [-1.7e308, 1.7e308],
        [0.1, 0.2, 0.3, 1e9],
        [1 + 2.0**-52, 1 + 2.0**-51, 7.5],
    ],
)
def test_values_that_single_precision_cannot_tell_apart_are_no_points(values):
    known = schema_of([*repeated(values[:-1], 30), *repeated(values[-1:])])
    assert not isinstance(known.kind, Points)


@pytest.mark.parametrize(
    "values", [[1.5e308, 1.6e308, 1.7e308], [1 + 2.0**-52, 1 + 2.0**-51], [1e-300, 2e-300]]
)
def test_values_of_any_size_can_be_few(values):
    assert schema_of(repeated(values)).kind.values == tuple(values)


@pytest.mark.parametrize(
    ("values", "kind", "bounds"),
    [
        (repeated([0.5, 1.0, 2.5])[1:], None, None),  # not often enough
        (repeated(np.arange(MOST_POINTS + 1) + 0.5), None, None),  # too many
        (repeated([0.5, 1.0, 2.5]), "continuous", None),  # specified: any number
        (repeated([1, 2, 5]), "integer", None),
        (repeated([1, 2, 5]), None, (0, 10)),  # any number within the bounds
        (repeated([0, 1]), None, None),  # a choice of two
        (repeated([0, 0, 1, 9]), None, None),  # counts
        (pd.to_datetime(repeated(["2020-01-01", "2021-01-01"])), None, None),
    ],
)
def test_other_columns_are_not(values, kind, bounds):
    assert not isinstance(schema_of(values, kind, bounds).kind, Points)


@pytest.mark.parametrize(
    "values", [[0.1, 0.7, 1e4 / 3], [1.5e308, 1.6e308, 1.7e308], [1 + 2.0**-52, 1 + 2.0**-51]]
)
def test_single_precision_leaves_no_trace_beside_the_values_of_a_column(values):
    kind = schema_of(values * 20).kind
    result = kind.encoded(column_of(values))
    assert not result.events
    assert kind.decoded(result.values.astype(np.float32).astype(float)).tolist() == values


def test_means_stay_between_the_values():
    kind = schema_of([0.5, 1.5, 9.5] * 20).kind
    low, high = kind.scale.forward(np.array([0.5, 9.5]))
    between = kind.decoded(np.array([low - 1, low + 1e-3, high - 1e-3, high + 1]))
    assert between[0] == 0.5 < between[1] < between[2] < 9.5 == between[3]


def test_the_ends_of_intervals_are_values():
    kind = schema_of([0.5, 1.5, 9.5] * 20).kind
    ends = kind.scale.forward(np.array([[0.7, 6.0], [1.2, 9.0]]))
    found = kind.decoded(kind.interval(ends, ends[0]).ravel())
    assert found.tolist() == [0.5, 9.5, 1.5, 9.5]


def test_a_new_value_is_the_nearest_known_one_to_the_model():
    kind = schema_of([0.5, 1.5, 9.5] * 20).kind
    new = kind.encoded(column_of([0.5, 1.2, 1e300, -7.0, 9.5, NAN]))
    known = kind.encoded(column_of([0.5, 1.5, 9.5, 0.5, 9.5, NAN]))
    np.testing.assert_array_equal(new.values, known.values)
    text = (
        "column 'a': the value 1.2 was not seen in fitting (3 such cells): kept in the table, "
        "taken for the nearest known value by the model"
    )
    assert new.events == (Event("value", "a", 3, text),)


def test_values_with_probabilities_have_no_change_of_scale():
    kind = schema_of([0.5, 1.5, 2.5] * 20).kind
    assert kind.encoded(column_of([0.5, NAN, 2.5, 7.0])).log_slope is None
