import os
from pathlib import Path
from urllib.error import URLError

import numpy as np
import pytest

import paper_data
from miwae.errors import DataError, SettingsError
from paper_data import DATASETS, load, load_digits


def write(directory, name, n_rows):
    source = DATASETS[name]
    rows = np.arange(n_rows * source.n_features).reshape(n_rows, -1)
    target = "5" if source.numeric_target else "yes"
    lines = [",".join([*map(str, row), target]) for row in rows]
    header = ",".join(["a"] * (source.n_features + 1))
    (directory / source.file).write_text("\n".join([header, *lines]) + "\n")


def test_files_are_read_with_and_without_the_target(tmp_path, monkeypatch):
    monkeypatch.setenv("MIWAE_DATA", str(tmp_path))
    write(tmp_path, "red", 1599)
    write(tmp_path, "banknote", 1372)
    with_quality = load("red")
    assert with_quality.shape == (1599, 12)
    np.testing.assert_array_equal(with_quality[:, -1], 5.0)
    np.testing.assert_array_equal(load("red", target=False), with_quality[:, :-1])
    np.testing.assert_array_equal(load("banknote")[1], [4, 5, 6, 7])  # its classes are names


def test_a_wrong_file_is_named(tmp_path, monkeypatch):
    monkeypatch.setenv("MIWAE_DATA", str(tmp_path))
    write(tmp_path, "concrete", 7)
    with pytest.raises(DataError, match=r"1030 rows and 9 columns .* is concrete.csv the right"):
        load("concrete")


def test_breast_comes_with_scikit_learn(monkeypatch):
    monkeypatch.delenv("MIWAE_DATA", raising=False)
    x = load("breast")
    assert x.shape == (569, 30)
    assert x[:, 0].mean() == pytest.approx(14.127, abs=1e-3)  # as published


def test_offline_says_what_to_do(monkeypatch):
    def offline(**_):
        raise URLError("no network")

    monkeypatch.delenv("MIWAE_DATA", raising=False)
    monkeypatch.setattr(paper_data, "fetch_openml", offline)
    with pytest.raises(DataError, match=r"no network.* put yeast.csv into .* MIWAE_DATA"):
        load("yeast")


@pytest.mark.parametrize("apart", [True, False])
def test_openml_gives_the_target_apart_or_not(monkeypatch, apart):
    x = np.arange(1030.0 * 9).reshape(1030, 9)
    answer = (x[:, :8], x[:, 8].astype(str)) if apart else (x, None)
    monkeypatch.delenv("MIWAE_DATA", raising=False)
    monkeypatch.setattr(paper_data, "fetch_openml", lambda **_: answer)
    np.testing.assert_array_equal(load("concrete"), x)
    np.testing.assert_array_equal(load("concrete", target=False), x[:, :8])


def test_unknown_names():
    with pytest.raises(SettingsError, match="'wine' is not one of banknote, breast"):
        load("wine")


@pytest.mark.parametrize("name", DATASETS)
def test_the_tables_are_those_of_the_paper(name):
    source = DATASETS[name]
    if not (Path(os.environ.get("MIWAE_DATA", "missing")) / source.file).is_file():
        pytest.skip("the tables are not here: name their directory in MIWAE_DATA")
    x = load(name)
    assert len(x) == source.n_rows
    if name == "concrete":  # as published
        assert x[:, -1].mean() == pytest.approx(35.818, abs=1e-3)


def test_digits_are_unpacked_with_their_labels(tmp_path, monkeypatch):
    bits = np.random.default_rng(0).integers(2, size=(5, 784), dtype=np.uint8)
    labels = np.arange(5, dtype=np.uint8)
    np.savez(tmp_path / paper_data.DIGITS, valid=np.packbits(bits, axis=1), valid_labels=labels)
    monkeypatch.setenv("MIWAE_DATA", str(tmp_path))
    digits = load_digits("valid", 3)
    np.testing.assert_array_equal(digits.x, bits[:3])
    np.testing.assert_array_equal(digits.labels, labels[:3])
    with pytest.raises(SettingsError, match="'val'"):
        load_digits("val")
    monkeypatch.setenv("MIWAE_DATA", str(tmp_path / "elsewhere"))
    with pytest.raises(DataError, match=r"mnist_static_binarized_packed.npz.* MIWAE_DATA"):
        load_digits("valid")


def test_the_digits_are_those_of_the_paper():
    if not (Path(os.environ.get("MIWAE_DATA", "missing")) / paper_data.DIGITS).is_file():
        pytest.skip("the digits are not here: name their directory in MIWAE_DATA")
    test = load_digits("test")
    assert test.x.shape == (10_000, 784)
    assert test.x.mean() == pytest.approx(0.132512, abs=1e-6)
    np.testing.assert_array_equal(np.bincount(test.labels)[:3], [980, 1135, 1032])  # as published
