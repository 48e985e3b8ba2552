"""Plots of missing cells, of imputed ones and of models: frames or arrays in, a figure out.

Observed cells are blue and imputed ones red, as in R's mice; the two also differ in lightness and
shape, so that they can be told apart in grey and by everybody. Each function takes `ax=` to draw
into axes of your own, and returns the matplotlib figure. It needs `pip install 'miwae[plots]'`.
"""

from miwae.plots._imputed import bars, density, strip
from miwae.plots._missing import (
    missing_bars,
    missing_matrix,
    missing_patterns,
    missing_predictors,
    missing_together,
)
from miwae.plots._model import latent, training, weights
from miwae.plots._trust import calibration, overimputation

__all__ = [
    "bars",
    "calibration",
    "density",
    "latent",
    "missing_bars",
    "missing_matrix",
    "missing_patterns",
    "missing_predictors",
    "missing_together",
    "overimputation",
    "strip",
    "training",
    "weights",
]
