"""Every shape annotation of the package is checked while its tests run.

The hook must be in place before the first import of `miwae`, so nothing here imports it.
"""

import jax
from jaxtyping import install_import_hook

install_import_hook("miwae", "beartype.beartype")

# (K, B) + (B,) is the classic importance-weight bug: broadcasting has to be written out.
jax.config.update("jax_numpy_rank_promotion", "raise")
