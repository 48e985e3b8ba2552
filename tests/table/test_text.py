"""Text cells: every character comes back, and only holes change."""

import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from miwae.errors import DataError
from miwae.table.base import Fill
from miwae.table.text import DEFAULT_NA, TextTable, read_text
from miwae.table.text.cells import (
    BooleanStyle,
    Missing,
    NumberStyle,
    _as_anything,
    _as_numbers,
    specimen_of,
    style_of,
)
from miwae.table.text.records import _separators, _separators_one_by_one
from miwae.table.text.times import TimeStyle


def column_of(cells, **options):
    """A column of cells, in a table whose second column keeps blank lines from being blank."""
    lines = "".join(f"{cell}|x\n" for cell in ["name", *cells])
    return read_text(lines.encode(), delimiter="|", **options)


def filled(table, position, values):
    """All holes of a column, filled in turn."""
    rows = np.flatnonzero(table.column(position).missing)
    return table.fill({position: Fill(rows, np.asarray(values))})


def fill_texts(cells, values, **options):
    table = column_of(cells, **options)
    rows = np.flatnonzero(table.column(0).missing)
    after = filled(table, 0, values).texts(0)
    return [after[row] for row in rows]


def levels(*values):
    return np.array(values, dtype=object)


# What is read is written back.


@pytest.mark.parametrize(
    "data",
    [
        b"a,b\n1,2\n",
        b"a,b\r\n0.10,2\r\n,3\r\n",
        b"a,b\n1,2",
        b"a,b\r1,2\r3,4\r",
        b"\xef\xbb\xbfa,b\n1,\xc3\xa9\n",
        "a;b\r\nä;1\r\n".encode("utf-16"),
        b"\xfe\xff" + "a;b\nä;1\n".encode("utf-16-be"),
        "a;b\nä;€\n".encode("cp1252"),
        b"a;b\n\x81\xe4;1\n",
        b'"a","b"\n"1","x ""y"", z"\n',
        b'a,b\n"two\nlines",1\n"x\r\ny",\n',
        b'a,b\n5" pipe,2\n"q"x,3\n',
        b"a\tb\n1 \t 2\n",
        b"a,b\n1,2\n\n\r\n\n",
        b"a,b\r\n1,2\n3,4\r\n",
        b"only\n1\n\n3\n",
        b"a,b",
        b",b,\n1,2,3\n",
        b"a,b\n\r,1\n2,3\n",
        b'a,b\n"","" \n',
    ],
)
def test_an_unchanged_table_is_written_back_byte_for_byte(data):
    assert read_text(data).to_bytes() == data


FIELD = st.text(
    st.characters(codec="utf-8", exclude_categories=("Cc", "Cs"), include_characters='\n\r\t",; '),
    max_size=6,
)


def raw_field(text, quoted, delimiter):
    if quoted or any(mark in text for mark in (delimiter, '"', "\n", "\r")):
        return '"' + text.replace('"', '""') + '"'
    return text


@st.composite
def files(draw):
    """The content of a file, and the texts in it."""
    width = draw(st.integers(2, 4))
    height = draw(st.integers(0, 6))
    delimiter = draw(st.sampled_from(",;\t|"))
    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    names = [f"n{j}" for j in range(width)]
    cells = draw(st.lists(st.lists(FIELD, min_size=width, max_size=width), max_size=height))
    lines = [
        delimiter.join(raw_field(text, draw(st.booleans()), delimiter) for text in row)
        for row in [names, *cells]
    ]
    last = draw(st.sampled_from(["", end]))
    return end.join(lines) + last, delimiter, cells


@settings(max_examples=300, deadline=None)
@given(files())
def test_any_table_comes_back_cell_for_cell_and_byte_for_byte(file):
    text, delimiter, cells = file
    data = text.encode()
    table = read_text(data, delimiter=delimiter, encoding="utf-8")
    assert table.to_bytes() == data
    assert table.n_rows == len(cells)
    for j in range(len(table.names)):
        assert table.texts(j) == [row[j].strip(" \t") for row in cells]


@settings(max_examples=200, deadline=None)
@given(files(), st.data())
def test_filling_changes_the_holes_and_nothing_else(file, data):
    text, delimiter, cells = file
    table = read_text(text.encode(), delimiter=delimiter, encoding="utf-8")
    position = data.draw(st.integers(0, len(table.names) - 1))
    holes = table.column(position).missing
    word = data.draw(FIELD.map(str.strip).filter(lambda word: word not in DEFAULT_NA))
    rows = np.flatnonzero(holes)
    new = table.fill({position: Fill(rows, levels(*[word] * len(rows)))})
    again = read_text(new.to_bytes(), delimiter=delimiter, encoding="utf-8")
    assert again.names == table.names
    for j in range(len(table.names)):
        hole = holes if j == position else np.zeros_like(holes)
        expected = [word if gone else old for old, gone in zip(table.texts(j), hole, strict=True)]
        assert again.texts(j) == expected
    # Observed fields, quotes and all: putting the holes' old fields back gives the old file.
    back = new._with_cells({position: (rows, [raw_of(table, position, row) for row in rows])})
    assert back.to_bytes() == text.encode()


def raw_of(table, position, row):
    raw = table._fields[position]
    return table._data[raw.starts[row] : raw.ends[row]].tobytes()


