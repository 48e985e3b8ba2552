"""What Ctrl-C and a request to terminate do to a command: it ends at once, and cleans up."""

import os
import signal
import sys
import threading

from miwae import _atomic

# As Live of rich has hidden it.
SHOW_CURSOR = "\x1b[?25h\n"

ENDING = (signal.SIGINT, signal.SIGTERM)


def end_on_signals() -> None:
    """End this process as soon as it is interrupted or terminated.

    Not by an exception: it would be lost in a callback of JAX's garbage collection, and wait for
    a compilation in another thread. A thread that waits for signals ends the process whatever the
    others do.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:  # as `nohup` and `&` have set it
            signal.signal(number, lambda *_: None)
    signal.set_wakeup_fd(writing, warn_on_full_buffer=False)
    threading.Thread(target=_end, args=(reading,), daemon=True).start()


def _end(reading: int) -> None:
    number = 0
    while number not in ENDING:
        number = os.read(reading, 1)[0]
    _atomic.remove_unfinished()
    if number == signal.SIGINT:
        start = SHOW_CURSOR if sys.stderr.isatty() else ""
        os.write(2, f"{start}miwae: interrupted; no half-written file is left\n".encode())
    os._exit(128 + number)


def end_by_closed_pipe() -> None:
    """End as other tools do when nobody reads on (`| head`): by the signal."""
    _atomic.remove_unfinished()
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    os.kill(os.getpid(), signal.SIGPIPE)
