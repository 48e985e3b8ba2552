"""The six UCI tables on which the paper compares imputations, and its digits, as arrays.

They are looked for in the directory that the environment variable MIWAE_DATA names, then in
scikit-learn's own sets, then on OpenML.
"""

import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from jaxtyping import Float, Int
from sklearn.datasets import fetch_openml, load_breast_cancer

from miwae.errors import DataError, SettingsError

__all__ = ["DATASETS", "Digits", "Source", "load", "load_digits"]


class Source(NamedTuple):
    """Where a table is, and what it looks like.

    Attributes:
        file: its name in $MIWAE_DATA: CSV with one header line, the target in the last column.
        openml: its number there.
        n_rows: rows.
        n_features: columns before the target.
        numeric_target: whether the target is a number, not the name of a class.
    """

    file: str
    openml: int
    n_rows: int
    n_features: int
    numeric_target: bool


DATASETS = {
    "banknote": Source("banknote.csv", 1462, 1372, 4, numeric_target=False),
    "breast": Source("breast_wdbc.csv", 1510, 569, 30, numeric_target=False),
    "concrete": Source("concrete.csv", 4353, 1030, 8, numeric_target=True),
    "red": Source("wine_red.csv", 40691, 1599, 11, numeric_target=True),
    "white": Source("wine_white.csv", 40498, 4898, 11, numeric_target=True),
    "yeast": Source("yeast.csv", 181, 1484, 8, numeric_target=False),
}


DIGITS = "mnist_static_binarized_packed.npz"


class Digits(NamedTuple):
    """Images of 28 x 28 black and white pixels, in C order, and what they show."""

    x: Float[np.ndarray, "N 784"]  # 0 and 1
    labels: Int[np.ndarray, " N"]


def load_digits(split: str, n_images: int | None = None) -> Digits:
    """The static binarisation of MNIST by Larochelle, with labels.

    Args:
        split: "train" (50,000 images), "valid" or "test" (10,000 each).
        n_images: only the first so many.

    Raises:
        SettingsError: an unknown split.
        DataError: the file is not there; it is not on OpenML.
    """
    if split not in ("train", "valid", "test"):
        raise SettingsError(f"split must be train, valid or test, not {split!r}")
    path = Path(os.environ.get("MIWAE_DATA", "")) / DIGITS
    if not os.environ.get("MIWAE_DATA") or not path.is_file():
        raise DataError(
            f"the binarised digits are read from {DIGITS}, which is not in the directory that the "
            f"variable MIWAE_DATA names ({os.environ.get('MIWAE_DATA')!r})"
        )
    with np.load(path) as arrays:
        packed, labels = arrays[split][:n_images], arrays[f"{split}_labels"][:n_images]
    return Digits(np.unpackbits(packed, axis=1).astype(np.float32), labels.astype(np.int64))


def load(name: str, *, target: bool = True) -> Float[np.ndarray, "N D"]:
    """A table of the paper, complete, all columns numbers, not yet standardised.

    Args:
        name: one of `DATASETS`.
        target: keep the last column (the quality of wines, the strength of concrete) as one
            more column, as the authors did for wines; classes, which are names, are never kept.

    Raises:
        SettingsError: an unknown name.
        DataError: the table is not to be had, or not the one that it should be.
    """
    if name not in DATASETS:
        raise SettingsError(f"data set {name!r} is not one of {', '.join(DATASETS)}")
    source = DATASETS[name]
    n_columns = source.n_features + (target and source.numeric_target)
    x = _found(name, source, n_columns)
    if x.shape != (source.n_rows, n_columns) or not np.isfinite(x).all():
        raise DataError(
            f"the table {name!r} should have {source.n_rows} rows and {n_columns} columns without "
            f"holes, but has the shape {x.shape}: is {source.file} the right file?"
        )
    return x


def _found(name: str, source: Source, n_columns: int) -> Float[np.ndarray, "N D"]:
    directory = os.environ.get("MIWAE_DATA")
    if directory and (path := Path(directory) / source.file).is_file():
        return np.loadtxt(path, delimiter=",", skiprows=1, usecols=range(n_columns))
    if name == "breast":
        return np.asarray(load_breast_cancer(return_X_y=True)[0], dtype=float)
    try:
        features, values = fetch_openml(
            data_id=source.openml, as_frame=False, parser="liac-arff", return_X_y=True
        )
    except Exception as error:  # offline: the client raises whatever the network raised
        raise DataError(
            f"the table {name!r} could not be fetched from OpenML ({error}); without a network, "
            f"put {source.file} into a directory and name it in the variable MIWAE_DATA"
        ) from error
    # OpenML gives the target apart where it knows it as one, else as the last column.
    columns = features if values is None else np.column_stack([features, values])
    return np.asarray(columns[:, :n_columns], dtype=float)
