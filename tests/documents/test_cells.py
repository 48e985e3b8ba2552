"""What the texts of cells mean, alone and in the light of what was learned."""

import dataclasses
import time

import numpy as np
import pytest
from hypothesis import example, given, reject, settings
from hypothesis import strategies as st

from documents.texts import Learned, column_of, fill_texts, filled, patched_texts
from miwae.columns import Cells, Column
from miwae.documents import DEFAULT_NA
from miwae.documents._cells import Known, Missing, format_of, parse_column, plain_numbers
from miwae.documents._formats import BooleanFormat, NumberFormat, example_of
from miwae.documents._opening import open_text
from miwae.documents._times import TimeFormat
from miwae.errors import DataError, SettingsError

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
    column = column_of([*cells, "NA"]).read().columns[0]
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
    column = column_of([*cells, "", cells[0]]).read().columns[0]
    assert column.storage == "text"
    assert column.levels == tuple(sorted(cells))
    codes = [column.levels.index(cell) for cell in cells]
    np.testing.assert_array_equal(column.values, [*codes, np.nan, codes[0]])


@pytest.mark.parametrize("words", [("true", "false"), ("True", "False"), ("TRUE", "FALSE")])
def test_booleans(words):
    column = column_of([*words, "?", words[0]]).read().columns[0]
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
def test_times_keep_their_format(cell, seconds, text_after_ten_days):
    column = column_of([cell, "NaT"]).read().columns[0]
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
def test_times_of_day_keep_their_format(cells, values, noon_and_a_bit):
    column = column_of([*cells, "NA"]).read().columns[0]
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
    assert column_of(cells).read().columns[0].storage == "text"


# What the cells do not show, and the user or another file does.


@pytest.mark.parametrize(
    ("order", "day"), [("day-first", "2024-02-01"), ("month-first", "2024-01-02")]
)
def test_the_order_of_day_and_month_can_be_given(order, day):
    data = b"x,when,other\n1,01/02/2024,01/02/2024\n2,03/04/2024,03/04/2024\n3,,\n"
    reading = open_text(data, date_orders={"when": order}).read()
    expected = np.datetime64(day, "s").astype(float)
    assert [column.storage for column in reading.columns] == ["number", "time", "text"]
    assert reading.columns[1].values[0] == expected
    assert reading.ambiguous == ()
    cells = Cells(np.array([2]), np.array([expected]), storage="time")
    assert patched_texts(reading, 1, cells) == ["01/02/2024", "03/04/2024", "01/02/2024"]


def test_an_order_that_the_dates_contradict_is_refused():
    data = b"when\n31/01/2024\n01/02/2024\n"
    assert open_text(data, date_orders={"when": "day-first"}).read().columns[0].values[0] == JAN_31
    with pytest.raises(SettingsError, match="'when' .* month is first, .* as 25/03/1999"):
        open_text(data, date_orders={"when": "month-first"}).read()
    with pytest.raises(SettingsError, match="the column 'then', which does not exist"):
        open_text(data, date_orders={"then": "month-first"})
    with pytest.raises(SettingsError, match="day-first"):
        open_text(data, date_orders={"when": "dmy"})


@pytest.mark.parametrize(
    "form",
    [
        NumberFormat(0),
        NumberFormat(2),
        NumberFormat(3, mark=","),
        BooleanFormat(("FALSE", "TRUE")),
        *(TimeFormat(order, "/", padded) for order in ("dmy", "mdy") for padded in (True, False)),
        TimeFormat("ymd", "-"),
        TimeFormat("dmy", ".", glue=" "),
        TimeFormat("dmy", ".", glue=" ", padded_hour=False),
        TimeFormat("dby", "-", month="JAN"),
        TimeFormat("bdy", ", ", padded=False, month="January", glue=" ", half=" am"),
        TimeFormat("mdy", "/", glue=" ", padded_hour=False, half="AM"),
        TimeFormat("", ""),
        TimeFormat("", "", padded_hour=False, seconds=True),
        TimeFormat("", "", seconds=True, decimals=2),
        TimeFormat("", "", padded_hour=False, half=" AM"),
        TimeFormat("ymd", "-", glue="T", seconds=True, zone="Z"),
        TimeFormat("ymd", "-", glue="T", seconds=True, decimals=3, point=",", zone="-1130"),
    ],
)
def test_an_example_shows_the_format(form):
    assert format_of(example_of(form)) == form


def learned(storage, *cells):
    """What is known about a column after such cells were read."""
    return Learned(storage, column_of(cells).read().columns[0].example)


OTHER = Learned("text")  # of the second column


@pytest.mark.parametrize(("shown", "second"), [("31/01/2024", 2678400.0), ("01/31/2024", 86400.0)])
def test_ambiguous_dates_are_read_as_learned(shown, second):
    document = column_of(["01/01/1970", "01/02/1970", "02/02/1970", ""])
    assert document.read().columns[0].storage == "text"
    reading = document.read(like=[learned("time", shown), OTHER])
    column = reading.columns[0]
    assert column.storage == "time"
    assert column.values.tolist()[:2] == [0.0, second]
    assert reading.ambiguous == ("name",)
    assert patched_texts(reading, 0, Cells(np.array([3]), np.zeros(1)))[3] == "01/01/1970"


