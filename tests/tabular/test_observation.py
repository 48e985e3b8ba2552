"""From kinds to the joint observation model: each column in its place."""

import jax
import numpy as np

from miwae.columns import ColumnSchema, Scale, Schema
from miwae.columns.kinds import Coded, Constant, Count, Number, Points, Skipped
from miwae.tabular._observation import observation_of, statistic_scale


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


def test_each_kind_gets_its_observation_model_and_each_column_its_place():
    observation = observation_of(MIXED)
    parts = {
        type(part.observation).__name__ + str(part.columns): part for part in observation.parts
    }
    # Positions are those among the modelled columns; 3 and 5 levels go together, 50 alone.
    assert set(parts) == {
        "StudentT(1, 5)",
        "Bernoulli(2,)",
        "Count(3,)",
        "Categorical(0, 7)",
        "Categorical(4,)",
        "Ordinal(6,)",
    }
    assert parts["Categorical(0, 7)"].observation.sizes == (3, 5)
    assert observation.n_features == len(MIXED.modelled) == 8


def test_the_unit_of_a_count_is_its_spread():
    observation = observation_of(MIXED)
    scale = statistic_scale(MIXED)
    assert scale.shape == (observation.n_statistics,)
    assert list(scale[scale != 1]) == [7.0]
    assert list(statistic_scale(schema_of(Count(spread=3.0)))) == [3.0]


SKEWED = Scale(shape="log", centre=1.0, spread=2.0, deviation=50.0, lowest=-3.0, highest=3.0)
TAILED = Scale(shape="asinh", unit=4.0, centre=0.5, deviation=20.0, lowest=-3.0, highest=3.0)


def test_columns_on_another_scale_have_their_mean_on_the_users():
    """The statistic of a cell is its value in standard deviations, but for a shift."""
    observation = observation_of(schema_of(number(TAILED), number(SKEWED)))
    assert type(observation).__name__ == "StretchedNormal"
    y = np.random.default_rng(0).normal(size=(5, 2)).astype(np.float32)
    statistics, _ = observation.statistics(
        jax.numpy.asarray(y), jax.numpy.ones(y.shape, dtype=bool)
    )
    values = [t.inverse(y[:, i]) / t.deviation for i, t in enumerate((TAILED, SKEWED))]
    np.testing.assert_allclose(statistics, np.stack(values, axis=1), rtol=1e-4)


def test_numbers_that_take_few_values_have_point_masses_on_the_scale_of_the_model():
    scale = Scale(centre=2.0, spread=4.0)
    scaled = [-0.5, -0.25, 0.0, 0.25]
    few, some, many = (
        Points(
            label="integer", scale=scale, values=tuple(map(float, range(n))), shares=(1 / n,) * n
        )
        for n in (2, 4, 12)
    )
    schema = schema_of(many, number(), few, some)
    parts = {part.columns: part.observation for part in observation_of(schema).parts}
    # 2 and 4 values go together, 12 alone.
    assert {columns: type(own).__name__ for columns, own in parts.items()} == {
        (1,): "StudentT",
        (2, 3): "Points",
        (0,): "Points",
    }
    np.testing.assert_array_equal(parts[2, 3].values.T, [[-0.5, -0.25, -0.25, -0.25], scaled])
    np.testing.assert_array_equal(parts[2, 3].shares.T, [[0.5, 0.5, 0.0, 0.0], [0.25] * 4])
    np.testing.assert_array_equal(statistic_scale(schema), np.ones(4))


def test_a_table_of_numbers_needs_no_parts():
    assert type(observation_of(schema_of(number(), number()))).__name__ == "StudentT"
