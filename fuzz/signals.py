"""Commands killed at random moments: no half-written output, no traceback, no leftovers."""

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from fuzz.campaign import Failure, run

# A training run that writes checkpoints, for users of the library.
CHECKPOINTED = """
import sys
from miwae.cli._signals import end_on_signals

end_on_signals()
import jax, numpy as np
from miwae.model import Normal
from miwae.model._build import dense_autoencoder
from miwae.training import TrainingSettings, fit

rng = np.random.default_rng(0)
x = rng.normal(size=(200, 1)) @ rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(200, 4))
key = jax.random.key(0)
model = dense_autoencoder(Normal(4), n_latent=2, n_hidden=16, n_layers=1, key=key)
settings = TrainingSettings(max_steps=600, evaluate_every=20, patience=None)
fit(model, x, settings=settings, key=key, checkpoint=sys.argv[1])
"""

LONGEST = 12.0  # seconds until a signal at most
AT_ONCE = 10.0  # seconds after it; the machine may be busy


def _table() -> bytes:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    values = np.stack([x, x**2, np.sin(2 * x)], axis=1) + 0.1 * rng.normal(size=(300, 3))
    cells = np.where(rng.random(values.shape) < 0.1, "", values.round(3).astype(str))
    return ("a,b,c\n" + "\n".join(",".join(row) for row in cells) + "\n").encode()


def _commands(folder: Path) -> dict[str, list[str]]:
    table, out = str(folder / "in.csv"), str(folder / "out")
    miwae = [sys.executable, "-m", "miwae"]
    return {
        "impute": [*miwae, "impute", table, "-o", f"{out}.csv"],
        "copies": [*miwae, "impute", table, "-m", "3", "-o", f"{out}.parquet"],
        "fit": [*miwae, "fit", table, "-o", f"{out}.miwae"],
        "checkpointed fit": [sys.executable, "-c", CHECKPOINTED, f"{out}.run"],
    }


@functools.cache
def _reference() -> bytes:
    """The completed table, by a run that nobody disturbs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_bytes(_table())
        subprocess.run(_commands(folder)["impute"], check=True, capture_output=True)
        return (folder / "out.csv").read_bytes()


def case(seed: int) -> str:
    """Kill a command, and look at what it leaves."""
    rng = np.random.default_rng(seed)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_bytes(_table())
        commands = _commands(folder)
        what = str(rng.choice(list(commands)))
        number = signal.Signals(int(rng.choice([signal.SIGINT, signal.SIGTERM, signal.SIGKILL])))
        pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(commands[what], **pipe)
        try:
            _, stderr = process.communicate(timeout=float(rng.uniform(0.3, LONGEST)))
            word = "ended before"
        except subprocess.TimeoutExpired:
            started = time.monotonic()
            process.send_signal(number)
            _, stderr = process.communicate(timeout=300)
            word = f"{what} by {number.name}"
            if time.monotonic() - started > AT_ONCE:
                raise Failure(f"{what} took {time.monotonic() - started:.0f} s to end") from None
        _require_clean(folder, process.returncode, stderr.decode(), number)
        return word


def _require_clean(folder: Path, code: int, stderr: str, number: signal.Signals) -> None:
    allowed = {0, 128 + number, -number}
    if code not in allowed:
        raise Failure(f"exit code {code} after {number.name}: {stderr[-200:]}")
    if "Traceback" in stderr and "KeyboardInterrupt" not in stderr.splitlines()[-1]:
        raise Failure(f"a traceback: {stderr[-200:]}")
    left = [name for name in os.listdir(folder) if re.match(r"\.miwae-.*\.tmp", name)]
    if left and number != signal.SIGKILL:
        raise Failure(f"{len(left)} temporary files are left after {number.name}")
    if (folder / "out.csv").exists() and (folder / "out.csv").read_bytes() != _reference():
        raise Failure("the completed table is another one")
    if (folder / "out.miwae").exists():
        from miwae.tabular import FittedTable

        FittedTable.load(folder / "out.miwae")
    if (folder / "out.run").exists():
        from miwae.training import load_header

        load_header(folder / "out.run")


if __name__ == "__main__":
    run("signals", case, 300, __doc__ or "", _reference)
