"""Compilation: options that make it fast, a cache on disk, and how long it takes."""

import contextlib
import functools
import gc
import hashlib
import json
import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
from jax.core import Tracer

from miwae._atomic import write_atomically
from miwae._memory import return_memory
from miwae._program_files import drop_oldest_programs, private_directory, use_program_files
from miwae.errors import MiwaeError

F = TypeVar("F", bound=Callable[..., Any])

# The memory mappings of this process, and how many Linux allows.
MAPPINGS, MOST_MAPPINGS = Path("/proc/self/maps"), Path("/proc/sys/vm/max_map_count")

# The share of them that programs may add before they are dropped, and seconds between looks.
ADDED, LOOK_EVERY = 1 / 6, 1.0
_kept, _looked = 0, -math.inf  # mappings when programs were last dropped; time of the last look

# On CPUs, level 1 of LLVM's optimisation saves a third of the compilation time, and programs are
# as fast: most of their time goes into matrix products, which are compiled already. XLA's fusion
# emitters take as long again, and programs run at the same speed without (within 6 %,
# benchmarks/compilation.py).
LEVEL, EMITTERS = "xla_backend_optimization_level", "xla_cpu_use_fusion_emitters"

# YNNPACK is asked for products and element-wise operations only. Its sums are in another order
# where there are more cores: without them a fit has the same bits (tests/test_machine.py).
OWN_SUMS = (
    "xla_cpu_experimental_ynn_fusion_type",
    "LIBRARY_FUSION_TYPE_INDIVIDUAL_DOT,LIBRARY_FUSION_TYPE_ELTWISE",
)

# Seconds that compilation takes, by sort of program: a guess, and what it took the last time. The
# command line keeps the latter in a file, with those of single programs that are on disk.
GUESSES = {"training": 5.0, "sampling": 3.0}
_seconds: dict[str, float] = {}
_file: Path | None = None
NOT_COMPILED = 0.2  # less: JAX had the program
FROM_DISK = 0.5  # reading a program takes about this share of the time of compiling it

# Held while a program is compiled: of several threads that need it, one compiles it.
COMPILING = {sort: threading.Lock() for sort in GUESSES}

_MAKING = threading.Lock()

_ready: set[str] = set()  # programs that this process has


def seconds_to_compile(sort: str, *arguments: Any) -> float:
    """Predicted time of compiling a program for such arguments; 0 if this process has it."""
    program = _name(sort, arguments)
    if program in _ready:
        return 0.0
    # If only another sort has been compiled, it shows how fast this machine is.
    speeds = [_seconds[other] / guess for other, guess in GUESSES.items() if other in _seconds]
    guess = GUESSES[sort] * max(speeds, default=1.0)
    return _seconds.get(program, _seconds.get(sort, guess))


@contextlib.contextmanager
def compiling(sort: str, *arguments: Any) -> Iterator[None]:
    """A context that compiles a program, in one thread at a time; its time is remembered."""
    with COMPILING[sort]:
        program, started, worked = _name(sort, arguments), time.monotonic(), time.process_time()
        yield
        # What it takes while no other process slows this one down.
        seconds = min(time.monotonic() - started, time.process_time() - worked)
        if program not in _ready and seconds > NOT_COMPILED:
            _remember(sort, program, seconds)
        _ready.add(program)


def _name(sort: str, arguments: tuple[Any, ...]) -> str:
    """The same for arguments of the same structure and shapes, in all processes."""
    text = f"{jax.__version__} {eqx.tree_pformat(arguments)}"
    return f"{sort} {hashlib.sha256(text.encode()).hexdigest()[:16]}"


def _remember(sort: str, program: str, seconds: float) -> None:
    _seconds[program if program in _seconds else sort] = seconds
    if _file is not None:
        _seconds.setdefault(program, FROM_DISK * seconds)
        data = json.dumps(_seconds).encode()
        with contextlib.suppress(MiwaeError):
            write_atomically(str(_file), lambda file: file.write(data))


