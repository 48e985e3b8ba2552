"""What every document promises, on columns of every type that a file can have."""

import datetime
import io
from typing import Any, NamedTuple

import numpy as np
import openpyxl
import pytest

from miwae.columns import Cells
from miwae.documents._excel import open_excel
from miwae.documents._opening import open_text

HOLE = 1
NAN = float("nan")


class Expected(NamedTuple):
    """What a column reads as, a value for the missing cell, and the cell that it becomes."""

    storage: str
    values: tuple[float, ...]
    fill: Any = None
    cell: Any = None
    levels: tuple[Any, ...] = ()
    whole: bool = False


def number(fill, cell, *, values=(1.0, NAN, 3.0, 4.0), whole=False):
    return Expected("number", values, fill, cell, whole=whole)


def text(*, levels=("a", "b")):
    """`levels[1], missing, levels[0], levels[1]`, filled with the last level."""
    return Expected("text", (1.0, NAN, 0.0, 1.0), levels[-1], levels[-1], levels)


def time(fill, cell, *, values=(1577836800.0, NAN, 1577923200.0, -86400.0)):
    return Expected("time", values, fill, cell)


def span(fill, cell):
    return Expected("duration", (1.5, NAN, 86400.0, -2.0), fill, cell)


def clock(fill, cell):
    return Expected("clock", (3600.0, NAN, 1.0, 86399.0), fill, cell)


BOOLEAN = Expected("boolean", (1.0, NAN, 0.0, 1.0), 1.0, True)

FLAGS = [True, None, False, True]
WORDS = ["b", None, "a", "b"]
INTEGERS = [1, None, 3, 4]
FLOATS = [1.0, None, 3.0, 4.0]
DATES = [datetime.date(2020, 1, 1), None, datetime.date(2020, 1, 2), datetime.date(1969, 12, 31)]
INSTANTS = [day and datetime.datetime(day.year, day.month, day.day) for day in DATES]
SPANS = [datetime.timedelta(seconds=seconds) for seconds in (1.5, 0, 86400, -2)]
SPANS[HOLE] = None
CLOCKS = [datetime.time(1), None, datetime.time(0, 0, 1), datetime.time(23, 59, 59)]


# A noon in winter, in seconds and otherwise.
NOON = 1577880000.0
NOON_INSTANT = datetime.datetime(2020, 1, 1, 12)


def text_document():
    """Cells as people write them, in quotes or not, with several words for nothing."""
    columns = [
        ["1.0", "", "3.0", "4.0"],
        ["1", "NA", "3", "4"],
        ["1", "?", "3e0", "4.0"],
        [" 1.00 ", " ", "3", "4.0"],
        ['"1.0"', '""', '"3.0"', '"4.0"'],
        ["true", "", "false", "true"],
        ["TRUE", "NA", "FALSE", "TRUE"],
        ["b", "", "a", "b"],
        ['"b, c"', '""', '"a ""quoted"""', '"b, c"'],
        ["02", "NA", "01", "02"],
        ["2020-01-01", "", "2020-01-02", "1969-12-31"],
        ["1.1.2020", "", "2.1.2020", "31.12.1969"],
        ["2020-01-01 01:00+01:00", "", "2020-01-02 01:00+01:00", "1969-12-31 01:00+01:00"],
        ["01:00:00", "", "00:00:01", "23:59:59"],
        ["1:00:00 AM", "", "12:00:01 AM", "11:59:59 PM"],
        ["", "NA", "?", "-"],
    ]
    names = ",".join(["plain", '"quo,ted"', *(f"c{i}" for i in range(2, len(columns)))])
    lines = [",".join(row) for row in zip(*columns, strict=True)]
    return open_text("\r\n".join([names, *lines]).encode())


TEXT = [
    number(2.54, "2.5"),
    number(2.6, "3", whole=True),
    number(2.54, "2.54"),
    number(2.546, "2.55"),
    number(2.54, "2.5"),
    BOOLEAN._replace(cell="true"),
    BOOLEAN._replace(cell="TRUE"),
    text(),
    text(levels=('a "quoted"', "b, c")),
    text(levels=("01", "02")),
    time(NOON + 1, "2020-01-02"),
    time(NOON + 1, "2.1.2020"),
    time(NOON + 31, "2020-01-01 13:01+01:00"),
    clock(43201.4, "12:00:01"),
    clock(1e9, "11:59:59 PM"),
    number(1 / 3, "0.333333", values=(NAN, NAN, NAN, NAN)),
]


def excel_document():
    columns = [
        FLOATS,
        [1.5, "#N/A", 3.0, 4.5],
        INTEGERS,
        FLAGS,
        WORDS,
        ["b", "NA", 2, "b"],
        INSTANTS,
        [instant and instant.replace(hour=12) for instant in INSTANTS],
        CLOCKS,
        SPANS,
        [None] * 4,
    ]
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    sheet.append([f"c{i}" for i in range(len(columns))])
    for row in zip(*columns, strict=True):
        sheet.append(row)
    out = io.BytesIO()
    book.save(out)
    return open_excel(out.getvalue())