@pytest.mark.parametrize("cells", [["31/01/2024", "01/31/2024"], ["01/02/2024", "soon"]])
def test_what_does_not_fit_the_learned_order_stays_text(cells):
    reading = column_of(cells).read(like=[learned("time", "31/01/2024"), OTHER])
    assert reading.columns[0].storage == "text"
    assert reading.ambiguous == ()


def test_dates_that_show_their_order_need_not_be_as_learned():
    reading = column_of(["01/31/2024"]).read(like=[learned("time", "31/01/2024"), OTHER])
    assert reading.columns[0].values.tolist() == [JAN_31]
    assert reading.ambiguous == ()


def test_what_was_learned_as_text_stays_text():
    """Zip codes of rows without leading zeros."""
    reading = column_of(["98765", "", "12345"]).read(like=[Learned("text"), OTHER])
    column = reading.columns[0]
    assert (column.storage, column.levels, column.whole) == ("text", ("12345", "98765"), False)
    np.testing.assert_array_equal(column.values, [1, np.nan, 0])
    cells = Cells(np.array([1]), np.array(["01234"], object))
    assert patched_texts(reading, 0, cells) == ["98765", "01234", "12345"]


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
    assert fill_texts(["", "NA"], [value, value], [learned(storage, *cells)]) == [text, text]


def test_the_decimal_comma_is_learned_too():
    comma = Learned("number", open_text(b"a;b\n1,50;2\n").read().columns[0].example)
    document = open_text(b"a;b\n1,000;2\n;3\n")  # alone, a thousand
    assert document.read().columns[0].storage == "text"
    reading = document.read(like=[comma, comma])
    assert reading.columns[0].values.tolist()[0] == 1.0
    assert filled(document, 0, [2.5], [comma, comma]) == b"a;b\n1,000;2\n2,500;3\n"
    # A column that is read as learned does not show the mark of the file.
    document = open_text(b"a;b\n1,000;\n2,000;\n")
    assert filled(document, 1, [0.5, 2.5], [comma, comma]) == b"a;b\n1,000;0,50\n2,000;2,50\n"
    document = open_text(b"a;b;c\n;;2\n")
    assert filled(document, 1, [2.5], [comma] * 3) == b"a;b;c\n;2,50;2\n"
    document = open_text(b"a;b\n;2.5\n")  # the mark that a file shows counts
    assert filled(document, 0, [2.5], [comma] * 2) == b"a;b\n2.50;2.5\n"


def test_missing_words_are_counted():
    table = open_text(b'a,b\nNA,x\n"", ? \n-,"NA"\n1,None\n')
    assert table.read().missing_words() == {"NA": 2, "": 1, "?": 1, "-": 1, "None": 1}
    assert table.read().columns[0].storage == "number"
    other = open_text(b"a,b\n-,x\n1,y\n", na_words=["x"])
    assert other.read().missing_words() == {"x": 1}
    assert other.read().columns[0].storage == "text"


@pytest.mark.parametrize("word", DEFAULT_NA)
def test_every_default_word_is_missing(word):
    column = column_of(["1.5", word, f' "{word}" ', "2"]).read().columns[0]
    np.testing.assert_array_equal(column.missing, [False, True, True, False])
    assert column.storage == "number"


@pytest.mark.parametrize("value", [-999, -999.0, "-999", "-999.00"])
def test_missing_values_are_compared_as_text_and_all_numbers(value):
    column = column_of(["1.5", "-999", "-999.00"]).read((value,)).columns[0]
    np.testing.assert_array_equal(column.values, [1.5, np.nan, np.nan])
    dates = column_of(["2024-01-31", "-999"]).read((value,)).columns[0]
    assert dates.storage == "time"


def test_missing_values_do_not_shape_the_column():
    table = column_of(["1", "2", "-9.0", "unknown", "2"])
    assert table.read().columns[0].storage == "text"
    column = table.read((-9, "unknown")).columns[0]
    assert (column.storage, column.whole) == ("number", True)
    cells = Cells(np.flatnonzero(column.missing), np.array([4.4, 5.6]))
    reading = table.read((-9, "unknown"))
    assert patched_texts(reading, 0, cells) == ["1", "2", "4", "6", "2"]


def test_a_column_without_values_is_of_numbers():
    column = column_of(["", "NA"]).read().columns[0]
    assert (column.storage, column.n_observed) == ("number", 0)
    assert np.isnan(column.values).all()


def test_a_table_without_rows():
    table = open_text(b"a,b\n")
    assert table.n_rows == 0
    assert table.read().columns[0].values.shape == (0,)
    assert table.read().patched({}) == b"a,b\n"


