"""Work on a second core while the first is busy: XLA alone leaves it idle at these sizes."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_EXCEPTION, ThreadPoolExecutor, wait
from typing import Any, TypeVar

import jax
from threadpoolctl import ThreadpoolController

from miwae.errors import SettingsError

__all__ = ["WORKERS", "meanwhile", "on_device", "one_thread_each", "side_by_side"]

# Tasks at a time. Fixed, not the number of the machine's cores: memory should not depend on it.
WORKERS = 2

T = TypeVar("T")


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
    """Have linear algebra of NumPy keep to the thread that calls it, for the whole process.

    Otherwise each of several tasks would have it use all cores, and they would wait for each
    other: several times slower. Whoever comes first sets the limit and lifts it, since
    threadpoolctl obeys no other thread; those who come in between neither wait nor change it.
    """
    controller = ThreadpoolController()  # which takes its time: before anything is changed
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
    """Run some tasks beside what happens in the context; it ends when all have ended."""
    with ThreadPoolExecutor(max(len(tasks), 1)) as pool:
        running = [pool.submit(_on_same_device(task)) for task in tasks]
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