EXCEL = [
    number(2.6, 3, whole=True),  # sheets do not tell 1.0 from 1
    number(2.5, 2.5, values=(1.5, NAN, 3.0, 4.5)),
    number(2.6, 3, whole=True),
    BOOLEAN,
    text(),
    text(levels=(2, "b")),
    time(NOON + 1, datetime.datetime(2020, 1, 2)),
    time(NOON + 0.4, NOON_INSTANT, values=(NOON, NAN, NOON + 86400, -43200.0)),
    clock(2.5, datetime.time(0, 0, 2, 500000)),
    span(2.5, datetime.timedelta(seconds=2.5)),
    number(2.5, 2.5, values=(NAN, NAN, NAN, NAN)),
]


DOCUMENTS = {"text": text_document, "excel": excel_document}
EXPECTED = {"text": TEXT, "excel": EXCEL}

every_document = pytest.mark.parametrize("kind", list(DOCUMENTS))
every_column = pytest.mark.parametrize(
    ("kind", "position"), [(kind, i) for kind in EXPECTED for i in range(len(EXPECTED[kind]))]
)


def cells_of(expected, row=HOLE):
    values = np.empty(1, object if expected.levels else np.float64)
    values[:] = expected.fill
    return Cells(np.array([row]), values)


def shown(reading, cells=None):
    """All cells as the file has them."""
    return [list(column) for column in reading.frame(cells or {}, as_text=True).columns]


def reopened(content, kind):
    return (open_text if kind == "text" else open_excel)(content).read()


@every_column
def test_a_column_reads_as_what_it_holds(kind, position):
    expected, document = EXPECTED[kind][position], DOCUMENTS[kind]()
    column = document.read().columns[position]
    assert column.storage == expected.storage
    assert column.values.dtype == np.float64
    np.testing.assert_array_equal(column.values, expected.values)
    np.testing.assert_array_equal(column.missing, np.isnan(expected.values))
    assert column.levels == expected.levels
    assert [type(level) for level in column.levels] == [type(level) for level in expected.levels]
    assert (column.ordered, column.whole) == (False, expected.whole)
    assert column.name == document.names[position]
    assert column.dtype
    assert not column.typed


@every_column
def test_only_the_given_cell_changes(kind, position):
    reading, expected = DOCUMENTS[kind]().read(), EXPECTED[kind][position]
    cells = {position: cells_of(expected)}
    before = shown(reading)
    after = shown(reading, cells)
    assert after[position][HOLE] == expected.cell
    assert type(after[position][HOLE]) is type(expected.cell)
    assert shown(reopened(reading.patched(cells), kind)) == after
    after[position][HOLE] = before[position][HOLE]
    assert after == before
    assert shown(reading) == before  # nothing in place


@every_document
def test_patched_cells_read_as_what_they_were_patched_with(kind):
    cells = {i: cells_of(expected) for i, expected in enumerate(EXPECTED[kind])}
    again = reopened(DOCUMENTS[kind]().read().patched(cells), kind)
    for column, expected in zip(again.columns, EXPECTED[kind], strict=True):
        assert not column.missing[HOLE]
        if expected.levels:
            assert column.levels[int(column.values[HOLE])] == expected.fill
        else:
            others = np.arange(4) != HOLE
            np.testing.assert_array_equal(column.values[others], np.array(expected.values)[others])
    # Only rounding is between what goes in and what comes out.
    twice = reopened(again.patched(cells), kind)
    for one, two in zip(again.columns, twice.columns, strict=True):
        np.testing.assert_array_equal(one.values, two.values)


@every_document
def test_values_go_in_as_they_came_out(kind):
    """Every observed cell, written again from its neutral form, is the same cell."""
    reading = DOCUMENTS[kind]().read()
    cells = {}
    for i, column in enumerate(reading.columns):
        if column.n_observed < 2:
            continue
        row = np.flatnonzero(~column.missing)[:1]  # the others show the type of Python objects
        value = column.values[row]
        if column.levels:
            value = np.array([column.levels[int(value[0])]], object)
        cells[i] = Cells(row, value)
    again = reopened(reading.patched(cells), kind)
    for one, two in zip(reading.columns, again.columns, strict=True):
        np.testing.assert_array_equal(one.values, two.values)


@every_document
def test_reading_and_patching_are_pure(kind):
    """The same patch gives the same cells, whatever was called before, on columns or on files."""
    cells = {i: cells_of(expected) for i, expected in enumerate(EXPECTED[kind])}
    expected = shown(DOCUMENTS[kind]().read(), cells)
    document = DOCUMENTS[kind]()
    reading = document.read()
    document.read(marks=(1, 3.0, "b", "2.5"), like=reading.columns).patched(cells)
    reading.patched({})
    reading.frame(cells)
    assert shown(reading, cells) == expected
    assert shown(document.read(), cells) == expected
