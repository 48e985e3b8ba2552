import hashlib
import os
import subprocess
import sys

import pytest

from miwae import _program_files as files
from miwae._program_files import ProgramFiles, drop_oldest_programs, private_directory

WHOLE = b"program" * 50


@pytest.fixture
def programs(tmp_path):
    """The directory of three programs, the first of which is the oldest."""
    directory = private_directory(tmp_path / "programs")
    for i, name in enumerate("abc"):
        ProgramFiles(directory).put(name, WHOLE)
        os.utime(directory / f"{name}.program", (1e9 + i, 1e9 + i))
    return directory


def names(directory):
    return sorted(path.name for path in directory.iterdir())


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


def test_programs_are_found_again_also_by_another_process_that_begins_meanwhile(programs):
    drop_oldest_programs(programs)
    assert [ProgramFiles(programs).get(name) for name in "abcd"] == [WHOLE, WHOLE, WHOLE, None]


STORED = hashlib.sha256(WHOLE).digest() + WHOLE


@pytest.mark.parametrize("content", [b"", STORED[:-1], STORED[:-1] + b"c", STORED + b"b"])
def test_damaged_programs_are_removed_and_replaced(programs, content):
    assert (programs / "b.program").read_bytes() == STORED
    (programs / "b.program").write_bytes(content)
    own = ProgramFiles(programs)
    assert own.get("b") is None
    assert names(programs) == ["a.program", "c.program"]
    own.put("b", WHOLE)
    assert own.get("b") == WHOLE


def test_a_program_appears_whole_or_not_at_all(programs, monkeypatch):
    held = []

    def refused(temporary, path):
        held.extend([names(programs), ProgramFiles(programs).get("d")])
        raise OSError("no room")

    monkeypatch.setattr(os, "replace", refused)
    ProgramFiles(programs).put("d", WHOLE)  # which is no reason to fail
    assert (len(held[0]), held[1]) == (4, None)
    assert names(programs) == ["a.program", "b.program", "c.program"]


def test_the_oldest_programs_are_removed_where_there_are_many(programs, monkeypatch):
    monkeypatch.setattr(files, "LARGEST", int(2.5 * len(STORED)))
    drop_oldest_programs(programs)
    assert names(programs) == ["b.program", "c.program"]


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
        for path in (tmp_path / "miwae").glob("*.program"):
            if damage:
                path.write_bytes(path.read_bytes()[:-20] + b"x" * 20)
        command = [sys.executable, "-W", "error", "-c", PROGRAM]
        run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        outputs.append(run.stdout.split())
    assert [found for _, found in outputs] == ["False", "False", "True"]
    assert len({value for value, _ in outputs}) == 1
