"""From the kinds of the columns to their joint observation model."""

from dataclasses import dataclass
from typing import final

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Bool, Float, Int

from miwae.columns import Schema
from miwae.model import Coded, FactorAnalysis, MixedColumns, Stretch

# The floor under the scale of a column is a share of its noise in the linear core, within limits.
FLOOR_SHARE = 0.2
LOWEST_FLOOR = 0.02
HIGHEST_FLOOR = 0.3

# In the units of Monte Carlo error of a statistic that nobody reads.
ANY_ERROR = 1e30


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
        names = np.array([family.name for family in families], dtype=str)
        is_number, is_count = names == "number", names == "count"
        numbers, counts = np.flatnonzero(is_number), np.flatnonzero(is_count)
        coded = np.flatnonzero(~is_number & ~is_count)
        stretches = [families[i].stretch for i in numbers]
        observation = MixedColumns.of(
            [Stretch(*own) if own else None for own in stretches],
            [Coded(f.name, f.values, f.shares) for f in (families[i] for i in coded)],
            len(counts),
        )
        n_numbers, n_coded, n_levels, _ = observation.sizes
        place = np.zeros(len(families), dtype=int)
        for first, own in ((0, numbers), (n_numbers, coded), (n_numbers + n_coded, counts)):
            place[own] = first + np.arange(len(own))
        units = np.array([kind.unit for kind in kinds], dtype=np.float32)
        scale = np.full(observation.n_statistics, ANY_ERROR, dtype=np.float32)
        scale[: len(numbers)] = units[numbers]
        is_points = names[coded] == "points"
        scale[n_numbers + np.flatnonzero(is_points)] = 1.0
        sizes = [len(families[i].values) for i in coded]
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


def with_floors(observation: MixedColumns, core: FactorAnalysis) -> MixedColumns:
    """Floors under the scales: a share of what the linear core leaves unexplained in a column.

    The paper's floor of 0.1 is too high for columns that follow from the others, and hides it; for
    columns with repeated values a lower one lets the model spend itself on them.
    """
    floors = np.clip(FLOOR_SHARE * np.sqrt(core.noise), LOWEST_FLOOR, HIGHEST_FLOOR)
    own = jax.device_put(floors[: len(observation.floor)].astype(np.float32))
    return eqx.tree_at(lambda o: o.floor, observation, own)
