"""Deep latent variable models trained on incomplete data, and the imputations they give.

The front door: what users need is imported from here, when it is first asked for, so that
`import miwae` does not wait for JAX and scikit-learn.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from miwae._compilation import enable_compilation_cache
    from miwae.errors import (
        DataError,
        DataWarning,
        DivergenceError,
        FileFormatError,
        MiwaeError,
        SettingsError,
    )
    from miwae.events import Event
    from miwae.imputer import MIWAEImputer
    from miwae.inference import (
        SamplingSettings,
        expectation,
        impute_multiple,
        impute_single,
        log_likelihood,
        quantiles,
    )
    from miwae.model import (
        Amortizer,
        Autoencoder,
        Bernoulli,
        Categorical,
        Count,
        FlowPosterior,
        FlowPrior,
        Heterogeneous,
        LatentModel,
        LowRankNormal,
        MixturePosterior,
        MixturePrior,
        Normal,
        NormalPosterior,
        Ordinal,
        Part,
        Positive,
        StandardNormal,
        StudentT,
        StudentTPosterior,
        VampPrior,
        ZeroFill,
        convolutional_autoencoder,
        dense_autoencoder,
        linear_autoencoder,
        linear_core,
        recurrent_autoencoder,
    )
    from miwae.pooling import MultiplyImputed, Pooled, pool
    from miwae.training import TrainingSettings, fit, fit_stream, refit_amortizer

    __version__: str

# Where the names live.
_HOMES = {
    "miwae._compilation": "enable_compilation_cache",
    "miwae.errors": """DataError DataWarning DivergenceError FileFormatError MiwaeError
        SettingsError""",
    "miwae.events": "Event",
    "miwae.imputer": "MIWAEImputer",
    "miwae.inference": """SamplingSettings expectation impute_multiple impute_single
        log_likelihood quantiles""",
    "miwae.model": """Amortizer Autoencoder Bernoulli Categorical Count FlowPosterior FlowPrior
        Heterogeneous LatentModel LowRankNormal MixturePosterior MixturePrior Normal
        NormalPosterior Ordinal Part Positive StandardNormal StudentT StudentTPosterior
        VampPrior ZeroFill convolutional_autoencoder dense_autoencoder linear_autoencoder
        linear_core recurrent_autoencoder""",
    "miwae.pooling": "MultiplyImputed Pooled pool",
    "miwae.training": "TrainingSettings fit fit_stream refit_amortizer",
}
_HOME = {name: home for home, names in _HOMES.items() for name in names.split()}

__all__ = sorted(_HOME)  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib import metadata

        return metadata.version("miwae")
    if name not in _HOME:
        raise AttributeError(f"module 'miwae' has no attribute {name!r}")
    return getattr(importlib.import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
