"""An imputer in a file."""

import copy
import dataclasses
import os
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest

from imputer.libraries import COLUMNS, cells_of, completed_of, types_of
from imputer.tables import make, same_bits
from miwae import MIWAEImputer
from miwae.errors import DataError, DataWarning, FileFormatError, MiwaeError

IN_A_NEW_PROCESS = """
import sys
import numpy as np
import openpyxl
import pandas as pd
from miwae import MIWAEImputer

model, rows, out = sys.argv[1:]
rows = pd.read_pickle(rows)
imputer = MIWAEImputer.load(model)
assert "torch" not in sys.modules
np.savez(
    out,
    transform=imputer.transform(rows).to_numpy(),
    sample=imputer.sample(rows, 2).complete(2).to_numpy(),
)
"""


def test_a_new_process_imputes_the_same_bits(trained, tmp_path):
    frame, imputer = trained
    rows = frame.iloc[:40]
    imputer.save(tmp_path / "model")
    rows.to_pickle(tmp_path / "rows")
    names = [str(tmp_path / name) for name in ("model", "rows", "out.npz")]
    subprocess.run([sys.executable, "-c", IN_A_NEW_PROCESS, *names], check=True, timeout=120)
    with np.load(tmp_path / "out.npz") as there:
        assert same_bits(there["transform"], imputer.transform(rows))
        assert same_bits(there["sample"], imputer.sample(rows, 2).complete(2))


def test_everything_is_restored(trained, tmp_path):
    frame, imputer = trained
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert repr(loaded.get_params()) == repr(imputer.get_params())
    assert loaded.schema_ == imputer.schema_
    assert loaded.events_ == imputer.events_
    assert repr(loaded.history_) == repr(imputer.history_)
    assert len(loaded.history_) > 0
    assert loaded._fitted.table.training == imputer._fitted.table.training
    assert loaded._fitted.table.settings == imputer._fitted.table.settings
    assert loaded.n_features_in_ == 3
    assert list(loaded.feature_names_in_) == list("abc")
    assert [file.name for file in tmp_path.iterdir()] == ["model"]


def test_mixed_columns_survive_a_file(tmp_path):
    for name in ("pandas, numpy's types", "pandas, nullable", "numpy, objects"):
        frame, imputer, completed = completed_of(name)
        imputer.save(tmp_path / "model")
        loaded = MIWAEImputer.load(tmp_path / "model")
        assert loaded.schema_ == imputer.schema_
        again = loaded.transform(frame)
        assert types_of(again) == types_of(completed)
        for j in range(len(COLUMNS)):
            assert repr(cells_of(again, j)) == repr(cells_of(completed, j))


def test_any_name_and_any_setting_survives_a_file(linear, tmp_path):
    names = ["../../x", 'quote " and \n line', "naïve ☃ \x00"]
    frame = linear[0].set_axis(names, axis=1).assign(code=pd.Categorical([7] * 33))
    settings = {
        "column_kinds": {"../../x": "continuous"},
        "bounds": {names[1]: (None, np.float64(99))},
        "missing_values": [np.nan, -np.inf, "?", None],
        "add_indicator": True,
    }
    imputer = make(**settings).fit(frame)
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert list(loaded.feature_names_in_) == [*names, "code"]
    assert repr(loaded.missing_values) == repr(settings["missing_values"])
    assert loaded.bounds == settings["bounds"]
    pd.testing.assert_frame_equal(
        loaded.transform(frame), imputer.transform(frame), check_exact=True
    )
    assert [file.name for file in tmp_path.rglob("*")] == ["model"]


def test_an_imputer_without_a_model_survives_a_file(tmp_path):
    frame = pd.DataFrame({"a": [2.5, np.nan], "b": ["x", None]})
    make().fit(frame).save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert loaded.transform(frame).to_numpy().tolist() == [[2.5, "x"], [2.5, "x"]]


@pytest.mark.parametrize("marks", [{-1, -9}, np.array([-1, -9]), pd.NA])
def test_every_kind_of_missing_values_survives_a_file(linear, tmp_path, marks):
    make(missing_values=marks).fit(linear[0]).save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert same_bits(loaded.transform(linear[0]), linear[1].transform(linear[0]))


def test_categories_that_are_no_text_are_refused(tmp_path):
    days = pd.to_datetime(["2020-01-01", "2020-01-02", "2020-01-03"] * 4)
    frame = pd.DataFrame({"day": pd.Categorical(days), "x": np.arange(12) ** 1.5})
    imputer = make().fit(frame)
    with pytest.raises(DataError, match="cannot save Timestamp.*must be text, numbers or bool"):
        imputer.save(tmp_path / "model")
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_cannot_be_written(linear, tmp_path):
    imputer = linear[1]
    for path in (tmp_path / "absent" / "model", tmp_path):
        with pytest.raises(MiwaeError, match="cannot write"):
            imputer.save(path)
    protected = tmp_path / "protected"
    protected.write_bytes(b"precious")
    protected.chmod(0o444)
    if not os.access(protected, os.W_OK):  # root may write everywhere
        with pytest.raises(MiwaeError, match="read-only"):
            imputer.save(protected)
        assert protected.read_bytes() == b"precious"
    assert [file.name for file in tmp_path.iterdir()] == ["protected"]


def test_a_file_that_the_command_line_wrote_is_loaded(linear, tmp_path):
    """`miwae fit` saves a fitted table and nothing about an imputer."""
    frame, imputer = linear
    table = imputer._fitted.table
    dataclasses.replace(table, marks=("?", -999)).save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    for name in ("n_hidden", "n_layers", "n_models", "n_imputation_samples", "bootstrap"):
        assert getattr(loaded, name) == getattr(imputer, name)
    assert loaded.missing_values == ["?", -999]
    assert loaded.random_state == table.settings.seed
    assert list(loaded.feature_names_in_) == list("abc")
    assert loaded.events_ == list(table.events)
    assert same_bits(loaded.transform(frame), imputer.transform(frame))
    # It is an imputer as any other: what it means by missing is missing, and it can be saved.
    marked = frame.fillna(-999)
    assert same_bits(loaded.transform(marked), imputer.transform(frame))
    loaded.save(tmp_path / "again")
    assert MIWAEImputer.load(tmp_path / "again").get_params() == loaded.get_params()


def test_the_output_that_was_asked_for_and_later_events_survive_a_file(words, tmp_path):
    imputer = copy.deepcopy(words[1]).set_output(transform="polars")
    new = pd.DataFrame({"word": ["zebra", "a"], "x": [1.0, np.nan]})
    with pytest.warns(DataWarning, match="zebra"):
        completed = imputer.transform(new)
    imputer.save(tmp_path / "model")
    loaded = MIWAEImputer.load(tmp_path / "model")
    assert [event.about for event in loaded.events_].count("value") == 1
    assert loaded.events_ == imputer.events_
    with pytest.warns(DataWarning, match="zebra"):
        assert loaded.transform(new).equals(completed)


@pytest.mark.parametrize(
    "extra",
    [
        {"parameters": {"evil": 1}},
        {"parameters": "many"},
        {"parameters": None},
        {"output": "stone"},
        {"output": 7},
    ],
)
def test_parameters_that_make_no_sense_are_refused(linear, tmp_path, extra):
    linear[1]._fitted.table.save(tmp_path / "model", extra)
    with pytest.raises(FileFormatError, match="is damaged"):
        MIWAEImputer.load(tmp_path / "model")
