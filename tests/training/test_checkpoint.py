import json
import os
import struct

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from safetensors.numpy import save_file

from miwae.errors import FileFormatError, MiwaeError
from miwae.training._checkpoint import load_tree, save_tree

TREE = {
    "weights": jnp.arange(6.0).reshape(2, 3),
    "step": jnp.asarray(7, dtype=jnp.int32),
    "key": jax.random.key(3, impl="rbg"),
    "seen": jnp.array([True, False]),
    "name": "not an array",
}
LIKE = {
    **jax.tree.map(jnp.zeros_like, {k: TREE[k] for k in ("weights", "step", "seen")}),
    "key": jax.random.key(0, impl="rbg"),
    "name": "not an array",
}


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "tree.safetensors"
    save_tree(path, TREE, {"kind": "test", "note": "ä"})
    return path


def test_what_is_saved_is_loaded_bit_for_bit(path):
    tree, header = load_tree(path, LIKE)
    assert header == {"kind": "test", "note": "ä"}
    assert tree["name"] == "not an array"
    for name in ("weights", "step", "seen"):
        assert np.array_equal(tree[name], TREE[name])
        assert tree[name].dtype == TREE[name].dtype
    draw = lambda key: jax.random.normal(key, (3,))  # noqa: E731
    assert np.array_equal(draw(tree["key"]), draw(TREE["key"]))


def test_the_same_content_gives_the_same_bytes(path, tmp_path):
    """By which a cluster knows the model of parts that are completed already."""
    for _ in range(20):
        save_tree(tmp_path / "again", TREE, {"kind": "test", "note": "ä"})
        assert (tmp_path / "again").read_bytes() == path.read_bytes()


@pytest.mark.parametrize("length", [0, 4, 9, 100, -1])
def test_a_truncated_file_is_refused(path, length):
    data = path.read_bytes()
    path.write_bytes(data[:length])
    with pytest.raises(FileFormatError, match="truncated or not a miwae file"):
        load_tree(path, LIKE)


def test_foreign_files_are_refused(path):
    path.write_bytes(b"PK\x03\x04" + os.urandom(500))
    with pytest.raises(FileFormatError, match="truncated or not"):
        load_tree(path, LIKE)
    save_file({"weights": np.zeros(3)}, path)
    with pytest.raises(FileFormatError, match="safetensors file, but not one of miwae"):
        load_tree(path, LIKE)


def test_a_header_that_claims_to_be_huge_is_refused(path):
    path.write_bytes(struct.pack("<Q", 2**60) + b"{}")
    with pytest.raises(FileFormatError, match="truncated or not"):
        load_tree(path, LIKE)


def test_a_later_version_is_refused_by_name(path):
    data = path.read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    header = json.loads(data[8 : 8 + length])
    header["__metadata__"]["version"] = "99"
    new = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(new)) + new + data[8 + length :])
    with pytest.raises(FileFormatError, match="file format 99"):
        load_tree(path, LIKE)


def test_a_changed_bit_anywhere_is_refused_or_changes_nothing(path):
    data = path.read_bytes()
    for place in range(8, len(data), 7):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(bytes(changed))
        try:
            tree, header = load_tree(path, LIKE)
        except FileFormatError:
            continue
        assert header == {"kind": "test", "note": "ä"}
        assert np.array_equal(tree["weights"], TREE["weights"])


def test_a_file_of_another_model_is_refused_by_name(path):
    with pytest.raises(FileFormatError, match=r"weights.* has shape \(2, 3\), expected \(2, 4\)"):
        load_tree(path, {**LIKE, "weights": jnp.zeros((2, 4))})
    with pytest.raises(FileFormatError, match="lacks array .*more"):
        load_tree(path, {**LIKE, "more": jnp.zeros(1)})
    with pytest.raises(FileFormatError, match="unknown array .*weights"):
        load_tree(path, {k: v for k, v in LIKE.items() if k != "weights"})
    with pytest.raises(FileFormatError, match="has type float32, expected int32"):
        load_tree(path, {**LIKE, "weights": jnp.zeros((2, 3), dtype=jnp.int32)})


def test_a_failed_write_leaves_the_old_file_and_no_other(path, monkeypatch):
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(MiwaeError, match="No space"):
        save_tree(path, {**TREE, "weights": jnp.ones((2, 3))}, {})
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_modules_are_saved_by_the_names_of_their_fields(tmp_path):
    layer = eqx.nn.Linear(2, 3, key=jax.random.key(0))
    save_tree(tmp_path / "layer", layer, {})
    blank = jax.tree.map(jnp.zeros_like, layer)
    loaded, _ = load_tree(tmp_path / "layer", blank)
    assert np.array_equal(loaded.weight, layer.weight)
