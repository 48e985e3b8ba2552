"""Deep latent variable models trained on incomplete data, and the imputations they give."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miwae._compilation import enable_compilation_cache
    from miwae.imputer import MIWAEImputer
    from miwae.pooling import MultiplyImputed, Pooled, pool

    __version__: str

__all__ = ["MIWAEImputer", "MultiplyImputed", "Pooled", "enable_compilation_cache", "pool"]

# Where the public names live. They are imported when first asked for: `import miwae` alone, and
# what needs no model, do not wait for JAX and scikit-learn.
_HOMES = {
    "MIWAEImputer": "miwae.imputer",
    "MultiplyImputed": "miwae.pooling",
    "Pooled": "miwae.pooling",
    "enable_compilation_cache": "miwae._compilation",
    "pool": "miwae.pooling",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("miwae")
    if name not in _HOMES:
        raise AttributeError(f"module 'miwae' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