def test_the_slow_splitter_agrees_with_the_fast_one():
    regular = 'a,b\n"x, ""y""",1\n2,"p\nq"\n'
    # A stray quote in a field that is not quoted sends the file through the state machine.
    irregular = regular + '5" pipe,3\n'
    fast, slow = (read_text(text.encode(), delimiter=",") for text in (regular, irregular))
    for j in range(2):
        assert slow.texts(j)[:2] == fast.texts(j)
    assert slow.texts(0) == ['x, "y"', "2", '5" pipe']
    assert slow.texts(1) == ["1", "p\nq", "3"]


@settings(max_examples=500, deadline=None)
@given(st.text('a",\n\r', max_size=14).filter(lambda text: text.strip("\r\n")))
def test_where_quotes_are_regular_parity_finds_the_separators_of_the_state_machine(text):
    data = np.frombuffer(text.encode(), dtype=np.uint8)
    places, newline = _separators(data, ",", partial=True)
    expected = _separators_one_by_one(data, ",", newline, partial=True, above=0)
    np.testing.assert_array_equal(places, expected)


# How a file is written.


@pytest.mark.parametrize(
    ("text", "delimiter"),
    [
        ("a,b\n1,2\n", ","),
        ("a;b\n1,5;2,5\n", ";"),
        ("1,5;2,5\n3,5;4,5\n", ";"),
        ("a\tb\n1,2\t3\n", "\t"),
        ("a|b\nx|y\n", "|"),
        ('a,b\n"x;y;z",2\n"p;q;r",3\n', ","),
        ("a,b\n1,2\n3\n4,5\n", ","),
    ],
)
def test_the_delimiter_is_found(text, delimiter):
    if text.count("\n3\n"):
        with pytest.raises(DataError, match="line 3 has 1 field, but the first line has 2"):
            read_text(text.encode())
    else:
        assert read_text(text.encode()).format.delimiter == delimiter


def test_a_single_column_may_hold_commas():
    data = b"height\n1,50\n1,62\n\n1,71\n"
    table = read_text(data)
    assert table.names == ("height",)
    np.testing.assert_array_equal(table.column(0).values, [1.5, 1.62, np.nan, 1.71])
    assert filled(table, 0, [1.666]).to_bytes() == data.replace(b"\n\n", b"\n1,67\n")


def test_a_mark_in_the_name_of_a_single_column_is_no_delimiter():
    table = read_text(b"height (m, rounded)\n1.50\n1.62\n")
    assert table.names == ("height (m, rounded)",)
    assert table.column(0).values.tolist() == [1.5, 1.62]


@pytest.mark.parametrize(
    ("header", "row", "found"), [("a;b", "1;2,5;3", 3), ("a,b", "1,2,", 3), ("a,b,c", "1,2", 2)]
)
def test_a_header_of_another_length_is_refused_and_no_single_column(header, row, found):
    """As R writes them, without a name for the names of rows; or with a comma at each end."""
    lines = "\n".join([header, row, row, row])
    with pytest.raises(DataError, match=f"line 2 has {found} fields, but the first line has"):
        read_text(lines.encode())


def test_a_quote_that_the_sample_cuts_off_does_not_hide_the_delimiter():
    data = b'a;b\n1;"' + b"x,\n" * 500_000 + b'"\n2;y\n'
    table = read_text(data)
    assert table.format.delimiter == ";"
    assert table.n_rows == 2


def test_format_is_kept():
    form = read_text("\ufeffa;b\r\n1,5;2".encode()).format
    assert form.bom == b"\xef\xbb\xbf"
    assert (form.delimiter, form.encoding, form.line_terminator) == (";", "utf-8", "\r\n")
    assert (form.decimal, form.final_newline, form.header) == (",", False, True)


def test_the_decimal_comma_is_a_matter_of_the_whole_file():
    assert read_text(b"a;b\n1,5;2\n").format.decimal == ","
    assert read_text(b"a;b\n1,5;2.5\n").format.decimal == "."
    assert read_text(b"a;b\n1,5;v2.5\n").format.decimal == ","
    assert read_text(b"a;b\nx,y;2\n").format.decimal == "."
    assert read_text(b"a,b\n1,5\n").format.decimal == "."
    assert read_text(b"a;b\n1,500;2\n10,000;\n").format.decimal == "."
    assert read_text(b"a;b\n1,500;0,125\n10,000;\n").format.decimal == ","
    assert read_text(b"a;b\n1.500;2,5\n10.000;\n").format.decimal == ","
    assert read_text(b"a;b\n1.500;2,500\n10.000;\n").format.decimal == "."
    assert read_text(b"a;b\n1,5e3;2\n").column(0).values.tolist() == [1500.0]


def test_encodings_are_found_or_named():
    assert read_text("a,b\né,1\n".encode("cp1252")).texts(0) == ["é"]
    assert read_text(b"a,b\n\x81,1\n").texts(0) == ["\x81"]
    assert read_text("a,b\né,1\n".encode("utf-16-le"), encoding="utf-16-le").texts(0) == ["é"]
    assert read_text("a,b\n本|,1\n".encode("shift_jis"), encoding="shift_jis").texts(0) == ["本|"]
    with pytest.raises(DataError, match="no utf-8"):
        read_text(b"a,b\n\xe9,1\n", encoding="utf-8")
    with pytest.raises(DataError, match="no encoding 'klingon'"):
        read_text(b"a,b\n", encoding="klingon")


