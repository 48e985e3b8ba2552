"""Several devices take the same steps as one. JAX has to be told of them before it starts."""

import os
import subprocess
import sys

import jax
import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.model._build import dense_autoencoder
from miwae.model.observations import Normal
from miwae.training import TrainingSettings, fit

PROGRAM = """
import jax, numpy as np
from miwae.model._build import convolutional_autoencoder
from miwae.model.observations import Bernoulli
from miwae.training import TrainingSettings, fit

rng = np.random.default_rng(0)
x = (rng.random((200, 16)) < rng.random((200, 1))).astype(np.float32)
observed = rng.random(x.shape) < 0.7
observed[:, 0] = True
model = convolutional_autoencoder(
    Bernoulli(16), (4, 4), n_latent=2, maps=(3,), n_hidden=8, key=jax.random.key(0)
)
def run(devices, max_steps=20, **how):
    settings = TrainingSettings(
        n_samples=4, shards=4, devices=devices, max_steps=max_steps,
        evaluate_every=10, held_out=0.1,
    )
    return fit(model, x, observed, settings=settings, key=jax.random.key(1), **how)

run(1, 10, checkpoint="half.safetensors")
results = []
for fitted in (run(1), run(4), run(4, checkpoint="half.safetensors")):
    leaves = [np.asarray(a) for a in jax.tree.leaves(fitted.autoencoder) if hasattr(a, "shape")]
    results.append((leaves, [r.bound for r in fitted.history[1:]]))
moved = max(np.abs(a - b).max() for a, b in zip(results[0][0], jax.tree.leaves(model)))
assert moved > 1e-3, "nothing was learned"
for leaves, bounds in results[1:]:
    for a, b in zip(leaves, results[0][0], strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)
    np.testing.assert_allclose(bounds, results[0][1], rtol=1e-5)
print("alike on", len(jax.devices()), "devices")
"""


@pytest.mark.slow
def test_the_same_result_on_one_and_four_devices_and_after_a_change_between_them(tmp_path):
    flags = os.environ["XLA_FLAGS"] + " --xla_force_host_platform_device_count=4"
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        cwd=tmp_path,
        env={**os.environ, "XLA_FLAGS": flags},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "alike on 4 devices"


def test_shards_are_spread_evenly():
    with pytest.raises(SettingsError, match=r"shards \(2\) must be a multiple of devices \(3\)"):
        TrainingSettings(devices=3)


def test_what_is_not_there_is_named():
    x = np.zeros((40, 3), dtype=np.float32)
    model = dense_autoencoder(Normal(3), n_latent=1, n_hidden=2, n_layers=1, key=jax.random.key(0))
    run = lambda **how: fit(  # noqa: E731
        model, x, settings=TrainingSettings(n_samples=2, **how), key=jax.random.key(1)
    )
    with pytest.raises(SettingsError, match="devices is 2, but JAX sees 1 .*device_count=2"):
        run(devices=2, batch_size=32)
    with pytest.raises(SettingsError, match="a batch of 40 rows cannot be cut into 16 parts"):
        run(devices=2, shards=16)
