"""Commands killed at random moments: no half-written output, no traceback, no leftovers."""

import functools
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import equinox as eqx
import jax
import numpy as np
import pyarrow.parquet

from fuzz.campaign import Failure, run
from miwae._atomic import write_atomically
from miwae.cli._signals import end_on_signals
from miwae.model import Autoencoder, Normal
from miwae.model._build import dense_autoencoder
from miwae.tabular import FittedTable
from miwae.training import TrainingSettings, fit

Rng = np.random.Generator

# Seconds from a signal to the end: of the processor, since the machine may be busy, and at all.
AT_ONCE, HUNG = 2.0, 120.0
TICKS = os.sysconf("SC_CLK_TCK")

# How a command can end: by itself, as `end_on_signals` says, or, while Python itself starts, by
# the signal.
CODES = {number: {0, 128 + number, -number} for number in (signal.SIGINT, signal.SIGTERM)}
CODES[signal.SIGKILL] = {0, -signal.SIGKILL}


def train(checkpoint: str) -> Autoencoder:
    """A training run that writes checkpoints, as users of the library have it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 1)) @ rng.normal(size=(1, 4)) + 0.1 * rng.normal(size=(200, 4))
    key = jax.random.key(0)
    model = dense_autoencoder(Normal(4), n_latent=2, n_hidden=16, n_layers=1, key=key)
    settings = TrainingSettings(max_steps=600, evaluate_every=20, patience=None)
    return fit(model, x, settings=settings, key=key, checkpoint=checkpoint).autoencoder


def _table() -> bytes:
    rng = np.random.default_rng(0)
    x = rng.normal(size=40)
    values = np.stack([x, x**2, np.sin(2 * x)], axis=1) + 0.1 * rng.normal(size=(40, 3))
    cells = np.where(rng.random(values.shape) < 0.1, "", values.round(3).astype(str))
    return ("a,b,c\n" + "\n".join(",".join(row) for row in cells) + "\n").encode()


def _commands(folder: Path) -> dict[str, list[str]]:
    table, out = str(folder / "in.csv"), str(folder / "out")
    miwae = [sys.executable, "-m", "miwae"]
    return {
        "impute": [*miwae, "impute", table, "-o", f"{out}.csv", "--n-models", "1"],
        "copies": [*miwae, "impute", table, "-m", "3", "-o", f"{out}.parquet"],
        "fit": [*miwae, "fit", table, "-o", f"{out}.miwae", "--n-models", "1"],
        "report": [*miwae, "report", table, "-o", f"{out}.html"],
        "checkpointed fit": [sys.executable, "-m", "fuzz.signals", "train", f"{out}.run"],
    }


@functools.cache
def _environment() -> dict[str, str]:
    """With a cache of compiled programs of its own, which the kills reach as well."""
    return {**os.environ, "XDG_CACHE_HOME": tempfile.mkdtemp(), "PYTHONFAULTHANDLER": "1"}


def _start(command: list[str]) -> subprocess.Popen[bytes]:
    pipe = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, **pipe, env=_environment())


@functools.cache
def _reference(what: str) -> tuple[float, bytes]:
    """How long a command takes that nobody disturbs, and what it writes."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_bytes(_table())
        for _ in range(2):  # once with programs that are compiled
            for old in folder.glob("out*"):
                old.unlink()
            started = time.monotonic()
            if _start(_commands(folder)[what]).wait(300) != 0:
                raise Failure(f"{what} fails")
            seconds = time.monotonic() - started
        (out,) = folder.glob("out*")
        return seconds, out.read_bytes()


@functools.cache
def _trained() -> Autoencoder:
    with tempfile.TemporaryDirectory() as name:
        return train(f"{name}/out.run")


def hear_interrupts() -> None:
    """Have commands hear Ctrl-C, which shells have all ignore that runs in the background.

    Commands inherit that a signal is ignored, but not that it has a handler.
    """
    signal.signal(signal.SIGINT, signal.default_int_handler)


def prepare(jobs: int) -> None:
    """Run everything to its end, as many commands at a time as later."""
    hear_interrupts()
    _environment()
    with ThreadPoolExecutor(jobs) as pool:
        list(pool.map(_reference, _commands(Path())))
    _trained()


def plan(seed: int) -> tuple[str, signal.Signals, Rng]:
    """Which command is killed by which signal, and the random numbers for the rest."""
    rng = np.random.default_rng(seed)
    what = str(rng.choice(list(_commands(Path()))))
    return what, signal.Signals(int(rng.choice(list(CODES)))), rng


