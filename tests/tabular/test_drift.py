"""New rows in another unit, or of another sort, against what the model predicts of them."""

import numpy as np
import pandas as pd
import pytest

from miwae.columns import infer_schema
from miwae.frames import columns
from miwae.tabular import EncodedTable, FittedTable, TableSettings
from miwae.tabular._drift import _suspicious

N = 300


def birds(n=N, seed=1):
    """Two species, the heavier of which has the longer flippers; and prices over four decades."""
    rng = np.random.default_rng(seed)
    heavy = rng.random(n) < 0.4
    flipper = np.where(heavy, 217, 190) + 6 * rng.normal(size=n)
    mass = np.where(heavy, 5_000, 3_700) + 20 * (flipper - np.where(heavy, 217, 190))
    log_price = 1.2 * rng.normal(size=n)
    return pd.DataFrame(
        {
            "mass": mass + 200 * rng.normal(size=n),
            "flipper": flipper,
            "price": np.exp(5 + log_price),
            "cost": np.exp(3 + log_price + 0.2 * rng.normal(size=n)),
            "score": rng.normal(size=n),
        }
    )


@pytest.fixture(scope="module")
def known():
    own = columns(birds())
    table = EncodedTable.of(infer_schema(own), own)
    settings = TableSettings(n_latent=4, n_hidden=8, n_layers=1, max_steps=4, n_models=1)
    return FittedTable.fit(table, settings)


def drifted(known, frame):
    events = known.encoded(columns(frame)).events
    return {event.column: event for event in events if event.about == "drift"}


@pytest.mark.parametrize("n", [1, 20])
def test_ten_times_the_mass_is_noticed_with_the_factor(known, n):
    new = birds(n, seed=2)
    (event,) = drifted(known, new.assign(mass=10 * new["mass"])).values()
    assert (event.column, event.count) == ("mass", n)
    assert "times as much" in event.text
    start, end = ("value is", "is it") if n == 1 else ("values are around", "are they")
    assert event.text.startswith(f"column 'mass': the new {start} ")
    assert event.text.endswith(f": {end} in the same unit?")
    (event,) = drifted(known, new.assign(mass=new["mass"] / 1_000)).values()
    assert "times less" in event.text
    assert "e+" not in event.text


def test_nothing_is_a_multiple_of_the_mean_of_standardised_scores(known):
    """Of health in Ecdat's Doctor, whose mean is -0.00004, it was 376000 times as much."""
    new = birds(20, seed=2)
    (event,) = drifted(known, new.assign(score=new["score"] + 50)).values()
    assert event.column == "score"
    assert "times" not in event.text


@pytest.mark.parametrize(("n", "looked_at"), [(1, 0), (20, 1)])
def test_only_many_cells_that_are_somewhat_far_out_are_looked_at(known, n, looked_at):
    """Single rows must not wait for the prediction of cells that are far out by chance."""
    new = birds(n, seed=2).assign(mass=4_200 + 3 * birds()["mass"].std())
    assert len(_suspicious(known.encoded(columns(new)))) == looked_at


def test_a_unit_error_within_the_range_of_a_column_is_noticed_by_the_other_columns(known):
    """Ten times the price is two deviations away: many rows have that, but with higher costs."""
    new = birds(40, seed=3)
    new = new[new["price"] > new["price"].median()]
    assert drifted(known, new) == {}
    assert set(drifted(known, new.assign(price=10 * new["price"]))) == {"price"}


def test_rows_like_the_learned_ones_or_of_one_sort_do_not_drift(known):
    new = birds(N, seed=4)
    assert drifted(known, new) == {}
    assert drifted(known, new.assign(mass=1.1 * new["mass"])) == {}
    assert drifted(known, new[new["flipper"] > 210]) == {}
    expensive = new[new["price"] > new["price"].quantile(0.97)]
    assert drifted(known, expensive) == {}


def test_cells_without_a_value_do_not_count(known):
    new = birds(6, seed=5)
    new["mass"] *= 10
    new.loc[1:, "mass"] = np.nan
    assert drifted(known, new)["mass"].count == 1
    assert drifted(known, new.assign(mass=np.nan)) == {}
