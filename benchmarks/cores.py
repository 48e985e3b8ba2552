"""What each mechanism that uses a second core, or saves compilation, is worth.

    python benchmarks/cores.py              everything, written to benchmarks/results/cores.json
    python benchmarks/cores.py steps        one part: steps, devices or tables

Each mechanism has a ratio: the time without it divided by the time with it; above 1, it helps.
Contestants take turns, and ratios are of the medians over the rounds: other users of the machine
slow all of them down alike.

- steps: a training step with `shards=1` and with `shards=2`, in one process.
- devices: a training step on one device and on two (`devices=2`; the cores of the CPU count as
  devices), in processes of their own.
- tables: fit and transform in new processes, compilation included. Each run replaces one
  mechanism, before anything else is imported, by the plain way to do the same:
  `side_by_side` (two models at a time) by one model after the other, `meanwhile` (compile beside
  other work) by compiling first, `one_thread_each` (linear algebra of NumPy on one thread) by
  nothing, `hasty` (less optimised programs for short runs) by the usual effort.

None of these was deleted, because each has a user: `shards` is the default of `TrainingSettings`
and what `devices` distributes, `devices` is for several GPUs, tables use the other four. What was
deleted is the argument `compilations` of `training.fit`, which took the warm-up of imputation
through four signatures: whoever fits a table now runs it with `meanwhile`. A mechanism whose ratio
stays at 1 on a quiet machine should be deleted next.
"""

import contextlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

RESULTS = Path(__file__).parent / "results" / "cores.json"

# name: (rows, columns). Small tables are those for which compilation matters most.
TABLES = {"150 x 4": (150, 4)}
TABLE_ROUNDS = 5

STEP_ROUNDS, N_STEPS = 15, 100


def table(n_rows, n_columns):
    """Nonlinear columns of two factors, 30 % of the cells missing."""
    rng = np.random.default_rng(0)
    x = np.tanh(rng.normal(size=(n_rows, 2)) @ rng.normal(size=(2, n_columns)))
    x += 0.3 * rng.normal(size=x.shape)
    x[rng.random(x.shape) < 0.3] = np.nan
    return x


# ---------------------------------------------------------------- one training step


def training(n_columns, **settings):
    """A function that takes steps of a training run."""
    import jax
    import jax.numpy as jnp

    from miwae.model._build import dense_autoencoder
    from miwae.model.observations import StudentT
    from miwae.training import TrainingSettings, initial_state
    from miwae.training._steps import advance

    x = table(4_000, n_columns)
    x[:, 0] = np.nan_to_num(x[:, 0])  # every row has an observed cell
    chosen = TrainingSettings(max_steps=10**6, **settings)
    autoencoder = dense_autoencoder(StudentT(n_columns), key=jax.random.key(0))
    state = initial_state(autoencoder, chosen, jax.random.key(1), len(x))
    data = (jnp.asarray(np.nan_to_num(x), dtype=jnp.float32), jnp.asarray(~np.isnan(x)))

    def run(n_steps):
        jax.block_until_ready(advance(state, *data, chosen, jnp.asarray(n_steps)).bound)

    return run


def milliseconds(contestants):
    """The median time of a step of each, measured in turn."""
    times = {name: [] for name in contestants}
    for run in contestants.values():
        run(N_STEPS)  # compilation
    for _ in range(STEP_ROUNDS):
        for name, run in contestants.items():
            start = time.perf_counter()
            run(N_STEPS)
            times[name].append((time.perf_counter() - start) / N_STEPS * 1e3)
    return {name: float(np.median(values)) for name, values in times.items()}


def steps():
    """A step in one and in two shards, in one process."""
    out = {}
    for n_columns in (11, 30):
        names = {f"shards={n}": training(n_columns, shards=n) for n in (1, 2)}
        found = milliseconds(names)
        ratio = found["shards=1"] / found["shards=2"]
        out[f"{n_columns} columns"] = {"ms_per_step": found, "shards": round(ratio, 2)}
    return out


def child_devices(_):
    """A step in two shards on one and on two devices."""
    return milliseconds({f"devices={n}": training(30, shards=2, devices=n) for n in (1, 2)})


def devices():
    """The same, in a process in which the cores of the CPU count as devices."""
    found = in_new_process("devices", XLA_FLAGS="--xla_force_host_platform_device_count=2")
    ratio = found["devices=1"] / found["devices=2"]
    return {"30 columns": {"ms_per_step": found, "devices": round(ratio, 2)}}


# ---------------------------------------------------------------- a table in a new process


def without_side_by_side():
    from miwae import _threads as threads

    threads.side_by_side = lambda tasks: [task(lambda: None) for task in tasks]


def without_meanwhile():
    from miwae import _threads as threads

    @contextlib.contextmanager
    def first(*tasks):
        for task in tasks:
            task()
        yield

    threads.meanwhile = first


def without_one_thread_each():
    from miwae import _threads as threads

    threads.one_thread_each = contextlib.nullcontext


def without_hasty():
    from miwae import _compilation as compilation

    program_of = compilation.program_of
    compilation.program_of = lambda function, *, hasty=False: program_of(function)


WITHOUT = {
    "side_by_side": without_side_by_side,
    "meanwhile": without_meanwhile,
    "one_thread_each": without_one_thread_each,
    "hasty": without_hasty,
}


def child_table(argument):
    """Seconds to fit and transform a table, without one mechanism."""
    mechanism, name = argument.split(":")
    if mechanism in WITHOUT:
        WITHOUT[mechanism]()  # before anybody imports what it replaces
    from miwae import MIWAEImputer

    x = table(*TABLES[name])
    start = time.perf_counter()
    MIWAEImputer(random_state=0).fit(x).transform(x)
    return time.perf_counter() - start


def tables():
    """Fit and transform, with everything and without one mechanism at a time."""
    out = {}
    for name in TABLES:
        times = {mechanism: [] for mechanism in ("nothing", *WITHOUT)}
        for _ in range(TABLE_ROUNDS):
            for mechanism, values in times.items():
                values.append(in_new_process("table", f"{mechanism}:{name}"))
        seconds = {mechanism: float(np.median(values)) for mechanism, values in times.items()}
        out[name] = {
            "seconds without": {key: round(value, 2) for key, value in seconds.items()},
            **{key: round(seconds[key] / seconds["nothing"], 2) for key in WITHOUT},
        }
    return out


CHILDREN = {"devices": child_devices, "table": child_table}
PARTS = {"steps": steps, "devices": devices, "tables": tables}


def in_new_process(child, argument="", **environment):
    command = [sys.executable, __file__, "--child", child, argument]
    done = subprocess.run(
        command, capture_output=True, text=True, check=False, env={**os.environ, **environment}
    )
    if done.returncode:
        raise SystemExit(f"{child} {argument} failed:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def main():
    """Run the parts asked for and write their results."""
    if sys.argv[1:2] == ["--child"]:
        sys.stdout.write(json.dumps(CHILDREN[sys.argv[2]](sys.argv[3])) + "\n")
        return
    wanted = sys.argv[1:] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        raise SystemExit(f"{unknown[0]} is not a part: {', '.join(PARTS)}")
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for part in wanted:
        results[part] = PARTS[part]()
        results["machine"] = {"cores": os.cpu_count(), "python": platform.python_version()}
        RESULTS.write_text(json.dumps(results, indent=2) + "\n")
        sys.stdout.write(json.dumps({part: results[part]}, indent=2) + "\n")


if __name__ == "__main__":
    main()
