"""Files that are truncated, foreign or hostile are refused, soon and without much memory."""

import copy
import functools
import json
import pickle
import time
from pathlib import Path

import equinox as eqx
import numpy as np
import pytest
from safetensors.numpy import save_file

from imputer.tables import CHEAP, numbers
from miwae import frames
from miwae.columns import infer_schema
from miwae.errors import FileFormatError
from miwae.tabular import EncodedTable, FittedTable, TableSettings
from miwae.training._checkpoint import signed


@pytest.fixture(scope="module")
def saved(tmp_path_factory):
    path = tmp_path_factory.mktemp("saved") / "model"
    columns = frames.columns(numbers())
    table = EncodedTable.of(infer_schema(columns), columns)
    settings = {name: value for name, value in CHEAP.items() if name != "random_state"}
    FittedTable.fit(table, TableSettings(**settings)).save(path)
    return path.read_bytes()


def parts_of(data):
    """The table of arrays with the metadata, and the bytes of the arrays."""
    length = int.from_bytes(data[:8], "little")
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def joined(table, body):
    """A file of these parts with the right digest, as somebody who means harm would write it."""
    head = json.dumps(table).encode()
    return signed(len(head).to_bytes(8, "little") + head + body)


def edited(data, edit, *, padding=0):
    """The file with another header, which `edit` changes in place or returns."""
    table, body = parts_of(data)
    header = json.loads(table["__metadata__"]["header"])
    header = edit(header) or header
    text = header if isinstance(header, str) else json.dumps(header)
    table["__metadata__"]["header"] = text + " " * padding
    return joined(table, body)


def replaced(pairs, name, value):
    """A dictionary as files hold it, with another value."""
    assert name in [key for key, _ in pairs["dict"]]
    return {"dict": [[key, value if key == name else old] for key, old in pairs["dict"]]}


def entry(name, value):
    return lambda header: header.update({name: value})


def setting(name, value, part="settings"):
    return lambda header: header.update({part: replaced(header[part], name, value)})


def column_value(name, value):
    def edit(header):
        header["schema"][0] = replaced(header["schema"][0], name, value)

    return edit


def kind_value(name, value):
    def edit(header):
        kind = dict(header["schema"][0]["dict"])["kind"]
        column_value("kind", replaced(kind, name, value))(header)

    return edit


def scale_value(name, value):
    def edit(header):
        kind = dict(dict(header["schema"][0]["dict"])["kind"]["dict"])
        kind_value("scale", replaced(kind["scale"], name, value))(header)

    return edit


def peak_memory():
    """Bytes that this process held at most since the last `forget_peak`."""
    status = Path("/proc/self/status").read_text()
    return 1024 * int(status.split("VmHWM:")[1].split()[0])


def forget_peak():
    Path("/proc/self/clear_refs").write_text("5")


def refuse(path, data, *, match=None):
    """Loading fails with the right error, soon, and without much memory."""
    path.write_bytes(data)
    measured = Path("/proc/self/clear_refs").exists()
    if measured:
        forget_peak()
    before, start = (peak_memory() if measured else 0), time.monotonic()
    with pytest.raises(FileFormatError, match=match):
        FittedTable.load(path)
    assert time.monotonic() - start < 5
    if measured:
        assert peak_memory() - before < 100 * 2**20


