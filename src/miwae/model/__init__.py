"""What is assumed: priors, observation models, posteriors, networks. Arrays only."""

from miwae.model._amortizers import AbstractAmortizer, Amortizer, LinearAmortizer
from miwae.model._build import (
    convolutional_autoencoder,
    dense_autoencoder,
    linear_autoencoder,
    linear_core,
    recurrent_autoencoder,
)
from miwae.model._fill import AbstractFill, LearnedFill, MeanFill, OracleFill, ZeroFill
from miwae.model._latent import Autoencoder, LatentModel, check_data
from miwae.model._linear import FactorAnalysis, fit_factor_analysis
from miwae.model._posteriors import (
    AbstractPosterior,
    FlowPosterior,
    FullNormalPosterior,
    FullStudentTPosterior,
    MixturePosterior,
    NormalPosterior,
    StudentTPosterior,
)
from miwae.model._priors import AbstractPrior, FlowPrior, MixturePrior, StandardNormal, VampPrior
from miwae.model._proposals import AbstractProposal
from miwae.model.networks._convolutional import (
    ConvolutionalDecoder,
    ConvolutionalEncoder,
    ImageShape,
)
from miwae.model.networks._dense import Dense
from miwae.model.networks._recurrent import RecurrentDecoder, RecurrentEncoder
from miwae.model.networks._sets import AttentionEncoder, SetEncoder
from miwae.model.observations._base import AbstractFactorized, AbstractObservation, Linearisation
from miwae.model.observations._columns import ColumnParameters, MixedColumns
from miwae.model.observations._continuous import LowRankNormal, Normal, Positive, Stretch, StudentT
from miwae.model.observations._discrete import Bernoulli, Categorical, Count, Ordinal
from miwae.model.observations._heterogeneous import Heterogeneous, Part
from miwae.model.observations._levels import Coded

__all__ = [
    "AbstractAmortizer",
    "AbstractFactorized",
    "AbstractFill",
    "AbstractObservation",
    "AbstractPosterior",
    "AbstractPrior",
    "AbstractProposal",
    "Amortizer",
    "AttentionEncoder",
    "Autoencoder",
    "Bernoulli",
    "Categorical",
    "Coded",
    "ColumnParameters",
    "ConvolutionalDecoder",
    "ConvolutionalEncoder",
    "Count",
    "Dense",
    "FactorAnalysis",
    "FlowPosterior",
    "FlowPrior",
    "FullNormalPosterior",
    "FullStudentTPosterior",
    "Heterogeneous",
    "ImageShape",
    "LatentModel",
    "LearnedFill",
    "LinearAmortizer",
    "Linearisation",
    "LowRankNormal",
    "MeanFill",
    "MixedColumns",
    "MixturePosterior",
    "MixturePrior",
    "Normal",
    "NormalPosterior",
    "OracleFill",
    "Ordinal",
    "Part",
    "Positive",
    "RecurrentDecoder",
    "RecurrentEncoder",
    "SetEncoder",
    "StandardNormal",
    "Stretch",
    "StudentT",
    "StudentTPosterior",
    "VampPrior",
    "ZeroFill",
    "check_data",
    "convolutional_autoencoder",
    "dense_autoencoder",
    "fit_factor_analysis",
    "linear_autoencoder",
    "linear_core",
    "recurrent_autoencoder",
]
