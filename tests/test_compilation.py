import os
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from miwae import _compilation as compilation
from miwae._compilation import cache_directory, compiled, make_room_for_programs, program_of

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


@pytest.mark.parametrize("hasty", [False, True])
def test_programs_compute_the_same_with_any_effort(monkeypatch, hasty):
    a = jnp.linspace(-1.0, 2.0, 50)
    expected = np.exp(2.0 * np.asarray(a)) / np.sum(np.exp(2.0 * np.asarray(a)))
    np.testing.assert_allclose(_softmax_of(a, scale=2.0), expected, rtol=1e-5)
    monkeypatch.delenv("XLA_FLAGS")
    np.testing.assert_allclose(program_of(_softmax_of, hasty=hasty)(a, 2.0), expected, rtol=1e-5)


def test_programs_can_be_parts_of_others(monkeypatch):
    monkeypatch.delenv("XLA_FLAGS")
    slope = jax.jit(jax.grad(lambda a: jnp.sum(_softmax_of(a) ** 2)))(jnp.zeros(2))
    np.testing.assert_allclose(slope, 0.0, atol=1e-6)


def test_the_environment_decides_on_the_effort_where_it_says_something(monkeypatch):
    asked = []
    monkeypatch.setattr(compilation, "_program", lambda _, options=(): asked.append(dict(options)))
    program_of(_softmax_of, hasty=True)  # conftest.py says what tests want
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    program_of(_softmax_of)
    program_of(_softmax_of, hasty=True)
    level, emitters = compilation.LEVEL, compilation.EMITTERS
    assert asked == [{}, {level: 1}, {level: 1, emitters: False}]


@pytest.mark.parametrize(("allowed", "again"), [(1_000_000, 0), (10, 1)])
def test_programs_are_forgotten_before_there_are_too_many(monkeypatch, tmp_path, allowed, again):
    limit, mappings = tmp_path / "limit", tmp_path / "maps"
    limit.write_text(f"{allowed}\n")
    mappings.write_text("a mapping\n" * 6)
    monkeypatch.setattr(compilation, "MOST_MAPPINGS", limit)
    monkeypatch.setattr(compilation, "MAPPINGS", mappings)
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
