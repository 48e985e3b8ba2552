"""Numbers as people write them: read, and imputed in the same format."""

import numpy as np
import pytest
from pyarrow import parquet

from documents.texts import Learned, copied, patched_texts
from miwae.columns import Cells
from miwae.documents._cells import format_of
from miwae.documents._dress import Dress, common_dress
from miwae.documents._formats import NumberFormat, example_of
from miwae.documents._opening import open_text


def read(cells, like=None):
    lines = "".join(f'"{cell}",x\n' for cell in ["name", *cells])
    return open_text(lines.encode()).read(like=like)


@pytest.mark.parametrize(
    ("cells", "values", "whole", "new", "text"),
    [
        (["$1,045.76", "$950.10"], [1045.76, 950.10], False, 12345.678, "$12,345.68"),
        (["1.0%", "12.5%"], [1.0, 12.5], False, 7.77, "7.8%"),
        (["1,766", "950", "1,000,000"], [1766, 950, 1e6], True, 2345.4, "2,345"),
        (["-$5.50", "$1,000.25"], [-5.5, 1000.25], False, -1234.5, "-$1,234.50"),
        (["$-5.50", "$1.25"], [-5.5, 1.25], False, -2.5, "$-2.50"),
        (["10 %", "7 %"], [10, 7], True, 8.4, "8 %"),
        (["5.00 €", "12.50 €"], [5, 12.5], False, 0.5, "0.50 €"),
        (["1 766", "12 500"], [1766, 12500], True, 1234567.0, "1 234 567"),
        (["1'766.5", "12.0"], [1766.5, 12], False, 1234.0, "1'234.0"),
    ],
)
def test_they_are_numbers_and_filled_in_their_format(cells, values, whole, new, text):
    reading = read([*cells, ""])
    column = reading.columns[0]
    assert (column.storage, column.whole) == ("number", whole)
    assert column.observed_values.tolist() == values
    at_end = Cells(np.array([len(cells)]), np.array([new]))
    assert patched_texts(reading, 0, at_end) == [*cells, text]


@pytest.mark.parametrize(
    "cells",
    [
        ["$5", "€5"],  # of two currencies
        ["5%", "5"],
        ["1,766", "1766"],  # separated and not
        ["01,766", "2,000"],
        ["1,76", "2,00"],  # a decimal comma in a file with points
        ["$", "5"],
    ],
)
def test_what_is_not_of_one_format_is_text(cells):
    assert read(cells).columns[0].storage == "text"


def test_a_comma_that_could_be_a_decimal_mark_is_none():
    assert open_text(b"a;b\n1,766;x\n1,250;y\n").read().columns[0].storage == "text"
    point, *_ = open_text(b"a;b\n1,766;0.5\n1,250;0.25\n").read().columns
    assert point.values.tolist() == [1766, 1250]
    comma, *_ = open_text(b"a;b\n1.766;0,5\n12.250;0,25\n").read().columns
    assert comma.values.tolist() == [1766, 12250]


@pytest.mark.parametrize(
    ("dress", "mark"),
    [
        (Dress("$", "", ","), "."),
        (Dress("", " €", "."), ","),
        (Dress("", "%"), "."),
        (Dress("", "", "'", inner=False), "."),
    ],
)
def test_a_model_knows_the_format_by_its_example(dress, mark):
    form = NumberFormat(2, mark=mark, dress=dress)
    assert format_of(example_of(form)) == form


def test_a_column_without_values_is_filled_as_learned():
    reading = read([""], [Learned("number", "$1,234,567.50"), Learned("text")])
    assert patched_texts(reading, 0, Cells(np.array([0]), np.array([1234.5]))) == ["$1,234.50"]


def test_plain_numbers_have_no_dress():
    assert common_dress(["5", "6.5"], ".", sure=True) == Dress()
    assert common_dress([], ".", sure=True) is None


def test_prices_become_numbers_in_typed_files(tmp_path):
    (tmp_path / "in.csv").write_bytes(b'price,n\n"$1,045.76","1,766"\n$3.10,5\n')
    copied(tmp_path / "in.csv", tmp_path / "out.parquet")
    expected = [{"price": 1045.76, "n": 1766}, {"price": 3.1, "n": 5}]
    assert parquet.read_table(tmp_path / "out.parquet").to_pylist() == expected
