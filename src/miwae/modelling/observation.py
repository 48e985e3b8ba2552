"""From the schema of a table to the observation model of its columns."""

import math
from collections.abc import Callable, Mapping

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from miwae.model.linear import FactorAnalysis
from miwae.model.observations import (
    AbstractObservation,
    Bernoulli,
    Categorical,
    Count,
    Heterogeneous,
    Ordinal,
    Part,
    Points,
    Stretch,
    StretchedNormal,
    StudentT,
)
from miwae.table.schema import NUMERIC, ColumnSchema, Schema

__all__ = ["LOWEST_FLOOR", "observation_of", "statistic_scale", "with_floors"]

# Under the scale of a column: a share of the deviation of its noise in the linear core.
FLOOR_SHARE = 0.2
LOWEST_FLOOR = 0.02
HIGHEST_FLOOR = 0.3

# Of a stretched scale, in standard deviations: a smaller one is none of float32, and nobody's.
SMALLEST_UNIT = 1e-25


def observation_of(schema: Schema) -> AbstractObservation:
    """The observation model of the modelled columns, in their order."""
    columns = [schema.columns[position] for position in schema.modelled]
    of_kind = lambda kinds: [i for i, c in enumerate(columns) if c.kind in kinds]  # noqa: E731
    few = [i for i in of_kind(NUMERIC) if columns[i].points]
    many = [i for i in of_kind(NUMERIC) if not columns[i].points]
    stretches = {i: s for i in many if (s := _stretch(columns[i])) is not None}
    straight = [i for i in many if i not in stretches]
    parts = [
        Part(family(len(chosen)), tuple(chosen))
        for family, chosen in (
            (_student_t, straight),
            (Bernoulli, of_kind({"binary"})),
            (Count, of_kind({"count"})),
        )
        if chosen
    ]
    if stretches:
        parts.append(Part(_stretched(tuple(stretches.values())), tuple(stretches)))
    for chosen in _of_similar_size({i: len(columns[i].points) for i in few}):
        parts.append(Part(Points.of([_scaled_points(columns[i]) for i in chosen]), chosen))
    for family, kind in ((_categorical, "categorical"), (_ordinal, "ordinal")):
        sizes = {i: len(columns[i].levels) for i in of_kind({kind})}
        for chosen in _of_similar_size(sizes):
            parts.append(Part(family(tuple(sizes[i] for i in chosen)), chosen))
    return parts[0].observation if len(parts) == 1 else _heterogeneous(tuple(parts))


# Equinox lets a property stand for an abstract field; a type checker takes it for an argument.
_categorical: Callable[[tuple[int, ...]], AbstractObservation] = Categorical  # pyright: ignore
_ordinal: Callable[[tuple[int, ...]], AbstractObservation] = Ordinal  # pyright: ignore
_heterogeneous: Callable[[tuple[Part, ...]], AbstractObservation] = Heterogeneous  # pyright: ignore


def _student_t(n_features: int) -> AbstractObservation:
    return StudentT(n_features, _floors(n_features))


def _stretched(stretches: tuple[Stretch, ...]) -> AbstractObservation:
    return StretchedNormal(stretches, _floors(len(stretches)))  # pyright: ignore


def _floors(n_features: int) -> Float[Array, " D"]:
    """To begin with; `with_floors` sets those of a fit."""
    return jax.numpy.asarray(np.full(n_features, HIGHEST_FLOOR, dtype=np.float32))


def with_floors(observation: AbstractObservation, core: FactorAnalysis) -> AbstractObservation:
    """Floors under the scales: a share of what the linear core leaves unexplained in a column.

    The paper's floor of 0.1 is too high for columns that follow from the others, and hides it; for
    columns with repeated values a lower one lets the model spend itself on them.
    """
    noise = np.asarray(core.noise)
    floors = np.clip(FLOOR_SHARE * np.sqrt(noise), LOWEST_FLOOR, HIGHEST_FLOOR)
    heterogeneous = isinstance(observation, Heterogeneous)
    parts = [p.observation for p in observation.parts] if heterogeneous else [observation]
    floored, start = [], 0
    for part in parts:
        own = floors[start : start + part.n_inputs].astype(np.float32)
        start += part.n_inputs
        if isinstance(part, StudentT | StretchedNormal):
            part = eqx.tree_at(lambda p: p.scale_floor, part, jax.numpy.asarray(own))
        floored.append(part)
    if not heterogeneous:
        return floored[0]
    return eqx.tree_at(lambda o: [p.observation for p in o.parts], observation, floored)


def _stretch(column: ColumnSchema) -> Stretch | None:
    """How a column returns from its scale to the user's, in units of its standard deviation."""
    scale = column.transform
    if scale is None or scale.shape == "identity":
        return None
    if scale.shape == "log":
        up, down, centre = 1.0, 0.0, scale.centre - math.log(scale.deviation)
    else:
        up = max(scale.unit / scale.deviation / 2, SMALLEST_UNIT)
        down, centre = -up, scale.centre
    return Stretch(up, down, scale.spread, centre, scale.lowest, scale.highest)


def statistic_scale(schema: Schema) -> Float[np.ndarray, " S"]:
    """The unit of error of each statistic: 1 on standardised scales and for probabilities."""
    columns = [schema.columns[position] for position in schema.modelled]
    observation = observation_of(schema)
    parts = (
        observation.parts
        if isinstance(observation, Heterogeneous)
        else (Part(observation, tuple(range(len(columns)))),)
    )
    return np.concatenate(
        [
            np.array([columns[i].spread for i in part.columns], dtype=np.float32)
            if isinstance(part.observation, Count)
            else np.ones(part.observation.n_statistics, dtype=np.float32)
            for part in parts
        ]
    )


def _scaled_points(column: ColumnSchema) -> dict[float, float]:
    """The shares of the values that a column takes, by value on the scale of the model."""
    assert column.transform is not None
    values, shares = zip(*column.points, strict=True)
    return dict(zip(column.transform.forward(np.array(values)).tolist(), shares, strict=True))


def _of_similar_size(sizes: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Columns in groups in which no one takes more than twice the values of another.

    Within a part, columns are padded to the largest.
    """
    groups: list[list[int]] = []
    for i in sorted(sizes, key=lambda i: sizes[i]):
        if groups and sizes[i] <= 2 * sizes[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [tuple(sorted(group)) for group in groups]
