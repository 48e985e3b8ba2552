"""Networks of all kinds are trained by the same interface, and never see a missing cell."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae.inference._imputation import impute_single
from miwae.inference._sampling import SamplingSettings
from miwae.inference._weights import draw
from miwae.model import AttentionEncoder, Normal, SetEncoder
from miwae.model._amortizers import Amortizer
from miwae.model._build import convolutional_autoencoder, dense_autoencoder, recurrent_autoencoder
from miwae.model._fill import ZeroFill
from miwae.model._latent import Autoencoder
from miwae.model._posteriors import StudentTPosterior
from miwae.training import TrainingSettings, fit

KEY = jax.random.key(0)
HEIGHT, WIDTH = 4, 3
N = HEIGHT * WIDTH
N_LATENT = 2


def with_encoder(kind):
    generative = dense_autoencoder(Normal(N), n_latent=N_LATENT, n_hidden=16, key=KEY).generative
    posterior = StudentTPosterior(N_LATENT)
    encoder = kind(N, posterior.n_parameters, n_embedding=8, n_hidden=16, key=KEY)
    return Autoencoder(generative, Amortizer(ZeroFill(), encoder, posterior, indicator=True))


MODELS = {
    "convolutional": lambda: convolutional_autoencoder(
        Normal(N), (HEIGHT, WIDTH), n_latent=N_LATENT, maps=(4,), n_hidden=16, key=KEY
    ),
    "recurrent": lambda: recurrent_autoencoder(
        Normal(N), HEIGHT, n_latent=N_LATENT, n_hidden=16, key=KEY
    ),
    "set": lambda: with_encoder(SetEncoder),
    "attention": lambda: with_encoder(AttentionEncoder),
}

# All cells share one factor: x = f + e / 2. Given m of them, the mean of another is
# m / (m + 1/4) times their mean, and its error 1/4 + (1/4) / (m + 1/4) at best.
RNG = np.random.default_rng(0)
X = (RNG.normal(size=(300, 1)) + 0.5 * RNG.normal(size=(300, N))).astype(np.float32)
OBSERVED = RNG.random(X.shape) < 0.6
OBSERVED[~OBSERVED.any(axis=1), 0] = True


@pytest.mark.parametrize("kind", MODELS)
def test_missing_cells_are_unreadable(kind):
    autoencoder = MODELS[kind]()
    of = lambda x: draw(autoencoder, jnp.asarray(x[:5]), jnp.asarray(OBSERVED[:5]), KEY, 3)  # noqa: E731
    draws = of(X)
    for stored in (np.nan, 0.0, 1e9):
        other = of(np.where(OBSERVED, X, np.float32(stored)))
        np.testing.assert_array_equal(other.z, draws.z)
        np.testing.assert_array_equal(other.log_w, draws.log_w)
    assert np.isfinite(draws.log_w).all()


@pytest.mark.slow
@pytest.mark.parametrize("kind", MODELS)
def test_each_learns_what_can_be_known(kind):
    settings = TrainingSettings(
        n_samples=5, max_steps=600, learning_rate=3e-3, evaluate_every=600, averaging=0.98
    )
    fitted = fit(MODELS[kind](), X, OBSERVED, settings=settings, key=KEY)
    limits = SamplingSettings(n_samples=120, tolerance=None)
    filled = impute_single(fitted.autoencoder, X, OBSERVED, key=KEY, settings=limits).x
    m = OBSERVED.sum(axis=1, keepdims=True)
    best = np.where(OBSERVED, X, 0.0).sum(axis=1, keepdims=True) / (m + 0.25)
    error = np.mean((filled - X)[~OBSERVED] ** 2)
    smallest = np.mean((np.broadcast_to(best, X.shape) - X)[~OBSERVED] ** 2)
    assert smallest < 0.3  # against 1.25 of the mean
    assert error < 1.25 * smallest
