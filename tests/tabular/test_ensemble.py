"""Several models together: answers for all rows, however these are cut into chunks."""

import jax
import numpy as np
import pytest
from scipy import stats

from miwae.inference._imputation import Quantiles
from miwae.inference._lanes import BLOCK
from miwae.inference._sampling import RowReport
from miwae.tabular import _ensemble
from miwae.tabular._ensemble import Ensemble
from tabular.small_tables import MODEL, SMALL, fitted
from tabular.small_tables import OBSERVED as SEEN
from tabular.small_tables import X as ROWS

X, OBSERVED = MODEL.padded(ROWS, SEEN)  # columns that pad, of which nothing is observed


@pytest.fixture(scope="module")
def models():
    return [fitted(ROWS, SEEN, seed) for seed in range(2)]


def asked(models, **options):
    return Ensemble(
        [model.autoencoder for model in models],
        scale=np.ones(X.shape[1], dtype=np.float32),
        n_samples=SMALL.n_imputation_samples,
        keys=[jax.random.key(3 + i) for i in range(len(models))],
        **options,
    )


@pytest.mark.long
def test_chunks_change_not_a_bit(models, monkeypatch):
    calls = []
    whole = asked(models[:1], callback=lambda *a: calls.append(a))
    x, observed = np.tile(X, (3, 1)), np.tile(OBSERVED, (3, 1))
    means, report = whole.means(x, observed)
    copies, _ = whole.draws(x, observed, 3)
    limits = whole.quantiles(x, observed, (0.1, 0.9))
    monkeypatch.setattr(_ensemble, "CHUNK_CELLS", 1)  # 256 rows at once
    calls.clear()
    means_in_chunks, report_in_chunks = whole.means(x, observed)
    assert calls[-1] == (len(x), len(x))
    assert np.array_equal(means, means_in_chunks)
    assert np.array_equal(report.n_samples, report_in_chunks.n_samples)
    assert np.array_equal(copies, whole.draws(x, observed, 3)[0])
    assert np.array_equal(limits, whole.quantiles(x, observed, (0.1, 0.9)))


def test_duplicates_far_apart_get_their_own_draws(models, monkeypatch):
    monkeypatch.setattr(_ensemble, "CHUNK_CELLS", 1)
    x, observed = np.concatenate([X, X[:1]]), np.concatenate([OBSERVED, OBSERVED[:1]])
    observed[[0, -1]] = np.arange(x.shape[1]) == 0
    copies, _ = asked(models[:1]).draws(x, observed, 3)
    assert not np.array_equal(copies[:, 0, 1:], copies[:, -1, 1:])


def test_an_ensemble_averages_its_means_and_shares_its_draws(models):
    both = asked(models)
    means, report = both.means(X, OBSERVED)
    single = [asked([model]).means(X, OBSERVED)[0] for model in models]
    # The second member uses other random numbers than it would alone.
    assert np.abs(means - np.mean(single, axis=0))[:, :3].max() < 0.5
    assert np.abs(means - np.mean(single, axis=0))[OBSERVED].max() < 1e-6
    assert (report.n_samples >= 2 * BLOCK).all()  # a block at least for each member
    copies, _ = both.draws(X, OBSERVED, 5)
    assert copies.shape == (5, *X.shape)
    assert np.array_equal(copies[:, OBSERVED], np.repeat(X[OBSERVED][None], 5, axis=0))
    lower, upper = both.quantiles(X, OBSERVED, (0.1, 0.9))
    assert (lower <= upper).all()


def test_the_density_of_an_ensemble_is_that_of_its_mixture(models):
    both = asked(models)
    log_prob = both.log_prob(X, OBSERVED)
    own = [
        _ensemble.log_likelihood(
            autoencoder, X, OBSERVED, key=key, n_samples=SMALL.n_imputation_samples
        ).log_prob
        for autoencoder, key in zip(both.autoencoders, both.keys, strict=True)
    ]
    np.testing.assert_allclose(np.exp(log_prob), np.mean(np.exp(own), axis=0), rtol=1e-4)


@pytest.mark.parametrize("level", [0.25, 0.05, 0.02])
def test_limits_of_an_ensemble_are_the_quantiles_of_its_mixture(models, monkeypatch, level):
    def normal_quantiles(autoencoder, x, observed, *, levels, **_):
        cells = np.broadcast_to(stats.norm.ppf(levels)[:, None, None], (len(levels), *x.shape))
        return Quantiles(cells, RowReport.empty(len(x)))

    monkeypatch.setattr(_ensemble, "quantiles", normal_quantiles)
    lower, upper = asked(models).quantiles(X[:2], OBSERVED[:2], (level, 1 - level))
    np.testing.assert_allclose(stats.norm.cdf(lower), level, rtol=0.04)
    np.testing.assert_allclose(lower, -upper, atol=1e-5)
