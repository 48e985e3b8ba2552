"""Names out of tables cannot act on the terminal in which Python shows them."""

import dataclasses
from pathlib import Path

import numpy as np
import pytest

from columns.cases import column_of
from miwae import DataWarning, cli, pool
from miwae._callers import warn_caller
from miwae._words import visible
from miwae.cli._comparison import report_record
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


def test_what_commands_tell_between_their_results_has_names_written_out(capsys):
    failed = {"data": NAME, "mask": 0, "method": "knn", "error": f"column {NAME}", "seconds": 1.0}
    report_record(failed, 2)
    assert capsys.readouterr().err == f"{SHOWN}  mask 1 of 2  knn: column {SHOWN} (1.0 s)\n"


def test_commands_write_to_the_terminal_where_names_are_written_out():
    """Elsewhere only JSON is written, a version, and the text that is shown in an interrupt."""
    direct = {
        path.name: path.read_text(encoding="utf-8").count("sys.stderr.write(")
        for path in Path(cli.__file__).parent.glob("*.py")
    }
    assert {name: n for name, n in direct.items() if n} == {"_report.py": 1, "_visible.py": 1}
