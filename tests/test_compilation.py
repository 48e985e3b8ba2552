import os
import subprocess
import sys

import jax.numpy as jnp
import numpy as np
import pytest

from miwae import compilation
from miwae.compilation import cache_directory, compiled, program_of

PROGRAM = """
import time
import jax, jax.numpy as jnp
from miwae.compilation import enable_compilation_cache
print(enable_compilation_cache())
# A program that takes long enough to compile to be worth a file.
work = lambda a: jnp.stack([jnp.linalg.eigh(a + i)[0] @ jnp.sin(a * i) for i in range(40)])
start = time.perf_counter()
jax.jit(work).lower(jnp.eye(8)).compile()
print(time.perf_counter() - start)
"""


def test_a_second_process_finds_the_programs_of_the_first(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    directories, seconds = [], []
    for _ in range(2):
        command = [sys.executable, "-c", PROGRAM]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        directory, time = run.stdout.split()
        directories.append(directory)
        seconds.append(float(time))
    assert set(directories) == {str(tmp_path / "miwae")}
    assert any((tmp_path / "miwae").iterdir())
    assert seconds[1] < seconds[0]


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


def test_the_environment_decides_on_the_effort_where_it_says_something(monkeypatch):
    asked = []
    monkeypatch.setattr(compilation, "_program", lambda _, options=(): asked.append(dict(options)))
    program_of(_softmax_of, hasty=True)  # conftest.py says what tests want
    monkeypatch.setenv("XLA_FLAGS", "--xla_force_host_platform_device_count=2")
    program_of(_softmax_of)
    program_of(_softmax_of, hasty=True)
    level, emitters = compilation.LEVEL, compilation.EMITTERS
    assert asked == [{}, {level: 1}, {level: 1, emitters: False}]
