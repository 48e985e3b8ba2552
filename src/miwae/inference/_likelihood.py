"""The likelihood of observed cells, by importance sampling."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from jaxtyping import Float

from miwae._row_keys import row_keys
from miwae._shapes import OneKey
from miwae.inference._estimands import no_values
from miwae.inference._sampling import RowReport, SamplingSettings, sample_rows
from miwae.model import Autoencoder, check_data


class LogLikelihood(NamedTuple):
    """The estimate of log p(x_obs) of each row; from below in expectation, tight as S grows."""

    log_prob: Float[np.ndarray, " N"]
    standard_error: Float[np.ndarray, " N"]  # by the delta method
    report: RowReport


def log_likelihood(
    autoencoder: Autoencoder,
    x: object,
    observed: object = None,
    *,
    key: OneKey,
    n_samples: int = 5_000,
    memory: int = SamplingSettings.memory,
    callback: Callable[[int, int], None] | None = None,
) -> LogLikelihood:
    """`log (1/S) sum_s w_s` for each row: Eqn. (2) by importance sampling.

    On data that the amortizer was not trained on, its proposals may be poor and the estimate too
    low: refit the amortizer on them first (`miwae.training.refit_amortizer`), as the paper does.

    Args:
        autoencoder: the model.
        x: rows; NaN where missing, unless `observed` says so.
        observed: True where a cell was seen.
        key: a threefry key.
        n_samples: K, latent samples per row.
        memory: bytes for the samples that are held at once, roughly.
        callback: called with the number of finished rows and of all rows.
    """
    values, seen = check_data(autoencoder, x, observed)
    limits = {"tolerance": None, "adapt": False, "memory": memory}
    settings, keys = SamplingSettings(n_samples=n_samples, **limits), row_keys(key, values, seen)
    sampled = sample_rows(
        autoencoder, values, seen, keys, settings, no_values(), callback=callback
    )
    report = sampled.report
    relative_variance = 1 / report.effective_sample_size - 1 / report.n_samples
    error = np.sqrt(np.maximum(relative_variance, 0.0))
    return LogLikelihood(sampled.log_mean_weight, error, report)