@pytest.mark.parametrize("data", [b"a,b\n1,\x00\n", b"PK\x03\x04abc", bytes(range(1, 32)) * 9])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(DataError, match="not a text table"):
        read_text(data)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "empty"),
        (b"\n\r\n", "empty"),
        (b"a,b\n1,2\n3,4,5\n", "line 3 has 3 fields, but the first line has 2"),
        (b'a,b\n"x\ny",2\n3\n', "line 4 has 1 field, but the first line has 2"),
        (b"a,b\n1,2\n\n3,4\n", "line 3 has 1 field, but the first line has 2"),
        (b'a,b\n1,2\n3,"4\n5,6\n', "line 3 opens a quote that is never closed"),
        (b"a,b,a\n1,2,3\n", "'a'"),
        (b"\r\na,b\n1,2\n", "line 1 is blank, where the names should be"),
    ],
)
def test_broken_files_are_named_by_line(data, message):
    with pytest.raises(DataError, match=re.escape(message)):
        read_text(data, delimiter=",")


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_delimiters_are_single_characters(delimiter):
    with pytest.raises(DataError, match="one character"):
        read_text(b"a,b\n", delimiter=delimiter)


def test_names():
    table = read_text(b'"a ""x""", b ,,column_3\n1,2,3,4\n')
    assert table.names == ('a "x"', "b", "column_3_", "column_3")
    assert read_text(b"1,2\n3,4\n", header=False).names == ("column_1", "column_2")
    assert read_text(b"1,2\n3,4\n", header=False).n_rows == 2
    assert read_text(b"1,2\n3,4\n", header=False).to_bytes() == b"1,2\n3,4\n"


# What cells mean.


@pytest.mark.parametrize(
    ("cells", "values", "whole"),
    [
        (["1", "-2", "+3"], [1, -2, 3], True),
        (["1", "2.0"], [1, 2], False),
        (["1e3", ".5", "5.", "-2.5E-1"], [1000, 0.5, 5, -0.25], False),
        ([" 1 ", '"2"', '" 3 "'], [1, 2, 3], True),
        (["0", "-0", "0.5"], [0, 0, 0.5], False),
        (["inf", "-Infinity", "1"], [np.inf, -np.inf, 1], False),
        (["9" * 70, "1"], [float("9" * 70), 1], True),
    ],
)
def test_numbers(cells, values, whole):
    column = column_of([*cells, "NA"]).column(0)
    assert (column.storage, column.whole, column.dtype) == ("number", whole, "text")
    np.testing.assert_array_equal(column.values, [*values, np.nan])
    np.testing.assert_array_equal(column.missing, [False] * len(cells) + [True])


@pytest.mark.parametrize(
    "cells",
    [
        ["007", "12"],
        ["01234", "98765"],
        ["1,000", "2"],
        ["1_000", "2"],
        ["1 2", "3"],
        ["0x1f", "3"],
        ["١", "2"],
        ["1.2.3", "1"],
        ["yes", "no"],
        ["true", "False"],
        ["true", "1"],
        ["+", "1"],
    ],
)
def test_text(cells):
    column = column_of([*cells, "", cells[0]]).column(0)
    assert column.storage == "text"
    assert column.levels == tuple(sorted(cells))
    codes = [column.levels.index(cell) for cell in cells]
    np.testing.assert_array_equal(column.values, [*codes, np.nan, codes[0]])


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
def test_booleans(words):
    column = column_of([*words, "?", words[0]]).column(0)
    assert column.storage == "boolean"
    np.testing.assert_array_equal(column.values, [1, 0, np.nan, 1])
    assert fill_texts([*words, "", "NA"], [1.0, 0.0]) == list(words)


DAY = 86400.0
JAN_31 = 19753 * DAY  # 2024-01-31


@pytest.mark.parametrize(
    ("cell", "seconds", "text_after_ten_days"),
    [
        ("2024-01-31", JAN_31, "2024-02-10"),
        ("2024/01/31", JAN_31, "2024/02/10"),
        ("31/01/2024", JAN_31, "10/02/2024"),
        ("01/31/2024", JAN_31, "02/10/2024"),
        ("31.01.2024", JAN_31, "10.02.2024"),
        ("31.1.2024", JAN_31, "10.2.2024"),
        ("2024-01-31T10:30", JAN_31 + 37800, "2024-02-10T10:30"),
        ("2024-01-31 10:30:05", JAN_31 + 37805, "2024-02-10 10:30:05"),
        ("2024-01-31 10:30:05.25", JAN_31 + 37805.25, "2024-02-10 10:30:05.25"),
        ("2024-01-31T10:30:00Z", JAN_31 + 37800, "2024-02-10T10:30:00Z"),
        ("2024-01-31T10:30:00+02:00", JAN_31 + 30600, "2024-02-10T10:30:00+02:00"),
        ("2024-01-31T10:30:00-0530", JAN_31 + 57600, "2024-02-10T10:30:00-0530"),
        ("1969-12-31", -DAY, "1970-01-10"),
        ("31 Jan 2024", JAN_31, "10 Feb 2024"),
        ("31-JAN-2024", JAN_31, "10-FEB-2024"),
        ("31 january 2024", JAN_31, "10 february 2024"),
        ("January 31, 2024", JAN_31, "February 10, 2024"),
        ("Jan 31 2024 10:30", JAN_31 + 37800, "Feb 10 2024 10:30"),
        ("01/31/2024 12:30 AM", JAN_31 + 1800, "02/10/2024 12:30 AM"),
        ("1/31/2024 1:05:00pm", JAN_31 + 47100, "2/10/2024 1:05:00pm"),
        ("1/31/2024 9:05", JAN_31 + 32700, "2/10/2024 9:05"),
    ],
)
def test_times_keep_their_manner(cell, seconds, text_after_ten_days):
    column = column_of([cell, "NaT"]).column(0)
    assert column.storage == "time"
    np.testing.assert_array_equal(column.values, [seconds, np.nan])
    assert fill_texts([cell, ""], [seconds + 10 * DAY]) == [text_after_ten_days]


