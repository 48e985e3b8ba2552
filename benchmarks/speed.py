"""How fast a training step is, and what imputation costs; ratios measured in one run, interleaved.

    python benchmarks/speed.py            everything, written to benchmarks/results/speed.json
    python benchmarks/speed.py training   one part: training, compilation or imputation

A machine that others use too slows everything down alike, so times are compared only with times of
the same run: each round measures all contestants, and ratios are of the medians over the rounds.
Before each there is a pause: the threads of NumPy and PyTorch go on turning for a while when their
work is done, and would slow down whoever comes next.
"""

import dataclasses
import functools
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from memory import peak_memory

from miwae import MIWAEImputer
from miwae._compilation import enable_compilation_cache, program_of
from miwae.inference._imputation import impute_single
from miwae.inference._sampling import SamplingSettings
from miwae.model import StudentT
from miwae.model._build import dense_autoencoder, linear_autoencoder, linear_core
from miwae.training import TrainingSettings, fit, initial_state
from miwae.training._steps import advance

RESULTS = Path(__file__).parent / "results" / "speed.json"
N_SAMPLES, BATCH, N_HIDDEN, N_LAYERS, N_LATENT = 20, 64, 128, 3, 10
ROUNDS = 15
PAUSE = 0.3  # seconds


def table(n_rows, n_features, seed=0):
    """Correlated columns, half of the cells missing."""
    rng = np.random.default_rng(seed)
    factors = rng.normal(size=(n_rows, 4)) @ rng.normal(size=(4, n_features))
    x = np.tanh(factors) + 0.3 * rng.normal(size=(n_rows, n_features))
    observed = rng.random(x.shape) < 0.5
    observed[~observed.any(axis=1), 0] = True
    return ((x - x.mean(0)) / x.std(0)).astype(np.float32), observed


class Ours:
    """Steps of the compiled training program."""

    def __init__(self, x, observed, estimator):
        self.settings = TrainingSettings(
            n_samples=N_SAMPLES, batch_size=BATCH, estimator=estimator, max_steps=10**6
        )
        autoencoder = dense_autoencoder(StudentT(x.shape[1]), key=jax.random.key(0))
        self.state = initial_state(autoencoder, self.settings, jax.random.key(1), len(x))
        self.data = (jnp.asarray(x), jnp.asarray(observed), jnp.ones(len(x)))

    def run(self, n_steps):
        numbers = (jnp.asarray(len(self.data[0])), jnp.asarray(n_steps))
        new = advance(self.state, *self.data, *numbers, self.settings)
        self.state = jax.block_until_ready(new.state)


class Default(Ours):
    """Steps of the model that the imputer fits, with its settings: linear core, five samples."""

    def __init__(self, x, observed):
        given = np.where(observed, x, np.nan)
        fitted = MIWAEImputer(random_state=0, max_steps=1, n_models=1).fit(given)._fitted.table
        assert fitted.training is not None
        self.settings = dataclasses.replace(fitted.training, max_steps=10**6)
        model = fitted.models[0].autoencoder
        self.state = initial_state(model, self.settings, jax.random.key(1), len(x))
        # The imputer pads columns to a size that many tables share.
        wide = ((0, 0), (0, model.generative.observation.n_features - x.shape[1]))
        padded = (jnp.asarray(np.pad(a, wide)) for a in (x, observed))
        self.data = (*padded, jnp.ones(len(x)))


class Products:
    """The matrix products of a step alone, by NumPy."""

    def __init__(self, n_features, n_inputs=None, n_samples=N_SAMPLES):
        rng = np.random.default_rng(0)
        random = functools.partial(rng.standard_normal, dtype=np.float32)
        hidden = [N_HIDDEN] * N_LAYERS
        encoder = [n_inputs or n_features, *hidden, 3 * N_LATENT]
        decoder = [N_LATENT, *hidden, 3 * n_features]
        self.pairs = []
        for rows, widths in ((BATCH, encoder), (n_samples * BATCH, decoder)):
            for i, (a, b) in enumerate(zip(widths[:-1], widths[1:], strict=True)):
                inputs, weight, cotangent = random((rows, a)), random((a, b)), random((rows, b))
                self.pairs += [(inputs, weight), (inputs.T, cotangent)]
                if rows != BATCH or i > 0:  # the data need no gradient
                    self.pairs.append((cotangent, weight.T))

    def run(self, n_steps):
        for _ in range(n_steps):
            for a, b in self.pairs:
                np.matmul(a, b)


