"""What tests of observation models share: SciPy's distribution of each cell, and many draws."""

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import special, stats

from cases import CODED, N_FEATURES, N_ROWS, OBSERVATIONS, possible_rows
from miwae.model import (
    AbstractObservation,
    Bernoulli,
    Categorical,
    Count,
    Heterogeneous,
    LowRankNormal,
    MixedColumns,
    Normal,
    Ordinal,
    Positive,
    StudentT,
)

N_CODES = 2  # K
OBSERVED = np.array([[True, False, True, True], [False, True, False, False], [True] * 4])

# Single precision: eps is 1.2e-7, and log-densities of this size add up a handful of terms.
ROUNDING: dict[str, Any] = {"rtol": 2e-5, "atol": 2e-5}


@eqx.filter_jit
def log_prob(observation, eta, x, observed):
    return observation.log_prob(eta, x, observed)


@eqx.filter_jit
def mean_of(observation, eta, x, observed):
    return observation.mean(eta, x, observed)


@eqx.filter_jit
def sample_of(observation, eta, x, observed, key):
    return observation.sample(eta, x, observed, key)


def parameters(observation: AbstractObservation, seed: int = 0) -> np.ndarray:
    shape = (N_CODES, N_ROWS, observation.n_parameters)
    return np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def softplus(a):
    return np.logaddexp(0.0, a)


def coded(probabilities):
    return stats.rv_discrete(values=(np.arange(len(probabilities)), probabilities))


def marginals(observation: AbstractObservation, eta: np.ndarray) -> list:
    """SciPy's distribution of each cell, written from the docstrings: blocks of D."""
    d = observation.n_features
    block = eta.astype(np.float64).reshape(-1, d)
    match observation:
        case Normal():
            return [stats.norm(*p) for p in zip(block[0], 0.1 + softplus(block[1]), strict=True)]
        case StudentT():
            scale, df = 0.1 + softplus(block[1]), 2.1 + softplus(block[2])
            return [stats.t(*p) for p in zip(df, block[0], scale, strict=True)]
        case Positive():
            scale = 0.1 + softplus(block[1])
            return [
                stats.lognorm(s, scale=np.exp(m)) for m, s in zip(block[0], scale, strict=True)
            ]
        case LowRankNormal():
            variance = (0.1 + softplus(block[1])) ** 2 + (block[2:] ** 2).sum(0)
            return [stats.norm(*p) for p in zip(block[0], np.sqrt(variance), strict=True)]
        case Bernoulli():
            return [stats.bernoulli(p) for p in special.expit(block[0])]
        case Count():
            rate, size = np.exp(block[0]), 0.05 + softplus(block[1])
            return [stats.nbinom(n, n / (n + m)) for m, n in zip(rate, size, strict=True)]
        case Categorical():
            return [
                coded(special.softmax(block[:size, j])) for j, size in enumerate(observation.sizes)
            ]
        case Ordinal():
            t = np.cumsum(np.concatenate([block[:1], 1e-3 + softplus(block[1:])]), axis=0)
            cumulative = special.expit(t)
            return [
                coded(np.diff(np.concatenate([[0.0], cumulative[: size - 1, j], [1.0]])))
                for j, size in enumerate(observation.sizes)
            ]
        case MixedColumns():
            return _marginals_of_columns(observation, eta)
        case Heterogeneous():
            cells: list = [None] * d
            for part in observation.parts:
                own, eta = np.split(eta, [part.observation.n_parameters])
                for column, cell in zip(
                    part.columns, marginals(part.observation, own), strict=True
                ):
                    cells[column] = cell
            return cells
    raise NotImplementedError(type(observation).__name__)


def _marginals_of_columns(observation: MixedColumns, eta: np.ndarray) -> list:
    """Numbers, coded columns, or counts: those in `cases.py` have one of the three."""
    n_numbers, _, n_levels, n_counts = observation.sizes
    if n_counts:
        return marginals(Count(n_counts), eta)
    if n_levels:
        logits = np.split(eta.astype(np.float64), np.cumsum([len(c.values) for c in CODED])[:-1])
        tables = [
            0.999 * special.softmax(own) + 0.001 * np.array(column.shares)
            for own, column in zip(logits, CODED, strict=True)
        ]
        pairs = zip(CODED, tables, strict=True)
        return [stats.rv_discrete(values=(tuple(c.values), table)) for c, table in pairs]
    student = marginals(StudentT(n_numbers), eta)
    normal = marginals(Normal(n_numbers), eta[: 2 * n_numbers])
    is_normal = np.asarray(observation.stretched)
    return [b if own else a for a, b, own in zip(student, normal, is_normal, strict=True)]


def log_density(cell, x):
    continuous = isinstance(getattr(cell, "dist", None), stats.rv_continuous)
    return cell.logpdf(x) if continuous else cell.logpmf(x)


N_DRAWS = 20_000


def draws(name: str, observed: np.ndarray):
    """Many draws for one latent sample, as (N, D), with its parameters and the row."""
    observation = OBSERVATIONS[name]()
    eta, x = parameters(observation, seed=1)[:1, :1], possible_rows(name, 1)
    if name in ("student_t", "columns_of_numbers"):
        eta[..., -N_FEATURES:] = 6.0  # about 8 degrees of freedom: the mean has a standard error
    wide = jnp.tile(jnp.asarray(eta), (N_DRAWS, 1, 1))
    drawn = sample_of(
        observation, wide, jnp.asarray(x), jnp.asarray(observed[None]), jax.random.key(2)
    )
    return observation, eta, x, np.asarray(drawn)[:, 0]