@pytest.mark.parametrize(
    ("cells", "values", "noon_and_a_bit"),
    [
        (["08:15", "23:59"], [29700, 86340], "12:01"),
        (["8:15", "23:59"], [29700, 86340], "12:01"),
        (["8:15", "23:59:30"], [29700, 86370], "12:00:31"),
        (["00:00:00.25", "08:15:00.5"], [0.25, 29700.5], "12:00:31.00"),
        (["8:15 PM", "12:05 AM"], [72900, 300], "12:01 PM"),
        (["08:15am", "12:05pm"], [29700, 43500], "12:01pm"),
    ],
)
def test_times_of_day_keep_their_manner(cells, values, noon_and_a_bit):
    column = column_of([*cells, "NA"]).column(0)
    assert column.storage == "clock"
    np.testing.assert_array_equal(column.values, [*values, np.nan])
    assert fill_texts([*cells, ""], [DAY / 2 + 31]) == [noon_and_a_bit]


def test_times_of_day_do_not_go_round():
    assert fill_texts(["08:15", ""], [DAY - 1.0]) == ["23:59"]
    assert fill_texts(["8:15:30 PM", ""], [2.0 * DAY]) == ["11:59:59 PM"]
    assert fill_texts(["08:15", ""], [-5.0]) == ["00:00"]


def test_filled_times_are_rounded_to_what_is_shown():
    assert fill_texts(["2024-01-31", ""], [JAN_31 + 0.6 * DAY]) == ["2024-02-01"]
    assert fill_texts(["2024-01-31 10:00", ""], [JAN_31 + 89.0]) == ["2024-01-31 00:01"]
    assert fill_texts(["2024-01-31 10:00:00.5", ""], [JAN_31 + 0.96]) == ["2024-01-31 00:00:01.0"]
    assert fill_texts(["2024-01-31", ""], [1e18]) == ["9999-12-30"]
    assert fill_texts(["1/31/2024 9:05 AM", ""], [JAN_31 + DAY / 2]) == ["1/31/2024 12:00 PM"]
    assert fill_texts(["3 May 2024", "4 May 2024", ""], [JAN_31]) == ["31 Jan 2024"]
    assert fill_texts(["3 May 2024", "4 July 2024", ""], [JAN_31]) == ["31 January 2024"]


@pytest.mark.parametrize(
    "cells",
    [
        ["01/02/2024", "03/04/2024"],  # day or month first: nothing tells
        ["31/01/2024", "01/31/2024"],  # both
        ["2024-02-30", "2024-01-01"],
        ["2024-01-31", "2024-01-31T10:00"],
        ["2024-01-31T10:00Z", "2024-01-31T10:00"],
        ["2024-01-31x", "2024-01-31"],
        ["2024-01/31", "2024-01-31"],
        ["2024-01-31", "2024/01/31"],
        ["2024-01-31T25:00", "2024-01-31T10:00"],
        ["31 Jan 2024", "30 January 2024"],
        ["31 Jan 2024", "31 Jam 2024"],
        ["31 Jan 2024", "30-Jan-2024"],
        ["Jan 31, 2024", "Jan 30 2024"],
        ["1/31/2024 13:00 PM", "1/31/2024 1:00 PM"],
        ["1/31/2024 0:30 AM", "1/31/2024 1:00 AM"],
        ["1/31/2024 1:30 AM", "1/31/2024 1:00"],
        ["2024-01-3110:00", "2024-01-3111:00"],
        ["24:00", "01:00"],
        ["36:15", "01:00"],  # hours or minutes: nothing tells
        ["08:60", "01:00"],
        ["08:15", "8:15 PM"],
        ["13:15 PM", "8:15 PM"],
        ["08:15Z", "09:15Z"],
        ["08:15", "2024-01-31 08:15"],
        ["T08:15", "T09:15"],
        ["16:9", "4:3"],
    ],
)
def test_what_is_no_time_is_text(cells):
    assert column_of(cells).column(0).storage == "text"


# What the cells do not tell, and the user or another table told.


