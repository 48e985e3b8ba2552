import signal
from pathlib import Path

import pytest

import miwae

# A run that was started with `&` ignores Ctrl-C, and so would the commands that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def programs(tmp_path_factory):
    """Compiled programs are shared by all processes of these tests, and by nobody else."""
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module", autouse=True)
def _environment(programs):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(programs))
        # A relative path would mean another package to a process in another directory.
        patch.setenv("PYTHONPATH", str(Path(miwae.__file__).parents[1]))
        for name in ("FORCE_COLOR", "PYTHONIOENCODING", "PYTHONWARNINGS", "COLUMNS"):
            patch.delenv(name, raising=False)
        yield
