"""Ctrl-C that is not lost where Python drops exceptions."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from types import FrameType

_heard = threading.Event()


@contextlib.contextmanager
def keeping_interrupts() -> Iterator[None]:
    """A context in which Ctrl-C raises `KeyboardInterrupt`, now or soon.

    Usually at once. But Python drops exceptions of callbacks, as JAX has one for each garbage
    collection: therefore Ctrl-C also sets a flag, which long work reads by `raise_interrupt`.
    Applications with a handler of their own keep it, and so does an outer context.
    """
    usual = signal.default_int_handler
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or signal.getsignal(signal.SIGINT) is not usual:
        yield
        return

    def hear(number: int, frame: FrameType | None) -> None:
        _heard.set()
        usual(number, frame)

    signal.signal(signal.SIGINT, hear)
    try:
        yield
        raise_interrupt()
    finally:
        signal.signal(signal.SIGINT, usual)
        _heard.clear()


def raise_interrupt() -> None:
    """Raise `KeyboardInterrupt` if there was a Ctrl-C whose exception was dropped."""
    if _heard.is_set():
        raise KeyboardInterrupt
