"""Memory that glibc would keep. Other systems do as they do."""

import contextlib
import ctypes
import functools

# Of glibc's mallopt: M_ARENA_MAX. Fewer than six make threads wait for each other.
_ARENAS = (-8, 6)


@functools.cache
def use_few_arenas() -> None:
    """Have threads share what they have freed, or a process that imputes often would grow."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").mallopt(*_ARENAS)


def return_memory() -> None:
    """Give memory that is free back to the system, which takes milliseconds.

    Programs and arrays leave free pieces between others that stay, and glibc keeps these: half of
    what a process held after a dozen shapes.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
