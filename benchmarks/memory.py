"""How much memory a process has used."""

from pathlib import Path

__all__ = ["peak_memory"]


def peak_memory(*, reset=False):
    """KiB of memory used at most since the start, or since the last reset (Linux)."""
    if reset:
        Path("/proc/self/clear_refs").write_text("5")
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0])
