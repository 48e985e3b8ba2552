"""Formulations of the convolutional decoder on this machine, and the same model in PyTorch.

    python benchmarks/convolution.py        writes benchmarks/results/convolution.json

One step computes the log-likelihood of images given latent samples, and its gradient in both the
weights and the latent samples, inside a compiled loop as in training. All formulations have the
same number of maps; they take turns, and the fastest of several rounds counts. A second part times
whole training steps, a third measures the memory of imputation, each in a process of its own.
"""

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import torch  # pyright: ignore[reportMissingImports]
from torch import nn  # pyright: ignore[reportMissingImports]

from miwae.inference._imputation import impute_single
from miwae.inference._sampling import SamplingSettings
from miwae.model import Bernoulli
from miwae.model._build import convolutional_autoencoder
from miwae.model.networks._convolutional import ConvolutionalDecoder, ImageShape
from miwae.training import TrainingSettings, initial_state
from miwae.training._steps import advance

RESULTS = Path(__file__).parent / "results" / "convolution.json"
SHAPE = ImageShape(28, 28)
N_LATENT, MAPS, N_HIDDEN = 20, (8, 16), 200
BATCH, N_SAMPLES = 32, 20
LAYOUT = ("NHWC", "HWIO", "NHWC")


def channels_to_pixels(a):
    """Four channels become 2 x 2 pixels."""
    n, height, width, channels = a.shape
    blocks = a.reshape(n, height, width, 2, 2, channels // 4)
    return blocks.transpose(0, 1, 3, 2, 4, 5).reshape(n, 2 * height, 2 * width, channels // 4)


def by_patches(h, weight):
    """A matrix product with the 3 x 3 pixels around each pixel side by side."""
    height, width = h.shape[1:3]
    padded = jnp.pad(h, ((0, 0), (1, 1), (1, 1), (0, 0)))
    around = [padded[:, i : i + height, j : j + width] for i in range(3) for j in range(3)]
    patches = jnp.concatenate(around, axis=-1)
    out = jnp.tensordot(patches, weight.reshape(patches.shape[-1], -1), axes=1)
    return channels_to_pixels(out)


def by_xla(h, weight):
    """XLA's own convolution at the small size, then channels to pixels."""
    out = jax.lax.conv_general_dilated(h, weight, (1, 1), "SAME", dimension_numbers=LAYOUT)
    return channels_to_pixels(out)


def transposed(h, weight):
    """A transposed convolution with stride 2 and 6 x 6 filters."""
    return jax.lax.conv_transpose(h, weight, (2, 2), "SAME", dimension_numbers=LAYOUT)


def resized(h, weight):
    """Each pixel four times, then a convolution with 5 x 5 filters at the large size."""
    h = jnp.repeat(jnp.repeat(h, 2, axis=1), 2, axis=2)
    return jax.lax.conv_general_dilated(h, weight, (1, 1), "SAME", dimension_numbers=LAYOUT)


def random(*shape):
    """Weights of a usual size."""
    return jnp.asarray(np.random.default_rng(0).normal(size=shape) * 0.05, jnp.float32)


def weights(size, copies):
    """Of a dense layer, another one, and a filter for each stage."""
    inwards = [1, *MAPS]
    filters = [random(size, size, inwards[i + 1], copies * inwards[i]) for i in (1, 0)]
    return [random(N_LATENT, N_HIDDEN), random(N_HIDDEN, 49 * MAPS[-1]), *filters]


def decoder_of(stage):
    """A decoder whose stages are given."""

    def decode(own, z):
        h = jax.nn.silu(z @ own[0])
        h = jax.nn.silu(h @ own[1]).reshape(-1, 7, 7, MAPS[-1])
        h = jax.nn.silu(stage(h, own[2]))
        return stage(h, own[3]).reshape(len(z), -1)

    return decode


def formulations():
    """Name: (decode, weights)."""
    ours = ConvolutionalDecoder(
        N_LATENT, SHAPE, maps=MAPS, n_hidden=N_HIDDEN, key=jax.random.key(0)
    )
    return {
        "matrix products of lines (ours)": (lambda own, z: own(z[None])[0], ours),
        "matrix products of patches": (decoder_of(by_patches), weights(3, 4)),
        "convolution": (decoder_of(by_xla), weights(3, 4)),
        "transposed convolution": (decoder_of(transposed), weights(6, 1)),
        "resize and convolve": (decoder_of(resized), weights(5, 1)),
    }


def looped(decode, x):
    """Some steps of gradient ascent as one program."""

    def loss(own, z):
        eta = decode(own, z)
        return jnp.sum(x * eta - jax.nn.softplus(eta))

    def body(_, carry):
        gradient = jax.grad(loss, argnums=(0, 1))(*carry)
        return jax.tree.map(lambda a, b: a + 1e-9 * b, carry, gradient)

    return jax.jit(lambda own, z, n: jax.lax.fori_loop(0, n, body, (own, z)))


class TorchDecoder(nn.Module):
    """The same maps with transposed convolutions, PyTorch's usual choice."""

    def __init__(self):
        super().__init__()
        self.dense = nn.Sequential(
            nn.Linear(N_LATENT, N_HIDDEN), nn.SiLU(), nn.Linear(N_HIDDEN, 49 * MAPS[-1]), nn.SiLU()
        )
        self.stages = nn.Sequential(
            nn.ConvTranspose2d(MAPS[1], MAPS[0], 6, stride=2, padding=2),
            nn.SiLU(),
            nn.ConvTranspose2d(MAPS[0], 1, 6, stride=2, padding=2),
        )

    def forward(self, z):
        """Codes to logits."""
        return self.stages(self.dense(z).reshape(-1, MAPS[1], 7, 7)).reshape(len(z), -1)


def torch_encoder():
    """The same maps with strided convolutions; then the mean and the scale of the posterior."""
    return nn.Sequential(
        nn.Conv2d(1, MAPS[0], 6, stride=2, padding=2),
        nn.SiLU(),
        nn.Conv2d(MAPS[0], MAPS[1], 6, stride=2, padding=2),
        nn.SiLU(),
        nn.Flatten(),
        nn.Linear(49 * MAPS[1], N_HIDDEN),
        nn.SiLU(),
        nn.Linear(N_HIDDEN, 2 * N_LATENT),
    )


class TorchTraining:
    """Steps of training the same model in PyTorch: encode, sample, decode, bound, Adam."""

    def __init__(self, x, observed, n_samples):
        self.x, self.observed = torch.from_numpy(x), torch.from_numpy(observed)
        self.encoder, self.decoder, self.n_samples = torch_encoder(), TorchDecoder(), n_samples
        weights = [*self.encoder.parameters(), *self.decoder.parameters()]
        self.optimizer = torch.optim.Adam(weights, lr=1e-3)

    def step(self):
        """One minibatch."""
        rows = torch.randint(len(self.x), (BATCH,))
        x, observed = self.x[rows], self.observed[rows]
        mean, raw = self.encoder((x * observed).reshape(-1, 1, 28, 28)).chunk(2, -1)
        q = torch.distributions.Normal(mean, nn.functional.softplus(raw))
        z = q.rsample((self.n_samples,))
        eta = self.decoder(z.reshape(-1, N_LATENT)).reshape(self.n_samples, BATCH, -1)
        log_p_x = ((x * eta - nn.functional.softplus(eta)) * observed).sum(-1)
        log_p_z = torch.distributions.Normal(0.0, 1.0).log_prob(z).sum(-1)
        bound = torch.logsumexp(log_p_x + log_p_z - q.log_prob(z).sum(-1), 0).mean()
        self.optimizer.zero_grad(set_to_none=True)
        (-bound).backward()
        self.optimizer.step()


def torch_step(model, x, z):
    """The log-likelihood and its gradient in weights and latent samples."""
    z = z.detach().requires_grad_()
    eta = model(z)
    loss = -torch.sum(x * eta - nn.functional.softplus(eta))
    model.zero_grad(set_to_none=True)
    loss.backward()


def finished(function, *arguments):
    """What a function returns, when it is there."""
    return jax.block_until_ready(function(*arguments))


def timed(function):
    """Seconds."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def decoders(rounds):
    """Milliseconds of a step of each formulation, interleaved."""
    n = BATCH * N_SAMPLES
    x = np.random.default_rng(1).random((n, 784)).astype(np.float32).round()
    z = np.random.default_rng(2).normal(size=(n, N_LATENT)).astype(np.float32)
    runs, compiled = {}, {}
    for name, (decode, own) in formulations().items():
        program = looped(decode, jnp.asarray(x))
        run = partial(finished, program, own, jnp.asarray(z), jnp.asarray(3))
        compiled[name] = timed(run)
        runs[name] = run
    model = TorchDecoder()
    torch_x, torch_z = torch.from_numpy(x), torch.from_numpy(z)
    runs["PyTorch, eager"] = lambda: [torch_step(model, torch_x, torch_z) for _ in range(3)]
    runs["PyTorch, eager"]()
    best = dict.fromkeys(runs, np.inf)
    for _ in range(rounds):
        for name, run in runs.items():
            best[name] = min(best[name], timed(run) / 3)
    return {
        name: {
            "ms_per_step": 1e3 * seconds,
            "images_x_samples_per_second": n / seconds,
            **({"first_run_seconds": compiled[name]} if name in compiled else {}),
        }
        for name, seconds in best.items()
    }


def training(rounds):
    """Milliseconds of a whole training step, ours and PyTorch's in turn."""
    rng = np.random.default_rng(0)
    x = (rng.random((1_000, 784)) < 0.15).astype(np.float32)
    observed = rng.random(x.shape) < 0.5
    autoencoder = convolutional_autoencoder(
        Bernoulli(784),
        SHAPE,
        n_latent=N_LATENT,
        maps=MAPS,
        n_hidden=N_HIDDEN,
        key=jax.random.key(0),
    )
    found = {}
    for n_samples in (1, N_SAMPLES):
        settings = TrainingSettings(
            n_samples=n_samples, batch_size=BATCH, estimator="standard", max_steps=10**6
        )
        state = initial_state(autoencoder, settings, jax.random.key(1), len(x))
        data = jnp.asarray(x), jnp.asarray(observed)
        ours = partial(finished, advance, state, *data, settings, jnp.asarray(np.int32(5)))
        peer = TorchTraining(x, observed, n_samples)
        first = timed(ours)
        timed(peer.step)
        best = [np.inf, np.inf]
        for _ in range(rounds):
            theirs = timed(lambda step=peer.step: [step() for _ in range(5)])
            best = np.minimum(best, [timed(ours) / 5, theirs / 5])
        found[f"K = {n_samples}"] = {
            "ms_per_step": 1e3 * best[0],
            "images_x_samples_per_second": BATCH * n_samples / best[0],
            "first_run_seconds": first,
            "torch_ms_per_step": 1e3 * best[1],
            "torch_over_ours": best[1] / best[0],
        }
    return found


def imputation(side, n_imputation_samples):
    """Seconds and peak memory of imputing 16 images, in this process."""
    rng = np.random.default_rng(0)
    x = (rng.random((16, side * side)) < 0.15).astype(np.float32)
    observed = rng.random(x.shape) < 0.5
    autoencoder = convolutional_autoencoder(
        Bernoulli(side * side),
        (side, side),
        n_latent=N_LATENT,
        maps=MAPS,
        n_hidden=N_HIDDEN,
        key=jax.random.key(0),
    )
    settings = SamplingSettings(n_samples=n_imputation_samples, tolerance=None)
    seconds = timed(
        lambda: impute_single(autoencoder, x, observed, key=jax.random.key(1), settings=settings)
    )
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return {"seconds": seconds, "peak_mib": peak}


def memory():
    """Of more latent samples, and of larger images."""
    found = {}
    for side, n_imputation_samples in ((28, 120), (28, 10_000), (112, 2_000)):
        command = [sys.executable, __file__, "--impute", str(side), str(n_imputation_samples)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        found[f"{side} x {side}, L = {n_imputation_samples}"] = json.loads(done.stdout)
    return found


def main():
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--impute", nargs=2, type=int, metavar=("SIDE", "SAMPLES"))
    arguments = parser.parse_args()
    if arguments.impute:
        print(json.dumps(imputation(*arguments.impute)))
        return
    torch.set_num_threads(os.cpu_count() or 1)
    result = {
        "machine": {"cores": os.cpu_count(), "python": platform.python_version()},
        "versions": {"jax": jax.__version__, "torch": torch.__version__},
        "sizes": {"maps": MAPS, "n_hidden": N_HIDDEN, "batch": BATCH, "n_samples": N_SAMPLES},
        "decoder": decoders(arguments.rounds),
        "training": training(arguments.rounds),
        "imputation": memory(),
    }
    for part in ("decoder", "training"):
        for name, values in result[part].items():
            print(f"{part:9} {name:36} {values['ms_per_step']:8.1f} ms")
    for name, values in result["imputation"].items():
        print(f"impute    {name:36} {values['seconds']:8.1f} s, {values['peak_mib']:.0f} MiB")
    RESULTS.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
