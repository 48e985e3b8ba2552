"""Text files: only the given cells change, and they look like the others of their column."""

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.texts import column_of, fill_texts, filled, levels, patched_texts
from miwae.columns import Cells
from miwae.documents._formats import NumberFormat
from miwae.documents._opening import open_text
from miwae.errors import DataError

# What is filled.


@pytest.mark.parametrize(
    ("cells", "value", "text"),
    [
        (["1", "2", ""], 2.5001, "3"),
        (["0.10", "2", ""], 1 / 3, "0.33"),
        (["0.100", ""], -0.0001, "0.000"),
        (["1", ""], -0.3, "0"),
        (["1e-3", "2.5", ""], 1 / 3, "0.333333"),
        (["1e-3", ""], -0.0, "0"),
        (["1e20", ""], 1.5e21, "1.5e+21"),
        (["1", ""], 1e20, "100000000000000000000"),
        (["NA", ""], 1 / 3, "0.333333"),
        (["a", ""], 1 / 3, "0.333333"),
        # The rounding errors of 8.39459 and -26.69543, as some programs write them.
        (["8.3945900000000009", "-26.695430000000002", "1.5", ""], 1 / 3, "0.33333"),
        (["0.14285714285714285", ""], 1 / 3, "0.333333333333333"),
        (["1.50000000000000000", ""], 0.25, "0.25000000000000000"),
    ],
)
def test_numbers_are_filled_with_the_decimals_of_the_column(cells, value, text):
    assert fill_texts(cells, [value] * cells.count("NA") + [value])[-1] == text


@pytest.mark.parametrize(
    ("cell", "value", "lower", "upper", "text"),
    [
        ("0.3", 0.15, 0.15, np.inf, "0.2"),  # half of the smallest, a little below 0.15
        ("0.000001", 5e-7, 5e-7, np.inf, "0.000001"),  # would be 0, of what is above 0
        ("-0.3", -0.15, -np.inf, -0.15, "-0.2"),
        ("9.5", 9.96, 0.0, 9.97, "9.9"),
        ("9.5", 9.96, 0.0, 10.0, "10.0"),
        ("0.7", 0.7, 0.7, 0.8, "0.7"),
        ("1e-3", 0.12345612, 0.12345612, 1.0, "0.123457"),
        ("1e-3", -9.9999996, -9.9999997, 0.0, "-9.99999"),
        ("1.5", 0.02, 0.01, 0.04, "0.02"),  # no number of one decimal is within
    ],
)
def test_rounding_does_not_leave_the_bounds(cell, value, lower, upper, text):
    cells = Cells(np.array([1]), np.array([value]), lower=lower, upper=upper)
    assert patched_texts(column_of([cell, ""]).read(), 0, cells)[1] == text


@settings(max_examples=200)
@given(
    decimals=st.integers(0, 8),
    exponent=st.booleans(),
    three=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3).map(sorted),
)
def test_what_is_within_bounds_is_written_within(decimals, exponent, three):
    lower, value, upper = three
    text = NumberFormat(decimals, exponent).text(value, lower, upper)
    assert lower <= float(text) <= upper


def test_a_number_that_is_none_is_not_written():
    with pytest.raises(DataError, match="nan"):
        fill_texts(["1.5", ""], [np.nan])


def test_text_is_quoted_where_it_must_be():
    data = b'a,b\n"x, y",1\n"say ""hi""",2\n,3\nNA,4\nplain,5\n'
    table = filled(open_text(data), 0, levels("x, y", 'say "hi"'))
    expected = data.replace(b"\n,3", b'\n"x, y",3').replace(b"NA", b'"say ""hi"""')
    assert table == expected


def test_columns_in_quotes_stay_in_quotes():
    table = open_text(b'"a","b"\n"1.5",x\nNA,y\n')
    assert filled(table, 0, [2.0]) == b'"a","b"\n"1.5",x\n"2.0",y\n'


def test_decimal_commas_are_filled_with_commas():
    table = open_text(b"a;b\n1,50;x\n;y\n")
    assert filled(table, 0, [0.333]) == b"a;b\n1,50;x\n0,33;y\n"


def test_filling_keeps_line_ends_encoding_and_mark():
    data = "a;b\r\nä;1\r\n;2".encode("utf-16")
    table = filled(open_text(data), 0, levels("ä"))
    assert table == "a;b\r\nä;1\r\nä;2".encode("utf-16")


def test_a_text_that_the_encoding_cannot_write_is_refused():
    table = open_text("a,b\né,1\n,2\n".encode("cp1252"))
    with pytest.raises(DataError, match="'本' cannot be written in cp1252"):
        filled(table, 0, levels("本"))


