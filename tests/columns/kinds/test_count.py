"""Counts: told from other whole numbers by zeros and variance, and seen as they are."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from columns.cases import NAN, codes, column_of, not_usable, schema_of
from miwae.columns._summary import MOST_COUNTED

counts = st.lists(st.integers(0, 10_000), min_size=2, max_size=30, unique=True)


def test_variance_and_mean_are_compared_exactly():
    # Mean 1 and variance 1: n sum(x^2) - (sum x)^2 = n sum x, which rounding must not decide.
    at_limit = [0, 0, 1, 1, 1, 3] * 7
    assert np.mean(np.square(at_limit)) - np.mean(at_limit) ** 2 == np.mean(at_limit)
    assert schema_of(at_limit).kind.label == "count"
    assert schema_of([0, 0, 1, 1, 2, 2, 1, 2] * 7).kind.label == "integer"


@pytest.mark.parametrize(("zeros", "label"), [(5, "count"), (4, "integer")])
def test_a_twentieth_of_them_is_zero(zeros, label):
    assert schema_of([0] * zeros + list(range(1, 101 - zeros))).kind.label == label


@settings(max_examples=50, deadline=None)
@given(counts)
def test_they_are_encoded_as_they_are(values):
    column = column_of([*values, None], "Int64")
    kind = schema_of(column, "count").kind
    result = kind.encoded(column)
    assert result.values[:-1].tolist() == values
    assert kind.decoded(result.values[:-1]).tolist() == values


def test_the_unit_is_the_standard_deviation():
    assert schema_of([0, 0, 0, 9]).kind.unit == np.std([0, 0, 0, 9])
    assert schema_of([0, 0, 1], "count").kind.unit == 1.0  # at least


def test_what_is_no_count():
    found, events = codes(schema_of([0, 0, 0, 9]), [2.5, -1.0, 3.0, NAN, MOST_COUNTED, 1e300])
    assert found == [None, None, 3.0, None, MOST_COUNTED, None]
    assert events == (
        not_usable("2.5", "is not a count", 2),
        not_usable("1e+300", "is too large for a count"),
    )


def test_they_are_not_negative_and_have_no_largest():
    kind = schema_of([0, 0, 0, 9]).kind
    assert kind.decoded(np.array([-3.7, 0.4, 2.6, 1e6])).tolist() == [0.0, 0.0, 3.0, 1e6]
