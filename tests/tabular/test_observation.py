"""From kinds to the joint observation model: each column in its place."""

import jax
import numpy as np

from miwae.columns import ColumnSchema, Scale, Schema
from miwae.columns.kinds import Coded, Constant, Count, Number, Points, Skipped
from miwae.tabular._observation import ANY_ERROR, TableModel


def column(kind):
    return ColumnSchema(name="a", kind=kind, reason="", storage="number")


def schema_of(*kinds):
    return Schema(tuple(map(column, kinds)))


def number(scale=None):
    return Number(label="continuous", scale=scale or Scale())


def coded(label, n_levels):
    return Coded(label=label, levels=tuple(map(float, range(n_levels))))


MIXED = schema_of(
    coded("categorical", 3),
    number(),
    Constant(value=1.0),
    coded("binary", 2),
    Count(spread=7.0),
    coded("categorical", 50),
    number(),
    coded("ordinal", 4),
    coded("categorical", 5),
    Skipped(),
)


def test_each_column_gets_its_place_among_numbers_levels_and_counts():
    model = TableModel.of(MIXED)
    # Two numbers, five coded columns of 3 + 2 + 50 + 4 + 5 levels and a count, padded.
    assert model.observation.sizes == (8, 8, 64, 8)
    assert list(model.place) == [8, 0, 9, 16, 10, 1, 11, 12]
    levels = model.observation.levels
    assert list(np.bincount(levels.column[levels.real])) == [3, 2, 50, 4, 5]
    assert list(levels.sort[:5]) == [0, 0, 0, 1, 0]


def test_rows_are_padded_with_cells_that_were_not_observed():
    model = TableModel.of(MIXED)
    x = np.arange(16.0, dtype=np.float32).reshape(2, 8)
    wide, seen = model.padded(x, np.ones(x.shape, dtype=bool))
    assert wide.shape == seen.shape == (2, model.observation.n_features)
    np.testing.assert_array_equal(wide[:, model.place], x)
    assert seen.sum() == 16
    assert seen[:, model.place].all()


def test_tables_of_similar_size_have_models_of_one_shape():
    models = [TableModel.of(schema_of(*[number()] * n, coded("binary", 2))) for n in (1, 8)]
    shapes = [[leaf.shape for leaf in jax.tree.leaves(model.observation)] for model in models]
    assert shapes[0] == shapes[1]


def test_the_unit_of_a_count_is_its_spread():
    model = TableModel.of(MIXED)
    assert model.scale.shape == (model.observation.n_statistics,)
    read = model.scale[model.scale < ANY_ERROR]
    assert list(read[read != 1]) == [7.0]
    # Two numbers, a count, and the probability of each of 64 levels.
    assert len(read) == 2 + 1 + 64


SKEWED = Scale(shape="log", centre=1.0, spread=2.0, deviation=50.0, lowest=-3.0, highest=3.0)
TAILED = Scale(shape="asinh", unit=4.0, centre=0.5, deviation=20.0, lowest=-3.0, highest=3.0)


def test_columns_on_another_scale_have_their_mean_on_the_users():
    """The statistic of a cell is its value in standard deviations, but for a shift."""
    model = TableModel.of(schema_of(number(TAILED), number(SKEWED)))
    y = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    statistics, _ = model.observation.statistics(
        *(jax.numpy.asarray(a) for a in model.padded(y, np.ones(y.shape, dtype=bool)))
    )
    values = [t.inverse(y[:, i]) / t.deviation for i, t in enumerate((TAILED, SKEWED))]
    np.testing.assert_allclose(statistics[:, :2], np.stack(values, axis=1), rtol=1e-4)


def test_numbers_that_take_few_values_have_their_mean_as_statistic():
    points = Points(
        label="integer",
        scale=Scale(centre=2.0, spread=4.0),
        values=(0.0, 1.0, 2.0, 3.0),
        shares=(0.25,) * 4,
    )
    model = TableModel.of(schema_of(number(), points))
    levels = model.observation.levels
    np.testing.assert_array_equal(levels.value[:4], [-0.5, -0.25, 0.0, 0.25])
    np.testing.assert_array_equal(levels.share[:4], 0.25)
    n_numbers, n_coded, _, _ = model.observation.sizes
    read = np.flatnonzero(model.scale < ANY_ERROR)
    assert list(read) == [0, n_numbers]  # the number, and the mean of the points
