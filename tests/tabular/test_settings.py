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
    assert large.max_steps == int(24 * np.sqrt(100_000))
    assert (small.hasty, middle.hasty) == (True, False)
    assert (small.held_out, middle.held_out, large.held_out) == (0.2, 0.125, 0.05)
    assert (small.batch_size, middle.batch_size) == (32, 64)


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
