"""One small table, fitted once for all tests that only ask it."""

import pytest

from miwae.columns import infer_schema
from miwae.frames import columns
from miwae.tabular import EncodedTable, FittedTable
from tabular.small_tables import SMALL, mixed_frame


@pytest.fixture(scope="session")
def table():
    own = columns(mixed_frame())
    return EncodedTable.of(infer_schema(own), own)


@pytest.fixture(scope="session")
def fitted(table):
    return FittedTable.fit(table, SMALL, marks=(-9, "?", float("nan")))
