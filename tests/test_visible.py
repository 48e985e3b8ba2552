"""Names out of tables cannot act on the terminal in which Python shows them."""

import dataclasses

import numpy as np
import pytest

from columns.cases import column_of
from miwae import DataWarning, pool
from miwae._callers import warn_caller
from miwae._words import visible
from miwae.columns import infer_schema
from miwae.tabular import Quality
from miwae.tabular._quality import ColumnQuality

NAME, SHOWN = "a\x1b[2J\u202eb", r"a\x1b[2J\u202eb"


def test_characters_that_terminals_obey_are_written_out():
    assert visible(NAME) == SHOWN
    assert visible("größe\n日本 😀") == "größe\n日本 😀"


def test_what_python_shows_has_names_written_out():
    column = dataclasses.replace(column_of([1.0, 2.5, np.nan]), name=NAME)
    schema = infer_schema([column])
    quality = Quality((ColumnQuality(NAME, "real", 3, "too few cells"),))
    for shown in (schema, quality):
        assert SHOWN in str(shown)
        assert NAME not in str(shown)
    pooled = dataclasses.replace(pool([1.0, 2.0], [0.1, 0.1]), names=(NAME,))
    assert SHOWN in repr(pooled)


def test_warnings_have_names_written_out():
    with pytest.warns(DataWarning) as caught:
        warn_caller(f"column {NAME} is empty")
    assert str(caught[0].message) == f"column {SHOWN} is empty"