@pytest.mark.parametrize(("order", "day"), [("dmy", "2024-02-01"), ("mdy", "2024-01-02")])
def test_the_order_of_day_and_month_can_be_told(order, day):
    text = read_text(b"x,when,other\n1,01/02/2024,01/02/2024\n2,03/04/2024,03/04/2024\n3,,\n")
    table = text.with_orders({"when": order})
    expected = np.datetime64(day, "s").astype(float)
    for part in (table, table.keep([0, 1]), table.rows(0, 2), table.rows(0, 2).keep([0, 1])):
        assert part.column(1).storage == "time"
        assert part.column(1).values[0] == expected
    assert table.column(2).storage == "text"
    filled = table.fill({1: Fill(np.array([2]), np.array([expected]), storage="time")})
    assert filled.texts(1) == ["01/02/2024", "03/04/2024", "01/02/2024"]
    # Cells that tell it themselves are believed.
    clear = read_text(b"when\n31/01/2024\n01/02/2024\n").with_orders({"when": "mdy"})
    assert clear.column(0).values[0] == JAN_31


@pytest.mark.parametrize(
    "style",
    [
        NumberStyle(0),
        NumberStyle(2),
        NumberStyle(3, mark=","),
        BooleanStyle(("FALSE", "TRUE")),
        *(TimeStyle(order, "/", padded) for order in ("dmy", "mdy") for padded in (True, False)),
        TimeStyle("ymd", "-"),
        TimeStyle("dmy", ".", glue=" "),
        TimeStyle("dmy", ".", glue=" ", padded_hour=False),
        TimeStyle("dby", "-", month="JAN"),
        TimeStyle("bdy", ", ", padded=False, month="January", glue=" ", half=" am"),
        TimeStyle("mdy", "/", glue=" ", padded_hour=False, half="AM"),
        TimeStyle("", ""),
        TimeStyle("", "", padded_hour=False, seconds=True),
        TimeStyle("", "", seconds=True, decimals=2),
        TimeStyle("", "", padded_hour=False, half=" AM"),
        TimeStyle("ymd", "-", glue="T", seconds=True, zone="Z"),
        TimeStyle("ymd", "-", glue="T", seconds=True, decimals=3, point=",", zone="-1130"),
    ],
)
def test_a_specimen_shows_the_manner(style):
    assert style_of(specimen_of(style)) == style


def specimen(*cells):
    return column_of(cells).column(0).specimen


@pytest.mark.parametrize(
    ("learned", "second"), [("31/01/2024", 2678400.0), ("01/31/2024", 86400.0)]
)
def test_ambiguous_dates_are_read_as_learned(learned, second):
    table = column_of(["01/01/1970", "01/02/1970", "02/02/1970", ""])
    assert table.column(0).storage == "text"
    column = table.as_learned(0, "time", specimen(learned))
    assert column.storage == "time"
    assert column.values[:2].tolist() == [0.0, second]
    assert filled(table, 0, [0.0]).texts(0)[3] == "01/01/1970"


@pytest.mark.parametrize("cells", [["31/01/2024", "01/31/2024"], ["01/02/2024", "soon"]])
def test_what_does_not_fit_the_learned_order_stays_text(cells):
    assert column_of(cells).as_learned(0, "time", specimen("31/01/2024")).storage == "text"


def test_dates_that_tell_their_order_need_not_be_as_learned():
    column = column_of(["01/31/2024"]).as_learned(0, "time", specimen("31/01/2024"))
    assert column.values.tolist() == [JAN_31]


@pytest.mark.parametrize(
    ("storage", "cells", "value", "text"),
    [
        ("time", ["31.1.2024"], JAN_31, "31.1.2024"),
        ("time", ["01/31/2024 10:00"], JAN_31, "01/31/2024 00:00"),
        ("time", [], JAN_31, "2024-01-31T00:00:00"),
        ("clock", ["8:15 AM"], DAY / 2, "12:00 PM"),
        ("clock", [], DAY / 2, "12:00:00"),
        ("boolean", ["True", "False"], 1.0, "True"),
        ("boolean", [], 0.0, "false"),
        ("number", ["0.25"], 1 / 3, "0.33"),
        ("number", ["7"], 12345678.0, "12345678"),
        ("number", [], 12345678.0, "12345678"),
        ("number", [], 1 / 3, "0.333333"),
    ],
)
def test_a_column_without_values_is_written_as_learned(storage, cells, value, text):
    table = column_of(["", "NA"])
    table.as_learned(0, storage, specimen(*cells))
    assert filled(table, 0, [value, value]).texts(0) == [text, text]


def test_the_decimal_comma_is_learned_too():
    learned = read_text(b"a;b\n1,50;2\n").column(0).specimen
    table = read_text(b"a;b\n1,000;2\n;3\n")  # alone, a thousand
    assert table.column(0).storage == "text"
    assert table.as_learned(0, "number", learned).values.tolist()[0] == 1.0
    assert filled(table, 0, [2.5]).texts(0)[1] == "2,500"
    table = read_text(b"a;b\n;2\n")
    table.as_learned(0, "number", learned)
    assert filled(table, 0, [2.5]).texts(0) == ["2,50"]
    table = read_text(b"a;b;c\n;;2\n")
    for position in (0, 1):  # what the first was written by is no mark of the file
        table.as_learned(position, "number", learned)
    assert filled(table, 1, [2.5]).texts(1) == ["2,50"]
    table = read_text(b"a;b\n;2.5\n")  # a file that shows its mark is believed
    table.as_learned(0, "number", learned)
    assert filled(table, 0, [2.5]).texts(0) == ["2.50"]


