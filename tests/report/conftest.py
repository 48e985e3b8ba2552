"""A report on a table whose names and cells would run as scripts if they could."""

import numpy as np
import pandas as pd
import pytest

from miwae import MIWAEImputer
from miwae.errors import DataWarning

SCRIPT = "<script>alert(1)</script>"
IMAGE = "\"'><img src=x onerror=alert(2)>"
END = "</script></style></title><svg onload=alert(3)>"


def hostile_frame():
    rng = np.random.default_rng(0)
    factor = rng.normal(size=150)
    frame = pd.DataFrame(
        {
            SCRIPT: 3 + factor + 0.1 * rng.normal(size=150),
            IMAGE: np.where(factor > 0, SCRIPT, END),
            END: 10 * factor + rng.normal(size=150),
            "day": pd.Timestamp("2024-01-01") + pd.to_timedelta(np.rint(50 * factor), unit="D"),
            "id": [f"{END}{i}" for i in range(150)],
            "void": np.nan,
        }
    )
    holes = rng.random(frame.shape) < [0.1, 0.2, 0.3, 0.4, 0.0, 1.0]
    return frame.mask(holes)


@pytest.fixture(scope="session")
def hostile():
    """The frame, an imputer, and its report."""
    frame = hostile_frame()
    imputer = MIWAEImputer(
        max_steps=40, n_hidden=8, n_layers=1, n_models=1, n_imputation_samples=200, random_state=0
    )
    with pytest.warns(DataWarning, match="dropped: 'void'"):
        imputer.fit(frame)
    return frame, imputer, imputer.report(frame, title=f"{SCRIPT} & more")
