"""What must not depend on the machine: bits on its cores, memory on the number of calls."""

import os
import subprocess
import sys

import pytest

# A small table of all sorts; the first argument is how many cores the process sees.
FIT = """
import hashlib, os, sys
os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: int(sys.argv[1])])
import numpy as np, pandas as pd
from miwae import MIWAEImputer
rng = np.random.default_rng(0)
x = rng.normal(size=(600, 2)) @ rng.normal(size=(2, 12)) + 0.5 * rng.normal(size=(600, 12))
frame = pd.DataFrame(x, columns=[f"c{i}" for i in range(12)])
for i in range(5):
    frame[f"c{i}"] = pd.cut(frame[f"c{i}"], 5, labels=list("abcde")).astype(object)
frame = frame.mask(rng.random(frame.shape) < 0.3)
done = MIWAEImputer(max_steps=40, n_models=1, random_state=0).fit_transform(frame)
print(hashlib.sha256(pd.util.hash_pandas_object(done).values.tobytes()).hexdigest())
"""

# Prints the resident memory, in MiB, after 50 calls and after 200.
CALLS = """
import numpy as np
from miwae import MIWAEImputer
rng = np.random.default_rng(0)
x = rng.normal(size=(3000, 2)) @ rng.normal(size=(2, 12)) + 0.5 * rng.normal(size=(3000, 12))
x[rng.random(x.shape) < 0.3] = np.nan
imputer = MIWAEImputer(max_steps=30, random_state=0).fit(x[:500])
for call in range(1, CALLS + 1):
    imputer.transform(x[: rng.integers(1, 3000)] * rng.uniform(0.9, 1.1))
    if call in (50, CALLS):
        pages = int(open("/proc/self/statm").read().split()[1])
        print(pages * 4096 / 2**20)
"""


def printed(script, *arguments):
    command = [sys.executable, "-c", script, *arguments]
    # Without the options by which tests compile faster: those of users have to be looked at.
    environment = {name: value for name, value in os.environ.items() if name != "XLA_FLAGS"}
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return run.stdout.split()


@pytest.mark.skipif(sys.platform != "linux" or os.cpu_count() == 1, reason="needs two cores")
def test_a_fit_has_the_same_bits_on_any_number_of_cores():
    counts = sorted({1, 2, min(4, len(os.sched_getaffinity(0)))})  # 4 where there are so many
    assert len({printed(FIT, str(n))[0] for n in counts}) == 1


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_memory_does_not_grow_with_calls():
    after_50, after_200 = map(float, printed(CALLS.replace("CALLS", "200")))
    assert after_200 < 1.05 * after_50
