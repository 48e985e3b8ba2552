"""Observation models p(x | z): one file per kind of feature."""

from miwae.model.observations._base import AbstractFactorized, AbstractObservation, Linearisation
from miwae.model.observations._columns import MixedColumns
from miwae.model.observations._continuous import (
    LowRankNormal,
    Normal,
    Positive,
    Stretch,
    StretchedNormal,
    StudentT,
)
from miwae.model.observations._discrete import Bernoulli, Categorical, Count, Ordinal, Points
from miwae.model.observations._heterogeneous import Heterogeneous, Part
from miwae.model.observations._levels import Coded, LinearStart

__all__ = [
    "AbstractFactorized",
    "AbstractObservation",
    "Bernoulli",
    "Categorical",
    "Coded",
    "Count",
    "Heterogeneous",
    "LinearStart",
    "Linearisation",
    "LowRankNormal",
    "MixedColumns",
    "Normal",
    "Ordinal",
    "Part",
    "Points",
    "Positive",
    "Stretch",
    "StretchedNormal",
    "StudentT",
]
