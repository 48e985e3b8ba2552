import numpy as np
import pytest

from miwae.columns import Cells
from miwae.pooling import MultiplyImputed

pd = pytest.importorskip("pandas")

N, MISSING = 120, [3, 4, 5, 6]


def cells(values):
    kind = object if isinstance(values[0], str) else float
    return Cells(np.array(MISSING[: len(values)]), np.array(values, dtype=kind))


@pytest.fixture(scope="module")
def people():
    """A complete table."""
    rng = np.random.default_rng(5)
    age, kind = rng.normal(50, 10, size=N), rng.choice(["x", "y", "z"], size=N)
    smokes = rng.random(N) < 0.4
    effect = np.select([kind == "y", kind == "z"], [3.0, -2.0], 0.0)
    ill = rng.random(N) < 1 / (1 + np.exp(-(0.1 * (age - 50) + smokes - 0.5)))
    return pd.DataFrame(
        {
            "age": age,
            "kind": kind,
            "smokes": smokes,
            "net income": 0.5 * age + effect + 2.0 * smokes + rng.normal(size=N),
            "ill": np.where(ill, "yes", "no"),
            "visits": rng.poisson(3, size=N),
        }
    )


@pytest.fixture(scope="module")
def frame(people):
    """The table with missing cells."""
    frame = people.copy()
    frame.loc[MISSING, ["age", "kind", "net income"]] = None
    return frame


@pytest.fixture(scope="module")
def draws(frame):
    """Five copies that differ."""
    rng = np.random.default_rng(6)
    return MultiplyImputed(
        frame,
        [
            {
                0: cells(rng.normal(50, 10, size=4)),
                1: cells(rng.choice(["x", "y", "z"], size=4).tolist()),
                3: cells(rng.normal(25, 8, size=4)),
            }
            for _ in range(5)
        ],
    )
