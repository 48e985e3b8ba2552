"""Columns that the model does not know: constant, empty, skipped."""

import numpy as np
import pandas as pd
import pytest

from columns.cases import NAN, schema_of
from miwae.columns.kinds import Empty, Skipped


@pytest.mark.parametrize(
    ("values", "dtype", "value"),
    [
        ([2.5, NAN], None, 2.5),
        ([7, 7], None, 7.0),
        ([True, True], None, 1.0),
        (["x", None], None, "x"),
        (["2020-01-01", None], "datetime64[s]", 1577836800.0),
        (["x", None], pd.CategoricalDtype(["w", "x"]), "x"),
    ],
)
def test_a_constant_is_always_itself(values, dtype, value):
    kind = schema_of(values, dtype=dtype).kind
    assert kind.value == value
    assert kind.decoded(np.array([-3.0, 8.0])).tolist() == [value, value]


def test_a_constant_that_is_a_sequence_stays_whole():
    dtype = pd.CategoricalDtype([("a", 1), ("b", 2)])
    kind = schema_of([("a", 1), None], dtype=dtype).kind
    assert kind.decoded(np.zeros(2)).tolist() == [("a", 1), ("a", 1)]


def test_empty_columns_are_zeros_for_those_who_keep_them():
    assert Empty().decoded(np.array([3.0, -3.0])).tolist() == [0.0, 0.0]


def test_cells_of_skipped_columns_are_never_asked_for():
    with pytest.raises(NotImplementedError, match="not imputed"):
        Skipped().decoded(np.zeros(1))