def test_missing_words_are_counted():
    table = read_text(b'a,b\nNA,x\n"", ? \n-,"NA"\n1,None\n')
    assert table.missing_words() == {"NA": 2, "": 1, "?": 1, "-": 1, "None": 1}
    assert table.column(0).storage == "number"
    other = read_text(b"a,b\n-,x\n1,y\n", na_words=["x"])
    assert other.missing_words() == {"x": 1}
    assert other.column(0).storage == "text"


@pytest.mark.parametrize("word", DEFAULT_NA)
def test_every_default_word_is_missing(word):
    column = column_of(["1.5", word, f' "{word}" ', "2"]).column(0)
    np.testing.assert_array_equal(column.missing, [False, True, True, False])
    assert column.storage == "number"


@pytest.mark.parametrize("value", [-999, -999.0, "-999", "-999.00"])
def test_missing_values_are_compared_as_text_and_as_numbers(value):
    column = column_of(["1.5", "-999", "-999.00"]).column(0, (value,))
    np.testing.assert_array_equal(column.values, [1.5, np.nan, np.nan])
    dates = column_of(["2024-01-31", "-999"]).column(0, (value,))
    assert dates.storage == "time"


def test_missing_values_do_not_shape_the_column():
    table = column_of(["1", "2", "-9.0", "unknown", "2"])
    assert table.column(0).storage == "text"
    column = table.column(0, (-9, "unknown"))
    assert (column.storage, column.whole) == ("number", True)
    rows = np.flatnonzero(column.missing)
    assert table.fill({0: Fill(rows, np.array([4.4, 5.6]))}).texts(0) == ["1", "2", "4", "6", "2"]


def test_a_column_without_values_is_of_numbers():
    column = column_of(["", "NA"]).column(0)
    assert (column.storage, column.n_observed) == ("number", 0)
    assert np.isnan(column.values).all()


def test_a_table_without_rows():
    table = read_text(b"a,b\n")
    assert table.n_rows == 0
    assert table.column(0).values.shape == (0,)
    flags = {"flag": np.zeros(0, dtype=bool), "other": np.zeros(0, dtype=bool)}
    assert table.with_columns(flags, first=False).to_bytes() == b"a,b,flag,other\n"


NUMBER = st.from_regex(r"[+-]?(\d{1,4}\.?\d{0,3}|\.\d{1,3})([eE][+-]?\d{1,2})?", fullmatch=True)
ODD = st.sampled_from(["NA", "", "x", "-", "1.2.3", "e5", "007", "+"])


@settings(max_examples=300, deadline=None)
@given(st.lists(st.one_of(NUMBER.filter(str.isascii), ODD), min_size=1, max_size=6))
def test_all_cells_at_once_agree_with_one_after_the_other(cells):
    missing = Missing(frozenset(DEFAULT_NA)).also((5,))
    fast = _as_numbers(np.array([cell.encode() for cell in cells]), missing, ".", "utf-8")
    slow, style = _as_anything(cells, missing, ".")
    if fast is None:
        assert slow["storage"] == "text" or bool(slow["missing"].all())
        return
    fields, fast_style = fast
    np.testing.assert_array_equal(fields["values"], slow["values"])
    np.testing.assert_array_equal(fields["missing"], slow["missing"])
    assert fields["whole"] == slow["whole"]
    assert fast_style == style


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
    table = column_of([cell, ""])
    fill = Fill(np.array([1]), np.array([value]), lower=lower, upper=upper)
    assert table.fill({0: fill}).texts(0)[1] == text


@settings(max_examples=200)
@given(
    decimals=st.integers(0, 8),
    exponent=st.booleans(),
    three=st.lists(st.floats(-1e6, 1e6), min_size=3, max_size=3).map(sorted),
)
def test_what_is_within_bounds_is_written_within(decimals, exponent, three):
    lower, value, upper = three
    text = NumberStyle(decimals, exponent).text(value, lower, upper)
    assert lower <= float(text) <= upper


def test_a_number_that_is_none_is_not_written():
    with pytest.raises(DataError, match="nan"):
        fill_texts(["1.5", ""], [np.nan])


def test_text_is_quoted_where_it_must_be():
    data = b'a,b\n"x, y",1\n"say ""hi""",2\n,3\nNA,4\nplain,5\n'
    table = filled(read_text(data), 0, levels("x, y", 'say "hi"'))
    expected = data.replace(b"\n,3", b'\n"x, y",3').replace(b"NA", b'"say ""hi"""')
    assert table.to_bytes() == expected


def test_columns_in_quotes_stay_in_quotes():
    table = read_text(b'"a","b"\n"1.5",x\nNA,y\n')
    assert filled(table, 0, [2.0]).to_bytes() == b'"a","b"\n"1.5",x\n"2.0",y\n'


def test_decimal_commas_are_filled_with_commas():
    table = read_text(b"a;b\n1,50;x\n;y\n")
    assert filled(table, 0, [0.333]).to_bytes() == b"a;b\n1,50;x\n0,33;y\n"


def test_filling_keeps_line_ends_encoding_and_mark():
    data = "a;b\r\nä;1\r\n;2".encode("utf-16")
    table = filled(read_text(data), 0, levels("ä"))
    assert table.to_bytes() == "a;b\r\nä;1\r\nä;2".encode("utf-16")


