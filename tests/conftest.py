"""Every shape annotation of the package is checked while its tests run.

The hook must be in place before the first import of `miwae`, so nothing here imports it.
"""

import gc
import os

# Most of the suite's time is compilation; what is compiled here runs a few times only, so it is
# not optimised, which takes 40 % off. Set before JAX is imported, and not where somebody has set
# it otherwise: `XLA_FLAGS= make test` runs what users run.
os.environ.setdefault(
    "XLA_FLAGS", "--xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false"
)

import equinox as eqx
import jax
import psutil
import pytest
from jaxtyping import install_import_hook

install_import_hook("miwae", "beartype.beartype")

# (K, B) + (B,) is the classic importance-weight bug: broadcasting has to be written out.
jax.config.update("jax_numpy_rank_promotion", "raise")

MUCH = 1.5 * 2**30


@pytest.fixture(autouse=True, scope="module")
def _memory():
    """Forget the programs of earlier files when there are many: a worker stays below 2.5 GiB."""
    if psutil.Process().memory_info().rss > MUCH:
        from miwae._memory import return_memory

        eqx.clear_caches()
        jax.clear_caches()
        gc.collect()
        return_memory()
