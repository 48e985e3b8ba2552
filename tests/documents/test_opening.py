"""Text files: how they are written is found out, and every character comes back."""

import re
import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from documents.texts import filled, levels
from miwae.columns import Cells
from miwae.documents import DEFAULT_NA
from miwae.documents._opening import open_text
from miwae.documents._records import _separators, _separators_one_by_one, spliced
from miwae.errors import DataError

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
    assert open_text(data).read().patched({}) == data


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
    table = open_text(data, delimiter=delimiter, encoding="utf-8")
    assert table.read().patched({}) == data
    assert table.n_rows == len(cells)
    for j in range(len(table.names)):
        assert table.texts(j) == [row[j].strip(" \t") for row in cells]


@settings(max_examples=200, deadline=None)
@given(files(), st.data())
def test_a_patch_changes_the_given_cells_and_nothing_else(file, data):
    text, delimiter, cells = file
    table = open_text(text.encode(), delimiter=delimiter, encoding="utf-8")
    reading = table.read()
    position = data.draw(st.integers(0, len(table.names) - 1))
    holes = reading.columns[position].missing
    word = data.draw(FIELD.map(str.strip).filter(lambda word: word not in DEFAULT_NA))
    rows = np.flatnonzero(holes)
    new = reading.patched({position: Cells(rows, levels(*[word] * len(rows)))})
    again = open_text(new, delimiter=delimiter, encoding="utf-8")
    assert again.names == table.names
    for j in range(len(table.names)):
        hole = holes if j == position else np.zeros_like(holes)
        expected = [word if gone else old for old, gone in zip(table.texts(j), hole, strict=True)]
        assert again.texts(j) == expected
    # Observed fields, quotes and all: putting back the old fields gives the old file.
    old = [raw_of(table, position, row) for row in rows]
    back = spliced(again.data, [(again.fields(position).taken(rows), old)])
    assert again.comments + back == text.encode()


def raw_of(table, position, row):
    raw = table.fields(position)
    return table.data[raw.starts[row] : raw.ends[row]].tobytes()


def test_the_slow_splitter_agrees_with_the_fast_one():
    regular = 'a,b\n"x, ""y""",1\n2,"p\nq"\n'
    # A stray quote in a field that is not quoted sends the file through the state machine.
    irregular = regular + '5" pipe,3\n'
    fast, slow = (open_text(text.encode(), delimiter=",") for text in (regular, irregular))
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
            open_text(text.encode())
    else:
        assert open_text(text.encode()).dialect.delimiter == delimiter


def test_a_single_column_may_hold_commas():
    data = b"height\n1,50\n1,62\n\n1,71\n"
    table = open_text(data)
    assert table.names == ("height",)
    np.testing.assert_array_equal(table.read().columns[0].values, [1.5, 1.62, np.nan, 1.71])
    assert filled(table, 0, [1.666]) == data.replace(b"\n\n", b"\n1,67\n")


def test_a_mark_in_the_name_of_a_single_column_is_no_delimiter():
    table = open_text(b"height (m, rounded)\n1.50\n1.62\n")
    assert table.names == ("height (m, rounded)",)
    assert table.read().columns[0].values.tolist() == [1.5, 1.62]


@pytest.mark.parametrize(
    ("header", "row", "found"), [("a;b", "1;2,5;3", 3), ("a,b", "1,2,", 3), ("a,b,c", "1,2", 2)]
)
def test_a_header_of_another_length_is_refused_and_no_single_column(header, row, found):
    """As R writes them, without a name for the names of rows; or with a comma at each end."""
    lines = "\n".join([header, row, row, row])
    with pytest.raises(DataError, match=f"line 2 has {found} fields, but the first line has"):
        open_text(lines.encode())


def test_a_quote_that_the_sample_cuts_off_does_not_hide_the_delimiter():
    data = b'a;b\n1;"' + b"x,\n" * 500_000 + b'"\n2;y\n'
    table = open_text(data)
    assert table.dialect.delimiter == ";"
    assert table.n_rows == 2


def test_format_is_kept():
    form = open_text("\ufeffa;b\r\n1,5;2".encode()).dialect
    assert form.bom == b"\xef\xbb\xbf"
    assert (form.delimiter, form.encoding, form.line_terminator) == (";", "utf-8", "\r\n")
    assert (form.decimal, form.header) == (",", True)


def test_the_decimal_comma_is_a_matter_of_the_whole_file():
    assert open_text(b"a;b\n1,5;2\n").dialect.decimal == ","
    assert open_text(b"a;b\n1,5;2.5\n").dialect.decimal == "."
    assert open_text(b"a;b\n1,5;v2.5\n").dialect.decimal == ","
    assert open_text(b"a;b\nx,y;2\n").dialect.decimal == "."
    assert open_text(b"a,b\n1,5\n").dialect.decimal == "."
    assert open_text(b"a;b\n1,500;2\n10,000;\n").dialect.decimal == "."
    assert open_text(b"a;b\n1,500;0,125\n10,000;\n").dialect.decimal == ","
    assert open_text(b"a;b\n1.500;2,5\n10.000;\n").dialect.decimal == ","
    assert open_text(b"a;b\n1.500;2,500\n10.000;\n").dialect.decimal == "."
    assert open_text(b"a;b\n1,5e3;2\n").read().columns[0].values.tolist() == [1500.0]


def test_encodings_are_found_or_named():
    assert open_text("a,b\né,1\n".encode("cp1252")).texts(0) == ["é"]
    assert open_text(b"a,b\n\x81,1\n").texts(0) == ["\x81"]
    assert open_text("a,b\né,1\n".encode("utf-16-le"), encoding="utf-16-le").texts(0) == ["é"]
    assert open_text("a,b\n本|,1\n".encode("shift_jis"), encoding="shift_jis").texts(0) == ["本|"]
    with pytest.raises(DataError, match="not valid utf-8"):
        open_text(b"a,b\n\xe9,1\n", encoding="utf-8")
    with pytest.raises(DataError, match="no encoding 'klingon'"):
        open_text(b"a,b\n", encoding="klingon")