def peers(x, observed):
    """The same model in PyTorch, if it is installed."""
    try:
        from torch_peer import TorchPeer
    except ImportError:
        return {}
    return {
        f"torch_{kind}": TorchPeer(x, observed, kind=kind)
        for kind in ("plain", "eager", "compiled")
    }


def measure_training(n_features):
    """Milliseconds per step of each contestant, and the ratios that matter."""
    x, observed = table(4_000, n_features)
    contestants = {
        "numpy_products": Products(n_features),
        "miwae": Ours(x, observed, "standard"),
        "miwae_dreg": Ours(x, observed, "dreg"),
        # Its encoder sees the values, which of them were observed, and the factors.
        "numpy_products_of_default": Products(n_features, 2 * n_features + N_LATENT, 5),
        "miwae_default": Default(x, observed),
        **peers(x, observed),
    }
    n_steps = {name: 100 if "torch" not in name else 30 for name in contestants}
    for name, contestant in contestants.items():
        contestant.run(n_steps[name])  # compilation and warm-up
    times = {name: [] for name in contestants}
    for _ in range(ROUNDS):
        for name, contestant in contestants.items():
            time.sleep(PAUSE)
            start = time.perf_counter()
            contestant.run(n_steps[name])
            times[name].append((time.perf_counter() - start) / n_steps[name] * 1e3)
    median = {name: float(np.median(values)) for name, values in times.items()}
    ratios = {"miwae / numpy_products": median["miwae"] / median["numpy_products"]}
    ratios["miwae_dreg / numpy_products"] = median["miwae_dreg"] / median["numpy_products"]
    own = median["miwae_default"] / median["numpy_products_of_default"]
    ratios["miwae_default / its numpy_products"] = own
    for name in median:
        if "torch" in name:
            ratios[f"{name} / miwae"] = median[name] / median["miwae"]
    spread = {name: [float(np.min(v)), float(np.max(v))] for name, v in times.items()}
    return {"ms_per_step": median, "range": spread, "ratios": ratios}


def measure_compilation():
    """Seconds to compile the training program, and to start a second process from the cache."""
    x, observed = table(2_000, 30)
    settings = TrainingSettings(max_steps=100)
    observation = StudentT(30)
    models = {
        "dense": dense_autoencoder(observation, key=jax.random.key(0)),
        "linear core": linear_autoencoder(
            observation, linear_core(observation, x, observed), key=jax.random.key(0)
        ),
    }
    seconds = {}
    for name, autoencoder in models.items():
        state = initial_state(autoencoder, settings, jax.random.key(1), len(x))
        data = (jnp.asarray(x), jnp.asarray(observed), jnp.ones(len(x)))
        numbers = (jnp.asarray(len(x)), jnp.asarray(1))
        repeats = []
        for _ in range(3):
            jax.clear_caches()
            start = time.perf_counter()
            lowered = program_of(advance).lower(state, *data, *numbers, settings)
            traced = time.perf_counter()
            lowered.compile()
            repeats.append((traced - start, time.perf_counter() - traced))
        trace, compile_ = np.median(repeats, axis=0)
        seconds[name] = {"trace": trace, "compile": compile_, "both": trace + compile_}
    with tempfile.TemporaryDirectory() as cache:
        runs = []
        for _ in range(2):
            command = [sys.executable, __file__, "first-steps", cache]
            out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
            runs.append(float(out.split()[-1]))
    return {
        "seconds": seconds,
        "first training chunk in a new process, s": {"no cache": runs[0], "cache": runs[1]},
    }


def first_steps(cache):
    """Seconds from a ready model to the end of its first training steps."""
    enable_compilation_cache(cache)
    x, observed = table(2_000, 30)
    observation = StudentT(30)
    core = linear_core(observation, x, observed)
    autoencoder = linear_autoencoder(observation, core, key=jax.random.key(0))
    start = time.perf_counter()
    fit(
        autoencoder,
        x,
        observed,
        settings=TrainingSettings(max_steps=10, evaluate_every=10),
        key=jax.random.key(0),
    )
    return time.perf_counter() - start