def test_several_columns_are_filled_at_once_and_the_table_is_not_changed():
    data = b"a,b,c\n1,,x\n,2,\n3,4,z\n"
    table = open_text(data)
    one = np.array([1])
    new = table.read().patched(
        {
            2: Cells(one, levels("long text")),
            0: Cells(one, np.array([7.0])),
            1: Cells(one - 1, one),
        }
    )
    assert new == b"a,b,c\n1,1,x\n7,2,long text\n3,4,z\n"
    assert table.read().patched({}) == data


def test_another_delimiter():
    data = b'a,"b,c","d\te",f\tg\n"1,2",x;y,z,\n"t\tu",p\tq,r,"s"\n'
    reading = open_text(data).read()
    tabs = b'a\t"b,c"\t"d\te"\t"f\tg"\n"1,2"\tx;y\tz\t%b\n"t\tu"\t"p\tq"\tr\t"s"\n'
    assert reading.patched({}, ".tsv") == tabs % b""
    cells = Cells(np.array([0]), levels("v\tw"))
    assert reading.patched({3: cells}, ".tsv") == tabs % b'"v\tw"'
    cells = Cells(np.array([1]), levels("v\tw"))  # a cell that would have been quoted
    assert reading.patched({1: cells}, ".tsv") == (tabs % b"").replace(b"p\tq", b"v\tw")


def test_what_was_learned_from_durations_is_not_written():
    cells = Cells(np.array([1]), np.array([90.0]), storage="duration")
    with pytest.raises(DataError, match="'name' was learned from durations"):
        column_of(["1", ""]).read().patched({0: cells})


def test_the_same_patch_gives_the_same_bytes_whatever_was_called_before():
    """3.14 as a number, but 3 where -999.00 does not count for the format."""
    document = open_text(b"a,b\n1,x\n-999.00,\n,y\n")
    row = np.array([2])
    cells = {0: Cells(row, np.array([3.14])), 1: Cells(row - 1, levels("z"))}
    plain, marked = document.read(), document.read((-999,))
    once = plain.patched(cells)
    assert once == b"a,b\n1,x\n-999.00,z\n3.14,y\n"
    assert marked.patched(cells) == b"a,b\n1,x\n-999.00,z\n3,y\n"
    document.read(like=marked.columns).patched(cells, ".tsv")
    marked.frame(cells)
    plain.missing_words()
    assert plain.patched(cells) == once
    assert document.read().patched(cells) == once
    assert document.read().patched({}) == b"a,b\n1,x\n-999.00,\n,y\n"


def test_large_files_are_read_fast():
    line = b"0.1234,5.6,NA,word,-7,0.0,1e3,8.25\n"
    data = b"a,b,c,d,e,f,g,h\n" + line * 100_000
    start = time.perf_counter()
    table = open_text(data)
    numbers = table.read().columns
    written = table.read().patched({})
    # 35 MB in all directions; it takes about 1 s, and 30 s would be a loop over bytes.
    assert time.perf_counter() - start < 15
    assert written == data
    assert [c.storage for c in numbers].count("number") == 7


@pytest.mark.parametrize("end", [b"\n", b"\r\n", b"\r"])
def test_rows_are_counted_as_the_lines_of_an_editor(end):
    lines = [b"# by hand", b"a,b", b"1,x", b'2,"two', b'lines"', b"inf,z"]
    document = open_text(end.join(lines) + end)
    assert document.row_word == "line"
    assert document.row_numbers().tolist() == [3, 4, 6]
    with pytest.raises(DataError, match="the value inf in line 6"):
        document.read().columns[0].require_finite()


def test_rows_without_a_header_are_counted_from_the_first_line():
    assert open_text(b"1,x\n2,y\n", header=False).row_numbers().tolist() == [1, 2]


def test_none_may_be_a_level_where_another_word_means_missing():
    table = b"id,veneer,fence\n1,None,None\n2,brick,wood\n3,NA,wood\n4,None,\n"
    veneer, fence = open_text(table).read().hints()
    assert (veneer.column, fence.column) == ("veneer", "fence")
    assert "None in 2 cells" in veneer.text
    assert "None in 1 cell," in fence.text
    assert veneer.option == "--only-na --na NA --na ''"
    assert (
        open_text(table.replace(b"NA", b"None").replace(b",\n", b",None\n")).read().hints() == ()
    )
    assert open_text(table.replace(b"None", b"NA")).read().hints() == ()
