"""Settings that make no sense are refused, those that do are passed on."""

import subprocess
import sys

import pandas as pd
import pytest

from imputer.tables import make, numbers
from miwae.errors import SettingsError


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"column_kinds": {"aa": "integer"}}, SettingsError, "'aa', which does not exist; did"),
        ({"bounds": {"d": (0.0, 1.0)}}, SettingsError, "bounds names the column 'd'"),
        ({"n_latent": 0}, SettingsError, "n_latent"),
        ({"n_hidden": 0}, SettingsError, "n_hidden"),
        ({"n_layers": -1}, SettingsError, "n_layers"),
        ({"n_models": 0}, SettingsError, "n_models"),
        ({"n_imputation_samples": 0}, SettingsError, "n_imputation_samples"),
        ({"n_samples": 0}, SettingsError, "n_samples"),
        ({"batch_size": 0}, SettingsError, "batch_size"),
        ({"max_steps": 0}, SettingsError, "max_steps"),
        ({"max_time": 0.0}, SettingsError, "max_time must be positive or None, not 0"),
        ({"objective": "elbo"}, SettingsError, "elbo"),
        ({"device": "abacus"}, SettingsError, "device='abacus' is not available"),
    ],
)
def test_settings_that_make_no_sense_are_refused_at_fit(settings, error, message):
    with pytest.raises(error, match=message):
        make(**settings).fit(numbers())


WRONG_TYPES = """
import numpy as np
import openpyxl
from sklearn.utils import estimator_checks
from miwae import MIWAEImputer
from miwae.errors import SettingsError

estimator_checks.check_do_not_raise_errors_in_init_or_set_params("MIWAEImputer", MIWAEImputer())
x = np.array([[1.5, -2.0], [2.5, 3.0], [np.nan, 1.0], [4.0, 0.5]])
for bounds in ({0: 3}, {0: ("x", 1)}, {0: (1,)}, {0: (4, 2)}):
    try:
        MIWAEImputer(bounds=bounds).fit(x)
    except SettingsError as error:
        print(error)
for settings in ({"column_kinds": {0: 5}}, {"column_kinds": ["x0"]}, {"bounds": (0, 1)}):
    try:
        MIWAEImputer(**settings).fit(x)
    except SettingsError as error:
        print(error)
"""


def test_settings_of_the_wrong_type_are_refused():
    """In a process of its own: here the annotations themselves would refuse them."""
    run = [sys.executable, "-c", WRONG_TYPES]
    said = subprocess.run(run, check=True, timeout=120, capture_output=True, text=True).stdout
    expected = [
        "must be a pair of numbers, not 3",
        "must be a pair of numbers, not ('x', 1)",
        "must be a pair of numbers, not (1,)",
        "4 is not below 2",
        "the kind 5 is not one of continuous",
        "column_kinds must be a dictionary by column, not ['x0']",
        "bounds must be a dictionary by column, not (0, 1)",
    ]
    assert all(part in line for part, line in zip(expected, said.splitlines(), strict=True)), said


@pytest.mark.parametrize("marks", [[-999, "?"], (-999.0, "?"), {-999, "?"}])
def test_several_values_can_mean_missing(marks):
    frame = pd.DataFrame(
        {
            "a": [1.5, 2.5, -999, 4.5, 3.0, 2.0],
            "b": ["p", "?", "q", "p", None, "q"],
            "c": [1, 2, 3, 4, -999, 6],
        }
    )
    completed = make(missing_values=marks).fit_transform(frame)
    assert (completed["a"] > 0).all()
    assert set(completed["b"]) == {"p", "q"}
    assert (completed["c"] > 0).all()
    assert list(completed.dtypes) == list(frame.dtypes)
