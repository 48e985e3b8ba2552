import json
import math
import os
import platform
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae import _compilation as compilation
from miwae._compilation import (
    cache_directory,
    compiled,
    make_room_for_programs,
    program_of,
    seconds_to_compile,
)

PROGRAM = """
import jax, jax.numpy as jnp
from miwae._compilation import enable_compilation_cache
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
print(enable_compilation_cache())
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # also small programs
jax.jit(lambda a: jnp.sin(a) @ a).lower(jnp.eye(8)).compile()
print("/jax/compilation_cache/cache_hits" in events)
"""


def test_a_second_process_finds_the_programs_of_the_first(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    for found in (False, True):
        command = [sys.executable, "-c", PROGRAM]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert run.stdout.split() == [str(tmp_path / "miwae"), str(found)]


def test_the_cache_is_in_the_users_cache_directory(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_directory() == tmp_path / ".cache" / "miwae"


@compiled
def _softmax_of(a, scale: float = 1.0):
    return jnp.exp(scale * a) / jnp.sum(jnp.exp(scale * a))


def test_programs_compute_the_same_with_any_effort(monkeypatch):
    a = jnp.linspace(-1.0, 2.0, 50)
    expected = np.exp(2.0 * np.asarray(a)) / np.sum(np.exp(2.0 * np.asarray(a)))
    np.testing.assert_allclose(_softmax_of(a, scale=2.0), expected, rtol=1e-5)
    monkeypatch.delenv("XLA_FLAGS")
    np.testing.assert_allclose(program_of(_softmax_of)(a, 2.0), expected, rtol=1e-5)


def test_programs_can_be_parts_of_others(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS")
    slope = jax.jit(jax.grad(lambda a: jnp.sum(_softmax_of(a) ** 2)))(jnp.zeros(2))
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


def test_the_environment_decides_on_the_effort_where_it_says_something(monkeypatch):
    asked = []
    monkeypatch.setattr(compilation, "_program", lambda _, options=(): asked.append(dict(options)))
    program_of(_softmax_of)  # conftest.py says what tests want
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    program_of(_softmax_of)
    usual = {compilation.LEVEL: 1, compilation.EMITTERS: False, **dict([compilation.OWN_SUMS])}
    assert asked == [{}, usual]


def test_options_that_this_version_does_not_have_are_left_out(monkeypatch):
    monkeypatch.setattr(compilation, "OWN_SUMS", ("xla_cpu_no_such_option", ""))
    monkeypatch.setenv("XLA_FLAGS", "")
    np.testing.assert_allclose(program_of(_softmax_of)(jnp.zeros(4)), 0.25)


# The mappings that a process had without programs are not theirs.
@pytest.mark.parametrize(
    ("allowed", "kept", "again"), [(1_000_000, 0, 0), (30, 0, 1), (30, 2, 0), (10, 3, 1)]
)
def test_programs_are_forgotten_before_there_are_too_many(
    monkeypatch, tmp_path, allowed, kept, again
):
    limit, mappings = tmp_path / "limit", tmp_path / "maps"
    limit.write_text(f"{allowed}\n")
    mappings.write_text("a mapping\n" * 6)
    monkeypatch.setattr(compilation, "MOST_MAPPINGS", limit)
    monkeypatch.setattr(compilation, "MAPPINGS", mappings)
    monkeypatch.setattr(compilation, "_looked", -math.inf)
    monkeypatch.setattr(compilation, "_kept", kept)
    traced = []

    @compiled
    def doubled(a):
        traced.append(a)
        return 2 * a

    for _ in range(2):
        assert float(doubled(jnp.asarray(1.5))) == 3.0
    assert len(traced) == 1
    make_room_for_programs()
    assert float(doubled(jnp.asarray(1.5))) == 3.0
    assert len(traced) == 1 + again


def test_where_there_is_no_limit_programs_stay(monkeypatch, tmp_path):
    monkeypatch.setattr(compilation, "MAPPINGS", tmp_path / "nothing")
    program = jax.jit(jnp.sin)
    program(1.0)
    make_room_for_programs()
    assert program._cache_size() == 1


PIECES = """
import psutil
from miwae import _compilation as compilation

def resident():
    return psutil.Process().memory_info().rss / 2**20

before = resident()
pieces = [b"x" * 60_000 for _ in range(4000)]
del pieces[:-1]  # the last of them keeps the others from being returned
kept = resident() - before
compilation.ADDED, compilation.LOOK_EVERY = -1.0, 0.0
compilation.make_room_for_programs()
print(kept, resident() - before)
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="others return memory themselves")
def test_memory_that_is_free_is_returned_with_the_programs():
    run = subprocess.run([sys.executable, "-c", PIECES], capture_output=True, check=True)
    kept, left = map(float, run.stdout.split())
    assert kept > 200  # MiB
    assert left < 60


@pytest.fixture
def clock(monkeypatch):
    """A clock and a stopwatch of the processor, and nothing known of earlier compilations."""
    now = {"monotonic": 0.0, "process_time": 0.0}
    for name in now:
        monkeypatch.setattr(f"time.{name}", lambda name=name: now[name])
    monkeypatch.setattr(compilation, "GUESSES", {"training": 5.0, "sampling": 3.0})
    monkeypatch.setattr(compilation, "_seconds", {})
    monkeypatch.setattr(compilation, "_ready", set())
    monkeypatch.setattr(compilation, "_file", None)
    return now


def compile_in(clock, sort, program, seconds, worked):
    with compilation.compiling(sort, program):
        clock["monotonic"] += seconds
        clock["process_time"] += worked


def test_the_time_of_a_compilation_is_predicted_from_earlier_ones(clock):
    program, other = jnp.zeros(3), jnp.zeros(4)
    assert seconds_to_compile("training", program) == 5
    compile_in(clock, "sampling", program, seconds=6.0, worked=6.0)
    assert seconds_to_compile("sampling", program) == 0
    assert seconds_to_compile("sampling", program + 1) == 0  # the values do not matter
    assert seconds_to_compile("sampling", other) == 6
    assert seconds_to_compile("training", program) == 10  # this machine is half as fast
    compile_in(clock, "training", program, seconds=7.0, worked=7.0)
    assert seconds_to_compile("training", other) == 7
    assert seconds_to_compile("sampling", other) == 6


def test_other_processes_do_not_count_as_a_slow_machine(clock):
    compile_in(clock, "training", jnp.zeros(3), seconds=12.0, worked=5.0)
    assert seconds_to_compile("training", jnp.zeros(4)) == 5


def test_a_program_that_was_there_teaches_nothing(clock):
    compile_in(clock, "training", jnp.zeros(3), seconds=0.01, worked=0.01)
    assert seconds_to_compile("training", jnp.zeros(3)) == 0
    assert seconds_to_compile("training", jnp.zeros(4)) == 5


@pytest.mark.parametrize("damage", [None, "", "[1]", '{"training": -1, "sampling": "x"}'])
def test_the_next_process_knows_how_long_programs_took(clock, monkeypatch, tmp_path, damage):
    monkeypatch.setattr(jax.config, "update", lambda *_: None)  # programs are not to be kept
    monkeypatch.setattr(compilation, "use_program_files", lambda path: None)
    compilation.enable_compilation_cache(tmp_path)
    compile_in(clock, "training", jnp.zeros(3), seconds=8.0, worked=8.0)
    if damage is not None:
        (tmp_path / "seconds.json").write_text(damage)
    monkeypatch.setattr(compilation, "_seconds", {})
    monkeypatch.setattr(compilation, "_ready", set())
    compilation.enable_compilation_cache(tmp_path)
    known = damage is None
    assert seconds_to_compile("training", jnp.zeros(4)) == (8 if known else 5)
    assert seconds_to_compile("training", jnp.zeros(3)) == (4 if known else 5)  # it is on disk
    compile_in(clock, "training", jnp.zeros(3), seconds=2.0, worked=2.0)
    assert seconds_to_compile("training", jnp.zeros(4)) == (8 if known else 2)
    saved = json.loads((tmp_path / "seconds.json").read_text())
    assert sorted(saved.values()) == ([2, 8] if known else [1, 2])


def test_threads_share_a_program():
    def made(a):
        return a

    with ThreadPoolExecutor(8) as pool:
        programs = list(pool.map(lambda _: program_of(compiled(made)), range(8)))
    assert len({id(program) for program in programs}) == 1