def case(seed: int) -> str:
    """Kill a command at a random moment."""
    what, number, rng = plan(seed)
    return killed(what, number, lambda process, folder: _wait(process, what, folder, rng))


def killed(
    what: str, number: signal.Signals, wait: Callable[[subprocess.Popen[bytes], Path], bool]
) -> str:
    """Kill a command after a wait, which says whether it had ended, and look at what it leaves."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "in.csv").write_bytes(_table())
        process = _start(_commands(folder)[what])
        has_ended = wait(process, folder)
        word = "ended before" if has_ended else f"{what} by {number.name}"
        if not has_ended:
            process.send_signal(number)
            _require_end(process, what)
        _, stderr = process.communicate()
        if process.returncode not in CODES[number]:
            code = process.returncode
            raise Failure(f"{what}: exit code {code} after {number.name}: {stderr[-200:]!r}")
        last = stderr.splitlines()[-1:]
        if b"Traceback" in stderr and last != [b"KeyboardInterrupt"]:
            raise Failure(f"{what}: a traceback after {number.name}: {stderr[-200:]!r}")
        _require_clean(folder, what, number)
        return word


def _wait(process: subprocess.Popen[bytes], what: str, folder: Path, rng: Rng) -> bool:
    """Until a random moment, often one in which a file is written; True if the command has ended.

    Its output is short, and fits into the pipes.
    """
    until = time.monotonic() + float(rng.uniform(0, 1.1)) * _reference(what)[0]
    for_writing, later = bool(rng.random() < 0.4), float(rng.uniform(0, 0.01))
    while process.poll() is None:
        if for_writing and _temporary(folder):
            time.sleep(later)
            return False
        if not for_writing and time.monotonic() > until:
            return False
        time.sleep(0.002)
    return True


def until_it_has_written(process: subprocess.Popen[bytes], folder: Path) -> bool:
    """Until the first file is in its place; True if the command has ended."""
    while process.poll() is None:
        if list(folder.glob("out*")):
            return False
        time.sleep(0.002)
    return True


def _require_end(process: subprocess.Popen[bytes], what: str) -> None:
    """At once; a machine with other things to do takes seconds to free the memory of a process."""
    started, worked = time.monotonic(), _worked(process)
    while process.poll() is None:
        time.sleep(0.01)
        waited, used = time.monotonic() - started, _worked(process) - worked
        if used > AT_ONCE or waited > HUNG:
            process.send_signal(signal.SIGABRT)  # says where its threads are
            _, stderr = process.communicate()
            frames = re.findall(r"most recent call first\):\n *(.*)", stderr.decode())
            took = f"{used:.1f} s of the processor and {waited:.0f} s"
            raise Failure(f"{what} has not ended {took} after a signal: {'; '.join(frames)}")


def _worked(process: subprocess.Popen[bytes]) -> float:
    """Seconds of the processor that a process has used, in the system as well."""
    fields = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def _temporary(folder: Path) -> list[Path]:
    return list(folder.glob(".miwae-*.tmp"))


def _require_clean(folder: Path, what: str, number: signal.Signals) -> None:
    left = _temporary(folder)
    if left and number != signal.SIGKILL:
        raise Failure(f"{what}: {len(left)} temporary files are left after {number.name}")
    for path in left:
        os.utime(path, (0, 0))
    write_atomically(str(folder / "next"), lambda file: file.write(b"next"))
    if _temporary(folder):
        raise Failure(f"{what}: the next run does not remove what {number.name} has left")
    for path in folder.glob("out*"):
        _require_whole(path, what)


def _require_whole(path: Path, what: str) -> None:
    if path.suffix == ".csv" and path.read_bytes() != _reference(what)[1]:
        raise Failure("the completed table is another one")
    if path.suffix == ".html" and path.read_bytes()[-10:] != _reference(what)[1][-10:]:
        raise Failure("the page is not whole")
    if path.suffix == ".parquet":
        pyarrow.parquet.read_table(path).validate(full=True)
    if path.suffix == ".miwae":
        FittedTable.load(path)
    if path.suffix == ".run" and not eqx.tree_equal(train(str(path)), _trained()):
        raise Failure("a run that goes on ends in other weights")


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        end_on_signals()
        train(sys.argv[2])
    else:
        run("signals", case, 300, __doc__ or "", prepare)
