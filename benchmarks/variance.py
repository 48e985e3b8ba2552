"""What mirrored and quasi-random latent samples are worth: the variance of an imputed mean.

    python benchmarks/variance.py           written to benchmarks/results/variance.json

The first of the models that the imputer fits to a table (half of its cells missing) imputes some
rows again and again with few latent samples: independent ones, pairs of mirror images as the
imputer draws them, and pairs of which one half are the points of a scrambled Sobol sequence.
Variances are compared cell by cell. All use the same quantiles, so that nothing else differs.
"""

import json
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from scipy import stats
from tables import measured

from miwae import MIWAEImputer, enable_compilation_cache
from miwae.inference._weights import weighted
from miwae.model import MixedColumns

RESULTS = Path(__file__).parent / "results" / "variance.json"
N_ROWS, REPEATS = 100, 100
NUMBERS = (32, 128)  # of latent samples


def independent(rng, n, shape):
    return rng.random((n, *shape))


def mirrored(rng, n, shape):
    half = rng.random((n // 2, *shape))
    return np.concatenate([half, 1 - half])


def sobol(rng, n, shape):
    """A sequence of its own for each row."""
    n_rows, n_latent = shape
    points = [stats.qmc.Sobol(n_latent, rng=rng).random(n // 2) for _ in range(n_rows)]
    half = np.clip(np.stack(points, axis=1), 1e-9, 1 - 1e-9)
    return np.concatenate([half, 1 - half])


SCHEMES = {"independent": independent, "mirrored": mirrored, "mirrored Sobol": sobol}


def estimates(autoencoder, x, observed, draw, n):
    """The imputed means of all cells, once for each repetition."""
    proposal = autoencoder.propose(x, observed)
    loc, scale, df = (np.asarray(a) for a in (proposal.delta, proposal.scale, proposal.df))
    impute = eqx.filter_jit(_means)
    rng = np.random.default_rng(0)
    out = []
    for _ in range(REPEATS):
        eps = stats.t.ppf(draw(rng, n, loc.shape), df)
        inner = jnp.asarray(loc + scale * eps, dtype=jnp.float32)
        out.append(np.asarray(impute(autoencoder, proposal, inner, x, observed)))
    return np.stack(out)


def _means(autoencoder, proposal, inner, x, observed):
    z = proposal.mean[None] + jnp.einsum("blm,kbl->kbm", proposal.inverse, inner)
    z, eta, log_w = weighted(autoencoder, z, proposal.log_prob(z), x, observed)
    weights = jax.nn.softmax(log_w, axis=0)
    means = autoencoder.generative.observation.mean(eta, x, observed)
    return jnp.einsum("kb,kbd->bd", weights, means)


def study(name):
    """For each number of samples the variance of independent ones over that of each scheme."""
    x, holes = measured(name)
    given = np.where(holes, np.nan, x)
    imputer, _, encoded = MIWAEImputer(random_state=0, n_models=1).fit(given)._read(given[:N_ROWS])
    table = imputer._table
    _, x, observed = table._needed(encoded)
    out = {}
    for n in NUMBERS:
        found = {
            scheme: estimates(table.models[0].autoencoder, x, observed, draw, n)
            for scheme, draw in SCHEMES.items()
        }
        observation = table.models[0].autoencoder.generative.observation
        assert isinstance(observation, MixedColumns)
        n_numbers = observation.sizes[0]
        missing = (~observed & observed.any(axis=0))[:, :n_numbers]
        variances = {
            scheme: own[:, :, :n_numbers].var(axis=0)[missing] for scheme, own in found.items()
        }
        out[str(n)] = {
            scheme: {
                "all cells": round(float(np.sum(variances["independent"]) / np.sum(own)), 2),
                "median cell": round(float(np.median(variances["independent"] / own)), 2),
            }
            for scheme, own in variances.items()
        }
    return out


def main():
    enable_compilation_cache()
    found = {name: study(name) for name in ("white wine", "breast cancer", "iris")}
    found |= {"rows": N_ROWS, "repetitions": REPEATS}
    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
    print(json.dumps(found, indent=1))


if __name__ == "__main__":
    main()
