"""Work on a second core while the first is busy: XLA alone leaves it idle at these sizes."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax
from threadpoolctl import threadpool_limits

__all__ = ["WORKERS", "meanwhile", "side_by_side"]

# Tasks at a time. Fixed, not the number of the machine's cores: memory should not depend on it.
WORKERS = 2

T = TypeVar("T")


def _on_device(task: Callable[[], T]) -> Callable[[], T]:
    """The same task for another thread: the default device is a setting of the thread."""
    device: Any = getattr(jax.config, "jax_default_device", None)

    def work() -> T:
        with jax.default_device(device):
            return task()

    return work


class _OneThreadEach:
    """While anyone is inside, linear algebra of NumPy keeps to the thread that calls it.

    Otherwise each of several tasks would have it use all cores, and they would wait for each
    other: several times slower. The limit is one of the process; whoever leaves last lifts it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limits: threadpool_limits | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._inside += 1
            if self._limits is None:
                self._limits = threadpool_limits(1, user_api="blas")

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._limits is not None and not self._inside:
                self._limits.restore_original_limits()
                self._limits = None


_one_thread_each = _OneThreadEach()


@contextlib.contextmanager
def meanwhile(*tasks: Callable[[], object]) -> Iterator[None]:
    """Run some tasks beside what happens in the context; it ends when all have ended."""
    with ThreadPoolExecutor(max(len(tasks), 1)) as pool:
        running = [pool.submit(_on_device(task)) for task in tasks]
        yield
        for future in running:
            future.result()


def side_by_side(tasks: Sequence[Callable[[Callable[[], None]], T]]) -> list[T]:
    """The results of independent tasks, two at a time.

    Args:
        tasks: each is given a function to call now and then, which ends the task by an exception
            where another has failed or the user has interrupted.
    """
    ended = threading.Event()

    def check() -> None:
        if ended.is_set():
            raise InterruptedError

    if len(tasks) == 1:
        return [tasks[0](check)]
    with _one_thread_each, ThreadPoolExecutor(WORKERS) as pool:
        running = [pool.submit(_on_device(lambda task=task: task(check))) for task in tasks]
        try:
            for future in wait(running, return_when=FIRST_EXCEPTION).done:
                future.result()
        except BaseException:
            ended.set()
            for future in running:
                future.cancel()
            raise
    return [future.result() for future in running]
