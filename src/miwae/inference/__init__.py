"""What is computed from a model: weights, bounds, gradients, imputations, likelihoods, chains."""

from miwae.inference._bounds import BOUNDS, iwae_bound, miwae_bound, mvae_bound, vae_bound
from miwae.inference._chains import gibbs
from miwae.inference._estimands import conditional_mean
from miwae.inference._gradients import ESTIMATORS, BoundGradient, bound_and_gradient
from miwae.inference._importance import effective_sample_size, pareto_k, self_normalised_mean
from miwae.inference._imputation import (
    expectation,
    impute_multiple,
    impute_single,
    point_of,
    quantiles,
    statistics_of,
)
from miwae.inference._likelihood import log_likelihood
from miwae.inference._sampling import (
    RowReport,
    WeightedSamples,
    compile_sampling,
    sample_rows,
    weighted_samples,
)
from miwae.inference._settings import SamplingSettings
from miwae.inference._weights import draw

__all__ = [
    "BOUNDS",
    "ESTIMATORS",
    "BoundGradient",
    "RowReport",
    "SamplingSettings",
    "WeightedSamples",
    "bound_and_gradient",
    "compile_sampling",
    "conditional_mean",
    "draw",
    "effective_sample_size",
    "expectation",
    "gibbs",
    "impute_multiple",
    "impute_single",
    "iwae_bound",
    "log_likelihood",
    "miwae_bound",
    "mvae_bound",
    "pareto_k",
    "point_of",
    "quantiles",
    "sample_rows",
    "self_normalised_mean",
    "statistics_of",
    "vae_bound",
    "weighted_samples",
]