def test_a_text_that_the_encoding_cannot_write_is_refused():
    table = read_text("a,b\né,1\n,2\n".encode("cp1252"))
    with pytest.raises(DataError, match="'本' cannot be written in cp1252"):
        filled(table, 0, levels("本"))


def test_several_columns_are_filled_at_once_and_the_table_is_not_changed():
    data = b"a,b,c\n1,,x\n,2,\n3,4,z\n"
    table = read_text(data)
    one = np.array([1])
    new = table.fill(
        {2: Fill(one, levels("long text")), 0: Fill(one, np.array([7.0])), 1: Fill(one - 1, one)}
    )
    assert new.to_bytes() == b"a,b,c\n1,1,x\n7,2,long text\n3,4,z\n"
    assert table.to_bytes() == data


# Other tables made of it.


TABLE = b'a,"b",c\r\n1,x,0.5\r\n,"y,z",\r\n3,,2.25'


def test_keep():
    assert read_text(TABLE).keep([2, 1]).to_bytes() == b'c,"b"\r\n0.5,x\r\n,"y,z"\r\n2.25,'
    assert read_text(b"1,2\n", header=False).keep([1]).to_bytes() == b"2\n"


def test_rows():
    table = read_text(TABLE + b"\r\n\r\n")
    assert table.rows(1, 2).to_bytes() == b'a,"b",c\r\n,"y,z",\r\n'
    assert table.rows(2, 3).to_bytes() == b'a,"b",c\r\n3,,2.25\r\n\r\n'
    assert table.rows(1, 1).to_bytes() == b'a,"b",c\r\n'
    assert table.rows(1, 3).rows(1, 2).texts(0) == ["3"]


def test_rows_are_typed_as_the_whole_table():
    table = read_text(b"a,b\n1,z\n2,y\n,\n0.125,x\n")
    part = table.rows(0, 3)
    column = part.column(0)
    assert (column.storage, column.whole) == ("number", False)
    np.testing.assert_array_equal(column.values, [1, 2, np.nan])
    assert part.column(1).levels == ("y", "z")
    np.testing.assert_array_equal(part.column(1).values, [1, 0, np.nan])
    assert filled(part, 0, [1 / 3]).texts(0) == ["1", "2", "0.333"]
    assert filled(part.keep([1, 0]), 1, [1 / 3]).texts(1) == ["1", "2", "0.333"]


def test_parts_know_what_was_asked_of_the_whole_table():
    table = read_text(b"a,b\n1,z\nunknown,y\nunknown,x\n")
    table.column(0, ("unknown",))
    part = table.rows(0, 2)
    new = part.fill({0: Fill(np.array([1]), np.array([2.7]))})
    assert new.to_bytes() == b"a,b\n1,z\n3,y\n"
    kept = table.keep([1, 0]).fill({1: Fill(np.array([1, 2]), np.array([2.7, 4.0]))})
    assert kept.to_bytes() == b"b,a\nz,1\ny,3\nx,4\n"


def test_with_columns():
    table = read_text(TABLE)
    new = {"i, j": np.array([0, -1, 2]), "flag": np.array([True, False, True])}
    assert table.with_columns(new, first=True).to_bytes() == (
        b'"i, j",flag,a,"b",c\r\n0,true,1,x,0.5\r\n-1,false,,"y,z",\r\n2,true,3,,2.25'
    )
    assert table.with_columns(new, first=False).names == ("a", "b", "c", "i, j", "flag")
    with pytest.raises(DataError, match="'a'"):
        table.with_columns({"a": np.zeros(3, dtype=int)}, first=False)


def test_stacked():
    table = read_text(TABLE)
    header, body = TABLE.split(b"\r\n", 1)
    assert TextTable.stacked([table, table]).to_bytes() == header + b"\r\n" + body + (
        b"\r\n" + body
    )
    parts = [table.rows(0, 1), table.rows(1, 2), table.rows(2, 3)]
    assert TextTable.stacked(parts).to_bytes() == TABLE
    with pytest.raises(DataError, match="different columns"):
        TextTable.stacked([table, table.keep([0, 1])])
    with pytest.raises(DataError, match="different delimiters"):
        TextTable.stacked([table, table.with_delimiter(";")])


def test_another_delimiter():
    data = b'a,"b,c","d\te"\n"1,2",x;y,z\n"t\tu",p,q\n'
    table = read_text(data).with_delimiter(";")
    assert table.to_bytes() == b'a;"b,c";"d\te"\n"1,2";"x;y";z\n"t\tu";p;q\n'
    plain = read_text(b"a;b\nx\ty;1\n").with_delimiter("\t")
    assert plain.to_bytes() == b'a\tb\n"x\ty"\t1\n'


def test_a_column_is_parsed_once():
    table = column_of(["1", "2"])
    assert table.column(0).values is table.column(0).values


def test_large_files_are_read_fast():
    line = b"0.1234,5.6,NA,word,-7,0.0,1e3,8.25\n"
    data = b"a,b,c,d,e,f,g,h\n" + line * 100_000
    start = time.perf_counter()
    table = read_text(data)
    numbers = [table.column(j) for j in range(8)]
    written = table.to_bytes()
    # 35 MB in all directions; it takes about 1 s, and 30 s would be a loop over bytes.
    assert time.perf_counter() - start < 15
    assert written == data
    assert [c.storage for c in numbers].count("number") == 7


