"""Memory that glibc would keep. Other systems do as they do."""

import contextlib
import ctypes
import functools
import os

# Of glibc's mallopt: M_ARENA_MAX. Fewer than six make threads wait for each other.
_ARENAS = {-8: 6}

# M_TRIM_THRESHOLD and M_MMAP_THRESHOLD, about what glibc takes by itself. The workers of Dask are
# started with this variable, for which every large array goes back at once: three times as slow.
_EAGER = "MALLOC_TRIM_THRESHOLD_"
_PATIENT = {-1: 2**28, -3: 2**25}


@functools.cache
def use_few_arenas() -> None:
    """Have threads share what they have freed, or a process that imputes often would grow."""
    with contextlib.suppress(OSError, AttributeError):
        libc = ctypes.CDLL("libc.so.6")
        for option, value in (_ARENAS | (_PATIENT if _EAGER in os.environ else {})).items():
            libc.mallopt(option, value)


def return_memory() -> None:
    """Give memory that is free back to the system, which takes milliseconds.

    Programs and arrays leave free pieces between others that stay, and glibc keeps these: half of
    what a process held after a dozen shapes.
    """
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL("libc.so.6").malloc_trim(0)
