"""What the two large programs of a table cost to compile, and to run, by compiler options.

    python benchmarks/compilation.py        written to benchmarks/results/compilation.json

Processor seconds of one process: other users of the machine disturb them less than the clock. Each
program is compiled with each set of options in turn, `ROUNDS` times, and the median counts; a
program then runs several times, and the least counts. `level 1` is LLVM's optimisation level,
`no emitters` turns off XLA's fusion emitters. Tracing is what happens in Python before.
"""

import json
import statistics
import time
from pathlib import Path

import equinox as eqx
import jax
import numpy as np

from miwae._compilation import EMITTERS, LEVEL, OWN_SUMS
from miwae.columns import infer_schema
from miwae.frames import columns
from miwae.inference import conditional_mean
from miwae.inference._lanes import draw_lanes, lane_counts
from miwae.inference._sampling import _lanes, _nothing, _nothing_found
from miwae.tabular import EncodedTable, TableSettings
from miwae.tabular._fitting import _empty_autoencoder
from miwae.tabular._observation import TableModel
from miwae.tabular._settings import training_settings
from miwae.training import initial_state
from miwae.training._steps import advance

RESULTS = Path(__file__).parent / "results" / "compilation.json"
TABLES = {"150 x 4": (150, 4), "3,000 x 20": (3_000, 20)}
STEPS, ROUNDS, RUNS = 200, 3, 5
OPTIONS = {
    "level 1": ((LEVEL, 1), OWN_SUMS),
    "level 1, no emitters": ((LEVEL, 1), OWN_SUMS, (EMITTERS, False)),
    "level 0, no emitters": ((LEVEL, 0), OWN_SUMS, (EMITTERS, False)),
}


def programs(n_rows, n_columns):
    """Both programs with arguments: steps of training, and one call of sampling."""
    rng = np.random.default_rng(0)
    x = np.tanh(rng.normal(size=(n_rows, 4)) @ rng.normal(size=(4, n_columns)))
    x += 0.3 * rng.normal(size=x.shape)
    x[rng.random(x.shape) < 0.3] = np.nan
    own, settings = columns(x), TableSettings()
    table = EncodedTable.of(infer_schema(own), own)
    model = TableModel.of(table.schema)
    values, observed = model.padded(table.x, table.observed)
    autoencoder = _empty_autoencoder(model.observation, settings)
    training = training_settings(settings, observed)
    state = initial_state(autoencoder, training, jax.random.key(0), n_rows)
    weights = np.ones(n_rows, np.float32)
    steps = (state, values, observed, weights, np.int32(n_rows), np.int32(STEPS), training)
    estimand = conditional_mean(autoencoder.generative.observation)
    _, size = lane_counts(autoencoder, estimand.n_values)
    nothing = _nothing_found(autoencoder.generative.prior.n_latent, size)
    lanes = _lanes(_nothing(autoencoder, size), nothing, np.zeros(size, np.int32), 0)
    sampling = (autoencoder, estimand, lanes, np.int32(size))
    return {
        f"training, {STEPS} steps": (advance.__wrapped__, steps),
        f"sampling, {size} rows": (draw_lanes.__wrapped__, sampling),
    }


def measured(function, arguments, options):
    jax.clear_caches()
    arguments = jax.tree.map(lambda a: jax.device_put(a) if eqx.is_array(a) else a, arguments)
    program = eqx.filter_jit(function, **{"compiler_options": dict(options)})  # pyright: ignore
    started = time.process_time()
    traced = program.lower(*arguments)
    lowered = time.process_time()
    compiled = traced.compile()
    ready = time.process_time()
    times = []
    for _ in range(RUNS):
        before = time.process_time()
        jax.block_until_ready(eqx.filter(compiled(*arguments), eqx.is_array))
        times.append(time.process_time() - before)
    return {"tracing": lowered - started, "compiling": ready - lowered, "a run": min(times)}


def main():
    results = {}
    for table, shape in TABLES.items():
        for name, (function, arguments) in programs(*shape).items():
            rounds = {options: [] for options in OPTIONS}
            for _ in range(ROUNDS):
                for options, chosen in OPTIONS.items():
                    rounds[options].append(measured(function, arguments, chosen))
            middle = {
                options: {
                    what: round(statistics.median(one[what] for one in all_of), 3)
                    for what in all_of[0]
                }
                for options, all_of in rounds.items()
            }
            results.setdefault(table, {})[name] = middle
            print(table, name, json.dumps(middle), flush=True)
    RESULTS.write_text(json.dumps({"processor seconds": results}, indent=2) + "\n")


if __name__ == "__main__":
    main()
