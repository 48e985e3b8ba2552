"""From the kinds of the columns to their joint observation model."""

from collections.abc import Callable, Mapping, Sequence

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from miwae.columns import Schema
from miwae.columns.kinds import Family
from miwae.model import (
    AbstractObservation,
    Bernoulli,
    Categorical,
    Count,
    FactorAnalysis,
    Heterogeneous,
    Ordinal,
    Part,
    Points,
    Stretch,
    StretchedNormal,
    StudentT,
)

# The floor under the scale of a column is a share of its noise in the linear core, within limits.
FLOOR_SHARE = 0.2
LOWEST_FLOOR = 0.02
HIGHEST_FLOOR = 0.3


def _student_t(families: Sequence[Family]) -> AbstractObservation:
    return StudentT(len(families), _floors(len(families)))


def _stretched_normal(families: Sequence[Family]) -> AbstractObservation:
    stretches = tuple(Stretch(*family.parameters) for family in families)
    return StretchedNormal(stretches, _floors(len(families)))  # pyright: ignore[reportCallIssue]


def _sizes(families: Sequence[Family]) -> tuple[int, ...]:
    return tuple(family.size for family in families)


# How columns of one family are modelled together, in the order in which the parts of a model come.
# Equinox lets a property stand for an abstract field; a type checker takes it for an argument.
_FAMILIES: dict[str, Callable[[Sequence[Family]], AbstractObservation]] = {
    "student_t": _student_t,
    "bernoulli": lambda families: Bernoulli(len(families)),
    "count": lambda families: Count(len(families)),
    "stretched_normal": _stretched_normal,
    "points": lambda families: Points.of([dict(family.parameters) for family in families]),
    "categorical": lambda families: Categorical(_sizes(families)),  # pyright: ignore
    "ordinal": lambda families: Ordinal(_sizes(families)),  # pyright: ignore
}

# Families whose columns are padded to the largest among those modelled together.
_PADDED = frozenset({"points", "categorical", "ordinal"})


def observation_of(schema: Schema) -> AbstractObservation:
    """The observation model of the modelled columns, in their order."""
    families = _families(schema)
    parts = []
    for name, combined in _FAMILIES.items():
        own = {i: family.size for i, family in enumerate(families) if family.name == name}
        groups = _of_similar_size(own) if name in _PADDED else [tuple(own)]
        for group in filter(None, groups):
            parts.append(Part(combined([families[i] for i in group]), group))
    if len(parts) == 1:
        return parts[0].observation
    return Heterogeneous(tuple(parts))  # pyright: ignore[reportCallIssue]


def _families(schema: Schema) -> list[Family]:
    families = (schema.columns[position].kind.family for position in schema.modelled)
    return [family for family in families if family is not None]


def _of_similar_size(sizes: Mapping[int, int]) -> list[tuple[int, ...]]:
    """Columns in groups in which none takes more than twice as many values as another."""
    groups: list[list[int]] = []
    for i in sorted(sizes, key=lambda i: sizes[i]):
        if groups and sizes[i] <= 2 * sizes[groups[-1][0]]:
            groups[-1].append(i)
        else:
            groups.append([i])
    return [tuple(sorted(group)) for group in groups]


def _floors(n_features: int) -> Float[Array, " D"]:
    """Before a fit; `with_floors` sets those of a fit."""
    return jax.numpy.asarray(np.full(n_features, HIGHEST_FLOOR, dtype=np.float32))


def with_floors(observation: AbstractObservation, core: FactorAnalysis) -> AbstractObservation:
    """Floors under the scales: a share of what the linear core leaves unexplained in a column.

    The paper's floor of 0.1 is too high for columns that follow from the others, and hides it; for
    columns with repeated values a lower one lets the model spend itself on them.
    """
    noise = np.asarray(core.noise)
    floors = np.clip(FLOOR_SHARE * np.sqrt(noise), LOWEST_FLOOR, HIGHEST_FLOOR)
    parts = [part.observation for part in _parts(observation)]
    floored, start = [], 0
    for part in parts:
        own = floors[start : start + part.n_inputs].astype(np.float32)
        start += part.n_inputs
        if isinstance(part, StudentT | StretchedNormal):
            part = eqx.tree_at(lambda p: p.scale_floor, part, jax.numpy.asarray(own))
        floored.append(part)
    if not isinstance(observation, Heterogeneous):
        return floored[0]
    return eqx.tree_at(lambda o: [p.observation for p in o.parts], observation, floored)


def _parts(observation: AbstractObservation) -> tuple[Part, ...]:
    if isinstance(observation, Heterogeneous):
        return observation.parts
    return (Part(observation, tuple(range(observation.n_features))),)


def statistic_scale(schema: Schema) -> Float[np.ndarray, " S"]:
    """The unit of error of each statistic: 1 on standardised scales and for probabilities."""
    units = [schema.columns[position].kind.unit for position in schema.modelled]
    scales = []
    for part in _parts(observation_of(schema)):
        own = np.array([units[i] for i in part.columns], dtype=np.float32)
        one_each = part.observation.n_statistics == len(own)
        scales.append(own if one_each else np.ones(part.observation.n_statistics, np.float32))
    return np.concatenate(scales)