@pytest.mark.parametrize("data", [b"a,b\n1,\x00\n", b"PK\x03\x04abc", bytes(range(1, 32)) * 9])
def test_what_is_no_text_is_refused(data):
    with pytest.raises(DataError, match="not a text table"):
        open_text(data)


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
        open_text(data, delimiter=",")


@pytest.mark.parametrize("delimiter", ["", ",,", '"', "\n", "é"])
def test_delimiters_are_single_characters(delimiter):
    with pytest.raises(DataError, match="one character"):
        open_text(b"a,b\n", delimiter=delimiter)


def test_names():
    table = open_text(b'"a ""x""", b ,,Unnamed: 2\n1,2,3,4\n')
    assert table.names == ('a "x"', "b", "Unnamed: 2_", "Unnamed: 2")
    assert open_text(b"1,2\n3,4\n", header=False).names == ("column_1", "column_2")
    assert open_text(b"1,2\n3,4\n", header=False).n_rows == 2
    assert open_text(b"1,2\n3,4\n", header=False).read().patched({}) == b"1,2\n3,4\n"


def test_thousands_of_columns_without_a_name_are_named_in_linear_time():
    data = b"," * 16_000 + b"\n" + b"1," * 16_000 + b"1\n"
    start = time.perf_counter()
    document = open_text(data)
    # It takes 0.1 s; comparing each name with all others took 13 s.
    assert time.perf_counter() - start < 5
    assert document.names[-1] == "Unnamed: 16000"


def test_a_mark_in_a_word_for_missing_does_not_make_decimals():
    """The dot of a missing cell says nothing about 1.000, which may be a thousand."""
    document = open_text(b"a;b\n1.000;1,5\n.;2,5\n")
    assert document.dialect.decimal == ","
    assert document.read().columns[1].values.tolist() == [1.5, 2.5]


# Lines of comment above the names.


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
    table = open_text(data)
    assert table.names == tuple(names.replace('"', "").split(","))
    assert (table.n_rows, table.n_comments) == (2, n_comments)
    assert table.read().patched({}) == data
    assert filled(table, 0, [3.0]) == data.replace(b"\n,2.5", b"\n3,2.5")


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
    table = open_text(data)
    assert table.names == names
    assert table.read().patched({}) == data


def test_comments_of_files_without_names():
    assert open_text(b"# c\n1,2\n3,4\n", header=False).n_rows == 2
    assert open_text(b"#1,2\n3,4\n", header=False).n_rows == 2
    assert open_text(b"#1,2\n#3,4\n", header=False).n_rows == 2


def test_lines_are_counted_with_the_comments_above_them():
    with pytest.raises(DataError, match="^line 5 has 1 field, but line 3 has 2: "):
        open_text(b"# one\n# two\na,b\n1,2\n3\n")
    with pytest.raises(DataError, match="^line 3 opens a quote"):
        open_text(b'# one\na,b\n"1,2\n')


def test_comments_stay_above_a_table_with_another_delimiter():
    reading = open_text(b"# c, d\na,b\n1,x\n2,y\n").read()
    assert reading.patched({}, ".tsv") == b"# c, d\na\tb\n1\tx\n2\ty\n"


@pytest.mark.parametrize(
    "title", ["My report\n", "My report\n\n", "Report, 2024\n\n", "Report; final\r\n\r\n"]
)
@pytest.mark.parametrize("rows", ["a,b,c\n1,2,3\n4,,6\n", "a;b;c\n1,5;;x\n2,5;2;y\n"])
def test_a_title_above_the_names_is_refused(title, rows):
    with pytest.raises(DataError, match="line 1 looks like a title.* 3 fields: delete what is"):
        open_text((title + rows).encode())
    assert open_text(("# " + title + rows).encode()).names == ("a", "b", "c")


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
    assert len(open_text(data).names) == 1


@pytest.mark.parametrize("line", [b"sep=;\n", b'"sep=;"\r\n', b"SEP=;\n"])
def test_a_line_that_names_the_delimiter_is_refused(line):
    with pytest.raises(DataError, match="line 1 names the delimiter .*delete it.*';'"):
        open_text(line + b"a;b\n1;2\n3;\n")


@pytest.mark.parametrize(
    ("data", "names"),
    [
        ("age;name\nNA;Smith, John\n40;Doe, Jane\n35;Roe, Al\n", ("age", "name")),
        ("name,tags\nBob,red;blue\nAl,green;1st\n", ("name", "tags")),
        ("id\tplace\nA1\tParis, FR\nB2\tRome, IT\n7\t10, Downing\n", ("id", "place")),
    ],
)
def test_marks_inside_of_cells_make_no_title(data, names):
    assert open_text(data.encode()).names == names


def test_a_word_for_no_value_begins_no_comment():
    table = open_text(b"#N/A,1\n#N/A,2\n3,4\n5,6\n", header=False)
    assert (table.n_rows, table.n_comments) == (4, 0)
    table = open_text(b"#id,x\n#N/A,1\n3,4\n5,6\n")
    assert (table.names, table.n_rows) == (("#id", "x"), 3)


def test_a_name_may_be_blank_below_a_comment():
    """As pandas writes the name of an index."""
    table = open_text(b"# sensors, 2024, v1\n,x,y\n0,1,2\n1,3,4\n")
    assert (table.names[1:], table.n_rows, table.n_comments) == (("x", "y"), 2, 1)