@pytest.mark.parametrize("quarter", range(4))
def test_truncated_files_are_refused(saved, tmp_path, quarter):
    refuse(tmp_path / "model", saved[: quarter * len(saved) // 4])


def test_files_that_lack_their_last_byte_or_have_one_more_are_refused(saved, tmp_path):
    refuse(tmp_path / "model", saved[:-1])
    refuse(tmp_path / "model", saved + b"\0")


def test_foreign_files_are_refused(saved, tmp_path):
    path = tmp_path / "model"
    save_file({"weights": np.zeros(3)}, path)
    refuse(path, path.read_bytes(), match="not one of miwae")
    refuse(path, b"a,b,c\n1,2,3\n" * 100)
    refuse(path, pickle.dumps({"a": 1}))
    refuse(path, (2**62).to_bytes(8, "little") + b"{}")
    refuse(path, (90 * 2**20).to_bytes(8, "little") + b"{}")
    checkpoint = edited(saved, lambda header: header.update(kind="checkpoint"))
    refuse(path, checkpoint, match="not a fitted table")


def test_unknown_versions_are_refused(saved, tmp_path):
    table, body = parts_of(saved)
    for version in ("1", "99"):
        table["__metadata__"]["version"] = version
        refuse(tmp_path / "model", joined(table, body), match=f"file format {version}")


def test_every_changed_bit_is_noticed(saved, tmp_path):
    path = tmp_path / "model"
    path.write_bytes(saved)
    whole, _ = FittedTable.load(path)
    rng = np.random.default_rng(0)
    length = int.from_bytes(saved[:8], "little")
    places = [*rng.integers(8 + length, size=60), *rng.integers(len(saved), size=60)]
    for place in places:
        data = bytearray(saved)
        data[place] ^= 1 << int(rng.integers(8))
        path.write_bytes(bytes(data))
        try:
            same, _ = FittedTable.load(path)
        except FileFormatError:
            continue
        assert eqx.tree_equal(same.models, whole.models)
        assert (same.schema, same.settings) == (whole.schema, whole.settings)


DEEP = functools.reduce(lambda value, _: [value], range(900), [])

HOSTILE = {
    "wide network": setting("n_hidden", 10**6),
    "wide latent variable": setting("n_latent", 10**7),
    "deep network": setting("n_layers", 10**9),
    "no width": setting("n_hidden", 0),
    "negative depth": setting("n_layers", -5),
    "width in words": setting("n_hidden", "many"),
    "width that is no integer": setting("n_hidden", 8.5),
    "infinite width": setting("n_hidden", {"float": "inf"}),
    "huge number": setting("n_hidden", 10**400),
    "unknown setting": lambda h: h["settings"]["dict"].append(["evil", 1]),
    "seed in words": setting("seed", "x"),
    "a billion latent samples": setting("n_imputation_samples", 10**9),
    "objective that is unknown": setting("objective", "elbo"),
    "depth that is a list": setting("n_layers", [3]),
    "flag in words": setting("bootstrap", "yes"),
    "training that is none": setting("learning_rate", "fast", "training"),
    "many models": entry("histories", [[]] * 100_000),
    "fewer models": entry("histories", []),
    "no settings of training": entry("training", None),
    "unknown setting of training": entry("training", {"dict": [["evil", 1]]}),
    "columns in words": entry("schema", "abc"),
    "no column": entry("schema", []),
    "a column too few": lambda h: h["schema"].pop(),
    "missing cells in words": entry("incomplete", ["a"]),
    "events that are none": entry("events", [1]),
    "events of another length": entry("events", [["kind", "a"]]),
    "no extra": lambda h: h.pop("extra") and None,
    "unknown kind": kind_value("class", "Evil"),
    "other kind": kind_value("class", "Count"),
    "kind in words": column_value("kind", "Number"),
    "name that is a number": column_value("name", 5),
    "two columns of one name": column_value("name", "b"),
    "reason that is a list": column_value("reason", [1]),
    "range in words": column_value("plausible", "all"),
    "range of one number": column_value("plausible", {"tuple": [1.0]}),
    "label that is unknown": kind_value("label", "evil"),
    "limit in words": kind_value("lower", "low"),
    "limits in the wrong order": lambda h: (kind_value("lower", 2)(h), kind_value("upper", 1)(h))[
        2:
    ],
    "column that is no column": entry("incomplete", [99]),
    "column below all": entry("incomplete", [-1]),
    "scale without spread": scale_value("spread", 0.0),
    "scale that is no number": scale_value("centre", {"float": "nan"}),
    "scale in words": scale_value("unit", "metre"),
    "unknown storage": column_value("storage", "week"),
    "unknown scale": kind_value("scale", {"dict": [["shape", "cube"]]}),
    "unknown field": lambda h: h["schema"][0]["dict"].append(["evil", 1]),
    "unknown type of value": entry("extra", {"object": []}),
    "ambiguous value": entry("extra", {"tuple": [], "dict": []}),
    "unhashable key": entry("extra", {"dict": [[[1], 2]]}),
    "empty header": lambda h: "{}",
    "header that is a list": lambda h: "[]",
    "header that is no JSON": lambda h: "{",
    "nothing but depth": lambda h: "[" * 200_000 + "]" * 200_000,
    "deep value": entry("extra", DEEP),
    "infinite seed": setting("seed", {"float": "inf"}),
    "number of 10,000 digits": lambda h: '{"kind": ' + "9" * 10_000 + "}",
}


@pytest.mark.parametrize("what", HOSTILE)
def test_hostile_headers_are_refused(saved, tmp_path, what):
    refuse(tmp_path / "model", edited(saved, HOSTILE[what]))


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_weights_that_are_not_finite_are_refused(saved, tmp_path, value):
    table, body = parts_of(saved)
    name = next(n for n in table if table[n].get("dtype") == "F32" and "weight" in n)
    start = table[name]["data_offsets"][0]
    body = body[:start] + np.float32(value).tobytes() + body[start + 4 :]
    refuse(tmp_path / "model", joined(table, body), match="not finite")


def test_a_wide_latent_variable_beside_a_wide_layer_is_refused(saved, tmp_path):
    def edit(header):
        setting("n_hidden", 3000)(header)
        setting("n_latent", 3000)(header)

    refuse(tmp_path / "model", edited(saved, edit, padding=80_000))


def test_wrong_shapes_and_types_are_refused(saved, tmp_path):
    table, body = parts_of(saved)
    names = [name for name in table if len(table[name].get("shape", ())) == 2]
    assert names
    for change in ("transpose", "flatten", "type", "absent", "renamed"):
        changed = copy.deepcopy(table)
        name = next(n for n in names if len(set(table[n]["shape"])) == 2)
        entry = changed[name]
        if change == "transpose":
            entry["shape"] = entry["shape"][::-1]
        elif change == "flatten":
            entry["shape"] = [int(np.prod(entry["shape"]))]
        elif change == "type":
            entry["dtype"] = "I32"
        else:
            del changed[name]
            if change == "renamed":
                changed["evil"] = entry
        refuse(tmp_path / "model", joined(changed, body))
    changed = copy.deepcopy(table)
    changed[names[0]]["shape"] = [2**40, 2**20]
    refuse(tmp_path / "model", joined(changed, body))
