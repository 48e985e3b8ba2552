import dataclasses

import numpy as np
import pytest

from miwae.errors import SettingsError
from miwae.training import TrainingSettings
from small_training import SMALL


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_samples": 0}, "n_samples must be at least 1, not 0"),
        ({"batch_size": -1}, "batch_size must be at least 1"),
        ({"estimator": "reinforce"}, "estimator must be one of"),
        ({"held_out": 1.0}, "held_out must be in"),
        ({"input_dropout": 1.0}, "input_dropout must be in"),
        ({"learning_rate": 0.0}, "learning_rate must be positive"),
        ({"schedule": "linear"}, "schedule must be one of constant, cosine"),
        ({"patience": 0}, "patience must be at least 1"),
        ({"max_seconds": -1.0}, "max_seconds must be at least 0"),
        ({"min_improvement": np.nan}, "min_improvement must be at least 0"),
        ({"divergence": -1.0}, "divergence must be positive"),
    ],
)
def test_bad_settings_are_refused_by_name(change, message):
    with pytest.raises(SettingsError, match=message):
        dataclasses.replace(SMALL, **change)


def test_finishing_needs_a_constant_rate():
    with pytest.raises(SettingsError, match="constant"):
        TrainingSettings(finish=0.3, schedule="cosine")
