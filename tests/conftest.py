"""Every shape annotation of the package is checked while its tests run.

The hook must be in place before the first import of `miwae`, so nothing here imports it.
"""

import os
import tempfile

# Half of the suite's time is compilation; what is compiled here runs a few times only. Set before
# JAX is imported, and not where somebody has set it otherwise.
os.environ.setdefault("XLA_FLAGS", "--xla_backend_optimization_level=1")

# Both workers of a run need the same programs: whoever compiles one leaves it to the other.
if "PYTEST_XDIST_WORKER" not in os.environ and "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _PROGRAMS = tempfile.TemporaryDirectory(prefix="miwae-tests-")  # gone at exit
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _PROGRAMS.name
    os.environ["JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS"] = "0.5"

import jax
from jaxtyping import install_import_hook

install_import_hook("miwae", "beartype.beartype")

# (K, B) + (B,) is the classic importance-weight bug: broadcasting has to be written out.
jax.config.update("jax_numpy_rank_promotion", "raise")
