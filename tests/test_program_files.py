import hashlib
import os
import subprocess
import sys

import pytest
from jax._src.compilation_cache import compress_executable

from miwae import _program_files as files
from miwae._program_files import keep_whole_programs, private_directory, seal_programs


def program_of(name):
    """As JAX writes it; all have the same length."""
    return compress_executable(hashlib.sha256(name.encode()).digest() * 10)


@pytest.fixture
def programs(tmp_path):
    """Three programs, the first of which is the oldest."""
    directory = private_directory(tmp_path / "programs")
    for i, name in enumerate("abc"):
        path = directory / f"{name}-cache"
        path.write_bytes(program_of(name))
        os.utime(path, (1e9 + i, 1e9 + i))
    seal_programs(directory)
    return directory


def names(directory):
    return sorted(path.name[0] for path in directory.glob("*-cache"))


def test_the_directory_is_ours_alone(tmp_path):
    assert private_directory(tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_a_directory_that_others_can_write_to_is_refused(tmp_path, mode):
    tmp_path.chmod(mode)
    with pytest.raises(PermissionError, match=f"others may write to {tmp_path}"):
        private_directory(tmp_path)


def test_a_directory_of_somebody_else_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(os, "getuid", lambda: 12345)
    with pytest.raises(PermissionError, match="another user"):
        private_directory(tmp_path)


def test_whole_programs_stay(programs):
    keep_whole_programs(programs)
    assert names(programs) == ["a", "b", "c"]


WHOLE = program_of("b")


@pytest.mark.parametrize("content", [b"", WHOLE[:-1], WHOLE[:-1] + b"c", WHOLE + b"b"])
def test_damaged_programs_are_removed(programs, content):
    (programs / "b-cache").write_bytes(content)
    keep_whole_programs(programs)
    assert names(programs) == ["a", "c"]
    assert not (programs / "b-digest").exists()


def test_programs_of_processes_that_were_killed_are_removed(programs):
    (programs / "d-cache").write_bytes(b"half")
    keep_whole_programs(programs)
    assert names(programs) == ["a", "b", "c"]


def test_half_a_program_is_not_sealed_by_another_process(programs):
    path = programs / "d-cache"
    path.write_bytes(program_of("d")[:-3])
    seal_programs(programs)  # at its end, while this one is still being written
    assert not (programs / "d-digest").exists()
    path.write_bytes(program_of("d"))
    seal_programs(programs)
    keep_whole_programs(programs)
    assert names(programs) == ["a", "b", "c", "d"]


def test_the_oldest_programs_are_removed_where_there_are_many(programs, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", int(2.5 * len(WHOLE)))
    keep_whole_programs(programs)
    assert names(programs) == ["b", "c"]


PROGRAM = """
import jax, jax.numpy as jnp
from miwae._compilation import enable_compilation_cache
events = []
jax.monitoring.register_event_listener(lambda event, **_: events.append(event))
enable_compilation_cache()
jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.0)  # also small programs
print(float(jax.jit(lambda a: jnp.sin(a) @ a)(jnp.ones(8))))
print("/jax/compilation_cache/cache_hits" in events)
"""


def test_a_damaged_program_is_compiled_and_stored_again(tmp_path):
    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    outputs = []
    for damage in (False, True, False):
        for path in (tmp_path / "miwae").glob("*-cache"):
            if damage:
                path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
        command = [sys.executable, "-W", "error", "-c", PROGRAM]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.append(run.stdout.split())
    assert [found for _, found in outputs] == ["False", "False", "True"]
    assert len({value for value, _ in outputs}) == 1
