"""Fitted tables as files: the same bits, nothing that is code, plain words for old files."""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from columns.cases import KINDS
from miwae.columns import infer_schema
from miwae.columns.kinds import Coded, Constant
from miwae.errors import DataError, FileFormatError
from miwae.frames import columns
from miwae.tabular import EncodedTable, FittedTable, TableSettings
from miwae.tabular._file import _as_fields, _column, _plain, _restored
from small_training import arrays_of

FILES = Path(__file__).parents[1] / "files"


@pytest.fixture(scope="module")
def loaded(fitted, tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "model"
    fitted.save(path, {"names": ["a", 1], "limits": (None, float("inf"))})
    return FittedTable.load(path)


def assert_same_arrays(one, two):
    for a, b in zip(arrays_of(one), arrays_of(two), strict=True):
        np.testing.assert_array_equal(a, b)


def test_everything_comes_back(fitted, loaded):
    own, extra = loaded
    assert extra == {"names": ["a", 1], "limits": (None, float("inf"))}
    assert own.schema == fitted.schema
    assert own.settings == fitted.settings
    assert own.training == fitted.training
    assert own.incomplete == fitted.incomplete
    assert own.marks == (-9, "?")  # NaN is missing anyway
    assert own.events == fitted.events
    assert own.history == fitted.history
    assert own.quality == fitted.quality
    assert_same_arrays([m.autoencoder for m in own.models], [m.autoencoder for m in fitted.models])


def test_a_loaded_table_imputes_and_scores_bit_for_bit(fitted, loaded, table):
    own, _ = loaded
    one, two = fitted.means(table).cells, own.means(table).cells
    assert list(one) == list(two)
    for position in one:
        assert one[position].values.tolist() == two[position].values.tolist()
    assert fitted.log_prob(table).tolist() == own.log_prob(table).tolist()


def test_a_loaded_table_goes_on_learning_bit_for_bit(fitted, loaded, table):
    one, two = fitted.updated(table), loaded[0].updated(table)
    assert_same_arrays([m.autoencoder for m in one.models], [m.autoencoder for m in two.models])


def test_a_table_without_models(tmp_path):
    own = columns(pd.DataFrame({"a": [1.0, np.nan], "b": ["x", "x"]}))
    fitted = FittedTable.fit(EncodedTable.of(infer_schema(own), own), TableSettings())
    fitted.save(tmp_path / "model")
    assert FittedTable.load(tmp_path / "model") == (fitted, {})


@pytest.mark.parametrize("name", KINDS)
def test_every_kind_survives_the_file(name):
    known = KINDS[name].schema()
    fields = json.loads(json.dumps(_plain(_as_fields(known)), allow_nan=False))
    restored = _column(_restored(fields))
    assert restored == known
    assert list(map(type, restored.kind.levels)) == list(map(type, known.kind.levels))
    column = KINDS[name].column()
    np.testing.assert_array_equal(restored.encoded(column).values, known.encoded(column).values)


@pytest.mark.parametrize("value", [pd.Interval(0, 1), b"x", 1j])
def test_levels_that_a_file_cannot_hold_are_refused_by_name(value):
    for kind in (Constant(value=value), Coded(label="binary", levels=(value, "y"))):
        known = KINDS["colours"].schema()
        fields = _as_fields(type(known)(name="a", kind=kind, reason="", storage="category"))
        with pytest.raises(DataError, match=f"cannot save {re.escape(repr(value))} of type"):
            _plain(fields)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"storage": "cloud"}, "storage cannot be 'cloud'"),
        ({"kind": {"class": "Other"}}, "the column kind 'Other' is not known"),
        (
            {"kind": {"class": "Number", "label": "positive", "scale": {"shape": "cube"}}},
            "shape cannot be 'cube'",
        ),
    ],
)
def test_unknown_names_in_a_file_are_refused(changes, message):
    fields = {**_as_fields(KINDS["temperatures"].schema()), **changes}
    with pytest.raises(FileFormatError, match=f"^{message}$"):
        _column(fields)


def test_models_of_an_older_format_have_to_be_fitted_again():
    path = FILES / "format-3.miwae"
    message = (
        f"{path} has file format 3, which this version of miwae does not read (it reads format "
        "7): fit the model again"
    )
    with pytest.raises(FileFormatError) as raised:
        FittedTable.load(path)
    assert str(raised.value) == message
