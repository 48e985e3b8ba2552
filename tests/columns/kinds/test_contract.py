"""What holds for every kind of column."""

import dataclasses

import numpy as np
import pytest

from columns.cases import KINDS, column_of
from miwae.columns.kinds import KINDS_IN_ORDER, LABELS, Number

every_kind = pytest.mark.parametrize("name", KINDS)

MODELLED = [name for name, case in KINDS.items() if case.cls.modelled]
every_modelled_kind = pytest.mark.parametrize("name", MODELLED)


def learned(name):
    case = KINDS[name]
    column = case.column()
    return column, case.schema(column).kind


def part(column, rows):
    return dataclasses.replace(column, values=column.values[rows], missing=column.missing[rows])


def observed_cells(column):
    x = column.observed_values
    return [column.levels[int(code)] for code in x] if column.levels else x.tolist()


def assert_same(one, two):
    np.testing.assert_array_equal(one.seen, two.seen)
    np.testing.assert_array_equal(one.values[one.seen], two.values[two.seen])
    assert one.events == two.events
    if one.log_slope is None:
        assert two.log_slope is None
    else:
        np.testing.assert_array_equal(one.log_slope, two.log_slope)


def test_every_class_and_every_word_has_cases():
    assert {case.cls for case in KINDS.values()} == set(KINDS_IN_ORDER)
    assert {case.label for case in KINDS.values()} == set(LABELS)


@every_kind
def test_it_is_recognised_under_its_label(name):
    _, kind = learned(name)
    assert type(kind) is KINDS[name].cls
    assert kind.label == KINDS[name].label


@every_modelled_kind
def test_observed_cells_come_back(name):
    """As they are, or to single precision where the model sees another scale."""
    column, kind = learned(name)
    result = kind.encoded(column)
    assert result.events == ()
    np.testing.assert_array_equal(result.seen, ~column.missing)
    y = result.values[result.seen].astype(np.float32).astype(np.float64)
    cells = kind.decoded(y)
    if not isinstance(kind, Number) or kind.whole:
        assert cells.tolist() == observed_cells(column)
        return
    assert result.log_slope is not None
    # Rounding of y, stretched by dx/dy; of |y| < 1 an error of 2^-25.
    slack = 2.0**-24 * np.maximum(np.abs(y), 0.5) * np.exp(-result.log_slope)
    error = np.abs(cells - column.observed_values)
    assert np.all(error <= 1.01 * slack + 1e-15 * np.abs(cells))


@every_modelled_kind
def test_levels_come_back_with_their_types(name):
    column, kind = learned(name)
    if column.levels:
        result = kind.encoded(column)
        cells = kind.decoded(result.values[result.seen])
        assert list(map(type, cells)) == list(map(type, observed_cells(column)))


@every_modelled_kind
def test_whatever_is_decoded_is_a_possible_value(name):
    column, kind = learned(name)
    y = np.linspace(-50, 50, 2001)
    cells = kind.decoded(y)
    if kind.levels:
        assert {(type(cell), cell) for cell in cells.tolist()} == {
            (type(v), v) for v in kind.levels
        }
        return
    lower, upper = kind.limits
    assert np.isfinite(cells).all()
    assert lower <= cells.min() <= cells.max() <= upper
    assert np.all(np.diff(cells) >= 0)
    if getattr(kind, "whole", kind.label == "count"):
        assert np.all(cells == np.rint(cells))
    observed = column.observed_values
    assert lower <= observed.min() <= observed.max() <= upper


@every_modelled_kind
def test_the_ends_of_intervals_are_decoded_in_order(name):
    _, kind = learned(name)
    point = np.array([0.0, 1.0])
    lower, upper = kind.interval(np.array([[0.0, 0.0], [1.0, 1.0]]), point)
    assert np.all(lower <= upper)
    if kind.label == "categorical":
        np.testing.assert_array_equal(lower, point)


@every_kind
@pytest.mark.parametrize("rest", [0.0, 1e9, -1e9, np.inf])
def test_missing_cells_are_not_read(name, rest):
    case = KINDS[name]
    column, kind = learned(name)
    other = dataclasses.replace(column, values=np.where(column.missing, rest, column.values))
    assert case.schema(other) == case.schema(column)
    assert_same(kind.encoded(other), kind.encoded(column))


@every_kind
def test_the_column_is_left_as_it_is(name):
    case = KINDS[name]
    column = case.column()
    before = column.values.copy(), column.missing.copy()
    column.values.flags.writeable = column.missing.flags.writeable = False
    case.schema(column).kind.encoded(column)
    np.testing.assert_array_equal(column.values, before[0])
    np.testing.assert_array_equal(column.missing, before[1])


@every_kind
def test_a_cell_is_encoded_independently_of_the_other_rows(name):
    column, kind = learned(name)
    whole = kind.encoded(column)
    for row in range(min(len(column.missing), 5)):
        alone = kind.encoded(part(column, [row]))
        assert alone.seen[0] == whole.seen[row]
        if whole.seen[row]:
            assert alone.values[0] == whole.values[row]


@every_kind
def test_recognition_does_not_depend_on_the_order_of_rows(name):
    case = KINDS[name]
    column = case.column()
    known = case.schema(column)
    for seed in range(3):
        order = np.random.default_rng(seed).permutation(len(column.missing))
        assert case.schema(part(column, order)) == known


@every_kind
def test_only_modelled_kinds_have_an_observation_model(name):
    _, kind = learned(name)
    assert (kind.family is None) == (not kind.modelled)
    assert kind.unit > 0
    if kind.family is not None and kind.levels:
        assert len(kind.family.values) == len(kind.levels)


@pytest.mark.parametrize("name", sorted(set(KINDS) - set(MODELLED)))
def test_the_model_sees_nothing_of_other_kinds(name):
    column, kind = learned(name)
    assert not kind.encoded(column).seen.any()
    for other in (column, column_of([1.5, 2.5]), column_of(["x", "y"])):
        assert kind.reads(other)


@every_kind
def test_a_kind_is_a_value(name):
    (_, one), (_, two) = learned(name), learned(name)
    assert one == two
    assert hash(one) == hash(two)
    for field in dataclasses.fields(one):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(one, field.name, None)


def test_kinds_are_equal_only_where_they_treat_cells_alike():
    kinds = {name: learned(name)[1] for name in MODELLED}
    equal = {(a, b) for a in kinds for b in kinds if a < b and kinds[a] == kinds[b]}
    # The same values, stored in two ways.
    assert equal == {("dates", "times_by_request"), ("flags", "zero_one"), ("colours", "declared")}
