"""Settings that follow from the table where the user has not said them."""

import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.tabular import TableSettings
from miwae.tabular._settings import training_settings


def test_steps_and_held_out_cells_follow_from_the_number_of_cells():
    usual = TableSettings()
    small = training_settings(usual, np.ones((20, 5), bool))
    middle = training_settings(usual, np.ones((500, 8), bool))
    large = training_settings(usual, np.ones((5_000, 20), bool))
    assert (small.max_steps, middle.max_steps) == (500, 12_000)
    assert (small.held_out, middle.held_out, large.held_out) == (0.2, 0.125, 0.01)
    assert (small.batch_size, middle.batch_size) == (32, 64)


def test_large_tables_get_a_number_of_steps_whose_size_falls_to_zero():
    steps = []
    for n_rows in (5_000, 15_000, 60_000, 10_000_000):
        observed = np.broadcast_to(np.ones(20, bool), (n_rows, 20))
        found = training_settings(TableSettings(), observed)
        assert (found.annealed, found.patience, found.finish) == (True, None, 0.0)
        assert found.held_out * observed.size == pytest.approx(1_000)
        steps.append(found.max_steps)
    assert steps == [4_000, 4_000, 8_000, 15_000]
    few_for_their_columns = training_settings(TableSettings(), np.ones((5_000, 54), bool))
    assert not few_for_their_columns.annealed
    stopped = training_settings(TableSettings(early_stopping=False), observed)
    assert (stopped.annealed, stopped.held_out) == (False, 0.0)


def test_what_the_user_says_holds():
    said = TableSettings(
        max_steps=7, early_stopping=False, batch_size=9, n_samples=3, objective="mvae"
    )
    found = training_settings(said, np.ones((20, 5), bool))
    assert (found.max_steps, found.held_out, found.patience) == (7, 0.0, None)
    assert (found.batch_size, found.n_samples, found.objective) == (9, 3, "mvae")


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("n_latent", 0),
        ("n_hidden", 0),
        ("n_layers", -1),
        ("n_models", 0),
        ("n_imputation_samples", 0),
        ("seed", -1),
    ],
)
def test_settings_that_make_no_sense(name, value):
    with pytest.raises(SettingsError, match=name):
        TableSettings(**{name: value})