@pytest.mark.parametrize("cell", ["1" * 100_000, "1" * 100_000 + "x", "0." + "1" * 100_000])
def test_a_hundred_thousand_digits_in_a_cell_take_linear_time(cell):
    start = time.perf_counter()
    fill_texts([cell, *[""] * 2000], [1.5] * 2000)
    # It takes 0.1 s.
    assert time.perf_counter() - start < 5


NUMBER = st.from_regex(
    r"[+-]?([1-9]\d{0,3}\.?\d{0,3}|0?\.\d{1,3})([eE][+-]?\d{1,2})?", fullmatch=True
)


@settings(max_examples=300, deadline=None)
@given(st.lists(NUMBER.filter(str.isascii), min_size=1, max_size=6))
def test_numbers_are_those_of_python(cells):
    column = column_of([*cells, "", "5"]).read((5,)).columns[0]
    expected = [np.nan if float(cell) == 5 else float(cell) for cell in cells]
    np.testing.assert_array_equal(column.values, [*expected, np.nan, np.nan])
    shown = [cell for cell, value in zip(cells, expected, strict=True) if value == value]
    assert column.whole == (bool(shown) and all(c.lstrip("+-").isdecimal() for c in shown))


PLAIN = (
    st.integers(-(10**20), 10**20).map(str)  # beyond 2**53 too
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.floats(-1e3, 1e3).map("{:+.3f}".format)
    | st.sampled_from(["0", "-0", "5.", ".5", "+0E5", "1e400", "1e-400", " 7\t", "-9.0"])
)
ABSENT = st.sampled_from(["", "NA", " NA ", "-9", "-1", "007", "1,5", "\u00e9"])
OTHER_CELLS = st.text('0159+-eE., \t"_naif\u0661\u00e9', max_size=5) | st.sampled_from(
    ["007", "-01", "00.5", "01e2", "inf", "-Infinity", "nan", "1,000", "0.1.2", "1" * 40, "true"]
    + ['"5"', '" 7 "', '"NA"', '"""NA"""', "2024-01-31", "08:15"]
)
COLUMNS = st.sampled_from([PLAIN, PLAIN | ABSENT, PLAIN | ABSENT | OTHER_CELLS])
KNOWN = [None, *(Known("number", format_of(text)) for text in ("0.50", "0,5"))]


@settings(max_examples=1000, deadline=None)
@given(
    cells=COLUMNS.flatmap(lambda column: st.lists(column, max_size=6)),
    written=st.sampled_from(".,"),
    mark=st.sampled_from(".,"),
    words=st.sets(ABSENT.map(str.strip) | st.sampled_from(['"NA"', "N", "NA\0"])),
    marks=st.sets(st.sampled_from([-9, 7, 0.5])),
    known=st.sampled_from(KNOWN),
    encoding=st.sampled_from(["utf-8", "latin-1"]),
)
# Words that are in the bytes of a cell, but not its text.
@example(["1", '"NA"'], ".", ".", {'"NA"'}, set(), None, "utf-8")
@example(["1", "\u00c3\u00a9"], ".", ".", {"\u00e9"}, set(), None, "latin-1")
# Rounding errors behind the fifteenth digit, and zeros there, are no digits of a format.
@example(["0.10000000000000001", "12.5"], ".", ".", set(), set(), None, "utf-8")
@example(
    ["-26.695430000000002", "8.0000000000000000", "0.0"], ".", ".", set(), set(), None, "utf-8"
)
def test_numbers_parsed_at_once_are_those_of_each_text(
    cells, written, mark, words, marks, known, encoding
):
    texts = [cell.replace(".", written) for cell in cells]
    if encoding == "latin-1":
        texts = [text.replace("\u0661", "") for text in texts]
    lines = "".join(f"{text}|x\n" for text in ["name", *texts]).encode(encoding)
    try:
        document = open_text(lines, delimiter="|", encoding=encoding)
    except DataError:  # a quote that is never closed
        reject()
    missing = Missing(frozenset(words)).also(tuple(marks))
    at_once = plain_numbers("name", document.data, document.fields(0), missing, mark, known)
    if at_once is None:
        return
    each = parse_column("name", document.cells(0), missing, mark, known=known)
    assert at_once[1:] == each[1:]
    for field in dataclasses.fields(Column):
        one, other = (getattr(parsed.column, field.name) for parsed in (at_once, each))
        if isinstance(one, np.ndarray):
            assert one.tobytes() == other.tobytes()  # the sign of -0 too
        else:
            assert one == other


@given(cells=st.lists(PLAIN, min_size=1, max_size=6))
def test_plain_numbers_are_parsed_at_once_unless_text_was_learned(cells):
    document = column_of(cells)
    arguments = "name", document.data, document.fields(0), Missing(frozenset()), "."
    assert plain_numbers(*arguments) is not None
    assert plain_numbers(*arguments, Known("text", format_of(""))) is None
