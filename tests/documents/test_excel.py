"""Excel: only empty cells are filled; formats, formulas and other sheets stay."""

import datetime
import io
import zipfile

import numpy as np
import openpyxl
import pyarrow as pa
import pytest
from pyarrow import parquet

from miwae.columns import Cells
from miwae.documents import open_document, write
from miwae.documents._excel import open_excel
from miwae.documents._opening import open_text
from miwae.errors import DataError, SettingsError


def workbook(change=lambda book: None):
    """A sheet with formats, a formula and holes, and another sheet."""
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    day = datetime.datetime(2024, 1, 31)
    sheet.append(["a", "b", "day", None, "flag"])
    sheet.append([1, "x", day, 0.5, True])
    sheet.append([None, "NA", None, None, None])
    sheet.append([3, "y", day, 1.5, False])
    sheet["A2"].font = openpyxl.styles.Font(bold=True)
    sheet["A2"].number_format = "0.000"
    book.create_sheet("other")["B7"] = "=1+1"
    change(book)
    return saved(book)


def saved(book):
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def opened(content):
    return openpyxl.load_workbook(io.BytesIO(content))


def test_excel_columns():
    document = open_excel(workbook())
    assert (document.names, document.n_rows) == (("a", "b", "day", "Unnamed: 3", "flag"), 3)
    columns = document.read().columns
    kinds = [column.storage for column in columns]
    assert kinds == ["number", "text", "time", "number", "boolean"]
    for column in columns:
        assert column.missing.tolist() == [False, True, False]
        assert not column.typed
    assert columns[2].values[0] == 19753 * 86400
    assert columns[0].whole


def test_marks_are_missing():
    columns = open_excel(workbook()).read((3, "x")).columns
    assert columns[0].missing.tolist() == [False, True, True]
    assert columns[1].missing.tolist() == [True, True, False]


ROW = np.array([1])


def test_excel_fills_only_holes(tmp_path):
    path = str(tmp_path / "t.xlsx")
    (tmp_path / "t.xlsx").write_bytes(workbook())
    cells = {
        0: Cells(ROW, np.array([1.7])),
        1: Cells(ROW, np.array(["y"], dtype=object)),
        2: Cells(ROW, np.array([(19754 + 0.3) * 86400])),
        3: Cells(ROW, np.array([0.25])),
        4: Cells(ROW, np.array([1.0])),
    }
    write(open_document(path).read(), path, cells)
    book = openpyxl.load_workbook(path)
    sheet = book.worksheets[0]
    day = datetime.datetime(2024, 1, 31)
    assert list(sheet.values) == [
        ("a", "b", "day", None, "flag"),
        (1, "x", day, 0.5, True),
        (2, "y", day + datetime.timedelta(days=1), 0.25, True),
        (3, "y", day, 1.5, False),
    ]
    assert sheet["A2"].font.bold
    assert sheet["A3"].number_format == "0.000"
    assert sheet["C3"].number_format == sheet["C2"].number_format
    assert book["other"]["B7"].value == "=1+1"
    assert list(opened(workbook()).worksheets[0].values)[2] == (None, "NA", None, None, None)


def uncalculated(book):
    book.worksheets[0]["A3"] = "=A2+1"