def trained(x, observed, **changes):
    observation = StudentT(x.shape[1])
    core = linear_core(observation, x, observed)
    autoencoder = linear_autoencoder(observation, core, key=jax.random.key(0))
    settings = TrainingSettings(max_steps=1_000, evaluate_every=1_000)
    settings = dataclasses.replace(settings, **changes)
    return fit(autoencoder, x, observed, settings=settings, key=jax.random.key(0)).autoencoder


def measure_memory():
    """In a process of its own: what 1,000 rows at L = 10,000 add to the memory used before."""
    x, observed = table(1_000, 30)
    autoencoder = trained(x, observed)
    before = peak_memory(reset=True)
    settings = SamplingSettings(n_samples=10_000, tolerance=None)
    start = time.perf_counter()
    impute_single(autoencoder, x, observed, key=jax.random.key(0), settings=settings)
    first = time.perf_counter() - start
    start = time.perf_counter()
    impute_single(autoencoder, x, observed, key=jax.random.key(1), settings=settings)
    warm = time.perf_counter() - start
    return {
        "rows": 1_000,
        "L": 10_000,
        "MiB above baseline": (peak_memory() - before) / 1024,
        "seconds, compilation included": first,
        "seconds, warm": warm,
        "samples per second": 1_000 * 10_000 / warm,
    }


# Of 200 rows: until held-out cells get worse, as the imputer does, and far beyond that.
TRAININGS = {"stopped in time": {"held_out": 0.1, "evaluate_every": 25}, "trained too long": {}}


def measure_adaptive(training):
    """How many samples a fixed L needs to reach the error of the adaptive scheme."""
    x, observed = table(200, 30)
    autoencoder = trained(x, observed, **training)
    missing = ~observed
    run = functools.partial(impute_single, autoencoder, x, observed)
    reference = run(
        key=jax.random.key(9), settings=SamplingSettings(n_samples=40_000, tolerance=None)
    ).x

    def error(result):
        return float(np.sqrt(np.mean((result.x - reference)[missing] ** 2)))

    adaptive = {}
    for tolerance in (0.1, 0.05, 0.02):
        start = time.perf_counter()
        settings = SamplingSettings(n_samples=10_000, tolerance=tolerance)
        result = run(key=jax.random.key(1), settings=settings)
        adaptive[tolerance] = {
            "rms error": error(result),
            "samples per row": float(result.report.n_samples.mean()),
            "median samples": float(np.median(result.report.n_samples)),
            "seconds": time.perf_counter() - start,
        }
    fixed = {}
    for n_samples in (120, 240, 480, 960, 1_920, 3_840, 7_680, 10_000):
        settings = SamplingSettings(n_samples=n_samples, tolerance=None)
        fixed[n_samples] = error(run(key=jax.random.key(2), settings=settings))
    # The error of some rows comes down late and by jumps: the curve of the best so far.
    logs = np.log(np.minimum.accumulate(list(fixed.values())))[::-1], np.log(list(fixed))[::-1]
    for entry in adaptive.values():
        needed = float(np.exp(np.interp(np.log(entry["rms error"]), *logs)))
        entry["fixed L of the same error"] = needed
        entry["saving"] = needed / entry["samples per row"]
    return {"adaptive, by tolerance": adaptive, "rms error by fixed L": fixed}


def in_new_process(part):
    """Run one measurement where nothing else has used memory yet."""
    command = [sys.executable, __file__, part]
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    return json.loads(out.splitlines()[-1])


PARTS = {
    "training": lambda: {f"p = {p}": measure_training(p) for p in (11, 30)},
    "compilation": measure_compilation,
    "imputation": lambda: {
        "memory": in_new_process("memory"),
        **{name: measure_adaptive(training) for name, training in TRAININGS.items()},
    },
}


def main():
    chosen = sys.argv[1:] or list(PARTS)
    if chosen[0] == "first-steps":
        print(first_steps(chosen[1]))
        return
    if chosen[0] == "memory":
        print(json.dumps(measure_memory()))
        return
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    results["machine"] = {
        "cores": os.cpu_count(),
        "python": platform.python_version(),
        "jax": jax.__version__,
        "equinox": eqx.__version__,
        "numpy": np.__version__,
    }
    results["setting"] = {
        "K": N_SAMPLES,
        "batch": BATCH,
        "hidden": [N_HIDDEN] * N_LAYERS,
        "d": N_LATENT,
    }
    for part in chosen:
        results[part] = PARTS[part]()
        print(part, json.dumps(results[part], indent=2), flush=True)
        RESULTS.parent.mkdir(exist_ok=True)
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
