"""From the kinds of the columns to their joint observation model."""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Bool, Float, Int

from miwae.columns import Schema
from miwae.columns.kinds import Family
from miwae.model import AbstractObservation, Coded, FactorAnalysis, MixedColumns, Stretch

# The floor under the scale of a column is a share of its noise in the linear core, within limits.
FLOOR_SHARE = 0.2
LOWEST_FLOOR = 0.02
HIGHEST_FLOOR = 0.3

# In the units of Monte Carlo error of a statistic that nobody reads.
ANY_ERROR = 1e30

# Which of the three parts of the observation model a family belongs to.
_PART = {
    "student_t": 0,
    "stretched_normal": 0,
    "bernoulli": 1,
    "categorical": 1,
    "ordinal": 1,
    "points": 1,
    "count": 2,
}


@final
@dataclass(frozen=True)
class TableModel:
    """The observation model of a table, padded, and where its modelled columns stand in it."""

    observation: MixedColumns
    place: Int[np.ndarray, " D"]
    scale: Float[np.ndarray, " S"]  # the unit of Monte Carlo error of each statistic
    levels: tuple[slice, ...]  # for each modelled column, the statistics of its levels

    @classmethod
    def of(cls, schema: Schema) -> "TableModel":
        """For the kinds of the modelled columns."""
        kinds = [schema.columns[position].kind for position in schema.modelled]
        families = [kind.family for kind in kinds if kind.family is not None]
        part = np.array([_PART[family.name] for family in families], dtype=int)
        numbers, coded, counts = (np.flatnonzero(part == i) for i in range(3))
        observation = MixedColumns.of(
            [_stretch(families[i]) for i in numbers],
            [_coded(families[i]) for i in coded],
            len(counts),
        )
        n_numbers, n_coded, n_levels, _ = observation.sizes
        place = np.zeros(len(families), dtype=int)
        for first, own in ((0, numbers), (n_numbers, coded), (n_numbers + n_coded, counts)):
            place[own] = first + np.arange(len(own))
        units = np.array([kind.unit for kind in kinds], dtype=np.float32)
        scale = np.full(observation.n_statistics, ANY_ERROR, dtype=np.float32)
        scale[: len(numbers)] = units[numbers]
        is_points = np.array([families[i].name == "points" for i in coded], dtype=bool)
        scale[n_numbers + np.flatnonzero(is_points)] = 1.0
        sizes = [families[i].size for i in coded]
        column = np.repeat(np.arange(len(coded)), sizes)
        levels = n_numbers + n_coded + np.arange(len(column))
        scale[levels[~is_points[column]]] = 1.0
        first = n_numbers + n_coded + n_levels
        scale[first : first + len(counts)] = units[counts]
        own_levels = [slice(0, 0)] * len(families)
        for i, end, size in zip(coded, np.cumsum(sizes), sizes, strict=True):
            own_levels[i] = slice(n_numbers + n_coded + end - size, n_numbers + n_coded + end)
        return cls(observation, place, scale, tuple(own_levels))

    def padded(
        self, x: Float[np.ndarray, "N D"], observed: Bool[np.ndarray, "N D"]
    ) -> tuple[Float[np.ndarray, "N F"], Bool[np.ndarray, "N F"]]:
        """Rows as the observation model has them; what pads them was not observed."""
        shape = (len(x), self.observation.n_features)
        wide, seen = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=bool)
        wide[:, self.place], seen[:, self.place] = x, observed
        return wide, seen


def _stretch(family: Family) -> Stretch | None:
    return Stretch(*family.parameters) if family.name == "stretched_normal" else None


def _coded(family: Family) -> Coded:
    if family.name == "points":
        values, shares = zip(*family.parameters, strict=True)
        return Coded("points", values, shares)
    sort = "ordinal" if family.name == "ordinal" else "category"
    return Coded(sort, range(family.size), [1 / family.size] * family.size)


def with_floors(observation: AbstractObservation, core: FactorAnalysis) -> AbstractObservation:
    """Floors under the scales: a share of what the linear core leaves unexplained in a column.

    The paper's floor of 0.1 is too high for columns that follow from the others, and hides it; for
    columns with repeated values a lower one lets the model spend itself on them.
    """
    floors = np.clip(FLOOR_SHARE * np.sqrt(core.noise), LOWEST_FLOOR, HIGHEST_FLOOR)
    of_columns = isinstance(observation, MixedColumns)
    where = (lambda o: o.floor) if of_columns else (lambda o: o.scale_floor)
    own = jnp.asarray(floors[: len(where(observation))].astype(np.float32))
    return eqx.tree_at(where, observation, own)
