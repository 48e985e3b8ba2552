"""Tasks on a second core. At the sizes of tables, XLA alone uses only one."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax
from jax._src import xla_bridge  # no public name says whether JAX has started
from threadpoolctl import ThreadpoolController

from miwae._memory import use_few_arenas
from miwae.errors import MiwaeError, SettingsError

# Tasks at a time. A constant, so that the memory needed does not depend on the machine.
WORKERS = 2

T = TypeVar("T")


# Whether this process was forked from one in which JAX ran.
_forked = False


def _note_fork() -> None:
    global _forked
    _forked = _forked or xla_bridge.backends_are_initialized()


if hasattr(os, "register_at_fork"):  # Windows has no forks
    os.register_at_fork(after_in_child=_note_fork)


def require_own_process() -> None:
    """Refuse to compute in a fork of a process in which JAX runs: it would wait for ever.

    The threads of JAX do not exist in a fork, but it waits for them.

    Raises:
        MiwaeError: says how else to start processes.
    """
    use_few_arenas()
    if _forked:
        raise MiwaeError(
            "this process was forked from one in which JAX had started, and would wait for ever: "
            "start processes by multiprocessing.get_context('spawn') or joblib's 'loky', or use "
            "threads"
        )


@contextlib.contextmanager
def on_device(name: str | None) -> Iterator[None]:
    """Compute on a device of this sort: "cpu", "gpu" or "tpu"; None for JAX's own choice.

    Raises:
        SettingsError: there is none.
    """
    if name is None:
        yield
        return
    try:
        device = jax.devices(name)[0]
    except RuntimeError as error:
        raise SettingsError(f"device={name!r} is not available: {error}") from error
    with jax.default_device(device):
        yield


def _on_same_device(task: Callable[[], T]) -> Callable[[], T]:
    """The same task for another thread: the default device is a setting of the thread."""
    device: Any = getattr(jax.config, "jax_default_device", None)

    def work() -> T:
        with jax.default_device(device):
            return task()

    return work


_limited = threading.Lock()


@contextlib.contextmanager
def one_thread_each() -> Iterator[None]:
    """Limit NumPy's linear algebra to one thread per call, in the whole process.

    Otherwise each of several parallel tasks would use all cores for it, and they would slow each
    other down. Of several contexts that overlap, the first sets the limit and removes it at its
    end; the others change nothing.
    """
    controller = ThreadpoolController()  # slow, so it comes before the lock
    if not _limited.acquire(blocking=False):
        yield
        return
    try:
        with controller.limit(limits=1, user_api="blas"):
            yield
    finally:
        _limited.release()


@contextlib.contextmanager
def meanwhile(*tasks: Callable[[], object]) -> Iterator[None]:
    """Run tasks in other threads during the context, which ends when all of them have ended."""
    with ThreadPoolExecutor(max(len(tasks), 1)) as pool:
        running = [pool.submit(_on_same_device(task)) for task in tasks]
        yield
        for future in running:
            future.result()


def side_by_side(tasks: Sequence[Callable[[Callable[[], None]], T]]) -> list[T]:
    """Run independent tasks, two at a time, and return their results in order.

    Each task gets a function that it has to call regularly; the function raises an exception if
    another task has failed or the user has interrupted.
    """
    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise InterruptedError

    if len(tasks) == 1:
        return [tasks[0](check)]
    with ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(_on_same_device(lambda task=task: task(check))) for task in tasks]
        try:
            for future in wait(running, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            ended.set()
            for future in running:
                future.cancel()
            raise
    return [future.result() for future in running]
