import os
import subprocess
import sys

from miwae.compilation import cache_directory

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