def compiled(function: F) -> F:
    """`eqx.filter_jit` with compiler options for this platform.

    An optimisation level in the environment variable XLA_FLAGS takes precedence. Inside another
    compiled function, the options of that function hold.
    """

    @functools.wraps(function)
    def call(*arguments: Any, **named: Any) -> Any:
        traced = any(isinstance(a, Tracer) for a in jax.tree.leaves((arguments, named)))
        program = _program(function) if traced else program_of(call)
        return program(*arguments, **named)

    return cast(F, call)


def program_of(function: Callable[..., Any]) -> Any:
    """The `filter_jit`-wrapped program of a function that is `compiled`."""
    if jax.default_backend() != "cpu" or LEVEL in os.environ.get("XLA_FLAGS", ""):
        return _program(function.__wrapped__)  # pyright: ignore
    options = [option for option in ((EMITTERS, False), OWN_SUMS) if _exists(option)]
    options = ((LEVEL, 1), *options)
    return _program(function.__wrapped__, options)  # pyright: ignore


@functools.cache
def _exists(option: tuple[str, Any]) -> bool:
    """Whether this version of XLA has an option: others refuse to compile with it."""
    program = jax.jit(lambda x: x, compiler_options=dict([option]))
    try:
        program.lower(0.0).compile()
    except jax.errors.JaxRuntimeError:
        return False
    return True


def _program(function: Callable[..., Any], options: tuple[tuple[str, Any], ...] = ()) -> Any:
    with _MAKING:  # two threads would make, and compile, a program each
        return _made(function, options)


@functools.cache
def _made(function: Callable[..., Any], options: tuple[tuple[str, Any], ...]) -> Any:
    chosen: dict[str, Any] = {"compiler_options": dict(options)} if options else {}
    return eqx.filter_jit(function, **chosen)


def make_room_for_programs() -> None:
    """Drop all compiled programs if they hold much memory.

    A table of another shape adds about a thousand memory mappings and 100 MiB. Linux allows 65,530
    mappings per process, beyond which compilation fails; programs may add a sixth of them. Those
    that are needed again are compiled again, or read from the cache on disk.
    """
    global _kept, _looked
    if time.monotonic() - _looked < LOOK_EVERY:
        return
    _looked = time.monotonic()
    try:
        n_mappings = _n_mappings()
        allowed = int(MOST_MAPPINGS.read_text())
    except OSError:  # not Linux: no such limit
        return
    if n_mappings - _kept > ADDED * allowed:
        eqx.clear_caches()
        jax.clear_caches()
        _ready.clear()
        gc.collect()  # programs are parts of cycles
        return_memory()
        _kept = _n_mappings()


def _n_mappings() -> int:
    with MAPPINGS.open("rb") as lines:
        return sum(1 for _ in lines)


def cache_directory() -> Path:
    """`miwae` in the user's cache directory (`XDG_CACHE_HOME`, else `~/.cache`)."""
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "miwae"


def enable_compilation_cache(directory: str | Path | None = None) -> Path:
    """Keep compiled programs on disk, for later processes, and return the directory.

    It changes JAX's settings for the whole process, so an application calls it once, before
    anything is compiled; the library never does.

    Args:
        directory: of the cache; by default `miwae` in the user's cache directory.

    Raises:
        PermissionError: the directory belongs to somebody else, or others may write to it.
    """
    path = private_directory(Path(directory) if directory is not None else cache_directory())
    drop_oldest_programs(path)
    jax.config.update("jax_compilation_cache_dir", str(path))
    use_program_files(path)
    # Programs that compile in less time are not stored.
    jax.config.update("jax_persistent_cache_min_compile_time_secs", 0.02)
    global _file
    _file = path / "seconds.json"
    with contextlib.suppress(OSError, ValueError, TypeError, AttributeError):  # none, or damaged
        saved = json.loads(_file.read_text())
        _seconds.update({name: float(s) for name, s in saved.items() if 0 < float(s) < math.inf})
    return path
