"""Text files that are completed by what was learned from other text files."""

import datetime

import numpy as np
import pytest

from imputer.tables import CHEAP
from miwae.columns import infer_schema
from miwae.documents._opening import open_text
from miwae.tabular import EncodedTable, FittedTable, TableSettings

SETTINGS = TableSettings(**{k: v for k, v in CHEAP.items() if k != "random_state"})


def reading_of(header, *rows, like=None):
    return open_text("\n".join([header, *rows, ""]).encode()).read(like=like)


def learned(header, *rows, **options):
    columns = reading_of(header, *rows).columns
    schema = infer_schema(columns, **options)
    return FittedTable.fit(EncodedTable.of(schema, columns), SETTINGS)


def completed(fitted, header, *rows):
    """The texts of each column after imputation."""
    reading = reading_of(header, *rows, like=fitted.schema.columns)
    imputed = fitted.means(fitted.encoded(reading.columns))
    return [list(column) for column in reading.frame(imputed.cells, as_text=True).columns]


@pytest.fixture(scope="module")
def dated(tmp_path_factory):
    """Learned from days that are written first, flags in capitals and decimals; from its file."""
    rows = ["31/01/2024,TRUE,0.3,1", "02/02/2024,FALSE,2.5,2", "09/02/2024,,1.5,4", ",TRUE,2.0,3"]
    path = tmp_path_factory.mktemp("dated") / "model"
    learned("when,flag,size,n", *rows).save(path)
    return FittedTable.load(path)[0]


def test_ambiguous_dates_are_read_as_they_were_learned(dated):
    header = "when,flag,size,n"
    when, flag, _, _ = completed(dated, header, "01/02/2024,,1.0,2", ",TRUE,1.0,2")
    assert when[0] == "01/02/2024"
    assert flag[0] in {"TRUE", "FALSE"}
    day, month, year = when[1].split("/")
    assert (month, year) in {("01", "2024"), ("02", "2024")}
    assert 1 <= int(day) <= 31
    # The first of February, written otherwise, is the same to the model.
    scores = [
        dated.log_prob(
            dated.encoded(reading_of(header, row, like=dated.schema.columns).columns)
        ).tolist()
        for row in ("2024-02-01,,1.0,2", "01/02/2024,,1.0,2")
    ]
    assert scores[0] == scores[1]


def test_a_single_row_is_completed_as_the_table_was_written(dated):
    ((when,), (flag,), (size,), (n,)) = completed(dated, "when,flag,size,n", ",,,2")
    assert datetime.datetime.strptime(when, "%d/%m/%Y").year == 2024
    assert flag in {"TRUE", "FALSE"}
    assert len(size.partition(".")[2]) == 1
    assert n == "2"


def test_words_that_look_like_numbers_stay_words():
    rows = ["01234,1.0", "20095,", ",3.5", "01234,1.5", "20095,2.5", "33000,4.0"]
    fitted = learned("zip,size", *rows * 3, column_kinds={"zip": "categorical"})
    zips, _ = completed(fitted, "zip,size", "20095,", "33000,2.0", ",2.5")
    assert zips[:2] == ["20095", "33000"]
    assert zips[2] in {"01234", "20095", "33000"}


def test_times_of_day_are_completed_within_the_day():
    rows = ["8:15 AM,1.0", "9:05 AM,1.5", ",5.0", "11:30 PM,4.5", "11:58 PM,4.9", "10:20 AM,2.0"]
    fitted = learned("start,x", *rows)
    (late, given), _ = completed(fitted, "start,x", ",90.0", "08:15:00,1.0")
    assert given == "08:15:00"
    assert late.endswith(":00")  # whole minutes, as this file writes them
    assert completed(fitted, "start,x", ",90.0")[0] == ["11:59 PM"]


def test_written_numbers_stay_within_their_bounds():
    rows = [f"{value},{i % 3}.25" for i, value in enumerate(["-0.7", "0.3", "0.3", "0.2"] * 2)]
    rows += [",0.25", ",1.25", ",2.25"]
    fitted = learned("level,x", *rows, bounds={"level": (None, 0.36)})
    reading = reading_of("level,x", *rows, like=fitted.schema.columns)
    copies, _ = fitted.draws(fitted.encoded(reading.columns), 20)
    drawn = np.concatenate([cells[0].values for cells in copies])
    written = [
        float(text) for cells in copies for text in reading.frame(cells, as_text=True).columns[0]
    ]
    assert drawn.max() > 0.35
    assert max(written) == 0.3  # which 0.36, the largest draw, is not when it is rounded