# Lines of comment before the names.


@pytest.mark.parametrize(
    ("start", "names", "n_comments"),
    [
        ("# exported on 2024-01-31\n", "a,b", 1),
        ("# by me, today\n", "a,b", 1),
        ("#v2,final\n", "a,b", 1),
        ('# one\r\n\r\n#two "\r\n\r\n', "a,b", 2),
        ("\ufeff# é\n", "a,b", 1),
        ("", "#id,b", 0),
        ("# exported\n", "#id,b", 1),
        ("##v4\n##source=x,y,z\n", "#CHROM,POS", 2),
        ("", '"# a",b', 0),
    ],
)
def test_lines_before_the_names_are_kept_but_not_read(start, names, n_comments):
    data = f"{start}{names}\n1,0.10\n,2.5\n".encode()
    table = read_text(data)
    assert table.names == tuple(names.replace('"', "").split(","))
    assert (table.n_rows, table.n_comments) == (2, n_comments)
    assert table.to_bytes() == data
    assert filled(table, 0, [3.0]).to_bytes() == data.replace(b"\n,2.5", b"\n3,2.5")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        (b"#name,city\nbob,paris\nann,rome\n", ("#name", "city")),
        (b"# by me, today\nname,city\nbob,paris\n", ("name", "city")),
        (b"#id\n1\n2\n", ("#id",)),
        (b"# ids\nid\n1\n", ("id",)),
        (b"#a\n#b\n", ("#a",)),
        (b"# nothing else\n", ("# nothing else",)),
    ],
)
def test_a_header_that_begins_like_a_comment_is_one_where_there_is_no_other(data, names):
    table = read_text(data)
    assert table.names == names
    assert table.to_bytes() == data


def test_comments_of_files_without_names():
    assert read_text(b"# c\n1,2\n3,4\n", header=False).n_rows == 2
    assert read_text(b"#1,2\n3,4\n", header=False).n_rows == 2
    assert read_text(b"#1,2\n#3,4\n", header=False).n_rows == 2


def test_lines_are_counted_with_the_comments_above_them():
    with pytest.raises(DataError, match="^line 5 has 1 field, but line 3 has 2: "):
        read_text(b"# one\n# two\na,b\n1,2\n3\n")
    with pytest.raises(DataError, match="^line 3 opens a quote"):
        read_text(b'# one\na,b\n"1,2\n')


def test_comments_stay_on_top_of_parts_and_stacks():
    table = read_text(b"# c\na,b\n1,x\n2,y\n")
    both = TextTable.stacked([table.rows(1, 2), table]).with_delimiter("\t").keep([1])
    assert both.to_bytes() == b"# c\nb\ny\nx\ny\n"


@pytest.mark.parametrize(
    "title", ["My report\n", "My report\n\n", "Report, 2024\n\n", "Report; final\r\n\r\n"]
)
@pytest.mark.parametrize("rows", ["a,b,c\n1,2,3\n4,,6\n", "a;b;c\n1,5;;x\n2,5;2;y\n"])
def test_a_title_above_the_names_is_refused(title, rows):
    with pytest.raises(DataError, match="line 1 looks like a title.* 3 fields: delete what is"):
        read_text((title + rows).encode())
    assert read_text(("# " + title + rows).encode()).names == ("a", "b", "c")


@pytest.mark.parametrize(
    "data",
    [
        b"x\n1,5\n2,5\n",  # decimal commas
        b"name\nDoe, John\nRoe, Jane\n",
        b"note\nyes, 2\nno\n",
        b"x\n\n1\n2\n",
    ],
)
def test_a_single_column_has_no_title(data):
    assert len(read_text(data).names) == 1


@pytest.mark.parametrize("line", [b"sep=;\n", b'"sep=;"\r\n', b"SEP=;\n"])
def test_a_line_that_tells_the_delimiter_is_refused(line):
    with pytest.raises(DataError, match="line 1 tells the delimiter .*delete it.*';'"):
        read_text(line + b"a;b\n1;2\n3;\n")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ("age;name\nNA;Smith, John\n40;Doe, Jane\n35;Roe, Al\n", ("age", "name")),
        ("name,tags\nBob,red;blue\nAl,green;1st\n", ("name", "tags")),
        ("id\tplace\nA1\tParis, FR\nB2\tRome, IT\n7\t10, Downing\n", ("id", "place")),
    ],
)
def test_marks_inside_of_cells_make_no_title(data, names):
    assert read_text(data.encode()).names == names


def test_a_word_for_no_value_begins_no_comment():
    table = read_text(b"#N/A,1\n#N/A,2\n3,4\n5,6\n", header=False)
    assert (table.n_rows, table.n_comments) == (4, 0)
    table = read_text(b"#id,x\n#N/A,1\n3,4\n5,6\n")
    assert (table.names, table.n_rows) == (("#id", "x"), 3)


def test_a_name_may_be_blank_below_a_comment():
    """As pandas writes the name of an index."""
    table = read_text(b"# sensors, 2024, v1\n,x,y\n0,1,2\n1,3,4\n")
    assert (table.names[1:], table.n_rows, table.n_comments) == (("x", "y"), 2, 1)