def with_results(content):
    """The same workbook, with a stored result for one of two formulas, as Excel writes it."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            data = old.read(name)
            if name == "xl/worksheets/sheet1.xml":
                before = data
                data = data.replace(b"<f>A2+1</f><v />", b"<f>A2+1</f><v>2</v>")
                data = data.replace(b"<f>A2+1</f><v></v>", b"<f>A2+1</f><v>2</v>")
                assert data != before
            new.writestr(name, data)
    return out.getvalue()


def test_formulas_are_never_overwritten():
    def change(book):
        uncalculated(book)
        book.worksheets[0]["D3"] = '=IF(TRUE,"",1)'

    reading = open_excel(with_results(workbook(change))).read()
    assert reading.columns[0].values.tolist() == [1, 2, 3]
    assert reading.columns[3].missing.tolist() == [False, True, False]
    cells = {j: Cells(ROW, np.array([9.0])) for j in (0, 3)}
    sheet = opened(reading.patched(cells)).worksheets[0]
    assert sheet["A3"].value == "=A2+1"
    assert sheet["D3"].value == '=IF(TRUE,"",1)'
    assert reading.frame(cells).columns[3].tolist() == [0.5, None, 1.5]


def test_formulas_without_results_are_refused():
    with pytest.raises(DataError, match="A3.*open the file in Excel"):
        open_excel(workbook(uncalculated))


def test_merged_cells_stay():
    def merge(book):
        book.worksheets[0].merge_cells("A2:A3")

    reading = open_excel(workbook(merge)).read()
    sheet = opened(reading.patched({0: Cells(ROW, np.array([9.0]))})).worksheets[0]
    assert sheet["A3"].value is None
    assert [str(area) for area in sheet.merged_cells.ranges] == ["A2:A3"]


def test_cells_that_cannot_be_filled_are_named():
    def change(book):
        uncalculated(book)
        book.worksheets[0]["D3"] = '=IF(TRUE,"",1)'
        book.worksheets[0].merge_cells("B2:B3")

    table = open_excel(with_results(workbook(change)))
    fixed = [{w: np.flatnonzero(f).tolist() for w, f in table.fixed(j).items()} for j in range(5)]
    assert [cells["formulas"] for cells in fixed] == [[1], [], [], [1], []]
    assert [cells["parts of merged cells"] for cells in fixed] == [[], [1], [], [], []]


@pytest.mark.parametrize(
    ("storage", "value", "cell"),
    [
        ("time", 0.0, datetime.datetime(1970, 1, 1)),
        ("duration", 90.0, datetime.timedelta(seconds=90)),
        ("clock", 90.0, datetime.time(0, 1, 30)),
        ("boolean", 1.0, True),
        ("number", 0.5, 0.5),
    ],
)
def test_a_column_without_values_gets_cells_of_its_kind(storage, value, cell):
    book = openpyxl.Workbook()
    for row in (["a", "b"], [None, 1], [None, 2]):
        book.worksheets[0].append(row)
    cells = {0: Cells(np.arange(2), np.full(2, value), storage=storage)}
    frame = open_excel(saved(book)).read().frame(cells)
    assert frame.columns[0].tolist() == [cell, cell]


def test_a_table_that_starts_elsewhere():
    book = openpyxl.Workbook()
    sheet = book.worksheets[0]
    for place, value in {"C3": "a", "D3": "b", "C4": 1, "D5": 2, "C6": 4, "F9": None}.items():
        sheet[place] = value
    sheet["D9"].number_format = "0.0"  # touched, but empty
    table = open_excel(saved(book))
    assert (table.names, table.n_rows) == (("a", "b"), 3)
    cells = {1: Cells(np.array([0, 2]), np.array([7.0, 8.0]))}
    sheet = opened(table.read().patched(cells)).worksheets[0]
    assert [sheet[f"D{i}"].value for i in range(3, 8)] == ["b", 7, 2, 8, None]


@pytest.mark.parametrize(
    ("rows", "message"), [([], "sheet .Sheet. is empty"), ([["a", "b", "a"]], "'a'")]
)
def test_sheets_that_are_no_tables(rows, message):
    book = openpyxl.Workbook()
    for row in rows:
        book.worksheets[0].append(row)
    with pytest.raises(DataError, match=message):
        open_excel(saved(book))


def test_text_becomes_a_workbook(tmp_path):
    path = str(tmp_path / "t.xlsx")
    day, clock = datetime.datetime(2024, 1, 31), datetime.time(8, 15, 1, 700_000)
    data = (
        b"number,flag,day,instant,clock,text\n"
        b"0.5,true,2024-01-31,2024-01-31T10:00:00+02:00,8:15:01.7,x\n"
        b",,,,,\n"
        b"1,false,2024-02-29,2024-01-31T10:00:00.25Z,23:59:30,007\n"
    )
    write(open_text(data).read(), path)
    rows = list(openpyxl.load_workbook(path).worksheets[0].values)
    assert rows[1] == (0.5, True, day, day.replace(hour=8), clock, "x")
    assert rows[2] == (None,) * 6
    assert rows[3][3:] == (
        day.replace(hour=10, microsecond=250_000),
        datetime.time(23, 59, 30),
        "007",
    )


def test_a_workbook_becomes_text(tmp_path):
    (tmp_path / "t.xlsx").write_bytes(workbook())
    write(open_document(str(tmp_path / "t.xlsx")).read(), str(tmp_path / "t.csv"))
    assert (tmp_path / "t.csv").read_bytes() == (
        b"a,b,day,Unnamed: 3,flag\n1,x,2024-01-31,0.5,true\n,,,,\n3,y,2024-01-31,1.5,false\n"
    )


def test_excel_and_arrow(tmp_path):
    source, path, again = (str(tmp_path / name) for name in ("t.xlsx", "t.parquet", "u.xlsx"))
    (tmp_path / "t.xlsx").write_bytes(workbook())
    before = open_document(source).read()
    write(before, path)
    native = parquet.read_table(path)
    assert native.column("a").to_pylist() == [1, None, 3]
    assert native.column("flag").to_pylist() == [True, None, False]
    write(open_document(path).read(), again)
    for old, new in zip(before.columns, open_document(again).read().columns, strict=True):
        np.testing.assert_array_equal(new.values, old.values)


def test_nanoseconds_become_microseconds(tmp_path):
    path = str(tmp_path / "t.xlsx")
    times = {
        "instant": pa.array([1_500_000_001], pa.timestamp("ns", "Europe/Paris")),
        "span": pa.array([90_000_000_001], pa.duration("ns")),
        "clock": pa.array([1_000_000_001], pa.time64("ns")),
    }
    parquet.write_table(pa.table(times), tmp_path / "t.parquet")
    write(open_document(str(tmp_path / "t.parquet")).read(), path)
    values = [column.values[0] for column in open_document(path).read().columns]
    assert values == [1.5, 90.0, 1.0]


def test_a_column_of_several_types_is_no_parquet(tmp_path):
    book = openpyxl.Workbook()
    for row in [["a"], [1], ["x"]]:
        book.worksheets[0].append(row)
    with pytest.raises(DataError, match="column 'a' holds cells of several types"):
        write(open_excel(saved(book)).read(), str(tmp_path / "t.parquet"))


def test_rows_are_counted_as_excel_counts_them():
    def moved(book):
        book.worksheets[0].insert_rows(1, 3)

    document = open_excel(workbook(moved))
    assert document.row_word == "row"
    assert document.row_numbers().tolist() == [5, 6, 7]
    assert document.read().columns[0].place(2) == "row 7"


def with_a_note(book):
    book.create_sheet("read me", 0).append(["Measured by hand in May."])
    book.worksheets[0].append(["Weights are in g."])


def test_a_sheet_is_chosen_by_name_or_number():
    content = workbook(with_a_note)
    for sheet in ("Sheet", "2"):
        document = open_excel(content, sheet=sheet)
        assert document.names[:2] == ("a", "b")
        assert (document.sheets, document.remark) == (("read me", "Sheet", "other"), "")
    with pytest.raises(SettingsError, match="'5' is not in the workbook; its sheets are read me"):
        open_excel(content, sheet="5")


def test_cells_of_the_chosen_sheet_are_filled():
    reading = open_excel(workbook(with_a_note), sheet="Sheet").read()
    content = reading.patched({0: Cells(np.array([1]), np.array([2.0]))})
    book = openpyxl.load_workbook(io.BytesIO(content))
    assert book["Sheet"]["A3"].value == 2
    assert book["read me"]["A1"].value == "Measured by hand in May."


def test_a_note_before_the_table_is_pointed_out():
    document = open_excel(workbook(with_a_note))
    assert document.sheet == "read me"
    assert document.remark.endswith("and 'Sheet' like a table: --sheet Sheet")
    assert open_excel(workbook()).remark == ""
    empty = workbook(lambda book: book.create_sheet("cover", 0))
    with pytest.raises(DataError, match="'cover' is empty; the first sheet .* --sheet Sheet"):
        open_excel(empty)


def test_other_files_have_no_sheets(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"a,b\n1,2\n")
    with pytest.raises(SettingsError, match="sheet is for Excel"):
        open_document(str(tmp_path / "t.csv"), sheet="1")
