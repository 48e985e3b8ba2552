"""Observation models p(x | z): one file per kind of feature."""

from miwae.model.observations.base import AbstractFactorized, AbstractObservation, Linearisation
from miwae.model.observations.continuous import (
    LowRankNormal,
    Normal,
    Positive,
    Stretch,
    StretchedNormal,
    StudentT,
)
from miwae.model.observations.discrete import (
    Bernoulli,
    Categorical,
    Count,
    Ordinal,
    Points,
)
from miwae.model.observations.heterogeneous import Heterogeneous, Part

__all__ = [
    "AbstractFactorized",
    "AbstractObservation",
    "Bernoulli",
    "Categorical",
    "Count",
    "Heterogeneous",
    "Linearisation",
    "LowRankNormal",
    "Normal",
    "Ordinal",
    "Part",
    "Points",
    "Positive",
    "Stretch",
    "StretchedNormal",
    "StudentT",
]
